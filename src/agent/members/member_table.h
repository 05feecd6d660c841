// The member table: the members of the job, for the rest of the agent.
//
// Threads: with the loop lock, except for member_table_find.
#ifndef AGENT_MEMBERS_MEMBER_TABLE_H
#define AGENT_MEMBERS_MEMBER_TABLE_H

#include "agent/state/agent.h"
#include "base/nearest.h"

// Adds this worker itself, before others; then members that are known from the start. A second one with the same rank is
// ignored.
gw_status member_table_add_self_on_loop(agent *a, const char *addresses, gw_error *error);
gw_status member_table_add_on_loop(agent *a, const gw_worker *w, const char *addresses,
                                   gw_error *error);
// The same without |membership|, which knows it.
gw_status member_table_add_peer_on_loop(agent *a, const gw_worker *w, const char *addresses,
                                        gw_error *error);

void member_table_close_on_loop(agent *a);  // |membership|

// Called by the sessions; |user| is the agent.
void member_table_peer_lost(void *user, int rank, const gw_error *why);

// The process of that worker, which this program had started, has ended. If nothing was ever received from it, it is dead
// at once; else its sent messages are read first, and its connections end then.
void member_table_process_ended_on_loop(agent *a, int rank, const gw_error *why);

// Of the last member with that name; -1. From any thread.
int member_table_find(agent *a, const char *name);
// Offers all names that it finds. From any thread.
void member_table_offer(agent *a, nearest *n);
int member_table_coordinator(const agent *a);
bool member_table_is_known(const agent *a, uint32_t rank);

// This worker awaits something from |rank|, or no more. Counted.
void member_table_await_on_loop(agent *a, int rank, bool awaits);

#endif
