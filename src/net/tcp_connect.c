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

static tcp_listener *of_listener(listener *l) {
    return list_entry(l, tcp_listener, listener);
}

static int open_spare(void) {
    return open("/dev/null", O_RDONLY | O_CLOEXEC);
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

// ---- Connecting ---------------------------------------------------------------------------------

// A connection to a port of our own that nobody listens on may meet itself: TCP allows two ends to
// call each other at the same time, and the kernel picks our end's port among the same ones.
static bool has_met_itself(const tcp_stream *t) {
    address here = { .size = sizeof here.bytes }, there = { .size = sizeof there.bytes };
    if (getsockname(t->fd, (struct sockaddr *)&here.bytes, &here.size)) return false;
    if (getpeername(t->fd, (struct sockaddr *)&there.bytes, &there.size)) return false;
    return address_equal(&here, &there);
}

void tcp_finish_connect(tcp_stream *t) {
    int error = t->error;
    socklen_t size = sizeof error;
    if (!error && getsockopt(t->fd, SOL_SOCKET, SO_ERROR, &error, &size)) error = errno;
    if (!error && has_met_itself(t)) error = ECONNREFUSED;
    t->error = error;
    if (error) {
        tcp_end(t, strerror(error));
    } else {
        tcp_apply(t, TCP_CONNECTED);
    }
}

static gw_status parse_peer(const char *text, address *out, gw_error *error) {
    gw_status status = address_parse(text, out, error);
    if (status || address_port(out) != 0) return status;
    return error_set(error, GW_INVALID, "%s: nobody can listen on port 0", text);
}

static gw_status tcp_connect(env *e, const char *text, const stream_events *events, void *user,
                             stream **out, gw_error *error) {
    os_env *o = of(e);
    assert(loop_lock_held(e));
    address a;
    int fd;
    gw_status status = parse_peer(text, &a, error);
    if (!status) status = open_socket(&a, text, &fd, error);
    if (status) return status;

    tcp_stream *t = tcp_stream_new(o, fd, TCP_CONNECTING);
    if (!t) {
        close(fd);
        return error_set(error, GW_NO_MEMORY, "%s: out of memory", text);
    }
    t->stream.events = events;
    t->stream.user = user;
    snprintf(t->name, sizeof t->name, "%s", text);
    send_at_once(fd);
    int failed;
    do {
        failed = connect(fd, (const struct sockaddr *)&a.bytes, a.size);
    } while (failed && errno == EINTR);
    if (failed && errno != EINPROGRESS) {
        tcp_end_soon(t, errno);
    } else if ((status = loop_add(o, fd, &t->source, EPOLLOUT, error))) {
        tcp_apply(t, TCP_CLOSED_HERE);
        return status;
    }
    *out = &t->stream;
    return GW_OK;
}

// ---- Listening ----------------------------------------------------------------------------------

static void take_connection(tcp_listener *l, int fd, const address *peer) {
    tcp_stream *t = tcp_stream_new(l->env, fd, TCP_ACCEPTED);
    if (!t) {
        close(fd);  // the peer will try again
        return;
    }
    address_format(peer, t->name);
    send_at_once(fd);
    l->listener.accepted(l->listener.user, &t->stream);
}

// Without a descriptor the connection would stay where it is and be reported for ever. The spare
// one makes room to take it and close it, which tells the peer; if even that is gone the listener
// rests for a while.
static void refuse_one(tcp_listener *l) {
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
    tcp_listener *l = list_entry(t, tcp_listener, retry);
    if (l->env->spare_fd < 0) l->env->spare_fd = open_spare();
    loop_change(l->env, l->fd, &l->source, EPOLLIN);
}

static void listener_ready(source *s, uint32_t events) {
    tcp_listener *l = (tcp_listener *)s;
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

static void write_bound(int fd, const char *text, char out[ADDRESS_MAX]) {
    address a = { .size = sizeof a.bytes };
    if (getsockname(fd, (struct sockaddr *)&a.bytes, &a.size)) {
        snprintf(out, ADDRESS_MAX, "%s", text);
    } else {
        address_format(&a, out);
    }
}

static void abandon(source *s);

static gw_status tcp_listen(env *e, const char *text, void (*accepted)(void *user, stream *s),
                            void *user, listener **out, char out_bound[ADDRESS_MAX],
                            gw_error *error) {
    os_env *o = of(e);
    assert(loop_lock_held(e));
    address a;
    int fd;
    gw_status status = address_parse(text, &a, error);
    if (!status) status = open_socket(&a, text, &fd, error);
    if (status) return status;

    tcp_listener *l = mem_alloc(sizeof *l);
    if (!l) {
        status = error_set(error, GW_NO_MEMORY, "%s: out of memory", text);
        goto close_socket;
    }
    *l = (tcp_listener){ .source = { .ready = listener_ready, .abandon = abandon },
                         .listener = { &tcp_transport, accepted, user },
                         .env = o,
                         .fd = fd,
                         .retry.fire = retry_is_due };
    status = bind_and_listen(fd, &a, text, error);
    if (!status) status = loop_add(o, fd, &l->source, EPOLLIN, error);
    if (status) goto free_listener;
    loop_own(o, &l->source);
    write_bound(fd, text, out_bound);
    *out = &l->listener;
    return GW_OK;

free_listener:
    mem_free(l);
close_socket:
    close(fd);
    return status;
}

static void tcp_listener_close(listener *closed) {
    tcp_listener *l = of_listener(closed);
    os_env *o = l->env;
    assert(loop_lock_held(&o->base) && l->fd >= 0);
    loop_set_timer(&o->base, &l->retry, ENV_NEVER);
    loop_remove(o, l->fd);
    close(l->fd);
    l->fd = -1;
    loop_retire(o, &l->source);
}

static void abandon(source *s) {
    tcp_listener_close(&((tcp_listener *)s)->listener);
}

// ---- The transport ------------------------------------------------------------------------------

const transport tcp_transport = {
    .name = "tcp",
    .scheme = "tcp",
    .anywhere = "127.0.0.1:0",
    .check = address_check,
    .listen = tcp_listen,
    .listener_close = tcp_listener_close,
    .connect = tcp_connect,
};

void tcp_init(os_env *o) {
    o->spare_fd = open_spare();
}

void tcp_fini(os_env *o) {
    if (o->spare_fd >= 0) close(o->spare_fd);
}
