// Lost, damaged and repeated frames, below the session: the session that reads the stream never
// gets a lost one, and gets a repeated one again at once. A stream that has lost something is cut a little
// later, if its users have not closed it: a network that loses also breaks.
#include <string.h>

#include "base/mem.h"
#include "net/handshake.h"
#include "testing/sim_net.h"
#include "wire/frame.h"

enum { BREAK_UP_MIN_MS = 100, BREAK_UP_MAX_MS = 1500 };

static void peek(const sim_stream *c, void *out, size_t size) {
    size_t first = c->capacity - c->start < size ? c->capacity - c->start : size;
    memcpy(out, c->bytes + c->start, first);
    memcpy((char *)out + first, c->bytes, size - first);
}

static void drop(sim_stream *c, size_t size) {
    c->start = (c->start + size) % c->capacity;
    c->size -= size;
}

static void forget_copy(sim_filter *f) {
    mem_free(f->copy);
    f->copy = NULL;
    f->copy_size = f->copy_at = 0;
}

// Frames follow a session's hello in one direction and its welcome in the other.
static bool begin_handshake(sim_stream *c) {
    sim_filter *f = &c->filter;
    uint8_t in[HANDSHAKE_PREFACE_BYTES];
    size_t size;
    uint16_t version;
    if (c->size < sizeof in) return false;
    peek(c, in, sizeof in);
    f->has_handshake = true;
    f->is_raw = true;
    if (handshake_size(in, sizeof in, &size, &version, NULL)) return true;
    uint8_t kind = in[10];
    if (kind == HANDSHAKE_SESSION) {
        f->is_session = true;
        if (c->peer) c->peer->filter.is_session = true;
    }
    f->is_raw = !f->is_session || kind == HANDSHAKE_REFUSAL;
    f->pass = size;
    return true;
}

static void lose(sim_stream *c, size_t size) {
    sim *s = c->env->sim;
    c->filter.skip = size;
    s->counts.frames_lost++;
    sim_note(s, NULL, "loses a frame", c->id, size);
    int64_t ms = BREAK_UP_MIN_MS + (int64_t)sim_random_below(s, BREAK_UP_MAX_MS - BREAK_UP_MIN_MS);
    if (!sim_event_is_set(&c->break_up)) sim_event_at(s, &c->break_up, s->now_ns + ms * 1000000);
}

static void begin_copy(sim_stream *c, size_t size) {
    sim_filter *f = &c->filter;
    forget_copy(f);
    f->copy = mem_alloc(size);
    f->copies = f->copy != NULL;
}

static bool begin_frame(sim_stream *c) {
    sim *s = c->env->sim;
    sim_filter *f = &c->filter;
    uint8_t in[FRAME_HEADER_BYTES];
    frame header;
    if (c->size < sizeof in) return false;
    peek(c, in, sizeof in);
    if (frame_decode(in, &header, NULL)) {
        f->is_raw = true;
        return true;
    }
    size_t size = sizeof in + header.body_size;
    if (sim_chance(s, s->options.lose_per_million)) {
        lose(c, size);
        return true;
    }
    f->pass = size;
    f->is_frame = true;
    if (sim_chance(s, s->options.duplicate_per_million)) begin_copy(c, size);
    return true;
}

static bool repeats_now(sim_stream *c) {
    sim *s = c->env->sim;
    sim_filter *f = &c->filter;
    if (f->copy_at > 0) return true;
    if (!f->copy) return false;
    s->counts.frames_repeated++;
    sim_note(s, NULL, "repeats a frame", c->id, f->copy_size);
    return true;
}

// False if more bytes are needed to recognise the next part.
static bool begin(sim_stream *c) {
    sim_filter *f = &c->filter;
    bool is_last = c->end && c->size > 0;
    if (f->has_handshake ? begin_frame(c) : begin_handshake(c)) return true;
    if (is_last) f->is_raw = true;  // whatever it is, there will be no more of it
    return is_last;
}

size_t sim_filter_inspect(sim_stream *c, size_t most, const char **out) {
    sim_filter *f = &c->filter;
    const sim_options *o = &c->env->sim->options;
    bool inspects =
        o->lose_per_million > 0 || o->duplicate_per_million > 0 || o->damage_per_million > 0;
    if (!inspects) f->is_raw = true;
    while (!f->is_raw && f->pass == 0) {
        if (f->skip > 0) {
            size_t size = f->skip < c->size ? f->skip : c->size;
            drop(c, size);
            f->skip -= size;
            if (f->skip > 0) return 0;
        }
        if (repeats_now(c)) {
            *out = f->copy + f->copy_at;
            return most < f->copy_size - f->copy_at ? most : f->copy_size - f->copy_at;
        }
        if (!begin(c)) return 0;
    }
    size_t size = most < c->size ? most : c->size;
    if (f->pass > 0 && size > f->pass) size = f->pass;
    if (size > c->capacity - c->start) size = c->capacity - c->start;
    *out = c->bytes + c->start;
    return size;
}

bool sim_filter_is_in_frame(const sim_stream *c) {
    const sim_filter *f = &c->filter;
    return f->is_frame && f->pass > 0;
}

void sim_filter_given(sim_stream *c, size_t size) {
    sim_filter *f = &c->filter;
    if (f->copy && !f->copies && f->pass == 0) {
        f->copy_at += size;
        if (f->copy_at == f->copy_size) forget_copy(f);
        return;
    }
    if (f->copies) {
        memcpy(f->copy + f->copy_size, c->bytes + c->start, size);
        f->copy_size += size;
    }
    drop(c, size);
    if (f->pass == 0) return;
    f->pass -= size;
    if (f->pass == 0) f->copies = false;
}

size_t sim_filter_left(const sim_stream *c) {
    return c->filter.copy_at > 0 ? c->filter.copy_size - c->filter.copy_at : 0;
}

void sim_filter_fini(sim_stream *c) {
    forget_copy(&c->filter);
}
