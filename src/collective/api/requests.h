// Shared by the functions of gradwire/collective.h: the checks before anything is sent, and how they start a run and
// wait for it.
//
// Threads: the thread of the scope.
#ifndef COLLECTIVE_API_REQUESTS_H
#define COLLECTIVE_API_REQUESTS_H

#include "collective/run/run.h"

// ---- Checks: each fails |s| ---------------------------------------------------------------------

// Also whether |s| has no error: if it has, the other members receive that error.
bool request_is_usable(gw_scope *s, gw_group *g, const char *what, uint64_t key);
bool request_check_tensor(gw_scope *s, const char *what, gw_tensor *x);
bool request_check_root(gw_scope *s, const char *what, const gw_group *g, int root);
bool request_check_factor(gw_scope *s, const char *what, gw_reduce_op op, gw_dtype dtype,
                          double factor);
// Whether the operation takes the given options.
bool request_check_options(gw_scope *s, const char *what, const run_request *r);
// For forms that do not wait: no gradient would be recorded.
bool request_check_no_gradient(gw_scope *s, const char *what, const gw_tensor *x);
bool request_may_wait(gw_scope *s, gw_group *g, const char *what, uint64_t key);
// Every function of gradwire/collective.h that fails after request_is_usable returns by this one: |s| has failed, and
// this member enters the collective as failed, so that all other members get that error in the same step. Returns the
// poison.
gw_future *request_refuse(gw_scope *s, gw_group *g, uint64_t key);
// Whether |options.into| can hold this member's result of |x|.
bool request_check_into(gw_scope *s, const char *what, const gw_group *g, const run_request *x);

// ---- Starting and waiting -----------------------------------------------------------------------

// What backward.c records of a collective.
typedef struct record_request {
    gw_group *group;
    operation operation;
    gw_tensor *in;
    const gw_value *items;  // of scatter, at the root: a tensor for each member, instead of |in|
    run_place place;
    gw_reduce_op op;
    int root;
    double factor;
    const int64_t *rows;  // of each member in the output (gather, all_to_all); NULL
} record_request;

// Whether |o| has a derivative; |op| is the operation of a reduction.
bool request_has_gradient(operation o, int op);
// Whether a collective of |x| in |s| records a node.
bool request_is_recorded(const gw_scope *s, const gw_tensor *x);

// How a form that waits, and returns one tensor, handles the result.
typedef struct recording {
    gw_tensor *into;     // NULL: the result is a new tensor
    uint64_t shapes;     // a hash of the shapes that are sent together; 0: there is one
    const char *detail;  // the shapes, for error texts
    bool continues;      // of a form that does not wait
    bool is_on;          // the result has a gradient
    record_request request;
} recording;

run_request request_of(operation o, content c, int root, gw_collective_options options);
// |rec|: NULL for a form that does not wait, or that returns something else.
gw_future *request_start(gw_scope *s, gw_group *g, const char *what, run_request r, recording *rec);
// Whether the result of |o| has the rows of all members.
bool request_gives_rows(operation o);
// Waits somewhat longer than the run's deadline: the error of the run then names the members that did not enter.
gw_value request_wait(gw_scope *s, gw_future *f);
// request_take.c: the tensor of a form that waits.
gw_tensor *request_take(gw_scope *s, const char *what, gw_future *f, recording *rec);

// ---- Forms (request_forms.c) --------------------------------------------------------------------
// Each checks the arguments of an operation, as |what|, and starts it. |rec|: as in request_start.

gw_future *request_reduce(gw_scope *s, gw_group *g, const char *what, operation o, gw_tensor *x,
                          gw_reduce_op op, int root, gw_collective_options options, recording *rec);
gw_future *request_broadcast(gw_scope *s, gw_group *g, const char *what, gw_tensor *x, int root,
                             gw_collective_options options, recording *rec);
gw_future *request_gather(gw_scope *s, gw_group *g, const char *what, operation o, gw_tensor *x,
                          int root, gw_collective_options options, recording *rec);
gw_future *request_exchange(gw_scope *s, gw_group *g, gw_tensor *x, gw_collective_options options,
                            recording *rec);
gw_future *request_scatter(gw_scope *s, gw_group *g, const char *what, content c,
                           const gw_list *list, int root, gw_collective_options options,
                           recording *rec);
// |waits|: the caller waits for it at once.
gw_future *request_values(gw_scope *s, gw_group *g, const char *what, operation o, gw_value x,
                          int root, gw_collective_options options, bool waits);
// The collective |o| of joined tensors. |argument|: an operation to reduce by, or a root.
gw_future *request_joined(gw_scope *s, gw_group *g, operation o, gw_tensor *x, int argument,
                          gw_collective_options options, recording *rec);
// The same, of tensors whose shapes are hashed to |shapes|, as a form that does not wait.
gw_future *request_joined_async(gw_scope *s, gw_group *g, operation o, gw_tensor *x, int argument,
                                uint64_t shapes, const char *detail, gw_collective_options options);
// Compares |shapes| of all members and waits for that: MISMATCH on all if they differ.
void request_compare(gw_scope *s, gw_group *g, const char *what, uint64_t shapes,
                     const char *detail, gw_collective_options options);

// large_sum.c: whether all_reduce of |x| is cut into pieces, which is equal on all members; and that. |s| has no
// error.
bool large_sum_is_one(gw_scope *s, const gw_group *g, gw_tensor *x, gw_reduce_op op,
                      const gw_collective_options *o);
gw_tensor *large_sum(gw_scope *s, gw_group *g, gw_tensor *x, gw_reduce_op op,
                     gw_collective_options options);

// For tests, before collectives are under way, equal on all members: a sum above 8 times |bytes| is cut into pieces.
void large_sum_set_piece(int64_t bytes);

// requests_rows.c: sums and gathers of tensors that are sparse by rows.
gw_future *request_rows(gw_scope *s, gw_group *g, const char *what, content c, gw_tensor *x,
                        gw_reduce_op op, gw_collective_options options, recording *rec);

#endif
