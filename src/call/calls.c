// What the service of calls keeps at an agent.
#include "call/calls.h"

#include "base/mem.h"

static gw_status take_registry(calls *c, const gw_registry *given, gw_error *error) {
    if (!given) return registry_open_process(&c->registry, error);
    c->registry = handle_retain((gw_registry *)given);
    c->registry->frozen = true;
    return GW_OK;
}

gw_status call_state_open(agent *a, const gw_rpc_options *options, void **state, gw_error *error) {
    (void)a;
    calls *c = mem_calloc(sizeof *c);
    if (!c) return error_set(error, GW_NO_MEMORY, "no memory for calls");
    c->limits.calls_per_peer = LIMIT_CALLS_PER_PEER;
    c->limits.backlog_bytes = LIMIT_BACKLOG_BYTES;
    c->limits.queued_bytes = LIMIT_QUEUED_BYTES;
    c->is_held = options->serve_later;
    gw_status status = take_registry(c, options->registry, error);
    if (status) {
        mem_free(c);
    } else {
        *state = c;
    }
    return status;
}

static void open_peer(void *part) {
    call_peer *p = part;
    list_init(&p->calls);
    list_init(&p->waiting);
    list_init(&p->waiting_large);
    list_init(&p->arrivals);
    list_init(&p->served);
    list_init(&p->deferred);
    list_init(&p->deferred_admitted);
}

const service_data call_data = { .member_size = sizeof(call_peer), .member_init = open_peer };

void call_state_free(void *state) {
    calls *c = state;
    map_fini(&c->out);
    map_fini(&c->promises);
    map_fini(&c->served);
    map_fini(&c->queues);
    handle_release(c->registry);
    mem_free(c);
}
