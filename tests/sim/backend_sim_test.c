// Collectives that a backend carries, in the simulator: a backend made of memory, which knows nothing but
// the order in which each member starts its calls, and takes its time.
#include "base/env.h"
#include "base/mem.h"
#include "collective/backend.h"
#include "testing/cluster.h"
#include "testing/testing.h"

#include "agent/agent.h"
#include <gradwire.h>
#include <math.h>
#include <string.h>

enum { MEMBERS_MAX = 4, SLOTS_MAX = 4096 };

// ---- The backend --------------------------------------------------------------------------------

// What the members start as their n-th call of a generation.
typedef struct slot {
    uint64_t generation, number;
    int came;
    backend_call *calls[MEMBERS_MAX];
} slot;

typedef struct communicator {
    int count, self, rank;
    uint64_t generation, number;
} communicator;

typedef struct wait_for_all {
    timer timer;
    task task;
    env *env;
    slot *slot;
    communicator *communicator;
    int self, count;
} wait_for_all;

static slot slots[SLOTS_MAX];
static int slot_count, begun;
static env *envs[MEMBERS_MAX];

static gw_status open(const backend_members *m, void **out, gw_error *error) {
    (void)error;
    communicator *c = mem_calloc(sizeof *c);
    *c = (communicator){ .count = m->count, .self = m->self, .rank = m->ranks[m->self] };
    *out = c;
    return GW_OK;
}

static slot *find_slot(const communicator *c) {
    for (int i = 0; i < slot_count; i++)
        if (slots[i].generation == c->generation && slots[i].number == c->number) return &slots[i];
    assert_true(slot_count < SLOTS_MAX);
    slots[slot_count] = (slot){ .generation = c->generation, .number = c->number };
    return &slots[slot_count++];
}

static uint64_t sum_before(const uint64_t *sizes, int i) {
    uint64_t at = 0;
    for (int k = 0; k < i; k++) at += sizes[k];
    return at;
}

static void add_in_turn(const slot *x, int count) {
    const backend_call *first = x->calls[0];
    uint64_t n = first->size / sizeof(float);
    for (uint64_t i = 0; first->dtype == GW_F32 && i < n; i++) {
        float sum = 0;
        for (int k = 0; k < count; k++) sum += ((const float *)x->calls[k]->from)[i];
        for (int k = 0; k < count; k++) ((float *)x->calls[k]->to)[i] = sum;
    }
}

static void move(const slot *x, int count) {
    for (int i = 0; i < count; i++) {
        const backend_call *a = x->calls[i];
        assert_int_equal(a->operation, x->calls[0]->operation);  // they start the same
        assert_int_equal(a->root, x->calls[0]->root);
        for (int k = 0; k < count; k++) {
            const backend_call *b = x->calls[k];
            if (a->operation == OPERATION_ALL_TO_ALL) {
                assert_int_equal(a->sizes_from[k], b->sizes_to[i]);
                memcpy((uint8_t *)b->to + sum_before(b->sizes_to, i),
                       (const uint8_t *)a->from + sum_before(a->sizes_from, k), a->sizes_from[k]);
            } else if (a->operation == OPERATION_ALL_GATHER ||
                       (a->operation == OPERATION_GATHER && k == a->root)) {
                assert_int_equal(a->size, b->sizes_to[i]);
                memcpy((uint8_t *)b->to + sum_before(b->sizes_to, i), a->from, a->size);
            } else if (a->operation == OPERATION_BROADCAST && i == a->root && i != k) {
                assert_int_equal(a->size, b->size);
                memcpy(b->to, a->from, a->size);
            }
        }
    }
    if (x->calls[0]->operation == OPERATION_ALL_REDUCE) add_in_turn(x, count);
}

static void end(task *t) {
    wait_for_all *w = list_entry(t, wait_for_all, task);
    backend_call *call = w->slot->calls[w->self];
    gw_error error = { .status = GW_CANCELLED, .text = "aborted" };
    call->done(call, w->slot->came < w->count ? &error : NULL);
    mem_free(w);
}

static void look(timer *t) {
    wait_for_all *w = list_entry(t, wait_for_all, timer);
    bool goes_on = w->slot->generation == w->communicator->generation;
    if (w->slot->came < w->count && goes_on) {
        env_set_timer(w->env, t, env_now_ns(w->env) + SIM_SECOND / 1000);
        return;
    }
    w->task.run = end;
    env_defer(w->env, &w->task);
}

static void start(void *to, backend_call *call) {
    communicator *c = to;
    wait_for_all *w = mem_calloc(sizeof *w);
    slot *x = find_slot(c);
    c->number++;
    begun++;
    assert_null(x->calls[c->self]);
    x->calls[c->self] = call;
    if (++x->came == c->count) move(x, c->count);
    *w = (wait_for_all){
        .env = envs[c->rank], .slot = x, .communicator = c, .self = c->self, .count = c->count
    };
    w->timer.fire = look;
    env_set_timer(w->env, &w->timer, env_now_ns(w->env) + SIM_SECOND / 100);
}

static void abort_calls(void *of) {
    communicator *c = of;
    c->generation++;
    c->number = 0;
}

static void close_communicator(void *of) {
    mem_free(of);
}

static const backend memory = {
    .name = "memory",
    .operations = 1u << OPERATION_ALL_TO_ALL | 1u << OPERATION_ALL_GATHER | 1u << OPERATION_GATHER |
                  1u << OPERATION_BROADCAST | 1u << OPERATION_ALL_REDUCE,
    .ops = 1u << COMBINE_SUM | 1u << COMBINE_AVG,
    .dtypes = 1u << GW_F32,
    .devices = 1u << GW_CPU,
    .open = open,
    .start = start,
    .abort = abort_calls,
    .close = close_communicator,
};

static cluster_outcome run_over_memory(uint64_t seed, int count, cluster_main *body,
                                       void *context) {
    slot_count = begun = 0;
    memset(slots, 0, sizeof slots);
    backend_of_tests = &memory;
    return cluster_run(seed, (cluster_options){ .world_size = count }, body, context);
}

static gw_group *open_over_memory(gw_scope *s, int rank, bool any_order) {
    envs[rank] = ((agent *)s->agent)->env;
    return gw_group_world(s, .name = "m", .backend = "memory", .any_order = any_order);
}

// ---- What it gives ------------------------------------------------------------------------------

static gw_tensor *numbers(gw_scope *s, int rank, int64_t count, gw_dtype dtype) {
    float *x = gw_alloc(s, (size_t)(count + 1) * sizeof *x);
    for (int i = 0; i < count; i++)
        x[i] = ldexpf((float)((i * 37 + rank * 101) % 255 - 127), (i + 3 * rank) % 11 - 8);
    return gw_to_dtype(s, gw_from_with(s, GW_F32, x, (gw_shape){ 1, &count }), dtype);
}

static void expect_same(gw_scope *s, gw_tensor *a, gw_tensor *b) {
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
    assert_int_equal(gw_dims(a), gw_dims(b));
    for (int i = 0; i < gw_dims(a); i++) assert_int_equal(gw_size(a, i), gw_size(b, i));
    assert_memory_equal(gw_data(gw_contiguous(s, a)), gw_data(gw_contiguous(s, b)),
                        (size_t)gw_numel(a) * gw_dtype_size(gw_dtype_of(a)));
}

static void try_dtype(gw_scope *s, gw_group *m, gw_group *g, gw_dtype dtype) {
    int rank = gw_group_rank(g), n = gw_group_size(g);
    gw_tensor *x = numbers(s, rank, 301, dtype), *none = numbers(s, rank, 0, dtype);
    expect_same(s, gw_all_reduce(s, m, x, GW_SUM), gw_all_reduce(s, g, x, GW_SUM));
    expect_same(s, gw_all_reduce(s, m, x, GW_MIN), gw_all_reduce(s, g, x, GW_MIN));
    expect_same(s, gw_all_reduce(s, m, none, GW_SUM), none);
    expect_same(s, gw_reduce(s, m, x, GW_SUM, n - 1), gw_reduce(s, g, x, GW_SUM, n - 1));
    if (dtype != GW_I64)
        expect_same(s, gw_all_reduce(s, m, x, GW_AVG, .factor = 0.3),
                    gw_all_reduce(s, g, x, GW_AVG, .factor = 0.3));
    gw_tensor *rows = gw_reshape(s, numbers(s, rank, 6 * n, dtype), 2 * n, 3);
    expect_same(s, gw_reduce_scatter(s, m, rows, GW_SUM), gw_reduce_scatter(s, g, rows, GW_SUM));
    gw_tensor *mine = gw_reshape(s, numbers(s, rank, 5 * (rank + 1), dtype), -1, 5);
    gw_tensor *given = rank == 1 % n ? mine : NULL;
    expect_same(s, gw_broadcast(s, m, given, 1 % n), gw_broadcast(s, g, given, 1 % n));
    expect_same(s, gw_all_gather(s, m, mine), gw_all_gather(s, g, mine));
    expect_same(s, gw_gather_to(s, m, mine, 0), gw_gather_to(s, g, mine, 0));
    int64_t sizes[MEMBERS_MAX], total = 0;
    for (int i = 0; i < n; i++) total += sizes[i] = (i + rank) % 3;
    gw_tensor *parts = gw_reshape(s, numbers(s, rank, total * 4, dtype), total, 4);
    expect_same(s, gw_all_to_all(s, m, parts, .sizes = sizes),
                gw_all_to_all(s, g, parts, .sizes = sizes));
}

static void try_all(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s), *m = open_over_memory(s, rank, false);
    static const gw_dtype dtypes[] = { GW_F32, GW_BF16, GW_I64 };
    for (int i = 0; i < 3; i++) try_dtype(s, m, g, dtypes[i]);
    int n = gw_group_size(g);
    gw_tensor *leaf = gw_requires_grad(s, gw_ones(s, GW_F32, 2 + rank));
    gw_backward(s, gw_sum(s, gw_mul(s, gw_all_gather(s, m, leaf), rank + 1)));
    expect_same(s, gw_grad(s, leaf), gw_full(s, GW_F32, n * (n + 1) / 2, 2 + rank));
    gw_tensor *into = gw_zeros(s, GW_F32, 3), *x = numbers(s, rank, 3, GW_F32);
    gw_all_reduce(s, m, x, GW_SUM, .into = into);
    expect_same(s, into, gw_all_reduce(s, g, x, GW_SUM));
    assert_int_equal(gw_list_count(gw_all_gather_value(s, m, "by sessions")), n);
    gw_barrier(s, m);
    assert_true(gw_ok(s));
}

static void a_backend_gives_the_bits_of_sessions(void **state) {
    (void)state;
    for (int n = 1; n <= MEMBERS_MAX; n++) {
        for (uint64_t seed = 1; seed <= 5; seed++) run_over_memory(seed, n, try_all, NULL);
        assert_int_equal(begun > 0, n > 1);
    }
}

static void add_in_any_order(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *m = open_over_memory(s, rank, true);
    gw_tensor *sum = gw_all_reduce(s, m, gw_full(s, GW_F32, rank + 1, 5), GW_AVG, .factor = 2);
    assert_int_equal((int)gw_item(s, gw_max(s, sum)), 4);
    gw_tensor *whole = gw_all_reduce(s, m, gw_full(s, GW_I64, rank + 1, 5), GW_SUM);
    assert_int_equal(gw_item_int(s, gw_max(s, whole)), 6);
}

static void a_backend_may_add_in_its_own_order(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        run_over_memory(seed, 3, add_in_any_order, NULL);
        assert_int_equal(begun, 3 + 3 * 2);  // what it does not add, it moves
    }
}

// ---- Order --------------------------------------------------------------------------------------

static void start_many(gw_scope *s, int rank, void *context) {
    (void)context;
    enum { MANY = 90 };
    gw_future *fs[MANY];
    gw_group *m = open_over_memory(s, rank, false);
    for (int i = 0; i < MANY; i++) {
        gw_tensor *x = gw_full(s, GW_I64, rank + i, 3);
        fs[i] = i % 5 == 2
                    ? gw_all_reduce_async(s, m, x, GW_SUM, .key = (uint64_t)(1 + (i + rank) % 2))
                : i % 5 == 3 ? gw_all_gather_async(s, m, x)
                             : gw_all_reduce_async(s, m, x, GW_SUM);
    }
    for (int i = 0; i < MANY; i++) {
        gw_tensor *out = gw_tensor_of(s, gw_wait(s, fs[i]));
        if (!gw_ok(s)) fail_msg("%d: %s", i, gw_scope_error(s)->text);
        if (i % 5 == 3)
            assert_int_equal(((const int64_t *)gw_data(out))[3], 1 + i);
        else if (i % 5 != 2)
            assert_int_equal(((const int64_t *)gw_data(out))[2], 3 * i + 3);
    }
}

static void calls_are_started_in_one_order(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) run_over_memory(seed, 3, start_many, NULL);
}

// ---- Ends ---------------------------------------------------------------------------------------

static void expect_sum(gw_scope *s, gw_group *m) {
    int n = gw_group_size(m);
    gw_tensor *sum = gw_all_reduce(s, m, gw_full(s, GW_F32, gw_group_rank(m) + 1, 7), GW_SUM);
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
    assert_int_equal((int)gw_item(s, gw_max(s, sum)), n * (n + 1) / 2);
}

static void wait_ms(gw_scope *s, int ms) {
    gw_scope *t = gw_scope_open(s);
    gw_scope_set_timeout(t, ms);
    gw_wait(t, gw_future_open(t));
    gw_error late = gw_scope_close(t);
    assert_int_equal(late.status, GW_TIMEOUT);
}

// Member 1 cancels at a time that the seed says: before it begins anywhere, while some have begun it,
// or when it is done.
static void cancel_midway(gw_scope *s, int rank, void *context) {
    const uint64_t *seed = context;
    gw_group *m = open_over_memory(s, rank, false), *g = gw_group_world(s);
    for (int i = 0; i < 4; i++) {
        gw_future *f = gw_all_gather_async(s, m, gw_full(s, GW_F32, rank, 2));
        if (rank == 1) {
            wait_ms(s, 1 + (int)(*seed * 7 + (uint64_t)i * 11) % 40);
            gw_cancel(s, f);
        }
        gw_wait(s, f);
        if (!gw_ok(s)) assert_int_equal(gw_scope_error(s)->status, GW_CANCELLED);
        gw_scope_clear(s);
        wait_ms(s, 500);  // a verdict ends what is called before it comes
        gw_barrier(s, g);
        expect_sum(s, m);
    }
}

static void what_was_begun_is_not_taken_for_what_comes_later(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) run_over_memory(seed, 3, cancel_midway, &seed);
}

static void differ(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *m = open_over_memory(s, rank, false);
    expect_sum(s, m);
    gw_all_reduce(s, m, gw_ones(s, GW_F32, rank == 1 ? 3 : 4), GW_SUM);
    assert_int_equal(gw_scope_error(s)->status, GW_MISMATCH);
    assert_non_null(
        strstr(gw_scope_error(s)->text, "w1 does all_reduce sum f32 3, by its backend"));
    gw_scope_clear(s);
    if (rank == 2) wait_ms(s, 3000);
    gw_broadcast(s, m, rank ? NULL : gw_ones(s, GW_F32, 4), 0, .timeout_ms = 1000);
    assert_int_equal(gw_scope_error(s)->status, GW_TIMEOUT);
    gw_scope_clear(s);
    expect_sum(s, m);
}

static void verdicts_are_those_of_any_group(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 50; seed++) run_over_memory(seed, 3, differ, NULL);
}

static void go_away(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *m = open_over_memory(s, rank, false);
    expect_sum(s, m);
    gw_barrier(s, m);
    if (rank == 1) {
        gw_rpc_leave(s);
        return;
    }
    gw_all_reduce(s, m, gw_ones(s, GW_F32, 4), GW_SUM);
    assert_int_equal(gw_scope_error(s)->status, GW_DISCONNECTED);
    gw_scope_clear(s);
}

static void who_leaves_breaks_the_group(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) run_over_memory(seed, 3, go_away, NULL);
}

static void refuse(gw_scope *s, int rank, void *context) {
    (void)rank, (void)context;
    gw_group_world(s, .backend = "nccl");
    assert_int_equal(gw_scope_error(s)->status, GW_INVALID);
    assert_string_equal(gw_scope_error(s)->text,
                        "there is no backend \"nccl\"; there are session and mpi");
    gw_scope_clear(s);
    gw_group *g = gw_group_world(s, .backend = "session");
    expect_sum(s, g);
    gw_group_world(s, .name = "never", .backend = "mpi");  // the tests are not started by mpirun
    gw_status status = gw_scope_error(s)->status;
    assert_true(status == GW_WRONG_STATE || status == GW_UNSUPPORTED);
    assert_non_null(strstr(gw_scope_error(s)->text, "backend \"mpi\""));
    gw_scope_clear(s);
}

static void unknown_backends_are_refused(void **state) {
    (void)state;
    run_over_memory(1, 2, refuse, NULL);
}

GW_TESTS(backend_sim, a_backend_gives_the_bits_of_sessions, a_backend_may_add_in_its_own_order,
         calls_are_started_in_one_order, what_was_begun_is_not_taken_for_what_comes_later,
         verdicts_are_those_of_any_group, who_leaves_breaks_the_group,
         unknown_backends_are_refused);
