#include "wire/frame.h"

#include "base/limits.h"
#include "base/mem.h"
#include "base/mutation.h"
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

// ---- Putting messages together ------------------------------------------------------------------

enum { HEAD_STEP_BYTES = 64 * 1024 };

gw_status assembly_open(assembly *a, uint8_t kind, uint32_t head_size, uint32_t segment_count,
                        gw_error *error) {
    *a = (assembly){ .message = message_open(kind),
                     .head_size = head_size,
                     .segment_count = segment_count,
                     .head_total = (uint64_t)head_size + (uint64_t)segment_count * 8 };
    if (!a->message) return error_set(error, GW_NO_MEMORY, "no memory for a message");
    a->message->received = true;
    return GW_OK;
}

static void drop_segments(message *m, uint32_t from) {
    for (uint32_t i = from; i < m->segment_count; i++) {
        block_release(m->segments[i].block);
        m->segments[i].block = NULL;
    }
}

// The sizes have come, behind the head.
static gw_status read_sizes(assembly *a, gw_error *error) {
    message *m = a->message;
    uint64_t total = a->head_total;
    reader r = reader_of(m->head.data + a->head_size, (size_t)a->segment_count * 8);
    segment *segments = mem_calloc(a->segment_count * sizeof *segments);
    if (!segments) return error_set(error, GW_NO_MEMORY, "no memory for a message");
    for (uint32_t i = 0; i < a->segment_count; i++) {
        uint64_t size = reader_u64(&r);
        gw_status status = GW_OK;
        if (size == 0) {
            status = error_set(error, GW_PROTOCOL, "message: segment %u is empty", i);
        } else if (size > LIMIT_TENSOR_BYTES) {
            status = error_set(error, GW_LIMIT, "message: segment %u of %llu bytes, at most 4 GiB",
                               i, (unsigned long long)size);
        } else if (__builtin_add_overflow(total, size, &total) || total > LIMIT_MESSAGE_BYTES) {
            status = error_set(error, GW_LIMIT, "message: more than 8 GiB at segment %u", i);
        }
        if (status) {
            mem_free(segments);
            return status;
        }
        segments[i].size = (size_t)size;
    }
    m->segments = segments;
    m->segment_count = m->segment_capacity = a->segment_count;
    return GW_OK;
}

// Small heads get their memory in one piece, and the block under it then is as large as its bytes.
static bool grow_head(assembly *a) {
    bytes *head = &a->message->head;
    uint64_t capacity = head->capacity ? (uint64_t)head->capacity * 2 : HEAD_STEP_BYTES;
    if (capacity > a->head_total || has_mutation(MUTATION_LIMIT_AFTER_ALLOCATION))
        capacity = a->head_total;
    uint8_t *data = mem_realloc(head->data, (size_t)capacity);
    if (!data) return false;
    head->data = data;
    head->capacity = (size_t)capacity;
    return true;
}

static gw_status place_in_segment(assembly *a, uint8_t **into, size_t *size, gw_error *error) {
    segment *s = &a->message->segments[a->at.segment];
    if (!s->block) s->block = block_take_unpopulated(s->size);
    if (!s->block)
        return error_set(error, GW_NO_MEMORY, "no memory for a tensor of %zu bytes", s->size);
    *into = block_lend(s->block, (size_t)a->at.segment_done);
    *size = s->size - (size_t)a->at.segment_done;
    return GW_OK;
}

gw_status assembly_place(assembly *a, uint8_t **into, size_t *size, gw_error *error) {
    bytes *head = &a->message->head;
    if (a->at.head_done < a->head_total) {
        if (a->at.head_done == head->capacity && !grow_head(a))
            return error_set(error, GW_NO_MEMORY, "no memory for a message");
        *into = head->data + a->at.head_done;
        *size = head->capacity - (size_t)a->at.head_done;
        return GW_OK;
    }
    if (a->at.segment < a->segment_count) {
        if (!a->message->segments) {
            gw_status status = read_sizes(a, error);
            if (status) return status;
        }
        return place_in_segment(a, into, size, error);
    }
    *into = NULL;
    *size = 0;
    return GW_OK;
}

void assembly_advance(assembly *a, size_t count) {
    if (a->at.head_done < a->head_total) {
        a->at.head_done += count;
        return;
    }
    a->at.segment_done += count;
    if (a->at.segment_done < a->message->segments[a->at.segment].size) return;
    a->at.segment++;
    a->at.segment_done = 0;
}

void assembly_rewind(assembly *a, assembly_mark mark) {
    a->at = mark;
    message *m = a->message;
    if (!m || !m->segments) return;
    // What comes again may not be what came before: nothing may be left that was made for other
    // sizes.
    if (mark.head_done < a->head_total) {
        drop_segments(m, 0);
        mem_free(m->segments);
        m->segments = NULL;
        m->segment_count = m->segment_capacity = 0;
    } else {
        drop_segments(m, mark.segment_done ? mark.segment + 1 : mark.segment);
    }
}

message *assembly_take(assembly *a) {
    message *m = a->message;
    m->head.size = a->head_size;
    m->head_size = a->head_size;
    a->message = NULL;
    return m;
}

void assembly_drop(assembly *a) {
    message_release(a->message);
    a->message = NULL;
}
