// Traces of a job that a program starts: gw_trace_start, gw_trace_stop, and the variable GW_TRACE.
//
// The first worker on each host has the process that traces the workers of that host (tracer.h).
#ifndef RUNTIME_TRACING_H
#define RUNTIME_TRACING_H

#include "agent/state/agent.h"

#include <limits.h>

enum { TRACING_HOST_BYTES = 128 };

extern const service trace_service;

// After gw_rpc_init: starts the trace of GW_TRACE=LEVELS:FILE, if this worker is the first of its host. What is wrong is
// logged. The trace ends with the agent of |root|.
void tracing_begin(gw_scope *root);

// Starts the trace of this host, with the records in a new file.
gw_status tracing_begin_here(const agent *a, const char *levels, double seconds, int64_t timeout_ms,
                             gw_error *error);

// Ends it. |file| has the records afterwards, and is the caller's to remove.
gw_status tracing_end_here(char file[PATH_MAX], int64_t timeout_ms, gw_error *error);

// Keeps the ranks of the workers that trace other hosts until they are taken, or the agent ends. Takes |ranks|.
void tracing_keep_ranks(int *ranks, int count);
int tracing_take_ranks(int **out);  // their count

// A text that is the same for all workers whose memory this worker can read.
void tracing_describe_host(char out[TRACING_HOST_BYTES]);

// A new file of records, "/tmp/gradwire-trace-6fG2kq.gwt".
gw_status tracing_make_file(char out[PATH_MAX], gw_error *error);

#endif
