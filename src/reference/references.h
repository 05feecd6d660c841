// Shared by the files of this room: references. docs/protocol/references.md has the rules that are quoted as REF-1 to
// REF-10.
//
// Ownership: the agent has one table of references. Handles and requests of this worker hold counts on an entry, and
// the forks in its holder set keep it. Threads: with the loop lock held; a handle may be dropped on any thread.
#ifndef REFERENCE_REFERENCES_H
#define REFERENCE_REFERENCES_H

#include "agent/bodies/context.h"
#include "call/promise.h"
#include "call/target.h"
#include <gradwire/ref.h>

struct call;

typedef enum reference_kind {
    KIND_ACCEPTED = 16,
    KIND_FORK_REQUEST,
    KIND_FORK_ACK,
    KIND_CHILD_ACCEPT,
    KIND_RELEASE,
    KIND_FETCH,
    KIND_FORWARD_VALUE,
    REFERENCE_KIND_LAST = KIND_FORWARD_VALUE
} reference_kind;

struct entry {
    agent *agent;
    uint64_t id;     // 0: not sent to another worker yet
    uint32_t count;  // handles and requests of this worker
    int64_t since_ns;
    const char *origin;  // "train.c:12"; of |origins|
    map forks;           // the holder set: rank of the holder + 1, by fork
    bool requested;      // else it awaits the creating request
    bool made;
    result *result;  // once made, unless |object|
    object *object;
    turn *turn;          // of the object that gave out the value; one count, or NULL
    list_node awaiting;  // of continuation
    list_node link;      // in |entries|
};

typedef enum fork_state {
    FORK_UNSENT,     // the owner has got no request for it
    FORK_PENDING,    // awaits accepted, or fork ack
    FORK_CONFIRMED,  // it is in the owner's holder set
    FORK_RELEASED,   // its release is queued, or sent
    FORK_FAILED      // unusable; |failed| has the reason
} fork_state;

typedef enum fork_event {
    FORK_REQUESTED,  // the request to the owner is sent
    FORK_LISTED,     // the owner has added it to the holder set
    FORK_REFUSED,    // the owner has refused it, or the request could not be sent
    FORK_LOST,       // the owner is lost
    FORK_DROPPED     // no handle and no pin needs it
} fork_event;

struct gw_rref {
    gw_handle handle;
    agent *agent;  // NULL: a poison
    int owner;
    int64_t since_ns;
    const char *origin;  // of |origins|

    // on the owner
    entry *entry;

    // on other workers
    uint64_t id, fork;
    fork_state state;
    _Atomic bool confirmed;
    int parent;          // holds its own fork until this one is in the holder set; -1: none
    uint32_t pin_count;  // forks made of it that await child accept
    bool leaving;        // to be released once no pin and no parent needs it
    bool dropped;        // has no handle any more: freed once it is released
    bool of_object;      // at shutdown: an object of this worker holds it
    result *failed;
    list_node link;  // in |users|
    list_node out;   // in |releases| of the owner
};

// The parent's side of a fork: it holds the reference until child accept (REF-4).
typedef struct pin {
    gw_rref *rref;  // one count
    int child;
} pin;

typedef struct references {
    agent *agent;
    uint64_t last_id;   // count of references and forks that this worker has made
    map by_id;          // entries
    list_node entries;  // all
    int entry_count;
    bool has_unused;  // some entries are deleted once no message to this worker itself is under way

    list_node users;  // forks that this worker holds
    map pending;      // those of them that await accepted or fork ack; by fork
    map pins;         // by fork
    uint32_t pin_count;

    map origins;        // texts, by themselves
    turn *turn;         // of parameters that were given out by no object
    list_node fetches;  // of values of this worker, that are not sent yet

    uint32_t release_count;  // in |releases| of the members
    timer release_timer;
    int release_tries;  // for a mutation
    bool is_reported;   // references_report_on_loop has run
} references;

// Of one member.
typedef struct reference_peer {
    list_node releases;    // of gw_rref: releases to send to it
    uint32_t fetch_count;  // values that it has fetched and that are not sent yet
    uint32_t fork_count;   // references that it holds to values of this worker
    uint64_t last_result;  // the largest id of its creating requests
} reference_peer;

extern const service reference_service;
extern const service name_service;  // values of this worker that others find by a name: names.c
extern const service_data reference_data;

// For the service: makes and frees its state.
gw_status reference_state_open(agent *a, void **state, gw_error *error);
void reference_state_free(void *state);

static inline references *references_of(const agent *a) {
    return agent_state(a, &reference_data);
}

static inline reference_peer *reference_peer_of(const agent *a, int rank) {
    return agent_member_part(a, rank, &reference_data);
}

// A text equal to |origin|, stored once, with printable characters only. "" without memory.
const char *origin_keep_on_loop(references *rs, const char *origin, size_t size);

// The table through which messages use references.
extern const attachment_class reference_attachment;

extern gw_rref rref_poison;

// ---- Handles: rref.c ----------------------------------------------------------------------------
gw_rref *rref_open_on_loop(agent *a, int owner,
                           entry *e);   // one count; NULL without memory. Takes a count on |e|
gw_rref *rref_of_handle(gw_handle *h);  // NULL if it is of another class
void rref_fail_on_loop(gw_rref *r, fork_event event, const gw_error *why);
void rref_lose_on_loop(gw_rref *r);    // its owner is lost
void rref_forget_on_loop(gw_rref *r);  // frees one that was dropped
// Fails if |r| is unusable now: poison, failed, or released.
gw_status rref_check(const gw_rref *r, gw_error *error);
bool rref_is_usable(gw_scope *s,
                    const gw_rref *r);  // not a poison, and of the agent of |s|; else fails |s|

// ---- For calls and the distributed room: rref.c -------------------------------------------------
int reference_owner(const gw_rref *r);
const agent *reference_agent(const gw_rref *r);
gw_status reference_check_on_loop(const gw_rref *r, uint64_t *out_id, uint64_t *out_fork,
                                  gw_error *error);
// |r| names a parameter of this worker: the turn in which it is changed, and fetched.
turn *reference_turn_on_loop(const gw_rref *r);

// ---- The value behind a reference as a future: by_value.c ---------------------------------------
gw_future *by_value_open(gw_rref *r);  // one count, NULL without memory. Without the loop lock

// ---- The owner: entry.c; see call/target.h ------------------------------------------------------
gw_status entry_accept_on_loop(agent *a, int from, uint64_t id, uint64_t fork, entry **out,
                               gw_error *error);
gw_status entry_find_on_loop(agent *a, int from, uint64_t id, uint64_t fork, entry **out,
                             gw_error *error);
void entry_release_on_loop(entry *e);
void entry_set_origin_on_loop(entry *e, const char *origin, size_t size);
void entry_set_turn_on_loop(entry *e, turn *t);
void entry_make_on_loop(entry *e, result *value, object *o);
bool entry_await_on_loop(entry *e, continuation *c);
object *entry_object(const entry *e, gw_error *error);
void references_sweep_on_loop(agent *a);           // deletes unused entries
entry *entry_open_on_loop(agent *a, uint64_t id);  // one count; NULL without memory
bool entry_name_on_loop(entry *e);  // draws its id if it has none; false without memory
gw_status entry_add_holder_on_loop(entry *e, uint64_t fork, int holder, gw_error *error);
void entry_remove_holder_on_loop(entry *e, uint64_t fork, int holder);
entry *entry_retain_on_loop(entry *e);
entry *entry_of_on_loop(agent *a, uint64_t id);  // NULL if there is none
gw_status no_such_reference(gw_error *error);
turn *entry_turn_on_loop(
    const entry *e);  // in which a value with parameters is changed; NULL: it has none

// ---- Reference reports: report.c ----------------------------------------------------------------
// Logs a line for each fork in the holder sets, once none should be left.
void references_report_on_loop(agent *a);

// ---- Forks: fork_states.c, fork.c; the messages about them: fork_messages.c ---------------------
void fork_apply_on_loop(gw_rref *r, fork_event event);  // nothing else changes the state of a fork
void fork_queue_release_on_loop(gw_rref *r);            // an action of the table
gw_status fork_received_on_loop(agent *a, int from, message *m, gw_error *error);
void fork_acknowledge_on_loop(agent *a, int to, uint64_t fork, gw_status status);
void fork_unpin_on_loop(agent *a, uint64_t fork);
gw_status fork_request_on_loop(gw_rref *r);                     // sends the fork request
void fork_accept_on_loop(agent *a, int parent, uint64_t fork);  // sends child accept

void references_lost_on_loop(agent *a, int rank);  // lost.c

// ---- Releasing: release.c -----------------------------------------------------------------------
void release_on_loop(gw_rref *r);  // now, or once REF-4 allows; frees it if it was dropped
void release_flush_on_loop(agent *a);
gw_status release_received_on_loop(agent *a, int from, message *m, gw_error *error);

// ---- Fetching: fetch.c --------------------------------------------------------------------------
gw_status fetch_received_on_loop(agent *a, int from, message *m, gw_error *error);
size_t fetches_pending(const agent *a);         // those that block leaving
void fetches_lost_on_loop(agent *a, int rank);  // fetches that |rank| has requested, or is to get
gw_status fetch_forward_received_on_loop(agent *a, int from, message *m, gw_error *error);
gw_status fetch_send_on_loop(struct call *c, const gw_rref *r);
result *fetch_result(const entry *e);  // |e| is made; one count
// Waits until the entry of |r| is made; INVALID if another worker owns it.
gw_status local_entry(gw_scope *s, gw_rref *r, gw_error *error);

#endif
