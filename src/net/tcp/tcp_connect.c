// Connecting and listening.
#include "net/transport/exhausted.h"
#include "net/tcp/tcp.h"
#include "net/tls/tls.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "base/system_error.h"
#include "net/transport/acceptor.h"
#include "net/tls/protection.h"

// Urgent bytes cannot overtake those in the kernel's buffer: it takes at most so many unsent
// ones.
enum { UNSENT_MAX = 32 * 1024 };

static void send_at_once(int fd) {
    int on = 1, unsent = UNSENT_MAX;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
}

static gw_status open_socket(const address *a, const char *text, int *out, gw_error *error) {
    *out = socket(a->bytes.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (*out >= 0) return GW_OK;
    int why = errno;
    exhausted_log("a connection cannot be made", why);
    return error_set(error, GW_SYSTEM, "%s: socket: %s", text, system_error_text(why).text);
}

// ---- Connecting ---------------------------------------------------------------------------------

// A connection to a local port without a listener may connect to itself: TCP allows two ends to
// connect to each other at the same time, and the kernel picks our port from the same range.
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

// A second check: no socket is opened towards a network that this env must not use.
static gw_status parse(const env *e, const char *text, address *out, gw_error *error) {
    gw_status status = address_parse(text, out, error);
    if (status || address_is_loopback(out)) return status;
    if (!protection_allows_beyond(e->protection, "", "", NULL)) return GW_OK;
    return error_set(error, GW_INVALID,
                     "%s: only loopback addresses (127.0.0.1, ::1, localhost) are allowed without "
                     "a key",
                     text);
}

static gw_status parse_peer(const env *e, const char *text, address *out, gw_error *error) {
    gw_status status = parse(e, text, out, error);
    if (status || address_port(out) != 0) return status;
    return error_set(error, GW_INVALID, "%s: port 0 has no listener", text);
}

static gw_status tcp_connect(env *e, const char *text, const stream_events *events, void *user,
                             stream **out, gw_error *error) {
    os_env *o = os_env_of(e);
    assert(loop_lock_held(e));
    address a;
    int fd;
    gw_status status = parse_peer(e, text, &a, error);
    if (!status) status = open_socket(&a, text, &fd, error);
    if (status) return status;

    tcp_stream *t = tcp_stream_new(o, fd, TCP_CONNECTING);
    if (!t) {
        close(fd);
        return error_set(error, GW_NO_MEMORY, "%s: out of memory", text);
    }
    t->stream.events = events;
    t->stream.user = user;
    send_at_once(fd);
    int failed = connect(fd, (const struct sockaddr *)&a.bytes, a.size);
    // A connect that a signal has interrupted continues.
    if (failed && errno != EINPROGRESS && errno != EINTR) {
        tcp_end_soon(t, errno);
    } else if ((status = loop_add(o, fd, &t->source, EPOLLOUT, error))) {
        tcp_apply(t, TCP_CLOSED_HERE);
        return status;
    }
    *out = &t->stream;
    return GW_OK;
}

// ---- Listening ----------------------------------------------------------------------------------

// Checked before the connection costs anything (TLS-17).
static bool is_admitted(const env *e, const uint8_t peer[16]) {
    const protection *p = e->protection;
    return !p || !p->tls || tls_admits(p->tls, peer);
}

static void take_connection(acceptor *a, int fd, const address *peer) {
    uint8_t bytes[16];
    bool has_peer = address_bytes(peer, bytes);
    tcp_stream *t = NULL;
    if (!has_peer || is_admitted(&a->env->base, bytes))
        t = tcp_stream_new(a->env, fd, TCP_ACCEPTED);
    if (!t) {
        close(fd);  // the peer will try again
        return;
    }
    t->has_peer = has_peer;
    memcpy(t->peer, bytes, sizeof t->peer);
    send_at_once(fd);
    a->listener.accepted(a->listener.user, &t->stream);
}

static gw_status bind_socket(int fd, const address *a, const char *text, gw_error *error) {
    int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (const struct sockaddr *)&a->bytes, a->size) == 0) return GW_OK;
    if (errno == EADDRINUSE)
        return error_set(error, GW_ADDRESS_IN_USE, "port %d is in use (%s)", address_port(a), text);
    if (errno == EADDRNOTAVAIL)
        return error_set(error, GW_NOT_FOUND, "%s: this machine does not have that address", text);
    return error_set(error, GW_SYSTEM, "%s: bind: %s", text, system_error_text(errno).text);
}

static void write_bound(int fd, const char *text, char out[ADDRESS_MAX]) {
    address a = { .size = sizeof a.bytes };
    if (getsockname(fd, (struct sockaddr *)&a.bytes, &a.size)) {
        snprintf(out, ADDRESS_MAX, "%s", text);
    } else {
        address_format(&a, out);
    }
}

static gw_status tcp_listen(env *e, const char *text, void (*accepted)(void *user, stream *s),
                            void *user, listener **out, char out_bound[ADDRESS_MAX],
                            gw_error *error) {
    assert(loop_lock_held(e));
    address a;
    int fd;
    gw_status status = parse(e, text, &a, error);
    if (!status) status = open_socket(&a, text, &fd, error);
    if (status) return status;
    status = bind_socket(fd, &a, text, error);
    if (status) {
        close(fd);
        return status;
    }
    status = acceptor_open(os_env_of(e), fd, text, take_connection,
                           (listener){ &tcp_transport, accepted, user }, out, error);
    if (!status) write_bound(fd, text, out_bound);
    return status;
}

// ---- Names --------------------------------------------------------------------------------------

static gw_status tcp_resolve(const char *text, char out[ADDRESSES_MAX], gw_error *error) {
    address all[LIMIT_ADDRESSES];
    int count;
    size_t size = 0;
    gw_status status = address_resolve(text, all, LIMIT_ADDRESSES, &count, error);
    out[0] = '\0';
    for (int i = 0; !status && i < count; i++) {
        char one[ADDRESS_MAX];
        address_format(&all[i], one);
        int n = snprintf(out + size, ADDRESSES_MAX - size, "%s%s", size ? "," : "", one);
        if (n < 0 || (size_t)n >= ADDRESSES_MAX - size) break;  // the first ones suffice
        size += (size_t)n;
    }
    if (!status) out[size] = '\0';
    return status;
}

// ---- The transport ------------------------------------------------------------------------------

const transport tcp_transport = {
    .name = "tcp",
    .scheme = "tcp",
    .anywhere = "127.0.0.1:0",
    .check = address_check,
    .resolve = tcp_resolve,
    .listen = tcp_listen,
    .listener_close = acceptor_close,
    .connect = tcp_connect,
};
