// The messages that the launcher prints, a line each.
#ifndef GRADWIRE_REPORT_H
#define GRADWIRE_REPORT_H

#include "job/job.h"

void report_node(job *j, const link_message *m);  // the event that ends a job over several hosts
void report_describe(const job *j, const rank *r, char *out, size_t size);  // how |r| has failed
// The same, with its cause: |cause| is the rank that was lost before, or |r| itself.
void report_describe_failure(const job *j, const rank *r, const rank *cause, char *out,
                             size_t size);
void report_dead(job *j, const rank *r, pid_t pid, const char *why);  // |r| NULL: none of the ranks
void report_killed(job *j, const rank *r);  // by the launcher, for the reason in |killed_why|
// The others have waited for |r| during |share| of the last |steps| steps.
void report_straggler(job *j, const rank *r, double share, int steps, bool leaves);
void report_absent(job *j, const rank *r, int joining_count);
void report_signal(job *j, int signal_number);  // that ends the job
void report_leftovers(job *j, int count);
void report_killing(job *j, int others_count);  // that the grace time is over
void report_unkillable(job *j);
void report_lost_output(job *j, const sink *s);
// A failed rank, or all ranks, start again.
typedef struct restart_plan {
    int rank;  // that has failed
    bool all;
    int attempt;  // the next one
    int left;     // restarts after this one
    int64_t delay_ms;
} restart_plan;

// |why|: how the rank has failed.
void report_restart(job *j, const char *why, const restart_plan *plan);
void report_failed(job *j, const rank *r, const char *why);  // an event that is not printed
const char *report_why_none(job *j,
                            budget_decision decision);  // why a failed rank does not start again
void report_no_log(job *j, const rank *r, int error);   // of an attempt that runs without
void report_not_started(job *j);  // ranks that could not start again: an event that is not printed

void report_end(job *j);  // the cause once more, when it is far above

#endif
