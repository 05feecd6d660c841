// What a worker has exchanged with others, as text and as JSON.
#ifndef GRADWIRE_EXCHANGE_H
#define GRADWIRE_EXCHANGE_H

#include <jansson.h>
#include <stdio.h>

#include "trace/table.h"

enum { EXCHANGE_NAME_SIZE = 32 };

// "rank 3", "12 others".
void exchange_name(const trace_peer *x, char *out, size_t size);

// A line for each.
void exchange_write(const trace_peers *peers, FILE *out);

// {"rank": 3, "workers": 1, "transport": "shm", "calls_made": ...}; the rank is null of several.
json_t *exchange_json_of(const trace_peer *x);
json_t *exchange_json(const trace_peers *peers);

#endif
