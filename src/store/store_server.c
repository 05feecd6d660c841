// The store inside an agent: one table, used here directly and by others through connections.
#include "store/store_server.h"

#include "base/mem.h"
#include "base/status.h"

static gw_status host_set(store *st, const char *key, const void *value, size_t size,
                          int64_t until_ns, bool registers, bool *out_set, bytes *out_found,
                          gw_error *error) {
    (void)until_ns, (void)registers;
    store_table *t = &((host *)st)->table;
    const store_entry *entry = store_table_find(t, key);
    if (entry) {
        *out_set = false;
        return out_found ? store_give_value(entry, out_found, error) : GW_OK;
    }
    uint64_t token = env_random_u64(st->env);
    gw_status status = store_table_set(t, key, value, size, token, error);
    if (status) return status;
    *out_set = true;
    store_notify(st, key, value, size);
    return GW_OK;
}

typedef struct local_wait {
    store_wait_entry wait;
    env *env;
    waiter waiter;
} local_wait;

static void found_here(store_wait_entry *w, const bytes *value) {
    local_wait *l = (local_wait *)w;
    (void)value;
    env_wake(l->env, &l->waiter);
}

static gw_status host_wait(store *st, const char *key, int64_t until_ns, bytes *out,
                           gw_error *error) {
    host *h = (host *)st;
    const store_entry *entry = store_table_find(&h->table, key);
    if (!entry) {
        local_wait w = { .wait.found = found_here, .env = st->env, .waiter.what = key };
        if (!store_table_wait(&h->table, key, &w.wait))
            return error_set(error, GW_NO_MEMORY, "store: no memory to wait for %s", key);
        env_wait(st->env, &w.waiter, until_ns);
        store_table_unwait(&h->table, &w.wait);
        entry = store_table_find(&h->table, key);
    }
    if (!entry) return error_set(error, GW_TIMEOUT, "store: no worker has set %s", key);
    return store_give_value(entry, out, error);
}

static gw_status host_watch(store *st, gw_error *error) {
    const map *entries = &((host *)st)->table.entries;
    // The host watches from the beginning, so that there is no order to keep.
    return entries->count ? error_set(error, GW_WRONG_STATE,
                                      "store: it can be watched only before a key is set")
                          : GW_OK;
}

static void host_close(store *st) {
    host *h = (host *)st;
    clients_close_all(h);
    store_table_fini(&h->table);
    mem_free(h);
}

static const store_class host_class = {
    .set = host_set, .wait = host_wait, .watch = host_watch, .close = host_close
};

gw_status store_open_host(env *e, store_host_options options, store **out, gw_error *error) {
    host *h = mem_calloc(sizeof *h);
    if (!h) return error_set(error, GW_NO_MEMORY, "no memory for the store");
    h->store = (store){ .class = &host_class, .env = e };
    h->options = options;
    store_table_init(&h->table);
    clients_init(h);
    *out = &h->store;
    return GW_OK;
}
