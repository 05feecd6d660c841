// Connections between nodes: listening, connecting, closing.
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "testing/sim_net.h"
#include "testing/sim_rings.h"

static sim_env_ *of(env *e) {
    return (sim_env_ *)e;
}

// ---- Connecting ---------------------------------------------------------------------------------

// The port in |text|, or -1. The host is a name among others, except that one has two.
static int parse(const char *text, char out[ADDRESS_MAX]) {
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
    snprintf(out, ADDRESS_MAX, "%.*s:%d", size, text, port);
    return port;
}

static gw_status malformed(const char *text, gw_error *error) {
    return error_set(error, GW_INVALID, "\"%.200s\" is not an address: it must be host:port", text);
}

static sim_listener *find_listener(sim *s, const char *name) {
    list_each(l, &s->envs) {
        sim_env_ *x = list_entry(l, sim_env_, link);
        if (x->is_ghost) continue;
        list_each(k, &x->listeners) {
            sim_listener *found = list_entry(k, sim_listener, link);
            if (strcmp(found->name, name) == 0) return found;
        }
    }
    return NULL;
}

bool sim_note_name(sim *s, const char *text, int node) {
    list_each(l, &s->names) {
        sim_name *entry = list_entry(l, sim_name, link);
        if (strcmp(entry->text, text) != 0) continue;
        entry->node = node;
        return true;
    }
    sim_name *n = mem_calloc(sizeof *n);
    if (!n) return false;
    snprintf(n->text, sizeof n->text, "%s", text);
    n->node = node;
    list_append(&s->names, &n->link);
    return true;
}

// The node that listens at |name|, or did; -1: none ever has.
static int find_node(sim *s, const char *name) {
    list_each(l, &s->names) {
        const sim_name *entry = list_entry(l, sim_name, link);
        if (strcmp(entry->text, name) == 0) return entry->node;
    }
    return -1;
}

static void approach(sim_event *ev);
static void accept_connection(sim_event *ev);

// As with a kernel: the stream exists, and takes bytes, before the listener accepts it.
static sim_stream *make_accepted(sim_stream *client, sim_listener *l) {
    sim_stream *server = sim_new_conn(l->env, STREAM_ACCEPTED, accept_connection);
    if (!server) return NULL;
    server->base.class = client->base.class;
    if (server->base.class == &sim_rings_class && !sim_rings_open(client, server)) {
        sim_close_stream(server);
        return NULL;
    }
    snprintf(server->name, sizeof server->name, "node %d:%llu", client->env->node,
             (unsigned long long)client->id);
    server->remote_node = client->env->node;
    server->accepter = l;
    server->peer = client;
    client->peer = server;
    server->approach.env = l->env;
    return server;
}

static void accept_connection(sim_event *ev) {
    sim_stream *server = list_entry(ev, sim_stream, approach);
    sim_listener *l = server->accepter;
    server->accepter = NULL;
    l->base.accepted(l->base.user, &server->base);
}

static void approach(sim_event *ev) {
    sim_stream *client = list_entry(ev, sim_stream, approach);
    sim *s = client->env->sim;
    if (!client->env->is_ghost) client->remote_node = find_node(s, client->name);
    if (sim_is_clogged(s, client->env->node, client->remote_node)) {
        client->holds_approach = true;
        return;
    }
    sim_listener *l = client->env->is_ghost ? NULL : find_listener(s, client->name);
    if (!l) {
        sim_end_after_bytes(client, sim_refused);
        return;
    }
    sim_stream *server = make_accepted(client, l);
    if (!server) {
        sim_end_after_bytes(client, "closed by the peer");
        return;
    }
    s->counts.connections++;
    sim_event_at(s, &server->approach, s->now_ns);
    sim_arrive_later(client);
}

static gw_status connect_over(const stream_class *class, env *e, const char *address,
                              const stream_events *events, void *user, stream **out,
                              gw_error *error) {
    sim_env_ *x = of(e);
    assert(env_held(e));
    char name[ADDRESS_MAX];
    if (parse(address, name) <= 0) return malformed(address, error);
    sim_stream *c = sim_new_conn(x, STREAM_CONNECTING, approach);
    if (!c) return error_set(error, GW_NO_MEMORY, "%s: out of memory", address);
    memcpy(c->name, name, sizeof name);
    c->base.class = class;
    c->base.events = events;
    c->base.user = user;
    sim_event_at(x->sim, &c->approach, x->sim->now_ns + sim_delay_ns(x->sim));
    *out = &c->base;
    return GW_OK;
}

static gw_status sim_connect(env *e, const char *address, const stream_events *events, void *user,
                             stream **out, gw_error *error) {
    return connect_over(&sim_stream_class, e, address, events, user, out, error);
}

static gw_status connect_by_rings(env *e, const char *address, const stream_events *events,
                                  void *user, stream **out, gw_error *error) {
    return connect_over(&sim_rings_class, e, address, events, user, out, error);
}

static gw_status sim_listen(env *e, const char *address, void (*accepted)(void *user, stream *s),
                            void *user, listener **out, char out_bound[ADDRESS_MAX],
                            gw_error *error) {
    sim_env_ *x = of(e);
    assert(env_held(e));
    char name[ADDRESS_MAX];
    int port = parse(address, name);
    if (port < 0) return malformed(address, error);
    if (port == 0) snprintf(strrchr(name, ':'), 16, ":%d", port = x->sim->next_port++);
    if (find_listener(x->sim, name))
        return error_set(error, GW_ADDRESS_IN_USE, "port %d is in use (%s)", port, address);
    sim_listener *l = mem_calloc(sizeof *l);
    if (!l || (!x->is_ghost && !sim_note_name(x->sim, name, x->node))) {
        mem_free(l);
        return error_set(error, GW_NO_MEMORY, "%s: out of memory", address);
    }
    l->base = (listener){ &sim_transport, accepted, user };
    l->env = x;
    memcpy(l->name, name, sizeof name);
    memcpy(out_bound, name, sizeof name);
    list_append(&x->listeners, &l->link);
    *out = &l->base;
    return GW_OK;
}

static void close_listener(sim_listener *l) {
    sim_env_ *x = l->env;
    assert(env_held(&x->base));
    list_each(k, &x->conns) {
        sim_stream *c = list_entry(k, sim_stream, link);
        if (c->accepter == l) sim_close_stream(c);
    }
    list_remove(&l->link);
    mem_free(l);
}

static void sim_listener_close(listener *l) {
    close_listener((sim_listener *)l);
}

// ---- The transport ------------------------------------------------------------------------------

static gw_status check(const char *text, gw_error *error) {
    char name[ADDRESS_MAX];
    return parse(text, name) < 0 ? malformed(text, error) : GW_OK;
}

// Its addresses are those of the transport that it replaces.
const transport sim_transport = {
    .name = "sim",
    .scheme = "tcp",
    .anywhere = "127.0.0.1:0",
    .check = check,
    .listen = sim_listen,
    .listener_close = sim_listener_close,
    .connect = sim_connect,
};

// It has the same listeners, since the connecting end chooses the kind of the streams.
const transport sim_rings_transport = {
    .name = "sim rings",
    .scheme = "shm",
    .anywhere = "127.0.0.1:0",
    .check = check,
    .listen = sim_listen,
    .listener_close = sim_listener_close,
    .connect = connect_by_rings,
};

// ---- Closing everything -------------------------------------------------------------------------

void sim_net_close(sim_env_ *x) {
    env_enter(&x->base);
    while (!list_is_empty(&x->listeners))
        close_listener(list_entry(x->listeners.next, sim_listener, link));
    while (!list_is_empty(&x->conns)) sim_close_stream(list_entry(x->conns.next, sim_stream, link));
    env_leave(&x->base);
}

void sim_net_free(sim *s) {
    for (list_node *l; (l = list_take(&s->dead_conns));) mem_free(list_entry(l, sim_stream, link));
    for (list_node *l; (l = list_take(&s->names));) mem_free(list_entry(l, sim_name, link));
}
