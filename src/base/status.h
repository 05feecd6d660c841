// The one funnel through which every error of the library passes.
#ifndef BASE_STATUS_H
#define BASE_STATUS_H

#include <gradwire/status.h>
#include <stdarg.h>

// Without a text, or anything else that memory may hold.
void error_init(gw_error *error, gw_status status);

// Fills |error| (which may be NULL) and returns |status|, so that plumbing says
//     return error_set(error, GW_INVALID, "rank %d of %d", rank, world_size);
gw_status error_set(gw_error *error, gw_status status, const char *format, ...) GW_PRINTF(3, 4);
gw_status error_setv(gw_error *error, gw_status status, const char *format, va_list args);
// With a status that a program has chosen: GW_OK is its own way to fail, REMOTE, and what is no status
// is INVALID, since no peer would take it.
void error_set_by_programv(gw_error *error, gw_status status, const char *format, va_list args);
bool status_is_of_error(gw_status status);
// |error|, which a program may have changed, as a peer takes it: a status that is none becomes INVALID, and
// other fields that are out of range become 0.
gw_error error_of_program(const gw_error *error);

// Puts "prefix: " before the text, cutting the end if it grows too long.
void error_prefix(gw_error *error, const char *prefix);

// The same with the name of a function, which is not added once more if that is what another worker
// has called.
void error_prefix_function(gw_error *error, const char *function);

// What |trace| of an error has of a function. With 0 calls, the text begins with its name.
uint64_t error_trace_function(const char *function);

// |error| reports the loss of that worker.
void error_set_lost(gw_error *error, gw_loss how, int rank, uint64_t incarnation, const char *name);

// |error| reports the end of that collective, because of those that it reported before: of these the
// first one is forgotten if there are too many.
void error_add_abort(gw_error *error, gw_abort abort);
int error_abort_count(const gw_error *error);

// The funnel: a breakpoint here sees the first error of each scope. GW_TRACE_ERRORS=1 makes it a
// line of log, GW_ABORT_ON_ERROR=1 an abort. What plumbing decides and deals with does not come
// here.
void error_reached_scope(const gw_error *error);

// Where the program made the remote call whose error this thread is about to give a scope,
// "train.c:12"; else NULL.
extern _Thread_local const char *error_origin;

// An error that may have to be told later, in memory of its own, since there are many who could have
// one and few who have: NULL is none. Without memory an error without words is kept.
void error_keep(gw_error **to, const gw_error *error);
void error_forget(gw_error **to);
const gw_error *error_kept(const gw_error *e);  // one with GW_OK if there is none

#endif
