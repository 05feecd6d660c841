// How a job ends on this host: sends the signals that the policy returns.
#ifndef GRADWIRE_ENDING_H
#define GRADWIRE_ENDING_H

#include "job/job.h"

void ending_signal_groups(job *j, int signal_number);  // of the ranks that run

// To all processes that have left the group of their rank, or whose rank has ended; 0: none. How
// many there are, -1 if that is not known.
int ending_sweep(job *j, int signal_number);

// Applies the policy's rule for |event|; |asked| is the signal that asks processes to end.
void ending_happened(job *j, policy_event event, int asked);

void ending_set_code(job *j, int code);  // the first one stays

#endif
