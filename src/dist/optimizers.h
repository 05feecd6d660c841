// Optimizers that a worker serves: its part of those of others.
#ifndef DIST_OPTIMIZERS_H
#define DIST_OPTIMIZERS_H

typedef struct optimizers optimizers;

// Of one agent; NULL without memory.
optimizers *optimizers_open(void);
void optimizers_close(optimizers *all);

#endif
