// Records of the program: spans, marks and counters, among the records that the library makes by itself.
//
// Each worker keeps its last records in memory that outlives its process (docs/OBSERVE.md): `gradwire dump` shows them
// for a job that runs, hangs or has failed.
//
//     gw_span *x = gw_span_open(s, "tokenize");
//     gw_counter(s, "queue", 17);
//     gw_span_close(x);
//     gw_mark(s, "epoch 3");
//
// Records of a program have the level "user", which is on by default: the variable GW_FLIGHT
// sets the levels or the count of records of each thread, and GW_FLIGHT=0 switches all off.
//
// Recording begins with gw_rpc_init. It never fails, and changes no result: where records cannot be kept, these functions do
// nothing. Names are kept once; a program may use about 3,000 different ones of 256 KiB together, and later ones are "".
//
// Ownership: a span belongs to the scope that it was opened in. Threads: those of the scope.
#ifndef GRADWIRE_TRACE_H
#define GRADWIRE_TRACE_H

#include <gradwire/scope.h>

#ifdef __cplusplus
extern "C" {
#endif

/// A piece of work with a name, a beginning and an end: gw_span_open.
typedef struct gw_span gw_span;

/// Opens a span.
///
/// name: is copied; at most 127 bytes are kept.
///
/// Returns: the span, owned by |s|, which closes it if the program does not. Spans of one thread may nest.
///
/// Errors: NO_MEMORY. In a scope that has failed nothing is recorded.
///
/// Blocking: no.
GW_API gw_span *gw_span_open(gw_scope *s, const char *name);

/// Closes a span, at the latest when its scope closes. Closing it again does nothing; in the checked mode (GW_CHECK=1) it
/// ends the program with a message.
///
/// Blocking: no.
GW_API void gw_span_close(gw_span *x);

/// Records a moment.
///
/// text: is copied; at most 127 bytes are kept.
///
/// Errors: none. In a scope that has failed nothing is recorded.
///
/// Blocking: no.
GW_API void gw_mark(gw_scope *s, const char *text);

/// Records a number, such as the length of a queue.
///
/// name: of the line of numbers that it belongs to; is copied, at most 127 bytes.
/// value: any, also NaN and infinity.
///
/// Errors: none. In a scope that has failed nothing is recorded.
///
/// Blocking: no.
GW_API void gw_counter(gw_scope *s, const char *name, double value);

#ifdef __cplusplus
}
#endif
#endif
