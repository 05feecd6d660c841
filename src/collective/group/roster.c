#include "collective/group/roster.h"

enum { MEMBER_BYTES = 12 };

void roster_put(bytes *out, const gw_group *g) {
    bytes_put_text(out, g->title);
    bytes_put_u32(out, (uint32_t)g->count);
    for (int i = 0; i < g->count; i++) {
        bytes_put_u32(out, (uint32_t)g->members[i].rank);
        bytes_put_u64(out, g->members[i].incarnation);
    }
}

void roster_put_none(bytes *out) {
    bytes_put_text(out, "");
    bytes_put_u32(out, 0);
}

bool roster_read(reader *in, roster *out) {
    if (!reader_text(in, out->title, sizeof out->title)) return false;
    out->count = reader_u32(in);
    if (in->failed || out->count > LIMIT_WORKERS) return false;
    out->members = reader_take(in, (size_t)out->count * MEMBER_BYTES);
    return !in->failed;
}

group_peer roster_member(const roster *x, uint32_t i) {
    reader in = reader_of(x->members + (size_t)i * MEMBER_BYTES, MEMBER_BYTES);
    group_peer p = { .rank = (int)(reader_u32(&in) & INT32_MAX) };
    p.incarnation = reader_u64(&in);
    return p;
}
