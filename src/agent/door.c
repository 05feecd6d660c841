#include "agent/door.h"

#include "agent/join.h"

#include <stdio.h>
#include <string.h>

// Each of them in turn. What all have answered makes one sentence, with the status of the first.
static gw_status listen_at_one(agent *a, gw_error *error) {
    const char *at = a->door;
    gw_error first = { 0 }, why;
    address_text address;
    while (address_take(&at, &address)) {
        char text[ADDRESS_MAX + SCHEME_MAX + 3];
        snprintf(text, sizeof text, "%s://%s", address.scheme, address.rest);
        if (!peers_listen_also(a->peers, text, &why)) return GW_OK;
        if (!first.status) {
            first = why;
        } else {
            size_t size = strlen(first.text);
            snprintf(first.text + size, sizeof first.text - size, "; %.200s", why.text);
        }
    }
    *error = first;
    return first.status;
}

gw_status door_open_on_loop(agent *a, gw_error *error) {
    gw_status status = listen_at_one(a, error);
    if (!status) status = store_open_host(a->env, &a->store, error);
    if (status) return status;
    a->hosts_store = true;
    peers_serve_store(a->peers, store_host_take, a->store);
    return GW_OK;
}

gw_status door_write_job_on_loop(agent *a, gw_error *error) {
    joining j = { .agent = a, .store = a->store, .until_ns = ENV_NEVER };
    bool set;
    uint32_t world_size;
    return join_set_job(&j, 0, &set, &world_size, error);
}
