// What the functions of gradwire/collective.h share: what they check before anything is sent, and how
// they start a run and wait for it.
//
// Threads: the scope's.
#ifndef COLLECTIVE_REQUESTS_H
#define COLLECTIVE_REQUESTS_H

#include "collective/backward.h"

// ---- Checks: each fails |s| -------------------------------------------------------------------

// Also whether |s| is well: if not, the others get its error.
bool request_is_usable(gw_scope *s, gw_group *g, const char *what, uint64_t key);
bool request_check_tensor(gw_scope *s, const char *what, gw_tensor *x);
bool request_check_root(gw_scope *s, const char *what, const gw_group *g, int root);
bool request_check_factor(gw_scope *s, const char *what, gw_reduce_op op, gw_dtype dtype,
                          double factor);
// Whether the operation takes the options that it was given.
bool request_check_options(gw_scope *s, const char *what, const run_request *r);
// Of what does not wait: nothing would be recorded of it.
bool request_check_no_gradient(gw_scope *s, const char *what, const gw_tensor *x);
bool request_may_wait(gw_scope *s, gw_group *g, const char *what, uint64_t key);
// The one way out of a function of gradwire/collective.h that finds after request_is_usable that it cannot do
// what it was asked for: |s| has failed, and this member enters the collective as failed, so that all others
// get that error in the same step. Returns the poison.
gw_future *request_refuse(gw_scope *s, gw_group *g, uint64_t key);
// Whether |options.into| can take what |x|, as it is asked for, gives to this member.
bool request_check_into(gw_scope *s, const char *what, const gw_group *g, const run_request *x);

// ---- Starting and waiting ---------------------------------------------------------------------

// What a form that waits, and gives one tensor, does with that.
typedef struct recording {
    gw_tensor *into;     // NULL: the result is a new tensor
    uint64_t shapes;     // a hash of those that are sent together; 0: there is one
    const char *detail;  // these, for sentences
    bool continues;      // it is of a form that does not wait
    bool is_on;          // it has a gradient
    backward_record_request request;
} recording;

run_request request_of(operation o, content c, int root, gw_collective_options options);
// |rec|: NULL of a form that does not wait, or gives something else.
gw_future *request_start(gw_scope *s, gw_group *g, const char *what, run_request r, recording *rec);
// Somewhat longer than the run's deadline: its error then says who did not come.
gw_value request_wait(gw_scope *s, gw_future *f);
// The tensor of a form that waits.
gw_tensor *request_take(gw_scope *s, const char *what, gw_future *f, recording *rec);

// The collective |o| of what several tensors have been joined to, whose shapes are hashed to |shapes|.
// |argument|: an operation to reduce by, or a root.
gw_tensor *request_joined(gw_scope *s, gw_group *g, operation o, gw_tensor *x, int argument,
                          uint64_t shapes, const char *detail, gw_collective_options options);
// A future of it.
gw_future *request_joined_async(gw_scope *s, gw_group *g, operation o, gw_tensor *x, int argument,
                                uint64_t shapes, const char *detail, gw_collective_options options);

// large_sum.c: whether all_reduce of |x| goes in pieces, which all members find alike; and that. |s| is well.
bool large_sum_is_one(gw_scope *s, const gw_group *g, gw_tensor *x, gw_reduce_op op,
                      const gw_collective_options *o);
gw_tensor *large_sum(gw_scope *s, gw_group *g, gw_tensor *x, gw_reduce_op op,
                     gw_collective_options options);

// For tests, before collectives are under way, alike on all members: what is more than 8 of these goes in pieces.
void large_sum_set_piece(int64_t bytes);

// requests_rows.c: sums, and gathering, of tensors that are sparse by rows.
gw_future *request_rows(gw_scope *s, gw_group *g, const char *what, content c, gw_tensor *x,
                        gw_reduce_op op, gw_collective_options options, recording *rec);

#endif
