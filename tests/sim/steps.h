// Steps of optimizers whose parameters several workers own, and what must have come of each.
//
// Trainers have the first ranks, owners those behind them. Each owner has one weight, and a trainer may have one of its own. A
// weight tells what has been done to it, in one of two ways:
//
// * Bits: gw_sgd, and the gradient times the rate is a power of two that only one try of one trainer has. So a weight is minus the sum
//   of the tries that were committed, and one that was committed twice shows.
// * Numbers: a rule with memory, and gradients that depend on the weight. So after n steps a weight is, bit for bit, what n steps in
//   one process make of it.
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
typedef enum verdict { NOT_TRIED, NO, MAYBE, YES } verdict;

typedef struct steps_world {
    int trainer_count, worker_count;
    bool has_own;     // trainers have a weight, too
    bool is_numbers;  // else bits
    bool by_rate;     // a try's bit is in the rate of the step; else in the gradient
    bool concurrent;
    bool in_objects;  // those of owners are in objects, whose turns steps take
    int rule;         // of numbers
    gw_tensor *weights[STEPS_WORKERS_MAX];
    gw_rref *objects[STEPS_WORKERS_MAX];
    verdict verdicts[STEPS_TRAINERS_MAX][STEPS_TRIES_MAX][STEPS_WORKERS_MAX];
    double numbers[STEPS_WORKERS_MAX][STEPS_TRIES_MAX + 1][STEPS_SIZE];  // after n steps
} steps_world;

extern steps_world *steps_now;

// Fills |numbers|, by steps in this process.
void steps_compute_numbers(steps_world *w);

// Makes the weight of |rank|, if it has one, in |own|, or in an object that |own| holds.
void steps_open_weight(gw_scope *own, steps_world *w, int rank);

// The optimizer of |trainer| over the weights of all in |owners|, as bits, and its own.
gw_optimizer *steps_open_optimizer(gw_scope *s, const steps_world *w, int trainer, uint64_t owners);

// Forward and backward over the same, such that a step of |opt| would be the |n|-th try of |trainer|.
void steps_walk(gw_scope *s, const steps_world *w, int trainer, int n, uint64_t owners,
                gw_optimizer *opt);

void steps_judge(steps_world *w, int trainer, int n, uint64_t ranks, verdict v);

// Fails the test if a weight is not what the verdicts say: by the tries of |trainer|, or of all if it is -1.
void steps_check(const steps_world *w, int rank, int trainer);

// Fails the test if a try that may have been committed has been at one of the two, and not at the other.
void steps_check_agreement(const steps_world *w, int a, int b);

#endif
