// Streams between nodes. Bytes keep their order; when they arrive, and in what pieces, is the seed's choice.
#include "testing/sim_parts.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"

enum {
    SPLIT_PER_MILLION = 250000,   // deliveries of a part of what is there
    PARTIAL_PER_MILLION = 50000,  // sends that take less than they could
    SMALL_WINDOW_PER_MILLION = 100000,
    SMALL_WINDOW_MIN = 64,
};

static const char refused[] = "Connection refused";

typedef enum stream_state {
    STREAM_CONNECTING,
    STREAM_ACCEPTED,  // not adopted yet
    STREAM_OPEN,
    STREAM_CLOSED,
} stream_state;

struct conn {
    sim_env_ *env;
    list_node link;
    stream_state state;
    uint64_t id;
    char name[ENV_ADDRESS_MAX];  // where it leads, for messages
    const conn_events *events;
    void *user;
    conn *peer;  // NULL when it has closed, or before there is one

    // what the peer has sent, a ring
    char *bytes;
    size_t capacity, start, size;
    const char *end;  // why this stream ends after those bytes; NULL while it does not
    bool is_cut;      // what is sent from here on is lost

    sim_event arrival;   // of the above
    sim_event room;      // the peer has made some, or had some left
    bool wants_room;     // the last send took less than all
    sim_event approach;  // of a connection to its listener
};

struct listener {
    sim_env_ *env;
    list_node link;
    char name[ENV_ADDRESS_MAX];
    void (*accepted)(void *user, conn *c);
    void *user;
};

static sim_env_ *of(env *e) {
    return (sim_env_ *)e;
}

// ---- Life of a stream ----

static void arrive(sim_event *ev);
static void make_room(sim_event *ev);
static void approach(sim_event *ev);

static size_t choose_window(sim *s) {
    size_t window = (size_t)s->options.window_bytes;
    if (sim_chance(s, SMALL_WINDOW_PER_MILLION))
        window = SMALL_WINDOW_MIN + sim_random_below(s, window);
    return window;
}

static conn *new_conn(sim_env_ *x, stream_state state) {
    sim *s = x->sim;
    size_t window = choose_window(s);
    conn *c = mem_calloc(sizeof *c);
    char *bytes = mem_alloc(window);
    if (!c || !bytes) {
        mem_free(c);
        mem_free(bytes);
        return NULL;
    }
    c->env = x;
    c->state = state;
    c->id = (uint64_t)++s->next_conn;
    c->bytes = bytes;
    c->capacity = window;
    sim_event_init(s, &c->arrival, x, "bytes arrive", arrive);
    sim_event_init(s, &c->room, x, "there is room to send", make_room);
    sim_event_init(s, &c->approach, NULL, "a connection comes", approach);
    list_append(&x->conns, &c->link);
    return c;
}

// Nothing happens on it any more. Its struct stays, so that a use of it is found.
static void end_conn(conn *c) {
    sim *s = c->env->sim;
    c->state = STREAM_CLOSED;
    sim_event_at(s, &c->arrival, ENV_NEVER);
    sim_event_at(s, &c->room, ENV_NEVER);
    sim_event_at(s, &c->approach, ENV_NEVER);
    mem_free(c->bytes);
    c->bytes = NULL;
    c->size = 0;
    list_remove(&c->link);
    list_append(&s->dead_conns, &c->link);
}

static void arrive_later(conn *c) {
    if (!sim_event_is_set(&c->arrival))
        sim_event_at(c->env->sim, &c->arrival, c->env->sim->now_ns + sim_delay_ns(c->env->sim));
}

static void end_after_bytes(conn *c, const char *why) {
    if (!c->end) c->end = why;
    arrive_later(c);
}

void sim_conn_close(conn *c) {
    assert(env_held(&c->env->base));
    if (c->state == STREAM_CLOSED) return;
    sim_note(c->env->sim, c->env->sim->running, "closes a connection", c->id, 0);
    conn *peer = c->peer;
    end_conn(c);
    if (!peer) return;
    peer->peer = NULL;
    end_after_bytes(peer, "closed by the peer");
}

// ---- Faults ----

static void lose_from_some_byte(conn *c) {
    sim *s = c->env->sim;
    c->size = sim_random_below(s, c->size + 1);
    c->is_cut = true;
    end_after_bytes(c, "the connection was cut");
}

static void cut(conn *c) {
    sim *s = c->env->sim;
    sim_note(s, NULL, "cuts a connection", c->id, 0);
    s->counts.cuts++;
    conn *peer = c->peer;
    lose_from_some_byte(c);
    c->peer = NULL;
    if (!peer) return;
    lose_from_some_byte(peer);
    peer->peer = NULL;
}

void sim_cut_all(sim *s) {
    list_each(l, &s->envs) {
        sim_env_ *x = list_entry(l, sim_env_, link);
        list_each(k, &x->conns) {
            conn *c = list_entry(k, conn, link);
            if (c->state == STREAM_OPEN && !c->is_cut) cut(c);
        }
    }
}

// ---- Bytes ----

static void put_bytes(conn *to, const char *bytes, size_t size) {
    while (size > 0) {
        size_t at = (to->start + to->size) % to->capacity;
        size_t piece = to->capacity - at < size ? to->capacity - at : size;
        memcpy(to->bytes + at, bytes, piece);
        to->size += piece;
        bytes += piece;
        size -= piece;
    }
}

static size_t total_size(const struct iovec *parts, int count) {
    size_t size = 0;
    for (int i = 0; i < count; i++) size += parts[i].iov_len;
    return size;
}

static size_t choose_taken(const conn *c, size_t size) {
    sim *s = c->env->sim;
    size_t room = c->peer->capacity - c->peer->size;
    size_t taken = size < room ? size : room;
    if (taken > 1 && sim_chance(s, PARTIAL_PER_MILLION)) taken = 1 + sim_random_below(s, taken);
    return taken;
}

size_t sim_send(conn *c, const struct iovec *parts, int count) {
    sim *s = c->env->sim;
    assert(env_held(&c->env->base) && c->state != STREAM_CLOSED);
    size_t size = total_size(parts, count);
    if (c->state == STREAM_CONNECTING) {
        c->wants_room = true;
        return 0;
    }
    if (!c->peer || size == 0) return size;  // goes where nobody is
    size_t taken = choose_taken(c, size), left = taken;
    for (int i = 0; left > 0; i++) {
        size_t piece = parts[i].iov_len < left ? parts[i].iov_len : left;
        put_bytes(c->peer, parts[i].iov_base, piece);
        left -= piece;
    }
    sim_note(s, s->running, "sends", c->id, taken);
    if (taken > 0) arrive_later(c->peer);
    if (taken < size) {
        c->wants_room = true;
        if (c->peer->size < c->peer->capacity)
            sim_event_at(s, &c->room, s->now_ns + sim_delay_ns(s));
    }
    return taken;
}

static void make_room(sim_event *ev) {
    conn *c = list_entry(ev, conn, room);
    if (c->state != STREAM_OPEN || !c->wants_room) return;
    c->wants_room = false;
    c->events->writable(c->user);
}

// How much of what is there comes now.
static size_t choose_piece(sim *s, size_t size) {
    if (size > 1 && sim_chance(s, SPLIT_PER_MILLION)) return 1 + sim_random_below(s, size);
    return size;
}

static void deliver(conn *c, size_t size) {
    sim *s = c->env->sim;
    while (size > 0 && c->state == STREAM_OPEN) {
        void *into = NULL;
        size_t room = 0;
        c->events->buffer(c->user, &into, &room);
        if (c->state != STREAM_OPEN) return;
        assert(room > 0);
        size_t piece = size < room ? size : room;
        if (piece > c->capacity - c->start) piece = c->capacity - c->start;
        memcpy(into, c->bytes + c->start, piece);
        c->start = (c->start + piece) % c->capacity;
        c->size -= piece;
        size -= piece;
        s->counts.bytes += piece;
        sim_note(s, s->running, "receives", c->id, piece);
        c->events->received(c->user, piece);
    }
}

static void end_stream(conn *c) {
    gw_error error;
    gw_status status = c->end == refused ? GW_NOT_FOUND : GW_DISCONNECTED;
    error_set(&error, status, "%s: %s", c->name, c->end);
    sim_note(c->env->sim, c->env->sim->running, "loses a connection", c->id, 0);
    if (c->peer) c->peer->peer = NULL;
    end_conn(c);
    c->events->closed(c->user, &error);
}

static void arrive(sim_event *ev) {
    conn *c = list_entry(ev, conn, arrival);
    sim *s = c->env->sim;
    s->counts.deliveries++;
    if (c->state == STREAM_CONNECTING && !c->end) {
        c->state = STREAM_OPEN;
        if (c->wants_room) sim_event_at(s, &c->room, s->now_ns + sim_delay_ns(s));
        c->events->opened(c->user);
    } else if (c->state == STREAM_OPEN && c->size > 0) {
        if (!c->is_cut && sim_chance(s, s->options.cut_per_million)) cut(c);
        deliver(c, choose_piece(s, c->size));
    } else if (c->end) {
        end_stream(c);
        return;
    }
    if (c->state != STREAM_OPEN) return;
    if (c->peer && c->peer->wants_room && !sim_event_is_set(&c->peer->room))
        sim_event_at(s, &c->peer->room, s->now_ns + sim_delay_ns(s));
    if (c->size > 0 || c->end) arrive_later(c);
}

void sim_adopt(conn *c, const conn_events *events, void *user) {
    assert(env_held(&c->env->base) && c->state == STREAM_ACCEPTED);
    c->events = events;
    c->user = user;
    c->state = STREAM_OPEN;
}

// ---- Connecting ----

// The port in |text|, or -1. The host is a name among others, except that one has two.
static int parse(const char *text, char out[ENV_ADDRESS_MAX]) {
    const char *colon = strrchr(text, ':');
    if (!colon || colon == text || !colon[1] || strlen(text) > 100) return -1;
    int port = 0;
    for (const char *c = colon + 1; *c; c++) {
        if (*c < '0' || *c > '9' || port > 65535) return -1;
        port = port * 10 + (*c - '0');
    }
    if (port > 65535) return -1;
    int size = (int)(colon - text);
    if (strncmp(text, "localhost:", 10) == 0) text = "127.0.0.1", size = 9;
    snprintf(out, ENV_ADDRESS_MAX, "%.*s:%d", size, text, port);
    return port;
}

static gw_status malformed(const char *text, gw_error *error) {
    return error_set(error, GW_INVALID, "\"%.200s\" is no address: it must be host:port", text);
}

static listener *find_listener(sim *s, const char *name) {
    list_each(l, &s->envs) {
        sim_env_ *x = list_entry(l, sim_env_, link);
        list_each(k, &x->listeners) {
            listener *found = list_entry(k, listener, link);
            if (strcmp(found->name, name) == 0) return found;
        }
    }
    return NULL;
}

static void accept_connection(conn *client, listener *l) {
    sim *s = l->env->sim;
    conn *server = new_conn(l->env, STREAM_ACCEPTED);
    if (!server) {
        end_after_bytes(client, "closed by the peer");
        return;
    }
    s->counts.connections++;
    snprintf(server->name, sizeof server->name, "node %d:%llu", client->env->node,
             (unsigned long long)client->id);
    server->peer = client;
    client->peer = server;
    arrive_later(client);
    l->accepted(l->user, server);
}

// First it comes to the node, then one of its threads sees to it.
static void approach(sim_event *ev) {
    conn *client = list_entry(ev, conn, approach);
    listener *l = find_listener(client->env->sim, client->name);
    if (!l) {
        end_after_bytes(client, refused);
    } else if (ev->env != l->env) {
        ev->env = l->env;
        sim_event_at(l->env->sim, ev, l->env->sim->now_ns);
    } else {
        accept_connection(client, l);
    }
}

gw_status sim_connect(env *e, const char *address, const conn_events *events, void *user,
                      conn **out, gw_error *error) {
    sim_env_ *x = of(e);
    assert(env_held(e));
    char name[ENV_ADDRESS_MAX];
    if (parse(address, name) <= 0) return malformed(address, error);
    conn *c = new_conn(x, STREAM_CONNECTING);
    if (!c) return error_set(error, GW_NO_MEMORY, "%s: out of memory", address);
    memcpy(c->name, name, sizeof name);
    c->events = events;
    c->user = user;
    sim_event_at(x->sim, &c->approach, x->sim->now_ns + sim_delay_ns(x->sim));
    *out = c;
    return GW_OK;
}

gw_status sim_listen(env *e, const char *address, void (*accepted)(void *user, conn *c), void *user,
                     listener **out, char out_bound[ENV_ADDRESS_MAX], gw_error *error) {
    sim_env_ *x = of(e);
    assert(env_held(e));
    char name[ENV_ADDRESS_MAX];
    int port = parse(address, name);
    if (port < 0) return malformed(address, error);
    if (port == 0) snprintf(strrchr(name, ':'), 16, ":%d", port = x->sim->next_port++);
    if (find_listener(x->sim, name))
        return error_set(error, GW_ADDRESS_IN_USE, "port %d is in use (%s)", port, address);
    listener *l = mem_calloc(sizeof *l);
    if (!l) return error_set(error, GW_NO_MEMORY, "%s: out of memory", address);
    l->env = x;
    l->accepted = accepted;
    l->user = user;
    memcpy(l->name, name, sizeof name);
    memcpy(out_bound, name, sizeof name);
    list_append(&x->listeners, &l->link);
    *out = l;
    return GW_OK;
}

void sim_listener_close(listener *l) {
    assert(env_held(&l->env->base));
    list_remove(&l->link);
    mem_free(l);
}

// ---- Closing everything ----

// Connections on their way to a listener of |x| find nobody there.
static void turn_away(sim_env_ *x) {
    list_each(l, &x->sim->envs) {
        sim_env_ *from = list_entry(l, sim_env_, link);
        list_each(k, &from->conns) {
            conn *c = list_entry(k, conn, link);
            if (c->approach.env != x || !sim_event_is_set(&c->approach)) continue;
            c->approach.env = NULL;
            sim_event_at(x->sim, &c->approach, x->sim->now_ns);
        }
    }
}

void sim_net_close(sim_env_ *x) {
    env_enter(&x->base);
    while (!list_is_empty(&x->listeners))
        sim_listener_close(list_entry(x->listeners.next, listener, link));
    while (!list_is_empty(&x->conns)) sim_conn_close(list_entry(x->conns.next, conn, link));
    turn_away(x);
    env_leave(&x->base);
}

void sim_net_free(sim *s) {
    for (list_node *l; (l = list_take(&s->dead_conns));) mem_free(list_entry(l, conn, link));
}
