// A session: its life, its receiving half, its sending half.
#include "session/session.h"

#include "base/limits.h"
#include "base/mem.h"
#include "base/mutation.h"
#include "session/outbox.h"
#include "session/session_internal.h"

#include <assert.h>
#include <string.h>

enum {
    DIRECT_MIN = 16 * 1024,  // less than this is copied
};

void session_init(session *s, void (*message)(void *user, struct message *m), void *user) {
    *s = (session){ .message = message, .user = user };
    list_init(&s->unacked);
}

void session_stop(session *s) {
    s->is_stopped = true;
    session_give_back_sending(s);
    assembly_drop(&s->assembly);
}

void session_fini(session *s) {
    session_stop(s);
}

// "Part of a frame that was received before the break is dropped."
void session_detach(session *s) {
    bool inside = s->body_left > 0 && !s->skips_body;
    s->header_done = 0;
    s->body_left = 0;
    if (inside && s->frame.first) {
        assembly_drop(&s->assembly);
    } else if (inside) {
        assembly_rewind(&s->assembly, s->mark);
    }
    session_detach_sending(s);
}

// ---- Where bytes go -----------------------------------------------------------------------------
// Inside a large message the bytes go straight to their place, with the header of the next frame
// behind them: it lies where that frame's own body will overwrite it.
bool session_buffer(session *s, void **into, size_t *size) {
    if (s->is_stopped || !s->assembly.message || s->skips_body) return false;
    uint8_t *place;
    size_t room;
    if (assembly_place(&s->assembly, &place, &room, NULL) || room < DIRECT_MIN) return false;
    if (s->body_left == 0) {
        *into = s->header + s->header_done;
        *size = FRAME_HEADER_BYTES - s->header_done;
        return true;
    }
    if (s->body_left < DIRECT_MIN) return false;
    size_t most = s->body_left + FRAME_HEADER_BYTES;
    *into = place;
    *size = room < most ? room : most;
    return true;
}

// ---- Frames -------------------------------------------------------------------------------------
static bool is_whole_message(const session *s) {
    const frame *f = &s->frame;
    return f->first && f->head_size == f->body_size && !f->segment_count && !s->assembly.message;
}

static gw_status begin_data(session *s, gw_error *error) {
    const frame *f = &s->frame;
    unsigned long long number = f->number;
    bool repeats = has_mutation(MUTATION_DUPLICATE_FRAME) && is_whole_message(s);
    s->skips_body = f->number <= s->received && !repeats;
    if (s->skips_body) return GW_OK;
    if (f->first) {
        if (s->assembly.message)
            return error_set(error, GW_PROTOCOL, "frame %llu begins a message inside another",
                             number);
        gw_status status =
            assembly_open(&s->assembly, f->kind, f->head_size, f->segment_count, error);
        if (status) return status;
    } else if (!s->assembly.message) {
        return error_set(error, GW_PROTOCOL, "frame %llu goes on with no message", number);
    }
    s->mark = s->assembly.at;
    return GW_OK;
}

// The others carry the number of the last data frame before them.
static bool has_gap(const session *s) {
    const frame *f = &s->frame;
    if (f->type > FRAME_GOODBYE) return false;
    return f->number > s->received && f->number - s->received > (f->type == FRAME_DATA);
}

static gw_status begin_frame(session *s, gw_error *error) {
    s->header_done = 0;
    gw_status status = frame_decode(s->header, &s->frame, error);
    if (!status) status = session_take_ack(s, s->frame.ack, error);
    if (status) return status;
    s->skips_body = true;
    if (has_gap(s))  // lost on the way; another connection brings it
        return error_set(error, GW_DISCONNECTED, "frame %llu came after frame %llu",
                         (unsigned long long)s->frame.number, (unsigned long long)s->received);
    switch (s->frame.type) {
    case FRAME_DATA: status = begin_data(s, error); break;
    case FRAME_PING: s->ack_wanted = true; break;
    case FRAME_GOODBYE: s->has_close = s->is_stopped = true; break;
    default: break;
    }
    if (!status) s->body_left = s->frame.body_size;
    return status;
}

// Takes what belongs to the body; the place may be where the bytes lie already.
static gw_status take_body(session *s, const uint8_t **data, size_t *count, gw_error *error) {
    while (s->body_left > 0 && *count > 0) {
        size_t size = s->body_left < *count ? s->body_left : *count;
        if (!s->skips_body) {
            uint8_t *into;
            size_t room;
            gw_status status = assembly_place(&s->assembly, &into, &room, error);
            if (status) return status;
            if (room == 0)
                return error_set(error, GW_PROTOCOL, "frame %llu is longer than its message",
                                 (unsigned long long)s->frame.number);
            if (size > room) size = room;
            if (into != *data) memcpy(into, *data, size);
            assembly_advance(&s->assembly, size);
        }
        s->body_left -= size;
        *data += size;
        *count -= size;
    }
    return GW_OK;
}

static gw_status end_frame(session *s, gw_error *error) {
    const frame *f = &s->frame;
    if (s->skips_body) return GW_OK;
    bool is_complete = assembly_is_complete(&s->assembly);
    if (f->body_size == 0 && !is_complete)
        return error_set(error, GW_PROTOCOL, "frame %llu is empty, its message is not",
                         (unsigned long long)f->number);
    if (f->number > s->received) s->received = f->number;
    s->owed_frames++;
    s->owed_bytes += f->body_size;
    if (is_complete) s->message(s->user, assembly_take(&s->assembly));
    return GW_OK;
}

gw_status session_feed(session *s, const void *bytes, size_t count, gw_error *error) {
    const uint8_t *data = bytes;
    while (count > 0 && !s->is_stopped) {
        gw_status status = GW_OK;
        if (s->body_left == 0) {
            size_t size = FRAME_HEADER_BYTES - s->header_done;
            if (size > count) size = count;
            if (s->header + s->header_done != data) memcpy(s->header + s->header_done, data, size);
            s->header_done += size;
            data += size;
            count -= size;
            if (s->header_done < FRAME_HEADER_BYTES) break;
            status = begin_frame(s, error);
        }
        if (!status) status = take_body(s, &data, &count, error);
        if (!status && s->body_left == 0) status = end_frame(s, error);
        if (status) return status;
    }
    return GW_OK;
}

// ---- Sending ------------------------------------------------------------------------------------

// ---- Messages that wait to be sent or acknowledged ----------------------------------------------
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
    if (s->outbox && s->outbox->large && outbox_is_empty(s->outbox)) outbox_shrink(s->outbox);
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

// ---- Filling the outbox -------------------------------------------------------------------------
static void put_header(session *s, frame f) {
    f.ack = s->received;
    if (f.type != FRAME_DATA) f.number = s->outbox->last;  // so that a gap shows without data
    frame_encode(outbox_copy(s->outbox, FRAME_HEADER_BYTES), &f);
    s->owed_frames = s->owed_bytes = 0;
    s->ack_wanted = false;
}

static void fill_header(session *s) {
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

static void finish_frame(session *s) {
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
            fill_header(s);
        }
        while (s->frame_left > 0)
            if (!put_piece(s)) return;
        finish_frame(s);
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

// ---- Connections --------------------------------------------------------------------------------
gw_status session_resume(session *s, uint64_t peer_received, gw_error *error) {
    if (!s->outbox) s->outbox = mem_calloc(sizeof *s->outbox);
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
    outbox_close(s->outbox);
    s->outbox = NULL;
}

void session_detach_sending(session *s) {
    outbox_close(s->outbox);
    s->outbox = NULL;
    s->frame_left = 0;
}
