#include "agent/admission/group_store.h"

#include "agent/admission/join_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Tries each address in turn. The error has the texts of all addresses, and the status of the first.
static gw_status listen_at_one(agent *a, gw_error *error) {
    const char *at = a->group_addresses;
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
    return error_copy(error, &first);
}

// STORE-7: in a group clients set `join/I`.
static store_use use_of_key(void *user, const char *key) {
    char own[JOIN_KEY_MAX];
    (void)user;
    uint64_t incarnation = strncmp(key, "join/", 5) ? 0 : strtoull(key + 5, NULL, 16);
    join_key(own, "join", incarnation);
    return incarnation && !strcmp(key, own) ? STORE_REGISTERS : STORE_READ_ONLY;
}

// STORE-8: in a group there may be as many as half of the host's descriptors.
static int64_t registered_max(const env *e) {
    int64_t half = e->descriptor_max / 2;
    return half && half < LIMIT_WORKERS ? half : LIMIT_WORKERS;
}

gw_status group_store_open_on_loop(agent *a, gw_error *error) {
    gw_status status = listen_at_one(a, error);
    const store_host_options of = { .use_of = use_of_key,
                                    .registered_max = registered_max(a->env) };
    if (!status) status = store_open_host(a->env, of, &a->store, error);
    if (status) return status;
    a->hosts_store = true;
    peers_serve_store(a->peers, store_host_take, a->store);
    return GW_OK;
}

gw_status group_store_write_job_on_loop(agent *a, gw_error *error) {
    joining j = { .agent = a, .store = a->store, .until_ns = ENV_NEVER };
    bool set;
    uint32_t world_size;
    return join_set_job(&j, 0, &set, &world_size, error);
}
