// The agent: the running endpoint of one worker in this process. The agent owns the state of this room.
//
// Ownership: the scope that the agent was opened on holds one count, and each future and reference another one, so that
// handles may outlive the scope; |closed| is set when the agent's env is closed. Threads: all fields with the loop lock
// of |env| held, unless their comment states otherwise.
#ifndef AGENT_STATE_AGENT_H
#define AGENT_STATE_AGENT_H

#include "base/map.h"
#include "base/scope.h"
#include "agent/settings/process_fork.h"
#include "agent/settings/options.h"
#include "agent/state/pool.h"
#include "agent/state/service.h"
#include "session/peers.h"
#include "store/store.h"
#include <pthread.h>

typedef struct admission admission;
typedef struct members members;

enum { PROTOCOL_VERSION = 5 };

// Ids of references, forks, promises and orders: the rank of the worker that drew it, and that
// worker's count from 1.
enum { ID_COUNT_BITS = 48 };

static inline uint64_t id_of(int rank, uint64_t count) {
    return (uint64_t)(uint32_t)rank << ID_COUNT_BITS | count;
}
static inline uint64_t id_rank(uint64_t id) {
    return id >> ID_COUNT_BITS;
}

// What this worker has exchanged with a member since that has joined.
typedef struct member_traffic {
    uint64_t messages_sent, messages_received;  // all but those about membership
    uint64_t calls_made, calls_served;          // also those under way
    uint64_t shared_sent, shared_received;  // bytes of tensors that the receiver maps or has read
    uint64_t lent_bytes;                    // of leases that it has not returned
    int64_t waited_ns;                      // of threads, for room in its queue
    peer_traffic session;                   // once |peers| is gone
} member_traffic;

// A member of the job, this worker included: one incarnation, which has its rank for ever. The first group of fields
// never changes once |known| is set, and any thread may then read it.
typedef struct member {
    gw_worker worker;
    char name[LIMIT_NAME_BYTES + 1];
    char *addresses;     // NULL before they are known
    _Atomic bool known;  // false: a rank between others whose member this worker does not have yet

    bool lost;
    bool left;                // valid when lost: it has left by itself
    const gw_error *why;      // why it is lost, or not known here
    bool was_idle;            // it has been once (awaits.c)
    bool asked, answered;     // the coordinator's: to leave; the wave
    char missing[96];         // the coordinator's: the work that it has reported last
    uint32_t owed;            // kinds of messages about leaving that wait for memory
    uint64_t sent, received;  // messages, those about leaving and membership not counted
    member_traffic traffic;
    list_node deferred;    // messages from it that name workers not known yet, by |link|
    list_node incomplete;  // messages from it that wait for segments, and those behind them

    // The parts of the services follow: agent_member_part.
} member;

// observe.c: what tools see of this worker.
typedef struct agent_observer {
    int row;  // of trace_agent_open; -1: none
    timer timer;
} agent_observer;

typedef enum agent_phase {
    AGENT_JOINING,
    AGENT_SERVING,
    AGENT_ASKED,     // has sent *ask leave*, still serves
    AGENT_DRAINING,  // all have asked, or it leaves alone
    AGENT_LEFT       // or is fenced
} agent_phase;

// Counts of messages, over workers with the same members.
typedef struct leaving_sums {
    uint64_t members;  // the exclusive or of their incarnations
    uint64_t sent, received;
} leaving_sums;

// Leaving; the middle group is the coordinator's.
typedef struct leaving {
    bool alone;              // gw_rpc_leave: the others stay
    bool says_goodbye;       // of that: the others may see it gone
    int64_t alone_until_ns;  // of that: until when its sent messages are to arrive
    bool all_asked;   // all are known to have called gw_rpc_shutdown; no worker may join any more
    bool over;        // this worker may leave
    gw_error error;   // its status is GW_OK without an error
    waiter *waiting;  // of the thread in gw_rpc_shutdown
    timer bound;
    timer reminder;   // of workers that have not called it
    bool has_served;  // calls, since this worker has asked
    bool asks_missing, reminds;
    char unasked
        [512];  // the workers that have not called it, from the coordinator; "": no answer yet

    bool coordinates;
    uint32_t sent_wave;
    bool clean;                // a field of *leave*
    bool all_idle, all_agree;  // in this wave: agree on the members
    bool before_was_quiet;     // all were idle and agreed
    leaving_sums sums, before;
    int64_t wave_start_ns;
    timer pause;  // between waves
    int64_t pause_ns;

    uint32_t owed_wave;  // to be answered once idle, or after PATIENCE_S
    int wave_from;
    timer patience;

    timer again;         // for messages that wait for memory
    int64_t failing_ns;  // since when; 0: not
} leaving;

// awaits.c.
typedef struct agent_awaits {
    list_node open;       // waits of this worker, and those that it leads
    list_node questions;  // of others, without an answer yet
    uint32_t question_count;
    uint64_t last_question;
    timer timer;
    bool knows_idle;    // a member has been idle
    gw_error *failure;  // of the scope that this agent was opened on; NULL: none
} agent_awaits;

// Messages that wait until this worker has the members that they name.
typedef struct deferred_messages {
    int count;
    timer limit;  // the view arrives before, or the sender breaks the protocol
    task retry;
    bool retrying;
} deferred_messages;

struct agent {
    _Atomic uint32_t count;
    _Atomic bool closed;
    _Atomic int visitor_count;  // threads within agent_visit

    process_fork_mark mark;

    // From joining on, read by anyone.
    env *env;
    bool owns_env;
    protection protection;  // of the env's connections
    gw_scope *root;
    char name[LIMIT_NAME_BYTES + 1], addresses[LIMIT_ADDRESSES_BYTES + 1];
    gw_job_kind job;
    int rank;        // -1 until a group has admitted this worker
    int world_size;  // of a job whose workers were known when it began; else 0
    uint64_t incarnation;
    _Atomic int member_count;        // ranks below it have been given out; grows
    member *members[LIMIT_WORKERS];  // by rank
    _Atomic int present_count;       // members that are known and not lost
    pthread_mutex_t names;           // a leaf, of |ranks|
    map ranks;                       // by name: rank + 1, of the last one with that name
    scope_ids ids;
    scope_remote remote;  // of its scopes: filled by its services
    int64_t timeout_ms;

    // Set when it opens.
    const service *const *service_table;  // ends with NULL
    struct {
        const service *service;
        const service_data *data;
        void *state;
        size_t part_offset;  // in a member
    } services[SERVICES_MAX];
    int service_count;
    size_t member_size;
    list_node waits;                 // of context_wait: threads of the program that wait
    const attachment_class *lender;  // of segments that need not travel; NULL: all do

    agent_phase phase;
    peers *peers;
    members *membership;
    gw_error fence;    // its status is GW_FENCED once the others continue without this worker
    task cutting;      // after that: its sessions
    waiter *joining;   // until the member table is complete
    gw_error absence;  // while it joins: a rank that cannot join any more, reported by the launcher
    const char *interrupted;  // the signal that has ended its joining, or ""; NULL: none
    list_node watches;        // of gw_watch
    deferred_messages deferred;
    agent_awaits awaits;
    store *store;  // that it hosts, or in a file in which it reads join requests
    char group_addresses[LIMIT_ADDRESSES_BYTES + 1];  // where a group is met; empty: in a file
    bool hosts_store;
    admission *admission;     // of the coordinator of a group
    peers_stats final_stats;  // once |peers| is gone
    leaving leaving;

    message *spare;  // for a small message, when there is no memory

    // Futures that resolve or are released inside the same of others are queued: so chains of them may have any length
    // (future/future.h).
    list_node continuations;  // of continuation, by |link|
    list_node let_go;         // of gw_future
    bool continues, lets_go;

    // messages to oneself
    list_node loopback;  // of message, by |link|
    task loopback_task;
    bool loopback_deferred;

    agent_observer observer;
    uint64_t last_turn;
    uint64_t messages_sent, messages_received;  // to and from others, but about membership
    pool pool;
};

static inline member *agent_member(const agent *a, int rank) {
    return a->members[rank];
}

// Creates the entry for the member of rank |rank|, and for those below it, if they do not exist; they are lost until they
// are known. False without memory.
bool agent_add_member(agent *a, int rank);
void agent_member_lost(member *m, const gw_error *why);
// Why |m| is lost, with its name in front.
gw_error agent_why_lost(const member *m);

// An agent that no scope has, with one count; NULL without memory.
agent *agent_make(const join_options *o, const service *const *services, gw_error *error);

// The state of the service with |data|, which is one of the agent's services, or will be; NULL before it has opened.
static inline void *agent_state(const agent *a, const service_data *data) {
    int i = 0;
    while (a->services[i].data != data) i++;
    return a->services[i].state;
}

// The part of that service of the member of rank |rank|.
static inline void *agent_member_part(const agent *a, int rank, const service_data *data) {
    int i = 0;
    while (a->services[i].data != data) i++;
    return (char *)a->members[rank] + a->services[i].part_offset;
}

// The service of messages of |kind|; NULL without one.
const service *agent_service_of_kind(const agent *a, uint8_t kind);
// Attachments by the type they have in a table, and by the kind of value that stands for them; NULL
// without one.
const attachment_class *agent_attachment_of_type(const agent *a, uint8_t type);
const attachment_class *agent_attachment_of_kind(const agent *a, gw_kind kind);

agent *agent_retain(agent *a);
void agent_release(agent *a);  // NULL is fine

// The agent that |s| calls through; NULL with |s| failed.
agent *agent_of(gw_scope *s);

// A scope of its own for a body: of this worker, with |key| as its seed.
gw_scope *agent_scope_open(agent *a, uint64_t key, uint64_t id, int64_t deadline_ns);

// Why |what| is not possible for a worker that has left: WRONG_STATE, or FENCED.
gw_status agent_left_error(const agent *a, const char *what, gw_error *error);

// For threads that are neither the program's nor the agent's, such as a backend's. Takes the loop lock, and keeps the agent
// from closing its env until agent_visit_end is called; false: the agent is closed.
bool agent_visit(agent *a);
void agent_visit_end(agent *a);

// Also in a process that fork has made.
static inline bool agent_is_closed(const agent *a) {
    return is_process_fork(a->mark) || atomic_load_explicit(&a->closed, memory_order_acquire);
}

// Reports |what| about the member of that incarnation to the launcher (docs/protocol/launcher.md).
void agent_notify_launcher(agent *a, const char *what, uint64_t incarnation, const char *why);

// Sets the current name and rank of this worker as its identity in connections.
void agent_set_identity_on_loop(agent *a);

// ---- For services -------------------------------------------------------------------------------
//
// Functions of the folders above this one, declared here because every service calls them: messages/send.c,
// leaving/leave.c.

// A message that other workers wait for, with room for AGENT_SMALL_BYTES. Without memory it is a reserved one; NULL if that
// is in use.
enum { AGENT_SMALL_BYTES = 256 };
message *agent_message_on_loop(agent *a, uint8_t kind);

// Sends |m|, whose count it takes, to |rank|, which may be this worker.
gw_status agent_send_on_loop(agent *a, int rank, message *m, bool flush, gw_error *error);

// The same at once for a message with a head alone, which may be NULL or could not be filled without memory. False without
// memory, unless |rank| is lost and needs no message.
bool agent_post_on_loop(agent *a, int rank, message *m);

// Why nothing can be sent to |rank| now; GW_OK if it can.
gw_status agent_check_on_loop(agent *a, int rank, gw_error *error);

// An operation of the service has ended: this worker may be idle now, and leave.
void leaving_check_on_loop(agent *a);

#endif
