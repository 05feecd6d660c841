// Shared by the files that handle the distributed passes on this worker. With the loop lock held, unless a comment
// states otherwise.
#ifndef DISTRIBUTED_AUTOGRAD_PASSES_H
#define DISTRIBUTED_AUTOGRAD_PASSES_H

#include "distributed/autograd/distributed_pass.h"

// The state of another worker on this one. As an initiator: which of its passes have ended, by its own
// reports, and which of the others were aborted, by it or here. As a sender of pass messages:
// the memory taken here because of them, up to the limits.
typedef struct passes_peer {
    passes_ended ended;
    uint64_t *aborted;
    uint32_t count, capacity;

    uint32_t open_count;        // passes that its messages opened here
    uint64_t mark_count;        // marks of those passes
    uint32_t unexpected_count;  // gradients from it that arrived before the marks of their passes
    uint64_t unexpected_bytes;
    uint32_t send_count;  // sends to it
} passes_peer;

uint64_t passes_peer_key(int rank);                         // in graphs.others
passes_peer *passes_peer_find_on_loop(agent *a, int rank);  // NULL if there is none
passes_peer *passes_peer_of_on_loop(agent *a, int rank);    // makes a new one; NULL without memory
void passes_peer_free(passes_peer *in);
bool passes_peer_remember_aborted(passes_peer *in, uint64_t number);

distributed_pass *passes_find_on_loop(agent *a, int from, uint64_t number);
bool passes_is_over_on_loop(const agent *a, int rank, uint64_t number);
void passes_put_ended_on_loop(const agent *a, int from, bytes *b);
// The first is reported by the initiator itself. The second is relayed by a participant, which
// may be wrong: it only settles parts that are COMPLETE here.
void passes_note_ended_on_loop(agent *a, int initiator, passes_ended ended);
void passes_note_relayed_on_loop(agent *a, int initiator, passes_ended ended);

gw_status passes_gradient_received_on_loop(agent *a, int from, message *m, gw_error *error);

// Runs a participant's part soon, because |size| bytes of gradients have arrived.
void distributed_pass_schedule_on_loop(distributed_pass *x, uint64_t size);
// Drops the part and reports to the initiator that it has failed.
void distributed_pass_fail_part_on_loop(distributed_pass *x, const gw_error *why);
// Whether a send of worker |rank| is marked, so that it takes part.
bool distributed_pass_awaits(const distributed_pass *x, int rank);
// Frees the memory that a settled or dropped part does not need. Without the loop lock.
void distributed_pass_end(distributed_pass *x);

// ---- Reports without memory (deferred.c) ----------------------------------------------

// Sends |w| now or, without memory, again and again; an abort with the text of |why|, or its status.
void passes_report_on_loop(agent *a, pass_report w, const gw_error *why);
size_t passes_deferred_count(const agent *a);
void passes_stop_reporting_on_loop(agent *a);

#endif
