// A model of square layers with its optimizer: the benches of replicas and of sharded optimizers step it.
#ifndef TRAINER_H
#define TRAINER_H

#include "bench.h"

enum { LAYERS_MAX = 32 };

// A chain of square layers.
typedef struct chain {
    int layers;
    int64_t width, batch;
    double spin_us;  // of processor time for each layer, two thirds of it in the backward pass
    gw_module *linear[LAYERS_MAX];
} chain;

typedef struct trainer {
    chain chain;  // set before it is opened
    gw_module *model;
    gw_tensor *x, *y;
    gw_optimizer *opt;  // SGD
} trainer;

void trainer_open(gw_scope *root, trainer *t);

void trainer_compute(gw_scope *s, trainer *t);  // forward and backward

// Microseconds of forward, backward and optimizer, in a scope of its own.
double trainer_time_step(gw_scope *root, trainer *t, bool synchronised);

#endif
