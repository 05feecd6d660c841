// Deferred messages: messages that name a worker which is not in this worker's view yet, messages with numbers that are
// still to be fetched from their sender (LEND-13), and incomplete messages (CALL-17). Members are notified of a new
// member at different times, so a message of a member that was notified earlier may name a worker that this worker does
// not have as a member yet. The message waits, with all later messages of the same sender, until this worker has the
// member, too.
//
// Threads: with the loop lock.
#ifndef AGENT_DISPATCH_DEFERRED_H
#define AGENT_DISPATCH_DEFERRED_H

#include "agent/state/agent.h"

// Takes |m| if it is deferred.
bool deferred_keep_on_loop(agent *a, int from, message *m);

// The same while its segments are missing, or while an earlier message to its service waits.
bool deferred_keep_incomplete_on_loop(agent *a, int from, message *m);

// For services that inspect their messages: whether |rank| is one that this worker may still add as a member; whether one
// of the attachments in the table at |at| of the head of |m| names one; eight bytes of the head, 0 behind its end.
bool deferred_is_unknown(const agent *a, uint64_t rank);
bool deferred_table_names_unknown(const agent *a, const message *m, size_t at);
uint64_t deferred_u64_at(const message *m, size_t at);

void deferred_retry_on_loop(agent *a);  // a member was added, or a segment has been fetched
void deferred_drop_on_loop(agent *a, int from);
void deferred_close_on_loop(agent *a);

#endif
