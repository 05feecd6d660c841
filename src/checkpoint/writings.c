// What the service of checkpoints keeps at an agent.
#include "checkpoint/writing.h"

#include "base/mem.h"

const service_data writings_data = { 0 };

static gw_status open_state(agent *a, const gw_rpc_options *options, void **state,
                            gw_error *error) {
    (void)a, (void)options;
    *state = mem_calloc(sizeof(writings));
    return *state ? GW_OK : error_set(error, GW_NO_MEMORY, "no memory for checkpoints");
}

static void list_pending(const agent *a, pending *out) {
    const writings *x = agent_state(a, &writings_data);
    pending_add(out, "writes", (size_t)x->count, "checkpoint", "checkpoints");
}

// A member enters the collectives of a checkpoint whatever its program does.
static bool acts(const agent *a) {
    const writings *x = agent_state(a, &writings_data);
    return x->count > 0;
}

static void stop(agent *a, const gw_error *why) {
    (void)why;
    writings *x = agent_state(a, &writings_data);
    atomic_store(&x->stops, true);
}

static void free_state(void *state) {
    mem_free(state);
}

const service checkpoint_service = {
    .name = "checkpoint",
    .data = &writings_data,
    .open = open_state,
    .pending = list_pending,
    .acts = acts,
    .stop = stop,
    .free = free_state,
};
