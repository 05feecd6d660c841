// Peers: ordered, exactly-once streams of messages to every other worker.
//
// A peer is one incarnation of one worker. Its session numbers the frames, resends what was not
// acknowledged over a new connection and drops what it has seen, so that the rooms above may rely
// on: *every message once and in order, or the peer is lost*. Connections are made when first
// needed, by either side, and again at once when they break, over the first of the peer's addresses
// that works; a peer whose addresses all refuse, or answer as another incarnation, is lost. One
// that has lost this worker is lost with GW_FENCED.
//
// Ownership: messages given to peers_send are taken (one count), also on failure; received ones are
// handed over (one count). Threads: everything with the env's role held. |received| and |lost| are
// called inside turns of streams and timers, never from inside the functions below (but for
// peers_lose); they may call all of these but peers_close.
#ifndef SESSION_PEERS_H
#define SESSION_PEERS_H

#include "net/connection.h"
#include "wire/message.h"

typedef struct peers peers;

typedef struct peers_options {
    env *env;
    int rank;              // of this worker; -1: not known yet, peers_set_rank tells
    uint64_t incarnation;  // random, drawn once per agent, not 0
    capabilities can;      // what this worker says that it can do
    void *user;
    void (*received)(void *user, int rank, message *m);  // which may be incomplete still
    void (*lost)(void *user, int rank,
                 const gw_error *why);   // once per peer; nothing is received from it any more
    void (*room)(void *user, int rank);  // after peers_await_writable; may be NULL
} peers_options;

typedef struct peers_stats {
    uint64_t messages_sent, messages_received, reconnects;
    gw_transport_stats over[GW_TRANSPORTS_MAX];  // in the order of the env's
    int transport_count;
} peers_stats;

// Listens as listeners_open does, and writes the addresses that others connect to into
// |out_addresses|.
gw_status peers_open(peers_options options, const char *listen_addresses, peers **out,
                     char out_addresses[ADDRESSES_MAX], gw_error *error);
gw_status peers_listen_also(peers *p, const char *address, gw_error *error);  // at one more
void peers_close(peers *p);  // says goodbye on open connections; no callbacks any more

// Until then connections wait, at most LIMIT_HANDSHAKE_MS.
void peers_set_rank(peers *p, int rank);

// Makes a worker known, and its addresses, the best first. Until then connections from it wait, at
// most LIMIT_HANDSHAKE_MS.
gw_status peers_add(peers *p, int rank, uint64_t incarnation, const char *name,
                    const char *addresses, gw_error *error);

// Queues |m| for the peer and sends what can be sent now, if |flush|; else when the turn ends.
// Never waits. Fails with what the peer was lost with (DISCONNECTED most often), OVERLOADED beyond
// LIMIT_UNSENT_BYTES, LIMIT for a message that is too large, NOT_FOUND for a rank that was not
// added.
gw_status peers_send(peers *p, int rank, message *m, bool flush, gw_error *error);

// What was sent last, not 0. Whether all of it has gone out since, over whichever connection; known
// also of lost peers. While nothing of it has, it can be made a message of another kind, which
// travels without its segments; else false.
uint64_t peers_last_message(const peers *p, int rank);
bool peers_has_sent(const peers *p, int rank, uint64_t id);
bool peers_withdraw(peers *p, int rank, uint64_t id, uint8_t kind);

// Bytes that are queued or unacknowledged; 0 of unknown and lost peers. |room| is called once, when
// they have become less.
typedef struct peers_backlog {
    uint64_t all;
    uint64_t stream;      // without bulk, which small messages need not wait for
    uint64_t later_bulk;  // bulk of all messages but the oldest that has some
} peers_backlog;

peers_backlog peers_get_backlog(const peers *p, int rank);
void peers_await_writable(peers *p, int rank);

// Ends the session with a peer that cannot be understood, or is known to be dead: it is lost with
// |why|.
void peers_lose(peers *p, int rank, const gw_error *why);

// Such a peer has said goodbye, to others: its loss is no news.
void peers_note_left(peers *p, int rank);
// The loss of a peer is no news: it was gone before this worker knew it, or all are about to leave.
void peers_expect_loss(peers *p, int rank);

// From now on no peer is lost for not answering: whoever has called this knows better, and calls
// peers_lose.
void peers_disable_timeout(peers *p);

bool peers_is_lost(const peers *p, int rank);
bool peers_has_left(const peers *p, int rank);  // it is lost, and has said goodbye
void peers_ping(peers *p, int rank);            // asks for an ack if something is unacknowledged
uint64_t peers_heard_count(const peers *p, int rank);  // grows whenever something comes from it
bool peers_is_connected(const peers *p,
                        int rank);  // by a connection that has not been seen to break
bool peers_is_drained(
    const peers *p);                  // nothing queued and nothing unacknowledged to any live peer
int peers_find_busy(const peers *p);  // the first peer for which that does not hold; -1
// From now on nobody can connect and nothing but goodbye is said, and this worker is drained once
// that has gone out to all to whom it has a connection.
void peers_say_goodbye(peers *p);
void peers_on_drained(peers *p,
                      waiter *w);  // wakes |w|, one at a time, once it is so; NULL: not any more
// Hands connections whose handshake asks for the store to |take|, which owns them; NULL: there is
// none here, the default.
void peers_serve_store(peers *p, void (*take)(void *user, connection *c), void *user);

// Whether this worker and |rank| can both do |key|, as they said when they connected last; what
// |rank| says of it.
bool peers_agree(const peers *p, int rank, const char *key,
                 char out_value[LIMIT_CAPABILITY_BYTES + 1]);

peers_stats peers_get_stats(const peers *p);
const char *peers_transport(const peers *p, int rank);  // of its connection; NULL: it has none now

enum { PEERS_REASON_BYTES = 320 };

// Why that is not the best transport that there is, "shm: another host", as far as this worker knows;
// "" if it is, or without a connection. Returns |out|.
const char *peers_why_not_better(const peers *p, int rank, char out[PEERS_REASON_BYTES]);

#endif
