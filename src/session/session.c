// A session: opening, closing and its receiving half.
#include "session/session.h"

#include "base/crc32c.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/mutation.h"
#include "session/session_internal.h"

#include <string.h>

enum {
    DIRECT_MIN = 16 * 1024,  // less than this is copied
};

// A message that is announced and incomplete.
typedef struct incoming_bulk {
    list_node link;
    uint64_t number;   // of its first frame
    uint64_t left;     // bytes that have not arrived
    bool is_unwanted;  // no receiver needs them
    assembly assembly;
} incoming_bulk;

void session_init(session *s, void (*message)(void *user, struct message *m), void *user) {
    *s = (session){ .message = message, .user = user };
    list_init(&s->bulks_in);
    session_init_sending(s);
}

static void drop_bulk(session *s, incoming_bulk *b) {
    list_remove(&b->link);
    s->bulk_in_count--;
    s->bulk_in_bytes -= b->assembly.bulk_bytes;
    assembly_drop(&b->assembly);
    mem_free(b);
}

void session_stop(session *s) {
    s->is_stopped = true;
    session_give_back_sending(s);
    assembly_drop(&s->assembly);
    s->bulk_in = NULL;
    while (!list_is_empty(&s->bulks_in))
        drop_bulk(s, list_entry(s->bulks_in.next, incoming_bulk, link));
}

void session_fini(session *s) {
    session_stop(s);
    mem_free(s->unsent);
    s->unsent = NULL;
    s->unsent_count = 0;
    error_forget(&s->body_error);
}

// The message to whose bytes the frame belongs.
static assembly *target(session *s) {
    return s->bulk_in ? &s->bulk_in->assembly : &s->assembly;
}

// "Part of a frame that was received before the break is dropped."
void session_detach(session *s) {
    s->header_done = 0;
    s->body_left = 0;
    if (s->in_frame && s->frame.first) {
        assembly_drop(&s->assembly);
    } else if (s->in_frame) {
        assembly_rewind(target(s), s->mark);
    }
    s->in_frame = false;
    s->bulk_in = NULL;
    error_forget(&s->body_error);
    session_detach_sending(s);
}

// ---- Where received bytes are put ---------------------------------------------------------------

// Whether a body that is read directly into its message may be next.
static bool expects_large(session *s) {
    uint8_t *place;
    size_t room;
    if (!list_is_empty(&s->bulks_in)) return true;
    if (!s->assembly.message || assembly_next(&s->assembly, &place, &room, NULL)) return false;
    return room >= DIRECT_MIN;
}

// Inside a large message the bytes are received directly into it, together with the header of the next frame:
// the header lies where later bytes of the same message overwrite it.
bool session_buffer(session *s, void **into, size_t *size) {
    if (s->is_stopped) return false;
    if (s->body_left == 0) {
        if (!expects_large(s)) return false;
        *into = s->header + s->header_done;
        *size = FRAME_HEADER_BYTES - s->header_done;
        return true;
    }
    uint8_t *place;
    size_t room;
    if (s->skips_body || s->body_left < DIRECT_MIN || !target(s)->message) return false;
    if (assembly_next(target(s), &place, &room, NULL) || room < DIRECT_MIN) return false;
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

static gw_status begin_message(session *s, gw_error *error) {
    const frame *f = &s->frame;
    if (s->assembly.message)
        return error_set(error, GW_PROTOCOL, "frame %llu begins a message inside another message",
                         (unsigned long long)f->number);
    if (f->has_bulk && s->bulk_in_count >= LIMIT_BULKS)
        return error_set(error, GW_LIMIT,
                         "frame %llu begins a large message while %u large messages are incomplete",
                         (unsigned long long)f->number, s->bulk_in_count);
    return assembly_open(&s->assembly, f->kind, f->head_size, f->segment_count, f->has_bulk, error);
}

static gw_status begin_data(session *s, gw_error *error) {
    const frame *f = &s->frame;
    bool repeats = has_mutation(MUTATION_DUPLICATE_FRAME) && is_whole_message(s);
    if (f->number <= s->received && !repeats) return GW_OK;
    gw_status status = GW_OK;
    if (f->first) {
        status = begin_message(s, error);
    } else if (!s->assembly.message) {
        status = error_set(error, GW_PROTOCOL, "frame %llu continues no message",
                           (unsigned long long)f->number);
    }
    if (status) return status;
    s->in_frame = true;
    s->mark = s->assembly.at;
    return GW_OK;
}

static incoming_bulk *find_bulk(const session *s, uint64_t number) {
    list_each(l, &s->bulks_in) {
        incoming_bulk *b = list_entry(l, incoming_bulk, link);
        if (b->number == number) return b;
    }
    return NULL;
}

// SES-15
static bool is_unwanted(incoming_bulk *b) {
    if (!b->is_unwanted && message_is_unshared(b->assembly.message)) {
        assembly_forget_segments(&b->assembly);
        b->is_unwanted = true;
    }
    return b->is_unwanted;
}

static gw_status begin_bulk(session *s, gw_error *error) {
    const frame *f = &s->frame;
    if (f->number <= s->received) return GW_OK;
    incoming_bulk *b = find_bulk(s, f->number - f->distance);
    if (!b)
        return error_set(error, GW_PROTOCOL, "frame %llu has data of a message that awaits none",
                         (unsigned long long)f->number);
    if (f->body_size > b->left)
        return error_set(error, GW_PROTOCOL, "frame %llu is longer than its message",
                         (unsigned long long)f->number);
    s->in_frame = true;
    s->bulk_in = b;
    s->mark = b->assembly.at;
    s->skips_body = is_unwanted(b);
    return GW_OK;
}

// Other frames carry the number of the last numbered frame before them.
static bool has_gap(const session *s) {
    const frame *f = &s->frame;
    if (f->type > FRAME_BULK) return false;
    return f->number > s->received && f->number - s->received > frame_is_numbered(f);
}

static gw_status begin_frame(session *s, gw_error *error) {
    s->header_done = 0;
    gw_status status = frame_decode(s->header, &s->frame, error);
    if (!status) status = session_take_ack(s, s->frame.ack, error);
    if (status) return status;
    if (has_gap(s))  // frames were lost in transit; another connection resends them
        return error_set(error, GW_DISCONNECTED, "frame %llu arrived after frame %llu",
                         (unsigned long long)s->frame.number, (unsigned long long)s->received);
    s->skips_body = false;
    s->body_check = 0;
    switch (s->frame.type) {
    case FRAME_DATA: status = begin_data(s, error); break;
    case FRAME_BULK: status = begin_bulk(s, error); break;
    case FRAME_PING: s->ack_wanted = true; break;
    case FRAME_GOODBYE: s->has_close = s->is_stopped = true; break;
    default: break;
    }
    s->skips_body |= !s->in_frame;
    if (!status) s->body_left = s->frame.body_size;
    return status;
}

static gw_status put_body(session *s, const uint8_t *data, size_t *size, gw_error *error) {
    uint8_t *into;
    size_t room;
    gw_status status = assembly_next(target(s), &into, &room, error);
    if (status) return status;
    if (room == 0)
        return error_set(error, GW_PROTOCOL, "frame %llu is longer than its message",
                         (unsigned long long)s->frame.number);
    if (*size > room) *size = room;
    if (into != data) memcpy(into, data, *size);
    assembly_advance(target(s), *size);
    return GW_OK;
}

// An error in a body that may be damaged is reported once its check is known (FRAME-3).
static bool keeps_error(session *s, gw_status status, const gw_error *error) {
    if (!s->checks_bodies || status == GW_NO_MEMORY) return false;
    error_keep(&s->body_error, error);
    s->skips_body = true;
    return true;
}

// Takes the bytes that belong to the body; they may be in place already.
static gw_status take_body(session *s, const uint8_t **data, size_t *count, gw_error *error) {
    while (s->body_left > 0 && *count > 0) {
        size_t size = s->body_left < *count ? s->body_left : *count;
        gw_status status = s->skips_body ? GW_OK : put_body(s, *data, &size, error);
        if (status && !keeps_error(s, status, error)) return status;
        if (status) continue;
        if (s->checks_bodies && s->in_frame) s->body_check = crc32c(s->body_check, *data, size);
        s->body_left -= size;
        *data += size;
        *count -= size;
    }
    return GW_OK;
}

// ---- The end of a frame -------------------------------------------------------------------------

static gw_status announce(session *s, message **out, gw_error *error) {
    const frame *f = &s->frame;
    incoming_bulk *b = mem_alloc(sizeof *b);
    if (!b) return error_set(error, GW_NO_MEMORY, "no memory for a message");
    gw_status status = assembly_announce(&s->assembly, out, error);
    if (!status && s->assembly.bulk_bytes > LIMIT_UNSENT_BYTES - s->bulk_in_bytes) {
        message_release(*out);
        status =
            error_set(error, GW_LIMIT, "frame %llu: more than 16 GiB of begun messages are missing",
                      (unsigned long long)f->number);
    }
    if (status) {
        mem_free(b);
        return status;
    }
    *b = (incoming_bulk){ .number = s->began, .assembly = s->assembly };
    b->left = b->assembly.bulk_bytes;
    s->assembly = (assembly){ 0 };
    s->bulk_in_count++;
    s->bulk_in_bytes += b->left;
    list_append(&s->bulks_in, &b->link);
    return GW_OK;
}

static void note_received(session *s) {
    const frame *f = &s->frame;
    s->in_frame = false;
    if (f->number > s->received) s->received = f->number;
    s->owed_frames++;
    s->owed_bytes += f->body_size;
}

static gw_status end_data(session *s, gw_error *error) {
    const frame *f = &s->frame;
    bool is_complete = assembly_is_complete(&s->assembly);
    message *m = NULL;
    gw_status status = GW_OK;
    if (f->body_size == 0 && !is_complete)
        return error_set(error, GW_PROTOCOL, "frame %llu is empty, but its message is not",
                         (unsigned long long)f->number);
    if (f->first) s->began = f->number;
    if (is_complete && s->assembly.has_bulk) {
        status = announce(s, &m, error);
    } else if (is_complete) {
        m = assembly_take(&s->assembly);
    }
    if (status) return status;
    note_received(s);
    if (m) s->message(s->user, m);
    return GW_OK;
}

static void complete(session *s, incoming_bulk *b) {
    message *m = message_retain(b->assembly.message);
    if (!b->is_unwanted) message_release(assembly_finish(&b->assembly));
    drop_bulk(s, b);
    void (*completed)(message * m) = m->completed;
    m->completed = NULL;
    if (completed) completed(m);
    message_release(m);
}

static void end_bulk(session *s) {
    incoming_bulk *b = s->bulk_in;
    s->bulk_in = NULL;
    b->left -= s->frame.body_size;
    note_received(s);
    if (b->left == 0) complete(s, b);
}

static gw_status end_frame(session *s, gw_error *error) {
    const frame *f = &s->frame;
    if (!s->in_frame) return GW_OK;
    bool damaged = s->checks_bodies && s->body_check != f->body_check;
    if (damaged && !has_mutation(MUTATION_BODY_UNCHECKED))
        return error_set(error, GW_DISCONNECTED, "frame %llu was damaged in transit",
                         (unsigned long long)f->number);
    if (s->body_error) return error_copy(error, s->body_error);
    if (!s->bulk_in) return end_data(s, error);
    end_bulk(s);
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
