// Workers that use a Redis server as their store; the test starts Debian's redis-server.
#include "testing/redis_server.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

GW_FUNCTION(redis_double, GW_POOL, "float") {
    return gw_value_of(gw_full(s, GW_F32, 2 * gw_arg_float(s, a, 0), 1));
}

typedef struct member {
    int rank;
    gw_job_kind job;
    const char *url;
    gw_error error;
    pthread_t thread;
} member;

static void call_the_other(gw_scope *root, int rank) {
    gw_watch *w = gw_watch_open(root);
    while (gw_ok(root) && gw_rpc_world_size(root) < 2) gw_watch_next(root, w);
    gw_tensor *y = gw_tensor_of(root, gw_rpc_sync(root, 1 - rank, "redis_double", 21.0));
    assert_true(!gw_ok(root) || gw_item(root, y) == 42);
}

static void *run_member(void *arg) {
    member *m = arg;
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_options o = GW_OPTIONS(gw_rpc_options, .init_method = m->url, .job = m->job);
    if (m->job) {
        o.name = m->rank ? "joined%d" : "founder";
    } else {
        o.rank = m->rank;
        o.world_size = 2;
    }
    gw_rpc_init_with(root, o);
    if (gw_ok(root)) call_the_other(root, m->rank);
    gw_rpc_shutdown(root);
    m->error = gw_scope_close(root);
    return NULL;
}

static void run_two(member *a, member *b) {
    member *both[2] = { a, b };
    b->rank = 1;
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&both[i]->thread, NULL, run_member, both[i]), 0);
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_join(both[i]->thread, NULL), 0);
}

static void workers_join_a_job_in_redis(void **state) {
    (void)state;
    redis_server r = redis_server_start(NULL);
    member a = { .url = r.url }, b = a;
    run_two(&a, &b);
    assert_string_equal(a.error.text, "");
    assert_string_equal(b.error.text, "");
    // The ranks of the job stay taken for another minute.
    member late = { .url = r.url };
    run_member(&late);
    assert_int_equal(late.error.status, GW_DUPLICATE);
    assert_non_null(strstr(late.error.text, "has ended, and is removed within a minute"));
    redis_server_stop(&r);
}

static void workers_join_an_elastic_job_in_redis(void **state) {
    (void)state;
    redis_server r = redis_server_start(NULL);
    member a = { .url = r.url, .job = GW_JOB_CREATE }, b = a;
    b.job = GW_JOB_JOIN;
    run_two(&a, &b);
    assert_string_equal(a.error.text, "");
    assert_string_equal(b.error.text, "");
    redis_server_stop(&r);
}

static void a_password_is_in_a_file(void **state) {
    (void)state;
    redis_server r = redis_server_start("open sesame");
    char path[] = "/tmp/gw-password-XXXXXX";
    int fd = mkstemp(path);
    assert_int_equal(write(fd, "open sesame\n", 12), 12);
    close(fd);
    setenv("GW_REDIS_PASSWORD_FILE", path, 1);
    member a = { .url = r.url }, b = a;
    run_two(&a, &b);
    assert_string_equal(a.error.text, "");
    assert_string_equal(b.error.text, "");
    assert_int_equal(chmod(path, 0644), 0);
    member open = { .url = r.url };
    run_member(&open);
    assert_int_equal(open.error.status, GW_INVALID);
    assert_non_null(strstr(open.error.text, "can be read by other users (mode"));
    unlink(path);
    redis_server_stop(&r);
}

static void a_missing_redis_server_is_named(void **state) {
    (void)state;
    redis_server r = redis_server_start(NULL);
    redis_server_stop(&r);
    member a = { .url = r.url };
    run_member(&a);
    assert_int_equal(a.error.status, GW_DISCONNECTED);
    assert_non_null(strstr(a.error.text, "Connection refused"));
}

GW_TESTS(redis, workers_join_a_job_in_redis, workers_join_an_elastic_job_in_redis,
         a_password_is_in_a_file, a_missing_redis_server_is_named);
