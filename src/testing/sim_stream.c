// Streams between nodes. Bytes keep their order; the seed decides when they arrive, and in what
// pieces.
#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "testing/sim_net.h"
#include "testing/sim_rings.h"

enum {
    SPLIT_PER_MILLION = 250000,   // deliveries of a part of the available bytes
    PARTIAL_PER_MILLION = 50000,  // sends that take less than they could
    SMALL_WINDOW_PER_MILLION = 100000,
    SMALL_WINDOW_MIN = 64,
    RESENDS_MAX = 8,
};
#define RESEND_NS INT64_C(200000000)  // until TCP sends unacknowledged bytes again

const char sim_refused[] = "Connection refused";

// ---- Life of a stream ---------------------------------------------------------------------------

static void arrive(sim_event *ev);
static void make_room(sim_event *ev);
static void break_up(sim_event *ev);

static size_t choose_window(sim *s) {
    size_t window = (size_t)s->options.window_bytes;
    if (sim_chance(s, SMALL_WINDOW_PER_MILLION))
        window = SMALL_WINDOW_MIN + sim_random_below(s, window);
    return window;
}

sim_stream *sim_new_conn(sim_env_ *x, stream_state state, void (*approach)(sim_event *ev)) {
    sim *s = x->sim;
    size_t window = choose_window(s);
    sim_stream *c = mem_calloc(sizeof *c);
    char *bytes = mem_alloc(window);
    if (!c || !bytes) {
        mem_free(c);
        mem_free(bytes);
        return NULL;
    }
    c->base.class = &sim_stream_class;
    c->env = x;
    c->state = state;
    c->id = (uint64_t)++s->next_conn;
    c->remote_node = -1;
    c->bytes = bytes;
    c->capacity = window;
    sim_event_init(s, &c->arrival, x, "bytes arrive", arrive);
    sim_event_init(s, &c->room, x, "there is room to send", make_room);
    sim_event_init(s, &c->approach, NULL, "a connection arrives", approach);
    sim_event_init(s, &c->break_up, NULL, "the network notices a loss", break_up);
    list_append(&x->conns, &c->link);
    return c;
}

// Nothing happens on it any more. Its struct stays, so that a use of it is found.
static void end_conn(sim_stream *c) {
    sim *s = c->env->sim;
    c->state = STREAM_CLOSED;
    sim_event_at(s, &c->arrival, ENV_NEVER);
    sim_event_at(s, &c->room, ENV_NEVER);
    sim_event_at(s, &c->approach, ENV_NEVER);
    sim_event_at(s, &c->break_up, ENV_NEVER);
    c->holds_arrival = c->holds_room = c->holds_approach = false;
    sim_filter_fini(c);
    sim_rings_close(c);
    mem_free(c->bytes);
    c->bytes = NULL;
    c->size = 0;
    list_remove(&c->link);
    list_append(&s->dead_conns, &c->link);
}

// Packet loss under TCP: bytes arrive later, and all behind them. It waits twice as long
// each time, and gives up in the end.
static int64_t resend_ns(sim_stream *c) {
    sim *s = c->env->sim;
    int64_t ns = 0;
    int tries = 0;
    if (c->rings) return 0;
    while (tries < RESENDS_MAX && sim_chance(s, s->options.resend_per_million))
        ns += RESEND_NS << tries++;
    s->counts.segments_lost += (uint64_t)tries;
    if (tries == RESENDS_MAX && c->state == STREAM_OPEN && !c->is_cut) sim_cut(c);
    return ns;
}

void sim_arrive_later(sim_stream *c) {
    sim *s = c->env->sim;
    if (sim_is_clogged(s, c->remote_node, c->env->node)) {
        c->holds_arrival = true;
    } else if (!sim_event_is_set(&c->arrival)) {
        int64_t ns = sim_delay_ns(s) + resend_ns(c);
        if (!sim_event_is_set(&c->arrival)) sim_event_at(s, &c->arrival, s->now_ns + ns);
    }
}

// The end that has read notifies the other that it has room.
void sim_room_later(sim_stream *c) {
    sim *s = c->env->sim;
    if (sim_is_clogged(s, c->remote_node, c->env->node)) {
        c->holds_room = true;
    } else if (!sim_event_is_set(&c->room)) {
        sim_event_at(s, &c->room, s->now_ns + sim_delay_ns(s));
    }
}

void sim_end_after_bytes(sim_stream *c, const char *why) {
    if (!c->end) c->end = why;
    sim_arrive_later(c);
}

void sim_close_stream(sim_stream *c) {
    assert(env_held(&c->env->base));
    if (c->state == STREAM_CLOSED) return;
    sim_note(c->env->sim, c->env->sim->running, "closes a connection", c->id, 0);
    sim_stream *peer = c->peer;
    end_conn(c);
    if (!peer) return;
    peer->peer = NULL;
    sim_end_after_bytes(peer, "closed by the peer");
}

// ---- Faults -------------------------------------------------------------------------------------

void sim_lose_from_some_byte(sim_stream *c, const char *why) {
    c->size = sim_random_below(c->env->sim, c->size + 1);
    if (c->rings) sim_rings_lose(c);
    c->is_cut = true;
    sim_end_after_bytes(c, why);
}

void sim_cut(sim_stream *c) {
    sim *s = c->env->sim;
    sim_note(s, NULL, "cuts a connection", c->id, 0);
    s->counts.cuts++;
    sim_stream *peer = c->peer;
    sim_lose_from_some_byte(c, "the connection was cut");
    c->peer = NULL;
    if (!peer) return;
    sim_lose_from_some_byte(peer, "the connection was cut");
    peer->peer = NULL;
}

static void break_up(sim_event *ev) {
    sim_stream *c = list_entry(ev, sim_stream, break_up);
    if (c->state == STREAM_OPEN && !c->is_cut) sim_cut(c);
}

void sim_cut_all(sim *s) {
    list_each(l, &s->envs) {
        sim_env_ *x = list_entry(l, sim_env_, link);
        list_each(k, &x->conns) {
            sim_stream *c = list_entry(k, sim_stream, link);
            if (c->state == STREAM_OPEN && !c->is_cut) sim_cut(c);
        }
    }
}

// ---- Bytes --------------------------------------------------------------------------------------

static void put_bytes(sim_stream *to, const char *bytes, size_t size) {
    while (size > 0) {
        size_t at = (to->start + to->size) % to->capacity;
        size_t piece = to->capacity - at < size ? to->capacity - at : size;
        memcpy(to->bytes + at, bytes, piece);
        to->size += piece;
        bytes += piece;
        size -= piece;
    }
}

static size_t total_size(const struct iovec *parts, int count) {
    size_t size = 0;
    for (int i = 0; i < count; i++) size += parts[i].iov_len;
    return size;
}

static size_t choose_taken(const sim_stream *c, size_t size) {
    sim *s = c->env->sim;
    size_t room = c->peer->capacity - c->peer->size;
    size_t taken = size < room ? size : room;
    if (taken > 1 && sim_chance(s, PARTIAL_PER_MILLION)) taken = 1 + sim_random_below(s, taken);
    return taken;
}

static size_t send_to_window(sim_stream *c, const struct iovec *parts, size_t size) {
    size_t taken = choose_taken(c, size), left = taken;
    for (int i = 0; left > 0; i++) {
        size_t piece = parts[i].iov_len < left ? parts[i].iov_len : left;
        put_bytes(c->peer, parts[i].iov_base, piece);
        left -= piece;
    }
    if (taken > 0) sim_arrive_later(c->peer);
    if (taken < size) {
        c->wants_room = true;
        if (c->peer->size < c->peer->capacity) sim_room_later(c);
    }
    return taken;
}

static size_t send_bytes(stream *to, const struct iovec *parts, int count) {
    sim_stream *c = (sim_stream *)to;
    sim *s = c->env->sim;
    assert(env_held(&c->env->base) && c->state != STREAM_CLOSED);
    size_t size = total_size(parts, count);
    if (c->state == STREAM_CONNECTING) {
        c->wants_room = true;
        return 0;
    }
    if (!c->peer || size == 0) return size;  // its other end is gone
    size_t taken = c->rings ? sim_rings_send(c, parts, count) : send_to_window(c, parts, size);
    sim_note(s, s->running, "sends", c->id, taken);
    s->send_count++;
    sim_give_cues(s);
    return taken;
}

static void make_room(sim_event *ev) {
    sim_stream *c = list_entry(ev, sim_stream, room);
    if (c->state != STREAM_OPEN || !c->wants_room) return;
    if (c->rings && !sim_rings_have_room(c)) return;
    c->wants_room = false;
    c->base.events->writable(c->base.user);
}

// How many of the available bytes arrive now.
static size_t choose_piece(sim *s, size_t size) {
    if (size > 1 && sim_chance(s, SPLIT_PER_MILLION)) return 1 + sim_random_below(s, size);
    return size;
}

// A bit that changes on the way, which the sums of TCP have not noticed.
static void damage(sim_stream *c, void *bytes, size_t size) {
    sim *s = c->env->sim;
    if (!sim_filter_is_in_frame(c) || !sim_chance(s, s->options.damage_per_million)) return;
    size_t at = sim_random_below(s, size);
    ((uint8_t *)bytes)[at] ^= (uint8_t)(1 << sim_random_below(s, 8));
    s->counts.bits_changed++;
    sim_note(s, NULL, "changes a bit", c->id, at);
}

static void deliver(sim_stream *c, size_t most) {
    sim *s = c->env->sim;
    while (most > 0 && c->state == STREAM_OPEN) {
        const char *from;
        size_t piece = sim_filter_inspect(c, most, &from);
        if (piece == 0) return;
        void *into = NULL;
        size_t room = 0;
        c->base.events->buffer(c->base.user, &into, &room);
        if (c->state != STREAM_OPEN) return;
        assert(room > 0);
        if (piece > room) piece = room;
        memcpy(into, from, piece);
        damage(c, into, piece);
        sim_filter_given(c, piece);
        most -= piece;
        s->counts.bytes += piece;
        sim_note(s, s->running, "receives", c->id, piece);
        c->base.events->received(c->base.user, piece);
    }
}

static void end_stream(sim_stream *c) {
    gw_error error;
    gw_status status = c->end == sim_refused ? GW_NOT_FOUND : GW_DISCONNECTED;
    error_set(&error, status, "%s", c->end);
    sim_note(c->env->sim, c->env->sim->running, "loses a connection", c->id, 0);
    if (c->peer) c->peer->peer = NULL;
    end_conn(c);
    c->base.events->closed(c->base.user, &error);
}

static void arrive(sim_event *ev) {
    sim_stream *c = list_entry(ev, sim_stream, arrival);
    sim *s = c->env->sim;
    if (c->state == STREAM_ACCEPTED) return;  // not handed out yet: no end reads
    s->counts.deliveries++;
    size_t size = c->size;
    uint64_t bytes = s->counts.bytes;
    bool has_progress = true;
    if (c->state == STREAM_CONNECTING && !c->end) {
        c->state = STREAM_OPEN;
        if (c->wants_room) sim_room_later(c);
        c->base.events->opened(c->base.user);
        if (c->state == STREAM_OPEN && c->rings) sim_arrive_later(c);
    } else if (c->state == STREAM_OPEN && c->rings) {
        if (sim_rings_poll(c)) end_stream(c);
        return;
    } else if (c->state == STREAM_OPEN && c->size + sim_filter_left(c) > 0) {
        if (!c->is_cut && sim_chance(s, s->options.cut_per_million)) sim_cut(c);
        deliver(c, choose_piece(s, c->size + sim_filter_left(c)));
        has_progress = c->size != size || s->counts.bytes != bytes;
    } else if (c->end) {
        end_stream(c);
        return;
    }
    if (c->state != STREAM_OPEN) return;
    if (c->peer && c->peer->wants_room) sim_room_later(c->peer);
    // A part of a header waits for the rest of it: then nothing was given, nor taken away.
    if (c->end || (c->size + sim_filter_left(c) > 0 && has_progress)) sim_arrive_later(c);
}

static void adopt(stream *adopted) {
    sim_stream *c = (sim_stream *)adopted;
    assert(env_held(&c->env->base) && c->state == STREAM_ACCEPTED);
    c->state = STREAM_OPEN;
    if (c->size > 0 || c->end || c->rings) sim_arrive_later(c);
}

static void close_stream(stream *s) {
    sim_close_stream((sim_stream *)s);
}

const stream_class sim_stream_class = {
    .transport = &sim_transport, .adopt = adopt, .send = send_bytes, .close = close_stream
};
const stream_class sim_rings_class = {
    .transport = &sim_rings_transport, .adopt = adopt, .send = send_bytes, .close = close_stream
};
