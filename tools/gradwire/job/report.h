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
void report_stopped(job *j, const rank *r);
void report_absent(job *j, const rank *r, int joining_count);
void report_signal(job *j, int signal_number);  // that ends the job
void report_leftovers(job *j, int count);
void report_killing(job *j, int others_count);  // that the grace time is over
void report_unkillable(job *j);
void report_lost_output(job *j, const sink *s);
void report_end(job *j);  // the cause once more, when it is far above

#endif
