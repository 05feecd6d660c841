// Thirty-two threads of two agents make calls of every kind at once, each in its own scopes. Their results are those of
// one thread; the thread sanitizer checks the runs.
#include "testing/testing.h"

#include <gradwire.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 16, ROUNDS = 24 };

// ---- Called functions ---------------------------------------------------------------------------

GW_FUNCTION(crowd_echo, GW_INLINE, "any") {
    return gw_arg(s, a, 0);
}

GW_FUNCTION(crowd_square, GW_POOL, "tensor") {
    gw_tensor *x = gw_arg_tensor(s, a, 0);
    return gw_value_of(gw_mul(s, x, x));
}

GW_FUNCTION(crowd_bounce, GW_POOL, "int") {
    int64_t left = gw_arg_int(s, a, 0);
    if (left == 0) return gw_value_of(0);
    int64_t there = gw_int_of(s, gw_rpc_sync(s, 1 - gw_rpc_self(s).rank, "crowd_bounce", left - 1));
    return gw_value_of(1 + there);
}

GW_FUNCTION(crowd_read, GW_POOL, "rref") {
    return gw_to_here_value(s, gw_arg_rref(s, a, 0));
}

GW_FUNCTION(crowd_until_cancelled, GW_POOL) {
    (void)a;
    return gw_value_of_future(gw_member_lost(s, NULL, 0));
}

typedef struct crowd_sum {
    int64_t sum;
} crowd_sum;

GW_CLASS(crowd_sum, crowd_sum_open);

static void crowd_sum_open(gw_scope *own, crowd_sum *self, const gw_args *a) {
    (void)own;
    (void)self;
    (void)a;
}

GW_METHOD(crowd_sum, add, GW_INLINE, "int") {
    return gw_value_of(self->sum += gw_arg_int(s, a, 0));
}

// ---- Operations of a thread ---------------------------------------------------------------------

typedef struct member {
    gw_scope *scope;
    gw_group *group;
    int number, other;  // of the thread, the same on both agents; the other agent's rank
    pthread_t thread;
} member;

static void call_there(gw_scope *s, const member *m) {
    gw_tensor *x = gw_randn(s, GW_F32, 20, 30);
    assert_true(gw_equal(s, x, gw_tensor_of(s, gw_rpc_sync(s, m->other, "crowd_echo", x))));
    assert_int_equal(gw_int_of(s, gw_rpc_sync(s, m->other, "crowd_bounce", 5)), 5);
    gw_rpc_notify(s, m->other, "crowd_echo", 1);
}

static gw_value add_one(gw_scope *s, gw_value v, void *context) {
    (void)context;
    return gw_value_of(gw_int_of(s, v) + 1);
}

static void wait_for_futures(gw_scope *s, const member *m) {
    enum { COUNT = 8 };
    gw_future *fs[COUNT], *own = gw_future_open(s);
    for (int i = 0; i < COUNT; i++)
        fs[i] = gw_then(s, gw_rpc_async(s, m->other, "crowd_echo", i), add_one, NULL);
    int first = gw_wait_any(s, fs, COUNT);
    assert_true(gw_future_done(fs[first]));
    gw_wait_all(s, fs, COUNT);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(gw_int_of(s, gw_future_value(s, fs[i])), i + 1);
    gw_list *all = gw_list_of(s, gw_wait(s, gw_collect_all(s, fs, COUNT)));
    assert_int_equal(gw_list_count(all), COUNT);
    gw_future_set(s, own, 7);
    assert_int_equal(gw_int_of(s, gw_wait(s, own)), 7);
}

// A reply may arrive before, while or after it is cancelled; then the value stays.
static void cancel_a_call(gw_scope *s, const member *m) {
    gw_scope *t = gw_scope_open(s);
    gw_future *quick = gw_rpc_async(t, m->other, "crowd_echo", 3);
    gw_cancel(t, quick);
    gw_value v = gw_wait(t, quick);
    gw_error e = gw_scope_close(t);
    assert_true(e.status == GW_CANCELLED || (e.status == GW_OK && gw_int_of(s, v) == 3));
    t = gw_scope_open(s);
    gw_future *endless = gw_rpc_async(t, m->other, "crowd_until_cancelled");
    gw_cancel(t, endless);
    gw_wait(t, endless);
    assert_int_equal(gw_scope_close(t).status, GW_CANCELLED);
}

static void hold_references(gw_scope *s, const member *m) {
    gw_rref *sum = gw_remote(s, m->other, "crowd_sum");
    for (int i = 1; i <= 10; i++) gw_rpc_async(s, sum, "add", i);
    assert_int_equal(gw_int_of(s, gw_rpc_sync(s, sum, "add", 0)), 55);
    gw_rref *made = gw_remote(s, m->other, "crowd_echo", 41), *here = gw_rref_open(s, (int64_t)42);
    assert_int_equal(gw_int_of(s, gw_to_here_value(s, made)), 41);
    assert_int_equal(gw_int_of(s, gw_rpc_sync(s, m->other, "crowd_read", here)), 42);
    assert_int_equal(gw_int_of(s, gw_rpc_sync(s, m->other, "crowd_read", made)), 41);
    assert_string_equal(gw_rref_owner_name(s, here), gw_rpc_self(s).name);
}

static void walk_backward(gw_scope *s, const member *m) {
    gw_tensor *x = gw_full(s, GW_F32, m->number, 5);
    gw_requires_grad(s, x);
    gw_tensor *y = gw_tensor_of(s, gw_rpc_sync(s, m->other, "crowd_square", x));
    gw_backward(s, gw_sum(s, y));
    assert_true(gw_equal(s, gw_grad(s, x), gw_full(s, GW_F32, 2 * m->number, 5)));
}

static void step_together(gw_scope *s, const member *m) {
    gw_module *here = gw_nn_linear(s, 3, 4),
              *there = gw_module_remote(s, m->other, "gw.nn.linear", 4, 2);
    gw_optimizer *opt = gw_sgd(s, gw_parameters(s, here, there), .lr = 0.1);
    for (int i = 0; i < 2; i++) {
        gw_tensor *x = gw_randn(s, GW_F32, 6, 3);
        gw_backward(s, gw_mean(s, gw_module_call(s, there, gw_module_call(s, here, x))));
        gw_optimizer_step(s, opt);
    }
    assert_int_equal(gw_map_count(gw_module_state_dict(s, there)), 2);
}

// Collectives of one key are entered one after the other, by the thread that finds the previous one entered.
static void enter_many(gw_scope *s, const member *m, uint64_t key) {
    enum { COUNT = 16 };
    gw_future *fs[COUNT];
    for (int i = 0; i < COUNT; i++)
        fs[i] = gw_all_reduce_async(s, m->group, gw_full(s, GW_F32, i + m->other, 3000), GW_SUM,
                                    .key = key);
    for (int i = COUNT; i-- > 0;)
        assert_true(
            gw_equal(s, gw_tensor_of(s, gw_wait(s, fs[i])), gw_full(s, GW_F32, 2 * i + 1, 3000)));
}

static void enter_collectives(gw_scope *s, const member *m) {
    uint64_t key = 1 + (uint64_t)m->number;
    enter_many(s, m, key);
    gw_tensor *x = gw_full(s, GW_F32, 1 + m->other, 100);
    gw_tensor *sum = gw_all_reduce(s, m->group, x, GW_SUM, .key = key);
    assert_true(gw_equal(s, sum, gw_full(s, GW_F32, 3, 100)));
    gw_barrier(s, m->group, .key = key);
    gw_future *f = gw_broadcast_async(s, m->group, x, 0, .key = key);
    assert_true(gw_equal(s, gw_tensor_of(s, gw_wait(s, f)), gw_full(s, GW_F32, 2, 100)));
    gw_isend(s, m->group, x, m->other, .tag = m->number);
    gw_tensor *got = gw_recv(s, m->group, m->other, .tag = m->number);
    assert_true(gw_equal(s, got, gw_full(s, GW_F32, 2 - m->other, 100)));
}

static void compute(gw_scope *s, const member *m) {
    (void)m;
    gw_tensor *w = gw_randn(s, GW_F32, 4, 3, 3, 3), *x = gw_randn(s, GW_F32, 2, 3, 8, 8);
    gw_requires_grad(s, w);
    gw_tensor *y = gw_relu(s, gw_conv2d(s, x, w, NULL, .padding = { 1, 1 }));
    gw_backward(s, gw_sum(s, gw_matmul(s, y, gw_transpose(s, y, 2, 3))));
    assert_int_equal(gw_numel(gw_grad(s, w)), 4 * 3 * 3 * 3);
}

static void query_the_job(gw_scope *s, const member *m) {
    int count;
    gw_rpc_workers(s, &count);
    assert_int_equal(count, 2);
    assert_int_equal(gw_rpc_world_size(s), 2);
    assert_int_equal(gw_rpc_worker(s, m->other).rank, m->other);
    assert_true(gw_rpc_path(s, gw_rpc_worker(s, m->other))[0] != '\0');
    gw_watch *w = gw_watch_open(s);
    (void)gw_watch_ready(w);
    gw_rpc_get_stats(s);
    gw_reference_info infos[4];
    assert_true(gw_references(s, infos, 4) >= 0);
}

typedef void activity(gw_scope *s, const member *m);

static activity *const activities[] = { call_there,        wait_for_futures, cancel_a_call,
                                        hold_references,   walk_backward,    step_together,
                                        enter_collectives, compute,          query_the_job };

enum { ACTIVITIES = sizeof activities / sizeof *activities };

// Both agents' threads of one number make the same calls, since collectives need both.
static void *take_part(void *arg) {
    const member *m = arg;
    for (int i = 0; i < ROUNDS; i++) {
        gw_scope *s = gw_scope_open(m->scope);
        activities[(m->number * 7 + i * 5) % ACTIVITIES](s, m);
        gw_error e = gw_scope_close(s);
        if (e.status) fail_msg("thread %d, round %d: %s", m->number, i, e.text);
    }
    return NULL;
}

// ---- Two agents ---------------------------------------------------------------------------------

typedef struct agent {
    int rank;
    const char *url;
    gw_error error;
} agent;

static void *run_agent(void *arg) {
    agent *a = arg;
    member members[THREADS];
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root, .rank = a->rank, .world_size = 2, .init_method = a->url);
    gw_group *group = gw_group_world(root);
    for (int i = 0; i < THREADS; i++) {
        members[i] = (member){ gw_scope_open(root), group, i, 1 - a->rank, 0 };
        gw_seed(members[i].scope, (uint64_t)i);
        assert_int_equal(pthread_create(&members[i].thread, NULL, take_part, &members[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(members[i].thread, NULL);
        gw_scope_close_up(members[i].scope);
    }
    gw_rpc_shutdown(root);
    a->error = gw_scope_close(root);
    return NULL;
}

static void all_kinds_of_calls_are_made_by_many_threads_at_once(void **state) {
    (void)state;
    char folder[] = "/tmp/gw-crowd-XXXXXX", url[64];
    assert_non_null(mkdtemp(folder));
    snprintf(url, sizeof url, "file://%s/store", folder);
    agent agents[] = { { 0, url, { 0 } }, { 1, url, { 0 } } };
    pthread_t other;
    assert_int_equal(pthread_create(&other, NULL, run_agent, &agents[1]), 0);
    run_agent(&agents[0]);
    pthread_join(other, NULL);
    assert_string_equal(agents[0].error.text, "");
    assert_string_equal(agents[1].error.text, "");
    unlink(url + strlen("file://"));
    assert_int_equal(rmdir(folder), 0);
}

GW_TESTS(many_threads, all_kinds_of_calls_are_made_by_many_threads_at_once);
