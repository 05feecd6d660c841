// Groups, and their collectives under way. docs/protocol/groups.md is the specification.
//
// Ownership: a group is a handle; each run in it has a count. The service has all groups by their ids, without a
// count. Threads: constant fields may be read on any thread; the rest needs the loop lock.
#ifndef COLLECTIVE_GROUP_GROUP_H
#define COLLECTIVE_GROUP_GROUP_H

#include "agent/messages/message_io.h"
#include "base/map.h"
#include "collective/group/scope_path.h"
#include "collective/group/text.h"
#include "collective/group/signature.h"

enum {
    KIND_ENTER = 66,
    KIND_PART,
    KIND_REPORT,
    KIND_QUERY,
    KIND_ANSWER,
    KIND_ABORT,
    KIND_BREAK,
    KIND_PROPOSE,
    KIND_POLL,
    KIND_DECIDED,
    KIND_STORED,
    KIND_RELEASED,
    KIND_ABSENT,
    KIND_JOIN_REQUEST,
    KIND_STALL_QUERY,
    KIND_STALL_ANSWER,
    KIND_DISMISS,
    KIND_DEPART,
    GROUP_KIND_LAST = KIND_DEPART
};

typedef struct run run;

// The key and number of a collective in its group.
typedef struct run_place {
    uint64_t key, number;
} run_place;

typedef struct agreements agreements;
typedef struct decision decision;
typedef struct history history;

typedef struct group_peer {
    int rank;  // in the job
    uint64_t incarnation;
} group_peer;

enum { ENDED_KEPT = 8, LEFT_KEPT = 8 };
enum { RUNS_MAX = 64 };  // under way in a group: GRP-3

// Numbers of a sequence that an abort has ended.
typedef struct ended_numbers {
    uint64_t number, next;
} ended_numbers;

// GRP-6: a member calls nothing more in one of the scopes of a call that has failed.
typedef struct scope_left {
    uint64_t
        failed;  // the number of a call in it, by which members find their own scope; 0: none was left
    int level;       // of the scope, in the path of that call
    uint64_t scope;  // its id on this worker; 0: this member has not called |failed|
    uint64_t from,
        next;  // calls in it behind |from| fails; the number behind them is |next|
} scope_left;

// A call that has failed, in scopes that this member has not all left: GRP-6.
typedef struct failed_call {
    scope_path in;    // the scopes that are not left
    int depth;        // of all its scopes, including the call
    uint64_t number;  // its own
} failed_call;

// The collectives of one key, in the order in which this member calls them.
typedef struct sequence {
    uint64_t key;
    uint64_t next;       // the number of the next call
    uint64_t past;       // GRP-24: a hash of the collectives entered since the last abort,
    uint64_t past_from;  // from this number on
    uint64_t doubt;      // GRP-24: members differ in this number, and its abort has not arrived; 0
    bool frozen;         // GRP-5: calls wait for an abort
    // the numbers of calls that have failed here, until their abort
    uint64_t reported, reported_next;
    // the numbers of calls that the program has cancelled, until their aborts
    uint64_t *cancelled;
    uint32_t cancelled_count;

    // A value was dropped because allocation failed, and that was reported. Until the abort, messages that seem out
    // of order may only follow it, and are dropped, too.
    bool has_dropped;

    // aborts, GRP-6
    call_paths paths;
    uint32_t aborts;                  // their count
    uint64_t next_then;               // the highest |next| of them
    ended_numbers ended[ENDED_KEPT];  // a ring of the last ones
    struct ended_ahead
        *ahead;  // numbers that have ended before this member has called them, in order
    // Of each depth the last one, the outermost first: the scopes of all contain the last call.
    failed_call failures[SCOPE_PATH_MAX];
    int failure_count;
    gw_error *failed_why;  // of the last failure
    uint64_t
        leaving;  // this member has reported that it has left a scope of the call of that number; 0
    int leaving_level;  // the level of that scope
    scope_left left
        [LEFT_KEPT];  // scopes that members have left: the last ones, and of these the outer ones longest

    // Errors that the program has not read: the error of gw_rpc_shutdown.
    bool missed;
    bool
        fails_next;  // GRP-24: a call has succeeded here and failed on others: the next one fails with |why|
    bool is_of_own;         // |why| is about a collective that this member has called
    uint32_t missed_count;  // futures that it has not read
    gw_error *why;

    uint32_t run_count;                     // runs that are not over: of a final key
    uint32_t entered_count, waiting_count;  // of these, as of the group
    bool is_over;                           // of a final key: this member calls no more of it
} sequence;

// How the program receives the end of a run: the state of its future's source. Counted by that future alone.
typedef struct notice {
    gw_group *group;  // one count
    sequence *sequence;
    bool was_read;   // the program has waited for it
    bool is_missed;  // an abort has ended it, and the program has not waited for it
} notice;

// Keys from here on are final, GRP-21: those of final sequences, and keys that are used once, as in a backward pass.
#define GROUP_KEY_FINAL ((uint64_t)1 << 62)
// The key of the collectives by which members open groups of the library's own, GRP-22.
#define GROUP_KEY_OPENING (GROUP_KEY_FINAL - 1)
#define GROUP_OPENINGS " of openings"  // in error texts
#define GROUP_KEY_ONCE ((uint64_t)1 << 63)

static inline bool key_is_final(uint64_t key) {
    return key >= GROUP_KEY_FINAL;
}

static inline bool key_is_once(uint64_t key) {
    return key & GROUP_KEY_ONCE;
}

static inline bool key_is_final_sequence(uint64_t key) {
    return key_is_final(key) && !key_is_once(key);
}

// The abort of a final key.
typedef struct final_abort {
    uint64_t key;
    gw_error *error;
} final_abort;

typedef enum report_cause {
    REPORT_COLLECTIVE,  // the collective itself
    REPORT_BEFORE,      // an error that the program had before
    REPORT_PAST,        // GRP-24: members have called different collectives before
    REPORT_LEFT,        // GRP-6: this member has left the scope in which a call has failed
    REPORT_CAUSE_COUNT
} report_cause;

typedef struct report_about {
    uint64_t key, number;
    uint64_t next;  // behind the last number
    report_cause cause;
    uint64_t failed;  // of REPORT_LEFT: the number of the failed call
    uint8_t level;    // of the scope that was left, in the path of the call
} report_about;

// A report of this member, or at the leader of another one: GRP-4.
typedef struct report {
    list_node link;
    report_about about;
    gw_error error;
} report;

// The leader's, during a query: the state of a member at the reported number.
typedef enum attendance { NOT_CALLED, HAS_ENTERED, IS_DONE } attendance;

typedef struct testimony {
    bool has_answered;
    uint64_t next;
    uint64_t last;  // GRP-6: the last one that was called in one scope with it
    uint64_t
        call;  // a hash of what it has called there, but for shapes; 0: nothing, or it has forgotten
    uint8_t attendance;
    char text[SIGNATURE_TEXT_MAX];
} testimony;

// GRP-6.
typedef struct collective_abort {
    uint64_t key, number,
        next;        // the abort ends the numbers from |number| to below |next|, which may be none
    uint64_t all;    // all members have entered the numbers below
    uint64_t ahead;  // no member has entered this number or a later one
    uint64_t
        failed;  // a member has left a scope of the call of this number; 0: the number itself has failed
    uint8_t level;  // the level of that scope in the path of the call
    gw_error error;
} collective_abort;

// Numbers that have ended before this member has called them.
typedef struct ended_ahead {
    struct ended_ahead *next;
    ended_numbers numbers;
    bool is_skipped;  // GRP-22: no call of this member is one of these
    gw_error error;
} ended_ahead;

// What a failure in a group causes. The files in abort/ define the table, and a group gets it when it is made: the files
// below abort/ report failures to it by the functions of group_faults.c.
typedef struct group_faults {
    void (*report)(gw_group *g, const report_about *about, const gw_error *error);
    void (*break_here)(gw_group *g, const gw_error *error);
    void (*break_all)(gw_group *g, const gw_error *error);
} group_faults;

struct gw_group {
    gw_handle handle;
    agent *agent;  // one count

    // Scopes that hold it, and a call that opens it. With 0, only operations under way have counts on it.
    _Atomic int owners;

    // constant
    uint64_t id, list;
    uint32_t generation;  // how often it was re-formed
    int64_t timeout_ms;
    int count, self;
    plan_place place;
    bool has_name;  // given by the program; else |name| is made of the members
    char name[LIMIT_NAME_BYTES + 1];
    uint32_t record_name;  // |name| in records: trace_name
    // Its name in aborts, with how many of that name were opened: group "a" (opened 2 times).
    char title[LIMIT_NAME_BYTES + 64];
    const group_faults *faults;

    gw_error broken;      // GW_OK: no error
    bool break_is_known;  // a call of the program has returned |broken|
    map sequences;        // by key, except key 0
    sequence main;
    list_node runs;  // under way, by |link|
    // The backend that carries values, see collective/backend/backend.h.
    const struct backend *backend;
    const char *wanted_backend;  // while the group is opened
    void *communicator;          // NULL: |backend| needs none
    bool any_order;
    struct backend_channel *channels;  // backend_turn.c; NULL as |communicator|
    list_node detached;                // runs that have ended for the program, by |link|
    uint32_t detached_count;
    bool backend_is_down;  // no call begins in it any more
    uint32_t run_count;
    list_node waiting;  // runs that have not entered
    uint32_t waiting_count;
    uint32_t idle_count;  // sequences with waiting runs and none that has entered
    // final_keys.c: of a group of another room
    uint64_t final_number;  // the current final sequence, of calls without a key; 0: none
    uint64_t final_mark;    // part of the signatures: what else has to match
    uint64_t final_begun;   // the last sequence that has begun
    run_place
        final_last;  // the last sequence that is over and had calls: the number behind its last
    const char *final_name;      // of a sequence, in error texts
    char *final_note;            // the text of |final_mark|, in error texts; NULL: nothing
    final_abort *final_aborts;   // a ring of the last ones; NULL before the first
    uint32_t final_abort_count;  // of all
    list_node unexpected;        // of unexpected_message
    history *history;            // NULL: its allocation failed
    int64_t *queried_ns;         // stall_report.c: when members were last queried; NULL: never
    // backward.c: nodes that were freed unvisited, by the keys of their collectives, the oldest first.
    map unvisited;
    list_node unvisited_nodes;
    task deferred_free;

    // shadow.c: of a member that only joins the collectives of other members
    bool is_own;  // of another room, which handles its collectives itself
    bool shadows;
    bool is_shadowing;  // a task is under way
    task shadow_task;
    waiter *shadow_waiter;   // waits for the end of the task; NULL
    agreements *agreements;  // NULL before the first one
    bool is_absent;          // GRP-18: this member
    bool is_over;            // there is a next generation
    gw_group *next_named;    // with a name of the same hash
    gw_group *before;  // one count: the previous generation, as a handle whose use is an error
    bool is_pending;   // pending_groups.c: the program has not opened it

    int left_count;  // members that have left in order, GRP-7
    list_node reports;

    // the leader's
    testimony *testimonies;  // about the first report, of each member; NULL: no query is under way
    int missing;

    group_peer members[];
};

// The timeout of a call in |g| that is given |timeout_ms|, which may be GW_GROUP_TIMEOUT.
static inline int64_t group_timeout_ms(const gw_group *g, int64_t timeout_ms) {
    return timeout_ms == GW_GROUP_TIMEOUT ? g->timeout_ms : timeout_ms;
}

// The first fields of every message.
typedef struct group_header {
    uint64_t group, list, key, number;
    uint32_t attachments_at;
} group_header;

enum { GROUP_ATTACHMENTS_FIELD = 32, GROUP_HEADER_BYTES = 36 };

// A message of a collective or group that this member has not entered or opened.
typedef struct unexpected_message {
    list_node link;
    group_header header;
    uint8_t kind;
    int from;  // in the job
    uint64_t size;
    incoming *incoming;
} unexpected_message;

// ---- Messages (group_message.c) -----------------------------------------------------------------

void group_header_put(bytes *head, const group_header *h);  // without attachments
void group_header_write(bytes *head, const gw_group *g, uint64_t key, uint64_t number);
bool group_header_read(reader *in, group_header *out);
// A message with that header; NULL if allocation fails.
message *group_message_on_loop(gw_group *g, uint8_t kind, uint64_t key, uint64_t number);

// ---- Handles (group.c) --------------------------------------------------------------------------

extern gw_group group_poison;
void group_release_on_loop(gw_group *g);
// Whether a call in the scope may use |g|; else |s| has failed.
bool group_is_given(gw_scope *s, const gw_group *g, const char *what);
// The same for functions that open other groups of |g|, also if |s| has failed before.
bool group_is_usable(gw_scope *s, const gw_group *g);
// The options of an opening besides the name; fails |s|.
bool group_check_options(gw_scope *s, gw_group_open_options o);
// INVALID if |name| is not valid for a group: all members use it in error texts and logs.
bool group_check_name(gw_scope *s, const char *name);
// In the checked mode: aborts the process if |g| was freed.
void group_check_live(const gw_group *g);
gw_worker group_worker_of(const gw_group *g, int index);
uint64_t group_list_of(const group_peer *members, int count);

// ---- Queries (group_table.c) --------------------------------------------------------------------

gw_group *group_find_on_loop(const agent *a, uint64_t id);
int group_index_of(const gw_group *g, int rank);  // the index of a rank in the job; -1
// GRP-4: the index of the member that leads.
int group_leader_on_loop(const gw_group *g);
int group_count_lost_on_loop(const gw_group *g);  // those that have left included
bool group_leads_on_loop(const gw_group *g);      // whether this member leads
const char *group_member_name(const gw_group *g, int index);
// Returns |why|, an error of this member, as the other members get it: with this member's name.
gw_error group_error_of_self(const gw_group *g, const gw_error *why);
// "w1, w2 do not answer w0: ": the leader does not answer this member, or, if this member leads, those members do not
// answer of which |is_silent| is true. Appends nothing if there are none.
void group_put_silent_on_loop(const gw_group *g, int leader,
                              bool (*is_silent)(const gw_group *g, int index), text_builder *out);

// ---- Sequences (sequence.c) ---------------------------------------------------------------------

// GRP-6: the error of a collective that the program has not read; NULL.
const gw_error *group_missed_error_on_loop(const gw_group *g);
sequence *group_sequence_on_loop(gw_group *g,
                                 uint64_t key);  // NULL if allocation fails, or at the limit
sequence *group_find_sequence_on_loop(gw_group *g, uint64_t key);  // NULL: nothing was entered
void sequence_fini(sequence *t);
// Whether a run of |t| may enter now: below the limit of the group, or as the only one of |t| (GRP-3).
bool sequence_may_enter(const gw_group *g, const sequence *t);
// A run of |t| waits, waits no longer, has entered, has left: each changes the counts of the group, too.
void sequence_wait(gw_group *g, sequence *t);
void sequence_stop_waiting(gw_group *g, sequence *t);
void sequence_enter(gw_group *g, sequence *t);
void sequence_leave(gw_group *g, sequence *t);
// Whether |number| is one of those that the last aborts have ended.
bool sequence_has_ended(const sequence *t, uint64_t number);
// Whether |error| is that of an abort of the group, or about |t|: then all members have it.
bool group_has_reported(const gw_group *g, const gw_error *error);
bool sequence_has_reported(const gw_group *g, const sequence *t, const gw_error *error);
// |error| was reported here for |t|. GRP-21: a scope with it does not report it again for a final key.
void sequence_note_report(const gw_group *g, const sequence *t, gw_error *error);
// Adds the name of |g| to the error by which it breaks, once.
void group_name_error(const gw_group *g, gw_error *error);
// The identity, in errors, of the abort of that collective.
gw_abort abort_identity(const gw_group *g, uint64_t key, uint64_t number);

// ---- Failures (group_faults.c) ------------------------------------------------------------------

// All that is under way or waits fails with |error|, and so do later calls: GRP-7.
void group_break_on_loop(gw_group *g, const gw_error *error);
// The same, and sends |error| to the other members.
void group_break_all_on_loop(gw_group *g, const gw_error *error);
// A value of that collective was dropped: reports |error|, or breaks the group if allocation fails.
void group_dropped_on_loop(gw_group *g, uint64_t key, uint64_t number, const gw_error *error);
// Reports to the leader that the collective cannot succeed: GRP-4.
void group_report_about_on_loop(gw_group *g, const report_about *about, const gw_error *error);
void group_report_on_loop(gw_group *g, uint64_t key, uint64_t number, const gw_error *error);
// Reports |error| of calls that have failed here: the numbers from |number| to below |next|.
void group_report_failed_on_loop(gw_group *g, uint64_t key, uint64_t number, uint64_t next,
                                 const gw_error *error);

// ---- Final sequences and final keys (final_keys.c) ----------------------------------------------

// From here on calls without a key belong to that final sequence; 0: to none. Sequences begin in order. |mark| must
// be equal on all members.
void final_begin_on_loop(gw_group *g, uint64_t number, uint64_t mark);
void final_end_on_loop(gw_group *g, uint64_t number);  // no more calls of it on this member
// A text for |mark|: "gw_hook_f16". Has no effect if allocation fails.
void final_note_on_loop(gw_group *g, const char *text);
void final_put_note(const gw_group *g, uint64_t key, text_builder *out);  // ", with gw_hook_f16"
// " of DDP pass 2", " with .key = 2"; nothing without a key.
void final_put_key(const gw_group *g, uint64_t key, text_builder *out);
// "collective 7 with .key = 2". For keys that are hashes, a description.
void final_put_collective(const gw_group *g, run_place at, text_builder *out);
// The abort of a final key; NULL: there was none.
const gw_error *final_find_abort_on_loop(const gw_group *g, uint64_t key);
bool final_is_over_on_loop(gw_group *g, uint64_t key);  // whether it is one that has ended here
// The first number of a sequence that is over here which this member has not entered.
uint64_t final_next_on_loop(const gw_group *g, run_place reported);
// Remembers an abort of |key|. False if allocation fails.
bool final_keep_abort_on_loop(gw_group *g, uint64_t key, const gw_error *error);
// A run of |t| is over.
void final_leave_on_loop(gw_group *g, sequence *t);
// Of a final key without runs: frees |t|, unless it waits for an abort.
void final_forget_if_unused_on_loop(gw_group *g, sequence *t);
// The key, used once, of the backward of the collective at |forward| that has run |times| times before.
uint64_t backward_key(run_place forward, uint32_t times);

// ---- The next call of a sequence (call_place.c): GRP-6 ------------------------------------------

typedef enum call_place {
    CALL_ENTERS,
    CALL_WAITS,  // for an abort
    CALL_FAILS   // with |*error|
} call_place;

// The outcome of the next call of |t| in |path|.
call_place call_place_on_loop(gw_group *g, sequence *t, const scope_path *path, gw_error *error);
// The program has cancelled calls: they end on all members.
void call_cancelled_on_loop(gw_group *g, sequence *t, uint64_t number);
// The call of |number| is made at |path|. The group breaks if allocation fails.
void call_note_path_on_loop(gw_group *g, sequence *t, uint64_t number, const scope_path *path);
void call_fail_in_place_on_loop(gw_group *g, sequence *t, const scope_path *path, uint32_t count,
                                const gw_error *error);
// The call |f| has failed with |why|.
void call_note_failure_on_loop(sequence *t, failed_call f, const gw_error *why);
// The next call of |t| fails with |error| on all members.
void call_fail_next_on_loop(sequence *t, const gw_error *error);
// Skips numbers that ended before this member has called them, on a member without calls of its own.
void call_skip_ended_on_loop(gw_group *g, sequence *t);
// Another member calls nothing more in a scope.
void call_note_left_on_loop(gw_group *g, sequence *t, const collective_abort *ab);

// ---- Unexpected messages (unexpected.c) ---------------------------------------------------------

// Takes |p|, also on failure. LIMIT if the sender has too many bytes here; NO_MEMORY.
gw_status unexpected_keep_on_loop(agent *a, list_node *list, int from, uint8_t kind,
                                  const group_header *h, incoming *p, gw_error *error);
// Whether it is an enter or a part.
static inline bool unexpected_is_value(const unexpected_message *x) {
    return x->kind == KIND_ENTER || x->kind == KIND_PART;
}

// Takes the first message of that collective out of |g|; NULL without one.
unexpected_message *unexpected_take_on_loop(const gw_group *g, uint64_t key, uint64_t number);
// Drops it with the incoming message, or returns that to the caller.
void unexpected_drop_on_loop(agent *a, unexpected_message *x);
void unexpected_drop_between_on_loop(gw_group *g, uint64_t key, uint64_t from, uint64_t next);
incoming *unexpected_open_on_loop(agent *a, unexpected_message *x);
void unexpected_drop_all_on_loop(agent *a);
// Of a member with shadow collectives: an enter has been kept, or its collective may be entered now.
void shadow_enters_on_loop(gw_group *g);
// A message of |from| was dropped because allocation failed. |g| NULL: of a group that is not open here; the other
// members are notified when it is.
void unexpected_dropped_on_loop(agent *a, int from, gw_group *g, const group_header *h,
                                const gw_error *error);

#endif
