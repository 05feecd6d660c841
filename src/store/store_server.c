// The store inside an agent: one table, used here directly and by others through connections.
#include "store/store_internal.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/status.h"

#include <string.h>

typedef struct host {
    store store;
    store_table table;
    list_node clients;  // the oldest first
    int client_count, new_count;
    // what is said of those that were sent away
    int64_t next_line_ns;
    int unsaid_count;
} host;

typedef struct client {
    host *host;
    connection *connection;
    list_node link;
    bytes in, out;  // records half received, and replies not sent yet
    size_t out_done;
    list_node parked;  // of type parked, by |of_client|
    int parked_count;
    // STORE-7: whether it may be one that only holds a connection
    bool has_set;
    timer deadline;  // armed unless it has set something and waits
} client;

// A client's wait.
typedef struct parked {
    store_wait_entry wait;
    client *client;
    list_node of_client;
    uint64_t request;
} parked;

enum { UNSENT_MAX = 4 * 1024 * 1024 };  // to a client that does not read
#define MS INT64_C(1000000)
#define LINE_NS INT64_C(10000000000)

// ---- Clients ------------------------------------------------------------------------------------
static void set_deadline(client *c) {
    env *e = c->host->store.env;
    bool is_served = c->has_set && c->parked_count > 0;
    env_set_timer(e, &c->deadline,
                  is_served ? ENV_NEVER : env_now_ns(e) + LIMIT_STORE_CLIENT_MS * MS);
}

static void free_parked(parked *w) {
    client *c = w->client;
    list_remove(&w->wait.link);
    list_remove(&w->of_client);
    c->parked_count--;
    mem_free(w);
    if (!c->parked_count) set_deadline(c);
}

static void drop_client(client *c) {
    while (!list_is_empty(&c->parked)) free_parked(list_entry(c->parked.next, parked, of_client));
    env_set_timer(c->host->store.env, &c->deadline, ENV_NEVER);
    list_remove(&c->link);
    c->host->client_count--;
    c->host->new_count -= !c->has_set;
    connection_close(c->connection);
    bytes_fini(&c->in);
    bytes_fini(&c->out);
    mem_free(c);
}

// One line for many, since whoever opens a thousand connections is to fill no log.
static void send_away(client *c) {
    host *h = c->host;
    int64_t now_ns = env_now_ns(h->store.env);
    drop_client(c);
    h->unsaid_count++;
    if (now_ns < h->next_line_ns) return;
    log_line("closed %d connection%s to the store that ask%s for nothing: at most %d clients that "
             "have set no key, and %d s for each",
             h->unsaid_count, h->unsaid_count == 1 ? "" : "s", h->unsaid_count == 1 ? "s" : "",
             LIMIT_STORE_NEW_CLIENTS, LIMIT_STORE_CLIENT_MS / 1000);
    h->unsaid_count = 0;
    h->next_line_ns = now_ns + LINE_NS;
}

// A client that is merely slow connects again, and repeats what it has asked for (STORE-3).
static void deadline_is_over(timer *t) {
    send_away(list_entry(t, client, deadline));
}

static void make_room(host *h) {
    if (h->new_count < LIMIT_STORE_NEW_CLIENTS) return;
    list_each(l, &h->clients) {
        client *c = list_entry(l, client, link);
        if (c->has_set) continue;
        send_away(c);
        return;
    }
}

static void send_replies(client *c) {
    if (c->out.size == c->out_done) return;
    struct iovec part = { c->out.data + c->out_done, c->out.size - c->out_done };
    c->out_done += connection_send(c->connection, &part, 1);
    if (c->out_done < c->out.size) return;
    c->out.size = c->out_done = 0;
}

// Without memory the connection closes soon: the client then asks again.
static void put_reply(client *c, uint64_t request, store_outcome outcome, const void *value,
                      size_t size) {
    size_t before = c->out.size;
    store_record_encode(&c->out, &(store_record){ .kind = STORE_REPLY,
                                                  .request = request,
                                                  .outcome = outcome,
                                                  .value = value,
                                                  .size = size });
    if (!c->out.failed) return;
    c->out.failed = false;
    c->out.size = before;
    connection_set_deadline(c->connection, env_now_ns(c->host->store.env));
}

static void refuse_request(client *c, uint64_t request, const gw_error *why) {
    put_reply(c, request, STORE_REFUSED, why->text, strlen(why->text));
}

static void found_for_client(store_wait_entry *w, const bytes *value) {
    parked *waited = (parked *)w;
    client *c = waited->client;
    put_reply(c, waited->request, STORE_FOUND, value->data, value->size);
    free_parked(waited);
    send_replies(c);
}

static void serve_set(client *c, const store_record *r) {
    store_table *t = &c->host->table;
    c->host->new_count -= !c->has_set;
    c->has_set = true;
    set_deadline(c);
    const store_entry *entry = store_table_find(t, r->key);
    if (entry && entry->token != r->token) {
        put_reply(c, r->request, STORE_FOUND, entry->value.data, entry->value.size);
        return;
    }
    gw_error error;
    gw_status status =
        entry ? GW_OK : store_table_set(t, r->key, r->value, r->size, r->token, &error);
    if (status) {
        refuse_request(c, r->request, &error);
    } else {
        if (!entry) store_tell(&c->host->store, r->key, r->value, r->size);
        put_reply(c, r->request, STORE_WAS_SET, NULL, 0);
    }
}

static void serve_wait(client *c, const store_record *r) {
    const store_entry *entry = store_table_find(&c->host->table, r->key);
    if (entry) {
        put_reply(c, r->request, STORE_FOUND, entry->value.data, entry->value.size);
        return;
    }
    gw_error error;
    parked *w = NULL;
    if (c->parked_count >= LIMIT_STORE_WAITS) {
        error_set(&error, GW_LIMIT, "store: more than %d waits of one worker", LIMIT_STORE_WAITS);
        refuse_request(c, r->request, &error);
        return;
    }
    if (!(w = mem_calloc(sizeof *w)) || !store_table_wait(&c->host->table, r->key, &w->wait)) {
        mem_free(w);
        error_set(&error, GW_NO_MEMORY, "store: no memory to wait for %s", r->key);
        refuse_request(c, r->request, &error);
        return;
    }
    w->wait.found = found_for_client;
    w->client = c;
    w->request = r->request;
    list_append(&c->parked, &w->of_client);
    if (c->parked_count++ == 0) set_deadline(c);
}

// Serves the records that have come whole.
static gw_status serve(client *c, gw_error *error) {
    size_t done = 0;
    for (;;) {
        store_record r;
        size_t taken;
        gw_status status =
            store_record_decode(c->in.data + done, c->in.size - done, &r, &taken, error);
        if (status) return status;
        if (taken == 0) break;
        done += taken;
        if (r.kind == STORE_REPLY)
            return error_set(error, GW_PROTOCOL, "store: a reply to no request");
        if (r.kind == STORE_SET) serve_set(c, &r);
        if (r.kind == STORE_WAIT) serve_wait(c, &r);
    }
    memmove(c->in.data, c->in.data + done, c->in.size - done);
    c->in.size -= done;
    if (c->out.size > UNSENT_MAX)
        return error_set(error, GW_OVERLOADED, "store: %zu bytes that it does not read",
                         c->out.size);
    return GW_OK;
}

static void on_received(void *user, const void *data, size_t count) {
    client *c = user;
    gw_error error;
    bytes_put(&c->in, data, count);
    gw_status status = c->in.failed ? error_set(&error, GW_NO_MEMORY, "store: no memory") : GW_OK;
    if (!status && c->in.size) status = serve(c, &error);
    if (status) {
        log_line("closed a connection to the store: %s", error.text);
        drop_client(c);
        return;
    }
    send_replies(c);
}

static void on_writable(void *user) {
    send_replies(user);
}

static void on_closed(void *user, const gw_error *why) {
    (void)why;
    drop_client(user);
}

static const connection_events client_events = {
    .received = on_received,
    .writable = on_writable,
    .closed = on_closed,
};

void store_host_take(void *user, connection *l) {
    host *h = user;
    make_room(h);
    client *c = h->client_count < LIMIT_WORKERS ? mem_calloc(sizeof *c) : NULL;
    if (!c) {
        connection_close(l);
        return;
    }
    c->host = h;
    c->connection = l;
    list_init(&c->parked);
    c->deadline.fire = deadline_is_over;
    list_append(&h->clients, &c->link);
    h->client_count++;
    h->new_count++;
    set_deadline(c);
    connection_stream(l, &client_events, c);
    connection_send_handshake(l, &(handshake){ .kind = HANDSHAKE_WELCOME });
}

// ---- Used here ----------------------------------------------------------------------------------
static gw_status copy_value(const store_entry *entry, const char *key, bytes *out,
                            gw_error *error) {
    bytes_put(out, entry->value.data, entry->value.size);
    return out->failed ? error_set(error, GW_NO_MEMORY, "store: no memory for %s", key) : GW_OK;
}

static gw_status host_set(store *st, const char *key, const void *value, size_t size,
                          int64_t until_ns, bool *out_set, bytes *out_found, gw_error *error) {
    (void)until_ns;
    store_table *t = &((host *)st)->table;
    const store_entry *entry = store_table_find(t, key);
    if (entry) {
        *out_set = false;
        return out_found ? copy_value(entry, key, out_found, error) : GW_OK;
    }
    uint64_t token = env_random_u64(st->env);
    gw_status status = store_table_set(t, key, value, size, token, error);
    if (status) return status;
    *out_set = true;
    store_tell(st, key, value, size);
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
        list_remove(&w.wait.link);
        entry = store_table_find(&h->table, key);
    }
    if (!entry) return error_set(error, GW_TIMEOUT, "store: no worker has set %s", key);
    return copy_value(entry, key, out, error);
}

static gw_status host_watch(store *st, gw_error *error) {
    const map *entries = &((host *)st)->table.entries;
    // The host watches from the beginning, so that there is no order to keep.
    return entries->count ? error_set(error, GW_WRONG_STATE, "store: watched too late") : GW_OK;
}

static void host_close(store *st) {
    host *h = (host *)st;
    while (!list_is_empty(&h->clients)) drop_client(list_entry(h->clients.next, client, link));
    store_table_fini(&h->table);
    mem_free(h);
}

static const store_class host_class = {
    .set = host_set, .wait = host_wait, .watch = host_watch, .close = host_close
};

gw_status store_open_host(env *e, store **out, gw_error *error) {
    host *h = mem_calloc(sizeof *h);
    if (!h) return error_set(error, GW_NO_MEMORY, "no memory for the store");
    h->store = (store){ .class = &host_class, .env = e };
    store_table_init(&h->table);
    list_init(&h->clients);
    *out = &h->store;
    return GW_OK;
}
