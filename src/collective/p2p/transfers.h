// Transfers: the sends and receives of point-to-point messages, at their receiver, matched by sender and tag.
//
// The n-th send of a tag is received by the n-th receive of that tag. So a send or receive that is refused, fails or is
// given up keeps its place, as an ended transfer, and the transfer that is matched with it fails. A receive from any
// member has no place among the receives of one sender: it takes no message if it ends early.
//
// Ownership: a transfer that waits is the service's. Threads: with the loop lock, except for opening and freeing the
// state.
#ifndef COLLECTIVE_P2P_TRANSFERS_H
#define COLLECTIVE_P2P_TRANSFERS_H

#include "agent/leaving/awaits.h"
#include "collective/group/groups_state.h"
#include "future/future.h"

enum { ANY_MEMBER = -1 };

enum { OF_SENDER, OF_ANY, QUEUES };

typedef struct transfer_link {
    list_node link;
    struct transfer_queue *queue;  // NULL: it is in no queue
    struct transfer *transfer;
} transfer_link;

// A tensor that was sent and not received yet, or a waiting receive.
typedef struct transfer {
    list_node link;
    transfer_link in[QUEUES];  // a receive uses one of them
    uint64_t order;            // the order of arrival
    await await;               // of a receive
    canceller gave_up;
    agent *agent;
    uint64_t group, list;
    int64_t tag;
    int from;  // a rank in the job; of a receive also ANY_MEMBER
    gw_group
        *source_in;  // of a receive, one count: the result is a list of the sender's rank in it and
                     // the tensor; NULL: the tensor
    gw_future *future;  // one count: of the call, or of the receive; NULL: it has ended
    result *value;      // of a send: the tensor, or the error with which it has ended
} transfer;

extern const service point_to_point_service;
extern const service_data transfers_data;

// Takes |x|, whose future is new. False if allocation fails; then |x| is still the caller's.
bool transfer_post_on_loop(transfer *x, bool is_sent);
// The thread of |s| waits for |x|, a receive, until its sender's program has ended.
void transfer_await_on_loop(transfer *x, gw_scope *s);

// ---- For the service ----------------------------------------------------------------------------

gw_status transfers_open(agent *a, const gw_rpc_options *options, void **state, gw_error *error);
void transfers_lost_on_loop(agent *a, int rank);
void transfers_stop_on_loop(agent *a, const gw_error *why);
void transfers_free(void *state);

#endif
