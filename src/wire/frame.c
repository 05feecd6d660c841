#include "wire/frame.h"

#include "base/limits.h"
#include "base/mem.h"
#include "base/mutation.h"
#include "base/status.h"

#include <string.h>

enum { FRAME_MAGIC = 0x5747 };  // "GW"

// A header as the words over which its check is computed: five of 64 bits, the check itself in the upper
// half of the last. Fields are shifted into position, since reading back a word after narrower
// writes stalls the processor.
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
        f->kind | (uint64_t)f->has_bulk << 8 | (uint64_t)f->segment_count << 16 |
            (uint64_t)(f->type == FRAME_BULK ? f->distance : f->head_size) << 32,
        f->body_check,
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

static bool has_fields_of_first(const frame *f) {
    return f->kind || f->has_bulk || f->segment_count || f->head_size;
}

static gw_status check_data(const frame *f, gw_error *error) {
    unsigned long long number = f->number;
    if (number == 0)
        return error_set(error, GW_PROTOCOL, "malformed frame: its data has no number");
    if (!f->first) {
        if (has_fields_of_first(f))
            return error_set(
                error, GW_PROTOCOL,
                "frame %llu has the fields of a message's first frame, but is not the first",
                number);
        return GW_OK;
    }
    if (f->kind == 0)
        return error_set(error, GW_PROTOCOL, "malformed frame %llu: the message kind is 0", number);
    if (f->segment_count > LIMIT_SEGMENTS)
        return error_set(error, GW_LIMIT,
                         "malformed frame %llu: %u segments, at most %d are allowed", number,
                         f->segment_count, LIMIT_SEGMENTS);
    if (f->has_bulk && !f->segment_count)
        return error_set(error, GW_PROTOCOL,
                         "malformed frame %llu: its message has bulk, but no segments", number);
    return GW_OK;
}

static gw_status check_bulk(const frame *f, gw_error *error) {
    unsigned long long number = f->number;
    if (f->first || has_fields_of_first(f))
        return error_set(error, GW_PROTOCOL,
                         "malformed frame %llu: it has bulk, but fields of a data frame", number);
    if (f->distance == 0 || f->distance >= number || f->body_size == 0)
        return error_set(error, GW_PROTOCOL, "malformed frame %llu: its bulk belongs to no message",
                         number);
    return GW_OK;
}

static gw_status check_control(const frame *f, gw_error *error) {
    if (!f->first && !f->body_size && !has_fields_of_first(f) && !f->body_check) return GW_OK;
    return error_set(error, GW_PROTOCOL,
                     "malformed frame: fields of a data frame in a frame of type %u", f->type);
}

static frame fields_of(const uint64_t words[WORDS]) {
    uint8_t type = (uint8_t)(words[0] >> 16);
    uint32_t at_28 = (uint32_t)(words[3] >> 32);
    return (frame){
        .type = type,
        .first = words[0] >> 24 & 1,
        .body_size = (uint32_t)(words[0] >> 32),
        .number = words[1],
        .ack = words[2],
        .kind = (uint8_t)words[3],
        .has_bulk = words[3] >> 8 & 1,
        .segment_count = (uint16_t)(words[3] >> 16),
        .head_size = type == FRAME_BULK ? 0 : at_28,
        .distance = type == FRAME_BULK ? at_28 : 0,
        .body_check = (uint32_t)words[4],
    };
}

gw_status frame_decode(const uint8_t in[FRAME_HEADER_BYTES], frame *out, gw_error *error) {
    uint64_t words[WORDS];
    memcpy(words, in, sizeof words);
    if ((uint16_t)words[0] != FRAME_MAGIC)
        return error_set(error, GW_DISCONNECTED, "frame: damaged, its magic is wrong");
    if (check_of(words) != words[WORDS - 1] >> 32)
        return error_set(error, GW_DISCONNECTED, "frame: damaged, its check is wrong");
    if ((words[0] >> 24 & 0xff) > 1 || (words[3] >> 8 & 0xff) > 1)
        return error_set(error, GW_PROTOCOL, "malformed frame: a field is not 0, but must be");
    *out = fields_of(words);
    if (out->body_size > LIMIT_FRAME_BYTES)
        return error_set(error, GW_LIMIT,
                         "malformed frame: its body has %u bytes, at most %d are allowed",
                         out->body_size, LIMIT_FRAME_BYTES);
    switch (out->type) {
    case FRAME_DATA: return check_data(out, error);
    case FRAME_BULK: return check_bulk(out, error);
    case FRAME_ACK:
    case FRAME_PING:
    case FRAME_GOODBYE: return check_control(out, error);
    default: return GW_OK;
    }
}

// ---- Assembling messages ------------------------------------------------------------------------

enum { HEAD_STEP_BYTES = 64 * 1024 };

gw_status assembly_open(assembly *a, uint8_t kind, uint32_t head_size, uint32_t segment_count,
                        bool has_bulk, gw_error *error) {
    *a = (assembly){ .message = message_open(kind),
                     .has_bulk = has_bulk,
                     .head_size = head_size,
                     .segment_count = segment_count,
                     .head_total = (uint64_t)head_size + (uint64_t)segment_count * 8 };
    if (!a->message) return error_set(error, GW_NO_MEMORY, "no memory for a message");
    a->message->received = true;
    return GW_OK;
}

static void drop_segments(assembly *a, uint32_t from) {
    for (uint32_t i = from; a->segments && i < a->segment_count; i++) {
        block_release(a->segments[i].block);
        a->segments[i].block = NULL;
    }
}

// The sizes have arrived, after the head.
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
            status = error_set(error, GW_LIMIT,
                               "message: segment %u has %llu bytes, at most 4 GiB are allowed", i,
                               (unsigned long long)size);
        } else if (__builtin_add_overflow(total, size, &total) || total > LIMIT_MESSAGE_BYTES) {
            status =
                error_set(error, GW_LIMIT, "message: segment %u makes it larger than 8 GiB", i);
        }
        if (status) {
            mem_free(segments);
            return status;
        }
        segments[i].size = (size_t)size;
    }
    a->segments = segments;
    a->bulk_bytes = total - a->head_total;
    return GW_OK;
}

// The memory of a small head is allocated at once, with as many bytes as the head has.
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

// Uses the target that was set for the message, else a new block.
static bool allocate_segment(assembly *a, segment *s) {
    const segment *target = &a->message->target;
    if (target->block && a->segment_count == 1) {
        s->block = block_retain(target->block);
        s->offset = target->offset;
    } else {
        s->block = block_take_unpopulated(s->size);
        s->offset = 0;
    }
    return s->block;
}

static gw_status next_in_segment(assembly *a, uint8_t **into, size_t *size, gw_error *error) {
    segment *s = &a->segments[a->at.segment];
    if (!s->block && !allocate_segment(a, s))
        return error_set(error, GW_NO_MEMORY, "no memory for a tensor of %zu bytes", s->size);
    *into = block_writable(s->block, s->offset + (size_t)a->at.segment_done);
    *size = s->size - (size_t)a->at.segment_done;
    return GW_OK;
}

gw_status assembly_next(assembly *a, uint8_t **into, size_t *size, gw_error *error) {
    bytes *head = &a->message->head;
    if (a->at.head_done < a->head_total) {
        if (a->at.head_done == head->capacity && !grow_head(a))
            return error_set(error, GW_NO_MEMORY, "no memory for a message");
        *into = head->data + a->at.head_done;
        *size = head->capacity - (size_t)a->at.head_done;
        return GW_OK;
    }
    if (!assembly_is_complete(a)) {
        if (!a->segments) {
            gw_status status = read_sizes(a, error);
            if (status) return status;
        }
        return next_in_segment(a, into, size, error);
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
    if (a->at.segment_done < a->segments[a->at.segment].size) return;
    a->at.segment++;
    a->at.segment_done = 0;
}

static void free_segments(assembly *a) {
    drop_segments(a, 0);
    mem_free(a->segments);
    a->segments = NULL;
}

void assembly_rewind(assembly *a, assembly_mark mark) {
    a->at = mark;
    // The resent bytes may differ from the earlier ones: segments of the earlier
    // sizes are freed.
    if (mark.head_done < a->head_total) {
        free_segments(a);
    } else {
        drop_segments(a, mark.segment_done ? mark.segment + 1 : mark.segment);
    }
}

static void end_head(assembly *a) {
    a->message->head.size = a->head_size;
    a->message->head_size = a->head_size;
}

message *assembly_take(assembly *a) {
    message *m = a->message;
    end_head(a);
    m->segments = a->segments;
    m->segment_count = m->segment_capacity = a->segments ? a->segment_count : 0;
    a->segments = NULL;
    a->message = NULL;
    return m;
}

void assembly_drop(assembly *a) {
    free_segments(a);
    message_release(a->message);
    a->message = NULL;
}

// ---- Bulk ---------------------------------------------------------------------------------------

gw_status assembly_announce(assembly *a, message **out, gw_error *error) {
    message *m = a->message;
    gw_status status = a->segments ? GW_OK : read_sizes(a, error);
    if (status) return status;
    m->segments = mem_calloc(a->segment_count * sizeof *m->segments);
    if (!m->segments) return error_set(error, GW_NO_MEMORY, "no memory for a message");
    m->segment_count = m->segment_capacity = a->segment_count;
    for (uint32_t i = 0; i < a->segment_count; i++) m->segments[i].size = a->segments[i].size;
    end_head(a);
    m->incomplete = true;
    a->is_announced = true;
    *out = message_retain(m);
    return GW_OK;
}

void assembly_forget_segments(assembly *a) {
    drop_segments(a, 0);
}

message *assembly_finish(assembly *a) {
    message *m = a->message;
    for (uint32_t i = 0, own = 0; i < m->segment_count; i++) {
        if (m->segments[i].block) continue;
        m->segments[i] = a->segments[own];
        a->segments[own++].block = NULL;
    }
    free_segments(a);
    m->incomplete = false;
    a->message = NULL;
    return m;
}
