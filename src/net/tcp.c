// A TCP connection: bytes in, bytes out, and its end.
#include "net/tcp.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/status.h"

enum {
    READ_MAX = 1 << 20,  // of one connection in one turn, so that others have theirs
    LINGER_NS = 1000 * 1000 * 1000,
};

static conn *of_source(source *s) {
    return (conn *)s;
}

static void end_is_due(timer *t);

conn *conn_new(os_env *o, int fd, conn_state state) {
    conn *c = mem_alloc(sizeof *c);
    if (!c) return NULL;
    *c = (conn){ .source.ready = conn_ready, .env = o, .state = state, .fd = fd };
    c->timer.fire = end_is_due;
    list_append(&o->conns, &c->link);
    return c;
}

// ---- The end ----

void conn_defer_free(conn *c) {
    os_env *o = c->env;
    loop_set_timer(&o->base, &c->timer, ENV_NEVER);
    loop_remove(o, c->fd);
    close(c->fd);
    c->fd = -1;
    c->state = CONN_CLOSED;
    list_remove(&c->link);
    list_append(&o->closed_conns, &c->link);
}

void tcp_free_closed(os_env *o) {
    for (list_node *l; (l = list_take(&o->closed_conns));) mem_free(list_entry(l, conn, link));
    for (list_node *l; (l = list_take(&o->closed_listeners));)
        mem_free(list_entry(l, listener, link));
}

void conn_fail(conn *c, const char *why) {
    assert(c->state == CONN_CONNECTING || c->state == CONN_OPEN);
    gw_error error;
    gw_status status = c->is_refused ? GW_NOT_FOUND : GW_DISCONNECTED;
    error_set(&error, status, "%s: %s", c->name, why);
    const conn_events *events = c->events;
    conn_defer_free(c);
    events->closed(c->user, &error);
}

void conn_fail_soon(conn *c, int errno_code) {
    c->error = errno_code;
    loop_set_timer(&c->env->base, &c->timer, os_now_ns(&c->env->base));
}

static void end_is_due(timer *t) {
    conn *c = list_entry(t, conn, timer);
    if (c->state == CONN_LINGERING) {
        conn_defer_free(c);
    } else {
        conn_fail(c, strerror(c->error));
    }
}

// As if the network had failed: what is under way in either direction is lost.
static void fail_cut(conn *c) {
    struct linger at_once = { .l_onoff = 1 };
    setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    conn_fail(c, "cut for a test");
}

// A descriptor closed with bytes unread would make the kernel throw away what it has still to send. So the connection
// is closed in one direction, and read until the peer has closed too or some time is over.
void tcp_close(conn *c) {
    assert(loop_lock_held(&c->env->base));
    if (c->state == CONN_CLOSED || c->state == CONN_LINGERING) return;
    bool lingers = c->state == CONN_OPEN && !c->is_cut && !c->error;
    if (!lingers || shutdown(c->fd, SHUT_WR)) {
        conn_defer_free(c);
        return;
    }
    c->state = CONN_LINGERING;
    if (c->polls_writable) loop_change(c->env, c->fd, &c->source, EPOLLIN);
    loop_set_timer(&c->env->base, &c->timer, os_now_ns(&c->env->base) + LINGER_NS);
}

static void read_away(conn *c) {
    char bytes[4096];
    size_t left = READ_MAX;
    while (left > 0) {
        ssize_t n = recv(c->fd, bytes, sizeof bytes, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return;
        if (n <= 0) {
            conn_defer_free(c);
            return;
        }
        left -= (size_t)n < left ? (size_t)n : left;
    }
}

// ---- Bytes ----

// Whether this one is where a test cuts the connection.
static bool is_time_to_cut(conn *c) {
    return c->env->cut_every > 0 && !c->is_cut && ++c->op_count >= c->env->cut_every;
}

static void cut(conn *c) {
    c->is_cut = true;
    shutdown(c->fd, SHUT_RDWR);  // becomes ready, whose turn sees |is_cut|
}

static void read_some(conn *c) {
    size_t left = READ_MAX;
    while (c->state == CONN_OPEN && left > 0) {
        void *into = NULL;
        size_t size = 0;
        c->events->buffer(c->user, &into, &size);
        if (c->state != CONN_OPEN) return;
        assert(size > 0);
        ssize_t n = recv(c->fd, into, size, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return;
        if (n < 0) {
            conn_fail(c, strerror(c->error ? c->error : errno));
            return;
        }
        if (n == 0) {
            conn_fail(c, c->error ? strerror(c->error) : "closed by the peer");
            return;
        }
        bool cuts = is_time_to_cut(c);
        c->events->received(c->user, (size_t)n);
        if (c->state != CONN_OPEN) return;
        if (cuts) {
            fail_cut(c);
            return;
        }
        // What is left, if anything, makes it ready again: cheaper than asking now.
        if ((size_t)n < size) return;
        left -= (size_t)n < left ? (size_t)n : left;
    }
}

static void poll_for(conn *c, bool writable) {
    if (c->polls_writable == writable) return;
    c->polls_writable = writable;
    loop_change(c->env, c->fd, &c->source, writable ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

static void write_on(conn *c) {
    c->wants_writable = false;
    c->events->writable(c->user);
    if (c->state == CONN_OPEN) poll_for(c, c->wants_writable);
}

void conn_ready(source *s, uint32_t events) {
    conn *c = of_source(s);
    switch (c->state) {
    case CONN_CONNECTING: conn_finish_connect(c); break;
    case CONN_OPEN:
        if (c->is_cut) {
            fail_cut(c);
            return;
        }
        if (events & ~(uint32_t)EPOLLOUT) read_some(c);
        if (c->state == CONN_OPEN && c->wants_writable && events & EPOLLOUT) write_on(c);
        break;
    case CONN_LINGERING: read_away(c); break;
    case CONN_ACCEPTED:
    case CONN_CLOSED: break;
    }
}

void tcp_adopt(conn *c, const conn_events *events, void *user) {
    assert(loop_lock_held(&c->env->base) && c->state == CONN_ACCEPTED);
    c->events = events;
    c->user = user;
    c->state = CONN_OPEN;
    if (loop_add(c->env, c->fd, &c->source, EPOLLIN, NULL)) conn_fail_soon(c, ENOMEM);
}

static size_t total_size(const struct iovec *parts, int count) {
    size_t size = 0;
    for (int i = 0; i < count; i++) size += parts[i].iov_len;
    return size;
}

// What a failing network does: some of it leaves, and nobody is told.
static size_t send_and_cut(conn *c, const struct iovec *parts, int count) {
    for (int i = 0; i < count; i++) {
        ssize_t n = send(c->fd, parts[i].iov_base, (parts[i].iov_len + 1) / 2, MSG_NOSIGNAL);
        if (n != (ssize_t)parts[i].iov_len) break;
    }
    cut(c);
    return total_size(parts, count);
}

// Up to what one system call may carry. Returns whether all of it was taken.
static bool send_block(conn *c, const struct iovec *parts, int count, size_t *taken) {
    size_t size = total_size(parts, count);
    struct msghdr message = { .msg_iov = (struct iovec *)parts, .msg_iovlen = (size_t)count };
    ssize_t n;
    do {
        n = sendmsg(c->fd, &message, MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    if (n < 0 && errno != EAGAIN) {
        c->error = errno;
        shutdown(c->fd, SHUT_RDWR);  // becomes ready: what has come is read before the end is told
        return false;
    }
    if (n > 0) *taken += (size_t)n;
    return n >= 0 && (size_t)n == size;
}

size_t tcp_send(conn *c, const struct iovec *parts, int count) {
    assert(loop_lock_held(&c->env->base));
    size_t taken = 0;
    if (c->state == CONN_CONNECTING) c->wants_writable = true;
    if (c->state != CONN_OPEN || c->error || c->is_cut) return 0;
    if (count > 0 && is_time_to_cut(c)) return send_and_cut(c, parts, count);
    for (int done = 0; done < count; done += IOV_MAX) {
        int block = count - done < IOV_MAX ? count - done : IOV_MAX;
        if (send_block(c, parts + done, block, &taken)) continue;
        if (c->error) return taken;
        c->wants_writable = true;
        poll_for(c, true);
        break;
    }
    return taken;
}
