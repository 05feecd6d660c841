// The work of a job that trains: worker0 runs forward and back through all others, in a row, and steps one optimizer
// over the weights of all. Each step subtracts 1 from each weight.
#ifndef TESTS_PROGRAMS_KILL_TRAINS_H
#define TESTS_PROGRAMS_KILL_TRAINS_H

#include <gradwire.h>

// Makes this worker's weight, which others may fetch from then on. It lives as long as |own|.
void trains_open(gw_scope *own);

// The loop of the trainer: runs until an error, or |steps_max|. Writes the steps that its optimizer has counted to
// |out_steps|.
gw_error trains_work(gw_scope *root, uint64_t workers, int steps_max, int64_t *out_steps);

// The number of steps of this worker's weight.
int trains_steps(void);

#endif
