// Peers: ordered, exactly-once streams of messages to every other worker.
//
// A peer is one incarnation of one worker. The session of a peer numbers the frames, resends unacknowledged frames over
// a new connection and drops duplicates, so that the folders above may rely on: *every message once and in order, or
// the peer is lost*. Connections are made when first needed, by either side, and again at once when they break, over
// the first of the peer's addresses that works. A peer whose addresses all refuse, or answer as another incarnation, is
// lost. A peer that has lost this worker is lost with GW_FENCED.
//
// Ownership: peers_send takes one count of each message given to it, also on failure; the caller gets one count of each
// received message. Threads: everything with the env's loop lock held. |received| and |lost| are called inside turns of
// streams and timers, never from inside the functions below (except peers_lose); they may call all of these functions
// except peers_close.
#ifndef SESSION_PEERS_H
#define SESSION_PEERS_H

#include "net/connection.h"
#include "wire/message.h"

typedef struct peers peers;

typedef struct peers_options {
    env *env;
    int rank;              // of this worker; -1: set later by peers_set_rank
    uint64_t incarnation;  // random, drawn once per agent, not 0
    void *user;
    void (*received)(void *user, int rank, message *m);  // which may be incomplete
    void (*lost)(void *user, int rank,
                 const gw_error *why);   // once per peer; nothing is received from it any more
    void (*room)(void *user, int rank);  // after peers_await_writable; may be NULL
} peers_options;

typedef struct peers_stats {
    uint64_t messages_sent, messages_received, reconnects;
    gw_transport_stats over[GW_TRANSPORTS_MAX];  // in the order of the env's
    int transport_count;
} peers_stats;

// Of one peer, over all its connections.
typedef struct peer_traffic {
    uint64_t bytes_sent, bytes_received;
    uint64_t reconnects;
    uint64_t queued_bytes, queued_bytes_max;  // queued or unacknowledged: now, and the most so far
} peer_traffic;

// Listens as listeners_open does, and writes the addresses that others connect to into
// |out_addresses|.
gw_status peers_open(peers_options options, const char *listen_addresses, peers **out,
                     char out_addresses[ADDRESSES_MAX], gw_error *error);
gw_status peers_listen_also(peers *p, const char *address, gw_error *error);  // at one more
void peers_close(peers *p);  // sends goodbye on open connections; no callbacks any more

// Until then connections wait, at most LIMIT_HANDSHAKE_MS.
void peers_set_rank(peers *p, int rank);

// Adds a worker and its addresses, the best first. Until then connections from it wait, at
// most LIMIT_HANDSHAKE_MS.
gw_status peers_add(peers *p, int rank, uint64_t incarnation, const char *name,
                    const char *addresses, gw_error *error);

// Queues |m| for the peer and sends what can be sent now, if |flush|; else when the turn ends.
// Never waits. Fails with the error of a lost peer (DISCONNECTED most often), OVERLOADED beyond
// LIMIT_UNSENT_BYTES, LIMIT for a message that is too large, NOT_FOUND for a rank that was not
// added.
gw_status peers_send(peers *p, int rank, message *m, bool flush, gw_error *error);

// The number of the last message sent, not 0. peers_has_sent: whether all of it has been sent since, over any
// connection; also of lost peers. peers_withdraw: while nothing of it is sent, changes it to a message of another kind,
// which travels without its segments; else false.
uint64_t peers_last_message(const peers *p, int rank);
bool peers_has_sent(const peers *p, int rank, uint64_t id);
bool peers_withdraw(peers *p, int rank, uint64_t id, uint8_t kind);

// Bytes that are queued or unacknowledged; 0 of unknown and lost peers. |room| is called once, when
// they have become fewer.
typedef struct peers_backlog {
    uint64_t all;
    uint64_t stream;      // without bulk, for which small messages need not wait
    uint64_t later_bulk;  // bulk of all messages but the oldest that has some
} peers_backlog;

peers_backlog peers_get_backlog(const peers *p, int rank);
void peers_await_writable(peers *p, int rank);

// Ends the session with a peer that breaks the protocol or is declared dead: it is lost with
// |why|.
void peers_lose(peers *p, int rank, const gw_error *why);

// Such a peer has sent goodbye to others: its loss is not logged.
void peers_note_left(peers *p, int rank);
// The loss of a peer is not logged: it had left before this worker added it, or all are about to leave.
void peers_expect_loss(peers *p, int rank);

// From now on no peer is lost for not answering: the caller detects failures by other means, and calls
// peers_lose.
void peers_disable_timeout(peers *p);

bool peers_has_left(const peers *p, int rank);  // it is lost, and has sent goodbye
void peers_ping(peers *p, int rank);            // requests an ack if something is unacknowledged
uint64_t peers_received_count(const peers *p, int rank);  // grows with each receive from it
bool peers_is_connected(const peers *p,
                        int rank);  // by a connection that has not been detected as broken
// The first peer to which this worker has had something to send for |for_ns|, and no connection; -1.
int peers_find_unreachable(const peers *p, int64_t for_ns);
const char *peers_name(const peers *p, int rank);  // of a worker that was added
bool peers_is_drained(
    const peers *p);                  // nothing queued and nothing unacknowledged to any live peer
int peers_find_busy(const peers *p);  // the first peer for which that does not hold; -1
// From now on no connection is accepted and nothing but goodbye is sent, and this worker is drained once
// the goodbye has been sent to all peers to which it has a connection.
void peers_send_goodbye(peers *p);
void peers_on_drained(
    peers *p,
    waiter *w);  // wakes |w|, one at a time, once it is drained; NULL: not any more
// Passes connections whose handshake is for the store to |take|, which owns them; NULL: there is
// no store here, the default.
void peers_serve_store(peers *p, void (*take)(void *user, connection *c), void *user);

peers_stats peers_get_stats(const peers *p);
peer_traffic peers_get_traffic(const peers *p, int rank);  // 0 of unknown peers
const char *peers_transport(const peers *p, int rank);  // of its connection; NULL: it has none now

enum { PEERS_REASON_BYTES = 320 };

// Why that is not the best transport, "shm: another host", as far as this worker can determine;
// "" if it is, or without a connection. Returns |out|.
const char *peers_why_not_better(const peers *p, int rank, char out[PEERS_REASON_BYTES]);

#endif
