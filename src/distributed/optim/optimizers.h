// Optimizers that a worker serves: its part of those of others.
#ifndef DISTRIBUTED_OPTIM_OPTIMIZERS_H
#define DISTRIBUTED_OPTIM_OPTIMIZERS_H

typedef struct optimizers optimizers;

// Of one agent; NULL without memory.
optimizers *optimizers_open(void);
void optimizers_close(optimizers *all);

// How many it serves, and how many of these are between the stage and the commit of a step: for tests.
typedef struct optimizers_counts {
    int served, staged;
} optimizers_counts;
optimizers_counts optimizers_count(optimizers *all);

#endif
