// For bindings to other languages: a table of all operators, reference counts of handles, scopes for threads, errors that
// carry a value, waits that a binding can interrupt, and processes that fork has made.
//
// A binding makes one function of its own language for each row of the table of operators. An object of the binding holds
// a count on its handle. The count keeps the handle alive after the scope that made the handle has closed. A binding calls
// the functions whose names end in _with (docs/decisions/0013-names.md).
//
//     for (int i = 0; i < gw_operator_count(); i++) define_function(gw_operator_at(i));  // the binding's
//
//     const gw_operator *matmul = gw_operator_find("matmul");
//     gw_value args[] = { gw_value_of(a), gw_value_of(b) };
//     object->tensor = gw_retain(gw_tensor_of(s, gw_operator_call(s, matmul, args, 2)));
//
//     gw_release(object->tensor);                              // when the object is collected
//
// Locks of the other language: an interpreter has a lock that its threads hold while they run (the GIL of Python). A
// binding releases this lock before it calls a function that may block or release a handle. Functions of the library
// that call the binding (bodies, functions of gw_then and gw_on_done, deleters) run without a lock of the library. A
// body that takes the interpreter's lock is registered as GW_POOL, and a function of gw_then or gw_on_done that takes it
// runs with .where = GW_POOL: a GW_INLINE function may run on a thread that waits and already holds a lock of the
// program.
//
// Start and errors: a binding that prepares objects after it has joined passes .serve_later to gw_rpc_init, and calls
// gw_rpc_serve when bodies may run. An exception of the other language is an error that carries the encoded exception
// (gw_fail_with_value); the caller reads it by gw_error_value(s, gw_scope_error(s)).
//
// Replies of other threads: a body returns a gw_future of gw_future_open, and the call is answered when the future
// resolves; until then the call holds no thread. Any thread may resolve the future, with a scope of its own:
//
//     static gw_value begin(gw_scope *s, const gw_args *a) {                  // the body
//         gw_future *f = gw_future_open(s);
//         queue_put(gw_retain(f));                                            // the binding's own queue
//         return gw_value_of(f);
//     }
//
//     static void finish(gw_future *f) {                                      // on any thread, later
//         gw_scope *s = gw_scope_open_of(root);
//         gw_future_set(s, f, compute(s));                                    // if |s| has failed: with its error
//         gw_scope_close_up(s);
//         gw_release(f);
//     }
//
// At its deadline, and when its caller cancels it, the call ends without the future: resolving the future has no effect
// then. If the last count on a future that has not resolved is released, the call fails with WRONG_STATE. A future that
// resolves in a scope that has failed resolves with the error of that scope, and with the value of gw_fail_with_value.
//
// Signals: the library changes no handler, but for gw_elastic_open, which handles SIGTERM if the program does not. Threads
// of the library block all signals; threads of other libraries, such as BLAS, may not, so that the handler of a signal that
// is sent to the process can run on any other thread. While gw_rpc_init blocks, its thread blocks those of SIGHUP, SIGINT,
// SIGQUIT, SIGTERM and SIGALRM for which the program has set a handler without SA_RESTART; such a signal ends gw_rpc_init
// with CANCELLED if this thread gets it, and its handler runs then. gw_scope_set_interrupt ends other waits after a signal,
// whichever thread has run the handler: at once if the waiting thread has, else within 100 ms.
//
// Ownership: the table is static. Results belong to the scope. The caller of gw_retain owns a count until it calls
// gw_release.
// Threads: any thread may read the table, and retain and release handles.
#ifndef GRADWIRE_BINDING_H
#define GRADWIRE_BINDING_H

#include <gradwire/rpc.h>

#ifdef __cplusplus
extern "C" {
#endif

/// The kind of one parameter of an operator.
typedef enum gw_argument_kind {
    GW_ARGUMENT_TENSOR = 0,
    GW_ARGUMENT_OPERAND,  ///< a tensor or a number
    GW_ARGUMENT_NUMBER,   ///< a float, an int or a bool
    GW_ARGUMENT_INT,
    GW_ARGUMENT_FLOAT,  ///< a float or an int
    GW_ARGUMENT_BOOL,   ///< a bool, or the int 0 or 1
    /// Sizes or dimensions: a list of ints, one int, or an array of int64_t as bytes.
    GW_ARGUMENT_INTS,
    GW_ARGUMENT_TENSORS,  ///< a list of tensors
    GW_ARGUMENT_DTYPE,    ///< the name of a dtype, "f32", or a gw_dtype as an int
    GW_ARGUMENT_KIND_COUNT
} gw_argument_kind;

/// A parameter of an operator; gw_operator has an array of them.
typedef struct gw_operator_argument {
    const char *name;
    gw_argument_kind kind;
    bool optional;       ///< the argument may be none, and may be left out at the end
    gw_value otherwise;  ///< the default of an optional argument; none if it has no default
} gw_operator_argument;

/// GW_OPERATOR_ARGUMENTS_MAX: the largest number of arguments of an operator. GW_OPERATOR_LIST: the |result_count| of
/// an operator whose number of results depends on its arguments.
enum { GW_OPERATOR_ARGUMENTS_MAX = 8, GW_OPERATOR_LIST = -1 };

/// An operator, found by gw_operator_at or gw_operator_find.
typedef struct gw_operator {
    const char *name;  ///< "matmul"; other workers can call it as "gw.matmul"
    int argument_count;
    gw_operator_argument arguments[GW_OPERATOR_ARGUMENTS_MAX];
    int result_count;   ///< GW_OPERATOR_LIST: depends on the arguments
    bool has_gradient;  ///< the operator has a derivative
} gw_operator;

/// Returns the number of operators.
GW_API int gw_operator_count(void);
/// Returns operator |index|, in the order of gradwire/ops.h; NULL when out of range.
GW_API const gw_operator *gw_operator_at(int index);
/// Returns the operator with the name |name|, such as "matmul" or "gw.matmul"; NULL if there is no such operator.
GW_API const gw_operator *gw_operator_find(const char *name);

/// Calls |o| with |count| arguments.
///
/// Returns: a tensor if |o| has one result, otherwise a list of tensors.
/// Errors: those of the operator; INVALID for arguments of another kind, or another number of arguments.
GW_API gw_value gw_operator_call(gw_scope *s, const gw_operator *o, const gw_value *args,
                                 int count);

// ---- Counts of handles --------------------------------------------------------------------------
// The functions of this section accept NULL, and every handle that gw_keep accepts. A retained handle can also be
// passed to gw_keep.

/// Adds one to the reference count of |h|, so that |h| stays alive after its scope has closed: `Handle
/// *gw_retain(Handle *h)`.
///
/// Returns: |h|, with its type.
#define gw_retain(h) GW_RETAIN(h)
GW_API gw_handle *gw_retain_handle(gw_handle *h);

/// Subtracts one from the reference count of |h|, after gw_retain: `void gw_release(Handle *h)`. Does nothing in a process
/// that fork has made (gw_rpc_is_forked).
#define gw_release(h) GW_RELEASE(h)
GW_API void gw_release_handle(gw_handle *h);

// ---- Memory -------------------------------------------------------------------------------------

/// Makes a tensor whose elements have any values, unlike gw_empty, which zeroes them: for a binding that writes all
/// elements (gw_data_for_write) before it reads or sends one of them. Bools are zeroed.
///
/// Returns: a tensor of |shape|.
/// Errors: INVALID for |dtype| and |shape|; NO_MEMORY.
/// Source: torch.empty.
GW_API gw_tensor *gw_uninitialized(gw_scope *s, gw_dtype dtype, gw_shape shape);

/// Makes a view of memory that the program got from a tensor of the library (gw_data, gw_data_for_write), so that a large
/// array of another language is sent without a copy when it is sent on or sent back. The program keeps the tensor of that
/// memory until gw_from_lendable has returned, and does not write to the memory as long as the view, or a message with
/// the view, exists.
///
/// address: of the first element, as a multiple of the size of an element behind the beginning of the memory.
/// Returns: a contiguous tensor of |shape|; NULL if |address| is not in such memory. Only tensors of at least 1 MiB have
/// memory that is recognised, and memory of another process is not recognised as integers or bools.
/// Errors: INVALID for |dtype| and |shape|; NO_MEMORY.
GW_API gw_tensor *gw_from_lendable(gw_scope *s, gw_dtype dtype, const void *address,
                                   gw_shape shape);

// ---- Several values -----------------------------------------------------------------------------

/// Returns all arguments of a call; they live until the body returns.
GW_API gw_values gw_args_all(const gw_args *a);

/// Returns all items of |list|; they live until |list| changes or is released. No items if |list| is NULL.
GW_API gw_values gw_list_items(const gw_list *list);

// ---- Scopes for threads -------------------------------------------------------------------------

/// Opens a scope for the job of |root|, which is not inside |root|: any thread may open it while other threads use |root|,
/// without a lock, and any thread may close it.
///
/// The new scope has no deadline, no error, no label and no interrupt function; its calls have the timeout of
/// gw_rpc_init. Its random numbers differ from those of all other scopes and are not reproducible, unless the program
/// calls gw_seed on it. gw_scope_close_up logs its error. Closing |root| does not close it: the program closes all such
/// scopes, and ends their calls, before it closes |root|. After that, calls in such a scope fail with
/// WRONG_STATE; waits of futures of the job fail, too.
///
/// root: a scope with an agent: the scope of gw_rpc_init or a scope inside it. Only |root|'s agent is read.
/// Returns: the scope, never NULL; without an agent, a root scope as gw_scope_open(NULL) returns it.
/// Errors: none; if there is no memory, the scope has failed.
GW_API gw_scope *gw_scope_open_of(const gw_scope *root);

// ---- Interrupting waits -------------------------------------------------------------------------

/// A function for gw_scope_set_interrupt.
/// Returns: whether the wait ends.
typedef bool (*gw_interrupt_poll)(void *context);

/// Sets the function that waits of |s|, and of scopes that are opened inside |s| later, call while they block: after a
/// signal has interrupted the thread, and every 100 ms. If |poll| returns true, the wait ends, and the scope that waits
/// fails with CANCELLED, "interrupted by the program". The awaited future does not change, and a call continues; gw_wait
/// in another scope, or in the same scope after gw_scope_clear, waits for the same result. A collective without a future
/// (gw_all_reduce) and a backward pass are cancelled on all members. If what the wait is for happens while |poll| runs,
/// the wait succeeds, and the next wait of the same scope ends in its place.
///
/// Waits are all functions that block for other workers, such as gw_wait, gw_rpc_sync, gw_backward and gw_local, but for
/// gw_rpc_init, which ends after signals (see "Signals" above). An interrupted gw_rpc_shutdown continues as gw_rpc_leave,
/// which is not interrupted. gw_rpc_async, gw_remote and gw_rpc_notify wait while too much is queued for the worker: if
/// this wait is interrupted, nothing is sent, the future or the reference fails, and so does the scope.
///
/// poll: runs on the waiting thread without a lock of the library; it does not use |s|. NULL: waits are not interrupted.
/// context: passed to |poll|.
/// Errors: none.
GW_API void gw_scope_set_interrupt(gw_scope *s, gw_interrupt_poll poll, void *context);

// ---- Errors with a value ------------------------------------------------------------------------
// An error may carry one value for programs, such as the encoded exception of another language, in addition to its text
// for people. The value is encoded once and passed on with the error, through futures, references, promises and calls to
// other workers. gw_error is copied freely; its value lives as long as a scope, a future or a reference has the error, and
// after that until 16 other values have lost their last holders. So the error of a scope that has closed can be passed on
// (gw_scope_fail).

/// The most bytes of a value of an error, as the value is encoded.
enum { GW_ERROR_VALUE_MAX = 64 * 1024 };

/// Makes |s| fail as gw_fail does, with an error that carries |value|. Nothing happens if |s| has failed.
///
/// value: without references and futures; a tensor in it has at most 4 KiB. If it is of another kind, or has more than
/// GW_ERROR_VALUE_MAX bytes, the error is set without a value and its text ends with the reason.
/// format: a format of printf for the text of the error.
/// Errors: none of its own.
GW_API void gw_fail_with_value(gw_scope *s, gw_status status, gw_value value, const char *format,
                               ...) GW_PRINTF(4, 5);

/// Returns the value that |error| carries, decoded into |s|; none if |error| carries no value, or if the value does not
/// live any more (see above). May be called with a scope that has failed.
///
/// error: as returned by gw_scope_error or gw_future_error; NULL is an error without a value.
/// Errors: none.
GW_API gw_value gw_error_value(gw_scope *s, const gw_error *error);

/// Returns the value of the error of |f|, as gw_error_value(s, gw_future_error(f)).
///
/// Errors: none.
GW_API gw_value gw_future_error_value(gw_scope *s, const gw_future *f);

// ---- Forked processes ---------------------------------------------------------------------------

/// Returns whether fork made this process from a process that had joined a job. Such a process has no agent: calls fail
/// with WRONG_STATE. gw_release does nothing there, nor does closing a scope that was opened before the fork.
GW_API bool gw_rpc_is_forked(void);

#ifdef __cplusplus
}
#endif
#include <gradwire/detail/binding.h>
#endif
