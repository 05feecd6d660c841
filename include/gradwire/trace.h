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
// A program can trace all workers of its job for a time, as one file for https://ui.perfetto.dev:
//
//     gw_trace_start(root, .levels = "call,pass");
//     gw_rpc_sync(root, "worker1", "train_step");
//     gw_trace_stop(root, "step100.pftrace");
//
// The program `gradwire`, on the path or named by GW_TOOL, reads the memory of the workers; `gradwire run` sets GW_TOOL.
// GW_TRACE=LEVELS:FILE in the environment does the same from the start to the end of each worker, without a change of the
// program (docs/OBSERVE.md).
//
// Recording begins with gw_rpc_init. It never fails, and changes no result: where records cannot be kept, these functions do
// nothing. Names are kept once; a program may use about 3,000 different ones of 256 KiB together, and later ones are "".
//
// Ownership: a span belongs to the scope that it was opened in. Threads: those of the scope.
#ifndef GRADWIRE_TRACE_H
#define GRADWIRE_TRACE_H

#include <gradwire/value.h>

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

/// Options of gw_trace_start.
typedef struct GW_BY_NAME gw_trace_options {
    /// The levels that are on meanwhile, such as "call,pass", or "all". NULL: all but "ref", "wire" and "ops".
    const char *levels GW_DEFAULT(NULL);
    double seconds
        GW_DEFAULT(0);  ///< the trace ends after this time, at most a day; 0: with gw_trace_stop
} gw_trace_options;

/// Begins a trace of all workers of the job. A process `gradwire trace` on each host reads their records; workers that
/// join meanwhile are traced, too. Workers on a host that cannot be traced are named in the log, and are not in the trace.
///
/// Blocks: until the levels are on.
/// Errors: INVALID for options; NOT_FOUND without the program `gradwire`; WRONG_STATE if this process has a trace
/// already; SYSTEM, with the number of the process, if another process traces the job; WRONG_STATE before gw_rpc_init.
/// Source: torch.profiler.profile.start.
GW_API void gw_trace_start(gw_scope *s, gw_trace_options options GW_DEFAULT({}))
    GW_CALLS(gw_trace_start_with);
#define gw_trace_start(...) GW_FORM_1(gw_trace_start, gw_trace_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_trace_start) gw_trace_start_with;

/// Ends the trace, and writes it. The levels are as before. A scope that has failed ends its trace, too. A trace that is
/// not ended is dropped when the agent ends.
///
/// file: for Perfetto; "FILE.json": as JSON; "FILE.gwt": the records themselves.
/// Blocks: until the file is written.
/// Errors: WRONG_STATE if gw_trace_start has not begun a trace; SYSTEM if |file| cannot be written; TIMEOUT.
/// Source: torch.profiler.profile.export_chrome_trace.
GW_API void gw_trace_stop(gw_scope *s, const char *file);

#ifdef __cplusplus
}
#endif

#include <gradwire/detail/trace.h>

#endif
