// Puts a job together: an agent, and all services that live on it.
#ifndef RUNTIME_RUNTIME_H
#define RUNTIME_RUNTIME_H

#include "agent/state/agent.h"

extern const service *const runtime_services[];  // ends with NULL

// gw_rpc_init over |e|, which is closed in the end if |owns_env|.
void runtime_open_on(gw_scope *root, env *e, bool owns_env, gw_rpc_options options);

// gw_rpc_init for a worker that reports *elastic* to its launcher again when it has the state of the job.
void runtime_open_elastic(gw_scope *root, gw_rpc_options options);

#endif
