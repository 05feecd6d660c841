// What the service of futures keeps at an agent.
#include "future/future.h"

#include "base/mem.h"

typedef struct futures {
    list_node unresolved;  // of gw_future, by |sibling|
    list_node lost;        // the same, of lost.c
    list_node processes;   // of gw_process
    uint32_t then_count;   // functions that are to run after a future
} futures;

const service_data future_data = { 0 };

void futures_count_then_on_loop(agent *a, int more) {
    futures *x = agent_state(a, &future_data);
    x->then_count += (uint32_t)more;
    if (more < 0) leaving_check_on_loop(a);
}

bool futures_have_then_on_loop(const agent *a) {
    const futures *x = agent_state(a, &future_data);
    return x->then_count;
}

list_node *futures_unresolved(const agent *a) {
    futures *x = agent_state(a, &future_data);
    return &x->unresolved;
}

list_node *futures_lost(const agent *a) {
    futures *x = agent_state(a, &future_data);
    return &x->lost;
}

list_node *futures_processes(const agent *a) {
    futures *x = agent_state(a, &future_data);
    return &x->processes;
}

gw_status future_state_open(agent *a, const gw_rpc_options *options, void **state,
                            gw_error *error) {
    (void)a, (void)options;
    futures *x = mem_calloc(sizeof *x);
    if (!x) return error_set(error, GW_NO_MEMORY, "no memory for futures");
    list_init(&x->unresolved);
    list_init(&x->lost);
    list_init(&x->processes);
    *state = x;
    return GW_OK;
}

void future_state_free(void *state) {
    mem_free(state);
}
