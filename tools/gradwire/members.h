// The members of the job, as far as they report of themselves, and which process each of them is.
#ifndef GRADWIRE_MEMBERS_H
#define GRADWIRE_MEMBERS_H

#include "job.h"

// Takes what workers have reported: ends who was declared dead, notes who joins and who has lost
// whom. What a process has reported is there as long as it was not waited for.
void members_take_news(job *j);

// The rank of this host that |r| has lost first; NULL: none, as far as that is known.
rank *members_lost_by(const job *j, const rank *r);

// Whether what |r| has lost first is a member of another host.
bool members_lost_elsewhere(const job *j, const rank *r);

// Ends the process of a member that the others have declared dead, if it runs here: its incarnation
// and why, as the launcher of the host that was told has it.
void members_end(job *j, const char *text);

// Whether workers of this host wait for others to join.
bool members_are_joining(const job *j);

// Tells workers that join of each rank that has ended without having joined, since they would wait
// for it in vain (LAUN-9); and says so, if it ended well. Once each.
void members_find_absent(job *j);

// The same about a rank of another host: its number and how it has ended.
void members_hear_absent(job *j, const char *text);

#endif
