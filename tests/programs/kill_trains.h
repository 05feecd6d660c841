// The work of a job that trains: worker0 walks forward and back through all others, in a row, and
// steps one optimizer over the weights of all. Each step takes 1 from each weight.
#ifndef TESTS_PROGRAMS_KILL_TRAINS_H
#define TESTS_PROGRAMS_KILL_TRAINS_H

#include <gradwire.h>

// Makes this worker's weight, which others may ask for from then on. It lives as long as |own|.
void trains_open(gw_scope *own);

// Of the trainer: until something fails, or |steps_max|. How many steps its optimizer counts is
// written to |out_steps|.
gw_error trains_work(gw_scope *root, uint64_t workers, int steps_max, int64_t *out_steps);

// How many steps this worker's weight has seen.
int trains_steps(void);

#endif
