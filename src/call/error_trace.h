// The path of an error: "w1: f: w2: g: no more memory".
#ifndef CALL_ERROR_TRACE_H
#define CALL_ERROR_TRACE_H

#include <gradwire/status.h>

// Puts "worker: function: " in front of an error's text, and fills in the worker and function that decided it.
void error_add_trace(gw_error *error, const char *worker, const char *function);

#endif
