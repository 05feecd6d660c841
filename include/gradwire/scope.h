// Scopes: where a piece of work lives.
//
// A scope owns the handles made through it, keeps the first error, carries the deadline and the
// random generator, and has an id that names the gradients of its backward passes. Opening and
// closing one is the life of a step.
//
//     gw_scope *root = gw_scope_open(NULL);
//     for (int step = 0; step < 100 && gw_ok(root); step++) {
//         gw_scope *s = gw_scope_open(root);
//         gw_tensor *y = gw_exp(s, gw_add(s, x, 1.0));      // no checks in the middle: the first error sticks
//         gw_set(root, &best, gw_sum(s, y));                // what shall outlive the step moves outward
//         gw_scope_close_up(s);                                // frees the rest, hands an error to root
//     }
//     return gw_exit_code(gw_scope_close(root));
//
// Errors: the first one wins and stays; later operations on a failed scope do nothing and return
// poison, a handle that is safe to pass on. Accessors of numbers then return 0, gw_data gives NULL,
// and a tensor has no elements, so loops test gw_ok. In a scope that is well, poison is INVALID
// with the sentence of the error that it comes from; so it is when it is sent to another worker.
// Ownership: a scope holds one count on each handle made through it; gw_keep gives a second one to
// another scope.
// Threads: a scope is used by one thread at a time.
#ifndef GRADWIRE_SCOPE_H
#define GRADWIRE_SCOPE_H

#include <gradwire/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gw_scope gw_scope;

// Opens a scope inside |parent|, or a root scope if |parent| is NULL. It inherits deadline,
// generator and agent, and the error of a parent that has failed.
// Never NULL: without memory it is a failed scope.
GW_API gw_scope *gw_scope_open(gw_scope *parent);

// Closes |s|: waits for nothing, gives back every handle, returns the first error. The parent stays
// clean. Children still open are closed first: an error of theirs that the program has not asked for
// (gw_scope_error) is logged, and becomes that of |s| if it has none. So when a body returns. The scope
// that a body is given is closed for it: then WRONG_STATE, and it stays.
GW_API GW_MUST_CHECK gw_error gw_scope_close(gw_scope *s);

// Closes |s| and hands its error, if any, to the parent, which becomes failed (if it was not). A
// root scope has no parent: its error becomes a line of log, and gw_scope_close is what gives a
// program its exit code.
GW_API void gw_scope_close_up(gw_scope *s);

// Whether nothing has failed so far.
GW_API bool gw_ok(const gw_scope *s);

// The first error of |s|; its status is GW_OK if there is none. Valid until the scope closes.
GW_API const gw_error *gw_scope_error(const gw_scope *s);

// Fails |s| with a sentence of the caller's own, without a full stop. In a handler, this is how a
// function fails. GW_OK stands for GW_REMOTE; what is no status at all becomes GW_INVALID.
GW_API void gw_fail(gw_scope *s, gw_status status, const char *format, ...) GW_PRINTF(3, 4);

// Forgets the error of |s|, after it has been dealt with.
GW_API void gw_scope_clear(gw_scope *s);

// Puts "step 12" into the trace of every later error of |s|.
GW_API void gw_scope_label(gw_scope *s, const char *format, ...) GW_PRINTF(2, 3);

// Everything in |s| and below must be done in |timeout_ms| from now; an earlier deadline of the
// parent stays. 0: no deadline of its own. INVALID if negative.
GW_API void gw_scope_set_timeout(gw_scope *s, int64_t timeout_ms);

// Milliseconds left, at least 0, or INT64_MAX without deadline.
GW_API int64_t gw_scope_time_left_ms(const gw_scope *s);

// The id that follows this scope's calls to other workers and names its gradients; unique in the
// job, never 0.
GW_API uint64_t gw_scope_id(const gw_scope *s);

// Starts a random generator of |s|, shared with the scopes opened inside it later. The same seed
// gives the same numbers on every machine (Philox 4x32-10, Salmon et al. 2011). Functions called
// draw other numbers for each call, which follow from the seed too. Without a seed each worker draws
// the numbers of its rank, the same in each run.
//
// Numbers are drawn, and calls are numbered, in the order in which the program does so. C and C++
// leave to the compiler in which order the arguments of one call are evaluated, and gcc and clang
// differ: at most one of them may draw.
//
//     gw_tensor *a = gw_rand(s, GW_F32, 3);
//     gw_tensor *b = gw_rand(s, GW_F32, 3);             // not gw_sub(s, gw_rand(...), gw_rand(...))
//     gw_tensor *c = gw_sub(s, a, b);
//
// gw_nn_sequential evaluates its modules from left to right. Of other calls gcc warns with -Wall,
// and clang by default: "gw_draws_in_unspecified_order". They look at what makes random tensors and
// layers, not into functions that draw inside, such as gw_module_call with a dropout; nor does the
// checked mode (gradwire/log.h), which does not see where a statement ends.
GW_API void gw_seed(gw_scope *s, uint64_t seed);

// Text that lives as long as |s|.
GW_API const char *gw_format(gw_scope *s, const char *format, ...) GW_PRINTF(2, 3);

// Bytes that live as long as |s|, zeroed; NULL if |s| has failed.
GW_API void *gw_alloc(gw_scope *s, size_t size_bytes);

// ---- Handles of any type ------------------------------------------------------------------------
// * gw_keep(outer, h) gives |outer| a count of its own on |h|; returns |h|.
// * gw_set(scope, &slot, h) keeps |h| in |scope|, drops what |slot| held before, assigns. |h| may be
//   NULL.
// * gw_drop(s, h) gives back the count |s| holds on |h| now, not at close: for long loops.
//
// They take gw_tensor*, gw_module*, gw_optimizer*, gw_scheduler*, gw_dataset*, gw_sampler*,
// gw_data_loader*, gw_scaler*, gw_rref*, gw_future*, gw_list*, gw_map*, gw_group*, gw_ddp*, gw_join*
// and gw_power_sgd*.
typedef struct gw_handle gw_handle;

#define gw_keep(s, h) GW_KEEP(s, h)
#define gw_set(s, slot, h) GW_SET(s, slot, h)
#define gw_drop(s, h) GW_DROP(s, h)
GW_API gw_handle *gw_keep_handle(gw_scope *s, gw_handle *h);
GW_API gw_handle *gw_set_handle(gw_scope *s, gw_handle *old, gw_handle *h);
GW_API void gw_drop_handle(gw_scope *s, gw_handle *h);

#ifdef __cplusplus
}
#endif
#include <gradwire/detail/scope.h>
#endif
