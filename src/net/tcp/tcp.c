// The bytes of a TCP stream, in and out.
#include "net/tcp/tcp.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"

enum { READ_MAX = 1 << 20 };  // of one stream in one turn, so that other streams have theirs

static tcp_stream *of_source(source *s) {
    return (tcp_stream *)s;
}

static tcp_stream *of(stream *s) {
    return list_entry(s, tcp_stream, stream);
}

// ---- In -----------------------------------------------------------------------------------------

// Whether a test cuts the connection at this operation.
static bool is_time_to_cut(tcp_stream *t) {
    return t->env->cut_every > 0 && ++t->op_count >= t->env->cut_every;
}

static void read_away(tcp_stream *t) {
    char bytes[4096];
    size_t left = READ_MAX;
    while (left > 0) {
        ssize_t n = recv(t->fd, bytes, sizeof bytes, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return;
        if (n <= 0) {
            tcp_apply(t, TCP_ENDED);
            return;
        }
        left -= (size_t)n < left ? (size_t)n : left;
    }
}

static bool reads(const tcp_stream *t) {
    return t->state == TCP_OPEN || t->state == TCP_BREAKING;
}

static void end_of_bytes(tcp_stream *t, ssize_t n) {
    if (t->error) {
        tcp_end(t, strerror(t->error));
    } else {
        tcp_end(t, n < 0 ? strerror(errno) : "closed by the peer");
    }
}

static void read_some(tcp_stream *t) {
    const stream *s = &t->stream;
    size_t left = READ_MAX;
    while (reads(t) && left > 0) {
        void *into = NULL;
        size_t size = 0;
        s->events->buffer(s->user, &into, &size);
        if (!reads(t)) return;
        assert(size > 0);
        ssize_t n = recv(t->fd, into, size, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return;
        if (n <= 0) {
            end_of_bytes(t, n);
            return;
        }
        bool cuts = t->state == TCP_OPEN && is_time_to_cut(t);
        s->events->received(s->user, (size_t)n);
        if (cuts && t->state == TCP_OPEN) tcp_apply(t, TCP_TEST_CUTS);
        // Bytes that are left make it ready again: cheaper than another call now.
        if ((size_t)n < size) return;
        left -= (size_t)n < left ? (size_t)n : left;
    }
}

static void write_on(tcp_stream *t) {
    t->wants_writable = false;
    t->stream.events->writable(t->stream.user);
    if (t->state == TCP_OPEN) tcp_poll_writable(t, t->wants_writable);
}

static void ready(source *s, uint32_t events) {
    tcp_stream *t = of_source(s);
    switch (t->state) {
    case TCP_CONNECTING: tcp_finish_connect(t); break;
    case TCP_OPEN:
    case TCP_BREAKING:
        if (events & ~(uint32_t)EPOLLOUT) read_some(t);
        if (t->state == TCP_OPEN && t->wants_writable && events & EPOLLOUT) write_on(t);
        break;
    case TCP_CUT: tcp_end(t, "cut for a test"); break;
    case TCP_LINGERING: read_away(t); break;
    case TCP_ACCEPTED:
    case TCP_CLOSED:
    case TCP_STATE_COUNT: break;
    }
}

// ---- Out ----------------------------------------------------------------------------------------

static size_t total_size(const struct iovec *parts, int count) {
    size_t size = 0;
    for (int i = 0; i < count; i++) size += parts[i].iov_len;
    return size;
}

// As a failing network does: a part is sent, and the sender is not notified.
static size_t send_and_cut(tcp_stream *t, const struct iovec *parts, int count) {
    for (int i = 0; i < count; i++) {
        ssize_t n = send(t->fd, parts[i].iov_base, (parts[i].iov_len + 1) / 2, MSG_NOSIGNAL);
        if (n != (ssize_t)parts[i].iov_len) break;
    }
    tcp_apply(t, TCP_TEST_CUTS);
    return total_size(parts, count);
}

// Sends up to the limit of one system call. Returns whether all of it was taken.
static bool send_block(tcp_stream *t, const struct iovec *parts, int count, size_t *taken) {
    size_t size = total_size(parts, count);
    struct msghdr message = { .msg_iov = (struct iovec *)parts, .msg_iovlen = (size_t)count };
    ssize_t n;
    do {
        n = sendmsg(t->fd, &message, MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    if (n < 0 && errno != EAGAIN) {
        t->error = errno;
        tcp_apply(t, TCP_SEND_FAILED);
        return false;
    }
    if (n > 0) *taken += (size_t)n;
    return n >= 0 && (size_t)n == size;
}

static size_t send_all(stream *s, const struct iovec *parts, int count) {
    tcp_stream *t = of(s);
    assert(loop_lock_held(&t->env->base));
    size_t taken = 0;
    if (t->state == TCP_CONNECTING) t->wants_writable = true;
    if (t->state != TCP_OPEN) return 0;
    if (count > 0 && is_time_to_cut(t)) return send_and_cut(t, parts, count);
    for (int done = 0; done < count; done += IOV_MAX) {
        int block = count - done < IOV_MAX ? count - done : IOV_MAX;
        if (send_block(t, parts + done, block, &taken)) continue;
        if (t->state != TCP_OPEN) return taken;
        t->wants_writable = true;
        tcp_poll_writable(t, true);
        break;
    }
    return taken;
}

// ---- Life ---------------------------------------------------------------------------------------

static void adopt(stream *s) {
    tcp_stream *t = of(s);
    assert(loop_lock_held(&t->env->base));
    tcp_apply(t, TCP_ADOPTED);
}

static void close_stream(stream *s) {
    tcp_stream *t = of(s);
    assert(loop_lock_held(&t->env->base));
    tcp_apply(t, TCP_CLOSED_HERE);
}

static bool peer_address(const stream *s, uint8_t out[16]) {
    const tcp_stream *t = list_entry(s, tcp_stream, stream);
    memcpy(out, t->peer, sizeof t->peer);
    return t->has_peer;
}

static bool has_hung_up(const stream *s) {
    const tcp_stream *t = list_entry(s, tcp_stream, stream);
    struct pollfd p = { .fd = t->fd, .events = POLLRDHUP };
    return poll(&p, 1, 0) > 0;
}

static void abandon(source *s) {
    tcp_apply(of_source(s), TCP_ABANDONED);
}

static void end_is_due(timer *due) {
    tcp_stream *t = list_entry(due, tcp_stream, timer);
    tcp_end(t, strerror(t->error));  // a lingering one has no events to call
}

static const source_class polled = { .ready = ready, .abandon = abandon };
static const stream_class class = { .transport = &tcp_transport,
                                    .adopt = adopt,
                                    .send = send_all,
                                    .close = close_stream,
                                    .peer_address = peer_address,
                                    .has_hung_up = has_hung_up };

tcp_stream *tcp_stream_new(os_env *o, int fd, tcp_state state) {
    tcp_stream *t = mem_alloc(sizeof *t);
    if (!t) return NULL;
    *t = (tcp_stream){
        .source.class = &polled, .stream.class = &class, .env = o, .state = state, .fd = fd
    };
    t->timer.fire = end_is_due;
    loop_own(o, &t->source);
    return t;
}
