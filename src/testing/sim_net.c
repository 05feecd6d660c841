// Connections between nodes: listening, connecting, closing.
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "testing/sim_net.h"

static sim_env_ *of(env *e) {
    return (sim_env_ *)e;
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
        if (x->is_ghost) continue;
        list_each(k, &x->listeners) {
            listener *found = list_entry(k, listener, link);
            if (strcmp(found->name, name) == 0) return found;
        }
    }
    return NULL;
}

bool sim_note_name(sim *s, const char *text, int node) {
    list_each(l, &s->names) {
        sim_name *known = list_entry(l, sim_name, link);
        if (strcmp(known->text, text) != 0) continue;
        known->node = node;
        return true;
    }
    sim_name *n = mem_calloc(sizeof *n);
    if (!n) return false;
    snprintf(n->text, sizeof n->text, "%s", text);
    n->node = node;
    list_append(&s->names, &n->link);
    return true;
}

// Who listens at |name|, or did; -1: nobody ever.
static int find_node(sim *s, const char *name) {
    list_each(l, &s->names) {
        const sim_name *known = list_entry(l, sim_name, link);
        if (strcmp(known->text, name) == 0) return known->node;
    }
    return -1;
}

static void approach(sim_event *ev);
static void accept_connection(sim_event *ev);

// As a kernel does: the stream is there, and takes bytes, before somebody accepts it.
static conn *make_accepted(conn *client, listener *l) {
    conn *server = sim_new_conn(l->env, STREAM_ACCEPTED, accept_connection);
    if (!server) return NULL;
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
    conn *server = list_entry(ev, conn, approach);
    listener *l = server->accepter;
    server->accepter = NULL;
    l->accepted(l->user, server);
}

static void approach(sim_event *ev) {
    conn *client = list_entry(ev, conn, approach);
    sim *s = client->env->sim;
    if (!client->env->is_ghost) client->remote_node = find_node(s, client->name);
    if (sim_is_clogged(s, client->env->node, client->remote_node)) {
        client->holds_approach = true;
        return;
    }
    listener *l = client->env->is_ghost ? NULL : find_listener(s, client->name);
    if (!l) {
        sim_end_after_bytes(client, sim_refused);
        return;
    }
    conn *server = make_accepted(client, l);
    if (!server) {
        sim_end_after_bytes(client, "closed by the peer");
        return;
    }
    s->counts.connections++;
    sim_event_at(s, &server->approach, s->now_ns);
    sim_arrive_later(client);
}

gw_status sim_connect(env *e, const char *address, const conn_events *events, void *user,
                      conn **out, gw_error *error) {
    sim_env_ *x = of(e);
    assert(env_held(e));
    char name[ENV_ADDRESS_MAX];
    if (parse(address, name) <= 0) return malformed(address, error);
    conn *c = sim_new_conn(x, STREAM_CONNECTING, approach);
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
    if (!l || (!x->is_ghost && !sim_note_name(x->sim, name, x->node))) {
        mem_free(l);
        return error_set(error, GW_NO_MEMORY, "%s: out of memory", address);
    }
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
    sim_env_ *x = l->env;
    assert(env_held(&x->base));
    list_each(k, &x->conns) {
        conn *c = list_entry(k, conn, link);
        if (c->accepter == l) sim_conn_close(c);
    }
    list_remove(&l->link);
    mem_free(l);
}

// ---- Closing everything ----

void sim_net_close(sim_env_ *x) {
    env_enter(&x->base);
    while (!list_is_empty(&x->listeners))
        sim_listener_close(list_entry(x->listeners.next, listener, link));
    while (!list_is_empty(&x->conns)) sim_conn_close(list_entry(x->conns.next, conn, link));
    env_leave(&x->base);
}

void sim_net_free(sim *s) {
    for (list_node *l; (l = list_take(&s->dead_conns));) mem_free(list_entry(l, conn, link));
    for (list_node *l; (l = list_take(&s->names));) mem_free(list_entry(l, sim_name, link));
}
