// Replicas of a model on one host: what a step costs, with what it computes and with what it sends.
// A sample is the time that the slowest member takes from a barrier on, where not said otherwise.
#include "bench.h"

#include <stdlib.h>
#include <time.h>

enum { STEPS_MAX = 1000, LAYERS_MAX = 32, WARM = 5 };

// A chain of square layers.
typedef struct chain {
    int layers;
    int64_t width, batch;
    double spin_us;  // of processor time for each layer, two thirds of it in the backward pass
    gw_module *linear[LAYERS_MAX];
} chain;

// ---- The model ----------------------------------------------------------------------------------

// Computes for so much processor time: the same work on a busy machine as on a quiet one.
static void spin(double us) {
    struct timespec t;
    double end_us = -1;
    do {
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        double at_us = (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
        if (end_us < 0) end_us = at_us + us;
        if (at_us >= end_us) return;
    } while (true);
}

static gw_tensor *spin_in_backward(gw_scope *s, gw_tensor *grad, void *context) {
    (void)s, (void)grad;
    const chain *c = context;
    spin(c->spin_us * 2 / 3);
    return NULL;
}

static gw_tensor *forward(gw_scope *s, gw_module *m, gw_tensor *x) {
    chain *c = gw_module_state(m);
    for (int i = 0; i < c->layers; i++) {
        if (c->spin_us > 0) spin(c->spin_us / 3);
        x = gw_module_call(s, c->linear[i], x);
        if (c->spin_us > 0) gw_register_hook(s, x, spin_in_backward, c);
        if (i + 1 < c->layers) x = gw_relu(s, x);
    }
    return x;
}

static gw_module *open_chain(gw_scope *s, chain *c) {
    gw_module *m = gw_module_open(s, "chain", forward, c);
    for (int i = 0; i < c->layers; i++) {
        c->linear[i] = gw_nn_linear(s, c->width, c->width);
        gw_module_register_module(s, m, gw_format(s, "%d", i), c->linear[i]);
    }
    return m;
}

// ---- Steps --------------------------------------------------------------------------------------

typedef struct trainer {
    chain chain;
    gw_module *model;
    gw_tensor *x, *y;
    gw_optimizer *opt;
} trainer;

static void open_trainer(gw_scope *root, trainer *t) {
    chain *c = &t->chain;
    t->model = open_chain(root, c);
    t->x = gw_rand(root, GW_F32, c->batch, c->width);
    t->y = gw_rand(root, GW_F32, c->batch, c->width);
    t->opt = gw_sgd(root, gw_parameters(root, t->model), .lr = 0.01);
}

static void compute(gw_scope *s, trainer *t) {
    gw_backward(s, gw_mse(s, gw_module_call(s, t->model, t->x), t->y));
}

static double time_step(gw_scope *root, trainer *t, bool synchronised) {
    gw_scope *s = gw_scope_open(root);
    if (!synchronised) gw_ddp_no_sync(s);
    double start = now_us();
    compute(s, t);
    gw_optimizer_step(s, t->opt);
    gw_scope_close_up(s);
    return now_us() - start;
}

// The slowest member's times become rank 0's samples.
static void add_slowest(gw_scope *root, gw_group *g, double *times, int64_t count, samples *out) {
    gw_tensor *slowest = gw_all_reduce(root, g, gw_from(root, times, count), GW_MAX);
    const double *us = gw_data(slowest);
    for (int i = 0; i < count && gw_ok(root) && gw_group_rank(g) == 0; i++) samples_add(out, us[i]);
}

static void time_steps(gw_scope *root, samples *out, chain c, int count) {
    trainer t = { .chain = c };
    gw_group *g = gw_group_world(root);
    double times[STEPS_MAX];
    open_trainer(root, &t);
    gw_ddp_open(root, t.model);
    for (int i = -WARM; i < count && gw_ok(root); i++) {
        gw_barrier(root, g);
        double us = time_step(root, &t, true);
        if (i >= 0) times[i] = us;
    }
    add_slowest(root, g, times, count, out);
}

static void step_tiny(gw_scope *root, samples *out) {
    time_steps(root, out, (chain){ .layers = 2, .width = 16, .batch = 8 }, 1000);
}

static void step_4MB(gw_scope *root, samples *out) {
    time_steps(root, out, (chain){ .layers = 4, .width = 512, .batch = 8 }, 60);
}

static void step_100MB(gw_scope *root, samples *out) {
    time_steps(root, out, (chain){ .layers = 25, .width = 1024, .batch = 8 }, 10);
}

// 4 MB of gradients, and 100 ms of processor time beside what the layers themselves take.
static void scaling(gw_scope *root, samples *out) {
    time_steps(root, out, (chain){ .layers = 4, .width = 512, .batch = 1, .spin_us = 25e3 }, 10);
}

// ---- Without others -----------------------------------------------------------------------------

// What replicas cost a step when there is one of them: of steps of 10 ms, one that is synchronised
// less the one before it that is not.
static void overhead_np1(gw_scope *root, samples *out) {
    trainer t = { .chain = { .layers = 20, .width = 64, .batch = 8, .spin_us = 500 } };
    open_trainer(root, &t);
    gw_ddp_open(root, t.model);
    for (int i = -WARM; i < 200 && gw_ok(root); i++) {
        double alone_us = time_step(root, &t, false), us = time_step(root, &t, true) - alone_us;
        if (i >= 0) samples_add(out, us);
    }
}

// ---- Sharded optimizers -------------------------------------------------------------------------

// Adam's step alone, over 100 MB whose state is shared out.
static void zero_step(gw_scope *root, samples *out) {
    trainer t = { .chain = { .layers = 25, .width = 1024, .batch = 1 } };
    gw_group *g = gw_group_world(root);
    double times[STEPS_MAX];
    const int count = 10;
    open_trainer(root, &t);
    t.opt = gw_adam(root, gw_parameters(root, t.model), .lr = 1e-3);
    gw_optimizer_shard(root, t.opt);
    for (int i = -WARM; i < count && gw_ok(root); i++) {
        gw_scope *s = gw_scope_open(root);
        compute(s, &t);
        gw_barrier(s, g);
        double start = now_us();
        gw_optimizer_step(s, t.opt);
        if (i >= 0) times[i] = now_us() - start;
        gw_scope_close_up(s);
    }
    add_slowest(root, g, times, count, out);
}

// No time: of 100 MB, the bytes that the fullest member holds for Adam in percent of what it holds
// without others.
static void zero_state(gw_scope *root, samples *out) {
    trainer t = { .chain = { .layers = 25, .width = 1024, .batch = 1 } };
    gw_group *g = gw_group_world(root);
    double bytes[2];
    open_trainer(root, &t);
    gw_list *parameters = gw_parameters(root, t.model);
    gw_optimizer *shared = gw_adam(root, parameters), *alone = gw_adam(root, parameters);
    gw_optimizer_shard(root, shared);
    gw_scope *s = gw_scope_open(root);
    compute(s, &t);
    gw_optimizer_step(s, shared);
    gw_optimizer_step(s, alone);
    bytes[0] = (double)gw_optimizer_state_bytes(shared);
    bytes[1] = (double)gw_optimizer_state_bytes(alone);
    gw_tensor *most = gw_all_reduce(s, g, gw_from(s, bytes, 2), GW_MAX);
    const double *at = gw_data(most);
    if (gw_ok(s) && gw_group_rank(g) == 0) samples_add(out, 100 * at[0] / at[1]);
    gw_scope_close_up(s);
}

const bench_case ddp_cases[] = {
    { "ddp.step_tiny_n2", -2, step_tiny },
    { "ddp.step_tiny_n4", -4, step_tiny },
    { "ddp.step_4MB_n2", -2, step_4MB },
    { "ddp.step_4MB_n4", -4, step_4MB },
    { "ddp.step_100MB_n2", -2, step_100MB },
    { "ddp.step_100MB_n4", -4, step_100MB },
    { "ddp.overhead_np1", 1, overhead_np1 },
    { "ddp.scaling_n1", -1, scaling },
    { "ddp.scaling_n2", -2, scaling },
    { "ddp.scaling_n4", -4, scaling },
    { "zero.step_100MB_n2", -2, zero_step },
    { "zero.step_100MB_n4", -4, zero_step },
    { "zero.state_100MB_n2", -2, zero_state },
    { "zero.state_100MB_n4", -4, zero_state },
    { 0 },
};

// ---- Between hosts ------------------------------------------------------------------------------

// 8 MB of gradients in buckets of 1 MB: steps that are not synchronised, gradients alone, and both.
typedef enum overlap { COMPUTE, EXCHANGE, BOTH } overlap;

static void exchange(gw_scope *root, trainer *t, gw_group *g, gw_tensor *bucket) {
    gw_scope *s = gw_scope_open(root);
    for (int i = 0; i < t->chain.layers; i++) gw_wait(s, gw_all_reduce_async(s, g, bucket, GW_AVG));
    gw_scope_close_up(s);
}

static void run_overlap(gw_scope *root, samples *out, overlap what) {
    trainer t = { .chain = { .layers = 8, .width = 512, .batch = 1, .spin_us = 20e3 } };
    gw_group *g = gw_group_world(root);
    gw_tensor *bucket = gw_zeros(root, GW_F32, t.chain.width + 1, t.chain.width);
    open_trainer(root, &t);
    gw_ddp_open(root, t.model, .bucket_bytes = 1 << 20);
    for (int i = -2; i < 20 && gw_ok(root); i++) {
        gw_barrier(root, g);
        double start = now_us();
        if (what == EXCHANGE)
            exchange(root, &t, g, bucket);
        else
            time_step(root, &t, what == BOTH);
        if (i >= 0 && gw_group_rank(g) == 0) samples_add(out, now_us() - start);
    }
}

void ddp_overlap_compute(gw_scope *root, samples *out) {
    run_overlap(root, out, COMPUTE);
}

void ddp_overlap_exchange(gw_scope *root, samples *out) {
    run_overlap(root, out, EXCHANGE);
}

void ddp_overlap_both(gw_scope *root, samples *out) {
    run_overlap(root, out, BOTH);
}
