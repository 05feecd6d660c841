// The sending half of a session: numbers, the outbox, and what the peer has acknowledged.
#include "session/session_internal.h"

#include "base/limits.h"
#include "base/mem.h"
#include "base/mutation.h"
#include "session/outbox.h"

#include <assert.h>

// ---- Messages that wait to be sent or acknowledged ----------------------------------------------------------------
static message *message_of(list_node *l) {
    return list_entry(l, message, link);
}

static uint64_t last_number_of(const message *m) {
    return m->number + m->frame_count - 1;
}

// Points to the frame |number| of |m|, which begins |skip| bytes into it.
static void seek(session *s, message *m, uint64_t number, uint64_t skip) {
    s->next = m;
    s->next_number = number;
    s->frame_left = 0;
    s->piece = 0;
    s->next_left = message_size(m) - skip;
    while (skip > 0) {
        size_t size = s->piece == 0 ? m->head.size : m->segments[s->piece - 1].size;
        if (skip < size) break;
        skip -= size;
        s->piece++;
    }
    s->piece_done = (size_t)skip;
}

gw_status session_queue(session *s, message *m, gw_error *error) {
    gw_status status = message_seal(m, error);
    if (status) goto release;
    uint64_t size = message_size(m);
    if (size > LIMIT_UNSENT_BYTES - s->unacked_bytes) {
        status = error_set(error, GW_OVERLOADED, "%llu bytes are waiting to be sent already",
                           (unsigned long long)s->unacked_bytes);
        goto release;
    }
    m->number = s->last + 1;
    s->last += m->frame_count;
    s->unacked_bytes += size;
    list_append(&s->unacked, &m->link);
    if (!s->next) seek(s, m, m->number, 0);
    return GW_OK;

release:
    message_release(m);
    return status;
}

bool session_relabel(session *s, uint64_t number, uint8_t kind) {
    if (session_has_sent(s, number)) return false;
    for (list_node *l = s->unacked.previous; l != &s->unacked; l = l->previous) {
        message *m = message_of(l);
        if (last_number_of(m) > number) continue;
        bool begun = session_has_sent(s, m->number) || (m == s->next && s->frame_left > 0);
        if (last_number_of(m) < number || begun) return false;
        m->kind = kind;
        return true;
    }
    return false;
}

// A frame that lies in the outbox still is referred to from there: it must have been taken, too.
static void forget_acked(session *s) {
    uint64_t done = s->acked < s->taken ? s->acked : s->taken;
    while (!list_is_empty(&s->unacked)) {
        message *m = message_of(s->unacked.next);
        if (last_number_of(m) > done) return;
        list_remove(&m->link);
        s->unacked_bytes -= message_size(m);
        message_release(m);
    }
}

gw_status session_take_ack(session *s, uint64_t ack, gw_error *error) {
    if (ack == s->acked) return GW_OK;
    if (ack < s->acked)
        return error_set(error, GW_PROTOCOL, "frame %llu was acknowledged before, now only %llu",
                         (unsigned long long)s->acked, (unsigned long long)ack);
    if (ack > s->filled)
        return error_set(error, GW_PROTOCOL, "frame %llu acknowledged, %llu sent",
                         (unsigned long long)ack, (unsigned long long)s->filled);
    s->acked = ack;
    forget_acked(s);
    return GW_OK;
}

// ---- Filling the outbox -------------------------------------------------------------------------------------------
static void put_header(session *s, frame f) {
    f.ack = s->received;
    if (f.type != FRAME_DATA) f.number = s->outbox->last;  // so that a gap shows without data
    frame_encode(outbox_copy(s->outbox, FRAME_HEADER_BYTES), &f);
    s->owed_frames = s->owed_bytes = 0;
    s->ack_wanted = false;
}

static void begin_frame(session *s) {
    const message *m = s->next;
    s->frame_left = s->next_left < LIMIT_FRAME_BYTES ? (size_t)s->next_left : LIMIT_FRAME_BYTES;
    frame f = { .type = FRAME_DATA,
                .number = s->next_number,
                .body_size = (uint32_t)s->frame_left };
    if (s->next_number == m->number) {
        f.first = true;
        f.kind = m->kind;
        f.segment_count = m->segment_count;
        f.head_size = (uint32_t)m->head_size;
    }
    put_header(s, f);
}

// As much of the frame's body as lies in one piece and has room. False: no room.
static bool put_piece(session *s) {
    const message *m = s->next;
    const uint8_t *at;
    size_t left;
    if (s->piece == 0) {
        at = m->head.data;
        left = m->head.size;
    } else {
        const segment *g = &m->segments[s->piece - 1];
        at = block_lend(g->block, g->offset);
        left = g->size;
    }
    at += s->piece_done;
    left -= s->piece_done;
    size_t size = left < s->frame_left ? left : s->frame_left;
    if (size <= OUTBOX_COPY_MAX && outbox_has_room(s->outbox, size)) {
        memcpy(outbox_copy(s->outbox, size), at, size);
    } else {
        if (outbox_is_full(s->outbox)) return false;
        outbox_refer(s->outbox, at, size);
    }
    s->frame_left -= size;
    s->next_left -= size;
    s->piece_done += size;
    if (size == left) {
        s->piece++;
        s->piece_done = 0;
    }
    return true;
}

static void end_frame(session *s) {
    s->outbox->last = s->next_number;
    if (s->next_number > s->filled) s->filled = s->next_number;
    s->next_number++;
    if (s->next_left > 0) return;
    message *m = s->next;
    s->next = NULL;
    if (m->link.next != &s->unacked) seek(s, message_of(m->link.next), s->next_number, 0);
}

static void fill_with_data(session *s) {
    outbox *o = s->outbox;
    while (s->next && !outbox_is_full(o)) {
        if (s->frame_left == 0) {
            if (!outbox_has_room(o, FRAME_HEADER_BYTES)) return;
            begin_frame(s);
        }
        while (s->frame_left > 0)
            if (!put_piece(s)) return;
        end_frame(s);
    }
}

// Not inside a data frame.
static void fill_with_control(session *s) {
    if (s->frame_left > 0 || !outbox_has_room(s->outbox, 3 * FRAME_HEADER_BYTES)) return;
    bool owes_ack = session_owes_ack_now(s);
    if (s->ping_wanted) put_header(s, (frame){ .type = FRAME_PING });
    if (owes_ack && session_owes_ack_now(s)) put_header(s, (frame){ .type = FRAME_ACK });
    if (s->close_wanted && !s->next) {
        put_header(s, (frame){ .type = FRAME_GOODBYE });
        s->close_wanted = false;
    }
    s->ping_wanted = false;
}

bool session_fill(session *s) {
    outbox *o = s->outbox;
    if (!o) return false;
    if (!outbox_is_empty(o)) return true;
    outbox_clear(o);
    fill_with_data(s);
    fill_with_control(s);
    return !outbox_is_empty(o);
}

const struct iovec *session_parts(const session *s, int *out_count) {
    *out_count = s->outbox->end - s->outbox->begin;
    return s->outbox->parts + s->outbox->begin;
}

void session_sent(session *s, size_t count) {
    outbox_take(s->outbox, count);
    if (!outbox_is_empty(s->outbox)) return;
    s->taken = s->outbox->last;
    forget_acked(s);
}

// ---- Connections --------------------------------------------------------------------------------------------------
gw_status session_resume(session *s, uint64_t peer_received, gw_error *error) {
    if (!s->outbox) s->outbox = mem_alloc(sizeof *s->outbox);
    if (!s->outbox) return error_set(error, GW_NO_MEMORY, "no memory for a connection");
    outbox_clear(s->outbox);
    s->taken = s->acked;
    gw_status status = session_take_ack(s, peer_received, error);
    if (status) return status;
    s->outbox->last = s->taken = s->acked;
    forget_acked(s);
    s->next = NULL;
    s->frame_left = 0;
    if (list_is_empty(&s->unacked)) return GW_OK;
    message *m = message_of(s->unacked.next);
    uint64_t number = s->acked + 1;
    assert(number >= m->number);
    if (has_mutation(MUTATION_RESEND_LOST)) {
        number = s->filled + 1;
        while (last_number_of(m) < number) {
            if (m->link.next == &s->unacked) return GW_OK;
            m = message_of(m->link.next);
        }
    }
    seek(s, m, number, (number - m->number) * LIMIT_FRAME_BYTES);
    return GW_OK;
}

void session_give_back_sending(session *s) {
    for (list_node *l; (l = list_take(&s->unacked));) message_release(message_of(l));
    s->unacked_bytes = 0;
    s->next = NULL;
    mem_free(s->outbox);
    s->outbox = NULL;
}

void session_detach_sending(session *s) {
    mem_free(s->outbox);
    s->outbox = NULL;
    s->frame_left = 0;
}
