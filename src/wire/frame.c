#include "wire/frame.h"

#include "base/limits.h"
#include "base/status.h"

#include <string.h>

enum { FRAME_MAGIC = 0x5747 };  // "GW"

// As it lies on the wire; the machine's byte order is the wire's (base/bytes.c asserts it).
typedef struct raw_frame {
    uint16_t magic;
    uint8_t type, first;
    uint32_t body_size;
    uint64_t number, ack;
    uint8_t kind, zero[3];
    uint32_t segment_count, head_size, check;
} raw_frame;

_Static_assert(sizeof(raw_frame) == FRAME_HEADER_BYTES, "no padding in a header");

static uint64_t mix(uint64_t x, uint64_t word) {
    x = (x ^ word) * UINT64_C(0x9E3779B97F4A7C15);
    return x ^ (x >> 32);
}

uint32_t frame_check(const uint8_t *in, int words, bool tail) {
    uint64_t x = 0, word;
    for (int i = 0; i < words; i++, in += sizeof word) {
        memcpy(&word, in, sizeof word);
        x = mix(x, word);
    }
    if (tail) {
        uint32_t half;
        memcpy(&half, in, sizeof half);
        x = mix(x, half);
    }
    return (uint32_t)(x ^ (x >> 32));
}

void frame_encode(uint8_t out[FRAME_HEADER_BYTES], const frame *f) {
    raw_frame raw = {
        .magic = FRAME_MAGIC,
        .type = f->type,
        .first = f->first,
        .body_size = f->body_size,
        .number = f->number,
        .ack = f->ack,
        .kind = f->kind,
        .segment_count = f->segment_count,
        .head_size = f->head_size,
    };
    raw.check = frame_check((const uint8_t *)&raw, 4, true);
    memcpy(out, &raw, sizeof raw);
}

static gw_status check_data(const frame *f, gw_error *error) {
    unsigned long long number = f->number;
    if (number == 0) return error_set(error, GW_PROTOCOL, "frame: data without a number");
    if (!f->first) {
        if (f->kind || f->segment_count || f->head_size)
            return error_set(error, GW_PROTOCOL,
                             "frame %llu: a message's fields, but not its first", number);
        return GW_OK;
    }
    if (f->kind == 0) return error_set(error, GW_PROTOCOL, "frame %llu: message kind 0", number);
    if (f->segment_count > LIMIT_SEGMENTS)
        return error_set(error, GW_LIMIT, "frame %llu: %u segments, at most %d", number,
                         f->segment_count, LIMIT_SEGMENTS);
    return GW_OK;
}

gw_status frame_decode(const uint8_t in[FRAME_HEADER_BYTES], frame *out, gw_error *error) {
    raw_frame raw;
    memcpy(&raw, in, sizeof raw);
    if (raw.magic != FRAME_MAGIC)
        return error_set(error, GW_DISCONNECTED, "frame: damaged, it begins with 0x%04x",
                         raw.magic);
    if (raw.check != frame_check(in, 4, true))
        return error_set(error, GW_DISCONNECTED, "frame: damaged, its check is wrong");
    if (raw.first > 1 || raw.zero[0] || raw.zero[1] || raw.zero[2])
        return error_set(error, GW_PROTOCOL, "frame: a field that must be 0 is not");
    if (raw.body_size > LIMIT_FRAME_BYTES)
        return error_set(error, GW_LIMIT, "frame: a body of %u bytes, at most %d", raw.body_size,
                         LIMIT_FRAME_BYTES);
    *out = (frame){
        .type = raw.type,
        .first = raw.first,
        .body_size = raw.body_size,
        .number = raw.number,
        .ack = raw.ack,
        .kind = raw.kind,
        .segment_count = raw.segment_count,
        .head_size = raw.head_size,
    };
    if (raw.type == FRAME_DATA) return check_data(out, error);
    if (raw.type >= FRAME_ACK && raw.type <= FRAME_GOODBYE &&
        (raw.number || raw.first || raw.body_size || raw.kind || raw.segment_count ||
         raw.head_size))
        return error_set(error, GW_PROTOCOL, "frame: data's fields in a frame of type %u",
                         raw.type);
    return GW_OK;
}
