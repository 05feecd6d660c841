// The workers of a job that runs, as a table or as JSON.
#ifndef GRADWIRE_VIEW_H
#define GRADWIRE_VIEW_H

#include <stdio.h>

#include "live/live.h"
#include "live/page.h"

void view_write(const live *l, const view_options *o, FILE *out);
void view_write_json(const live *l, bool peers, FILE *out);

#endif
