// Replicas inside distributed backward passes, as in torch's ddp_under_dist_autograd_test: trainers with replicas
// before and after a part of the model on a server. Means are over the trainers; gradients on the server are each
// trainer's own.
#include "testing/cluster.h"
#include "testing/testing.h"
#include <gradwire.h>

#include <string.h>

enum { TRAINERS = 2, SERVER = TRAINERS, SIZE = 4, ROWS = 5, STEPS = 4 };

// The model of a trainer: x, then |before|, the part between, |behind|, and their sum.
typedef struct shape {
    bool before, behind;  // replicated
    bool is_remote;       // the part between
    bool looks_up;        // x is a row of a replicated table, with gradients sparse by rows
    bool is_uneven;       // trainer 1 has one input more
} shape;

static shape now;

// ---- The server's part --------------------------------------------------------------------------

typedef struct middle {
    gw_tensor *w;
} middle;

GW_CLASS(middle, open_middle);

static void open_middle(gw_scope *own, middle *self, const gw_args *a) {
    (void)a;
    self->w = gw_requires_grad(own, gw_full(own, GW_F32, 3, SIZE));
}

GW_METHOD(middle, pass_through, GW_INLINE, "tensor") {
    return gw_value_of(gw_mul(s, gw_arg_tensor(s, a, 0), self->w));
}

GW_METHOD(middle, own_gradient, GW_INLINE, "") {
    gw_tensor *g = gw_grad_find(s, self->w);
    return gw_value_of(g ? gw_item(s, gw_sum(s, g)) : 0.0);
}

// ---- A trainer ----------------------------------------------------------------------------------

typedef struct trainer {
    gw_module *m, *table;
    gw_tensor *before, *behind, *middle;
    gw_rref *remote;
} trainer;

static gw_tensor *forward(gw_scope *s, gw_module *m, gw_tensor *x) {
    const trainer *t = gw_module_state(m);
    if (now.before) x = gw_mul(s, x, t->before);
    x = now.is_remote ? gw_tensor_of(s, gw_rpc_sync(s, t->remote, "pass_through", x))
                      : gw_mul(s, x, t->middle);
    return now.behind ? gw_mul(s, x, t->behind) : x;
}

static void open_trainer(gw_scope *s, trainer *t) {
    t->remote = gw_remote(s, SERVER, "middle");
    t->middle = gw_requires_grad(s, gw_full(s, GW_F32, 3, SIZE));
    t->before = gw_requires_grad(s, gw_full(s, GW_F32, 2, SIZE));
    t->behind = gw_requires_grad(s, gw_full(s, GW_F32, 5, SIZE));
    t->table = gw_nn_embedding(s, ROWS, SIZE, .sparse = true);
    gw_scope *u = gw_scope_open(s);
    gw_no_grad(u);
    gw_copy_(u, gw_module_parameter_get(u, t->table, "weight"), gw_full(u, GW_F32, 7, ROWS, SIZE));
    gw_scope_close_up(u);
    t->m = gw_module_open(s, "model", forward, t);
    if (now.before) gw_module_register_parameter(s, t->m, "before", t->before);
    if (now.behind) gw_module_register_parameter(s, t->m, "behind", t->behind);
    if (now.looks_up) gw_module_register_module(s, t->m, "table", t->table);
}

static int64_t row_of(int rank) {
    return rank + 1;
}

static double input_of(int rank, int step) {
    return now.looks_up ? 7 : 4 * (rank + step + 1);
}

static gw_tensor *input(gw_scope *s, const trainer *t, int rank, int step) {
    int64_t row = row_of(rank);
    return now.looks_up ? gw_module_call(s, t->table, gw_from(s, &row, 1))
                        : gw_full(s, GW_F32, input_of(rank, step), 1, SIZE);
}

static double mean_input(int step, int active) {
    double sum = 0;
    for (int i = TRAINERS - active; i < TRAINERS; i++) sum += input_of(i, step);
    return sum / TRAINERS;
}

static void expect(gw_scope *s, double got, double want, const char *name) {
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
    if (got != want) fail_msg("%s: %g, not %g", name, got, want);
}

static double sum_of(gw_scope *s, gw_tensor *leaf) {
    gw_tensor *g = gw_grad_find(s, leaf);
    return g ? gw_item(s, gw_sum(s, gw_to_dense(s, g))) : 0;
}

static void check(gw_scope *s, const trainer *t, int rank, int step, int active) {
    double before = now.before ? 2 : 1, behind = now.behind ? 5 : 1;
    double mean = SIZE * mean_input(step, active), own = SIZE * input_of(rank, step);
    if (now.before) expect(s, sum_of(s, t->before), mean * 3 * behind, "before");
    if (now.behind) expect(s, sum_of(s, t->behind), mean * before * 3, "behind");
    double middle = now.is_remote ? gw_float_of(s, gw_rpc_sync(s, t->remote, "own_gradient"))
                                  : sum_of(s, t->middle);
    expect(s, middle, own * before * behind, "between");
    if (!now.looks_up) return;
    gw_tensor *g = gw_grad_find(s, gw_module_parameter_get(s, t->table, "weight"));
    assert_true(g && gw_layout_of(g) == GW_ROWS);
    gw_tensor *row = gw_slice(s, gw_to_dense(s, g), 0, row_of(rank), row_of(rank) + 1, 1);
    expect(s, gw_item(s, gw_sum(s, row)), SIZE * before * 3 * behind / TRAINERS, "a row");
}

static void train(gw_scope *root, int rank) {
    trainer t;
    open_trainer(root, &t);
    gw_worker trainers[TRAINERS];
    for (int i = 0; i < TRAINERS; i++) trainers[i] = gw_rpc_worker(root, i);
    bool has_replicas = now.before || now.behind || now.looks_up;
    gw_join *join = NULL;
    if (has_replicas) {
        gw_group *g = gw_group_open(root, trainers, TRAINERS, .name = "trainers");
        gw_joinable part = { .ddp = gw_ddp_open(root, t.m, .group = g) };
        if (now.is_uneven) join = gw_join_open(root, &part, 1);
    }
    for (int step = 0; step < STEPS + (now.is_uneven && rank); step++) {
        gw_scope *s = gw_scope_open(root);
        gw_tensor *x = input(s, &t, rank, step);
        gw_backward(s, gw_sum(s, gw_module_call(s, t.m, x)));
        check(s, &t, rank, step, step < STEPS ? TRAINERS : 1);
        gw_scope_close_up(s);
    }
    if (join) gw_join_close(root, join);
    expect(root, 0, 0, "the end");
}

static void play(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank < TRAINERS) train(root, rank);
    int count;
    const gw_worker *all = gw_rpc_workers(root, &count);
    gw_rpc_barrier(root, all, count);
}

static void run_one(uint64_t seed, void *context) {
    now = *(const shape *)context;
    cluster_run(seed,
                (cluster_options){ .world_size = TRAINERS + 1, .network = sim_varied(seed, 0) },
                play, NULL);
}

static void run(shape x) {
    testing_for_seeds(8, run_one, &x);
}

// test_backward_no_ddp
static void without_replicas_each_trainer_has_its_own(void **state) {
    (void)state;
    run((shape){ .is_remote = true });
}

// test_backward_ddp_outside: the replicated model surrounds the server's part
static void replicas_after_the_servers_part_have_means(void **state) {
    (void)state;
    run((shape){ .is_remote = true, .behind = true });
}

// test_backward_ddp_inside, and on both sides
static void replicas_before_the_servers_part_have_means(void **state) {
    (void)state;
    run((shape){ .is_remote = true, .before = true });
    run((shape){ .is_remote = true, .before = true, .behind = true });
}

// test_backward_ddp_outside_uneven_inputs
static void trainers_may_have_uneven_inputs(void **state) {
    (void)state;
    run((shape){ .is_remote = true, .behind = true, .is_uneven = true });
    run((shape){ .is_remote = true, .before = true, .behind = true, .is_uneven = true });
}

// test_ddp_comparison, test_ddp_comparison_uneven_inputs, test_ddp_dist_autograd_local_vs_remote
static void local_and_remote_parts_give_the_same_gradients(void **state) {
    (void)state;
    run((shape){ .before = true, .behind = true });
    run((shape){ .before = true, .behind = true, .is_uneven = true });
}

// test_ddp_dist_autograd_sparse_grads
static void gradients_of_rows_stay_rows(void **state) {
    (void)state;
    run((shape){ .is_remote = true, .behind = true, .looks_up = true });
}

GW_TESTS(ddp_autograd_sim, without_replicas_each_trainer_has_its_own,
         replicas_after_the_servers_part_have_means, replicas_before_the_servers_part_have_means,
         trainers_may_have_uneven_inputs, local_and_remote_parts_give_the_same_gradients,
         gradients_of_rows_stay_rows);
