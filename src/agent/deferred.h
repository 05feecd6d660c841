// Early messages: those that name a worker this one has not heard of yet, those with numbers that are
// still to be fetched from their sender (LEND-13), and those that are incomplete (CALL-17). A new member is told to all, but not to
// all at the same time; a message of a member that knows it may be faster. It waits, with all that
// comes behind it from the same member, until this worker has heard too.
//
// Threads: with the loop lock.
#ifndef AGENT_DEFERRED_H
#define AGENT_DEFERRED_H

#include "agent/agent.h"

// Takes |m| if it has to wait.
bool deferred_keep_on_loop(agent *a, int from, message *m);

// The same, for its segments or for what is before it in its service.
bool deferred_keep_incomplete_on_loop(agent *a, int from, message *m);

// For services that look at their messages: whether |rank| is one that this worker may still hear
// of; whether one of the attachments in the table at |at| of the head of |m| names one; eight bytes
// of the head, 0 behind its end.
bool deferred_is_unknown(const agent *a, uint64_t rank);
bool deferred_table_names_unknown(const agent *a, const message *m, size_t at);
uint64_t deferred_u64_at(const message *m, size_t at);

void deferred_retry_on_loop(agent *a);  // a member is known now, or something has been fetched
void deferred_drop_on_loop(agent *a, int from);
void deferred_close_on_loop(agent *a);

#endif
