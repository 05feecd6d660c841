// Replicas, a sharded optimizer and a join when memory fails: whichever allocation fails, all members end, with the
// right gradients or an error, and nothing leaks.
#include "base/mem.h"
#include "base/random.h"
#include "testing/cluster.h"
#include "testing/testing.h"
#include <gradwire.h>

#include <stdatomic.h>
#include <string.h>

enum { MEMBERS = 2, SIZE = 4, STEPS = 3, SEEDS = 100, IN_A_ROW = 4 };

// Allocations are counted while members work, neither before nor after it.
static atomic_int working;
static atomic_long counted, fails_at, fails_until;

static int fail_when_due(size_t size) {
    (void)size;
    if (!atomic_load(&working)) return 0;
    long n = atomic_fetch_add(&counted, 1) + 1;
    return n >= atomic_load(&fails_at) && n < atomic_load(&fails_until);
}

typedef struct model {
    gw_module *m, *table;
    gw_tensor *x, *y;
} model;

static gw_tensor *same(gw_scope *s, gw_module *m, gw_tensor *x) {
    (void)s, (void)m;
    return x;
}

static void open_model(gw_scope *s, model *m) {
    m->m = gw_module_open(s, "model", same, m);
    m->table = gw_nn_embedding(s, 4, SIZE, .sparse = true);
    m->x = gw_requires_grad(s, gw_full(s, GW_F32, 1, SIZE));
    m->y = gw_requires_grad(s, gw_full(s, GW_F64, 2, SIZE));
    gw_module_register_module(s, m->m, "table", m->table);
    gw_module_register_parameter(s, m->m, "x", m->x);
    gw_module_register_parameter(s, m->m, "y", m->y);
    gw_module_register_buffer(s, m->m, "b", gw_full(s, GW_F32, 3, 2));
}

typedef struct variant {
    bool joins, hooked, static_graph, is_shared_out;
    gw_buffers buffers;
} variant;

static variant now;

// The mean of both members, or, in a join, of the one that has begun an iteration.
static bool is_mean(double dx, double dy) {
    bool of_both = dx == SIZE * 1.5 && dy == SIZE * 0.5;
    bool of_one = (dx == SIZE * 0.5 && dy == 0) || (dx == SIZE && dy == SIZE * 0.5);
    return of_both || (now.joins && of_one);
}

static void step(gw_scope *s, model *m, gw_optimizer *opt, int rank) {
    int64_t row = rank;
    gw_tensor *x = gw_module_call(s, m->m, gw_mul(s, m->x, rank + 1));
    gw_tensor *rows = gw_module_call(s, m->table, gw_from(s, &row, 1));
    gw_tensor *sum = gw_add(s, gw_sum(s, x), gw_sum(s, rows));
    if (rank) sum = gw_add(s, sum, gw_to_dtype(s, gw_sum(s, m->y), GW_F32));
    gw_backward(s, sum);
    bool has_both = gw_ok(s) && !now.is_shared_out;
    double dx = has_both ? gw_item(s, gw_sum(s, gw_grad(s, m->x))) : 0;
    double dy = has_both ? gw_item(s, gw_sum(s, gw_grad(s, m->y))) : 0;
    if (gw_ok(s) && has_both && !is_mean(dx, dy)) fail_msg("%d: %g and %g", rank, dx, dy);
    if (gw_ok(s) && now.is_shared_out) assert_true(gw_grads_count(s) < 3);
    gw_optimizer_step(s, opt);
}

static void work(gw_scope *root, int rank) {
    model m;
    gw_scope *s = gw_scope_open(root);
    gw_scope_set_timeout(s, 20000);
    open_model(s, &m);
    gw_ddp *ddp = gw_ddp_open(s, m.m, .first_bucket_bytes = 1, .bucket_bytes = 1,
                              .static_graph = now.static_graph, .buffers = now.buffers);
    if (now.hooked) gw_ddp_set_hook(s, ddp, gw_hook_f16, NULL);
    gw_list *params = gw_list_open(s);
    gw_list_add(s, params, m.x);
    gw_list_add(s, params, m.y);
    if (now.is_shared_out) gw_list_add(s, params, gw_module_parameter_at(s, m.table, 0));
    gw_optimizer *opt = now.is_shared_out ? gw_sgd(s, params) : gw_adam(s, params);
    gw_optimizer_shard(s, opt, .gradients = now.is_shared_out ? GW_SHARDED : GW_WHOLE);
    gw_joinable parts[] = { { .ddp = ddp }, { .optimizer = opt } };
    gw_join *join = now.joins ? gw_join_open(s, parts, 2) : NULL;
    for (int i = 0; i < STEPS && gw_ok(s); i++) {
        gw_scope *t = gw_scope_open(s);
        step(t, &m, opt, rank);
        gw_scope_close_up(t);
    }
    if (join) gw_join_close(s, join);
    gw_ddp_check(s, ddp);
    gw_error ignored = gw_scope_close(s);
    (void)ignored;
}

static void work_counted(gw_scope *root, int rank, void *context) {
    (void)context;
    atomic_fetch_add(&working, 1);
    work(root, rank);
    atomic_fetch_sub(&working, 1);
}

// Returns the number of allocations.
static long run_job(uint64_t seed, long first, long end) {
    atomic_store(&working, 0);
    atomic_store(&counted, 0);
    atomic_store(&fails_at, first);
    atomic_store(&fails_until, end);
    mem_fail_hook = fail_when_due;
    cluster_run(seed, (cluster_options){ .world_size = MEMBERS, .fails = true }, work_counted,
                NULL);
    mem_fail_hook = NULL;
    return atomic_load(&counted);
}

static void fail_by_seed(uint64_t seed, void *context) {
    (void)context;
    uint32_t out[4];
    philox(seed, 1, out);
    bool hooked = out[0] % 4 == 0;
    static const gw_buffers ways[] = { GW_BUFFERS_BROADCAST, GW_BUFFERS_WITH_GRADIENTS,
                                       GW_BUFFERS_AVERAGE, GW_BUFFERS_LEFT };
    now = (variant){ .joins = out[0] & 8,
                     .hooked = hooked,
                     .static_graph = out[0] & 16,
                     .is_shared_out = out[0] & 128,
                     .buffers = hooked ? GW_BUFFERS_BROADCAST : ways[out[0] >> 5 & 3] };
    long count = run_job(seed % 5 + 1, 0, 0), at = 1 + (long)(out[1] % (uint64_t)count);
    size_t live = mem_live_count();
    testing_note("%d of %ld allocations fail from %ld on, seed %d", out[2] % 2 ? IN_A_ROW : 1,
                 count, at, (int)seed);
    run_job(seed % 5 + 1, at, at + (out[2] % 2 ? IN_A_ROW : 1));
    assert_int_equal(mem_live_count(), live);
}

static void all_members_end_when_memory_fails(void **state) {
    (void)state;
    testing_for_seeds(SEEDS, fail_by_seed, NULL);
}

// ---- One pass -----------------------------------------------------------------------------------

// Allocations of a member's own thread in one backward pass, or while it reports that it has no memory.
typedef struct one_pass {
    bool skips;
    long fails_at, until, at;  // counted from 1; |until| 0: all later ones
    bool has_failed;
    gw_status ends[MEMBERS];
} one_pass;

static one_pass *pass_now;
static _Thread_local bool in_pass;

static int fail_in_pass(size_t size) {
    (void)size;
    one_pass *p = pass_now;
    if (!in_pass) return 0;
    long n = ++p->at;
    bool fails = n >= p->fails_at && (!p->until || n < p->until);
    p->has_failed |= fails;
    return fails;
}

static void begin_pass(gw_scope *s, gw_ddp *ddp, gw_tensor *sum, bool skips) {
    if (skips)
        gw_ddp_skip(s, ddp);
    else
        gw_backward(s, sum);
}

// A scope closed here would notify the others, too.
static void stay(gw_scope *s) {
    cluster_pause_ms(s, 100000);
}

static void pass_once(gw_scope *root, int rank, void *context) {
    one_pass *p = context;
    gw_scope *s = gw_scope_open(root);
    gw_module *m = gw_module_open(s, "model", same, NULL);
    gw_tensor *x = gw_requires_grad(s, gw_full(s, GW_F32, 1, SIZE));
    gw_module_register_parameter(s, m, "x", x);
    gw_ddp *ddp = gw_ddp_open(s, m);
    gw_barrier(s, gw_group_world(s));
    gw_scope *t = gw_scope_open(s);
    gw_scope_set_timeout(t, 60000);
    gw_tensor *sum = gw_sum(t, gw_module_call(t, m, x));
    in_pass = rank == 1;
    begin_pass(t, ddp, sum, rank == 1 && p->skips);
    in_pass = false;
    p->ends[rank] = gw_scope_error(t)->status;
    gw_scope_clear(t);
    gw_error ignored = gw_scope_close(t);
    gw_scope_clear(s);
    stay(s);
    ignored = gw_scope_close(s);
    (void)ignored;
}

static void fail_each(bool skips, bool all_later) {
    one_pass p = { .skips = skips };
    long n = 1;
    do {
        size_t live = mem_live_count();
        testing_note("allocation %ld%s fails%s", n, all_later ? " and every later one" : "",
                     skips ? ", of one that skips" : "");
        p = (one_pass){ .skips = skips, .fails_at = n, .until = all_later ? 0 : n + 1 };
        pass_now = &p;
        mem_fail_hook = fail_in_pass;
        cluster_run(1, (cluster_options){ .world_size = MEMBERS, .fails = true }, pass_once, &p);
        mem_fail_hook = NULL;
        assert_int_not_equal(p.ends[0],
                             GW_TIMEOUT);  // it has no report of failures after its means
        assert_int_not_equal(p.ends[1], GW_TIMEOUT);
        assert_int_equal(mem_live_count(), live);
        n++;
    } while (p.has_failed);
    assert_true(n > 10);
}

static void a_pass_without_memory_fails_on_all(void **state) {
    (void)state;
    for (int way = 0; way < 4; way++) fail_each(way & 1, way & 2);
}

GW_TESTS_WITH_LIMIT(ddp_memory_sim, 120, all_members_end_when_memory_fails,
                    a_pass_without_memory_fails_on_all);
