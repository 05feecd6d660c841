// Steps of optimizers whose parameters several workers own, and checks of their outcomes.
//
// Trainers have the first ranks, owners the next ones. Each owner has one weight, and a trainer may
// have one of its own. A weight shows which steps changed it, in one of two ways:
//
// * Bits: gw_sgd, with a gradient times rate that is a power of two, another one in each try of
//   each trainer. So a weight is minus the sum of the committed tries, and a try that was
//   committed twice is detected.
// * Numbers: a rule with memory, and gradients that depend on the weight. So after n steps a weight
//   is, bit for bit, the result of n steps in one process.
//
// One world at a time in a process: bodies find it in |steps_now|.
#ifndef TESTS_STEPS_H
#define TESTS_STEPS_H

#include <gradwire.h>

enum {
    STEPS_TRAINERS_MAX = 2,
    STEPS_OWNERS_MAX = 3,
    STEPS_WORKERS_MAX = STEPS_TRAINERS_MAX + STEPS_OWNERS_MAX,
    STEPS_TRIES_MAX = 16,
    STEPS_SIZE = 3
};

// Whether a try of a step has been committed to a weight.
typedef enum outcome { NOT_TRIED, NO, MAYBE, YES } outcome;

typedef struct steps_world {
    int trainer_count, worker_count;
    bool has_own;     // trainers have a weight, too
    bool is_numbers;  // else bits
    bool by_rate;     // the rate of the step has a try's bit; else the gradient
    bool concurrent;
    bool in_objects;  // owners' weights are in objects, whose turns steps take
    int rule;         // of numbers
    gw_tensor *weights[STEPS_WORKERS_MAX];
    gw_rref *objects[STEPS_WORKERS_MAX];
    outcome outcomes[STEPS_TRAINERS_MAX][STEPS_TRIES_MAX][STEPS_WORKERS_MAX];
    double numbers[STEPS_WORKERS_MAX][STEPS_TRIES_MAX + 1][STEPS_SIZE];  // after n steps
} steps_world;

extern steps_world *steps_now;

// Fills |numbers|, by steps in this process.
void steps_compute_numbers(steps_world *w);

// Makes the weight of |rank|, if it has one, in |own|, or in an object that |own| holds.
void steps_open_weight(gw_scope *own, steps_world *w, int rank);

// The optimizer of |trainer| over the weights of all in |owners|, as bits, and its own.
gw_optimizer *steps_open_optimizer(gw_scope *s, const steps_world *w, int trainer, uint64_t owners);

// Runs forward and backward over those weights, so that a step of |opt| is the |n|-th try of
// |trainer|.
void steps_walk(gw_scope *s, const steps_world *w, int trainer, int n, uint64_t owners,
                gw_optimizer *opt);

void steps_record_outcome(steps_world *w, int trainer, int n, uint64_t ranks, outcome v);

// Fails the test if a weight contradicts the recorded outcomes of the tries of |trainer|; -1: of all trainers.
void steps_check(const steps_world *w, int rank, int trainer);

// Fails the test if a try that two owners took part in was committed at one of them and not at the
// other.
void steps_check_agreement(const steps_world *w, int a, int b);

#endif
