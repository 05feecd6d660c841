// Between which workers bytes move now.
#ifndef GRADWIRE_PEERS_VIEW_H
#define GRADWIRE_PEERS_VIEW_H

#include <jansson.h>

#include "live/live.h"
#include "live/page.h"

// A line for each pair of a worker and another one, by rank, or those with the most bytes each second first.
void peers_view_write(const live *l, const view_options *o, FILE *out);

// The peers of a worker, with counts and rates.
json_t *peers_view_json(const live *l, const live_worker *w);

#endif
