#include "checkpoint/shares.h"

#include "base/mem.h"

#include <inttypes.h>

enum { ALIGNMENT = 64 };

static uint64_t size_of(const checkpoint_entry *e) {
    return e->end - e->begin;
}

// Where |total| bytes end for the first |number| of |count| writers.
static uint64_t boundary(uint64_t total, int number, int count) {
    uint64_t each = total / (uint64_t)count, more = total % (uint64_t)count;
    return each * (uint64_t)number + (more < (uint64_t)number ? more : (uint64_t)number);
}

// The boundary |at| of bytes moves within an entry of |size| bytes that begins at |begin|.
static uint64_t move(uint64_t at, uint64_t begin, uint64_t size, uint64_t split_bytes) {
    uint64_t inside = at - begin;
    if (size >= split_bytes) return begin + inside - inside % ALIGNMENT;
    return inside < size - inside ? begin : begin + size;
}

static bool add(shares *out, share item) {
    if (!mem_grow(&out->items, &out->capacity, (uint32_t)out->count + 1, sizeof *out->items))
        return false;
    out->items[out->count++] = item;
    return true;
}

bool shares_divide(const checkpoint *c, int writer_count, uint64_t split_bytes, shares *out) {
    uint64_t total = 0, begin = 0;
    int writer = 0;
    for (int i = 0; i < c->count; i++) total += size_of(&c->items[i]);
    for (int i = 0; i < c->count; i++) {
        uint64_t size = size_of(&c->items[i]), first = 0;
        // Those of the writers whose ranges end within this entry.
        for (; writer < writer_count - 1; writer++) {
            uint64_t end = boundary(total, writer + 1, writer_count);
            if (end >= begin + size) break;
            end = move(end, begin, size, split_bytes) - begin;
            if (end > first && !add(out, (share){ i, writer, first, end, end == size && !first }))
                return false;
            if (end > first) first = end;
        }
        bool is_left = first < size || !size;
        if (is_left && !add(out, (share){ i, writer, first, size, !first })) return false;
        begin += size;
    }
    return true;
}

void shares_fini(shares *x) {
    mem_free(x->items);
    *x = (shares){ 0 };
}

const char *shares_name(gw_scope *s, const checkpoint *c, const share *at) {
    const checkpoint_entry *e = &c->items[at->entry];
    uint64_t width = gw_dtype_size(e->dtype);
    if (at->is_whole) return e->name;
    return gw_format(s, "%s[%" PRIu64 ":%" PRIu64 "]", e->name, at->first / width, at->end / width);
}
