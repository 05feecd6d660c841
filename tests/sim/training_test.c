// A model whose parts live on several workers, trained by one optimizer of this worker: loss and
// state are, bit for bit, those of the same model in one process, also with a checkpoint in the
// middle; and groups of parameters that owners take or refuse.
#include "base/scope.h"
#include "../support/launched.h"
#include "testing/cluster.h"
#include "testing/testing.h"
#include <gradwire.h>

#include <stdio.h>
#include <string.h>

enum { T = 5, N = 3, V = 11, E = 4, H = 6, STEPS = 6, SEEDS = 5, RULES = 3 };

// ---- The model ----------------------------------------------------------------------------------
enum { EMBEDDING, LSTM, LINEAR, PARTS };

// On which workers the parts are.
typedef struct split {
    int at[PARTS];
} split;

static const split whole = { { 0, 0, 0 } };
static const split splits[] = {
    { { 1, 2, 0 } }, { { 1, 2, 2 } }, { { 2, 0, 1 } }, { { 1, 1, 1 } }
};
enum { SPLITS = sizeof splits / sizeof splits[0] };

typedef struct model {
    gw_module *parts[PARTS];
    gw_list *params;
    gw_optimizer *opt;
} model;

// Only |rule| 2 takes gradients of rows.
static gw_module *open_embedding(gw_scope *s, int at, int rule) {
    bool sparse = rule == 2;
    if (!at) return gw_nn_embedding(s, V, E, .sparse = sparse);
    gw_map *options = gw_map_open(s);
    gw_map_put(s, options, "sparse", sparse);
    return gw_module_remote(s, at, "gw.nn.embedding", V, E, options);
}

static gw_optimizer *open_optimizer(gw_scope *s, int rule, gw_list *params) {
    switch (rule) {
    case 0: return gw_sgd(s, params, .lr = 0.5, .momentum = 0.9);
    case 1: return gw_adam(s, params, .lr = 0.05, .amsgrad = true);
    default: return gw_adagrad(s, params, .lr = 0.1);
    }
}

// Sets the same values on any worker: those of a local module.
static model open_model(gw_scope *s, split where, int rule) {
    model m;
    gw_seed(s, 7);
    for (int again = 0; again < 2; again++) {
        const int *at = again ? where.at : whole.at;
        gw_module *parts[PARTS];
        parts[EMBEDDING] = open_embedding(s, at[EMBEDDING], rule);
        parts[LSTM] =
            at[LSTM] ? gw_module_remote(s, at[LSTM], "gw.nn.lstm", E, H) : gw_nn_lstm(s, E, H);
        parts[LINEAR] = at[LINEAR] ? gw_module_remote(s, at[LINEAR], "gw.nn.linear", H, V)
                                   : gw_nn_linear(s, H, V);
        for (int i = 0; i < PARTS; i++) {
            if (again) gw_module_load_state_dict(s, parts[i], gw_module_state_dict(s, m.parts[i]));
            m.parts[i] = parts[i];
        }
    }
    m.params = gw_parameters(s, m.parts[0], m.parts[1], m.parts[2]);
    m.opt = open_optimizer(s, rule, m.params);
    return m;
}

static double step(gw_scope *root, const model *m, int number) {
    gw_scope *s = gw_scope_open(root);
    int64_t words[T * N], next[T * N];
    for (int i = 0; i < T * N; i++) {
        words[i] = (i * 7 + number * 3) % V;
        next[i] = (i * 5 + number) % V;
    }
    gw_tensor *x = gw_module_call(s, m->parts[EMBEDDING], gw_from(s, words, T, N));
    gw_tensor *y = gw_module_call(s, m->parts[LINEAR], gw_module_call(s, m->parts[LSTM], x));
    gw_tensor *loss = gw_cross_entropy(s, gw_reshape(s, y, T * N, V), gw_from(s, next, T * N));
    gw_backward(s, loss);
    gw_optimizer_step(s, m->opt);
    double value = gw_item(s, loss);
    gw_scope_close_up(s);
    if (!gw_ok(root)) fail_msg("step %d: %s", number, gw_scope_error(root)->text);
    return value;
}

// ---- Comparing ----------------------------------------------------------------------------------
static gw_map *state_of(gw_scope *s, const model *m) {
    gw_map *all = gw_map_open(s);
    static const char *const names[] = { "embedding", "lstm", "linear" };
    for (int i = 0; i < PARTS; i++)
        gw_map_put(s, all, names[i], gw_module_state_dict(s, m->parts[i]));
    gw_map_put(s, all, "optimizer", gw_optimizer_state_dict(s, m->opt));
    return all;
}

static void expect_same(gw_scope *s, gw_map *a, gw_map *b) {
    assert_int_equal(gw_map_count(a), gw_map_count(b));
    for (int i = 0; i < gw_map_count(a) && gw_ok(s); i++) {
        const char *name = gw_map_key(s, a, i);
        gw_value x = gw_map_get(s, a, name), y = gw_map_get(s, b, name);
        assert_int_equal(x.kind, y.kind);
        if (x.kind == GW_MAP) expect_same(s, x.as.map, y.as.map);
        if (x.kind == GW_INT) assert_int_equal(x.as.integer, y.as.integer);
        if (x.kind == GW_FLOAT) assert_memory_equal(&x.as.real, &y.as.real, sizeof x.as.real);
        if (x.kind != GW_TENSOR) continue;
        gw_tensor *p = gw_contiguous(s, gw_detach(s, x.as.tensor)),
                  *q = gw_contiguous(s, gw_detach(s, y.as.tensor));
        assert_int_equal(gw_numel(p), gw_numel(q));
        if (memcmp(gw_data(p), gw_data(q), (size_t)gw_numel(p) * gw_dtype_size(gw_dtype_of(p))) !=
            0)
            fail_msg("\"%s\" is %s, and %s", name, gw_to_text(s, p), gw_to_text(s, q));
    }
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
}

static void expect_same_models(gw_scope *root, const model *a, const model *b) {
    gw_scope *s = gw_scope_open(root);
    expect_same(s, state_of(s, a), state_of(s, b));
    gw_scope_close_up(s);
}

// ---- Training -----------------------------------------------------------------------------------
typedef struct run {
    split where;
    int rule;
    path file;   // of a checkpoint
    bool saves;  // into it, after half of the steps; else continues from there
} run;

static void train_both(gw_scope *root, int rank, void *context) {
    const run *r = context;
    if (rank) return;
    model here = open_model(root, whole, r->rule), there = open_model(root, r->where, r->rule);
    for (int i = 0; i < STEPS; i++) {
        double a = step(root, &here, i), b = step(root, &there, i);
        assert_memory_equal(&a, &b, sizeof a);
    }
    expect_same_models(root, &here, &there);
}

static void for_all(cluster_main *main, void (*each)(run *r, uint64_t seed, cluster_main *main)) {
    for (uint64_t seed = 1; seed <= (uint64_t)testing_scaled(SEEDS); seed++)
        for (int i = 0; i < SPLITS; i++)
            for (int rule = 0; rule < RULES; rule++) {
                run r = { .where = splits[i], .rule = rule };
                testing_note("seed %d, split %d, rule %d", (int)seed, i, rule);
                each(&r, seed, main);
            }
}

static void play(run *r, uint64_t seed, cluster_main *main) {
    cluster_outcome o = cluster_run(seed, (cluster_options){ .world_size = 3 }, main, r);
    for (int i = 0; i < 3; i++) assert_int_equal(o.owned[i], 0);
}

static void a_model_over_workers_learns_the_bits_of_a_local_one(void **state) {
    (void)state;
    for_all(train_both, play);
}

// ---- Checkpoints --------------------------------------------------------------------------------
static void load_model(gw_scope *root, model *m, const char *file) {
    gw_scope *s = gw_scope_open(root);
    static const char *const names[] = { "embedding", "lstm", "linear" };
    gw_map *all = gw_checkpoint_load(s, file);
    for (int i = 0; i < PARTS; i++)
        gw_module_load_state_dict(s, m->parts[i], gw_map_of(s, gw_map_get(s, all, names[i])));
    gw_optimizer_load_state_dict(s, m->opt, gw_map_of(s, gw_map_get(s, all, "optimizer")));
    gw_scope_close_up(s);
}

static void train_half(gw_scope *root, int rank, void *context) {
    const run *r = context;
    if (rank) return;
    model there = open_model(root, r->where, r->rule);
    if (r->saves) {
        for (int i = 0; i < STEPS / 2; i++) step(root, &there, i);
        gw_checkpoint_save(root, r->file.text, state_of(root, &there));
        return;
    }
    model here = open_model(root, whole, r->rule);
    load_model(root, &there, r->file.text);
    assert_int_equal(gw_optimizer_steps(there.opt), STEPS / 2);
    for (int i = 0; i < STEPS; i++) step(root, &here, i);
    for (int i = STEPS / 2; i < STEPS; i++) step(root, &there, i);
    expect_same_models(root, &here, &there);
}

// Loads the checkpoint in another job, over other workers.
static void save_and_resume(run *r, uint64_t seed, cluster_main *main) {
    path folder = make_folder();
    r->file = in_folder(folder, "half.safetensors");
    r->saves = true;
    play(r, seed, main);
    r->saves = false;
    r->where = splits[(seed + (uint64_t)r->where.at[LINEAR]) % SPLITS];
    play(r, seed, main);
    remove_folder(folder);
}

static void training_continues_from_a_checkpoint_with_the_same_bits(void **state) {
    (void)state;
    for_all(train_half, save_and_resume);
}

// ---- Groups -------------------------------------------------------------------------------------
GW_FUNCTION(training_weight, GW_INLINE, "float, bool") {
    gw_tensor *w = gw_full(s, GW_F64, gw_arg_float(s, a, 0), 2);
    return gw_value_of(gw_arg_bool(s, a, 1) ? gw_requires_grad(s, w) : w);
}
GW_FUNCTION(training_times, GW_INLINE, "rref, tensor") {
    gw_tensor *w = gw_tensor_of(s, gw_rref_local_value(s, gw_arg_rref(s, a, 0)));
    return gw_value_of(gw_mul(s, w, gw_arg_tensor(s, a, 1)));
}

enum { GROUPS = 3, OWNERS = 2 };

// Each group has one weight of each owner; or all weights are in this process.
typedef struct grouped {
    bool far;
    gw_value weights[GROUPS][OWNERS];
    gw_optimizer *opt;
} grouped;

static gw_value open_weight(gw_scope *s, bool far, int owner, double start, bool wants) {
    if (far) return gw_value_of(gw_remote(s, 1 + owner, "training_weight", start, wants));
    gw_tensor *w = gw_full(s, GW_F64, start, 2);
    return gw_value_of(wants ? gw_requires_grad(s, w) : w);
}

static gw_list *group_of(gw_scope *s, const gw_value *weights, int count) {
    gw_list *list = gw_list_open(s);
    for (int i = 0; i < count; i++) gw_list_add_with(s, list, weights[i]);
    return list;
}

static grouped open_grouped(gw_scope *s, bool far) {
    grouped g = { .far = far };
    for (int i = 0; i < GROUPS; i++)
        for (int k = 0; k < OWNERS; k++)
            g.weights[i][k] = open_weight(s, far, k, 1 + 0.3 * i + 0.1 * k, true);
    g.opt = gw_adam(s, group_of(s, g.weights[0], OWNERS), .lr = 0.1);
    return g;
}

static void add_group(gw_scope *s, grouped *g, int i) {
    gw_optimizer_add_parameter_group(s, g->opt, group_of(s, g->weights[i], OWNERS),
                                     .lr = 0.1 / (i + 1));
}

// A step whose loss uses all weights, of which the optimizer may have only some.
static void step_grouped(gw_scope *root, const grouped *g) {
    gw_scope *s = gw_scope_open(root);
    gw_tensor *x = gw_from(s, ((double[]){ 0.5, -2 }), 2);
    for (int i = 0; i < GROUPS; i++)
        for (int k = 0; k < OWNERS; k++) {
            gw_value w = g->weights[i][k];
            x = g->far ? gw_tensor_of(s, gw_rpc_sync(s, 1 + k, "training_times", w, x))
                       : gw_mul(s, w.as.tensor, x);
        }
    gw_backward(s, gw_sum(s, gw_mul(s, x, x)));
    gw_optimizer_step(s, g->opt);
    gw_scope_close_up(s);
    if (!gw_ok(root)) fail_msg("%s", gw_scope_error(root)->text);
}

static void step_both(gw_scope *root, const grouped *a, const grouped *b) {
    step_grouped(root, a);
    step_grouped(root, b);
    gw_scope *s = gw_scope_open(root);
    for (int i = 0; i < GROUPS; i++)
        for (int k = 0; k < OWNERS; k++)
            assert_memory_equal(gw_data(gw_to_here(s, a->weights[i][k].as.rref)),
                                gw_data(b->weights[i][k].as.tensor), 2 * sizeof(double));
    expect_same(s, gw_optimizer_state_dict(s, a->opt), gw_optimizer_state_dict(s, b->opt));
    gw_scope_close_up(s);
}

// |frozen|: bits of the owners whose weights do not require a gradient: w1, w2, and w3, which has
// no part yet.
static void expect_refusal(gw_scope *root, grouped *g, int frozen) {
    gw_scope *s = gw_scope_open(root);
    gw_list *list = gw_list_open(s);
    for (int k = 0; k < OWNERS + 1; k++) {
        gw_value w = open_weight(s, true, k, 1, !(frozen >> k & 1));
        gw_list_add_with(s, list, w);
    }
    gw_optimizer_add_parameter_group(s, g->opt, list);
    gw_error e = gw_scope_close(s);
    if (e.status != GW_INVALID || !strstr(e.text, "does not require a gradient"))
        fail_msg("\"%s\"", e.text);
}

static void add_and_refuse(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank) return;
    grouped far = open_grouped(root, true), here = open_grouped(root, false);
    for (int i = 0; i < GROUPS; i++) {
        if (i) add_group(root, &far, i);
        if (i) add_group(root, &here, i);
        step_both(root, &far, &here);
        for (int frozen = 1; frozen < 1 << (OWNERS + 1); frozen++) {
            testing_note("%d groups, %x frozen", i + 1, (unsigned)frozen);
            expect_refusal(root, &far, frozen);
            assert_int_equal(gw_optimizer_parameter_group_count(far.opt), i + 1);
            step_both(root, &far, &here);
        }
    }
}

static void groups_that_an_owner_refuses_are_removed_on_the_others(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= (uint64_t)testing_scaled(SEEDS); seed++) {
        cluster_outcome o =
            cluster_run(seed, (cluster_options){ .world_size = 4 }, add_and_refuse, NULL);
        for (int i = 0; i < 4; i++) assert_int_equal(o.owned[i], 0);
    }
}

GW_TESTS(training, a_model_over_workers_learns_the_bits_of_a_local_one,
         training_continues_from_a_checkpoint_with_the_same_bits,
         groups_that_an_owner_refuses_are_removed_on_the_others);
