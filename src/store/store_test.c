// Every kind of store: set once, wait, watch, also without memory.
#include "store/store_test.h"

#include "base/log.h"
#include "base/mem.h"
#include "net/env_os.h"
#include "testing/redis_server.h"
#include "testing/sim.h"
#include "testing/testing.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORKERS = 4 };

// What every worker of a job does at its start: claim a key, publish itself, wait for the others.
// The same over every form of the store.
typedef struct worker {
    env *env;
    int rank;
    store *store;
    int64_t timeout_ns;
    const char *address;  // of the host, or the path of the file
    void (*open)(struct worker *w);
    void (*close)(struct worker *w);
    peers *peers;
    struct worker *others;
    _Atomic int *finished;
    bool claimed;
    char claimant[16];
} worker;

static int64_t until(worker *w) {
    return env_now_ns(w->env) + w->timeout_ns;
}

static void meet(worker *w) {
    gw_error error = { 0 };
    char key[32], value[16];
    bytes found = { 0 };
    int size = snprintf(value, sizeof value, "w%d", w->rank);
    gw_status status = store_set_if_absent(w->store, "claim", value, (size_t)size, until(w),
                                           &w->claimed, &found, &error);
    if (status) fail_msg("worker %d: %s", w->rank, error.text);
    snprintf(w->claimant, sizeof w->claimant, "%.*s", w->claimed ? size : (int)found.size,
             w->claimed ? value : (char *)found.data);
    snprintf(key, sizeof key, "worker/%d", w->rank);
    bool is_set = false;
    status =
        store_set_if_absent(w->store, key, value, (size_t)size, until(w), &is_set, NULL, &error);
    if (status) fail_msg("worker %d: %s", w->rank, error.text);
    assert_true(is_set);
    for (int i = 0; i < WORKERS; i++) {
        bytes other = { 0 };
        snprintf(key, sizeof key, "worker/%d", i);
        status = store_wait(w->store, key, until(w), &other, &error);
        if (status) fail_msg("worker %d: %s", w->rank, error.text);
        snprintf(value, sizeof value, "w%d", i);
        assert_int_equal(other.size, strlen(value));
        assert_memory_equal(other.data, value, other.size);
        bytes_fini(&other);
    }
    bytes_fini(&found);
}

static void run_worker(void *arg) {
    worker *w = arg;
    env_enter(w->env);
    w->open(w);
    meet(w);
    // The host goes last: others may still be asking.
    ++*w->finished;
    while (*w->finished < WORKERS) {
        waiter pause = { .what = "the other workers" };
        env_wait(w->env, &pause, env_now_ns(w->env) + 1000 * 1000);
    }
    w->close(w);
    env_leave(w->env);
}

static void check_claims(const worker *workers) {
    int claims = 0;
    for (int i = 0; i < WORKERS; i++) {
        claims += workers[i].claimed;
        assert_string_equal(workers[i].claimant, workers[0].claimant);
    }
    assert_int_equal(claims, 1);
}

// ---- Forms --------------------------------------------------------------------------------------

static void open_at_rank_0(worker *w) {
    gw_error error;
    char bound[ADDRESSES_MAX];
    if (w->rank == 0) {
        assert_int_equal(peers_open(quiet_peers(w->env), w->address, &w->peers, bound, &error), 0);
        assert_int_equal(open_host(w->env, w->peers, &w->store, &error), 0);
    } else if (store_open_client(w->env, w->address, until(w), &w->store, &error)) {
        fail_msg("worker %d: %s", w->rank, error.text);
    }
}

static void close_at_rank_0(worker *w) {
    close_host(w->peers, w->store);
}

static void open_in_file(worker *w) {
    gw_error error;
    if (store_open_file(w->env, w->address, &w->store, &error)) fail_msg("%s", error.text);
}

static gw_status open_redis(env *e, const char *at, store **out, gw_error *error) {
    return store_open_redis(e, at, NULL, out, error);
}

static void open_in_redis(worker *w) {
    gw_error error;
    if (open_redis(w->env, w->address, &w->store, &error)) fail_msg("%s", error.text);
}

static void close_store(worker *w) {
    store_close(w->store);
}

// ---- Meeting ------------------------------------------------------------------------------------
static void meet_in_sim(uint64_t seed, void *context) {
    sim *s = sim_open(seed, *(sim_options *)context);
    worker workers[WORKERS] = { 0 };
    _Atomic int finished = 0;
    for (int i = 0; i < WORKERS; i++) {
        workers[i] = (worker){ .env = sim_env(s, i),
                               .rank = i,
                               .timeout_ns = 100 * SIM_SECOND,
                               .address = "127.0.0.1:29500",
                               .open = open_at_rank_0,
                               .close = close_at_rank_0,
                               .finished = &finished };
        assert_true(sim_spawn(s, i, run_worker, &workers[i]));
    }
    assert_true(sim_run(s, 1000 * SIM_SECOND));
    check_claims(workers);
    for (int i = 0; i < WORKERS; i++) env_close(workers[i].env);
    sim_close(s);
}

static void workers_meet_at_a_host(void **state) {
    (void)state;
    testing_for_seeds(100, meet_in_sim, &(sim_options){ 0 });
}

static void it_repeats_what_a_cut_connection_lost(void **state) {
    (void)state;
    testing_for_seeds(300, meet_in_sim, &(sim_options){ .cut_per_million = 50000 });
}

static void *run_thread(void *arg) {
    run_worker(arg);
    return NULL;
}

// An unused path, in a folder of this test's own.
static void make_path(char out[64]) {
    snprintf(out, 64, "/tmp/gw-store-XXXXXX");
    assert_non_null(mkdtemp(out));
    strncat(out, "/store", 63 - strlen(out));
}

static void remove_path(char path[64]) {
    unlink(path);
    *strrchr(path, '/') = '\0';
    rmdir(path);
}

// Each in an env of its own, as processes have it.
static void meet_in_threads(const char *address, void (*open)(worker *w)) {
    worker workers[WORKERS];
    pthread_t threads[WORKERS];
    _Atomic int finished = 0;
    for (int i = 0; i < WORKERS; i++) {
        gw_error error;
        workers[i] = (worker){ .rank = i,
                               .timeout_ns = 60 * SIM_SECOND,
                               .address = address,
                               .open = open,
                               .close = close_store,
                               .finished = &finished };
        assert_int_equal(env_os_open(&workers[i].env, &error), GW_OK);
        assert_int_equal(pthread_create(&threads[i], NULL, run_thread, &workers[i]), 0);
    }
    for (int i = 0; i < WORKERS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < WORKERS; i++) env_close(workers[i].env);
    check_claims(workers);
}

static void workers_meet_in_a_file(void **state) {
    (void)state;
    char path[64];
    make_path(path);
    meet_in_threads(path, open_in_file);
    remove_path(path);
}

static void workers_meet_in_redis(void **state) {
    (void)state;
    redis_server r = redis_server_start(NULL);
    meet_in_threads(r.url, open_in_redis);
    redis_server_stop(&r);
}

// ---- Limits and files ---------------------------------------------------------------------------
typedef gw_status open_store(env *e, const char *at, store **out, gw_error *error);

static void check_keys_and_values(const char *at, open_store *open) {
    char key[300];
    gw_error error;
    env *e;
    store *st;
    bool is_set;
    assert_int_equal(env_os_open(&e, &error), GW_OK);
    env_enter(e);
    int64_t until_ns = env_now_ns(e) + 10 * SIM_SECOND;
    assert_int_equal(open(e, at, &st, &error), GW_OK);
    assert_int_equal(store_set_if_absent(st, "", "x", 1, until_ns, &is_set, NULL, &error),
                     GW_INVALID);
    memset(key, 'k', sizeof key - 1);
    key[256] = '\0';
    assert_int_equal(store_set_if_absent(st, key, "x", 1, until_ns, &is_set, NULL, &error),
                     GW_INVALID);
    key[255] = '\0';
    assert_int_equal(store_set_if_absent(st, key, "x", 1, until_ns, &is_set, NULL, &error), GW_OK);
    uint8_t *large = mem_calloc(LIMIT_STORE_VALUE_BYTES + 1);
    size_t size = LIMIT_STORE_VALUE_BYTES;
    assert_int_equal(store_set_if_absent(st, "a", large, size + 1, until_ns, &is_set, NULL, &error),
                     GW_LIMIT);
    assert_int_equal(store_set_if_absent(st, "a", large, size, until_ns, &is_set, NULL, &error),
                     GW_OK);
    bytes found = { 0 };
    assert_int_equal(store_wait(st, "a", until_ns, &found, &error), GW_OK);
    assert_int_equal(found.size, size);
    bytes_fini(&found);
    mem_free(large);
    assert_int_equal(store_wait(st, "b", 0, &found, &error), GW_TIMEOUT);
    store_close(st);
    env_leave(e);
    env_close(e);
}

static void it_checks_keys_and_values(void **state) {
    (void)state;
    char path[64];
    make_path(path);
    check_keys_and_values(path, store_open_file);
    remove_path(path);
}

static void it_checks_keys_and_values_in_redis(void **state) {
    (void)state;
    redis_server r = redis_server_start(NULL);
    check_keys_and_values(r.url, open_redis);
    redis_server_stop(&r);
}

static void it_cuts_off_what_a_killed_writer_left(void **state) {
    (void)state;
    char path[64];
    make_path(path);
    gw_error error;
    env *e;
    bool is_set;
    assert_int_equal(env_os_open(&e, &error), GW_OK);
    env_enter(e);
    // One record, and then its beginning once more, cut at every byte.
    for (off_t left = 0; left < 12 + 3 + 5; left++) {
        store *st;
        bytes found = { 0 };
        unlink(path);
        assert_int_equal(store_open_file(e, path, &st, &error), GW_OK);
        assert_int_equal(store_set_if_absent(st, "one", "first", 5, 0, &is_set, NULL, &error), 0);
        store_close(st);
        int fd = open(path, O_RDWR);
        uint8_t record[20];
        assert_int_equal(pread(fd, record, sizeof record, 16), 20);
        record[12] = 't';
        assert_int_equal(pwrite(fd, record, (size_t)left, 36), left);
        close(fd);

        assert_int_equal(store_open_file(e, path, &st, &error), GW_OK);
        assert_int_equal(store_set_if_absent(st, "two", "2", 1, 0, &is_set, NULL, &error), GW_OK);
        assert_true(is_set);
        store_close(st);
        assert_int_equal(store_open_file(e, path, &st, &error), GW_OK);
        assert_int_equal(store_wait(st, "one", 0, &found, &error), GW_OK);
        assert_int_equal(store_wait(st, "two", 0, &found, &error), GW_OK);
        assert_memory_equal(found.data, "first2", 6);
        bytes_fini(&found);
        store_close(st);
    }
    env_leave(e);
    env_close(e);
    remove_path(path);
}

static void it_leaves_files_of_others_alone(void **state) {
    (void)state;
    char path[64];
    make_path(path);
    gw_error error;
    env *e;
    store *st;
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    assert_int_equal(write(fd, "dear diary", 10), 10);
    close(fd);
    assert_int_equal(env_os_open(&e, &error), GW_OK);
    env_enter(e);
    assert_int_equal(store_open_file(e, path, &st, &error), GW_INVALID);
    assert_non_null(strstr(error.text, "is not the file of a job"));
    assert_int_equal(store_open_file(e, "/tmp", &st, &error), GW_SYSTEM);
    assert_int_equal(store_open_file(e, "/nowhere/at/all", &st, &error), GW_SYSTEM);
    assert_string_equal(error.text, "store /nowhere/at/all: open: No such file or directory");
    assert_int_equal(store_open_file(e, "/dev/null", &st, &error), GW_INVALID);
    env_leave(e);
    env_close(e);
    remove_path(path);
}

// ---- Without memory -----------------------------------------------------------------------------
typedef struct poor {
    env *env;
    _Atomic int *left;  // how many have not finished
} poor;

static bool is_fine(gw_status status) {
    return status == GW_OK || status == GW_NO_MEMORY || status == GW_TIMEOUT ||
           status == GW_DISCONNECTED || status == GW_LIMIT;
}

static void use_poorly(env *e, store *st, const char *own, const char *other) {
    gw_error error = { 0 };
    bytes value = { 0 };
    bool is_set;
    int64_t until_ns = env_now_ns(e) + 3 * SIM_SECOND;
    assert_true(is_fine(store_set_if_absent(st, own, "v", 1, until_ns, &is_set, NULL, &error)));
    assert_true(is_fine(store_set_if_absent(st, own, "w", 1, until_ns, &is_set, &value, &error)));
    assert_true(is_fine(store_wait(st, other, until_ns, &value, &error)));
    bytes_fini(&value);
}

static void host_poorly(void *arg) {
    poor *x = arg;
    gw_error error = { 0 };
    peers *p = NULL;
    store *st = NULL;
    char bound[ADDRESSES_MAX];
    env_enter(x->env);
    gw_status status = peers_open(quiet_peers(x->env), "127.0.0.1:29500", &p, bound, &error);
    if (!status) status = open_host(x->env, p, &st, &error);
    assert_true(is_fine(status));
    if (!status) use_poorly(x->env, st, "host", "client");
    --*x->left;
    while (*x->left > 0) {
        waiter w = { .what = "the client" };
        env_wait(x->env, &w, env_now_ns(x->env) + SIM_SECOND / 100);
    }
    close_host(p, st);
    env_leave(x->env);
}

static void call_poorly(void *arg) {
    poor *x = arg;
    gw_error error = { 0 };
    store *st = NULL;
    env_enter(x->env);
    int64_t until_ns = env_now_ns(x->env) + 3 * SIM_SECOND;
    gw_status status = store_open_client(x->env, "127.0.0.1:29500", until_ns, &st, &error);
    assert_true(is_fine(status));
    if (!status) use_poorly(x->env, st, "client", "host");
    store_close(st);
    --*x->left;
    env_leave(x->env);
}

static void meet_without_memory(void *context) {
    (void)context;
    sim *s = sim_open(1, (sim_options){ .interleave_per_million = -1 });
    if (!s) return;
    _Atomic int left = 2;
    poor host = { sim_env(s, 0), &left }, client = { sim_env(s, 1), &left };
    if (host.env && client.env && sim_spawn(s, 0, host_poorly, &host) &&
        sim_spawn(s, 1, call_poorly, &client))
        assert_true(sim_run(s, 100 * SIM_SECOND));
    env_close(host.env);
    env_close(client.env);
    sim_close(s);
}

static void quiet_line(const char *connection) {
    (void)connection;
}

static void use_file_without_memory(void *context) {
    env *e = context;
    gw_error error = { 0 };
    store *st = NULL;
    char path[64];
    make_path(path);
    env_enter(e);
    gw_status status = store_open_file(e, path, &st, &error);
    assert_true(is_fine(status));
    bool is_set;
    bytes value = { 0 };
    if (!status) {
        assert_true(is_fine(store_set_if_absent(st, "a", "v", 1, 0, &is_set, NULL, &error)));
        assert_true(is_fine(store_set_if_absent(st, "a", "v", 1, 0, &is_set, &value, &error)));
        assert_true(is_fine(store_wait(st, "a", 0, &value, &error)));
    }
    bytes_fini(&value);
    store_close(st);
    env_leave(e);
    remove_path(path);
}

static void it_survives_without_memory(void **state) {
    (void)state;
    log_hook = quiet_line;
    testing_alloc_failure_loop(meet_without_memory, NULL);
}

static void it_survives_in_a_file_without_memory(void **state) {
    (void)state;
    env *e;
    gw_error error;
    assert_int_equal(env_os_open(&e, &error), GW_OK);
    testing_alloc_failure_loop(use_file_without_memory, e);
    env_close(e);
}

// ---- Watching -----------------------------------------------------------------------------------
static void note_found(void *user, const char *key, const void *value, size_t size) {
    bytes *all = user;
    bytes_put(all, key, strlen(key));
    bytes_put(all, "=", 1);
    bytes_put(all, value, size);
    bytes_put(all, " ", 1);
}

static void set_one(store *st, const char *key) {
    bool is_set;
    assert_int_equal(store_set_if_absent(st, key, key, 1, ENV_NEVER, &is_set, NULL, NULL), GW_OK);
}

// Two openings of one store, as two processes have it.
static void watch_over(env *e, const char *at, open_store *open) {
    store *mine, *other;
    bytes all = { 0 };
    assert_int_equal(open(e, at, &mine, NULL), GW_OK);
    assert_int_equal(open(e, at, &other, NULL), GW_OK);
    set_one(other, "z");
    set_one(mine, "b");
    assert_int_equal(store_watch(mine, note_found, &all, NULL), GW_OK);
    set_one(other, "a");
    while (all.size < strlen("z=z b=b a=a ")) {
        waiter w = { .what = "what is set" };
        env_wait(e, &w, env_now_ns(e) + SIM_SECOND / 100);
    }
    bytes_put_u8(&all, 0);
    assert_string_equal((char *)all.data, "z=z b=b a=a ");
    store_close(mine);
    store_close(other);
    bytes_fini(&all);
}

static void watch_file(void *arg) {
    env *e = arg;
    char path[64];
    make_path(path);
    env_enter(e);
    watch_over(e, path, store_open_file);
    env_leave(e);
    env_close(e);
    remove_path(path);
}

static void watchers_get_values_set_in_redis(void **state) {
    (void)state;
    env *e;
    redis_server r = redis_server_start(NULL);
    assert_int_equal(env_os_open(&e, NULL), GW_OK);
    env_enter(e);
    watch_over(e, r.url, open_redis);
    env_leave(e);
    env_close(e);
    redis_server_stop(&r);
}

static void watchers_get_values_in_the_order_of_their_sets(void **state) {
    (void)state;
    sim *s = sim_open(1, (sim_options){ 0 });
    assert_true(sim_spawn(s, 0, watch_file, sim_env(s, 0)));
    assert_true(sim_run(s, 10 * SIM_SECOND));
    sim_close(s);
}

GW_TESTS(store_store, watchers_get_values_in_the_order_of_their_sets,
         watchers_get_values_set_in_redis, workers_meet_in_redis,
         it_checks_keys_and_values_in_redis, workers_meet_at_a_host,
         it_repeats_what_a_cut_connection_lost, workers_meet_in_a_file, it_checks_keys_and_values,
         it_cuts_off_what_a_killed_writer_left, it_leaves_files_of_others_alone,
         it_survives_without_memory, it_survives_in_a_file_without_memory);
