// The one function through which every error of the library passes.
#ifndef BASE_STATUS_H
#define BASE_STATUS_H

#include <gradwire/status.h>
#include <stdarg.h>

// Without a text or allocated memory.
void error_init(gw_error *error, gw_status status);

// Fills |error| (which may be NULL) and returns |status|, so that internal functions write
//     return error_set(error, GW_INVALID, "rank %d of %d", rank, world_size);
gw_status error_set(gw_error *error, gw_status status, const char *format, ...) GW_PRINTF(3, 4);
gw_status error_setv(gw_error *error, gw_status status, const char *format, va_list args);
// The same with the contents of |from|.
gw_status error_copy(gw_error *error, const gw_error *from);
// With a status that a program has chosen: GW_OK becomes REMOTE, and an invalid status
// becomes INVALID, since no peer would accept it.
void error_set_by_programv(gw_error *error, gw_status status, const char *format, va_list args);
bool status_is_of_error(gw_status status);
// |error|, which a program may have changed, as a peer takes it: a status that is none becomes INVALID, and
// other fields that are out of range become 0.
gw_error error_of_program(const gw_error *error);

// Puts "prefix: " before the text, cutting the end if it grows too long.
void error_prefix(gw_error *error, const char *prefix);

// The same with the name of the worker whose loss the error reports, unless the error is the loss itself, whose text
// begins with that name.
void error_prefix_worker(gw_error *error, const char *name);

// The same with the name of a function, unless the error of a call to another worker already
// has it.
void error_prefix_function(gw_error *error, const char *function);

// The hash of a function in |trace| of an error. With 0 calls, the text begins with its name.
uint64_t error_trace_function(const char *function);

// |error| reports the loss of that worker.
void error_set_lost(gw_error *error, gw_loss how, int rank, uint64_t incarnation, const char *name);

// |error| reports the end of that collective, after those that it reported before: if there are too many, the
// first one is dropped.
void error_add_abort(gw_error *error, gw_abort abort);
int error_abort_count(const gw_error *error);

// A breakpoint here stops at the first error of each scope. GW_TRACE_ERRORS=1 logs
// it, GW_ABORT_ON_ERROR=1 aborts. Errors that are handled inside the library do not reach
// it.
void error_reached_scope(const gw_error *error);

// The origin of the remote call whose error this thread is about to set in a scope,
// "train.c:12"; else NULL.
extern _Thread_local const char *error_origin;

// An error that may have to be reported later, in allocated memory, since many objects could have
// one and few have: NULL is none. Without memory an error without a text is kept.
void error_keep(gw_error **to, const gw_error *error);
void error_forget(gw_error **to);
const gw_error *error_kept(const gw_error *e);  // one with GW_OK if there is none

#endif
