// Random graphs over several workers, and the same graphs in one process.
//
// A seed determines the graph that a body makes: operators on its arguments and the weights of its worker, and calls of
// more bodies, on any worker. passes_play makes one in a worker's scope and runs a backward pass over it;
// passes_play_here does the same in one process. Values are small integers in F64, so that sums are exact in any order
// and gradients must be equal bit for bit.
//
// One world at a time in a process: bodies find it in |passes_now|.
#ifndef TESTS_PASSES_H
#define TESTS_PASSES_H

#include <gradwire.h>

enum {
    PASSES_WORKERS_MAX = 6,
    PASSES_WEIGHTS = 3,
    PASSES_INPUTS = 3,
    PASSES_SIZE = 4,
    PASSES_VALUES_MAX = 48
};

typedef struct passes_world {
    int worker_count;
    uint64_t without;             // workers that are not called, as bits; not all
    bool in_order;                // no call begins before the one before it has ended
    bool is_inexact;              // values are arbitrary floating-point numbers
    void (*failed)(gw_scope *s);  // a pass in |s| has failed, which is still open; NULL: nothing
    gw_tensor *weights[PASSES_WORKERS_MAX][PASSES_WEIGHTS];
} passes_world;

extern passes_world *passes_now;

// The kind of pass that is run over a graph, drawn from its seed.
typedef enum passes_kind {
    PASSES_ONE,
    PASSES_RETAINED,  // several passes over one graph
    PASSES_ROOTS,     // one from several losses
    PASSES_GIVEN,     // from a tensor of several elements
    PASSES_CHOSEN,    // to some inputs and results only
    PASSES_BATCHES,   // several graphs, whose gradients add up
    PASSES_KIND_COUNT
} passes_kind;

// Gradients of the inputs, and then of the weights of each worker; |has| is false for those
// without.
typedef struct passes_grads {
    bool has[PASSES_INPUTS + PASSES_WORKERS_MAX * PASSES_WEIGHTS];
    double at[PASSES_INPUTS + PASSES_WORKERS_MAX * PASSES_WEIGHTS][PASSES_SIZE];
} passes_grads;

// Makes the weights of |rank| in |root|.
void passes_open_weights(gw_scope *root, passes_world *w, int rank);

// |s| is a fresh scope of worker |rank|, which fails with the pass. |out| is written only on
// success.
void passes_play(gw_scope *s, int rank, uint64_t seed, passes_grads *out);
// The same in one process with |w|, which has all weights.
void passes_play_here(gw_scope *s, passes_world *w, int rank, uint64_t seed, passes_grads *out);

// The same, after a try with so little time; false if that try succeeded, and |out| is not written.
bool passes_play_again(gw_scope *s, int rank, uint64_t seed, int64_t hurry_ms, passes_grads *out);

// Runs a pass over a graph that another worker's pass has used up: |s| fails with WRONG_STATE,
// without other effects.
void passes_play_spent(gw_scope *s, int rank, uint64_t seed);

// Plays in a body on |to|, which is the initiator then; the value of the future is true.
gw_future *passes_play_on(gw_scope *s, int to, uint64_t seed);

void passes_expect_equal(const passes_grads *got, const passes_grads *expected);

#endif
