// The sending half of a session: messages that wait to be sent or acknowledged, and which of them
// the next frame belongs to.
#include "base/crc32c.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/mutation.h"
#include "session/outbox.h"
#include "session/session_internal.h"

#include <string.h>

enum {
    STREAM_RUN_BYTES = 1 << 20,    // of data frames, for each bulk frame that waits
    BULK_FRAME_BYTES = 64 * 1024,  // at 1 Gb/s half a millisecond
    BULK_BURST_MAX = 4,            // bulk frames of one filling
};

void session_init_sending(session *s) {
    list_init(&s->unacked);
    list_init(&s->bulks);
    s->bulk_burst = 1;
}

// ---- Messages that wait to be sent or acknowledged ----------------------------------------------
static message *message_of(list_node *l) {
    return list_entry(l, message, link);
}

static message *message_of_bulk(list_node *l) {
    return list_entry(l, message, bulk_link);
}

static uint64_t bulk_bytes(const message *m) {
    return m->has_bulk ? m->size - m->head.size : 0;
}

static uint64_t stream_bytes(const message *m) {
    return m->size - bulk_bytes(m);
}

static bool has_streamed(const message *m, const message_progress *p) {
    return p->begun && p->stream == stream_bytes(m);
}

static bool is_over(const message *m, const message_progress *p) {
    return has_streamed(m, p) && p->bulk == bulk_bytes(m);
}

static size_t piece_size(const message *m, uint32_t piece) {
    return piece == 0 ? m->head.size : m->segments[piece - 1].size;
}

static message_cursor seek(const message *m, uint32_t piece, uint64_t skip) {
    while (skip > 0 && skip >= piece_size(m, piece)) skip -= piece_size(m, piece++);
    return (message_cursor){ piece, (size_t)skip };
}

// The stream of |m| is sent next, from its cursor on.
static void stream_next(session *s, message *m) {
    s->next = m;
    s->next_at = seek(m, 0, m->put.stream);
}

static bool list_unbegun(session *s) {
    for (list_node *l = s->unacked.previous; l != &s->unacked; l = l->previous) {
        message *m = message_of(l);
        if (m->id <= s->begun_id) break;
        if (map_put(&s->unbegun, m->id, m)) continue;
        map_fini(&s->unbegun);
        return false;
    }
    return true;
}

static void note_begun(session *s, uint64_t id) {
    s->begun_id = id;
    if (!s->unbegun.count) return;
    map_take(&s->unbegun, id);
    if (!s->unbegun.count) map_fini(&s->unbegun);
}

gw_status session_queue(session *s, message *m, gw_error *error) {
    gw_status status = message_seal(m, error);
    if (status) goto release;
    if (m->size > LIMIT_UNSENT_BYTES - s->unacked_bytes) {
        status = error_set(error, GW_OVERLOADED, "%llu bytes are waiting to be sent already",
                           (unsigned long long)s->unacked_bytes);
        goto release;
    }
    m->id = ++s->last_id;
    m->was_sent = false;
    m->put = m->acked = (message_progress){ 0 };
    m->bulk_at = (message_cursor){ .piece = 1 };
    s->unacked_bytes += m->size;
    s->unacked_bulk_bytes += bulk_bytes(m);
    list_append(&s->unacked, &m->link);
    if (s->unbegun.count && !map_put(&s->unbegun, m->id, m)) map_fini(&s->unbegun);
    if (!s->next) stream_next(s, m);
    return GW_OK;

release:
    message_release(m);
    return status;
}

bool session_has_sent(const session *s, uint64_t id) {
    if (id > s->streamed_id) return false;
    for (uint32_t i = 0; i < s->unsent_count; i++)
        if (s->unsent[i] == id) return false;
    list_each(l, &s->bulks) {
        const message *m = message_of_bulk(l);
        if (m->id == id) return m->was_sent;
    }
    return true;
}

// Without memory for the table nothing is withdrawn: the caller sends the peer another message.
bool session_withdraw(session *s, uint64_t id, uint8_t kind) {
    if (id <= s->begun_id || (!s->unbegun.count && !list_unbegun(s))) return false;
    message *m = map_find(&s->unbegun, id);
    if (!m) return false;
    s->unacked_bytes -= m->size;
    s->unacked_bulk_bytes -= bulk_bytes(m);
    m->kind = kind;
    message_drop_segments(m);
    s->unacked_bytes += m->size;
    return true;
}

uint64_t session_later_bulk_bytes(const session *s) {
    const message *oldest = list_is_empty(&s->bulks) ? s->next : message_of_bulk(s->bulks.next);
    return s->unacked_bulk_bytes - (oldest ? bulk_bytes(oldest) : 0);
}

static void forget_message(session *s, message *m) {
    list_remove(&m->link);
    if (list_has(&m->bulk_link)) {
        list_remove(&m->bulk_link);
        s->bulk_count--;
    }
    s->unacked_bytes -= m->size;
    s->unacked_bulk_bytes -= bulk_bytes(m);
    message_release(m);
}

static void frame_is_acked(session *s, sent_frame x) {
    message *m = x.message;
    m->acked.begun = true;
    *(x.is_bulk ? &m->acked.bulk : &m->acked.stream) += x.size;
    if (is_over(m, &m->acked)) forget_message(s, m);
}

// A frame that is still in the outbox is referred to there: it must have been taken, too.
static void forget_acked(session *s) {
    uint64_t done = s->acked < s->taken ? s->acked : s->taken;
    // |sent| ends with the frame after |filled| if that is being put.
    uint64_t known = s->sent.count - (s->putting ? 1 : 0), first = s->filled - known + 1;
    for (; first <= done; first++) frame_is_acked(s, sent_frames_take(&s->sent));
    if (s->outbox && s->outbox->large && outbox_is_empty(s->outbox)) outbox_shrink(s->outbox);
}

gw_status session_take_ack(session *s, uint64_t ack, gw_error *error) {
    if (ack == s->acked) return GW_OK;
    if (ack < s->acked)
        return error_set(
            error, GW_PROTOCOL,
            "frame %llu was acknowledged before, but the peer now acknowledges only frame %llu",
            (unsigned long long)s->acked, (unsigned long long)ack);
    if (ack > s->filled)
        return error_set(error, GW_PROTOCOL,
                         "the peer has acknowledged frame %llu, but only frame %llu was sent",
                         (unsigned long long)ack, (unsigned long long)s->filled);
    s->acked = ack;
    forget_acked(s);
    return GW_OK;
}

// ---- The next frame -----------------------------------------------------------------------------

static uint64_t bulk_left(const message *m) {
    return has_streamed(m, &m->put) ? bulk_bytes(m) - m->put.bulk : 0;
}

// SES-13: of the bulks the sender serves in turns the oldest, and the one of which least is left.
static message *choose_bulk(const session *s) {
    message *chosen = NULL;
    list_each(l, &s->bulks) {
        message *m = message_of_bulk(l);
        uint64_t left = bulk_left(m);
        if (left == 0) continue;
        if (!chosen || left < bulk_left(chosen)) chosen = m;
        if (s->bulk_turn % 2 == 0) break;
    }
    return chosen;
}

// SES-14: a sender holds back the next message that would have bulk, and all messages behind it.
static bool may_stream(const session *s) {
    const message *m = s->next;
    return m && (!m->has_bulk || s->bulk_count < LIMIT_BULKS || list_has(&m->bulk_link));
}

static bool choose(session *s) {
    bool streams = may_stream(s);
    message *bulk = streams && s->stream_run < STREAM_RUN_BYTES ? NULL : choose_bulk(s);
    s->putting = bulk ? bulk : streams ? s->next : NULL;
    s->puts_bulk = bulk;
    return s->putting;
}

// ---- Filling the outbox -------------------------------------------------------------------------

// Contiguous bytes of a message.
typedef struct piece {
    const uint8_t *at;
    size_t size;
} piece;

// At most |most| bytes from |*at| on, which moves past them.
static piece take_piece(const message *m, message_cursor *at, size_t most) {
    const segment *g = at->piece ? &m->segments[at->piece - 1] : NULL;
    const uint8_t *bytes = g ? block_lend(g->block, g->offset) : m->head.data;
    size_t left = piece_size(m, at->piece) - at->done;
    piece p = { bytes + at->done, left < most ? left : most };
    at->done += p.size;
    if (p.size == left) *at = (message_cursor){ .piece = at->piece + 1 };
    return p;
}

static message_cursor *cursor_of(session *s) {
    return s->puts_bulk ? &s->putting->bulk_at : &s->next_at;
}

static void put_header(session *s, frame f) {
    f.ack = s->received;
    if (!frame_is_numbered(&f) || !s->putting->is_patient) s->is_urgent = true;
    if (!frame_is_numbered(&f))
        f.number = s->outbox->last;  // so that a gap is detected without data
    frame_encode(outbox_copy(s->outbox, FRAME_HEADER_BYTES), &f);
    s->owed_frames = s->owed_bytes = 0;
    s->ack_wanted = false;
}

// FRAME-3, over the frame's body.
static uint32_t check_body(session *s) {
    message_cursor at = *cursor_of(s);
    uint32_t check = 0;
    for (size_t left = s->frame_left; left > 0;) {
        piece p = take_piece(s->putting, &at, left);
        check = crc32c(check, p.at, p.size);
        left -= p.size;
    }
    return check;
}

static void begin_frame(session *s) {
    message *m = s->putting;
    uint64_t number = s->filled + 1;
    uint64_t left = s->puts_bulk ? bulk_left(m) : stream_bytes(m) - m->put.stream;
    uint64_t most = s->puts_bulk ? BULK_FRAME_BYTES : LIMIT_FRAME_BYTES;
    s->frame_left = (size_t)(left < most ? left : most);
    frame f = { .type = s->puts_bulk ? FRAME_BULK : FRAME_DATA,
                .number = number,
                .body_size = (uint32_t)s->frame_left };
    if (s->puts_bulk) {
        f.distance = (uint32_t)(number - m->number);
    } else if (!m->put.begun) {
        m->put.begun = true;
        m->number = number;
        if (m->id > s->begun_id) note_begun(s, m->id);
        f.first = true;
        f.kind = m->kind;
        f.has_bulk = m->has_bulk;
        f.segment_count = (uint16_t)m->segment_count;
        f.head_size = (uint32_t)m->head_size;
    }
    if (s->checks_bodies) f.body_check = check_body(s);
    sent_frames_add(&s->sent, (sent_frame){ m, f.body_size, s->puts_bulk });
    put_header(s, f);
}

// As much of the frame's body as is contiguous and has room. False: no room.
static bool put_piece(session *s) {
    message_cursor at = *cursor_of(s);
    piece p = take_piece(s->putting, &at, s->frame_left);
    if (p.size <= OUTBOX_COPY_MAX && outbox_has_room(s->outbox, p.size)) {
        memcpy(outbox_copy(s->outbox, p.size), p.at, p.size);
    } else {
        if (outbox_is_full(s->outbox)) return false;
        outbox_refer(s->outbox, p.at, p.size);
    }
    *cursor_of(s) = at;
    s->frame_left -= p.size;
    *(s->puts_bulk ? &s->putting->put.bulk : &s->putting->put.stream) += p.size;
    return true;
}

static void end_stream(session *s, message *m) {
    s->next = NULL;
    if (m->link.next != &s->unacked) stream_next(s, message_of(m->link.next));
    if (m->id > s->streamed_id) s->streamed_id = m->id;
    if (!m->has_bulk || list_has(&m->bulk_link)) return;
    list_append(&s->bulks, &m->bulk_link);
    s->bulk_count++;
}

static void end_frame(session *s, uint32_t size) {
    message *m = s->putting;
    s->outbox->last = ++s->filled;
    s->putting = NULL;
    if (s->puts_bulk) {
        s->bulk_turn++;
        s->stream_run = 0;
    } else {
        s->stream_run += size;
        if (has_streamed(m, &m->put)) end_stream(s, m);
    }
    if (is_over(m, &m->put)) m->was_sent = true;
}

// Ends after some bulk frames: messages that are queued meanwhile are sent before the next ones.
static void fill_with_frames(session *s) {
    outbox *o = s->outbox;
    int bulk_count = 0;
    while (!outbox_is_full(o)) {
        if (!s->putting) {
            s->is_starved = !sent_frames_reserve(&s->sent);
            if (s->is_starved || !outbox_has_room(o, FRAME_HEADER_BYTES) || !choose(s)) return;
            begin_frame(s);
        }
        while (s->frame_left > 0)
            if (!put_piece(s)) return;
        end_frame(s, sent_frames_at(&s->sent, s->sent.count - 1)->size);
        if (s->puts_bulk && ++bulk_count >= s->bulk_burst) return;
    }
}

static bool is_all_sent(const session *s) {
    if (s->next) return false;
    list_each(l, &s->bulks) if (bulk_left(message_of_bulk(l)) > 0) return false;
    return true;
}

// Not inside a frame.
static void fill_with_control(session *s) {
    if (s->putting || !outbox_has_room(s->outbox, 3 * FRAME_HEADER_BYTES)) return;
    bool owes_ack = session_owes_ack_now(s);
    if (s->ping_wanted) put_header(s, (frame){ .type = FRAME_PING });
    if (owes_ack && session_owes_ack_now(s)) put_header(s, (frame){ .type = FRAME_ACK });
    if (s->close_wanted && is_all_sent(s)) {
        put_header(s, (frame){ .type = FRAME_GOODBYE });
        s->close_wanted = false;
        s->close_is_out = true;
    }
    s->ping_wanted = false;
}

bool session_has_unsent_close(const session *s) {
    return s->close_wanted || (s->close_is_out && s->outbox && !outbox_is_empty(s->outbox));
}

bool session_fill(session *s) {
    outbox *o = s->outbox;
    if (!o) return false;
    if (!outbox_is_empty(o)) return true;
    if (s->close_is_out) return false;
    outbox_clear(o);
    s->is_urgent = s->putting != NULL;  // the rest of a frame
    fill_with_frames(s);
    fill_with_control(s);
    return !outbox_is_empty(o);
}

const struct iovec *session_parts(const session *s, int *out_count) {
    *out_count = s->outbox->end - s->outbox->begin;
    return s->outbox->parts + s->outbox->begin;
}

// A connection that takes all at once is fast, and is given more the next time.
static void choose_burst(session *s, bool is_whole) {
    if (!is_whole || s->was_cut_short) {
        s->bulk_burst = 1;
    } else if (s->bulk_burst < BULK_BURST_MAX) {
        s->bulk_burst *= 2;
    }
    s->was_cut_short = !is_whole;
}

void session_sent(session *s, size_t count) {
    outbox_take(s->outbox, count);
    choose_burst(s, outbox_is_empty(s->outbox));
    if (!outbox_is_empty(s->outbox)) return;
    s->taken = s->outbox->last;
    forget_acked(s);
}

// ---- Connections --------------------------------------------------------------------------------

// SES-7: of each message the sender repeats the bytes that no received frame has carried.
static void rewind_message(message *m) {
    message_progress before = m->put;
    m->put = m->acked;
    if (has_mutation(MUTATION_RESEND_LOST)) m->put = before;
    if (has_mutation(MUTATION_BULK_NOT_REWOUND)) m->put.bulk = before.bulk;
    if (m->has_bulk) m->bulk_at = seek(m, 1, m->put.bulk);
}

static void rewind_all(session *s) {
    s->next = NULL;
    list_each(l, &s->unacked) {
        message *m = message_of(l);
        rewind_message(m);
        if (!s->next && !has_streamed(m, &m->put)) stream_next(s, m);
    }
}

gw_status session_resume(session *s, uint64_t peer_received, gw_error *error) {
    if (!s->outbox) s->outbox = mem_calloc(sizeof *s->outbox);
    if (!s->outbox) return error_set(error, GW_NO_MEMORY, "no memory for a connection");
    outbox_clear(s->outbox);
    s->close_is_out = false;
    s->taken = s->acked;
    gw_status status = session_take_ack(s, peer_received, error);
    if (status) return status;
    s->outbox->last = s->taken = s->acked;
    forget_acked(s);
    s->filled = s->acked;
    s->putting = NULL;
    s->frame_left = 0;
    sent_frames_clear(&s->sent);
    rewind_all(s);
    return GW_OK;
}

static void note_unsent(session *s) {
    s->unsent = s->bulk_count ? mem_alloc(s->bulk_count * sizeof *s->unsent) : NULL;
    list_each(l, &s->bulks) {
        const message *m = message_of_bulk(l);
        if (s->unsent && !m->was_sent) s->unsent[s->unsent_count++] = m->id;
    }
}

void session_give_back_sending(session *s) {
    if (!s->unsent) note_unsent(s);
    map_fini(&s->unbegun);
    while (!list_is_empty(&s->unacked)) forget_message(s, message_of(s->unacked.next));
    s->next = s->putting = NULL;
    sent_frames_clear(&s->sent);
    outbox_close(s->outbox);
    s->outbox = NULL;
}

void session_detach_sending(session *s) {
    outbox_close(s->outbox);
    s->outbox = NULL;
}
