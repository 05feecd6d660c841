// Runs: one collective under way, as this member does it. A run follows its plan: it sends, adds and
// places values as what they need comes, without the loop lock, on one thread at a time: that of the
// call, or one that has received something.
//
// Ownership: counted: by the group until it is over, and by the thread that works on it. Threads:
// fields under "worker's" belong to the thread for which |works| is set; the rest, but what is
// constant, needs the loop lock.
#ifndef COLLECTIVE_RUN_H
#define COLLECTIVE_RUN_H

#include "agent/awaits.h"
#include "collective/group.h"
#include "future/future.h"

enum {
    RUNS_MAX = 64,               // under way in a group: GRP-3
    RUN_SMALL_BYTES = 64 * 1024  // values up to this size go without asking: GRP-1
};

typedef enum run_state {
    RUN_WAITING,    // has no number yet
    RUN_UNDER_WAY,  // has entered
    RUN_DONE,       // has its result; some partners have not entered
    RUN_DETACHED,   // has ended with an error, and goes on in the backend
    RUN_OVER
} run_state;

// A value that has come for a step.
typedef struct arrival {
    list_node link;
    run *run;
    incoming *incoming;
    size_t value_at;
    int step;
} arrival;

typedef struct run_partner {
    bool is_partner;
    bool entered;       // its enter has come
    bool differs;       // it does something else: GRP-2
    uint32_t received;  // values
    bool may_be_large;  // the worker's copy of that
    int next_receive;   // a step; -1: nothing more is expected
    int next_send;      // the worker's
    uint32_t sent;      // the worker's: values
} run_partner;

typedef struct run_value {
    incoming *incoming;  // what |tensor| or |value| was read from; NULL
    gw_tensor *tensor;   // one of the run's scope, or |is_brief|; NULL
    gw_value value;      // of CONTENT_VALUES
    bool is_there;
    bool is_brief;  // one count on |tensor|, which is let go once it is added
} run_value;

struct run {
    _Atomic uint32_t count;
    list_node link;
    gw_group *group;  // one count
    sequence *sequence;
    uint64_t key, number;
    uint64_t past;  // GRP-24: of its sequence, when it was entered; 0: that is not compared

    // constant
    collective_signature signature;
    char origin[LIMIT_ORIGIN_BYTES + 1];
    char *detail;  // what is behind |signature.shares|, for sentences; NULL
    plan plan;
    int64_t deadline_ns;
    scope_path called_in;
    run_place *out_place;         // written when it enters; may be NULL
    bool with_rows;               // the result is a list: of it, and of the rows from each member
    bool is_awaited;              // whoever started it waits for it at once
    bool as_list;                 // the result is a list: of tensors or values
    bool takes_gradient;          // of scattering: see run_request
    struct backend_run *backend;  // NULL: values go by |plan|
    int64_t *shares;  // rows for each member, of reduce_scatter and all_to_all; NULL: equal ones

    // with the loop lock
    run_state state;
    bool works, deferred, has_failed;
    bool has_reported;   // its deadline, or waits to ask before that:
    bool queries_later;  // when another one of its sequence has
    bool has_places;     // run_find_place may be asked
    gw_error *failure;   // GRP-5: calls that failed here: they have a place and nothing else; NULL
    uint32_t failures;   // as many
    notice *notice;
    uint64_t record;  // history.c: its place in the group's history, from 1; 0: none
    list_node arrivals;
    list_node promised;  // arrivals with futures in them that have not resolved
    int enters_missing;
    result *held;  // GRP-24: it is done, and waits for those before it to be settled; NULL
    int64_t began_ns;
    int caller;   // for whom it was called; -1
    await await;  // of the partners that have not entered
    timer timer;
    gw_future *future;  // one count
    canceller cancelled;
    task task;
    run_partner *partners;

    void *tables;  // all of the arrays that have to do with steps and partners
    size_t tables_size;

    // the worker's
    gw_scope *scope;
    gw_tensor *own;   // what this member brings, contiguous; NULL: nothing
    gw_value *items;  // or one for each member
    gw_value own_value;
    run_value *values;     // of each step
    int plan_steps;        // as many
    bool has_opened;       // |output_at| is filled, and the result open
    bool has_entered;      // its enters are sent
    uint32_t *missing;     // inputs of each step that are not there
    uint32_t *dependents;  // steps, by |first_dependent|
    uint32_t *first_dependent;
    int *next_of_peer;  // of steps that send to, or receive from, a member: the next one
    int *ready;         // additions
    int ready_count, steps_left;
    int64_t *output_at;  // of each step: where its elements lie in the result; -1: nowhere
    gw_tensor *result;   // of a reduction
    gw_tensor *rows;  // the result if all bring as many rows as this member; NULL: not made before
};

// What a call of the program asks for.
typedef struct run_request {
    collective_signature signature;
    gw_collective_options options;
    gw_tensor *own;         // may be NULL
    const gw_value *items;  // one for each member, of which the run keeps what it needs; NULL
    gw_value own_value;     // of CONTENT_VALUES
    uint64_t elements;      // of a reduction's tensor
    const int64_t *shares;
    const char *detail;  // "sizes 1+2+1": what |signature.shares| is a hash of; NULL
    bool as_list;
    // Of scattering tensors: an item whose gradient flows back is a list of it and true, which the caller
    // knows what to do with; else it is INVALID.
    bool takes_gradient;
    bool is_awaited;       // the caller is going to wait for it at once
    run_place *out_place;  // of a caller that waits; may be NULL
    bool with_rows;        // the result is a list of it and of how many rows each member has in it
} run_request;

// The program waits no more for |f|, the future of a run.
void run_reported(gw_future *f);

// run_start.c: enters, or waits to do so. The future, owned by |s|; poison with |s| failed.
gw_future *run_start(gw_scope *s, gw_group *g, const run_request *request);
// The scope |s| had failed before the program called, in |called_in|: the others get its error.
void run_enter_failed(gw_scope *s, gw_scope *called_in, gw_group *g, uint64_t key);

static inline bool run_is_at_work(const run *r) {
    return r->state == RUN_UNDER_WAY || r->state == RUN_DETACHED;
}

run *run_retain(run *r);
void run_release(run *r);  // without the loop lock
void run_release_on_loop(run *r);
// Something has come for it: a worker looks at it.
void run_look_again_on_loop(run *r);

// run_open.c: one that has not entered, with one count; NULL with |s| failed. Without the loop lock,
// as freeing it.
run *run_open(gw_scope *s, gw_group *g, const run_request *request);
run *run_open_failed(gw_group *g, const gw_error *error);  // NULL without memory
void run_free(run *r);
extern const future_source run_future_source;

// ---- With the loop lock -------------------------------------------------------------------------

// Ends it with |value|, which it takes, or with |error|.
void run_done_on_loop(run *r, result *value);
void run_fail_on_loop(run *r, const gw_error *error);
// The same by a verdict; all members have entered what is below |all|.
void run_fail_by_abort_on_loop(run *r, uint64_t all, const gw_error *error);
// The same of one without a final key, unless it has succeeded: then |*ended|. |*reported|: the program
// knows, or does not want to; else gw_rpc_shutdown fails if it does not look before.
void run_end_by_abort_on_loop(run *r, uint64_t all, const gw_error *error, bool *ended,
                              bool *reported);
// GRP-24: what is done may succeed, since no abort is to come any more.
void run_finalize_on_loop(gw_group *g);
// It was draining, and has nothing more to do.
void run_detached_over_on_loop(run *r);
// An enter or part of the member of index |from|; takes |p|. PROTOCOL.
gw_status run_received_on_loop(run *r, int from, incoming *p, uint8_t kind, gw_error *error);
// GRP-24: an enter of one that is over here.
void run_over_received_on_loop(gw_group *g, int from, const group_header *h, const incoming *p);
// Its partners are, or are no longer, waited for.
void run_await_partners_on_loop(const run *r, bool awaits);
void run_await_programs_on_loop(run *r);  // run_await.c: of those that have not entered
// GRP-7: whether it needs something of a member that has left; the leader gets to know that.
bool run_needs_left_on_loop(const run *r);
void run_report_left_on_loop(run *r);

// run_start.c: runs of |g| that wait enter, as far as they may.
void run_admit_on_loop(gw_group *g);

// run_work.c: goes on as far as it can. Without the loop lock; |works| is set for this thread.
void run_work(run *r);
// What this member brings: elements of it, what is for member |item|, or the whole with -1.
gw_value run_own_value(run *r, uint64_t first, uint64_t count, int item);
// Gives back what has come for |step|, if nothing needs it any more.
void run_let_go(run *r, int step);
// run_result.c: both in the run's scope, which may fail.
bool run_open_result(run *r);
gw_value run_make_result(run *r);
gw_value run_output_value(run *r, const plan_output *o);
// Where the numbers of |step| go, with one count of nobody's, if they are a piece of the result.
bool run_find_place(const run *r, int step, segment *out);
// A tensor of which pieces are received and computed while others are sent: its memory stays where it is
// (LEND-16). NULL with the run's scope failed.
gw_tensor *run_open_places(run *r, gw_dtype dtype, int dims, const int64_t *sizes);
// Numbers of a contiguous tensor on the CPU, to read or to write; puts those of |t| at |to|, unless they
// lie there.
const uint8_t *run_numbers_at(const gw_tensor *t, int64_t first);
uint8_t *run_place_at(const gw_tensor *t, int64_t first);
void run_put_numbers(uint8_t *to, const gw_tensor *t);
// run_rows.c: of tensors that are sparse by rows.
gw_value run_join_sparse(run *r);

#endif
