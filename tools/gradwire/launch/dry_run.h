// gradwire run --dry-run: what would run on this host, a line for each rank, as a shell would take
// it.
#ifndef GRADWIRE_DRY_RUN_H
#define GRADWIRE_DRY_RUN_H

#include "options/run_options.h"

void dry_run(const run_options *o);

#endif
