// The store at another worker.
#include "store/store_internal.h"

#include "base/log.h"
#include "base/machine.h"
#include "base/mem.h"
#include "base/status.h"
#include "net/connection.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define MS ((int64_t)1000000)

enum { RETRY_FIRST_MS = 10, RETRY_MAX_MS = 250, LACKS_MS = 5000 };

// The event that the client awaits from the host.
typedef enum client_state {
    CLIENT_AWAITING_RETRY,    // the time of the next attempt
    CLIENT_AWAITING_OPEN,     // the connect
    CLIENT_AWAITING_WELCOME,  // the answer to the handshake
    CLIENT_CONNECTED,         // replies
    CLIENT_GONE,              // nothing any more
} client_state;

typedef enum client_event {
    CLIENT_RETRY_DUE,
    CLIENT_OPENED,
    CLIENT_ELSEWHERE,  // this address does not lead to it, and there is another
    CLIENT_WELCOMED,
    CLIENT_BROKEN,
    CLIENT_DEAD,
} client_event;

typedef struct client {
    store store;
    routes routes;  // to the host
    uint8_t *staging;
    client_state state;
    gw_error why;  // the last error
    connection *connection;
    timer retry;
    int tries;            // since it was connected
    int64_t gives_up_ns;  // ENV_NEVER: not
    int64_t
        lacks_since_ns;  // that this process cannot make a connection, for want of a descriptor; 0: it can
    bool was_connected;
    int64_t
        moves_ms;    // how long another host may take to follow one that has gone; 0: none follows
    waiter *opener;  // waits for the first connection, or for the end

    list_node requests;  // of type request, oldest first
    uint64_t last_request;
    map left_waits;  // by key, the numbers of waits that the host has and no thread waits for any more
    bytes registration;  // STORE-7: the record that has registered this worker; empty: none has
    bytes in, out;
    size_t out_done;
} client;

// On the stack of the waiting thread.
typedef struct request {
    list_node link;
    store_record record;
    waiter waiter;
    bytes *out_value;  // may be NULL
    gw_status status;
    gw_error *error;
} request;

// ---- Requests and replies -----------------------------------------------------------------------
static void finish(client *c, request *r) {
    list_remove(&r->link);
    env_wake(c->store.env, &r->waiter);
}

static void send_requests(client *c) {
    if (c->state != CLIENT_CONNECTED || c->out.size == c->out_done) return;
    struct iovec part = { c->out.data + c->out_done, c->out.size - c->out_done };
    c->out_done += connection_send(c->connection, &part, 1);
    if (c->out_done < c->out.size) return;
    c->out.size = c->out_done = 0;
}

// A number is kept in place of a pointer.
static void forget_left_wait(client *c, uint64_t number) {
    for (map_cursor e = { 0 }; map_next(&c->left_waits, &e);) {
        if ((uintptr_t)e.value != number) continue;
        map_take_name(&c->left_waits, e.name);
        return;
    }
}

static void put_request(client *c, request *r) {
    store_record_encode(&c->out, &r->record);
    if (!c->out.failed) return;
    c->out.failed = false;
    r->status = error_set(r->error, GW_NO_MEMORY, "store: no memory for a request");
    finish(c, r);
}

static void on_reply(client *c, const store_record *reply) {
    c->tries = 0;
    list_each(l, &c->requests) {
        request *r = list_entry(l, request, link);
        if (r->record.request != reply->request) continue;
        r->record.outcome = reply->outcome;
        if (reply->outcome == STORE_REFUSED) {
            r->status = error_set(r->error, GW_LIMIT, "%.*s", (int)reply->size, reply->value);
        } else if (r->out_value && reply->outcome == STORE_FOUND) {
            bytes_put(r->out_value, reply->value, reply->size);
            if (r->out_value->failed)
                r->status = error_set(r->error, GW_NO_MEMORY, "store: no memory for a value");
        }
        finish(c, r);
        return;
    }
    forget_left_wait(c, reply->request);
}

static gw_status take_replies(client *c, gw_error *error) {
    size_t done = 0;
    for (;;) {
        store_record r;
        size_t taken;
        gw_status status =
            store_record_decode(c->in.data + done, c->in.size - done, &r, &taken, error);
        if (status) return status;
        if (taken == 0) break;
        done += taken;
        if (r.kind != STORE_REPLY)
            return error_set(error, GW_PROTOCOL, "store: a request from the host");
        on_reply(c, &r);
    }
    memmove(c->in.data, c->in.data + done, c->in.size - done);
    c->in.size -= done;
    return GW_OK;
}

// ---- The machine --------------------------------------------------------------------------------
static const connection_events events;
static void apply(client *c, client_event event);

static void retry_in(client *c, int64_t delay_ns) {
    env_set_timer(c->store.env, &c->retry, env_now_ns(c->store.env) + delay_ns);
}

static void drop_connection(client *c) {
    env_set_timer(c->store.env, &c->retry, ENV_NEVER);
    connection_close(c->connection);
    c->connection = NULL;
    c->in.size = c->out.size = c->out_done = 0;
    map_fini(&c->left_waits);
}

static void die(client *c, gw_status status, const char *what, const char *why) {
    char text[GW_ERROR_TEXT_MAX];
    snprintf(text, sizeof text, "%s", why);
    error_set(&c->why, status, "the store at %s %s: %.500s", c->routes.text, what, text);
    apply(c, CLIENT_DEAD);
}

// A process gives no descriptor back while it waits here, but another thread of it may.
static bool lacks_for_good(const client *c) {
    return c->lacks_since_ns && env_now_ns(c->store.env) - c->lacks_since_ns >= LACKS_MS * MS;
}

static void note_lack(client *c, bool lacks) {
    if (!lacks)
        c->lacks_since_ns = 0;
    else if (!c->lacks_since_ns)
        c->lacks_since_ns = env_now_ns(c->store.env);
}

// All addresses have failed, each with its own error. A host may start later, but a lost host does not return; another
// one may follow it.
static void end_round(client *c) {
    c->why = *error_kept(c->routes.why);
    switch (c->why.status) {
    case GW_INVALID: apply(c, CLIENT_DEAD); return;
    case GW_PROTOCOL:
    case GW_MISMATCH:
        die(c, c->why.status, "cannot be used", error_kept(c->routes.why)->text);
        return;
    default:
        if (lacks_for_good(c)) {
            die(c, c->why.status, "cannot be reached", error_kept(c->routes.why)->text);
        } else if (c->why.status == GW_NOT_FOUND && c->was_connected && !c->moves_ms) {
            die(c, GW_DISCONNECTED, "is gone", error_kept(c->routes.why)->text);
        } else {
            apply(c, CLIENT_BROKEN);
        }
    }
}

static void attempt_failed(client *c, const gw_error *why, bool names_address) {
    if (routes_failed(&c->routes, why, names_address)) {
        apply(c, CLIENT_ELSEWHERE);
    } else {
        end_round(c);
    }
}

static void connect_here(client *c) {
    gw_error error;
    env *e = c->store.env;
    gw_status status = connection_connect(e, routes_at(&c->routes), NULL, c->staging, &events, c,
                                          &c->connection, &error);
    note_lack(c, status == GW_SYSTEM);
    if (status) {
        attempt_failed(c, &error, true);
    } else {
        int64_t time_ns = LIMIT_HANDSHAKE_MS * MS / c->routes.count;
        connection_set_deadline(c->connection, env_now_ns(e) + time_ns);
    }
}

static void begin_round(client *c) {
    if (routes_begin(&c->routes)) {
        connect_here(c);
    } else {
        end_round(c);
    }
}

static void connect_elsewhere(client *c) {
    drop_connection(c);
    connect_here(c);
}

static void say_handshake(client *c) {
    connection_send_handshake(c->connection, &(handshake){ .kind = HANDSHAKE_STORE });
}

// STORE-3: a client whose connection breaks connects again and repeats the requests that were not answered; before
// them, the request by which the host recognises a worker of its job.
static void repeat_requests(client *c) {
    c->was_connected = true;
    connection_stream(c->connection, &events, c);
    bytes_put(&c->out, c->registration.data, c->registration.size);
    if (c->out.failed) {
        c->out.failed = false;
        c->out.size = 0;
    }
    list_each(l, &c->requests) put_request(c, list_entry(l, request, link));
    send_requests(c);
    if (c->opener) env_wake(c->store.env, c->opener);
    c->opener = NULL;
}

static void back_off(client *c) {
    drop_connection(c);
    int64_t delay_ms = RETRY_FIRST_MS;
    for (int i = 0; i < c->tries && delay_ms < RETRY_MAX_MS; i++) delay_ms *= 2;
    c->tries++;
    retry_in(c, (delay_ms < RETRY_MAX_MS ? delay_ms : RETRY_MAX_MS) * MS);
}

// STORE-10: after a pause, if the client has received no answer since it connected.
static void ask_again(client *c) {
    int64_t time_ms = c->moves_ms ? c->moves_ms : LIMIT_RECONNECT_MS;
    c->gives_up_ns = env_now_ns(c->store.env) + time_ms * MS;
    if (c->tries) {
        back_off(c);
    } else {
        drop_connection(c);
        c->tries++;
        retry_in(c, 0);
    }
}

static void give_up(client *c) {
    drop_connection(c);
    while (!list_is_empty(&c->requests)) {
        request *r = list_entry(c->requests.next, request, link);
        r->status = c->why.status;
        if (r->error) *r->error = c->why;
        finish(c, r);
    }
    if (c->opener) env_wake(c->store.env, c->opener);
    c->opener = NULL;
}

typedef MACHINE_RULE(client_state, client_event, client *c) rule;

// clang-format off
static const rule rules[] = {
    { CLIENT_AWAITING_RETRY,   CLIENT_RETRY_DUE, CLIENT_AWAITING_OPEN,    begin_round,     "the next attempt begins at the address that has worked last" },
    { CLIENT_AWAITING_RETRY,   CLIENT_DEAD,      CLIENT_GONE,             give_up,         "the time is over" },
    { CLIENT_AWAITING_OPEN,    CLIENT_OPENED,    CLIENT_AWAITING_WELCOME, say_handshake,   "the connecting side speaks first" },
    { CLIENT_AWAITING_OPEN,    CLIENT_ELSEWHERE, CLIENT_AWAITING_OPEN,    connect_elsewhere, "another address of the host may work" },
    { CLIENT_AWAITING_OPEN,    CLIENT_BROKEN,    CLIENT_AWAITING_RETRY,   back_off,        "the host may start later" },
    { CLIENT_AWAITING_OPEN,    CLIENT_DEAD,      CLIENT_GONE,             give_up,         "the host was reached before but no longer listens, or this process cannot open a connection" },
    { CLIENT_AWAITING_WELCOME, CLIENT_WELCOMED,  CLIENT_CONNECTED,        repeat_requests, "requests without a reply may not have arrived" },
    { CLIENT_AWAITING_WELCOME, CLIENT_ELSEWHERE, CLIENT_AWAITING_OPEN,    connect_elsewhere, "another host is at this address, or the connection broke" },
    { CLIENT_AWAITING_WELCOME, CLIENT_BROKEN,    CLIENT_AWAITING_RETRY,   back_off,        "the network failed, or the host does not run the store yet" },
    { CLIENT_AWAITING_WELCOME, CLIENT_DEAD,      CLIENT_GONE,             give_up,         "another service listens there" },
    { CLIENT_CONNECTED,        CLIENT_BROKEN,    CLIENT_AWAITING_RETRY,   ask_again,       "a closed connection does not prove that the peer has ended" },
    { CLIENT_CONNECTED,        CLIENT_DEAD,      CLIENT_GONE,             give_up,         "the host breaks the protocol" },
};
// clang-format on

static void apply(client *c, client_event event) {
    const rule *r = machine_find(rules, sizeof rules, sizeof *rules, c->state, event);
    assert(r);  // all events are local
    c->state = r->to;
    r->action(c);
}

static void retry_is_due(timer *t) {
    client *c = (client *)((char *)t - offsetof(client, retry));
    if (env_now_ns(c->store.env) < c->gives_up_ns) {
        apply(c, CLIENT_RETRY_DUE);
    } else {
        die(c, GW_DISCONNECTED, "does not answer any more", c->why.text);
    }
}

// ---- Events of the connection -------------------------------------------------------------------
static void on_opened(void *user) {
    apply(user, CLIENT_OPENED);
}

static void on_handshake(void *user, const handshake *h, const gw_error *bad) {
    client *c = user;
    if (!h) {
        attempt_failed(c, bad, false);
    } else if (h->kind == HANDSHAKE_WELCOME) {
        routes_worked(&c->routes);
        apply(c, CLIENT_WELCOMED);
    } else if (h->kind == HANDSHAKE_REFUSAL && h->reason == REFUSED_NO_STORE) {
        gw_error error;
        error_set(&error, GW_DISCONNECTED, "%s", h->text);
        attempt_failed(c, &error, false);
    } else if (h->kind == HANDSHAKE_REFUSAL) {
        die(c, GW_MISMATCH, "refused this worker", h->text);
    } else {
        die(c, GW_PROTOCOL, "cannot be used",
            "it answered the first message with a first message of its own");
    }
}

static void on_received(void *user, const void *data, size_t count) {
    client *c = user;
    gw_error error;
    bytes_put(&c->in, data, count);
    if (c->in.failed) {
        c->in.failed = false;
        error_set(&c->why, GW_NO_MEMORY, "no memory for a reply");
        apply(c, CLIENT_BROKEN);
        return;
    }
    gw_status status = c->in.size ? take_replies(c, &error) : GW_OK;
    if (status) die(c, status, "broke the protocol", error.text);
}

static void on_writable(void *user) {
    send_requests(user);
}

static void on_closed(void *user, const gw_error *why) {
    client *c = user;
    if (c->state != CLIENT_CONNECTED) {
        attempt_failed(c, why, false);
        return;
    }
    c->why = *why;
    apply(c, CLIENT_BROKEN);
}

static const connection_events events = {
    .opened = on_opened,
    .handshake = on_handshake,
    .received = on_received,
    .writable = on_writable,
    .closed = on_closed,
};

// ---- Calls --------------------------------------------------------------------------------------
static void send_request(client *c, request *r) {
    void *left = r->record.kind == STORE_WAIT ? map_take_name(&c->left_waits, r->record.key) : NULL;
    r->record.request = left ? (uintptr_t)left : ++c->last_request;
    list_append(&c->requests, &r->link);
    if (c->state == CLIENT_CONNECTED && !left) put_request(c, r);
    send_requests(c);
}

static gw_status ask(client *c, request *r, int64_t until_ns) {
    if (c->state == CLIENT_GONE) {
        if (r->error) *r->error = c->why;
        return c->why.status;
    }
    send_request(c, r);
    env_wait(c->store.env, &r->waiter, until_ns);
    if (!list_has(&r->link)) return r->status;
    list_remove(&r->link);
    bool answers = c->state == CLIENT_CONNECTED && r->record.kind == STORE_WAIT;
    if (answers) {
        // Without memory the host keeps one more.
        map_put_name(&c->left_waits, r->record.key, (void *)(uintptr_t)r->record.request);
        return error_set(r->error, GW_TIMEOUT, "store: no worker has set %s", r->record.key);
    }
    return error_set(r->error, GW_TIMEOUT, "store: %s has not answered a request about %s",
                     c->routes.text, r->record.key);
}

// The reply to number 0 has no request. Without memory the host closes this client after a while, when it
// has connected again.
static void remember_registration(client *c, store_record r) {
    r.request = 0;
    bytes_fini(&c->registration);
    store_record_encode(&c->registration, &r);
    if (c->registration.failed) bytes_fini(&c->registration);
}

static gw_status client_set(store *st, const char *key, const void *value, size_t size,
                            int64_t until_ns, bool registers, bool *out_set, bytes *out_found,
                            gw_error *error) {
    client *c = (client *)st;
    request r = { .record = { .kind = STORE_SET, .value = value, .size = size },
                  .waiter.what = key,
                  .out_value = out_found,
                  .error = error };
    r.record.token = env_random_u64(st->env);
    snprintf(r.record.key, sizeof r.record.key, "%s", key);
    gw_status status = ask(c, &r, until_ns);
    if (status) return status;
    *out_set = r.record.outcome == STORE_WAS_SET;
    if (*out_set && registers) remember_registration(c, r.record);
    return GW_OK;
}

static gw_status client_wait(store *st, const char *key, int64_t until_ns, bytes *out,
                             gw_error *error) {
    request r = {
        .record = { .kind = STORE_WAIT }, .waiter.what = key, .out_value = out, .error = error
    };
    snprintf(r.record.key, sizeof r.record.key, "%s", key);
    return ask((client *)st, &r, until_ns);
}

static void client_close(store *st) {
    client *c = (client *)st;
    assert(list_is_empty(&c->requests));
    drop_connection(c);
    bytes_fini(&c->in);
    bytes_fini(&c->out);
    bytes_fini(&c->registration);
    routes_fini(&c->routes);
    mem_free(c->staging);
    mem_free(c);
}

static void client_expect_move(store *st, int64_t ms) {
    ((client *)st)->moves_ms = ms;
}

static const store_class client_class = {
    .set = client_set,
    .wait = client_wait,
    .expect_move = client_expect_move,
    .close = client_close,
};

gw_status store_open_client(env *e, const char *addresses, int64_t until_ns, store **out,
                            gw_error *error) {
    client *c = mem_calloc(sizeof *c);
    if (!c) return error_set(error, GW_NO_MEMORY, "no memory for the store");
    c->store = (store){ .class = &client_class, .env = e };
    c->retry.fire = retry_is_due;
    c->gives_up_ns = ENV_NEVER;
    list_init(&c->requests);
    bool has_routes = routes_init(&c->routes, e, addresses);
    c->staging = mem_alloc(STAGING_BYTES);
    gw_status status = GW_OK;
    if (!has_routes || !c->staging) {
        status = error_set(error, GW_NO_MEMORY, "no memory for the store");
        goto close_client;
    }
    waiter w = { .what = "the store" };
    c->opener = &w;
    retry_in(c, 0);
    env_wait(e, &w, until_ns);
    c->opener = NULL;
    if (c->state == CLIENT_GONE) {
        status = c->why.status;
        if (error) *error = c->why;
    } else if (!c->was_connected) {
        status = error_set(error, GW_TIMEOUT, "no store at %s%s%.500s", addresses,
                           c->why.text[0] ? ": " : "", c->why.text);
    }
    if (status) goto close_client;
    *out = &c->store;
    return GW_OK;

close_client:
    client_close(&c->store);
    return status;
}
