// Making connections: connecting and listening.
#include "net/tcp.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/status.h"

enum {
    BACKLOG = 1024,
    ACCEPT_MAX = 16,               // in one turn
    RETRY_NS = 100 * 1000 * 1000,  // while there are no descriptors at all
};

static os_env *of(env *e) {
    return (os_env *)e;
}

static int open_spare(void) {
    return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

void tcp_init(os_env *o) {
    list_init(&o->conns);
    list_init(&o->listeners);
    list_init(&o->closed_conns);
    list_init(&o->closed_listeners);
    o->spare_fd = open_spare();
}

static void send_at_once(int fd) {
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static gw_status open_socket(const address *a, const char *text, int *out, gw_error *error) {
    *out = socket(a->bytes.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (*out >= 0) return GW_OK;
    return error_set(error, GW_SYSTEM, "%s: socket: %s", text, strerror(errno));
}

// ---- Connecting ----

// A connection to a port of our own that nobody listens on may meet itself: TCP allows two ends to call each other at
// the same time, and the kernel picks our end's port among the same ones.
static bool has_met_itself(const conn *c) {
    address here = { .size = sizeof here.bytes }, there = { .size = sizeof there.bytes };
    if (getsockname(c->fd, (struct sockaddr *)&here.bytes, &here.size)) return false;
    if (getpeername(c->fd, (struct sockaddr *)&there.bytes, &there.size)) return false;
    return address_equal(&here, &there);
}

void conn_finish_connect(conn *c) {
    int error = c->error;
    socklen_t size = sizeof error;
    if (!error && getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &size)) error = errno;
    if (!error && has_met_itself(c)) error = ECONNREFUSED;
    if (error) {
        c->is_refused = error == ECONNREFUSED;
        conn_fail(c, strerror(error));
        return;
    }
    c->state = CONN_OPEN;
    c->polls_writable = c->wants_writable;
    loop_change(c->env, c->fd, &c->source, c->wants_writable ? EPOLLIN | EPOLLOUT : EPOLLIN);
    c->events->opened(c->user);
}

gw_status tcp_connect(env *e, const char *text, const conn_events *events, void *user, conn **out,
                      gw_error *error) {
    os_env *o = of(e);
    assert(loop_lock_held(e));
    address a;
    int fd;
    gw_status status = address_parse(text, &a, error);
    if (!status && address_port(&a) == 0)
        status = error_set(error, GW_INVALID, "%s: nobody can listen on port 0", text);
    if (!status) status = open_socket(&a, text, &fd, error);
    if (status) return status;

    conn *c = conn_new(o, fd, CONN_CONNECTING);
    if (!c) {
        close(fd);
        return error_set(error, GW_NO_MEMORY, "%s: out of memory", text);
    }
    c->events = events;
    c->user = user;
    snprintf(c->name, sizeof c->name, "%s", text);
    send_at_once(fd);
    int failed;
    do {
        failed = connect(fd, (const struct sockaddr *)&a.bytes, a.size);
    } while (failed && errno == EINTR);
    if (failed && errno != EINPROGRESS) {
        c->is_refused = errno == ECONNREFUSED;
        conn_fail_soon(c, errno);
    } else if ((status = loop_add(o, fd, &c->source, EPOLLOUT, error))) {
        conn_defer_free(c);
        return status;
    }
    *out = c;
    return GW_OK;
}

// ---- Listening ----

static void take_connection(listener *l, int fd, const address *peer) {
    conn *c = conn_new(l->env, fd, CONN_ACCEPTED);
    if (!c) {
        close(fd);  // the peer will try again
        return;
    }
    address_format(peer, c->name);
    send_at_once(fd);
    l->accepted(l->user, c);
}

// Without a descriptor the connection would stay where it is and be reported for ever. The spare one makes room to
// take it and close it, which tells the peer; if even that is gone the listener rests for a while.
static void refuse_one(listener *l) {
    os_env *o = l->env;
    if (o->spare_fd >= 0) {
        close(o->spare_fd);
        int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0) close(fd);
        o->spare_fd = open_spare();
        if (fd >= 0 && o->spare_fd >= 0) return;
    }
    loop_change(o, l->fd, &l->source, 0);
    loop_set_timer(&o->base, &l->retry, os_now_ns(&o->base) + RETRY_NS);
}

static void retry_is_due(timer *t) {
    listener *l = list_entry(t, listener, retry);
    if (l->env->spare_fd < 0) l->env->spare_fd = open_spare();
    loop_change(l->env, l->fd, &l->source, EPOLLIN);
}

static void listener_ready(source *s, uint32_t events) {
    listener *l = (listener *)s;
    (void)events;
    for (int i = 0; i < ACCEPT_MAX && l->fd >= 0; i++) {
        address peer = { .size = sizeof peer.bytes };
        int fd = accept4(l->fd, (struct sockaddr *)&peer.bytes, &peer.size,
                         SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            take_connection(l, fd, &peer);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            refuse_one(l);
            return;
        } else if (errno == EAGAIN) {
            return;
        }
        // Anything else is a connection that failed while it waited.
    }
}

static gw_status bind_and_listen(int fd, const address *a, const char *text, gw_error *error) {
    int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    const char *call = "bind";
    int failed = bind(fd, (const struct sockaddr *)&a->bytes, a->size);
    if (!failed) {
        call = "listen";
        failed = listen(fd, BACKLOG);
    }
    if (!failed) return GW_OK;
    if (errno == EADDRINUSE)
        return error_set(error, GW_ADDRESS_IN_USE, "port %d is in use (%s)", address_port(a), text);
    return error_set(error, GW_SYSTEM, "%s: %s: %s", text, call, strerror(errno));
}

static void write_bound(int fd, const char *text, char out[ENV_ADDRESS_MAX]) {
    address a = { .size = sizeof a.bytes };
    if (getsockname(fd, (struct sockaddr *)&a.bytes, &a.size)) {
        snprintf(out, ENV_ADDRESS_MAX, "%s", text);
    } else {
        address_format(&a, out);
    }
}

gw_status tcp_listen(env *e, const char *text, void (*accepted)(void *user, conn *c), void *user,
                     listener **out, char out_bound[ENV_ADDRESS_MAX], gw_error *error) {
    os_env *o = of(e);
    assert(loop_lock_held(e));
    address a;
    int fd;
    gw_status status = address_parse(text, &a, error);
    if (!status) status = open_socket(&a, text, &fd, error);
    if (status) return status;

    listener *l = mem_alloc(sizeof *l);
    if (!l) {
        status = error_set(error, GW_NO_MEMORY, "%s: out of memory", text);
        goto close_socket;
    }
    *l = (listener){ .source.ready = listener_ready,
                     .env = o,
                     .fd = fd,
                     .accepted = accepted,
                     .user = user,
                     .retry.fire = retry_is_due };
    status = bind_and_listen(fd, &a, text, error);
    if (!status) status = loop_add(o, fd, &l->source, EPOLLIN, error);
    if (status) goto free_listener;
    list_append(&o->listeners, &l->link);
    write_bound(fd, text, out_bound);
    *out = l;
    return GW_OK;

free_listener:
    mem_free(l);
close_socket:
    close(fd);
    return status;
}

void tcp_listener_close(listener *l) {
    os_env *o = l->env;
    assert(loop_lock_held(&o->base) && l->fd >= 0);
    loop_set_timer(&o->base, &l->retry, ENV_NEVER);
    loop_remove(o, l->fd);
    close(l->fd);
    l->fd = -1;
    list_remove(&l->link);
    list_append(&o->closed_listeners, &l->link);
}

// ---- Closing everything ----

void tcp_fini(os_env *o) {
    loop_lock_take(o);
    while (!list_is_empty(&o->listeners))
        tcp_listener_close(list_entry(o->listeners.next, listener, link));
    while (!list_is_empty(&o->conns)) conn_defer_free(list_entry(o->conns.next, conn, link));
    tcp_free_closed(o);
    loop_lock_release(o);
    if (o->spare_fd >= 0) close(o->spare_fd);
}
