// Statuses and errors.
//
// The status of an error shows what the program can do about the error. The other fields state the cause, the worker
// and the function of the error, and whether a failed call may have had an effect.
//
//     gw_error e = gw_scope_close(root);
//     if (e.status == GW_DISCONNECTED) reconnect_later();
//     return gw_exit_code(e);                       // prints "gradwire: trainer: ps: gw.add: ..." and returns 1
//
// Ownership: an error is a plain value, copied freely.
// Threads: any; the functions share no state.
#ifndef GRADWIRE_STATUS_H
#define GRADWIRE_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GW_API __attribute__((visibility("default")))
#define GW_PRINTF(text, first) __attribute__((format(printf, text, first)))
#define GW_MUST_CHECK __attribute__((warn_unused_result))

/// What a program can do about an error.
typedef enum gw_status {
    GW_OK = 0,

    // Correct the request; repeating it unchanged fails again.
    GW_INVALID,      ///< an argument, shape, dtype or name is wrong
    GW_NOT_FOUND,    ///< no worker, function, class, method or key has this name
    GW_DUPLICATE,    ///< the name or rank is taken
    GW_MISMATCH,     ///< two workers disagree: world size, protocol version, types, a collective
    GW_WRONG_STATE,  ///< not possible now: before init, after shutdown, a second completion
    GW_WOULD_BLOCK,  ///< a wait in a GW_INLINE function, or in a hook of a pass of another worker
    GW_UNSUPPORTED,  ///< not supported on this worker, for this caller, or for this dtype or device
    GW_LIMIT,        ///< a stated limit is reached; the text names it

    // Try again later, or elsewhere.
    GW_TIMEOUT,       ///< the deadline has passed
    GW_CANCELLED,     ///< the caller, or a thread waiting for the result, cancelled the operation
    GW_OVERLOADED,    ///< too many requests to this worker are under way
    GW_DISCONNECTED,  ///< the worker is gone
    GW_REF_LOST,      ///< the owner of the reference is gone, or has deleted the value
    GW_FENCED,        ///< the other workers continue without this worker, which may join again

    // Look at the other side.
    GW_REMOTE,    ///< the function ran, and the program made it fail (gw_fail)
    GW_PROTOCOL,  ///< the peer sent malformed bytes

    // Look at the machine.
    GW_NO_MEMORY,
    GW_ADDRESS_IN_USE,
    GW_SYSTEM,  ///< an operating system call failed; the text names it

    GW_STATUS_COUNT
} gw_status;

/// Whether the function of a failed call may have run. An argument of a call may be a future, or a reference whose
/// value is still being made. If such an argument fails, the outcome of the call is GW_NOT_DELIVERED, even if the error
/// names (in |function|) another function that has run.
typedef enum gw_outcome {
    GW_OUTCOME_NONE = 0,  ///< the error is not that of a call
    GW_NOT_DELIVERED,     ///< the function did not run: safe to repeat
    GW_MAY_HAVE_RUN,      ///< this worker cannot determine whether the function ran
    GW_RAN_AND_FAILED,    ///< the function ran, and this is its error
} gw_outcome;

/// The identity of a collective that has ended with an error on all members of its group. The identity is the same on
/// all members of the group, and is sent with the error. Two errors with the same identity report the end of the same
/// collective. The library sets and compares identities.
typedef struct gw_abort {
    uint64_t group;  ///< the group and its generation; 0: none
    uint64_t key, number;
} gw_abort;

/// Sizes of members of gw_error, in bytes or items; GW_NAME_MAX is also the longest name of a worker.
enum { GW_ERROR_TEXT_MAX = 768, GW_NAME_MAX = 127, GW_ERROR_ABORTS_MAX = 4 };

/// How the lost worker that an error reports was lost.
typedef enum gw_loss {
    GW_LOSS_NONE = 0,  ///< the error reports no loss
    GW_LOSS_ENDED,     ///< the worker's process has ended
    GW_LOSS_SILENT,    ///< the worker was silent, or did not answer
    GW_LOSS_CUT_OFF,   ///< the worker had no contact with most of the other workers
    GW_LOSS_ALONE,     ///< all other workers had ended before the worker could query them
    GW_LOSS_DECLARED,  ///< the others have declared the worker dead; the worker itself reports it
    GW_LOSS_LEFT,      ///< the worker has left, is leaving, or has called gw_rpc_shutdown
    GW_LOSS_COUNT      ///< the number of kinds
} gw_loss;

/// The lost worker that an error reports.
typedef struct gw_lost_worker {
    gw_loss how;                 ///< GW_LOSS_NONE: the error reports no loss
    int rank;                    ///< in the job
    uint64_t incarnation;        ///< as in gw_worker
    char name[GW_NAME_MAX + 1];  ///< the worker's name
} gw_lost_worker;

/// Describes calls of one recursive function that follow each other at the beginning of an error text: a run. The
/// library replaces the middle of a long run by "... (N more): ".
typedef struct gw_trace {
    uint64_t function;  ///< a hash of the function's name
    uint32_t calls;     ///< the number of calls in the run; 0: no run
    /// The offsets, in bytes, of the second and the last call of the run in the text.
    uint16_t first, last;
} gw_trace;

/// An error. Programs test |status|, |outcome| and |aborts|; |text| is for people.
typedef struct gw_error {
    gw_status status;
    gw_outcome outcome;
    /// The worker on which the error was made; "" for this worker.
    char worker[GW_NAME_MAX + 1];
    char function[GW_NAME_MAX + 1];  ///< the called function, "" if none
    char text[GW_ERROR_TEXT_MAX];  ///< begins with the error trace: "ps: gw.matmul: 6x5 times 4x8"
    /// The collectives that have ended with this error, the last collective first. There are several if the end of one
    /// collective has ended another collective. An error of gw_fail has none.
    gw_abort aborts[GW_ERROR_ABORTS_MAX];
    gw_lost_worker
        lost;         ///< the worker that is gone, for DISCONNECTED, REF_LOST and FENCED, if known
    gw_trace trace;   ///< used by the library
    uint64_t value;   ///< used by the library: 0, or names the value (gradwire/binding.h)
    bool is_printed;  ///< this process printed the error when it happened
} gw_error;

/// Returns the name of |status| in words, "timeout".
GW_API const char *gw_status_name(gw_status status);

/// Returns the name of |outcome| in words, "may have run"; "" for GW_OUTCOME_NONE.
GW_API const char *gw_outcome_name(gw_outcome outcome);

/// Prints |error| as one line to stderr. Prints nothing if the status is GW_OK, or if the library has printed the error
/// before.
///
/// Returns: the exit code for main: 0 for GW_OK, else 1.
GW_API int gw_exit_code(gw_error error);

#ifdef __cplusplus
}
#endif
#endif
