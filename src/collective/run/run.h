// Runs: one collective under way on this member. A run follows its plan: it sends, adds and places values as their
// inputs arrive, without the loop lock. One thread at a time does this: the thread of the call, or a thread that has
// received a value.
//
// Ownership: counted, by the group until it is over, and by the thread that works on it. Threads: fields under
// "worker's" belong to the thread for which |works| is set; constant fields may be read on any thread; the rest needs
// the loop lock.
#ifndef COLLECTIVE_RUN_RUN_H
#define COLLECTIVE_RUN_RUN_H

#include "agent/leaving/awaits.h"
#include "collective/group/group.h"
#include "future/future.h"

enum {
    RUN_SMALL_BYTES = 64 * 1024  // values up to this size are sent with the enter: GRP-1
};

typedef enum run_state {
    RUN_WAITING,    // has no number yet
    RUN_UNDER_WAY,  // has entered
    RUN_DONE,       // has its result; some partners have not entered
    RUN_DETACHED,   // has ended with an error, and continues in the backend
    RUN_OVER
} run_state;

// A value that has arrived for a step.
typedef struct arrival {
    list_node link;
    run *run;
    incoming *incoming;
    size_t value_at;
    int step;
} arrival;

typedef struct run_partner {
    bool is_partner;
    bool entered;       // its enter has arrived
    bool differs;       // its signature or past differs: GRP-2
    uint32_t received;  // count of values
    bool may_be_large;  // the worker's copy
    int next_receive;   // a step; -1: no more values are expected
    int next_send;      // the worker's
    uint32_t sent;      // the worker's: count of values
} run_partner;

typedef struct run_value {
    incoming *incoming;  // the message of |tensor| or |value|; NULL
    gw_tensor *tensor;   // in the run's scope, or |is_brief|; NULL
    gw_value value;      // of CONTENT_VALUES
    bool is_brief;       // one count on |tensor|, which is released once it is added
} run_value;

struct run {
    _Atomic uint32_t count;
    list_node link;
    gw_group *group;  // one count
    sequence *sequence;
    uint64_t key, number;
    uint64_t past;  // GRP-24: of its sequence when it entered; 0: it is not compared

    // constant
    collective_signature signature;
    char origin[LIMIT_ORIGIN_BYTES + 1];
    char *detail;  // the text for |signature.shares| in error texts; NULL
    plan plan;
    int64_t deadline_ns;
    scope_path called_in;
    run_place *out_place;         // written when the run enters; may be NULL
    bool with_rows;               // the result is a list: the values, and the rows from each member
    bool is_awaited;              // the caller waits for it at once
    bool as_list;                 // the result is a list of tensors or values
    bool takes_gradient;          // of scatter: see run_request
    struct backend_run *backend;  // NULL: values are sent by |plan|
    int64_t *shares;  // rows for each member, of reduce_scatter and all_to_all; NULL: equal counts

    // with the loop lock
    run_state state;
    bool works, deferred, has_failed;
    bool has_reported;   // its deadline, or waits with the query before that:
    bool queries_later;  // another run of its sequence queries now
    bool has_places;     // run_find_place may be called
    gw_error *failure;   // GRP-5: failed calls: they have a number and nothing else; NULL
    uint32_t failures;   // their count
    notice *notice;
    uint64_t record;  // history.c: its position in the group's history, from 1; 0: none
    list_node arrivals;
    list_node promised;  // arrivals with unresolved futures
    int enters_missing;
    result *held;  // GRP-24: it has its result, and waits until those before it are finalized; NULL
    int64_t began_ns, seen_ns;  // |seen_ns|: when observe_on_loop first saw it; 0: not yet
    int caller;                 // the caller, if in a function that it has called; -1
    await await;                // for the partners that have not entered
    timer timer;
    gw_future *future;  // one count
    canceller cancelled;
    task work, freeing;
    run_partner *partners;

    void *tables;  // one allocation for the arrays of steps and partners
    size_t tables_size;

    // the worker's
    gw_scope *scope;
    gw_tensor *own;   // this member's input, contiguous; NULL: none
    gw_value *items;  // or one for each member
    gw_value own_value;
    run_value *values;     // of each step
    int plan_steps;        // count of |values|
    bool has_opened;       // |output_at| is filled, and the result is open
    bool has_entered;      // its enters are sent
    uint32_t *missing;     // count of missing inputs of each step
    uint32_t *dependents;  // steps, by |first_dependent|
    uint32_t *first_dependent;
    int *next_of_peer;  // the next step of those that send to, or receive from, a member
    int *ready;         // additions that can run
    int ready_count, steps_left;
    int64_t *output_at;  // of each step: the offset of its elements in the result; -1: not in it
    gw_tensor *result;   // of a reduction
    gw_tensor
        *rows;  // the result if all members have as many rows as this one; NULL: not made before
};

// A call of the program.
typedef struct run_request {
    collective_signature signature;
    gw_collective_options options;
    gw_tensor *own;         // may be NULL
    const gw_value *items;  // one for each member, of which the run keeps those that it needs; NULL
    gw_value own_value;     // of CONTENT_VALUES
    uint64_t elements;      // of a reduction's tensor
    const int64_t *shares;
    const char *detail;  // "sizes 1+2+1": the text that |signature.shares| is a hash of; NULL
    bool as_list;
    // Of scatter: an item whose gradient flows back is a list of it and true, which the caller handles; else it is
    // INVALID.
    bool takes_gradient;
    bool is_awaited;       // the caller waits for it at once
    run_place *out_place;  // for a caller that waits; may be NULL
    bool with_rows;  // the result is a list of the values and of the count of rows of each member
} run_request;

// run_start.c: enters, or waits to enter. The future, owned by |s|; poison with |s| failed.
gw_future *run_start(gw_scope *s, gw_group *g, const run_request *request);
// The scope |s| had failed before the program called, in |called_in|: the other members receive its error.
void run_enter_failed(gw_scope *s, gw_scope *called_in, gw_group *g, uint64_t key);

// ---- Counts (run_count.c) -----------------------------------------------------------------------

static inline bool run_is_at_work(const run *r) {
    return r->state == RUN_UNDER_WAY || r->state == RUN_DETACHED;
}

run *run_retain(run *r);
void run_release(run *r);  // without the loop lock
void run_release_on_loop(run *r);
// An event has arrived for the run: a worker handles it.
void run_wake_on_loop(run *r);

void run_free(run *r);  // without the loop lock
// The program has read, or no longer needs, the end of |f|, the future of a run.
void run_reported(gw_future *f);
extern const future_source run_future_source;

// run_open.c: a run that has not entered, with one count; NULL with |s| failed. Without the loop lock.
run *run_open(gw_scope *s, gw_group *g, const run_request *request);
run *run_open_failed(gw_group *g, const gw_error *error);  // NULL if allocation fails

// ---- Queries (run_query.c) ----------------------------------------------------------------------

// The run of that number if it is under way; NULL. The same among those that are detached.
run *group_find_run_on_loop(const gw_group *g, uint64_t key, uint64_t number);
run *group_find_detached_on_loop(const gw_group *g, uint64_t key, uint64_t number);
// Runs that all members have entered, and that are detached.
uint32_t group_count_detached_on_loop(const gw_group *g);
// Names the members that have not entered, else those whose values have not arrived.
// Whether the run waits for member |i|: to enter, or for its values.
bool run_is_missing(const run *r, int i);
struct trace_activity;
void run_describe_on_loop(const run *r, struct trace_activity *out);
// What a wait for the future of a collective waits for.
void run_describe(const gw_future *f, struct trace_activity *out);
void run_name_missing(const run *r, char *out, size_t size);

// ---- With the loop lock -------------------------------------------------------------------------

// Ends it with |value|, which it takes; the next with |error|.
void run_done_on_loop(run *r, result *value);
void run_fail_on_loop(run *r, const gw_error *error);
// The same by an abort; all members have entered the numbers below |all|.
void run_fail_by_abort_on_loop(run *r, uint64_t all, const gw_error *error);
// The same for a key that is not final. Sets |*ended| unless the run had succeeded. Sets |*reported| if the program
// has read the end, or dropped the future; else gw_rpc_shutdown fails if the program does not read it.
void run_end_by_abort_on_loop(run *r, uint64_t all, const gw_error *error, bool *ended,
                              bool *reported);
// GRP-24: runs with results succeed if no abort is to arrive any more.
void run_finalize_on_loop(gw_group *g);
// It was detached, and all its calls have ended.
void run_detached_over_on_loop(run *r);
// An enter or part of the member of index |from|; takes |p|. PROTOCOL.
gw_status run_received_on_loop(run *r, int from, incoming *p, uint8_t kind, gw_error *error);
// GRP-24: an enter of a collective that is over here.
void run_over_received_on_loop(gw_group *g, int from, const group_header *h, const incoming *p);
// Starts or ends the waits for its partners.
void run_await_partners_on_loop(const run *r, bool awaits);
void run_await_programs_on_loop(run *r);  // run_await.c: for the partners that have not entered
// GRP-7: whether it needs messages of a member that has left; the second function reports that to the leader.
bool run_needs_left_on_loop(const run *r);
void run_report_left_on_loop(run *r);

// A member is lost, has failed in the middle of a collective, or this member ends: calls under way in the backend may
// never end, and later calls would be matched with them, so that no call begins any more.
void backend_group_down_on_loop(gw_group *g);

// ---- Entering (run_admit.c) ---------------------------------------------------------------------

// Waiting runs of |g| enter, as far as they may.
void run_admit_on_loop(gw_group *g);
// |r| has begun to wait. Sets |works| if it enters.
void run_enter_or_wait_on_loop(run *r);
void run_timer_fire(timer *t);   // of a run
void run_give_up(canceller *c);  // the program has cancelled it

// ---- Work ---------------------------------------------------------------------------------------

// run_work.c: continues as far as possible. Without the loop lock; |works| is set for this thread.
void run_work(run *r);
void run_work_later(task *t);  // the task of run_wake_on_loop

// run_values.c: all use the run's scope, which may fail.
// This member's input: elements of it, the part for member |item|, or the whole with -1.
gw_value run_own_value(run *r, uint64_t first, uint64_t count, int item);
// Releases the value of |step|, if no step needs it any more.
void run_let_go(run *r, int step);
gw_value run_output_value(run *r, const plan_output *o);
// A tensor of which pieces are received and computed while others are sent: its memory does not move (LEND-16). NULL
// with the run's scope failed.
gw_tensor *run_open_places(run *r, gw_dtype dtype, int dims, const int64_t *sizes);
// The elements of a contiguous tensor on the CPU, to read or to write; the last function copies those of |t| to |to|,
// unless they are there.
const uint8_t *run_numbers_at(const gw_tensor *t, int64_t first);
uint8_t *run_place_at(const gw_tensor *t, int64_t first);
void run_put_numbers(uint8_t *to, const gw_tensor *t);

// run_result.c: both use the run's scope, which may fail.
bool run_open_result(run *r);
gw_value run_make_result(run *r);
// The memory for the elements of |step|, with one count, if they are a piece of the result.
bool run_find_place(const run *r, int step, segment *out);
// run_rows.c: for tensors that are sparse by rows.
gw_value run_join_sparse(run *r);

#endif
