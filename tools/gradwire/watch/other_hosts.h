// How the launchers of a job over several hosts end together, and start ranks again together.
//
// Host 0 decides (hosts/coordinator.h): which failure, signal or loss of a host ends the job on all hosts, which ranks start
// again, and whether the job continues without a host. Each host prints the same reasons and has the same exit code.
#ifndef GRADWIRE_OTHER_HOSTS_H
#define GRADWIRE_OTHER_HOSTS_H

#include "job/job.h"

// Waits for the other hosts, if there are any. False: not all hosts have joined, or a signal has ended the wait; then
// |out_code| is the exit code.
bool other_hosts_meet(job *j, int *out_code);

// A rank has failed, or could not be started. A job on one host prints |why| at once; on several hosts each host prints
// the first failure once host 0 has decided which one it was.
void other_hosts_report_failure(job *j, int code, const char *why);

// The same with --on-failure=keep: printed at once, on this host alone. The first code is the exit code of all hosts
// when all have ended.
void other_hosts_keep_failure(job *j, int code, const char *why);

// Whether this host can leave a dynamic job, in which the others continue (LAUN-38); asks host 0 for it. The second time its ranks end
// at once.
bool other_hosts_may_leave(const job *j);
void other_hosts_leave(job *j, int signal_number);

void other_hosts_take(job *j);  // handles their messages, and decisions that do not arrive

// Whether another host may yet make the ranks of this one start again, after all have ended.
bool other_hosts_may_restart(const job *j);

// To be called when no process of the ranks is left on this host: notifies the others.
void other_hosts_await_restart(job *j);

// To be called when no process of the job is left on this host: notifies the others, and returns whether to wait for them.
bool other_hosts_are_awaited(job *j);
int64_t other_hosts_deadline_ms(const job *j);  // of that; INT64_MAX: none

#endif
