// A model whose gradients a test chooses: the loss is the sum of its weights times given numbers.
//
//     given_model m;
//     given_open(s, &m, 2, (gw_shape[]){ GW_SHAPE(8, 6), GW_SHAPE(6) });
//     gw_backward(s, given_loss(s, &m, gradients));          // leaves gradients[i] for m.weights[i]
#ifndef TESTING_GIVEN_GRADIENTS_H
#define TESTING_GIVEN_GRADIENTS_H

#include "testing/sim.h"
#include <gradwire/nn.h>

enum { GIVEN_WEIGHTS_MAX = 8 };

typedef struct given_model {
    gw_module *module;
    gw_tensor *weights[GIVEN_WEIGHTS_MAX];
    int count;
} given_model;

// Weights of zeros, f32, named "w0" and so on.
void given_open(gw_scope *s, given_model *m, int count, const gw_shape *shapes);
gw_tensor *given_loss(gw_scope *s, const given_model *m, gw_tensor *const *gradients);

// Numbers between -1 and 1, others for each |seed|.
gw_tensor *given_numbers(gw_scope *s, gw_shape shape, uint64_t seed);
// Fails the test unless all are within |most| of each other.
void given_compare(gw_scope *s, const char *what, gw_tensor *x, gw_tensor *expected, double most);

// As sim_varied, but never so slow that members lose sight of each other over a gradient.
sim_options given_network(uint64_t seed, int cut_per_million);

#endif
