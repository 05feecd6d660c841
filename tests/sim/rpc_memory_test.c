// Calls, references, collectives, watching, joining and leaving with each allocation failing in
// turn: all operations end, and no memory leaks.
#include "agent/state/agent.h"
#include "runtime/runtime.h"
#include "testing/sim.h"
#include "testing/testing.h"

#include <gradwire.h>

GW_FUNCTION(memory_echo, GW_INLINE, "any") {
    return gw_arg(s, a, 0);
}

GW_FUNCTION(memory_nest, GW_POOL, "int") {
    int64_t n = gw_arg_int(s, a, 0);
    int next = (gw_rpc_self(s).rank + 1) % gw_rpc_world_size(s);
    return n ? gw_rpc_sync(s, next, "memory_nest", n - 1) : gw_value_of(n);
}

typedef struct memory_box {
    gw_tensor *x;
} memory_box;

GW_CLASS(memory_box, memory_box_open, "int");

static void memory_box_open(gw_scope *own, memory_box *self, const gw_args *a) {
    self->x = gw_full(own, GW_F32, (double)gw_arg_int(own, a, 0), 2);
}

GW_METHOD(memory_box, get, GW_INLINE) {
    return gw_value_of(self->x);
}

static gw_value same(gw_scope *s, gw_value v, void *context) {
    (void)s;
    (void)context;
    return v;
}

static void try_calls(gw_scope *s, int to) {
    gw_tensor *x = gw_ones(s, GW_F32, 2), *large = gw_zeros(s, GW_F32, 2000);
    gw_rpc_sync(s, to, "memory_echo", x);
    gw_scope_clear(s);
    gw_future *f = gw_rpc_async(s, to, "memory_echo", large);
    gw_future *g = gw_rpc_async(s, to, "gw.add", f, 1.0);
    gw_future *h = gw_then(s, g, same, NULL);
    gw_future *own = gw_future_open(s);
    gw_future *i = gw_rpc_async(s, to, "memory_echo", own);
    gw_future_set(s, own, "text");
    gw_future *all[] = { f, g, h, i };
    gw_wait_all(s, all, 4);
    gw_scope_clear(s);
    gw_rpc_sync(s, to, "memory_nest", 3);
    gw_scope_clear(s);
    gw_rpc_sync(s, to, "no_such_function", "with", x, large);
    gw_scope_clear(s);
}

// A lent tensor, sent and returned, once its memory has been offered: a small part of a large block.
static void try_lending(gw_scope *s, int to) {
    gw_tensor *x = gw_slice(s, gw_ones(s, GW_F32, 1 << 18), 0, 0, 1 << 14, 1);
    for (int i = 0; i < 3; i++) {
        gw_scope *own = gw_scope_open(s);
        gw_rpc_sync(own, to, "memory_echo", x);
        gw_scope_clear(own);
        gw_scope_close_up(own);
    }
    gw_scope_clear(s);
}

static void try_references(gw_scope *s, int to) {
    gw_rref *r = gw_remote(s, to, "memory_echo", 3), *box = gw_remote(s, to, "memory_box", 4);
    gw_to_here_value(s, r);
    gw_scope_clear(s);
    gw_rpc_sync(s, box, "get");
    gw_scope_clear(s);
    gw_rpc_sync(s, to, "memory_echo", r);
    gw_scope_clear(s);
    gw_rref *mine = gw_rref_open(s, 5), *here = gw_remote(s, gw_rpc_self(s).rank, "memory_box", 6);
    gw_rpc_sync(s, to, "memory_echo", mine);
    gw_scope_clear(s);
    gw_local(s, here, memory_box);
    gw_scope_clear(s);
}

static void try_cancelling(gw_scope *s, int to) {
    gw_future *f = gw_rpc_async(s, to, "memory_nest", 2);
    gw_cancel(s, f);
    gw_wait(s, f);
    gw_scope_clear(s);
}

static void try_values_of_references(gw_scope *s, int to) {
    gw_rref *r = gw_remote(s, to, "memory_echo", 3);
    gw_rpc_sync(s, to, "memory_echo", gw_by_value(s, r));
    gw_scope_clear(s);
    gw_wait(s, gw_to_here_async(s, r));
    gw_reference_info infos[4];
    gw_references(s, infos, 4);
    gw_scope_clear(s);
}

static void try_many(gw_scope *s, int to) {
    gw_worker workers[] = { gw_rpc_self(s), gw_rpc_worker(s, to) };
    gw_scope_clear(s);
    gw_tensor *large = gw_zeros(s, GW_F32, 2000);
    gw_future *own = gw_future_open(s);
    gw_rpc_notify(s, to, "memory_echo", gw_rref_open(s, 7));
    gw_scope_clear(s);
    gw_rpc_notify(s, to, "memory_echo", own);
    gw_scope_clear(s);
    gw_rpc_notify(s, to, "memory_nest", 1);
    gw_scope_clear(s);
    gw_future *all = gw_rpc_async_all(s, workers, 2, "memory_echo", own);
    gw_scope_clear(s);
    gw_future_set(s, own, gw_rref_open(s, large));
    gw_scope_clear(s);
    gw_wait(s, all);
    gw_scope_clear(s);
    gw_rpc_sync_all(s, workers, 2, "memory_echo", large);
    gw_scope_clear(s);
    gw_future *both[] = { all, own };
    gw_wait(s, gw_collect_all(s, both, 2));
    gw_scope_clear(s);
}

// Both workers enter the barrier, unless one has failed before; then the error names it.
static void try_collective(gw_scope *s, int world_size) {
    gw_worker workers[2];
    for (int i = 0; i < world_size; i++) workers[i] = gw_rpc_worker(s, i);
    gw_rpc_all_gather(s, workers, world_size, gw_rpc_self(s).rank);
    gw_scope_clear(s);
}

// Without joins and losses, the deadline of the scope ends the watching.
static void try_watching(gw_scope *root) {
    int count;
    gw_scope *s = gw_scope_open(root);
    gw_watch *w = gw_watch_open(s);
    gw_rpc_workers(s, &count);
    gw_scope_set_timeout(s, 10);
    if (gw_ok(s) && !gw_watch_ready(w)) gw_watch_next(s, w);
    gw_error ignored = gw_scope_close(s);
    (void)ignored;
}

// ---- Jobs ---------------------------------------------------------------------------------------

typedef enum job_kind { ALONE, OF_TWO, LENDING, GROUP } job_kind;

typedef struct worker {
    env *env;
    int rank, world_size;
    job_kind kind;
} worker;

static gw_rpc_options options_of(const worker *w) {
    gw_rpc_options o = GW_OPTIONS(gw_rpc_options, .join_timeout_ms = 20000, .timeout_ms = 5000,
                                  .threads = 1, .init_method = "tcp://127.0.0.1:29500");
    if (w->kind == GROUP) {
        o.job = w->rank == 0 ? GW_JOB_CREATE : GW_JOB_JOIN;
    } else {
        o.rank = w->rank;
        o.world_size = w->world_size;
    }
    return o;
}

static void try_all(gw_scope *root, const worker *w) {
    gw_scope *s = gw_scope_open(root);
    int last = w->world_size - 1;
    if (w->kind == LENDING) {
        if (w->rank == 0) try_lending(s, last);
        gw_scope_close_up(s);
        return;
    }
    if (w->kind != GROUP && w->rank == 0) {
        try_calls(s, last);
        try_references(s, last);
        try_cancelling(s, last);
        try_values_of_references(s, last);
        try_many(s, last);
    }
    if (w->kind != GROUP) try_collective(s, w->world_size);
    try_watching(s);
    gw_scope_close_up(s);
}

// The second member of a group leaves, while it holds a reference and owns one.
static void leave(gw_scope *root) {
    gw_scope *s = gw_scope_open(root);
    gw_rref *held = gw_remote(s, 0, "memory_box", 5);
    gw_rpc_sync(s, 0, "memory_echo", gw_rref_open(s, 3));
    gw_scope_clear(s);
    gw_rpc_sync(s, held, "get");
    gw_scope_clear(s);
    gw_rpc_leave(root);
    gw_scope_close_up(s);
}

static void run_worker(void *arg) {
    const worker *w = arg;
    gw_scope *root = gw_scope_open(NULL);
    runtime_open_on(root, w->env, true, options_of(w));
    if (gw_ok(root)) try_all(root, w);
    if (w->kind == GROUP && w->rank) leave(root);
    gw_rpc_shutdown(root);
    gw_error ignored = gw_scope_close(root);
    (void)ignored;
}

static void run_job(void *context) {
    job_kind kind = *(const job_kind *)context;
    int world_size = kind == ALONE ? 1 : 2;
    worker workers[2];
    sim *s = sim_open(1, (sim_options){ .interleave_per_million = -1 });
    if (!s) return;
    int opened = 0;
    for (; opened < world_size; opened++) {
        workers[opened] = (worker){ sim_env(s, opened), opened, world_size, kind };
        if (!workers[opened].env || !sim_spawn(s, opened, run_worker, &workers[opened])) break;
    }
    if (opened == world_size) assert_true(sim_run(s, 600 * SIM_SECOND));
    sim_close(s);
}

static void it_survives_failing_allocations_alone(void **state) {
    (void)state;
    job_kind kind = ALONE;
    testing_alloc_failure_loop(run_job, &kind);
}

static void it_survives_failing_allocations_of_two_workers(void **state) {
    (void)state;
    job_kind kind = OF_TWO;
    testing_alloc_failure_loop(run_job, &kind);
}

static void it_survives_failing_allocations_of_lending(void **state) {
    (void)state;
    job_kind kind = LENDING;
    testing_alloc_failure_loop(run_job, &kind);
}

static void it_survives_failing_allocations_of_joining_and_leaving(void **state) {
    (void)state;
    job_kind kind = GROUP;
    testing_alloc_failure_loop(run_job, &kind);
}

GW_TESTS_WITH_LIMIT(rpc_memory, 120, it_survives_failing_allocations_alone,
                    it_survives_failing_allocations_of_two_workers,
                    it_survives_failing_allocations_of_lending,
                    it_survives_failing_allocations_of_joining_and_leaving);
