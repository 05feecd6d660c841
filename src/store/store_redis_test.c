// What only a store in Redis has: sealed values, passwords, a server that is not there, jobs that are over.
#include "store/store_redis.h"

#include "net/env_os.h"
#include "store/store_internal.h"
#include "testing/encrypted.h"
#include "testing/redis_server.h"
#include "testing/testing.h"

#include <stdio.h>
#include <string.h>

#define SECOND INT64_C(1000000000)

static env *e;

static void enter(void) {
    assert_int_equal(env_os_open(&e, NULL), GW_OK);
    env_enter(e);
}

static void leave(void) {
    env_leave(e);
    env_close(e);
}

static store *open_store(const redis_server *r, const char *password) {
    store *st = NULL;
    gw_error error;
    if (store_open_redis(e, r->url, password, &st, &error)) fail_msg("%s", error.text);
    return st;
}

static bool set(store *st, const char *key, const char *value) {
    bool is_set = false;
    gw_error error;
    int64_t until_ns = env_now_ns(e) + 10 * SECOND;
    if (store_set_if_absent(st, key, value, strlen(value), until_ns, &is_set, NULL, &error))
        fail_msg("%s", error.text);
    return is_set;
}

static gw_status read(store *st, const char *key, char out[64], gw_error *error) {
    bytes value = { 0 };
    gw_status status = store_wait(st, key, env_now_ns(e), &value, error);
    snprintf(out, 64, "%.*s", (int)value.size, value.data ? (char *)value.data : "");
    bytes_fini(&value);
    return status;
}

// All that Redis keeps, as it is.
static bytes raw(const redis_server *r, const char *hash) {
    redis_place place;
    redis_line l = { .place = &place };
    redis_answer answer;
    const void *words[] = { "HGETALL", hash };
    const size_t sizes[] = { 7, strlen(hash) };
    assert_int_equal(redis_place_of(r->url, &place, NULL), GW_OK);
    assert_int_equal(redis_call(&l, words, sizes, 2, &answer, NULL), GW_OK);
    redis_line_close(&l);
    return answer.data;
}

static void redis_urls_are_parsed(void **state) {
    (void)state;
    static const char *const wrong[] = {
        "redis://",   "redis://a:x",   "redis://a:1/x",   "redis://[::1",       "redis://[::1]x",
        "redis://:1", "redis://a:b:1", "redis://a:65536", "redis://me:word@a:1"
    };
    redis_place p;
    gw_error error;
    assert_int_equal(redis_place_of("redis://db.example:7000/2", &p, &error), GW_OK);
    assert_string_equal(p.host, "db.example");
    assert_int_equal(p.port, 7000);
    assert_int_equal(p.database, 2);
    assert_int_equal(redis_place_of("redis://[fd00::1]", &p, &error), GW_OK);
    assert_string_equal(p.host, "fd00::1");
    assert_int_equal(p.port, 6379);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(redis_place_of(wrong[i], &p, &error), GW_INVALID);
}

static void with_a_key_redis_gets_sealed_values_only(void **state) {
    (void)state;
    char value[64];
    gw_error error;
    enter();
    redis_server r = redis_server_start(NULL);
    protection mine = encrypted_worker("a", 1), other = encrypted_worker("b", 2);
    e->protection = &mine;
    store *st = open_store(&r, NULL);
    assert_true(set(st, "who", "the trainer"));
    assert_false(set(st, "who", "another"));
    assert_int_equal(read(st, "who", value, &error), GW_OK);
    assert_string_equal(value, "the trainer");
    bytes all = raw(&r, "gradwire:test");
    assert_non_null(memmem(all.data, all.size, "who", 3));
    assert_null(memmem(all.data, all.size, "trainer", 7));
    bytes_fini(&all);
    e->protection = &other;
    assert_int_equal(read(st, "who", value, &error), GW_MISMATCH);
    assert_non_null(strstr(error.text, "was not written with the key of this job"));
    e->protection = NULL;
    store_close(st);
    protection_fini(&mine);
    protection_fini(&other);
    redis_server_stop(&r);
    leave();
}

static void jobs_of_other_ids_do_not_mix(void **state) {
    (void)state;
    char value[64];
    gw_error error;
    enter();
    redis_server r = redis_server_start(NULL);
    protection monday = { .job = "monday" }, tuesday = { .job = "tuesday" };
    e->protection = &monday;
    store *a = open_store(&r, NULL);
    e->protection = &tuesday;
    store *b = open_store(&r, NULL);
    assert_true(set(a, "rank/0", "a"));
    assert_true(set(b, "rank/0", "b"));
    assert_int_equal(read(a, "rank/0", value, &error), GW_OK);
    assert_string_equal(value, "a");
    e->protection = NULL;
    store_close(a);
    store_close(b);
    redis_server_stop(&r);
    leave();
}

static void a_password_is_required(void **state) {
    (void)state;
    store *st;
    gw_error error;
    enter();
    redis_server r = redis_server_start("open sesame");
    st = open_store(&r, "open sesame");
    assert_true(set(st, "a", "b"));
    store_close(st);
    assert_int_equal(store_open_redis(e, r.url, NULL, &st, &error), GW_INVALID);
    assert_non_null(strstr(error.text, "NOAUTH"));
    assert_int_equal(store_open_redis(e, r.url, "guess", &st, &error), GW_INVALID);
    assert_non_null(strstr(error.text, "WRONGPASS"));
    assert_null(strstr(error.text, "guess"));
    redis_server_stop(&r);
    leave();
}

static void a_job_is_attended_until_its_last_worker_goes(void **state) {
    (void)state;
    enter();
    redis_server r = redis_server_start(NULL);
    store *a = open_store(&r, NULL), *b = open_store(&r, NULL);
    assert_false(store_is_attended(b));
    store_attend(a);
    assert_true(store_is_attended(b));
    assert_false(store_is_attended(a));  // by others
    store_close(a);
    assert_false(store_is_attended(b));
    store_close(b);
    redis_server_stop(&r);
    leave();
}

// The loss of a server is reported within seconds, and does not end the process by a signal.
static void the_loss_of_a_server_is_reported(void **state) {
    (void)state;
    gw_error error;
    char value[64];
    enter();
    redis_server r = redis_server_start(NULL);
    store *st = open_store(&r, NULL);
    assert_true(set(st, "a", "b"));
    redis_server_stop(&r);
    assert_int_equal(read(st, "a", value, &error), GW_DISCONNECTED);
    assert_non_null(strstr(error.text, "Connection refused"));
    store_close(st);
    leave();
}

GW_TESTS(store_redis, redis_urls_are_parsed, with_a_key_redis_gets_sealed_values_only,
         jobs_of_other_ids_do_not_mix, a_password_is_required,
         a_job_is_attended_until_its_last_worker_goes, the_loss_of_a_server_is_reported);
