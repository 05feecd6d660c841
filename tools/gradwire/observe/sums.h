// What a worker has done by function and by group, as text and as JSON.
#ifndef GRADWIRE_SUMS_H
#define GRADWIRE_SUMS_H

#include <jansson.h>
#include <stdio.h>

#include "trace/table.h"

// A line for each function and each operation of a group.
void sums_write(const trace_table *t, FILE *out);

// "made", "served": { "function", "count", "failed", "seconds" }; "collectives": with "operation" and "group".
json_t *sums_json(const trace_table *t);

// The function or operation of |x|; "other": of all that have no sums of their own.
const char *sums_name(const trace_sum *x);

#endif
