// Replicas take the steps that PyTorch's took, with Gloo between them.
#include "parallel/hooks/power_sgd.h"

#include "testing/cluster.h"
#include "testing/recording.h"
#include "testing/testing.h"
#include <gradwire.h>

#include <stdio.h>
#include <string.h>

enum { PARAMETERS_MAX = 8, AFTER_MAX = 12, STEPS = 20, BATCHES = 4, BATCH = 4 };
enum { IN = 8, HIDDEN = 12, OUT = 4, WORDS = 10 };

typedef struct parameters {
    gw_tensor *of[PARAMETERS_MAX];
    int count;
} parameters;

typedef struct snapshot {
    int rank, step;
    parameters weights, buffers;
} snapshot;

typedef struct recorded {
    char name[16];
    int members;
    gw_tensor *x, *y;                // BATCHES members BATCH ...
    parameters draws, start, grads;  // a gradient may be NULL
    snapshot after[AFTER_MAX];
    int after_count;
} recorded;

// ---- Reading ------------------------------------------------------------------------------------

static void read_all(gw_scope *s, recording *r, const char *word, parameters *out) {
    while (recording_takes(r, word)) {
        assert_true(out->count < PARAMETERS_MAX);
        gw_value v = recording_value(s, r);
        out->of[out->count++] = v.kind == GW_TENSOR ? v.as.tensor : NULL;
    }
}

static void read_tensors(gw_scope *s, recording *r, const char *word, parameters *out) {
    while (recording_takes(r, word)) {
        assert_true(out->count < PARAMETERS_MAX);
        out->of[out->count++] = recording_tensor(s, r);
    }
}

static void read_case(gw_scope *s, recording *r, recorded *c) {
    memset(c, 0, sizeof *c);
    snprintf(c->name, sizeof c->name, "%s", recording_word(r));
    c->members = (int)recording_number(r);
    assert_true(recording_takes(r, "x"));
    c->x = recording_tensor(s, r);
    assert_true(recording_takes(r, "y"));
    c->y = recording_tensor(s, r);
    read_tensors(s, r, "q", &c->draws);
    read_tensors(s, r, "param", &c->start);
    read_all(s, r, "grad", &c->grads);
    while (recording_takes(r, "after")) {
        assert_true(c->after_count < AFTER_MAX);
        snapshot *at = &c->after[c->after_count++];
        at->rank = (int)recording_number(r);
        at->step = (int)recording_number(r);
        read_tensors(s, r, "param", &at->weights);
        read_all(s, r, "buffer", &at->buffers);
    }
}

static bool is_case(const recorded *c, const char *name) {
    return strcmp(c->name, name) == 0;
}

// Members differ between averages; replicas do not.
static bool is_averaged(const recorded *c) {
    return is_case(c, "periodic") || is_case(c, "hierarchical");
}

// ---- Models -------------------------------------------------------------------------------------

typedef struct net {
    const recorded *recorded;
    gw_module *a, *norm, *bag, *b, *c;
    bool takes_c;
} net;

static gw_tensor *forward(gw_scope *s, gw_module *m, gw_tensor *x) {
    const net *n = gw_module_state(m);
    if (n->bag) {
        x = gw_nn_embedding_bag_call(s, n->bag, x);
    } else if (is_case(n->recorded, "conv")) {
        x = gw_tanh(s, gw_module_call(s, n->a, gw_reshape(s, x, -1, 1, 2, 4)));
        return gw_module_call(s, n->b, gw_reshape(s, x, -1, 9));
    } else if (n->a) {
        x = gw_module_call(s, n->a, x);
    }
    if (n->norm) x = gw_module_call(s, n->norm, x);
    gw_tensor *h = gw_tanh(s, x), *y = gw_module_call(s, n->b, h);
    return n->takes_c ? gw_add(s, y, gw_module_call(s, n->c, h)) : y;
}

static gw_module *open_net(gw_scope *s, net *n, const recorded *c) {
    *n = (net){ .recorded = c };
    gw_module *m = gw_module_open(s, "net", forward, n), *d = NULL;
    bool is_conv = is_case(c, "conv"), is_one = is_case(c, "batched");
    if (is_case(c, "bag"))
        n->bag = gw_nn_embedding_bag(s, WORDS, HIDDEN, .sparse = true);
    else if (!is_one)
        n->a = is_conv ? gw_nn_conv2d(s, 1, 3, .kernel = { 2, 2 }) : gw_nn_linear(s, IN, HIDDEN);
    if (is_case(c, "norm")) n->norm = gw_nn_batch_norm1d(s, HIDDEN);
    n->b = gw_nn_linear(s, is_conv ? 9 : is_one ? IN : HIDDEN, OUT, .bias = !is_one);
    if (is_case(c, "unused")) {
        n->c = gw_nn_linear(s, HIDDEN, OUT);
        d = gw_nn_linear(s, HIDDEN, OUT);
    }
    gw_module *const parts[] = { n->bag, n->a, n->norm, n->b, n->c, d };
    for (int i = 0; i < 6; i++)
        if (parts[i]) gw_module_register_module(s, m, gw_format(s, "m%d", i), parts[i]);
    assert_int_equal(gw_module_parameter_count(m), c->start.count);
    gw_scope *t = gw_scope_open(s);
    gw_no_grad(t);
    for (int i = 0; i < c->start.count; i++)
        gw_copy_(t, gw_module_parameter_at(t, m, i), gw_clone(t, c->start.of[i]));
    gw_scope_close_up(t);
    return m;
}

// ---- Steps --------------------------------------------------------------------------------------

// PyTorch's replicas have all gradients, and so do ours at first; with those that are shared out, whole or in
// ranges, the same steps are to be taken.
static enum { ALL_HAVE_ALL, SHARED_OUT, IN_RANGES } way;

static bool can_share(const recorded *c) {
    if (is_averaged(c) || is_case(c, "power_sgd") || is_case(c, "batched")) return false;
    return way != IN_RANGES || !is_case(c, "bag");
}

static gw_tensor *batch_of(gw_scope *s, gw_tensor *all, int step, int rank) {
    return gw_clone(s, gw_select(s, gw_select(s, all, 0, step % BATCHES), 0, rank));
}

static gw_tensor *half(gw_scope *s, gw_tensor *x, int number) {
    return gw_slice(s, x, 0, number * BATCH / 2, (number + 1) * BATCH / 2, 1);
}

static void walk(gw_scope *s, const recorded *c, gw_module *m, gw_tensor *x, gw_tensor *y) {
    if (is_case(c, "no_sync")) {
        gw_ddp_no_sync(s);
        gw_backward(s, gw_mse(s, gw_module_call(s, m, half(s, x, 0)), half(s, y, 0)));
        gw_ddp_sync(s);
        gw_backward(s, gw_mse(s, gw_module_call(s, m, half(s, x, 1)), half(s, y, 1)));
        return;
    }
    if (is_case(c, "autocast")) gw_autocast(s, GW_BF16);
    gw_tensor *out = gw_module_call(s, m, x);
    if (is_case(c, "autocast")) gw_autocast_off(s);
    gw_backward(s, gw_mse(s, gw_to_dtype(s, out, GW_F32), y));
}

// Of f32, whose sums PyTorch adds in another order: a few units of the last place a step. Gloo adds halves
// as halves; and later roundings may differ, too.
static double absolute_of(const recorded *c, int step) {
    if (is_case(c, "autocast")) return 1.0 / 64;
    return is_case(c, "f16") ? 1e-4 * step : 2e-6 * step;
}

static void compare_gradients(gw_scope *s, const recorded *c, gw_module *m, int rank) {
    if (is_averaged(c) && rank) return;
    for (int i = 0; i < c->grads.count; i++) {
        gw_tensor *g = gw_grad_find(s, gw_module_parameter_at(s, m, i));
        char what[64];
        snprintf(what, sizeof what, "%s of %d: gradient %d", c->name, c->members, i);
        bool is_present = c->grads.of[i] != NULL;
        if (g ? !is_present : is_present && way == ALL_HAVE_ALL)
            fail_msg("%s: %s", what, g ? "one" : "none");
        if (!g) continue;
        double absolute = is_case(c, "f16") ? 5e-4 : absolute_of(c, 1);
        recording_compare(what, gw_to_dense(s, g), c->grads.of[i], 1e-5, absolute);
    }
}

static void compare_weights(gw_scope *s, const recorded *c, gw_module *m, int rank, int step) {
    for (int k = 0; k < c->after_count; k++) {
        const snapshot *at = &c->after[k];
        if (at->step != step || (is_averaged(c) && at->rank != rank)) continue;
        char what[64];
        for (int i = 0; i < at->weights.count; i++) {
            snprintf(what, sizeof what, "%s of %d, step %d: parameter %d", c->name, c->members,
                     step, i);
            recording_compare(what, gw_module_parameter_at(s, m, i), at->weights.of[i], 1e-5,
                              absolute_of(c, step));
        }
        for (int i = 0; step == STEPS && !rank && i < at->buffers.count; i++) {
            snprintf(what, sizeof what, "%s of %d: buffer %d", c->name, c->members, i);
            recording_compare(what, gw_module_buffer_at(s, m, i), at->buffers.of[i], 1e-5,
                              absolute_of(c, step));
        }
    }
}

static gw_optimizer *open_optimizer(gw_scope *s, const recorded *c, gw_module *m, gw_averager *a) {
    gw_list *params = gw_parameters(s, m);
    gw_optimizer *opt = is_case(c, "zero")  ? gw_adam(s, params, .lr = 0.01)
                        : is_case(c, "bag") ? gw_sgd(s, params, .lr = 0.1)
                                            : gw_sgd(s, params, .lr = 0.05, .momentum = 0.9);
    if (way != ALL_HAVE_ALL)
        gw_optimizer_shard(s, opt, .gradients = GW_SHARDED, .flat = way == IN_RANGES);
    else if (is_case(c, "zero"))
        gw_optimizer_shard(s, opt);
    *a = (gw_averager){ .levels = { { .period = 4 } }, .warmup = 3 };
    if (is_case(c, "hierarchical")) {
        gw_group *world = gw_group_world(s);
        a->levels[1] = (gw_averager_level){ 2, gw_group_blocks(s, world, c->members / 2) };
        a->levels[0].group = world;
    }
    if (is_averaged(c)) gw_optimizer_average(s, opt, a);
    return opt;
}

// In the order of buckets, as PyTorch has drawn them.
static const recorded *drawn;

static gw_tensor *draw(gw_scope *s, const gw_power_sgd *p, int64_t pass, int bucket, gw_dtype dtype,
                       int64_t count) {
    (void)p, (void)bucket, (void)dtype;
    gw_tensor *q = gw_cat(s, drawn->draws.of, drawn->draws.count, 0);
    assert_true(pass == 2 || pass > 2);
    assert_int_equal(gw_numel(q), count);
    return q;
}

static void set_hook(gw_scope *s, const recorded *c, gw_ddp *d) {
    if (is_case(c, "f16")) gw_ddp_set_hook(s, d, gw_hook_f16, NULL);
    bool is_batched = is_case(c, "batched");
    if (!is_batched && !is_case(c, "power_sgd")) return;
    gw_power_sgd *p = gw_power_sgd_open(s, .start = 2);
    p->draw = draw;
    gw_ddp_set_hook(s, d, is_batched ? gw_hook_batched_power_sgd : gw_hook_power_sgd, p);
}

static void play(gw_scope *root, int rank, void *context) {
    const recorded *c = context;
    net n;
    gw_averager a;
    gw_module *m = open_net(root, &n, c);
    gw_ddp *d = is_averaged(c) ? NULL : gw_ddp_open(root, m);
    if (d) set_hook(root, c, d);
    gw_optimizer *opt = open_optimizer(root, c, m, &a);
    bool joins = is_case(c, "join");
    gw_joinable parts[] = { { .ddp = d }, { .optimizer = opt } };
    gw_join *join = joins ? gw_join_open(root, parts, way == ALL_HAVE_ALL ? 1 : 2) : NULL;
    int steps = joins ? 5 + 4 * rank : STEPS;
    for (int step = 0; step < steps; step++) {
        gw_scope *s = gw_scope_open(root);
        n.takes_c = n.c && !rank && step % 2 == 0;
        walk(s, c, m, batch_of(s, c->x, step, rank), batch_of(s, c->y, step, rank));
        if (!step) compare_gradients(s, c, m, rank);
        gw_optimizer_step(s, opt);
        if (!gw_ok(s)) fail_msg("%s, step %d: %s", c->name, step, gw_scope_error(s)->text);
        if (!joins) compare_weights(s, c, m, rank, step + 1);
        gw_scope_close_up(s);
    }
    if (!joins) return;
    gw_join_close(root, join);
    if (!gw_ok(root)) fail_msg("%s: %s", c->name, gw_scope_error(root)->text);
    compare_weights(root, c, m, rank, 5 + 4 * (c->members - 1));
}

static void replay_all(int count) {
    recording r = recording_open(RECORDINGS "replicas.txt");
    int cases = 0;
    while (recording_takes(&r, "case")) {
        gw_scope *s = gw_scope_open(NULL);
        recorded c;
        read_case(s, &r, &c);
        drawn = &c;
        if (way == ALL_HAVE_ALL || can_share(&c))
            cluster_run((uint64_t)++cases, (cluster_options){ .world_size = c.members }, play, &c);
        gw_scope_close_up(s);
    }
    recording_close(&r);
    assert_int_equal(cases, count);
}

static void replicas_take_the_steps_that_pytorchs_take(void **state) {
    (void)state;
    way = ALL_HAVE_ALL;
    replay_all(27);
}

static void replicas_with_shared_out_gradients_take_them_too(void **state) {
    (void)state;
    way = SHARED_OUT;
    replay_all(20);
    way = IN_RANGES;
    replay_all(18);
}

GW_TESTS(parallel_recordings, replicas_take_the_steps_that_pytorchs_take,
         replicas_with_shared_out_gradients_take_them_too);
