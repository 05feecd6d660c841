// The members of the job, as far as they report themselves, and the process of each.
#ifndef GRADWIRE_MEMBERS_H
#define GRADWIRE_MEMBERS_H

#include "job/job.h"

// Handles the reports of workers: ends members that were declared dead, records which workers join and which members
// they have lost. The reports of a process can be attributed to it until it is waited for.
void members_take_events(job *j);

// The rank of this host that |r| has lost first; NULL: none has been reported.
rank *members_lost_by(const job *j, const rank *r);

// The rank whose program has failed first, if that was before the program of |r| failed; NULL: there is none.
rank *members_failed_before(job *j, const rank *r);

// Whether the member that |r| has lost first, or whose error it has failed with, is of another host.
bool members_failed_elsewhere(const job *j, const rank *r);

// A member of another host, whose rank starts again: it is not the cause of a later failure.
void members_forget(job *j, uint64_t incarnation);

// Ends the process of a member that the others have declared dead, if it runs on this host. |text| has its incarnation
// and the reason, as the launcher that received the report has sent them.
void members_end(job *j, const char *text);

// Whether workers of this host wait for others to join.
bool members_are_joining(const job *j);

// Notifies joining workers of each rank that has ended without having joined, since they would wait for it in vain
// (LAUN-9); prints so if the rank has ended with code 0. Once for each rank.
void members_find_absent(job *j);

// The same for a rank of another host: |text| has its number and how it has ended.
void members_take_absent(job *j, const char *text);

// The same for all ranks of a host that is lost.
void members_take_lost_host(job *j, int node, const char *why);

// A worker of any host has reported that the work of the elastic job is done: ranks that join are notified (LAUN-23).
void members_take_finished(job *j);

#endif
