// The states of a TCP stream, as a table.
#include "net/tcp/tcp.h"

#include <assert.h>
#include <errno.h>
#include <unistd.h>

#include "base/machine.h"
#include "base/status.h"

#define LINGER_NS INT64_C(1000000000)

enum { LINGERING_MAX = 256 };  // of one env

// ---- Actions ------------------------------------------------------------------------------------

void tcp_poll_writable(tcp_stream *t, bool writable) {
    if (t->polls_writable == writable) return;
    t->polls_writable = writable;
    loop_change(t->env, t->fd, &t->source, writable ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

static void begin(tcp_stream *t) {
    t->polls_writable = t->wants_writable;
    loop_change(t->env, t->fd, &t->source, t->wants_writable ? EPOLLIN | EPOLLOUT : EPOLLIN);
    t->stream.events->opened(t->stream.user);
}

static void watch(tcp_stream *t) {
    if (loop_add(t->env, t->fd, &t->source, EPOLLIN, NULL)) tcp_end_soon(t, ENOMEM);
}

// The stream becomes ready: received bytes are read before the end is reported.
static void shut_both_directions(tcp_stream *t) {
    shutdown(t->fd, SHUT_RDWR);
}

static void linger_no_more(tcp_stream *t) {
    if (!list_has(&t->lingering)) return;
    list_remove(&t->lingering);
    t->env->lingering_count--;
}

// Closing a descriptor with bytes unread would make the kernel discard unsent ones.
// So the connection is shut down in one direction, and read until the peer has closed too, a time
// is over, or the number of such connections exceeds a limit, since unauthenticated peers may cause them.
static void linger(tcp_stream *t) {
    if (shutdown(t->fd, SHUT_WR)) {
        tcp_apply(t, TCP_ENDED);
        return;
    }
    tcp_poll_writable(t, false);
    loop_set_timer(&t->env->base, &t->timer, os_now_ns(&t->env->base) + LINGER_NS);
    list_append(&t->env->lingering, &t->lingering);
    if (++t->env->lingering_count > LINGERING_MAX)
        tcp_apply(list_entry(t->env->lingering.next, tcp_stream, lingering), TCP_ENDED);
}

static void release(tcp_stream *t) {
    linger_no_more(t);
    loop_set_timer(&t->env->base, &t->timer, ENV_NEVER);
    loop_remove(t->env, t->fd);
    close(t->fd);
    t->fd = -1;
    loop_retire(t->env, &t->source);
}

static void report(tcp_stream *t, gw_status status) {
    gw_error error;
    error_set(&error, status, "%s", t->why);
    release(t);
    t->stream.events->closed(t->stream.user, &error);
}

static void report_unreached(tcp_stream *t) {
    report(t, t->error == ECONNREFUSED ? GW_NOT_FOUND : GW_DISCONNECTED);
}

static void report_end(tcp_stream *t) {
    report(t, GW_DISCONNECTED);
}

// As if the network had failed: bytes in transit in either direction are lost.
static void report_cut(tcp_stream *t) {
    struct linger at_once = { .l_onoff = 1 };
    setsockopt(t->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    report(t, GW_DISCONNECTED);
}

static void nothing(tcp_stream *t) {
    (void)t;
}

// ---- The table ----------------------------------------------------------------------------------

typedef MACHINE_RULE(tcp_state, tcp_event, tcp_stream *t) rule;

// clang-format off
static const rule rules[] = {
    { TCP_CONNECTING, TCP_CONNECTED,   TCP_OPEN,      begin,                "the kernel has connected" },
    { TCP_CONNECTING, TCP_ENDED,       TCP_CLOSED,    report_unreached,     "there is no listener, or no route" },
    { TCP_CONNECTING, TCP_CLOSED_HERE, TCP_CLOSED,    release,              "closed before it was connected" },
    { TCP_CONNECTING, TCP_ABANDONED,   TCP_CLOSED,    release,              "its env closes" },

    { TCP_ACCEPTED,   TCP_ADOPTED,     TCP_OPEN,      watch,                "its user has set its events: the loop reads it from now on" },
    { TCP_ACCEPTED,   TCP_CLOSED_HERE, TCP_CLOSED,    release,              "it was not adopted" },
    { TCP_ACCEPTED,   TCP_ABANDONED,   TCP_CLOSED,    release,              "its env closes" },

    { TCP_OPEN,       TCP_SEND_FAILED, TCP_BREAKING,  shut_both_directions, "bytes that have arrived are read before the end is reported" },
    { TCP_OPEN,       TCP_TEST_CUTS,   TCP_CUT,       shut_both_directions, "the loop reports the end in a later turn" },
    { TCP_OPEN,       TCP_ENDED,       TCP_CLOSED,    report_end,           "the peer has closed, or the network failed" },
    { TCP_OPEN,       TCP_CLOSED_HERE, TCP_LINGERING, linger,               "if bytes are unread when it closes, the kernel discards sent bytes" },
    { TCP_OPEN,       TCP_ABANDONED,   TCP_CLOSED,    release,              "its env closes" },

    { TCP_BREAKING,   TCP_ENDED,       TCP_CLOSED,    report_end,           "all earlier bytes are read" },
    { TCP_BREAKING,   TCP_CLOSED_HERE, TCP_CLOSED,    release,              "all sent bytes have been delivered or lost" },
    { TCP_BREAKING,   TCP_ABANDONED,   TCP_CLOSED,    release,              "its env closes" },

    { TCP_CUT,        TCP_ENDED,       TCP_CLOSED,    report_cut,           "the test cut discards bytes in transit, as a network failure does" },
    { TCP_CUT,        TCP_CLOSED_HERE, TCP_CLOSED,    release,              "all sent bytes have been delivered or lost" },
    { TCP_CUT,        TCP_ABANDONED,   TCP_CLOSED,    release,              "its env closes" },

    { TCP_LINGERING,  TCP_ENDED,       TCP_CLOSED,    release,              "the peer has closed, too, or the time to linger has passed" },
    { TCP_LINGERING,  TCP_CLOSED_HERE, TCP_LINGERING, nothing,              "its user has closed it already, inside one of its events" },
    { TCP_LINGERING,  TCP_ABANDONED,   TCP_CLOSED,    release,              "its env closes" },

    { TCP_CLOSED,     TCP_CLOSED_HERE, TCP_CLOSED,    nothing,              "its user has closed it already, inside one of its events" },
};
// clang-format on

void tcp_apply(tcp_stream *t, tcp_event event) {
    const rule *r = machine_find(rules, sizeof rules, sizeof *rules, t->state, event);
    assert(r);  // all events are local: no byte of a peer is one
    t->state = r->to;
    r->action(t);
}

void tcp_end(tcp_stream *t, const char *why) {
    t->why = why;
    tcp_apply(t, TCP_ENDED);
}

void tcp_end_soon(tcp_stream *t, int errno_code) {
    t->error = errno_code;
    loop_set_timer(&t->env->base, &t->timer, os_now_ns(&t->env->base));
}
