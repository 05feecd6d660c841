// Checkpoints of two workers of one host: the stall of the step that begins one, compared with a file that is written
// at once, and steps while it is written. Files are in $TMPDIR, or in /tmp.
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>

enum { SAMPLES = 5, WARM = 1, PIECES = 256, STEPS = 4 };

typedef struct state {
    gw_group *group;
    gw_list *parameters;
    gw_optimizer *opt;
    gw_map *values;
    char folder[256];
    int step;
} state;

// |bytes| of parameters, and the optimizer's state of the same size, in 2 * PIECES tensors.
static void state_open(gw_scope *root, state *x, int64_t bytes) {
    const char *base = getenv("TMPDIR");
    x->group = gw_group_world(root);
    x->parameters = gw_list_open(root);
    for (int i = 0; i < PIECES && gw_ok(root); i++)
        gw_list_add(root, x->parameters,
                    gw_requires_grad(root, gw_ones(root, GW_F32, bytes / 2 / PIECES / 4)));
    x->opt = gw_sgd(root, x->parameters, .lr = 0.1, .momentum = 0.9);
    snprintf(x->folder, sizeof x->folder, "%s/gw-bench-checkpoint", base ? base : "/tmp");
}

static void remove_files(const state *x) {
    char command[300];
    if (gw_group_rank(x->group) != 0) return;
    snprintf(command, sizeof command, "rm -rf '%s' && sync", x->folder);
    if (system(command)) fprintf(stderr, "%s cannot be removed\n", x->folder);
}

static void take_step(gw_scope *root, state *x) {
    gw_scope *s = gw_scope_open(root);
    gw_tensor *loss = gw_zeros(s, GW_F32, 1);
    for (int i = 0; i < PIECES && gw_ok(s); i++) {
        gw_tensor *p = gw_tensor_of(s, gw_list_get(s, x->parameters, i));
        loss = gw_add(s, loss, gw_sum(s, p));
    }
    gw_backward(s, loss);
    gw_optimizer_step(s, x->opt);
    gw_scope_close_up(s);
}

static gw_map *collect(gw_scope *s, const state *x) {
    gw_map *all = gw_map_open(s);
    gw_map_put(s, all, "parameters", x->parameters);
    gw_map_put(s, all, "optimizer", gw_optimizer_state_dict(s, x->opt));
    return all;
}

// The time of beginning one. Its writing is not part of it.
static double time_begin(gw_scope *root, state *x, gw_future **out) {
    gw_scope *s = gw_scope_open(root);
    gw_barrier(s, x->group);
    double start = now_us();
    gw_future *f =
        gw_checkpoint_begin(s, x->folder, x->group, collect(s, x), .step = x->step++, .keep = 1);
    double took = now_us() - start;
    *out = gw_keep(root, f);
    gw_scope_close_up(s);
    return took;
}

static void begin(gw_scope *root, samples *out, int64_t bytes) {
    state x = { 0 };
    double times[SAMPLES];
    state_open(root, &x, bytes);
    take_step(root, &x);
    for (int i = -WARM; i < SAMPLES && gw_ok(root); i++) {
        gw_future *f;
        double took = time_begin(root, &x, &f);
        if (i >= 0) times[i] = took;
        gw_wait(root, f);
        gw_drop(root, f);
    }
    samples_add_slowest(root, out, x.group, times, SAMPLES);
    remove_files(&x);
}

// From the call until the checkpoint is whole.
static void whole(gw_scope *root, samples *out, int64_t bytes) {
    state x = { 0 };
    double times[SAMPLES];
    state_open(root, &x, bytes);
    take_step(root, &x);
    for (int i = -WARM; i < SAMPLES && gw_ok(root); i++) {
        gw_future *f;
        double start = now_us();
        time_begin(root, &x, &f);
        gw_wait(root, f);
        gw_drop(root, f);
        if (i >= 0) times[i] = now_us() - start;
    }
    samples_add_slowest(root, out, x.group, times, SAMPLES);
    remove_files(&x);
}

// What a step waits for if rank 0 writes one file at once.
static void save(gw_scope *root, samples *out, int64_t bytes) {
    state x = { 0 };
    char path[300];
    state_open(root, &x, bytes);
    take_step(root, &x);
    snprintf(path, sizeof path, "%s.safetensors", x.folder);
    for (int i = -WARM; i < SAMPLES && gw_ok(root); i++) {
        gw_scope *s = gw_scope_open(root);
        double start = now_us();
        if (gw_group_rank(x.group) == 0) gw_checkpoint_save(s, path, collect(s, &x));
        gw_barrier(s, x.group);
        if (i >= 0 && gw_group_rank(x.group) == 0) samples_add(out, now_us() - start);
        gw_scope_close_up(s);
    }
    remove(path);
}

// Steps of backward and optimizer; |saves|: while a checkpoint is written.
static void steps(gw_scope *root, samples *out, bool saves) {
    state x = { 0 };
    double times[SAMPLES * STEPS];
    state_open(root, &x, 100000000);
    for (int i = 0; i < STEPS; i++) take_step(root, &x);
    for (int i = 0; i < SAMPLES && gw_ok(root); i++) {
        gw_future *f = NULL;
        if (saves) time_begin(root, &x, &f);
        for (int k = 0; k < STEPS; k++) {
            gw_barrier(root, x.group);
            double start = now_us();
            take_step(root, &x);
            times[i * STEPS + k] = now_us() - start;
        }
        if (f) gw_wait(root, f);
    }
    samples_add_slowest(root, out, x.group, times, SAMPLES * STEPS);
    remove_files(&x);
}

static void restore(gw_scope *root, samples *out, int64_t bytes) {
    state x = { 0 };
    gw_future *f;
    state_open(root, &x, bytes);
    take_step(root, &x);
    time_begin(root, &x, &f);
    gw_wait(root, f);
    for (int i = 0; i < SAMPLES && gw_ok(root); i++) {
        gw_scope *s = gw_scope_open(root);
        double start = now_us();
        gw_checkpoint_restore(s, x.folder, x.group);
        if (gw_group_rank(x.group) == 0) samples_add(out, now_us() - start);
        gw_scope_close_up(s);
    }
    remove_files(&x);
}

static void begin_100(gw_scope *root, samples *out) {
    begin(root, out, 100000000);
}
static void begin_1000(gw_scope *root, samples *out) {
    begin(root, out, 1000000000);
}
static void whole_100(gw_scope *root, samples *out) {
    whole(root, out, 100000000);
}
static void whole_1000(gw_scope *root, samples *out) {
    whole(root, out, 1000000000);
}
static void save_100(gw_scope *root, samples *out) {
    save(root, out, 100000000);
}
static void save_1000(gw_scope *root, samples *out) {
    save(root, out, 1000000000);
}
static void steps_alone(gw_scope *root, samples *out) {
    steps(root, out, false);
}
static void steps_while_writing(gw_scope *root, samples *out) {
    steps(root, out, true);
}
static void restore_100(gw_scope *root, samples *out) {
    restore(root, out, 100000000);
}
static void restore_1000(gw_scope *root, samples *out) {
    restore(root, out, 1000000000);
}

const bench_case checkpoint_cases[] = {
    { "checkpoint.begin_100MB", -2, begin_100 },
    { "checkpoint.begin_1GB", -2, begin_1000 },
    { "checkpoint.save_100MB", -2, save_100 },
    { "checkpoint.save_1GB", -2, save_1000 },
    { "checkpoint.whole_100MB", -2, whole_100 },
    { "checkpoint.whole_1GB", -2, whole_1000 },
    { "checkpoint.step_100MB", -2, steps_alone },
    { "checkpoint.step_while_writing_100MB", -2, steps_while_writing },
    { "checkpoint.restore_100MB", -2, restore_100 },
    { "checkpoint.restore_1GB", -2, restore_1000 },
    { 0 },
};
