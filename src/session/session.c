// The receiving half of a session, and its life.
#include "session/session_internal.h"

#include "base/mutation.h"

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

// ---- Where bytes go -----------------------------------------------------------------------------------------------
// Inside a large message the bytes go straight to their place, with the header of the next frame behind them: it lies
// where that frame's own body will overwrite it.
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

// ---- Frames -------------------------------------------------------------------------------------------------------
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
