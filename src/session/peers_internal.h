// Internals of peers: the peers themselves, and the pending connections before their
// handshake.
//
// Threads: with the loop lock held.
#ifndef SESSION_PEERS_INTERNAL_H
#define SESSION_PEERS_INTERNAL_H

#include "base/limits.h"
#include "net/connection.h"
#include "session/peers.h"
#include "session/session.h"

// What is awaited from a peer.
typedef enum peer_state {
    PEER_QUIET,             // a message, in either direction
    PEER_AWAITING_RETRY,    // the time of our next attempt to connect
    PEER_AWAITING_OPEN,     // our connect
    PEER_AWAITING_WELCOME,  // the answer to our handshake
    PEER_CONNECTED,         // frames
    PEER_LOST,              // nothing: final
} peer_state;

typedef enum peer_event {
    PEER_WANTED,  // there is a message to send
    PEER_RETRY_DUE,
    PEER_OPENED,
    PEER_ELSEWHERE,  // this address did not lead to it, and there is another address
    PEER_WELCOMED,
    PEER_STALE,     // our attempt was refused: its number is too small
    PEER_CROSSED,   // our attempt was refused: the peer's own wins
    PEER_ACCEPTED,  // the peer's attempt has won
    PEER_BROKEN,    // the connection, or our attempt at one
    PEER_ENDED,     // the connection, by this worker's goodbye
    PEER_DEAD,      // no connection can be made any more
} peer_event;

typedef struct peer {
    // arguments
    struct peers *peers;
    int rank;
    uint64_t incarnation;
    char *name;
    routes routes;

    // state
    peer_state state;
    session session;
    connection *connection;      // the attempt or the connection
    uint64_t connection_number;  // the largest number known of this session
    gw_transport_stats *over;    // of the transport of its connection, which is CONNECTED
    uint64_t attempt;            // the number our attempt carries
    gw_error *why;  // BROKEN and DEAD: the reason; LOST: the error that is reported; kept

    uint64_t received_count;  // receives from it
    peer_traffic traffic;     // |queued_bytes| is that of |session|

    // trying again
    timer retry;
    int64_t gives_up_ns;   // 0: nothing has failed since it answered
    int tries;             // attempts that achieved nothing
    uint64_t progress;     // frames that were sent and received at the last failure
    int64_t connected_ns;  // when the last connection was; 0: never

    bool is_expected_lost;  // its loss is not logged

    // sending
    timer ack;        // armed when something was received
    bool is_blocked;  // the connection took less than all; |writable| follows
    bool is_busy;     // counted in busy_count
    uint64_t
        awaits_room_below;  // |room| is called when less is unacknowledged; 0: no call is awaited
    list_node dirty;        // to be flushed at the end of the turn
} peer;

struct peers {
    peers_options options;
    listeners listeners;
    peer **by_rank;
    int rank_limit;
    bool is_patient;  // peers_disable_timeout was called
    bool is_ending;   // nothing but goodbye is sent
    uint8_t *staging;
    peers_stats stats;

    list_node pending;  // oldest first
    int pending_count;

    // what is flushed when
    list_node dirty;
    bool in_event;            // a connection's: they are flushed at its end, else by the task
    struct flush_task *task;  // deferred; NULL: none is

    int busy_count;  // peers with something unacknowledged
    waiter *drained;

    // the receiver of connections to the store
    void (*take_store)(void *user, connection *c);
    void *store_user;
};

peer *peer_find(const peers *p, uint32_t rank);  // NULL if it was never added

// ---- peer_state.c -------------------------------------------------------------------------------
// Applies the rule for |event|. For BROKEN and DEAD the reason is in x->why.
void peer_apply(peer *x, peer_event event);
void peer_fail(peer *x, gw_status status, const char *format, ...) GW_PRINTF(3, 4);  // DEAD
void peer_lose(peer *x, gw_loss how, const char *format, ...) GW_PRINTF(3, 4);  // DEAD: it is lost
void peer_accept(peer *x, connection *l, const handshake *h);  // a handshake from this incarnation
peer *peer_open(peers *p, int rank, uint64_t incarnation, const char *name, const char *addresses);
void peer_close(peer *x);  // frees it, after a goodbye

// Since when attempts to connect to |x| have failed; ENV_NEVER: there is no need of one, or none has failed.
int64_t peer_fails_since_ns(const peer *x);

// ---- peers.c ------------------------------------------------------------------------------------
void peer_message(void *user, message *m);
void peer_flush(peer *x);
void peer_update_busy(peer *x);
void peer_notify_room(peer *x);  // something may have been acknowledged
void peers_begin_event(peers *p);
void peers_end_event(peers *p);
void peers_make_dirty(peer *x);
void peers_end_traffic(peers *p);
extern const connection_events peer_connection_events;
void peer_ack_is_due(timer *t);

// ---- pending.c ----------------------------------------------------------------------------------
void pending_accepted(void *user, stream *s);
void pending_added(peers *p, peer *x);  // answers those that waited for |x|
void pending_rank_known(peers *p);      // ... or for this worker's own rank
void pending_close_all(peers *p);
void refuse(connection *l, refusal_reason reason, uint64_t connection_number, const char *format,
            ...) GW_PRINTF(4, 5);  // and closes |l|

#endif
