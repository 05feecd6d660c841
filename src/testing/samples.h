// Samples: small inputs of each operator for the batteries of tests that iterate over the table of operators. A
// function makes the interesting arguments of one or several rows:
//
//     static void samples_pow(op_sampler *p) {
//         sample_call(p, sample_real(p, -2, 2, 3, 4), sample_real(p, -2, 2, 4));     // broadcast
//         sample_call(p, sample_real(p, -2, 2, 0, 4), gw_value_of(1.5));             // empty
//     }
//
// A battery fills an op_sampler, calls samples_make, and gets each call through |run|. Numbers depend only on |seed| and
// on the numbers made before. For rows that draw random numbers themselves, a test that runs a sample twice seeds the
// scope before each run.
//
// Ownership: everything belongs to p->scope.
#ifndef TESTING_SAMPLES_H
#define TESTING_SAMPLES_H

#include "tensor/ops/op.h"

typedef struct op_sampler {
    gw_scope *scope;
    const op *op;
    gw_dtype real;  // the dtype of sample_real: f32, or f64 to compare derivatives, or a half
    uint64_t seed;
    void (*run)(struct op_sampler *p, const gw_value *args, int arg_count);
    void *context;  // the test's

    // State.
    uint64_t drawn;
    int call_count;
} op_sampler;

// Makes all samples of p->op. Fails the test if there are none.
void samples_make(op_sampler *p);

// The samples of some rows, by the file that has them; the last row is NULL.
typedef struct sample_row {
    const op *op;
    void (*make)(op_sampler *p);
} sample_row;
extern const sample_row samples_of_operands[], samples_of_shapes[], samples_of_reductions[];
extern const sample_row samples_of_indices[], samples_of_layers[];

// A tensor of p->real, or of |dtype|, with values spread evenly over [low, high) at random, none of
// them twice. Integers are rounded down, so they do repeat.
#define sample_real(p, low, high, ...)                                                             \
    gw_value_of_tensor(sample_shaped((p), (p)->real, (low), (high), GW_SHAPE(__VA_ARGS__)))
#define sample_tensor(p, dtype, low, high, ...)                                                    \
    gw_value_of_tensor(sample_shaped((p), (dtype), (low), (high), GW_SHAPE(__VA_ARGS__)))
gw_tensor *sample_shaped(op_sampler *p, gw_dtype dtype, double low, double high, gw_shape shape);

// Sizes or dimensions, and lists of tensors, as arguments.
#define sample_ints(...) value_of_ints(GW_SHAPE(__VA_ARGS__))
#define sample_list(p, ...)                                                                        \
    sample_list_of((p), (const gw_value[]){ __VA_ARGS__ },                                         \
                   (int)(sizeof((const gw_value[]){ __VA_ARGS__ }) / sizeof(gw_value)))
gw_value sample_list_of(op_sampler *p, const gw_value *items, int count);

// Hands one set of arguments, all of them gw_values, to the test.
#define sample_call(p, ...)                                                                        \
    sample_run((p), (const gw_value[]){ __VA_ARGS__ },                                             \
               (int)(sizeof((const gw_value[]){ __VA_ARGS__ }) / sizeof(gw_value)))
void sample_run(op_sampler *p, const gw_value *args, int arg_count);

#endif
