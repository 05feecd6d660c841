// Every wait of the public headers for a call of another worker's program, with a program that will not make it: one
// that has failed, is in gw_rpc_shutdown, has left, or is dead; and functions that workers in gw_rpc_shutdown serve. In
// the simulator: docs/protocol/waits.md. tests/habits/waits checks that no function is left out.
#include "base/map.h"
#include "base/scope.h"
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <stdio.h>
#include <string.h>

// ---- The waits ----------------------------------------------------------------------------------

// The handles of the waiting worker: |g| has two members, and the other one is |peer|.
typedef struct site {
    gw_scope *root;
    gw_group *g;
    gw_worker both[2];
    int peer, self;  // ranks in |g|
    gw_tensor *x;    // two numbers
    gw_list *xs;     // of it, one for each member
    gw_module *model;
} site;

typedef struct wait {
    const char *function;
    void (*run)(gw_scope *s, const site *at);
    bool continues;  // the remaining members decide without the other one: no error
} wait;

#define WAIT(function, call)                                                                       \
    static void wait_##function(gw_scope *s, const site *at) {                                     \
        (void)at;                                                                                  \
        call;                                                                                      \
    }
#define ASYNC(function, call) WAIT(function, gw_wait(s, call))

WAIT(gw_all_reduce, gw_all_reduce(s, at->g, at->x, GW_SUM))
ASYNC(gw_all_reduce_async, gw_all_reduce_async(s, at->g, at->x, GW_SUM))
WAIT(gw_reduce, gw_reduce(s, at->g, at->x, GW_SUM, at->self))
ASYNC(gw_reduce_async, gw_reduce_async(s, at->g, at->x, GW_SUM, at->self))
WAIT(gw_broadcast, gw_broadcast(s, at->g, NULL, at->peer))
ASYNC(gw_broadcast_async, gw_broadcast_async(s, at->g, NULL, at->peer))
WAIT(gw_all_gather, gw_all_gather(s, at->g, at->x))
ASYNC(gw_all_gather_async, gw_all_gather_async(s, at->g, at->x))
WAIT(gw_all_gather_list, gw_all_gather_list(s, at->g, at->x))
ASYNC(gw_all_gather_list_async, gw_all_gather_list_async(s, at->g, at->x))
WAIT(gw_gather_to, gw_gather_to(s, at->g, at->x, at->self))
ASYNC(gw_gather_to_async, gw_gather_to_async(s, at->g, at->x, at->self))
WAIT(gw_scatter_from, gw_scatter_from(s, at->g, NULL, at->peer))
ASYNC(gw_scatter_from_async, gw_scatter_from_async(s, at->g, NULL, at->peer))
WAIT(gw_reduce_scatter, gw_reduce_scatter(s, at->g, at->x, GW_SUM))
ASYNC(gw_reduce_scatter_async, gw_reduce_scatter_async(s, at->g, at->x, GW_SUM))
WAIT(gw_all_to_all, gw_all_to_all(s, at->g, at->x))
ASYNC(gw_all_to_all_async, gw_all_to_all_async(s, at->g, at->x))
WAIT(gw_barrier, gw_barrier(s, at->g))
ASYNC(gw_barrier_async, gw_barrier_async(s, at->g))
WAIT(gw_monitored_barrier, gw_monitored_barrier(s, at->g))
ASYNC(gw_monitored_barrier_async, gw_monitored_barrier_async(s, at->g))
WAIT(gw_all_reduce_coalesced, gw_all_reduce_coalesced(s, at->g, &at->x, 1, GW_SUM))
ASYNC(gw_all_reduce_coalesced_async, gw_all_reduce_coalesced_async(s, at->g, &at->x, 1, GW_SUM))
WAIT(gw_broadcast_coalesced, gw_broadcast_coalesced(s, at->g, &at->x, 1, at->peer))
ASYNC(gw_broadcast_coalesced_async, gw_broadcast_coalesced_async(s, at->g, &at->x, 1, at->peer))
WAIT(gw_all_gather_coalesced, gw_all_gather_coalesced(s, at->g, &at->x, 1))
ASYNC(gw_all_gather_coalesced_async, gw_all_gather_coalesced_async(s, at->g, &at->x, 1))
WAIT(gw_gather_to_coalesced, gw_gather_to_coalesced(s, at->g, &at->x, 1, at->self))
ASYNC(gw_gather_to_coalesced_async, gw_gather_to_coalesced_async(s, at->g, &at->x, 1, at->self))
WAIT(gw_reduce_scatter_coalesced, gw_reduce_scatter_coalesced(s, at->g, &at->x, 1, GW_SUM))
ASYNC(gw_reduce_scatter_coalesced_async,
      gw_reduce_scatter_coalesced_async(s, at->g, &at->x, 1, GW_SUM))
WAIT(gw_all_gather_value, gw_all_gather_value(s, at->g, 1))
ASYNC(gw_all_gather_value_async, gw_all_gather_value_async(s, at->g, 1))
WAIT(gw_gather_value_to, gw_gather_value_to(s, at->g, 1, at->self))
ASYNC(gw_gather_value_to_async, gw_gather_value_to_async(s, at->g, 1, at->self))
WAIT(gw_broadcast_value, gw_broadcast_value(s, at->g, 0, at->peer))
ASYNC(gw_broadcast_value_async, gw_broadcast_value_async(s, at->g, 0, at->peer))
WAIT(gw_scatter_value_from, gw_scatter_value_from(s, at->g, NULL, at->peer))
ASYNC(gw_scatter_value_from_async, gw_scatter_value_from_async(s, at->g, NULL, at->peer))
WAIT(gw_send, gw_send(s, at->g, at->x, at->peer))
ASYNC(gw_isend, gw_isend(s, at->g, at->x, at->peer))
WAIT(gw_recv, gw_recv(s, at->g, at->peer))
ASYNC(gw_irecv, gw_irecv(s, at->g, at->peer))
WAIT(gw_recv_any, gw_recv_any(s, at->g, NULL))
ASYNC(gw_irecv_any, gw_irecv_any(s, at->g))
static void wait_gw_batch(gw_scope *s, const site *at) {
    gw_message both[] = { { .peer = at->peer, .send = at->x }, { .peer = at->peer } };
    gw_batch(s, at->g, both, 2);
}
static void wait_gw_batch_async(gw_scope *s, const site *at) {
    gw_message both[] = { { .peer = at->peer, .send = at->x }, { .peer = at->peer } };
    gw_wait(s, gw_batch_async(s, at->g, both, 2));
}
WAIT(gw_group_split, gw_group_split(s, at->g, 0, 0))
WAIT(gw_group_agree, gw_group_agree(s, at->g, 1))
WAIT(gw_group_reform, gw_group_reform(s, at->g, .min = 1))
WAIT(gw_named, gw_named(s, at->both[at->peer], "server"))
WAIT(gw_rpc_all_gather, gw_rpc_all_gather(s, at->both, 2, 1))
WAIT(gw_rpc_barrier, gw_rpc_barrier(s, at->both, 2))
ASYNC(gw_checkpoint_begin, gw_checkpoint_begin(s, "/proc/none", at->g, gw_map_open(s)))
WAIT(gw_checkpoint_restore, gw_checkpoint_restore(s, "/proc/none", at->g))
WAIT(gw_ddp_open, gw_ddp_open(s, at->model, .group = at->g))
WAIT(gw_optimizer_shard,
     gw_optimizer_shard(s, gw_adam(s, gw_parameters(s, at->model)), .group = at->g))
WAIT(gw_average_parameters, gw_average_parameters(s, at->g, gw_parameters(s, at->model)))

#define ROW(function)                                                                              \
    { #function, wait_##function, false }
#define ROW_THAT_CONTINUES(function)                                                               \
    { #function, wait_##function, true }
static const wait waits[] = {
    ROW(gw_all_reduce),
    ROW(gw_all_reduce_async),
    ROW(gw_reduce),
    ROW(gw_reduce_async),
    ROW(gw_broadcast),
    ROW(gw_broadcast_async),
    ROW(gw_all_gather),
    ROW(gw_all_gather_async),
    ROW(gw_all_gather_list),
    ROW(gw_all_gather_list_async),
    ROW(gw_gather_to),
    ROW(gw_gather_to_async),
    ROW(gw_scatter_from),
    ROW(gw_scatter_from_async),
    ROW(gw_reduce_scatter),
    ROW(gw_reduce_scatter_async),
    ROW(gw_all_to_all),
    ROW(gw_all_to_all_async),
    ROW(gw_barrier),
    ROW(gw_barrier_async),
    ROW(gw_monitored_barrier),
    ROW(gw_monitored_barrier_async),
    ROW(gw_all_reduce_coalesced),
    ROW(gw_all_reduce_coalesced_async),
    ROW(gw_broadcast_coalesced),
    ROW(gw_broadcast_coalesced_async),
    ROW(gw_all_gather_coalesced),
    ROW(gw_all_gather_coalesced_async),
    ROW(gw_gather_to_coalesced),
    ROW(gw_gather_to_coalesced_async),
    ROW(gw_reduce_scatter_coalesced),
    ROW(gw_reduce_scatter_coalesced_async),
    ROW(gw_all_gather_value),
    ROW(gw_all_gather_value_async),
    ROW(gw_gather_value_to),
    ROW(gw_gather_value_to_async),
    ROW(gw_broadcast_value),
    ROW(gw_broadcast_value_async),
    ROW(gw_scatter_value_from),
    ROW(gw_scatter_value_from_async),
    ROW(gw_send),
    ROW(gw_isend),
    ROW(gw_recv),
    ROW(gw_irecv),
    ROW(gw_recv_any),
    ROW(gw_irecv_any),
    ROW(gw_batch),
    ROW(gw_batch_async),
    ROW(gw_group_split),
    ROW_THAT_CONTINUES(gw_group_agree),
    ROW_THAT_CONTINUES(gw_group_reform),
    ROW(gw_named),
    ROW(gw_rpc_all_gather),
    ROW(gw_rpc_barrier),
    ROW(gw_checkpoint_begin),
    ROW(gw_checkpoint_restore),
    ROW(gw_ddp_open),
    ROW(gw_optimizer_shard),
    ROW(gw_average_parameters),
};
enum { WAIT_COUNT = sizeof waits / sizeof waits[0] };

// ---- The fate of the other worker ---------------------------------------------------------------

typedef enum fate { FAILED, IN_SHUTDOWN, LEFT, DEAD, FATE_COUNT } fate;

static const char *const fate_names[] = { "failed", "in shutdown", "left", "dead" };

typedef struct scene {
    const wait *wait;
    fate fate;
    int peer;         // 0 or 1, the other one of them waits; 2 is a third worker
    int64_t late_ms;  // when its fate occurs; the wait begins after 1 s
    bool opens;       // it has opened the group
    uint64_t seed;
} scene;

static void open_both(gw_scope *root, site *at, int peer) {
    *at = (site){ .root = root, .peer = peer, .self = 1 - peer };
    for (int i = 0; i < 2; i++) at->both[i] = gw_rpc_worker(root, i);
    at->g = gw_group_open(root, at->both, 2, .timeout_ms = GW_NO_TIMEOUT);
}

static void suffer(gw_scope *root, const scene *c) {
    site at;
    if (c->opens) open_both(root, &at, c->peer);
    cluster_pause_ms(root, c->late_ms);
    if (c->fate == FAILED) gw_fail(root, GW_REMOTE, "train.csv: no such file");
    if (c->fate == LEFT) gw_rpc_leave(root);
    if (c->fate == DEAD) cluster_pause_ms(root, 1000000);
}

static void expect_end(gw_scope *s, const scene *c) {
    const gw_error *e = gw_scope_error(s);
    char name[8];
    snprintf(name, sizeof name, "w%d", c->peer);
    if (c->wait->continues) {
        if (!gw_ok(s)) fail_msg("%s", e->text);
        return;
    }
    bool names = strstr(e->text, name) != NULL;
    if (c->fate == FAILED) names = names && strstr(e->text, "has failed: train.csv: no such file");
    gw_status status = c->fate == FAILED ? GW_REMOTE : GW_DISCONNECTED;
    if (!names || e->status != status) fail_msg("%s: %s", gw_status_name(e->status), e->text);
}

static void play(gw_scope *root, int rank, void *context) {
    const scene *c = context;
    site at;
    if (rank == c->peer) suffer(root, c);
    if (rank != 1 - c->peer) return;
    open_both(root, &at, c->peer);
    cluster_pause_ms(root, 1000);
    gw_scope *s = gw_scope_open(root);
    at.x = gw_ones(s, GW_F32, 2);
    at.model = gw_nn_linear(s, 3, 2);
    int64_t began_ns = scope_now_ns(s);
    c->wait->run(s, &at);
    int64_t end_ns = 1000000 * (c->late_ms > 1000 ? c->late_ms - 1000 : 0);
    // A death is detected within 7 s.
    int64_t bound_ns = (c->fate == DEAD ? 12 : 5) * SIM_SECOND;
    if (scope_now_ns(s) - began_ns > end_ns + bound_ns)
        fail_msg("it ended after %lld ms", (long long)((scope_now_ns(s) - began_ns) / 1000000));
    expect_end(s, c);
    gw_error ignored = gw_scope_close(s);
    (void)ignored;
}

static void crash(sim *s, void *arg) {
    const scene *c = arg;
    sim_crash(s, c->peer);
}

static void direct(sim *s, void *context) {
    scene *c = context;
    if (c->fate == DEAD) sim_at(s, c->late_ms * 1000000, crash, c);
}

static void run_scene(scene c) {
    cluster_options o = { .world_size = 3, .timeout_ms = CLUSTER_NO_TIMEOUT, .fails = true };
    o.network = sim_varied(c.seed, 0);
    o.direct = direct;
    testing_note("%s, w%d is %s after %lld ms, %s", c.wait->function, c.peer, fate_names[c.fate],
                 (long long)c.late_ms, c.opens ? "has opened" : "has not opened");
    cluster_run(c.seed, o, play, &c);
}

static void every_wait_that_cannot_succeed_any_more_ends(void **state) {
    (void)state;
    for (int i = 0; i < WAIT_COUNT; i++)
        for (int f = 0; f < FATE_COUNT; f++)
            for (uint64_t k = 0; k < 8; k++) {
                uint64_t seed = (uint64_t)i * 100 + (uint64_t)f * 10 + k;
                run_scene((scene){ .wait = &waits[i],
                                   .fate = (fate)f,
                                   .peer = (int)(k & 1),
                                   .late_ms = k & 2 ? 4000 : 1,
                                   .opens = k & 4,
                                   .seed = seed });
            }
}

static void request_to_join(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 1) return;
    gw_group_join(root, "nowhere", .timeout_ms = GW_NO_TIMEOUT);
    assert_int_equal(gw_scope_error(root)->status, GW_DISCONNECTED);
    assert_non_null(strstr(gw_scope_error(root)->text, "has called gw_rpc_shutdown"));
    gw_scope_clear(root);
}

static void a_join_request_without_a_member_that_can_accept_it_ends(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        cluster_options o = { .world_size = 3, .timeout_ms = CLUSTER_NO_TIMEOUT };
        assert_true(cluster_run(seed, o, request_to_join, NULL).took_ns < 10 * SIM_SECOND);
    }
}

static void name_it(gw_scope *s, const char *name) {
    gw_rref_set_name(s, gw_remote(s, gw_rpc_self(s), "gw.abs", gw_zeros(s, GW_F32, 1)), name);
}

// The last act of the program of worker 1 is to give a name that worker 0 looks up at the same time. Worker 0 queries it
// at once, since worker 1 has been idle before.
static void name_and_shut_down(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank) {
        gw_fail(root, GW_INVALID, "there is no name yet");
        gw_named(root, 0, "ready");
        gw_scope_clear(root);
        cluster_pause_ms(root, 1000);
        gw_named(root, 0, "ready");
        name_it(root, "late");
    } else {
        gw_named(root, 1, "early");
        assert_false(gw_ok(root));
        gw_scope_clear(root);
        cluster_pause_ms(root, 2000);
        name_it(root, "ready");
        gw_named(root, 1, "late");
    }
    if (!gw_ok(root)) fail_msg("w%d: %s", rank, gw_scope_error(root)->text);
}

static void a_name_given_before_shutdown_is_found(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 1000; seed++)
        cluster_run(seed, (cluster_options){ .world_size = 2, .timeout_ms = CLUSTER_NO_TIMEOUT },
                    name_and_shut_down, NULL);
}

static void wait_for_an_unknown_worker(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank) return;
    gw_named(root, 7, "server");
    assert_int_equal(gw_scope_error(root)->status, GW_NOT_FOUND);
    gw_scope_clear(root);
    gw_worker both[] = { gw_rpc_self(root), { .name = "w7", .rank = 7, .incarnation = 7 } };
    gw_group_open(root, both, 2);
    assert_int_equal(gw_scope_error(root)->status, GW_NOT_FOUND);
    gw_scope_clear(root);
    gw_rpc_barrier(root, both, 2);
    assert_int_equal(gw_scope_error(root)->status, GW_NOT_FOUND);
    gw_scope_clear(root);
}

// Groups consist of workers that have joined, so that no wait in a group can be for one that has not.
static void a_worker_that_has_never_joined_is_not_waited_for(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 2, .timeout_ms = CLUSTER_NO_TIMEOUT },
                wait_for_an_unknown_worker, NULL);
}

// ---- Functions of workers in gw_rpc_shutdown ----------------------------------------------------

// Sums ones of the workers from 1 on, in a group that they open, after different delays.
GW_FUNCTION(waits_sum, GW_POOL, "int, int") {
    int count = (int)gw_arg_int(s, a, 0);
    cluster_pause_ms(s, gw_arg_int(s, a, 1));
    gw_worker workers[8];
    for (int i = 0; i < count; i++) workers[i] = gw_rpc_worker(s, i + 1);
    gw_group *g = gw_group_open(s, workers, count, .timeout_ms = GW_NO_TIMEOUT);
    gw_tensor *sum = gw_all_reduce(s, g, gw_ones(s, GW_F32, 3), GW_SUM);
    gw_rpc_barrier(s, workers, count);
    gw_tensor *last = gw_all_reduce(s, g, sum, GW_MAX);
    return gw_value_of((int64_t)gw_item(s, gw_amax(s, last)));
}

// As in PyTorch's tutorial: all but w0 are in gw_rpc_shutdown, and w0 calls functions in which they work together.
static void call_others(gw_scope *root, int rank, void *context) {
    uint64_t seed = *(uint64_t *)context;
    if (rank) return;
    gw_future *fs[3];
    for (int round = 0; round < 3; round++) {
        int count = 2 + (int)(seed % 2);
        for (int i = 0; i < count; i++) {
            int64_t busy_ms = 1 + (int64_t)(hash_u64(seed * 64 + (uint64_t)(round * 8 + i)) % 700);
            cluster_pause_ms(root, 1 + (int64_t)(hash_u64(seed + (uint64_t)i) % 900));
            fs[i] = gw_rpc_async(root, i + 1, "waits_sum", count, busy_ms);
        }
        if (round == 2 && seed % 3 == 0) return;  // it calls gw_rpc_shutdown with pending calls
        for (int i = 0; i < count; i++)
            assert_int_equal(gw_int_of(root, gw_wait(root, fs[i])), count);
        assert_true(gw_ok(root));
    }
}

static void lead_with_seed(uint64_t seed, void *context) {
    (void)context;
    cluster_options o = { .world_size = 4, .timeout_ms = CLUSTER_NO_TIMEOUT };
    o.network = sim_varied(seed, 500);
    cluster_run(seed, o, call_others, &seed);
}

static void functions_served_in_shutdown_work_together(void **state) {
    (void)state;
    testing_for_seeds(60, lead_with_seed, NULL);
}

// w0 calls one of two workers of a collective, and then gw_rpc_shutdown: no worker calls the other one any more.
static gw_error alone_error;

GW_FUNCTION(waits_alone, GW_POOL) {
    gw_worker workers[] = { gw_rpc_worker(s, 1), gw_rpc_worker(s, 2) };
    gw_group *g = gw_group_open(s, workers, 2, .timeout_ms = GW_NO_TIMEOUT);
    gw_barrier(s, g);
    alone_error = *gw_scope_error(s);
    (void)a;
    return gw_none();
}

static void call_one(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank == 0) gw_rpc_async(root, 1, "waits_alone");
}

static void a_function_whose_caller_is_in_shutdown_ends(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        alone_error = (gw_error){ 0 };
        cluster_options o = { .world_size = 3, .timeout_ms = CLUSTER_NO_TIMEOUT };
        cluster_outcome out = cluster_run(seed, o, call_one, NULL);
        assert_true(out.took_ns < 10 * SIM_SECOND);
        assert_int_equal(alone_error.status, GW_DISCONNECTED);
        assert_non_null(strstr(alone_error.text, "w2 has called gw_rpc_shutdown"));
    }
}

// ---- A bound for gw_rpc_shutdown ----------------------------------------------------------------

static void leave_in_time(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank == 1) {
        gw_rpc_shutdown(root, .timeout_ms = 3000);
        assert_int_equal(gw_scope_error(root)->status, GW_TIMEOUT);
        assert_string_equal(gw_scope_error(root)->text,
                            "gw_rpc_shutdown: w0, w2 have not called it within 3000 ms");
        gw_scope_clear(root);
    } else {
        cluster_pause_ms(root, 60000);
    }
}

static void shutdown_with_a_timeout_names_missing_workers_and_leaves(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        cluster_outcome o =
            cluster_run(seed, (cluster_options){ .world_size = 3 }, leave_in_time, NULL);
        assert_true(o.took_ns < 90 * SIM_SECOND);
    }
}

static void have_time(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank) cluster_pause_ms(root, 2000);
    gw_rpc_shutdown(root, .timeout_ms = 10000);
    assert_true(gw_ok(root));
}

static void shutdown_with_a_timeout_succeeds_if_all_call_it(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++)
        cluster_run(seed, (cluster_options){ .world_size = 3 }, have_time, NULL);
}

GW_TESTS(waits_sim, a_name_given_before_shutdown_is_found,
         every_wait_that_cannot_succeed_any_more_ends,
         a_join_request_without_a_member_that_can_accept_it_ends,
         a_worker_that_has_never_joined_is_not_waited_for,
         functions_served_in_shutdown_work_together, a_function_whose_caller_is_in_shutdown_ends,
         shutdown_with_a_timeout_names_missing_workers_and_leaves,
         shutdown_with_a_timeout_succeeds_if_all_call_it);
