// The clients of a store that an agent hosts. Any process of this machine may be one where connections are
// not encrypted, so that what each costs is bounded, and those that do not join make room.
#include "store/store_server.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/status.h"

#include <string.h>

#define MS INT64_C(1000000)

typedef struct client {
    host *host;
    connection *connection;
    list_node link;
    bytes in, out;     // records half received, and replies not sent yet
    list_node parked;  // of type parked, by |of_client|
    int parked_count;
    size_t set_bytes;                 // of what it has set
    const store_entry *registration;  // NULL: it is not registered
    // STORE-8, STORE-9: by which limit it is closed when
    timer deadline;
    closing due_for;
    bool is_ending;  // for a limit, once its events are handled; nothing is served any more
} client;

// A client's wait.
typedef struct parked {
    store_wait_entry wait;
    client *client;
    list_node of_client;
    uint64_t request;
} parked;

static void free_parked(parked *w) {
    client *c = w->client;
    store_table_unwait(&c->host->table, &w->wait);
    list_remove(&w->of_client);
    c->parked_count--;
    mem_free(w);
}

static void drop_client(client *c) {
    host *h = c->host;
    while (!list_is_empty(&c->parked)) free_parked(list_entry(c->parked.next, parked, of_client));
    env_set_timer(h->store.env, &c->deadline, ENV_NEVER);
    list_remove(&c->link);
    h->new_count -= !c->registration;
    h->registered_count -= c->registration != NULL;
    connection_close(c->connection);
    bytes_fini(&c->in);
    bytes_fini(&c->out);
    mem_free(c);
}

// ---- Limits -------------------------------------------------------------------------------------
static void close_client(client *c, closing why) {
    host *h = c->host;
    drop_client(c);
    closings_count(&h->closings, h->store.env, why);
}

static void deadline_is_over(timer *t) {
    client *c = list_entry(t, client, deadline);
    close_client(c, c->due_for);
}

static void set_deadline(client *c, closing why, int64_t ms) {
    env *e = c->host->store.env;
    c->due_for = why;
    env_set_timer(e, &c->deadline, env_now_ns(e) + ms * MS);
}

// Later, since another client's *set*, or the rest of this one's records, is being served.
static void end_client(client *c, closing why) {
    if (c->is_ending) return;
    c->is_ending = true;
    set_deadline(c, why, 0);
}

// STORE-9: the host closes a registered client when half a record, or unsent replies, have been pending for 5 s.
static void update_deadline(client *c, bool ended_record) {
    if (!c->registration || c->is_ending) return;
    bool is_stuck = c->in.size || c->out.size;
    if (!is_stuck || ended_record) env_set_timer(c->host->store.env, &c->deadline, ENV_NEVER);
    if (is_stuck && !c->deadline.armed) set_deadline(c, CLOSING_STUCK, LIMIT_STORE_CLIENT_MS);
}

static void make_room(host *h) {
    if (h->new_count < h->closings.of[CLOSING_NEW_COUNT].limit) return;
    list_each(l, &h->clients) {
        client *c = list_entry(l, client, link);
        if (c->registration) continue;
        close_client(c, CLOSING_NEW_COUNT);
        return;
    }
}

// ---- Replies ------------------------------------------------------------------------------------
static void send_replies(client *c) {
    if (!c->out.size) return;
    struct iovec part = { c->out.data, c->out.size };
    size_t done = connection_send(c->connection, &part, 1);
    memmove(c->out.data, c->out.data + done, c->out.size - done);
    c->out.size -= done;
    update_deadline(c, false);
}

// Without memory the connection closes soon: the client then repeats its requests.
static void put_reply(client *c, uint64_t request, store_outcome outcome, const void *value,
                      size_t size) {
    size_t before = c->out.size;
    if (c->is_ending) return;
    store_record_encode(&c->out, &(store_record){ .kind = STORE_REPLY,
                                                  .request = request,
                                                  .outcome = outcome,
                                                  .value = value,
                                                  .size = size });
    if (c->out.size > LIMIT_STORE_UNSENT_BYTES) end_client(c, CLOSING_UNSENT);
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

// ---- Requests -----------------------------------------------------------------------------------
static store_use use_of(const client *c, const char *key) {
    const store_host_options *o = &c->host->options;
    if (o->use_of) return o->use_of(o->user, key);
    return c->registration ? STORE_BY_WORKERS : STORE_REGISTERS;
}

// STORE-7
static gw_status check_set(const client *c, store_use use, const store_record *r, gw_error *error) {
    if (use == STORE_READ_ONLY || (use == STORE_BY_WORKERS && !c->registration))
        return error_set(error, GW_LIMIT, "store: %s may not set %.100s",
                         c->registration ? "a worker" : "a client that is not registered", r->key);
    if (use == STORE_REGISTERS && c->registration)
        return error_set(error, GW_LIMIT, "store: a worker may set only one key like %.100s",
                         r->key);
    if (store_entry_cost(r->key, r->size) > LIMIT_STORE_CLIENT_BYTES - c->set_bytes)
        return error_set(error, GW_LIMIT,
                         "store: one worker has set more than %d bytes of keys and values",
                         LIMIT_STORE_CLIENT_BYTES);
    return GW_OK;
}

// The client that connects again has found its last connection broken.
static void close_predecessor(host *h, const store_entry *registration) {
    list_each(l, &h->clients) {
        client *c = list_entry(l, client, link);
        if (c->registration == registration) drop_client(c);
    }
}

static void register_client(client *c, const store_entry *entry) {
    c->registration = entry;
    c->host->new_count--;
    c->host->registered_count++;
    env_set_timer(c->host->store.env, &c->deadline, ENV_NEVER);
}

static gw_status add_value(client *c, const store_record *r, gw_error *error) {
    host *h = c->host;
    gw_status status = store_table_set(&h->table, r->key, r->value, r->size, r->token, error);
    if (status) return status;
    c->set_bytes += store_entry_cost(r->key, r->size);
    store_notify(&h->store, r->key, r->value, r->size);
    return GW_OK;
}

static void serve_set(client *c, const store_record *r) {
    host *h = c->host;
    const store_entry *entry = store_table_find(&h->table, r->key);
    if (entry && entry->token != r->token) {
        put_reply(c, r->request, STORE_FOUND, entry->value.data, entry->value.size);
        return;
    }
    store_use use = use_of(c, r->key);
    bool registers = use == STORE_REGISTERS && !c->registration;
    if (registers && entry) close_predecessor(h, entry);
    if (registers && h->registered_count >= h->closings.of[CLOSING_REGISTERED_COUNT].limit) {
        end_client(c, CLOSING_REGISTERED_COUNT);
        return;
    }
    gw_error error;
    gw_status status = entry ? GW_OK : check_set(c, use, r, &error);
    if (!status && !entry) status = add_value(c, r, &error);
    if (status) {
        refuse_request(c, r->request, &error);
        return;
    }
    if (registers) register_client(c, store_table_find(&h->table, r->key));
    put_reply(c, r->request, STORE_WAS_SET, NULL, 0);
}

static gw_status park(client *c, const store_record *r, gw_error *error) {
    if (c->parked_count >= LIMIT_STORE_WAITS)
        return error_set(error, GW_LIMIT, "store: one worker waits for more than %d keys",
                         LIMIT_STORE_WAITS);
    parked *w = mem_calloc(sizeof *w);
    if (!w || !store_table_wait(&c->host->table, r->key, &w->wait)) {
        mem_free(w);
        return error_set(error, GW_NO_MEMORY, "store: no memory to wait for %s", r->key);
    }
    w->wait.found = found_for_client;
    w->client = c;
    w->request = r->request;
    list_append(&c->parked, &w->of_client);
    c->parked_count++;
    return GW_OK;
}

static void serve_wait(client *c, const store_record *r) {
    const store_entry *entry = store_table_find(&c->host->table, r->key);
    gw_error error;
    if (entry) {
        put_reply(c, r->request, STORE_FOUND, entry->value.data, entry->value.size);
    } else if (park(c, r, &error)) {
        refuse_request(c, r->request, &error);
    }
}

// Serves the records that have been received whole.
static gw_status serve(client *c, gw_error *error) {
    size_t done = 0;
    while (!c->is_ending) {
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
    update_deadline(c, done > 0);
    return GW_OK;
}

// ---- Events of the connection -------------------------------------------------------------------
static void on_received(void *user, const void *data, size_t count) {
    client *c = user;
    gw_error error;
    if (c->is_ending) return;
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

// ---- New and closed connections -----------------------------------------------------------------
void store_host_take(void *user, connection *l) {
    host *h = user;
    make_room(h);
    client *c = mem_calloc(sizeof *c);
    if (!c) {
        connection_close(l);
        return;
    }
    c->host = h;
    c->connection = l;
    list_init(&c->parked);
    c->deadline.fire = deadline_is_over;
    list_append(&h->clients, &c->link);
    h->new_count++;
    set_deadline(c, CLOSING_NEW_TIME, LIMIT_STORE_CLIENT_MS);
    connection_stream(l, &client_events, c);
    connection_send_handshake(l, &(handshake){ .kind = HANDSHAKE_WELCOME });
}

// STORE-8: at most a quarter of the descriptors that the host may have.
static int64_t new_client_max(const env *e) {
    int64_t quarter = e->descriptor_max / 4;
    bool binds = e->descriptor_max && quarter < LIMIT_STORE_NEW_CLIENTS;
    return !binds ? LIMIT_STORE_NEW_CLIENTS : quarter ? quarter : 1;
}

void clients_init(host *h) {
    list_init(&h->clients);
    const int64_t registered_max = h->options.registered_max;
    h->closings.of[CLOSING_NEW_COUNT].limit = new_client_max(h->store.env);
    h->closings.of[CLOSING_NEW_TIME].limit = LIMIT_STORE_CLIENT_MS;
    h->closings.of[CLOSING_STUCK].limit = LIMIT_STORE_CLIENT_MS;
    h->closings.of[CLOSING_UNSENT].limit = LIMIT_STORE_UNSENT_BYTES;
    h->closings.of[CLOSING_REGISTERED_COUNT].limit =
        registered_max ? registered_max : LIMIT_WORKERS;
}

void clients_close_all(host *h) {
    while (!list_is_empty(&h->clients)) drop_client(list_entry(h->clients.next, client, link));
}
