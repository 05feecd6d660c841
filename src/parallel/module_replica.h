// Copies of a module for threads that compute with it at once: the same parameters, state and hooks, but separate
// buffers, so that no thread reads a buffer that another thread writes.
#ifndef PARALLEL_MODULE_REPLICA_H
#define PARALLEL_MODULE_REPLICA_H

#include "nn/module.h"

// Lives no longer than |m|, which does not change meanwhile. NULL with |s| failed.
gw_module *module_replica_open(gw_scope *s, gw_module *m);
void module_replica_close(gw_module *r);  // may be NULL

bool module_has_buffers(const gw_module *m);
bool module_has_hooks(gw_module *m);  // it or its parts

#endif
