// The bytes of a stream through shared memory, in and out.
#include "net/shm/shm.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/failpoint.h"
#include "base/mem.h"

#define SHRINK_NS INT64_C(1000000000)

#define BELL_NS 2000  // the time that ringing takes

enum {
    READ_MAX = 1 << 20,     // of one stream in one turn, so that other streams have theirs
    CHECKS_PER_CLOCK = 16,  // of the peer's state
    BELLS_IN_VAIN_MAX = 63,
};

static shm_stream *of_source(source *s) {
    return (shm_stream *)s;
}

static shm_stream *of(stream *s) {
    return list_entry(s, shm_stream, stream);
}

// A peer that checked a moment ago mostly checks again before it could be woken, which takes longer and
// disturbs it. So a bell waits for as long as ringing takes, if that has avoided wake-ups lately.
static bool peer_checks_soon(shm_stream *t) {
    if (t->bells_at_once > 0) {
        t->bells_at_once--;
        return false;
    }
    int64_t start_ns = os_now_ns(&t->env->base);
    do {
        for (int i = 0; i < CHECKS_PER_CLOCK; i++) {
            if (!ring_out_waits(&t->out)) {
                t->bells_in_vain /= 2;
                return true;
            }
            loop_pause();
        }
    } while (os_now_ns(&t->env->base) - start_ns < BELL_NS);
    t->bells_at_once = t->bells_in_vain;
    if (t->bells_in_vain < BELLS_IN_VAIN_MAX) t->bells_in_vain = 2 * t->bells_in_vain + 1;
    return false;
}

// RING-12. A socket whose buffer is full needs no further byte; one that has ended reports it itself.
static void ring_bell(source *s) {
    shm_stream *t = of_source(s);
    bool is_about_room = t->rings_at_once;
    t->rings_at_once = false;
    if (!is_about_room && (peer_checks_soon(t) || !ring_out_wakes(&t->out))) return;
    failpoint("ring_bell");
    atomic_fetch_add_explicit(&t->env->wake_total, 1, memory_order_relaxed);
    ssize_t sent = send(t->fd, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)sent;
}

// Whether a test cuts the connection at this operation.
static bool is_time_to_cut(shm_stream *t) {
    return t->env->cut_every > 0 && ++t->op_count >= t->env->cut_every;
}

// ---- In -----------------------------------------------------------------------------------------

// Bytes of the socket are wake-ups only; its end is the end of the stream.
static void read_socket(shm_stream *t) {
    char bytes[256];
    ssize_t n;
    do {
        n = recv(t->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    } while (n == (ssize_t)sizeof bytes || (n < 0 && errno == EINTR));
    if (n == 0 || (n < 0 && errno != EAGAIN)) t->has_ended = true;
}

// Returns whether the ring is empty now.
static bool read_ring(shm_stream *t) {
    const stream *s = &t->stream;
    size_t left = READ_MAX;
    while (t->state == SHM_OPEN && left > 0) {
        if (!ring_has_bytes(&t->in)) return true;
        void *into = NULL;
        size_t size = 0;
        s->events->buffer(s->user, &into, &size);
        if (t->state != SHM_OPEN) break;
        size_t n = ring_take(&t->in, into, size);
        if (n == 0) return true;
        bool cuts = is_time_to_cut(t);
        s->events->received(s->user, n);
        if (cuts && t->state == SHM_OPEN) shm_apply(t, SHM_TEST_CUTS);
        left -= n < left ? n : left;
    }
    return false;
}

static void write_on(shm_stream *t) {
    if (!t->wants_writable || !ring_has_room(&t->out)) return;
    t->wants_writable = false;
    t->stream.events->writable(t->stream.user);
}

static void exchange(shm_stream *t, uint32_t events) {
    if (events) read_socket(t);
    bool is_empty = read_ring(t);
    if (t->state != SHM_OPEN) return;
    if (ring_in_wakes(&t->in)) {
        t->rings_at_once = true;
        loop_lock_ring(t->env, &t->source);
    }
    if (t->in.is_broken || t->out.is_broken) {
        shm_end(t, "it has written invalid values into the shared memory");
        return;
    }
    if (t->has_ended && is_empty) {
        shm_end(t, "closed by the peer");
        return;
    }
    if (!list_has(&t->source.memory_link)) {
        ring_in_awake(&t->in);
        loop_add_memory_source(t->env, &t->source);
    }
    write_on(t);
}

static void ready(source *s, uint32_t events) {
    shm_stream *t = of_source(s);
    switch (t->state) {
    case SHM_CONNECTING: shm_apply(t, SHM_CONNECTED); break;
    case SHM_AWAITING_SEGMENT: shm_receive_segment(t); break;
    case SHM_OPEN: exchange(t, events); break;
    case SHM_CUT: shm_end(t, "cut for a test"); break;
    case SHM_ACCEPTED:
    case SHM_CLOSED:
    case SHM_STATE_COUNT: break;
    }
}

// ---- Checking -----------------------------------------------------------------------------------

static bool has_something(source *s) {
    return ring_has_bytes(&of_source(s)->in);
}

static bool sleeps(source *s, bool is_away) {
    shm_stream *t = of_source(s);
    if (t->state != SHM_OPEN) return true;
    return is_away ? ring_in_leaves(&t->in) : ring_in_sleeps(&t->in);
}

static void awakes(source *s) {
    shm_stream *t = of_source(s);
    if (t->state == SHM_OPEN) ring_in_awake(&t->in);
}

// ---- Out ----------------------------------------------------------------------------------------

// As a failing network does: a part is lost, and the sender is not notified.
static size_t lose_and_cut(shm_stream *t, const struct iovec *parts, int count) {
    size_t size = 0;
    for (int i = 0; i < count; i++) size += parts[i].iov_len;
    struct iovec half = { parts[0].iov_base, parts[0].iov_len / 2 };
    bool is_all;
    ring_put(&t->out, &half, 1, &is_all);
    shm_apply(t, SHM_TEST_CUTS);
    return size;
}

static size_t send_all(stream *s, const struct iovec *parts, int count) {
    shm_stream *t = of(s);
    assert(loop_lock_held(&t->env->base));
    if (t->state == SHM_CONNECTING || t->state == SHM_AWAITING_SEGMENT) t->wants_writable = true;
    if (t->state != SHM_OPEN || count == 0) return 0;
    if (is_time_to_cut(t)) return lose_and_cut(t, parts, count);
    bool is_all = false;
    size_t taken = ring_put(&t->out, parts, count, &is_all);
    failpoint("ring_published");
    if (taken > 0 && ring_out_waits(&t->out)) {  // RING-13
        if (s->is_patient && is_all && ring_out_is_away(&t->out))
            loop_lock_ring_later(t->env, &t->source);
        else
            loop_lock_ring(t->env, &t->source);
    }
    if (is_all) return taken;
    t->wants_writable = true;
    // The loop reports the end of a broken ring, and room that was made meanwhile.
    if (t->out.is_broken || !ring_out_sleeps(&t->out)) loop_set_timer(&t->env->base, &t->timer, 0);
    return taken;
}

// ---- Life ---------------------------------------------------------------------------------------

static bool resize(void *user, bool large) {
    shm_stream *t = user;
    size_t beyond = (size_t)(t->out.bytes - t->map.base) + RING_SMALL_BYTES;
    size_t size = RING_BYTES - RING_SMALL_BYTES;
    if (!large) {
        segment_give_back(&t->map, beyond, size);
        return true;
    }
    if (!segment_allocate(&t->map, beyond, size)) return false;
    failpoint("ring_grown");
    loop_set_timer(&t->env->base, &t->shrink, os_now_ns(&t->env->base) + SHRINK_NS);
    return true;
}

// RING-8.
static void shrink_is_due(timer *due) {
    shm_stream *t = list_entry(due, shm_stream, shrink);
    if (!ring_shrink(&t->out))
        loop_set_timer(&t->env->base, due, os_now_ns(&t->env->base) + SHRINK_NS);
}

static void adopt(stream *s) {
    shm_stream *t = of(s);
    assert(loop_lock_held(&t->env->base));
    shm_apply(t, SHM_ADOPTED);
}

static void close_stream(stream *s) {
    shm_stream *t = of(s);
    assert(loop_lock_held(&t->env->base));
    shm_apply(t, SHM_CLOSED_HERE);
}

static void abandon(source *s) {
    shm_apply(of_source(s), SHM_ABANDONED);
}

static void free_stream(source *s) {
    segment_close(&of_source(s)->map);
}

static void is_due(timer *due) {
    shm_stream *t = list_entry(due, shm_stream, timer);
    if (t->state == SHM_OPEN) {
        exchange(t, 0);
    } else if (t->error) {
        shm_end(t, strerror(t->error));
    }
}

static const source_class polled = { .ready = ready,
                                     .abandon = abandon,
                                     .free = free_stream,
                                     .has_something = has_something,
                                     .sleeps = sleeps,
                                     .awakes = awakes,
                                     .ring = ring_bell };
static const stream_class class = {
    .transport = &shm_transport, .adopt = adopt, .send = send_all, .close = close_stream
};

shm_stream *shm_stream_new(os_env *o, int fd, shm_state state) {
    shm_stream *t = mem_alloc(sizeof *t);
    if (!t) return NULL;
    *t = (shm_stream){ .source.class = &polled,
                       .stream.class = &class,
                       .env = o,
                       .state = state,
                       .fd = fd,
                       .map.fd = -1 };
    t->timer.fire = is_due;
    t->shrink.fire = shrink_is_due;
    loop_own(o, &t->source);
    return t;
}

void shm_use(shm_stream *t, segment_map map, bool is_ours) {
    ring_words *words = (ring_words *)(void *)map.base;
    uint8_t *bytes = map.base + SEGMENT_PAGE_BYTES;
    int ours = is_ours ? 0 : 1;
    t->map = map;
    t->out = (ring_out){ .words = &words[ours],
                         .bytes = bytes + (size_t)ours * RING_BYTES,
                         .resize = resize,
                         .user = t };
    t->in =
        (ring_in){ .words = &words[1 - ours], .bytes = bytes + (size_t)(1 - ours) * RING_BYTES };
    ring_in_sleeps(&t->in);  // the socket reports the first bytes
}
