#include "collective/agree/decision.h"

#include "base/mem.h"
#include "base/status.h"
#include "wire/codec.h"

#include <stdio.h>

enum { MEMBER_BYTES = 12 };  // on the wire

decision *decision_open(int size, int member_count) {
    decision *d = mem_calloc(sizeof *d);
    if (!d) return NULL;
    d->count = 1;
    d->size = size;
    d->member_count = member_count;
    d->here = mem_calloc((size_t)size + 1);
    d->members = mem_calloc(((size_t)member_count + 1) * sizeof *d->members);
    if (d->here && d->members) return d;
    decision_release(d);
    return NULL;
}

decision *decision_retain(decision *d) {
    d->count++;
    return d;
}

void decision_release(decision *d) {
    if (!d || --d->count) return;
    error_forget(&d->error);
    mem_free(d->here);
    mem_free(d->members);
    mem_free(d);
}

void decision_encode(bytes *out, const decision *d) {
    bytes_put_u8(out, d->spares_reforms ? 2 : d->error != NULL);
    if (d->error) encode_error(out, error_kept(d->error));
    bytes_put_u64(out, d->flags);
    bytes_put_u32(out, (uint32_t)d->size);
    for (int i = 0; i < d->size; i++) bytes_put_u8(out, d->here[i]);
    bytes_put_u64(out, d->id);
    bytes_put_u32(out, d->generation);
    bytes_put_text(out, d->name);
    bytes_put_u32(out, (uint32_t)d->member_count);
    for (int i = 0; i < d->member_count; i++) {
        bytes_put_u32(out, (uint32_t)d->members[i].rank);
        bytes_put_u64(out, d->members[i].incarnation);
    }
}

static bool read_member(reader *in, group_peer *out) {
    uint32_t rank = reader_u32(in);
    *out = (group_peer){ .rank = (int)rank, .incarnation = reader_u64(in) };
    return rank < LIMIT_WORKERS;
}

static bool read_members(reader *in, decision *d) {
    for (int i = 0; i < d->member_count; i++) {
        if (!read_member(in, &d->members[i])) return false;
        for (int j = 0; j < i; j++)
            if (d->members[j].rank == d->members[i].rank) return false;
    }
    return true;
}

// The part before the count of members, whose offset depends on the error's size.
typedef struct fixed_part {
    gw_error error;
    bool spares_reforms;
    uint64_t flags, id;
    uint32_t size, generation;
    const uint8_t *here;
    char name[LIMIT_NAME_BYTES + 1];
    uint32_t member_count;
} fixed_part;

static bool read_fixed(reader *in, fixed_part *out) {
    gw_error ignored;
    uint8_t fails = reader_u8(in);
    if (fails > 2 || (fails && decode_error(in, &out->error, &ignored))) return false;
    out->spares_reforms = fails == 2;
    out->flags = reader_u64(in);
    out->size = reader_u32(in);
    if (in->failed || out->size > LIMIT_WORKERS) return false;
    out->here = reader_take(in, out->size);
    out->id = reader_u64(in);
    out->generation = reader_u32(in);
    bool named = reader_text(in, out->name, sizeof out->name);
    out->member_count = reader_u32(in);
    return named && !in->failed && out->member_count <= reader_left(in) / MEMBER_BYTES &&
           out->member_count <= LIMIT_WORKERS && !(fails && out->member_count);
}

bool decision_decode(reader *in, decision **out) {
    fixed_part f = { .error.status = GW_OK };
    *out = NULL;
    if (!read_fixed(in, &f)) return false;
    decision *d = decision_open((int)f.size, (int)f.member_count);
    if (!d) return true;
    d->spares_reforms = f.spares_reforms;
    d->flags = f.flags;
    for (uint32_t i = 0; i < f.size; i++) d->here[i] = f.here[i];
    d->id = f.id;
    d->generation = f.generation;
    snprintf(d->name, sizeof d->name, "%s", f.name);
    if (f.error.status) error_keep(&d->error, &f.error);
    if (read_members(in, d)) {
        *out = d;
        return true;
    }
    decision_release(d);
    return false;
}

bool decision_has_member(const decision *d, int rank, uint64_t incarnation) {
    for (int i = 0; i < d->member_count; i++)
        if (d->members[i].rank == rank && d->members[i].incarnation == incarnation) return true;
    return false;
}
