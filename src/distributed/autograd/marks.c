#include "distributed/autograd/graphs.h"

#include "base/mem.h"
#include "agent/dispatch/deferred.h"

#include <stdlib.h>
#include <string.h>

bool marks_add_all(marks *m, const mark *items, uint32_t count) {
    if (m->count + count > m->capacity) {
        uint32_t capacity = m->capacity * 2 > m->count + count ? m->capacity * 2 : m->count + count;
        mark *grown = mem_realloc(m->items, capacity * sizeof *grown);
        if (!grown) return false;
        m->items = grown;
        m->capacity = capacity;
    }
    if (count) memcpy(m->items + m->count, items, count * sizeof *items);
    m->count += count;
    return true;
}

bool marks_add(marks *m, mark one) {
    return marks_add_all(m, &one, 1);
}

static int compare(const void *a, const void *b) {
    const mark *x = a, *y = b;
    if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
    if (x->send != y->send) return x->send < y->send ? -1 : 1;
    return x->slot < y->slot ? -1 : x->slot > y->slot;
}

void marks_sort(marks *m) {
    uint32_t kept = 0;
    if (m->count > 1) qsort(m->items, m->count, sizeof *m->items, compare);
    for (uint32_t i = 0; i < m->count; i++)
        if (!kept || compare(&m->items[kept - 1], &m->items[i])) m->items[kept++] = m->items[i];
    m->count = kept;
}

bool marks_has(const marks *m, mark one) {
    return m->count && bsearch(&one, m->items, m->count, sizeof one, compare);
}

void marks_fini(marks *m) {
    mem_free(m->items);
    *m = (marks){ 0 };
}

void marks_write(const marks *m, bytes *b) {
    bytes_put_u32(b, m->count);
    if (m->count) bytes_put(b, m->items, m->count * sizeof *m->items);
}

gw_status marks_read(const agent *a, reader *r, uint32_t max, marks *out, gw_error *error) {
    uint32_t count = reader_u32(r);
    if (r->failed || count > max || count > reader_left(r) / sizeof(mark))
        return error_set(error, GW_PROTOCOL, "malformed marks: the count %u is invalid", count);
    for (uint32_t i = 0; i < count; i++) {
        mark one = { .rank = reader_u32(r) };
        one.slot = reader_u32(r);
        one.send = reader_u64(r);
        if (one.rank >= (uint32_t)a->member_count || !one.send || one.slot >= LIMIT_SLOTS ||
            (i && compare(&out->items[out->count - 1], &one) >= 0))
            return error_set(error, GW_PROTOCOL, "malformed marks message: invalid fields");
        if (!marks_add(out, one)) return error_set(error, GW_NO_MEMORY, "no memory for marks");
    }
    return GW_OK;
}

bool marks_name_unknown(const agent *a, reader *r) {
    bool any = false;
    for (uint32_t left = reader_u32(r); left && !r->failed; left--) {
        uint32_t rank = reader_u32(r);
        reader_u32(r);
        reader_u64(r);
        any |= !r->failed && deferred_is_unknown(a, rank);
    }
    return any;
}
