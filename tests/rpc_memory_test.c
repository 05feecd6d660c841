// Calls, references and leaving with each allocation failing in turn: whatever fails, everything ends, and no memory is
// lost.
#include "rpc/agent.h"
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

GW_CLASS(memory_box, memory_box_open, memory_box_close, "int");

static void memory_box_open(gw_scope *own, memory_box *self, const gw_args *a) {
    self->x = gw_full(own, GW_F32, (double)gw_arg_int(own, a, 0), 2);
}

static void memory_box_close(memory_box *self) {
    (void)self;
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

typedef struct worker {
    env *env;
    int rank, world_size;
} worker;

static void run_worker(void *arg) {
    const worker *w = arg;
    gw_scope *root = gw_scope_open(NULL);
    agent_open_on(root, w->env, true,
                  (gw_rpc_options){ .rank = w->rank,
                                    .world_size = w->world_size,
                                    .join_timeout_ms = 20000,
                                    .timeout_ms = 5000,
                                    .threads = 1,
                                    .init_method = "tcp://127.0.0.1:29500" });
    if (w->rank == 0 && gw_ok(root)) {
        gw_scope *s = gw_scope_open(root);
        try_calls(s, w->world_size - 1);
        try_references(s, w->world_size - 1);
        try_cancelling(s, w->world_size - 1);
        try_values_of_references(s, w->world_size - 1);
        gw_scope_merge(s);
    }
    gw_rpc_shutdown(root);
    gw_error ignored = gw_scope_close(root);
    (void)ignored;
}

static void run_job(void *context) {
    int world_size = *(int *)context;
    worker workers[2];
    sim *s = sim_open(1, (sim_options){ .interleave_per_million = -1 });
    if (!s) return;
    int opened = 0;
    for (; opened < world_size; opened++) {
        workers[opened] = (worker){ sim_env(s, opened), opened, world_size };
        if (!workers[opened].env || !sim_spawn(s, opened, run_worker, &workers[opened])) break;
    }
    if (opened == world_size) assert_true(sim_run(s, 600 * SIM_SECOND));
    sim_close(s);
}

static void it_survives_failing_allocations_alone(void **state) {
    (void)state;
    int world_size = 1;
    testing_alloc_failure_loop(run_job, &world_size);
}

static void it_survives_failing_allocations_of_two_workers(void **state) {
    (void)state;
    int world_size = 2;
    testing_alloc_failure_loop(run_job, &world_size);
}

GW_TESTS_WITH_LIMIT(rpc_memory, 120, it_survives_failing_allocations_alone,
                    it_survives_failing_allocations_of_two_workers);
