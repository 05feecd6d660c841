#include "wire/message.h"

#include "base/limits.h"
#include "base/mem.h"

#include <string.h>

message *message_open(uint8_t kind) {
    message *m = mem_take_zeros(sizeof *m);
    if (!m) return NULL;
    atomic_init(&m->count, 1);
    m->kind = kind;
    return m;
}

message *message_retain(message *m) {
    atomic_fetch_add_explicit(&m->count, 1, memory_order_relaxed);
    return m;
}

static void free_message(message *m) {
    for (uint32_t i = 0; i < m->segment_count; i++) {
        if (m->received) {
            block_release(m->segments[i].block);
        } else {
            block_unpin(m->segments[i].block);
        }
    }
    block_release(m->target.block);
    mem_free(m->segments);
    bytes_fini(&m->head);
    mem_give(m, sizeof *m);
}

void message_release(message *m) {
    if (m && atomic_fetch_sub_explicit(&m->count, 1, memory_order_acq_rel) == 1) free_message(m);
}

bool message_add_segment(message *m, block *b, size_t offset, size_t size) {
    if (m->segment_count == m->segment_capacity) {
        uint32_t capacity = m->segment_capacity ? m->segment_capacity * 2 : 4;
        segment *grown = mem_realloc(m->segments, capacity * sizeof *grown);
        if (!grown) return false;
        m->segments = grown;
        m->segment_capacity = capacity;
    }
    m->segments[m->segment_count++] =
        (segment){ .block = block_pin(b), .offset = offset, .size = size };
    return true;
}

void message_remove_segment(message *m, uint32_t index) {
    block_unpin(m->segments[index].block);
    m->segment_count--;
    memmove(m->segments + index, m->segments + index + 1,
            (m->segment_count - index) * sizeof *m->segments);
}

void message_set_target(message *m, block *b, size_t offset, size_t size) {
    const segment *only = m->segment_count == 1 ? m->segments : NULL;
    if (!m->incomplete || !only || only->block || only->size != size || m->target.block) return;
    m->target = (segment){ .block = block_retain(b), .offset = offset, .size = size };
}

uint64_t message_size(const message *m) {
    uint64_t size = m->head.size;
    for (uint32_t i = 0; i < m->segment_count; i++) size += m->segments[i].size;
    return size;
}

gw_status message_seal(message *m, gw_error *error) {
    if (m->head.failed) return error_set(error, GW_NO_MEMORY, "no memory for a message");
    if (m->head.size >= UINT32_MAX)
        return error_set(error, GW_LIMIT,
                         "message: its head has %zu bytes, but less than 4 GiB are allowed",
                         m->head.size);
    if (m->segment_count > LIMIT_SEGMENTS)
        return error_set(error, GW_LIMIT, "message: %u large tensors, at most %d are allowed",
                         m->segment_count, LIMIT_SEGMENTS);
    uint64_t size = message_size(m);
    if (size > LIMIT_MESSAGE_BYTES)
        return error_set(error, GW_LIMIT, "message: %llu bytes, at most 8 GiB are allowed",
                         (unsigned long long)size);
    m->head_size = m->head.size;
    for (uint32_t i = 0; i < m->segment_count; i++) bytes_put_u64(&m->head, m->segments[i].size);
    if (m->head.failed) {
        m->head.size = m->head_size;
        return error_set(error, GW_NO_MEMORY, "no memory for a message");
    }
    // SES-11: a message has bulk if it has segments and more than 262,144 bytes in all.
    m->size = message_size(m);
    m->has_bulk = m->segment_count > 0 && m->size > LIMIT_FRAME_BYTES;
    return GW_OK;
}

void message_drop_segments(message *m) {
    for (uint32_t i = 0; i < m->segment_count; i++) block_unpin(m->segments[i].block);
    m->segment_count = 0;
    m->head.size = m->size = m->head_size;
    m->has_bulk = false;
}

message *message_copy(const message *m) {
    message *copy = message_open(m->kind);
    if (!copy) return NULL;
    copy->received = true;
    bytes_put(&copy->head, m->head.data, m->head.size);
    copy->segments = m->segment_count ? mem_calloc(m->segment_count * sizeof(segment)) : NULL;
    if (copy->head.failed || (m->segment_count && !copy->segments)) goto release_copy;
    copy->segment_capacity = m->segment_count;
    for (uint32_t i = 0; i < m->segment_count; i++) {
        const segment *from = &m->segments[i];
        segment *to = &copy->segments[copy->segment_count++];
        *to = (segment){ .block = block_take(from->size), .size = from->size };
        if (!to->block) goto release_copy;
        block_copy(to->block, 0, from->block, from->offset, from->size);
    }
    return copy;

release_copy:
    message_release(copy);
    return NULL;
}
