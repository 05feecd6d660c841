// Passes in FAST mode, several passes at once, in one scope and in several, and the messages of a steady step between
// several workers.
#include "base/scope.h"
#include "distributed/autograd/distributed_pass.h"
#include "testing/cluster.h"
#include "testing/testing.h"
#include <gradwire.h>

#include <string.h>

enum { WORKERS = 4, SIZE = 3, SEEDS = 20, AT_ONCE = 4 };

// One run at a time: bodies find it here.
static struct scene {
    sim *sim;
    agent *agents[WORKERS];
    gw_tensor *weights[WORKERS];
} now;

// ---- Functions ----------------------------------------------------------------------------------

// Multiplies by the weight of this worker, and by those of the others in |path|, bits of ranks, the
// lowest first.
GW_FUNCTION(once_through, GW_POOL, "int, tensor") {
    int rank = gw_rpc_self(s).rank, next = 0;
    int64_t path = gw_arg_int(s, a, 0);
    gw_tensor *y = gw_mul(s, gw_arg_tensor(s, a, 1), now.weights[rank]);
    while (next < WORKERS && !(path >> next & 1)) next++;
    if (next == WORKERS) return gw_value_of(y);
    return gw_rpc_sync(s, next, "once_through", path & ~(INT64_C(1) << next), y);
}

// Calls another worker and does not use the result.
GW_FUNCTION(once_aside, GW_POOL, "int, tensor") {
    gw_rpc_sync(s, gw_arg_int(s, a, 0), "once_through", 0, gw_arg_tensor(s, a, 1));
    return gw_value_of(gw_mul(s, gw_arg_tensor(s, a, 1), now.weights[gw_rpc_self(s).rank]));
}

GW_FUNCTION(once_grad, GW_INLINE, "") {
    return gw_value_of(gw_grad(s, now.weights[gw_rpc_self(s).rank]));
}

static gw_tensor *through(gw_scope *s, int first, int64_t others, gw_tensor *x) {
    return gw_tensor_of(s, gw_rpc_sync(s, first, "once_through", others, x));
}

static gw_tensor *open_input(gw_scope *s, double scale) {
    gw_tensor *x = gw_from(s, ((double[]){ 0.1 * scale, -0.7 * scale, 1.3 * scale }), SIZE);
    return gw_requires_grad(s, x);
}

static void open_worker(gw_scope *root, int rank) {
    int count;
    now.agents[rank] = root->agent;
    now.weights[rank] = gw_requires_grad(root, gw_full(root, GW_F64, 0.3 * (rank + 1), SIZE));
    const gw_worker *all = gw_rpc_workers(root, &count);
    gw_rpc_barrier(root, all, count);
}

static void keep_sim(sim *s, void *context) {
    (void)context;
    now.sim = s;
}

static void run_seeds(cluster_main *main) {
    for (uint64_t seed = 1; seed <= (uint64_t)testing_scaled(SEEDS); seed++) {
        testing_note("seed %d", (int)seed);
        memset(&now, 0, sizeof now);
        cluster_run(seed, (cluster_options){ .world_size = WORKERS, .direct = keep_sim }, main,
                    NULL);
    }
}

// ---- FAST mode ----------------------------------------------------------------------------------
typedef struct numbers {
    double at[WORKERS][SIZE];
} numbers;

static void copy(gw_scope *s, gw_tensor *x, double *out) {
    x = gw_contiguous(s, x);
    if (gw_ok(s)) memcpy(out, gw_data(x), SIZE * sizeof *out);
}

// Every tensor that is sent is used: in parallel, in a row, twice.
static numbers walk(gw_scope *root, bool fast) {
    numbers n = { 0 };
    gw_scope *s = gw_scope_open(root);
    gw_tensor *x = open_input(s, 1);
    gw_tensor *one = through(s, 1, 4, x), *other = through(s, 3, 0, x);
    gw_tensor *both = through(s, 2, 2, gw_mul(s, one, other));
    gw_tensor *loss = gw_sum(s, gw_add(s, gw_mul(s, both, both), one));
    gw_backward(s, loss, .fast = fast);
    if (gw_ok(s)) copy(s, gw_grad(s, x), n.at[0]);
    for (int i = 1; i < WORKERS; i++)
        copy(s, gw_tensor_of(s, gw_rpc_sync(s, i, "once_grad")), n.at[i]);
    gw_scope_close_up(s);
    assert_string_equal(gw_scope_error(root)->text, "");
    return n;
}

static void walk_both(gw_scope *root, int rank, void *context) {
    (void)context;
    open_worker(root, rank);
    if (rank) return;
    numbers exact = walk(root, false), fast = walk(root, true);
    assert_memory_equal(&exact, &fast, sizeof exact);
}

static void fast_mode_gives_the_gradients_of_exact_mode_if_all_is_used(void **state) {
    (void)state;
    run_seeds(walk_both);
}

static void expect_refused_at_once(gw_scope *s, gw_tensor *loss, const char *words) {
    gw_scope *t = gw_scope_open(s);
    int64_t began_ns = sim_now_ns(now.sim);
    gw_backward(s, loss, .fast = true);
    const gw_error *e = gw_scope_error(s);
    if (e->status != GW_INVALID || !strstr(e->text, words)) fail_msg("\"%s\"", e->text);
    assert_in_range(sim_now_ns(now.sim) - began_ns, 0, SIM_SECOND / 100);
    gw_scope_clear(s);
    gw_scope_close_up(t);
    gw_backward(s, loss);  // the graph is as it was, and the exact mode allows unused tensors
    assert_string_equal(gw_scope_error(s)->text, "");
}

// PyTorch's test_backward_unused_send_function asserts that it waits for ever.
static void leave_sends_unused(gw_scope *root, int rank, void *context) {
    (void)context;
    open_worker(root, rank);
    if (rank) return;
    gw_scope *s = gw_scope_open(root);
    gw_tensor *x = open_input(s, 1), *used = through(s, 1, 4, x);
    gw_tensor *unused = through(s, 3, 0, x);
    expect_refused_at_once(s, gw_sum(s, used), "does not use a tensor that w0 sent to w3");
    assert_true(gw_needs_grad(unused));
    gw_scope_close_up(s);
    s = gw_scope_open(root);
    used = gw_tensor_of(s, gw_rpc_sync(s, 1, "once_aside", 2, open_input(s, 1)));
    gw_backward(s, gw_sum(s, used), .fast = true);
    // The reply to w1 is freed with the call; its send may be released already or not.
    const gw_error *e = gw_scope_error(s);
    if (e->status && !strstr(e->text, "does not use a tensor that w1 sent to w2"))
        fail_msg("%s", e->text);
    gw_scope_clear(s);
    gw_scope_close_up(s);
}

static void fast_mode_refuses_an_unused_send_at_once_instead_of_waiting_for_ever(void **state) {
    (void)state;
    run_seeds(leave_sends_unused);
}

// ---- At once ------------------------------------------------------------------------------------
static void expect_grad(gw_scope *s, int rank, double expected) {
    gw_tensor *g = gw_tensor_of(s, gw_rpc_sync(s, rank, "once_grad"));
    double got = gw_item(s, gw_sum(s, g));
    if (gw_ok(s) && (got < expected - 1e-9 || got > expected + 1e-9))
        gw_fail(s, GW_REMOTE, "the gradient at w%d is %.17g, not %.17g", rank, got, expected);
}

// Calls the last two workers, with the weights 0.9 and 1.2.
static void walk_with(gw_scope *s, double scale) {
    gw_tensor *x = open_input(s, scale);
    double sum = 0.7 * scale;
    gw_backward(s, gw_sum(s, through(s, 2, 8, x)));
    expect_grad(s, 2, sum * 1.2);
    expect_grad(s, 3, sum * 0.9);
}

GW_FUNCTION(once_walk, GW_POOL, "float") {
    walk_with(s, gw_arg_float(s, a, 0));
    return gw_none();
}

GW_FUNCTION(once_walk_inside, GW_POOL, "float") {
    gw_scope *t = gw_scope_open(s);
    walk_with(t, gw_arg_float(s, a, 0));
    gw_scope_close_up(t);
    return gw_none();
}

static void walk_at_once(gw_scope *root, int rank, const char *function) {
    open_worker(root, rank);
    if (rank) return;
    for (int to = 0; to < 2; to++) {
        gw_scope *s = gw_scope_open(root);
        gw_future *all[AT_ONCE];
        for (int i = 0; i < AT_ONCE; i++) all[i] = gw_rpc_async(s, to, function, i + 1.0);
        gw_wait_all(s, all, AT_ONCE);
        gw_scope_close_up(s);
    }
}

static void walk_in_one_scope(gw_scope *root, int rank, void *context) {
    (void)context;
    walk_at_once(root, rank, "once_walk");
}

static void several_passes_of_one_scope_at_once_do_not_mix(void **state) {
    (void)state;
    run_seeds(walk_in_one_scope);
}

static void walk_in_scopes(gw_scope *root, int rank, void *context) {
    (void)context;
    walk_at_once(root, rank, "once_walk_inside");
}

static void several_scopes_of_one_worker_at_once_do_not_mix(void **state) {
    (void)state;
    run_seeds(walk_in_scopes);
}

// Each worker's graph goes through the other three.
static void walk_everywhere(gw_scope *root, int rank, void *context) {
    (void)context;
    open_worker(root, rank);
    for (int i = 1; i <= AT_ONCE; i++) {
        gw_scope *s = gw_scope_open(root);
        gw_tensor *x = open_input(s, i);
        int first = rank ? 0 : 1;
        int64_t others = 15 & ~(1 << rank) & ~(1 << first);
        double product = 0.3 * 0.6 * 0.9 * 1.2 / (0.3 * (rank + 1));
        gw_backward(s, gw_sum(s, through(s, first, others, x)));
        for (int to = 0; to < WORKERS; to++)
            if (to != rank) expect_grad(s, to, 0.7 * i * product / (0.3 * (to + 1)));
        gw_scope_close_up(s);
    }
}

static void passes_of_all_workers_at_once_do_not_mix(void **state) {
    (void)state;
    run_seeds(walk_everywhere);
}

// ---- The cost of a steady step ------------------------------------------------------------------
GW_FUNCTION(once_weight, GW_INLINE, "") {
    return gw_value_of(gw_rref_open(s, now.weights[gw_rpc_self(s).rank]));
}

typedef struct cost {
    bool in_a_row;  // each worker calls the next; else the first calls all others
    int steps;      // 0: no optimizer; 1: with two-phase commit; 2: concurrent
    uint64_t messages;
} cost;

static uint64_t messages_of_all(void) {
    uint64_t sum = 0;
    for (int i = 0; i < WORKERS; i++) sum += now.agents[i]->messages_sent;
    return sum;
}

static gw_optimizer *open_optimizer(gw_scope *root, bool concurrent) {
    gw_list *params = gw_list_open(root);
    for (int i = 1; i < WORKERS; i++)
        gw_list_add_with(root, params, gw_rpc_sync(root, i, "once_weight"));
    return gw_sgd(root, params, .lr = 0.01, .concurrent = concurrent);
}

static gw_tensor *walk_forward(gw_scope *s, gw_tensor *x, bool in_a_row) {
    if (in_a_row) return through(s, 1, 4 + 8, x);
    gw_tensor *y = x;
    for (int i = 1; i < WORKERS; i++) y = gw_add(s, y, through(s, i, 0, x));
    return y;
}

static void count_messages(gw_scope *root, int rank, void *context) {
    enum { FIRST = 3, COUNTED = 5 };
    const cost *c = context;
    open_worker(root, rank);
    if (rank) return;
    uint64_t before = 0;
    gw_optimizer *opt = c->steps ? open_optimizer(root, c->steps == 2) : NULL;
    gw_tensor *x = open_input(root, 1);
    for (int step = 0; step < FIRST + COUNTED; step++) {
        if (step == FIRST) before = messages_of_all();
        gw_scope *s = gw_scope_open(root);
        gw_backward(s, gw_sum(s, walk_forward(s, x, c->in_a_row)));
        if (opt) gw_optimizer_step(s, opt);
        gw_scope_close_up(s);
    }
    assert_int_equal(messages_of_all() - before, COUNTED * c->messages);
    for (int i = 0; i < WORKERS; i++) assert_int_equal(graphs_of(now.agents[i])->mark_calls, 0);
}

static void a_steady_loop_requests_no_marks_and_sends_no_extra_message(void **state) {
    (void)state;
    enum { CALL = 2, GRADIENTS = 2, DONE = 1, SCOPE_CLOSED = 1, OTHERS = WORKERS - 1 };
    enum { PASS = OTHERS * (CALL + GRADIENTS + DONE + SCOPE_CLOSED) };
    static const cost costs[] = { { true, 0, PASS },
                                  { false, 0, PASS },
                                  { true, 1, PASS + OTHERS * 2 * CALL },
                                  { true, 2, PASS + OTHERS * CALL } };
    for (size_t i = 0; i < sizeof costs / sizeof *costs; i++) {
        cost c = costs[i];
        memset(&now, 0, sizeof now);
        cluster_run(1, (cluster_options){ .world_size = WORKERS, .direct = keep_sim },
                    count_messages, &c);
    }
}

GW_TESTS(passes_at_once_sim, fast_mode_gives_the_gradients_of_exact_mode_if_all_is_used,
         fast_mode_refuses_an_unused_send_at_once_instead_of_waiting_for_ever,
         several_passes_of_one_scope_at_once_do_not_mix,
         several_scopes_of_one_worker_at_once_do_not_mix, passes_of_all_workers_at_once_do_not_mix,
         a_steady_loop_requests_no_marks_and_sends_no_extra_message);
