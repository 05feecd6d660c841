// Streams through the rings of net/shm/ring.h, in memory that both ends have. A bell takes a while, arrives together
// with others or without a reason; an end that is awake polls again by itself. Instead of a cut, an end may find
// invalid words.
#include "testing/sim_rings.h"

#include <string.h>

#include "base/mem.h"

enum {
    POLLS_ON_PER_MILLION = 300000,  // polls for a while before it sleeps
    RINGS_FOR_NOTHING_PER_MILLION = 20000,
    NO_PAGES_PER_MILLION = 200000,  // a ring that wants to grow, and cannot
    SHRINKS_PER_MILLION = 2000,
    PIECE_PER_MILLION = 250000,  // polls that take a part of the available bytes
    LOST_MAX = 100000,           // bytes that a broken connection still delivers
};

typedef struct sim_memory {
    ring_words words[2];
    uint8_t *bytes[2];
    int user_count;
} sim_memory;

struct sim_rings {
    sim *sim;
    sim_memory *memory;
    ring_in in;
    ring_out out;
    size_t left;    // bytes that still arrive, of a stream that was cut
    bool polls_on;  // has found nothing, and is about to sleep
};

// ---- Life ---------------------------------------------------------------------------------------

// Pages that were given back are zeros when they are used again: no code may rely on their old contents.
static bool resize(void *user, bool large) {
    sim_rings *r = user;
    if (large) return !sim_chance(r->sim, NO_PAGES_PER_MILLION);
    memset(r->out.bytes + RING_SMALL_BYTES, 0xee, RING_BYTES - RING_SMALL_BYTES);
    return true;
}

static void free_memory(sim_memory *m) {
    mem_free(m->bytes[0]);
    mem_free(m->bytes[1]);
    mem_unreserve(m);
}

static sim_memory *new_memory(void) {
    sim_memory *m = mem_reserve(64, sizeof *m);
    if (!m) return NULL;
    memset(m, 0, sizeof *m);
    for (int i = 0; i < 2; i++) m->bytes[i] = mem_calloc(RING_BYTES);
    if (m->bytes[0] && m->bytes[1]) return m;
    free_memory(m);
    return NULL;
}

static sim_rings *new_end(sim *s, sim_memory *m, int own) {
    sim_rings *r = mem_calloc(sizeof *r);
    if (!r) return NULL;
    *r = (sim_rings){ .sim = s, .memory = m };
    r->out =
        (ring_out){ .words = &m->words[own], .bytes = m->bytes[own], .resize = resize, .user = r };
    r->in = (ring_in){ .words = &m->words[1 - own], .bytes = m->bytes[1 - own] };
    m->user_count++;
    ring_in_sleeps(&r->in);
    return r;
}

bool sim_rings_open(sim_stream *client, sim_stream *server) {
    sim *s = client->env->sim;
    sim_memory *m = new_memory();
    if (!m) return false;
    client->rings = new_end(s, m, 0);
    server->rings = client->rings ? new_end(s, m, 1) : NULL;
    if (server->rings) return true;
    if (client->rings)
        sim_rings_close(client);
    else
        free_memory(m);
    return false;
}

void sim_rings_close(sim_stream *c) {
    if (!c->rings) return;
    if (--c->rings->memory->user_count == 0) free_memory(c->rings->memory);
    mem_free(c->rings);
    c->rings = NULL;
}

void sim_rings_lose(sim_stream *c) {
    sim *s = c->env->sim;
    c->rings->left = sim_random_below(s, 3) ? (size_t)sim_random_below(s, LOST_MAX) : SIZE_MAX;
}

// ---- Out ----------------------------------------------------------------------------------------

size_t sim_rings_send(sim_stream *c, const struct iovec *parts, int count) {
    sim_rings *r = c->rings;
    bool is_all = false;
    size_t taken = ring_put(&r->out, parts, count, &is_all);
    bool rings = taken > 0 && ring_out_wakes(&r->out);
    if (rings || sim_chance(r->sim, RINGS_FOR_NOTHING_PER_MILLION)) sim_arrive_later(c->peer);
    if (is_all) return taken;
    c->wants_room = true;
    if (r->out.is_broken || !ring_out_sleeps(&r->out)) sim_room_later(c);
    return taken;
}

bool sim_rings_have_room(sim_stream *c) {
    sim_rings *r = c->rings;
    bool has_room = ring_has_room(&r->out);
    if (r->out.is_broken) {
        if (!c->is_cut) sim_cut(c);
        return false;
    }
    if (has_room) return true;
    if (!ring_out_sleeps(&r->out)) sim_room_later(c);
    return false;
}

// ---- In -----------------------------------------------------------------------------------------

// The peer writes invalid words.
static void scribble(sim_rings *r) {
    uint64_t off = sim_random_below(r->sim, UINT64_C(1) << 40);
    if (sim_random_below(r->sim, 2)) {
        atomic_store(&r->in.words->tail, r->in.head + 3 * (uint64_t)RING_BYTES + off);
    } else {
        atomic_store(&r->out.words->head, r->out.tail + 1 + off);
    }
}

// True once no more bytes are available now.
static bool take(sim_stream *c, size_t most) {
    sim *s = c->env->sim;
    while (most > 0) {
        sim_rings *r = c->rings;
        size_t size = c->is_cut && r->left < most ? r->left : most;
        if (size == 0 || !ring_has_bytes(&r->in)) return true;
        void *into = NULL;
        size_t room = 0;
        c->base.events->buffer(c->base.user, &into, &room);
        if (c->state != STREAM_OPEN) return false;
        size_t n = ring_take(&r->in, into, room < size ? room : size);
        if (n == 0) return true;
        if (c->is_cut) r->left -= n;
        most -= n;
        s->counts.bytes += n;
        sim_note(s, s->running, "receives", c->id, n);
        c->base.events->received(c->base.user, n);
        if (c->state != STREAM_OPEN) return false;
    }
    return false;
}

// At once, or later: bytes that are written meanwhile ring no bell.
static bool falls_asleep(sim_rings *r) {
    r->polls_on = sim_chance(r->sim, POLLS_ON_PER_MILLION);
    return !r->polls_on && ring_in_sleeps(&r->in);
}

static bool is_still_asleep(sim_rings *r) {
    bool polled_on = r->polls_on;
    r->polls_on = false;
    return polled_on && ring_in_sleeps(&r->in);
}

bool sim_rings_poll(sim_stream *c) {
    sim *s = c->env->sim;
    sim_rings *r = c->rings;
    if (!c->end && is_still_asleep(r)) return false;
    ring_in_awake(&r->in);
    if (!c->is_cut && ring_has_bytes(&r->in) && sim_chance(s, s->options.cut_per_million)) {
        if (sim_random_below(s, 2))
            sim_cut(c);
        else
            scribble(r);
    }
    size_t most = sim_chance(s, PIECE_PER_MILLION) ? 1 + sim_random_below(s, 4096) : SIZE_MAX;
    bool is_empty = take(c, most);
    if (c->state != STREAM_OPEN) return false;
    if (ring_in_wakes(&r->in) && c->peer) sim_room_later(c->peer);
    if ((r->in.is_broken || r->out.is_broken) && !c->is_cut) sim_cut(c);
    if (c->end && is_empty) return true;
    if (sim_chance(s, SHRINKS_PER_MILLION)) ring_shrink(&r->out);
    if (c->wants_room) sim_room_later(c);
    if (c->end || !is_empty || !falls_asleep(r)) sim_arrive_later(c);
    return false;
}
