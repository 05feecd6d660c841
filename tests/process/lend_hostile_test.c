// A worker that writes over its own arena while others compute with what it has lent them, and over the memory of its
// connections: numbers may be wrong then, but nothing else.
#include "lend/lend.h"
#include "agent/state/agent.h"
#include "tensor/arena.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROWS = 600, COLUMNS = 500, COUNT = ROWS * COLUMNS, UNITS = 48, WIDTH = 8, CLASSES = 500 };

GW_FUNCTION(scribbler_floats, GW_POOL) {
    (void)a;
    return gw_value_of(gw_rand(s, GW_F32, ROWS, COLUMNS));
}

// Indices in a dimension of |CLASSES|.
GW_FUNCTION(scribbler_indices, GW_POOL) {
    (void)a;
    return gw_value_of(gw_randint(s, GW_I64, 0, CLASSES, ROWS, COLUMNS));
}

GW_FUNCTION(scribbler_truths, GW_POOL) {
    (void)a;
    return gw_value_of(gw_gt(s, gw_rand(s, GW_F32, 4 * ROWS, COLUMNS), 0.5));
}

GW_FUNCTION(scribbler_echo, GW_POOL, "any") {
    return gw_arg(s, a, 0);
}

// ---- The hostile worker -------------------------------------------------------------------------

static _Atomic bool scribbles_rings;

static uint64_t next_random(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 20;
}

// Mostly a value that is a valid index nearly everywhere, else any value.
static uint64_t choose_word(uint64_t *state) {
    uint64_t x = next_random(state);
    return x % 4 ? x / 4 % (CLASSES + 1) : x << 30;
}

static void scribble_over(uint8_t *bytes, size_t size, int count, uint64_t *state) {
    for (int i = 0; i < count; i++) {
        uint64_t word = choose_word(state);
        memcpy(bytes + next_random(state) % (size / 8) * 8, &word, sizeof word);
    }
}

// Writes over the memory of its connections. Connections are made and closed meanwhile, so it writes through the file.
static void scribble_over_rings(uint64_t *state) {
    for (int fd = 3; fd < 256; fd++) {
        char path[64], target[64] = "";
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        if (readlink(path, target, sizeof target - 1) < 0) continue;
        if (strncmp(target, "/memfd:gradwire-ring", 20) != 0) continue;
        uint64_t word = choose_word(state), at = next_random(state);
        at = at % 2 ? at / 2 % 400 : at / 2 % 20000;
        (void)!pwrite(fd, &word, sizeof word, (off_t)at);
    }
}

static void *scribble_on(void *arg) {
    uint64_t state = (uint64_t)(uintptr_t)arg;
    for (;;) {
        scribble_over(arena_at(0), (size_t)UNITS * ARENA_UNIT_BYTES, 20000, &state);
        if (scribbles_rings) scribble_over_rings(&state);
    }
    return NULL;
}

GW_FUNCTION(scribbler_begin, GW_POOL, "bool") {
    pthread_t thread;
    scribbles_rings = gw_arg_bool(s, a, 0);
    if (pthread_create(&thread, NULL, scribble_on, (void *)7)) gw_fail(s, GW_SYSTEM, "no thread");
    return gw_none();
}

// ---- Its victims --------------------------------------------------------------------------------

static char url[64];

static gw_scope *join(int rank) {
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root, .rank = rank, .world_size = 2, .init_method = url,
                .timeout_ms = testing_patient_ms(20000));
    return root;
}

static int start_hostile(void) {
    snprintf(url, sizeof url, "file:///tmp/gradwire-hostile-%d", (int)getpid());
    int child = fork();
    assert_true(child >= 0);
    if (child) return child;
    gw_scope *root = join(1);
    gw_rpc_shutdown(root);
    gw_error ignored = gw_scope_close(root);
    (void)ignored;
    _exit(0);
}

static void end_hostile(int child) {
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    unlink(url + 7);
}

static gw_tensor *call(gw_scope *s, const char *function) {
    return gw_tensor_of(s, gw_rpc_sync(s, 1, function));
}

static lend_counts counts_of(gw_scope *s) {
    agent *a = agent_of(s);
    env_enter(a->env);
    lend_counts counts = lend_count_on_loop(a);
    env_leave(a->env);
    return counts;
}

// Bools are checked on arrival: an invalid one is an error then.
static gw_tensor *call_for_truths(gw_scope *root) {
    gw_scope *s = gw_scope_open(root);
    gw_tensor *x = call(s, "scribbler_truths");
    x = gw_ok(s) ? gw_keep(root, x) : NULL;
    gw_error error = gw_scope_close(s);
    if (error.status)
        assert_non_null(strstr(error.text, "malformed tensor: a bool is neither 0 nor 1"));
    return x ? x : gw_gt(root, gw_rand(root, GW_F32, 4 * ROWS, COLUMNS), 0.5);
}

typedef void use(gw_scope *s, gw_tensor *floats, gw_tensor *indices, gw_tensor *truths);

static void gather(gw_scope *s, gw_tensor *floats, gw_tensor *indices, gw_tensor *truths) {
    (void)truths;
    gw_gather(s, floats, 1, indices);
}

static void scatter(gw_scope *s, gw_tensor *floats, gw_tensor *indices, gw_tensor *truths) {
    (void)truths;
    gw_scatter_add(s, gw_zeros(s, GW_F32, ROWS, CLASSES), 1, indices, floats);
}

static void embed(gw_scope *s, gw_tensor *floats, gw_tensor *indices, gw_tensor *truths) {
    (void)floats, (void)truths;
    gw_tensor *weight = gw_requires_grad(s, gw_rand(s, GW_F32, CLASSES, WIDTH));
    gw_backward(s, gw_sum(s, gw_embedding(s, weight, indices)));
    if (gw_ok(s)) gw_grad(s, weight);
}

static void index_rows(gw_scope *s, gw_tensor *floats, gw_tensor *indices, gw_tensor *truths) {
    (void)truths;
    gw_tensor *x = gw_requires_grad(s, gw_clone(s, floats));
    gw_tensor *index = gw_reshape(s, gw_slice(s, indices, 0, 0, 2, 1), 2 * COLUMNS);
    gw_backward(s, gw_sum(s, gw_index_select(s, x, 1, index)));
}

static void classify(gw_scope *s, gw_tensor *floats, gw_tensor *indices, gw_tensor *truths) {
    (void)truths;
    gw_tensor *target = gw_select(s, indices, 1, 0);
    gw_backward(s, gw_cross_entropy(s, gw_requires_grad(s, gw_clone(s, floats)), target));
    gw_cross_entropy(s, floats, target);
}

static void sort(gw_scope *s, gw_tensor *floats, gw_tensor *indices, gw_tensor *truths) {
    (void)truths;
    gw_sort(s, floats, .dim = 1);
    gw_sort(s, indices, .dim = 0);
    gw_argmax(s, floats, .dim = 1);
    gw_max(s, indices, .dim = 0);
}

static void choose(gw_scope *s, gw_tensor *floats, gw_tensor *indices, gw_tensor *truths) {
    (void)indices;
    gw_multinomial(s, gw_abs(s, floats), 3);
    gw_tensor *some = gw_slice(s, truths, 0, 0, ROWS, 1);
    gw_where(s, some, floats, 0.0);
    gw_masked_fill(s, floats, some, 1.0);
    gw_sum(s, gw_to_dtype(s, truths, GW_I64));
}

static void count(gw_scope *s, gw_tensor *floats, gw_tensor *indices, gw_tensor *truths) {
    (void)floats, (void)truths;
    gw_one_hot(s, gw_select(s, indices, 1, 3), CLASSES);
    gw_tensor *rows = gw_rows(s, gw_reshape(s, gw_slice(s, indices, 0, 0, 1, 1), COLUMNS),
                              gw_ones(s, GW_F32, COLUMNS, WIDTH), CLASSES);
    gw_to_dense(s, rows);
}

static use *const uses[] = { gather, scatter, embed, index_rows, classify, sort, choose, count };

// Each use has its own scope: an index that went out of range is an error there.
static int use_all(gw_scope *root, gw_tensor *floats, gw_tensor *indices, gw_tensor *truths) {
    int failed_count = 0;
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++) {
        testing_note("use %zu", i);
        gw_scope *s = gw_scope_open(root);
        uses[i](s, floats, indices, truths);
        gw_error error = gw_scope_close(s);
        if (!error.status) continue;
        testing_note("use %zu: %s", i, error.text);
        assert_int_equal(error.status, GW_INVALID);
        failed_count++;
    }
    return failed_count;
}

static void numbers_changed_while_in_use_are_only_wrong(void **state) {
    (void)state;
#ifdef __SANITIZE_THREAD__
    testing_skip("the hostile worker races by intent");
#endif
    int child = start_hostile(), failed_count = 0;
    gw_scope *root = join(0);
    call(root, "scribbler_floats");  // the arena is offered, and accepted
    gw_rpc_sync(root, 1, "scribbler_begin", false);
    for (int i = 0, count = testing_scaled(12); i < count; i++) {
        gw_scope *s = gw_scope_open(root);
        gw_tensor *floats = call(s, "scribbler_floats"), *indices = call(s, "scribbler_indices");
        gw_tensor *truths = call_for_truths(s);
        assert_string_equal(gw_scope_error(s)->text, "");
        failed_count += use_all(s, floats, indices, truths);
        gw_rpc_sync(s, 1, "scribbler_echo", indices);
        gw_scope_close_up(s);
    }
    assert_string_equal(gw_scope_error(root)->text, "");
    assert_true(counts_of(root).held > 0);
    testing_note("%d uses found indices out of range", failed_count);
    end_hostile(child);
    gw_error ignored = gw_scope_close(root);
    (void)ignored;
}

// Connections end, and are made again; or the worker has sent an invalid message, and is lost.
static void a_worker_that_writes_over_its_connections_harms_only_itself(void **state) {
    (void)state;
    int child = start_hostile();
    gw_scope *root = join(0);
    gw_rpc_sync(root, 1, "scribbler_begin", true);
    bool is_lost = false;
    for (int i = 0, count = testing_scaled(300); i < count && !is_lost; i++) {
        gw_scope *s = gw_scope_open(root);
        gw_rpc_sync(s, 1, "scribbler_echo", gw_full(s, GW_F32, 1.0, 20000));
        gw_error error = gw_scope_close(s);
        testing_note("call %d: %s", i, error.text);
        is_lost = error.status == GW_DISCONNECTED;
    }
    end_hostile(child);
    gw_error ignored = gw_scope_close(root);
    (void)ignored;
}

GW_TESTS(lend_hostile, numbers_changed_while_in_use_are_only_wrong,
         a_worker_that_writes_over_its_connections_harms_only_itself);
