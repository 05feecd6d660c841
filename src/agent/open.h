// Opening an agent.
#ifndef AGENT_OPEN_H
#define AGENT_OPEN_H

#include "agent/state/agent.h"

// Opens the agent of |options| on |root|, over |e|, which it closes in the end if |owns_env|.
// |services| ends with NULL; they are opened, notified and ended in its order. |lacks_state|: another worker
// cannot take over the job from this one before the caller has reported *elastic* to the launcher.
void agent_open_on(gw_scope *root, env *e, bool owns_env, gw_rpc_options options,
                   const service *const *services, bool lacks_state);

#endif
