// Scopes: the owners of handles and errors.
//
// A scope owns the handles made through it, keeps the first error of operations on them, and has a deadline, a random
// generator and an id. The gradients of its backward passes are stored under the id. A training step opens a scope at
// its beginning and closes the scope at its end.
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
// Errors: a scope keeps its first error. Later operations in the scope do nothing and return poison: a handle that
// other operations accept. For poison, accessors return 0, gw_data returns NULL, and gw_numel returns 0; so loops test
// gw_ok. A function that gets poison in a scope that has not failed, or that would send poison to another worker, fails
// with INVALID and the text of the error that made the poison.
// Ownership: a scope holds one count on each handle made through it; gw_keep takes another count for another scope.
// Threads: a scope is used by one thread at a time.
#ifndef GRADWIRE_SCOPE_H
#define GRADWIRE_SCOPE_H

#include <gradwire/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/// A scope, opened by gw_scope_open: it owns handles, and keeps the first error of operations on them.
typedef struct gw_scope gw_scope;

/// Opens a scope inside |parent|, or a root scope if |parent| is NULL. The new scope inherits the deadline, the
/// generator, the agent and the error of |parent|.
///
/// Returns: the scope, never NULL. If there is no memory, the scope has failed with NO_MEMORY.
GW_API gw_scope *gw_scope_open(gw_scope *parent);

/// Closes |s| and releases its handles. Does not block. The parent of |s| does not fail, even if |s| has failed.
///
/// Scopes inside |s| that are still open are closed first. If such a scope has an error that the program has not read
/// (gw_scope_error), the library logs the error, and |s| fails with it unless |s| has failed already. The library
/// closes scopes that the body of a function has left open.
/// Returns: the first error of |s|.
/// Errors: WRONG_STATE if the body of a function closes the scope that was passed to the body, and for the scope of a
/// step of gradwire/elastic.h. Such a scope stays open.
GW_API GW_MUST_CHECK gw_error gw_scope_close(gw_scope *s);

/// Closes |s|. If |s| has failed and the parent has not, the parent fails with the same error. If |s| is a root scope,
/// its error is logged. To get an exit code from the error, use gw_scope_close.
/// Errors: as gw_scope_close.
GW_API void gw_scope_close_up(gw_scope *s);

/// Returns whether |s| has no error.
GW_API bool gw_ok(const gw_scope *s);

/// Returns the first error of |s|; its status is GW_OK if there is none. Valid until the scope closes.
GW_API const gw_error *gw_scope_error(const gw_scope *s);

/// Makes |s| fail with an error whose text the caller gives, without a full stop at the end. If |s| is the scope of the
/// body of a function, the call of the function fails with this error.
///
/// status: GW_OK becomes GW_REMOTE; an undefined status becomes GW_INVALID.
GW_API void gw_fail(gw_scope *s, gw_status status, const char *format, ...) GW_PRINTF(3, 4);

/// Makes |s| fail with the error of another scope, which gw_scope_close or gw_scope_error has returned. |s| gets all
/// fields of the error, such as the lost worker. The error is not logged again. The value of an error
/// (gradwire/binding.h) is lost if, since the other scope has closed, 16 other values have lost their last holders.
///
/// error: if |error| is NULL or its status is GW_OK, the function does nothing; an undefined status becomes GW_INVALID.
GW_API void gw_scope_fail(gw_scope *s, const gw_error *error);

/// Clears the error of |s|. The program calls gw_scope_clear when it has handled the error.
GW_API void gw_scope_clear(gw_scope *s);

/// Adds a text, such as "step 12", to the trace of every later error of |s|.
GW_API void gw_scope_label(gw_scope *s, const char *format, ...) GW_PRINTF(2, 3);

/// Sets the deadline of |s| and of scopes inside |s|; an earlier deadline of the parent stays in force.
///
/// After the deadline, calls and waits in these scopes fail with TIMEOUT, and gw_cancelled returns true. The deadline
/// does not end local operators. So a body whose caller has stopped waiting runs to its end, unless the body tests
/// gw_cancelled.
///
/// timeout_ms: milliseconds from now; 0: |s| has no deadline of its own.
/// Errors: INVALID if |timeout_ms| is negative.
GW_API void gw_scope_set_timeout(gw_scope *s, int64_t timeout_ms);

/// Returns the milliseconds until the deadline of |s|, at least 0; INT64_MAX without one.
GW_API int64_t gw_scope_time_left_ms(const gw_scope *s);

/// Returns the id of |s|: unique in the job, never 0. Calls from |s| carry the id, and the gradients of |s| are stored
/// under the id.
GW_API uint64_t gw_scope_id(const gw_scope *s);

/// Starts a random generator of |s|. Scopes that are opened inside |s| later share the generator. The same seed gives
/// the same numbers on every machine. If |s| calls a function on another worker, the function draws different numbers
/// in each call; the seed determines these numbers, too. Without gw_seed, the rank of the worker determines the
/// numbers, and they are the same in each run.
///
/// The numbers depend on the order in which the program draws numbers and makes calls. C and C++ do not define the
/// order in which the arguments of one call are evaluated, and gcc and clang choose different orders. So at most one
/// argument of a call may draw.
///
///     gw_tensor *a = gw_rand(s, GW_F32, 3);
///     gw_tensor *b = gw_rand(s, GW_F32, 3);             // not gw_sub(s, gw_rand(...), gw_rand(...))
///     gw_tensor *c = gw_sub(s, a, b);
///
/// gw_nn_sequential is an exception: it evaluates its modules from left to right. For other calls in which several
/// arguments draw, gcc (with -Wall) and clang warn with the name "gw_draws_in_unspecified_order". The compilers warn
/// only of functions that make random tensors and layers. They do not warn of other functions that draw, such as
/// gw_module_call with a dropout. The checked mode (gradwire/log.h) does not detect calls in which several arguments
/// draw.
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
/// gw_scaler, gw_rref, gw_future, gw_list, gw_map, gw_group, gw_ddp, gw_join, gw_elastic, gw_power_sgd.
typedef struct gw_handle gw_handle;

/// Takes a count on |h| for |s|, so that |h| lives at least as long as |s|:
/// `Handle *gw_keep(gw_scope *s, Handle *h)`.
///
/// Returns: |h|, with its type.
#define gw_keep(s, h) GW_KEEP(s, h)
GW_API gw_handle *gw_keep_handle(gw_scope *s, gw_handle *h);

/// Keeps |h| in |s|, releases the handle that *|slot| had, and assigns |h| to *|slot|:
/// `void gw_set(gw_scope *s, Handle **slot, Handle *h)`.
///
/// h: may be NULL.
#define gw_set(s, slot, h) GW_SET(s, slot, h)
GW_API gw_handle *gw_set_handle(gw_scope *s, gw_handle *old, gw_handle *h);

/// Releases the count of |s| on |h| now, before |s| closes: `void gw_drop(gw_scope *s, Handle *h)`. For long loops in
/// one scope.
#define gw_drop(s, h) GW_DROP(s, h)
GW_API void gw_drop_handle(gw_scope *s, gw_handle *h);

#ifdef __cplusplus
}
#endif
#include <gradwire/detail/scope.h>
#endif
