// The slots of a job: a slot is the place of a rank, in which one attempt follows another. Each attempt is a process of its
// own, of which the launcher knows nothing that it has not reported itself.
#ifndef GRADWIRE_SLOTS_H
#define GRADWIRE_SLOTS_H

#include "job/job.h"

// Makes |r| ready for attempt |attempt|: forgets the process before it, its members, and what others have lost with it.
void slot_clear(job *j, rank *r, int attempt);

// Whether the next attempt starts now: it is time, and all output of the last one has been passed on.
bool slot_is_due(const rank *r, int64_t now_ms);

// Whether the attempt, which ends with code 0, has members, none of which has left the job: for the other workers it is
// lost. Workers that it has started itself may end with it.
bool slot_leaves_members(const job *j, const rank *r);

// The exit code of the job if the failure of |r| ends it.
int slot_exit_code(const rank *r);

// A member that |r| has been; 0: none.
uint64_t slot_incarnation(const job *j, const rank *r);

// How many ranks of this host have exited with 0.
int slots_count_successes(const job *j);

// Whether a rank runs that has the state of an elastic job, so that others can join through it.
bool slots_have_state(const job *j);

// No attempt has ended in any slot: for all ranks that start again together.
void slots_clear_absence(job *j);

// Closes pipes and logs. What can be read from the pipes was read before.
void slot_close_output(rank *r);
void slot_close_flight(rank *r);  // its records

// Writes error.json for an attempt that has failed, unless its worker has done so. |why|: a text for people.
void slot_write_error(const job *j, rank *r, const char *why);

#endif
