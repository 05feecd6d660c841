// gw_scope_open_of: scopes of an agent that are inside no other scope, so that threads open and close them without a lock.
#include "agent/state/agent.h"

#include "base/map.h"
#include <gradwire/binding.h>

static void release_agent(gw_scope *s, void *data) {
    (void)s;
    agent_release(data);
}

gw_scope *gw_scope_open_of(const gw_scope *root) {
    agent *a = root->agent;
    if (!a) return gw_scope_open(NULL);
    gw_scope *s = agent_scope_open(a, 0, 0, ENV_NEVER);
    if (s->error) return s;
    // Its numbers follow from its id, which no other scope of the job has.
    s->id = scope_new_id(s);
    s->own_random.key = hash_u64(s->id);
    scope_set_slot(s, SCOPE_ATTACHED, agent_retain(a), release_agent);
    return s;
}
