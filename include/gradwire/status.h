// Statuses and errors.
//
// A status determines what its receiver can do; an error adds its cause, its origin, and what is certain about the
// effect of a call.
//
//     gw_error e = gw_scope_close(root);
//     if (e.status == GW_DISCONNECTED) reconnect_later();
//     return gw_exit_code(e);                       // prints "gradwire: trainer: ps: gw.add: ..." and returns 1
//
// Ownership: an error is a plain value, copied freely.
// Threads: values; nothing here is shared.
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

/// What the receiver of an error can do.
typedef enum gw_status {
    GW_OK = 0,

    // Correct the request; repeating it unchanged fails again.
    GW_INVALID,      ///< an argument, shape, dtype or name is wrong
    GW_NOT_FOUND,    ///< no worker, function, class, method or key of this name
    GW_DUPLICATE,    ///< the name or rank is taken
    GW_MISMATCH,     ///< two workers disagree: world size, protocol version, types, a collective
    GW_WRONG_STATE,  ///< not now: before init, after shutdown, a second completion
    GW_WOULD_BLOCK,  ///< a wait inside a GW_INLINE function, or inside a gradient's hook of another worker's pass
    GW_UNSUPPORTED,  ///< exists, but not on this worker, by this caller, or of this dtype or device
    GW_LIMIT,        ///< a stated limit is reached; the text names it

    // Try again later, or elsewhere.
    GW_TIMEOUT,       ///< the deadline passed first
    GW_CANCELLED,     ///< the caller, or a thread that waits for the result, cancelled it
    GW_OVERLOADED,    ///< too many requests to this worker under way
    GW_DISCONNECTED,  ///< the worker is gone
    GW_REF_LOST,      ///< the owner of the reference is gone, or it was deleted
    GW_FENCED,        ///< the other workers continue without this one; it may join again

    // Look at the other side.
    GW_REMOTE,    ///< the function ran there and failed in its own way (gw_fail)
    GW_PROTOCOL,  ///< the peer sent malformed bytes

    // Look at the machine.
    GW_NO_MEMORY,
    GW_ADDRESS_IN_USE,
    GW_SYSTEM,  ///< an operating system call failed; the text names it

    GW_STATUS_COUNT
} gw_status;

/// What is certain about the effect of the call that failed, as it was made here. If an argument of it failed (a future,
/// a reference being made), the call itself was not delivered, whatever |function| of the error did before.
typedef enum gw_outcome {
    GW_OUTCOME_NONE = 0,  ///< not a call
    GW_NOT_DELIVERED,     ///< the function did not run: safe to repeat
    GW_MAY_HAVE_RUN,      ///< this worker cannot determine it
    GW_RAN_AND_FAILED,    ///< it ran, and this is its error
} gw_outcome;

/// The identity of a collective that has ended with an error on all members of its group. Two errors of one identity
/// report the same end. The library sets and compares it: it is equal on all members of the group in this job, and is
/// sent with the error.
typedef struct gw_abort {
    uint64_t group;  ///< and its generation; 0: none
    uint64_t key, number;
} gw_abort;

/// Sizes in gw_error, in bytes and items; GW_NAME_MAX is also the longest name of a worker.
enum { GW_ERROR_TEXT_MAX = 768, GW_NAME_MAX = 127, GW_ERROR_ABORTS_MAX = 4 };

/// How the worker was lost whose loss an error reports.
typedef enum gw_loss {
    GW_LOSS_NONE = 0,  ///< the error reports no loss
    GW_LOSS_ENDED,     ///< its process has ended
    GW_LOSS_SILENT,    ///< it was silent, or did not answer
    GW_LOSS_CUT_OFF,   ///< it had no contact with most of the others
    GW_LOSS_ALONE,     ///< all others had ended before it could query them
    GW_LOSS_DECLARED,  ///< the others have declared it dead; of a worker that reports itself
    GW_LOSS_LEFT,      ///< it has left, is leaving, or has called gw_rpc_shutdown
    GW_LOSS_COUNT      ///< the number of kinds
} gw_loss;

/// The worker whose loss an error reports.
typedef struct gw_lost_worker {
    gw_loss how;                 ///< GW_LOSS_NONE: the error reports none, and the rest is 0
    int rank;                    ///< in the job
    uint64_t incarnation;        ///< as in gw_worker
    char name[GW_NAME_MAX + 1];  ///< its name
} gw_lost_worker;

/// The calls of one function by itself with which a text begins and which the library shortens.
typedef struct gw_trace {
    uint64_t function;     ///< a hash of its name
    uint32_t calls;        ///< how many; 0: none
    uint16_t first, last;  ///< bytes in front of the second call, and of the last one
} gw_trace;

/// An error. Programs decide by status, outcome and aborts; |text| is for people.
typedef struct gw_error {
    gw_status status;
    gw_outcome outcome;
    char worker[GW_NAME_MAX + 1];    ///< where it was first decided, "" if here
    char function[GW_NAME_MAX + 1];  ///< the called function, "" if none
    char text[GW_ERROR_TEXT_MAX];    ///< with its error trace, "ps: gw.matmul: 6x5 times 4x8"
    /// The ended collectives that this error reports, the last one first: one may have ended because another one had.
    /// Errors of gw_fail have none.
    gw_abort aborts[GW_ERROR_ABORTS_MAX];
    gw_lost_worker
        lost;         ///< of DISCONNECTED, REF_LOST and FENCED, if identified; gw_fail sets none
    gw_trace trace;   ///< used by the library
    bool is_printed;  ///< this process has printed it already, when it happened
} gw_error;

/// Returns the name of |status| in words, "timeout".
GW_API const char *gw_status_name(gw_status status);

/// Prints |error|, if it is one, as one line to stderr, unless the library has printed it when it happened.
///
/// Returns: the exit code for main: 0 for GW_OK, else 1.
GW_API int gw_exit_code(gw_error error);

#ifdef __cplusplus
}
#endif
#endif
