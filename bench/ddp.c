// Replicas of a model on one host: the time of a step, with its computation and its communication. Unless a case states
// otherwise, a sample is the time from a barrier until the slowest member is done.
#include "trainer.h"

enum { STEPS_MAX = 1000, WARM = 5 };

static void time_steps(gw_scope *root, samples *out, chain c, int count) {
    trainer t = { .chain = c };
    gw_group *g = gw_group_world(root);
    double times[STEPS_MAX];
    trainer_open(root, &t);
    gw_ddp_open(root, t.model);
    for (int i = -WARM; i < count && gw_ok(root); i++) {
        gw_barrier(root, g);
        double us = trainer_time_step(root, &t, true);
        if (i >= 0) times[i] = us;
    }
    samples_add_slowest(root, out, g, times, count);
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

// 4 MB of gradients, and 100 ms of processor time in addition to that of the layers.
static void scaling(gw_scope *root, samples *out) {
    time_steps(root, out, (chain){ .layers = 4, .width = 512, .batch = 1, .spin_us = 25e3 }, 10);
}

// ---- One replica --------------------------------------------------------------------------------

// Cost of DDP with one replica: of steps of 10 ms, the time of a synchronised step minus that of the preceding
// unsynchronised one.
static void overhead_np1(gw_scope *root, samples *out) {
    trainer t = { .chain = { .layers = 20, .width = 64, .batch = 8, .spin_us = 500 } };
    trainer_open(root, &t);
    gw_ddp_open(root, t.model);
    for (int i = -WARM; i < 200 && gw_ok(root); i++) {
        double alone_us = trainer_time_step(root, &t, false),
               us = trainer_time_step(root, &t, true) - alone_us;
        if (i >= 0) samples_add(out, us);
    }
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
    { 0 },
};

// ---- Between hosts ------------------------------------------------------------------------------

// 8 MB of gradients in buckets of 1 MB: unsynchronised steps, gradients alone, and both.
typedef enum overlap { COMPUTE, EXCHANGE, BOTH } overlap;

static void exchange(gw_scope *root, trainer *t, gw_group *g, gw_tensor *bucket) {
    gw_scope *s = gw_scope_open(root);
    for (int i = 0; i < t->chain.layers; i++) gw_wait(s, gw_all_reduce_async(s, g, bucket, GW_AVG));
    gw_scope_close_up(s);
}

static void run_overlap(gw_scope *root, samples *out, overlap kind) {
    trainer t = { .chain = { .layers = 8, .width = 512, .batch = 1, .spin_us = 20e3 } };
    gw_group *g = gw_group_world(root);
    gw_tensor *bucket = gw_zeros(root, GW_F32, t.chain.width + 1, t.chain.width);
    trainer_open(root, &t);
    gw_ddp_open(root, t.model, .bucket_bytes = 1 << 20);
    for (int i = -2; i < 20 && gw_ok(root); i++) {
        gw_barrier(root, g);
        double start = now_us();
        if (kind == EXCHANGE)
            exchange(root, &t, g, bucket);
        else
            trainer_time_step(root, &t, kind == BOTH);
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
