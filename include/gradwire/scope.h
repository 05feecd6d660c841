// Scopes: where a piece of work lives.
//
// A scope owns the handles made through it, keeps the first error, has the deadline and the random generator, and an id
// that names the gradients of its backward passes. A step of training opens one and closes it.
//
//     gw_scope *root = gw_scope_open(NULL);
//     for (int step = 0; step < 100 && gw_ok(root); step++) {
//         gw_scope *s = gw_scope_open(root);
//         gw_tensor *y = gw_exp(s, gw_add(s, x, 1.0));      // no checks in between: the first error sticks
//         gw_set(root, &best, gw_sum(s, y));                // root keeps values that outlive the step
//         gw_scope_close_up(s);                                // releases the rest, hands an error to root
//     }
//     return gw_exit_code(gw_scope_close(root));
//
// Errors: the first one stays; later operations on a failed scope do nothing and return poison, a handle that is safe
// to pass on. Accessors of numbers then return 0, gw_data NULL, and a tensor has no elements, so loops call gw_ok. In a
// scope without error, poison is INVALID with the text of the error that made it; so it is when it is sent to another
// worker.
// Ownership: a scope holds one count on each handle made through it; gw_keep gives another scope a second one.
// Threads: a scope is used by one thread at a time.
#ifndef GRADWIRE_SCOPE_H
#define GRADWIRE_SCOPE_H

#include <gradwire/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/// A scope, opened by gw_scope_open: it owns handles, and keeps the first error of operations on them.
typedef struct gw_scope gw_scope;

/// Opens a scope inside |parent|, or a root scope if |parent| is NULL. It inherits deadline, generator and agent, and
/// the error of a parent that has failed.
///
/// Returns: the scope, never NULL: without memory it is a failed scope.
GW_API gw_scope *gw_scope_open(gw_scope *parent);

/// Closes |s| and releases every handle. Does not block. The parent gets no error.
///
/// Children that are open are closed first: an error of theirs that the program has not read (gw_scope_error) is
/// logged, and becomes that of |s| if it has none. The library closes the scopes that bodies open and leave open.
/// Returns: the first error of |s|.
/// Errors: WRONG_STATE for the scope that a body was given, which stays open.
GW_API GW_MUST_CHECK gw_error gw_scope_close(gw_scope *s);

/// Closes |s| and hands its error, if any, to the parent, which fails if it had not. The error of a root scope is a
/// line in the log; gw_scope_close gives a program its exit code.
/// Errors: as gw_scope_close.
GW_API void gw_scope_close_up(gw_scope *s);

/// Returns whether |s| has no error.
GW_API bool gw_ok(const gw_scope *s);

/// Returns the first error of |s|; its status is GW_OK if there is none. Valid until the scope closes.
GW_API const gw_error *gw_scope_error(const gw_scope *s);

/// Fails |s| with a text of the caller's own, without a full stop. A body fails by this.
///
/// status: GW_OK stands for GW_REMOTE; an undefined status becomes GW_INVALID.
GW_API void gw_fail(gw_scope *s, gw_status status, const char *format, ...) GW_PRINTF(3, 4);

/// Fails |s| with an error of another scope, from gw_scope_close or gw_scope_error: with all its fields, such as the
/// worker that was lost, and without a second line in the log.
///
/// error: nothing happens if it is NULL or its status is GW_OK; an undefined status becomes GW_INVALID.
GW_API void gw_scope_fail(gw_scope *s, const gw_error *error);

/// Clears the error of |s|, once the program has handled it.
GW_API void gw_scope_clear(gw_scope *s);

/// Adds a text, "step 12", to the trace of every later error of |s|.
GW_API void gw_scope_label(gw_scope *s, const char *format, ...) GW_PRINTF(2, 3);

/// Sets the deadline of |s| and of scopes inside it. An earlier deadline of the parent stays.
///
/// timeout_ms: milliseconds from now; 0: no deadline of its own.
/// Errors: INVALID if it is negative.
GW_API void gw_scope_set_timeout(gw_scope *s, int64_t timeout_ms);

/// Returns the milliseconds until the deadline, at least 0; INT64_MAX without one.
GW_API int64_t gw_scope_time_left_ms(const gw_scope *s);

/// Returns the id of |s|, which is sent with its calls and names its gradients; unique in the job, never 0.
GW_API uint64_t gw_scope_id(const gw_scope *s);

/// Starts a random generator of |s|, shared with the scopes opened inside it later. The same seed gives the same
/// numbers on every machine. Functions that |s| calls on other workers draw different numbers for each call, which
/// follow from the seed, too. Without a seed each worker draws the numbers of its rank, the same in each run.
///
/// Numbers are drawn, and calls are numbered, in the order of the program. C and C++ do not define the order in which
/// the arguments of one call are evaluated, and gcc and clang differ: at most one of them may draw.
///
///     gw_tensor *a = gw_rand(s, GW_F32, 3);
///     gw_tensor *b = gw_rand(s, GW_F32, 3);             // not gw_sub(s, gw_rand(...), gw_rand(...))
///     gw_tensor *c = gw_sub(s, a, b);
///
/// gw_nn_sequential evaluates its modules from left to right. For other calls gcc (with -Wall) and clang warn:
/// "gw_draws_in_unspecified_order". They check the makers of random tensors and layers, not functions that draw inside,
/// such as gw_module_call with a dropout; nor does the checked mode (gradwire/log.h), which does not see where a
/// statement ends.
/// Errors: none.
/// Source: Philox 4x32-10, Salmon et al. 2011.
GW_API void gw_seed(gw_scope *s, uint64_t seed);

/// Formats a text as printf does.
///
/// Returns: text that lives as long as |s|.
GW_API const char *gw_format(gw_scope *s, const char *format, ...) GW_PRINTF(2, 3);

/// Allocates |size_bytes| zeroed bytes that live as long as |s|.
///
/// Returns: the memory; NULL if |s| has failed.
/// Errors: NO_MEMORY.
GW_API void *gw_alloc(gw_scope *s, size_t size_bytes);

// ---- Handles of any type ------------------------------------------------------------------------

/// A handle of any type: gw_tensor, gw_module, gw_optimizer, gw_scheduler, gw_dataset, gw_sampler, gw_data_loader,
/// gw_scaler, gw_rref, gw_future, gw_list, gw_map, gw_group, gw_ddp, gw_join, gw_power_sgd.
typedef struct gw_handle gw_handle;

/// Gives |s| a count of its own on |h|, which then lives at least as long as |s|:
/// `Handle *gw_keep(gw_scope *s, Handle *h)`.
///
/// Returns: |h|, with its type.
#define gw_keep(s, h) GW_KEEP(s, h)
GW_API gw_handle *gw_keep_handle(gw_scope *s, gw_handle *h);

/// Keeps |h| in |s|, drops the old handle of |slot|, and assigns |h| to it:
/// `void gw_set(gw_scope *s, Handle **slot, Handle *h)`.
///
/// h: may be NULL.
#define gw_set(s, slot, h) GW_SET(s, slot, h)
GW_API gw_handle *gw_set_handle(gw_scope *s, gw_handle *old, gw_handle *h);

/// Releases the count that |s| holds on |h| now, not when it closes: `void gw_drop(gw_scope *s, Handle *h)`. For long
/// loops in one scope.
#define gw_drop(s, h) GW_DROP(s, h)
GW_API void gw_drop_handle(gw_scope *s, gw_handle *h);

#ifdef __cplusplus
}
#endif
#include <gradwire/detail/scope.h>
#endif
