// Between the files about the passes that this worker takes part in. With the loop lock but where it says so.
#ifndef DISTRIBUTED_AUTOGRAD_PASSES_H
#define DISTRIBUTED_AUTOGRAD_PASSES_H

#include "distributed/autograd/distributed_pass.h"

// Another worker. As an initiator: what it has told itself of its passes that have ended, and which of the others were
// aborted, by it or here. As one who tells of passes: what is kept for it, up to the limits.
typedef struct passes_peer {
    passes_ended ended;
    uint64_t *aborted;
    uint32_t count, capacity;

    uint32_t open_count;   // passes on the list that were begun here by what it said
    uint64_t mark_count;   // that they have
    uint32_t early_count;  // gradients of it that came before the marks of their passes
    uint64_t early_bytes;
    uint32_t send_count;  // messages to it that are kept
} passes_peer;

uint64_t passes_peer_key(int rank);                         // in graphs.others
passes_peer *passes_peer_find_on_loop(agent *a, int rank);  // NULL if nothing is known of it
passes_peer *passes_peer_of_on_loop(agent *a, int rank);  // made if it is new; NULL without memory
void passes_peer_free(passes_peer *in);
bool passes_peer_remember_aborted(passes_peer *in, uint64_t number);

distributed_pass *passes_find_on_loop(agent *a, int from, uint64_t number);
bool passes_is_over_on_loop(const agent *a, int rank, uint64_t number);
void passes_put_ended_on_loop(const agent *a, int from, bytes *b);
// What the initiator says itself; and what another passes on, who may be wrong: it only settles what is complete here.
void passes_note_ended_on_loop(agent *a, int initiator, passes_ended ended);
void passes_note_heard_on_loop(agent *a, int initiator, passes_ended ended);

gw_status passes_gradient_received_on_loop(agent *a, int from, message *m, gw_error *error);

// A participant's part: runs it when something has come, of that size.
void distributed_pass_schedule_on_loop(distributed_pass *x, uint64_t size);
void distributed_pass_fail_part_on_loop(distributed_pass *x,
                                        const gw_error *why);  // tells the initiator, and drops it
bool distributed_pass_awaits(const distributed_pass *x,
                             int rank);  // it is among who has sent what is marked
void distributed_pass_leave_early_on_loop(
    distributed_pass *x);  // gradients in |inbox| have not come too early any more
void distributed_pass_end(
    distributed_pass *x);  // carries out that it is settled or dropped, without the loop lock
void distributed_pass_done_on_loop(const distributed_pass *x);  // tells the initiator

#endif
