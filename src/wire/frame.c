#include "wire/frame.h"

#include "base/limits.h"
#include "base/status.h"

#include <string.h>

enum { FRAME_MAGIC = 0x5747 };  // "GW"

// A header as the words that its check is made of: five of 64 bits, the check itself in the upper
// half of the last. Fields are shifted into place, since a word that is read back from narrower
// writes makes the processor wait.
enum { WORDS = FRAME_HEADER_BYTES / 8 };

static uint64_t mix(uint64_t x, uint64_t word) {
    x = (x ^ word) * UINT64_C(0x9E3779B97F4A7C15);
    return x ^ (x >> 32);
}

uint32_t frame_check(uint64_t word) {
    uint64_t x = mix(0, word);
    return (uint32_t)(x ^ (x >> 32));
}

static uint32_t check_of(const uint64_t words[WORDS]) {
    uint64_t x = 0;
    for (int i = 0; i < WORDS - 1; i++) x = mix(x, words[i]);
    x = mix(x, (uint32_t)words[WORDS - 1]);
    return (uint32_t)(x ^ (x >> 32));
}

void frame_encode(uint8_t out[FRAME_HEADER_BYTES], const frame *f) {
    uint64_t words[WORDS] = {
        FRAME_MAGIC | (uint64_t)f->type << 16 | (uint64_t)f->first << 24 |
            (uint64_t)f->body_size << 32,
        f->number,
        f->ack,
        f->kind | (uint64_t)f->segment_count << 32,
        f->head_size,
    };
    words[WORDS - 1] |= (uint64_t)check_of(words) << 32;
    memcpy(out, words, sizeof words);
}

void frame_seal(uint8_t header[FRAME_HEADER_BYTES]) {
    uint64_t words[WORDS];
    memcpy(words, header, sizeof words);
    words[WORDS - 1] = (uint32_t)words[WORDS - 1] | (uint64_t)check_of(words) << 32;
    memcpy(header, words, sizeof words);
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
    uint64_t words[WORDS];
    memcpy(words, in, sizeof words);
    if ((uint16_t)words[0] != FRAME_MAGIC)
        return error_set(error, GW_DISCONNECTED, "frame: damaged, it begins with 0x%04x",
                         (uint16_t)words[0]);
    if (check_of(words) != words[WORDS - 1] >> 32)
        return error_set(error, GW_DISCONNECTED, "frame: damaged, its check is wrong");
    uint8_t first = (uint8_t)(words[0] >> 24);
    if (first > 1 || (uint32_t)words[3] >> 8)
        return error_set(error, GW_PROTOCOL, "frame: a field that must be 0 is not");
    *out = (frame){
        .type = (uint8_t)(words[0] >> 16),
        .first = first,
        .body_size = (uint32_t)(words[0] >> 32),
        .number = words[1],
        .ack = words[2],
        .kind = (uint8_t)words[3],
        .segment_count = (uint32_t)(words[3] >> 32),
        .head_size = (uint32_t)words[4],
    };
    if (out->body_size > LIMIT_FRAME_BYTES)
        return error_set(error, GW_LIMIT, "frame: a body of %u bytes, at most %d", out->body_size,
                         LIMIT_FRAME_BYTES);
    if (out->type == FRAME_DATA) return check_data(out, error);
    if (out->type >= FRAME_ACK && out->type <= FRAME_GOODBYE &&
        (first || out->body_size || out->kind || out->segment_count || out->head_size))
        return error_set(error, GW_PROTOCOL, "frame: data's fields in a frame of type %u",
                         out->type);
    return GW_OK;
}
