// Sharded optimizers on one host: what a step with them costs, and what each member holds.
#include "trainer.h"

#include "tensor/pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 10, WARM = 5 };

// 100 MB of parameters.
static const chain model = { .layers = 25, .width = 1024, .batch = 8 };

// ---- The optimizer alone ------------------------------------------------------------------------

// Adam's step alone, over 100 MB whose state is shared out.
static void step(gw_scope *root, samples *out) {
    trainer t = { .chain = model };
    t.chain.batch = 1;
    gw_group *g = gw_group_world(root);
    double times[SAMPLES];
    trainer_open(root, &t);
    t.opt = gw_adam(root, gw_parameters(root, t.model), .lr = 1e-3);
    gw_optimizer_shard(root, t.opt);
    for (int i = -WARM; i < SAMPLES && gw_ok(root); i++) {
        gw_scope *s = gw_scope_open(root);
        trainer_compute(s, &t);
        gw_barrier(s, g);
        double start = now_us();
        gw_optimizer_step(s, t.opt);
        if (i >= 0) times[i] = now_us() - start;
        gw_scope_close_up(s);
    }
    samples_add_slowest(root, out, g, times, SAMPLES);
}

// No time: of 100 MB, the bytes that the fullest member holds for Adam in percent of what it holds
// without others.
static void state(gw_scope *root, samples *out) {
    trainer t = { .chain = model };
    gw_group *g = gw_group_world(root);
    double bytes[2];
    trainer_open(root, &t);
    gw_list *parameters = gw_parameters(root, t.model);
    gw_optimizer *shared = gw_adam(root, parameters), *alone = gw_adam(root, parameters);
    gw_optimizer_shard(root, shared);
    gw_scope *s = gw_scope_open(root);
    trainer_compute(s, &t);
    gw_optimizer_step(s, shared);
    gw_optimizer_step(s, alone);
    bytes[0] = (double)gw_optimizer_state_bytes(shared);
    bytes[1] = (double)gw_optimizer_state_bytes(alone);
    gw_tensor *most = gw_all_reduce(s, g, gw_from(s, bytes, 2), GW_MAX);
    const double *at = gw_data(most);
    if (gw_ok(s) && gw_group_rank(g) == 0) samples_add(out, 100 * at[0] / at[1]);
    gw_scope_close_up(s);
}

// ---- Whole steps --------------------------------------------------------------------------------

typedef enum sharing { PLAIN, STATE, GRADIENTS } sharing;  // nothing, ZeRO-1, ZeRO-2

// Of the last step, where its gradients are still there, beyond what there was before the model.
typedef struct memory {
    double held;      // without what waits for reuse; what processes share is divided among them
    double resident;  // with it, and all of what they share
} memory;

// Of this process, in MB: a line of the kernel's, such as "VmRSS:", in one of its files.
static double memory_mb(const char *file, const char *line) {
    char text[256];
    double kb = 0;
    FILE *f = fopen(file, "r");
    while (f && fgets(text, sizeof text, f))
        if (strncmp(text, line, strlen(line)) == 0) kb = strtod(text + strlen(line), NULL);
    if (f) fclose(f);
    return kb * 1024 / 1e6;
}

static memory memory_now(void) {
    return (memory){ .held = memory_mb("/proc/self/smaps_rollup", "Pss:") -
                             (double)pool_idle_bytes() / 1e6,
                     .resident = memory_mb("/proc/self/status", "VmRSS:") };
}

static void train_step(gw_scope *root, trainer *t, gw_group *g, double *us, memory *m) {
    gw_scope *s = gw_scope_open(root);
    gw_barrier(s, g);
    double start = now_us();
    trainer_compute(s, t);
    gw_optimizer_step(s, t->opt);
    double end = now_us();
    gw_barrier(s, g);  // nobody is on the way
    if (m) *m = memory_now();
    if (us) *us = end - start;
    gw_scope_close_up(s);
}

// Replicas trained by Adam.
static memory train(gw_scope *root, gw_group *g, sharing shared, double *times) {
    trainer t = { .chain = model };
    memory before = memory_now(), m = before;
    trainer_open(root, &t);
    gw_ddp_open(root, t.model);
    t.opt = gw_adam(root, gw_parameters(root, t.model), .lr = 1e-3);
    if (shared != PLAIN)
        gw_optimizer_shard(root, t.opt, .gradients = shared == STATE ? GW_WHOLE : GW_SHARDED);
    for (int i = -WARM; i < SAMPLES && gw_ok(root); i++)
        train_step(root, &t, g, i < 0 ? NULL : &times[i], NULL);
    train_step(root, &t, g, NULL, &m);
    return (memory){ m.held - before.held, m.resident - before.resident };
}

static void train_and_time(gw_scope *root, samples *out, sharing shared) {
    gw_group *g = gw_group_world(root);
    double times[SAMPLES];
    train(root, g, shared, times);
    samples_add_slowest(root, out, g, times, SAMPLES);
}

// No time: MB, of the member that has most.
static void train_and_weigh(gw_scope *root, samples *out, sharing shared, bool resident) {
    gw_group *g = gw_group_world(root);
    double times[SAMPLES];
    memory m = train(root, g, shared, times);
    samples_add_slowest(root, out, g, resident ? &m.resident : &m.held, 1);
}

#define CASES(name, shared)                                                                        \
    static void train_##name(gw_scope *root, samples *out) {                                       \
        train_and_time(root, out, shared);                                                         \
    }                                                                                              \
    static void held_##name(gw_scope *root, samples *out) {                                        \
        train_and_weigh(root, out, shared, false);                                                 \
    }                                                                                              \
    static void resident_##name(gw_scope *root, samples *out) {                                    \
        train_and_weigh(root, out, shared, true);                                                  \
    }
CASES(plain, PLAIN)
CASES(1, STATE)
CASES(2, GRADIENTS)

#define ROWS(name)                                                                                 \
    { "zero.train_" #name "_100MB_n2", -2, train_##name },                                         \
        { "zero.held_" #name "_100MB_n2", -2, held_##name },                                       \
        { "zero.resident_" #name "_100MB_n2", -2, resident_##name },

const bench_case zero_cases[] = {
    { "zero.step_100MB_n2", -2, step },
    { "zero.step_100MB_n4", -4, step },
    { "zero.state_100MB_n2", -2, state },
    { "zero.state_100MB_n4", -4, state },
    // clang-format off
    ROWS(plain) ROWS(1) ROWS(2)
    // clang-format on
    { 0 },
};
