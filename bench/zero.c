// Sharded optimizers on one host: the time of a step, and the memory of each member.
#include "trainer.h"

#include "tensor/pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 10, WARM = 5, WEIGHED = 60 };

// 100 MB of parameters.
static const chain model = { .layers = 25, .width = 1024, .batch = 8 };

// ---- The optimizer alone ------------------------------------------------------------------------

// Adam's step alone, over 100 MB with sharded state.
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

// Measures no time: of 100 MB, the bytes that the fullest member holds for Adam in percent of those without sharding.
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

// Memory after the last step, with its gradients, minus that before the model was made. Shared memory is divided among
// the processes.
typedef struct memory {
    double resident, held;  // with memory kept for reuse, and without
} memory;

static memory memory_now(void) {
    char text[256];
    double kb = 0;
    FILE *f = fopen("/proc/self/smaps_rollup", "r");
    while (f && fgets(text, sizeof text, f))
        if (strncmp(text, "Pss:", 4) == 0) kb = strtod(text + 4, NULL);
    if (f) fclose(f);
    double mb = kb * 1024 / 1e6;
    return (memory){ mb, mb - (double)pool_idle_bytes() / 1e6 };
}

static void train_step(gw_scope *root, trainer *t, gw_group *g, double *us, memory *m) {
    gw_scope *s = gw_scope_open(root);
    gw_barrier(s, g);
    double start = now_us();
    trainer_compute(s, t);
    gw_optimizer_step(s, t->opt);
    double end = now_us();
    gw_barrier(s, g);  // no member is still in a step
    if (m) *m = memory_now();
    if (us) *us = end - start;
    gw_scope_close_up(s);
}

// Replicas trained by Adam, for |steps|.
static memory train(gw_scope *root, gw_group *g, sharing shared, double *times, int steps) {
    trainer t = { .chain = model };
    memory before = memory_now(), m = before;
    trainer_open(root, &t);
    gw_ddp_open(root, t.model);
    t.opt = gw_adam(root, gw_parameters(root, t.model), .lr = 1e-3);
    if (shared != PLAIN)
        gw_optimizer_shard(root, t.opt, .gradients = shared == STATE ? GW_WHOLE : GW_SHARDED);
    for (int i = -WARM; i < steps && gw_ok(root); i++)
        train_step(root, &t, g, i < 0 ? NULL : &times[i], NULL);
    train_step(root, &t, g, NULL, &m);
    return (memory){ m.resident - before.resident, m.held - before.held };
}

static void train_and_time(gw_scope *root, samples *out, sharing shared) {
    gw_group *g = gw_group_world(root);
    double times[SAMPLES];
    train(root, g, shared, times, SAMPLES);
    samples_add_slowest(root, out, g, times, SAMPLES);
}

// Measures no time: MB of a member, on average, without the memory that only the first steps needed. Which members map
// lent memory of others changes from step to step.
static void train_and_weigh(gw_scope *root, samples *out, sharing shared, bool resident) {
    gw_group *g = gw_group_world(root);
    double times[WEIGHED];
    memory m = train(root, g, shared, times, WEIGHED);
    gw_tensor *mean =
        gw_all_reduce(root, g, gw_from(root, resident ? &m.resident : &m.held, 1), GW_AVG);
    if (gw_ok(root) && gw_group_rank(g) == 0) samples_add(out, gw_item(root, mean));
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
