#include "wire/assembly.h"

#include "base/limits.h"
#include "base/mem.h"
#include "base/mutation.h"

#include <string.h>

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
    if (!s->block) s->block = block_take(s->size);
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
