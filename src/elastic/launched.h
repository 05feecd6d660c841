// How `gradwire run --max-restarts` has started this worker: docs/protocol/launcher.md.
#ifndef ELASTIC_LAUNCHED_H
#define ELASTIC_LAUNCHED_H

#include "base/scope.h"
#include <gradwire/elastic.h>

typedef struct launched {
    bool is_elastic;    // the launcher starts ranks again alone
    bool creates;       // of all workers that started together, this one creates the job
    int min, max;       // members
    int size;           // that start together; 0: .max
    int slot, attempt;  // -1, 0 without
} launched;

// |variable| is getenv, or a test's. False with |s| failed.
bool launched_read(gw_scope *s, char *(*variable)(const char *name), launched *out);

// The name of this worker: no other attempt of any slot has it.
const char *launched_name(gw_scope *s, const launched *at);

// Sets the numbers of members that |o| leaves open. |world_size|: of a job of fixed size, else 0. False with |s| failed.
bool launched_settle(gw_scope *s, const launched *at, int world_size, gw_elastic_options *o);

#endif
