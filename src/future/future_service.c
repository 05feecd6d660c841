// The service of futures: its functions for the agent.
#include "future/future.h"

static void fail_all(list_node *list, const gw_error *why) {
    while (!list_is_empty(list))
        future_fail_on_loop(list_entry(list->next, gw_future, sibling), why);
}

static void stop_futures(agent *a, const gw_error *why) {
    fail_all(futures_unresolved(a), why);
    fail_all(futures_lost(a), why);
    processes_stop_on_loop(a, why);
}

static void lost(agent *a, int rank) {
    futures_lost_on_loop(a, rank);
    processes_lost_on_loop(a, rank);
}

const service future_service = { .name = "future",
                                 .data = &future_data,
                                 .open = future_state_open,
                                 .joined = processes_joined_on_loop,
                                 .lost = lost,
                                 .acts = futures_have_then_on_loop,
                                 .stop = stop_futures,
                                 .close = processes_close,
                                 .free = future_state_free };
