// Values to bytes and back: the size of the header, the header, the numbers.
#include "checkpoint/checkpoint.h"

#include "base/bytes.h"
#include "base/limits.h"
#include "base/mem.h"
#include "tensor/pack.h"

#include <string.h>

enum { SIZE_BYTES = 8, ALIGNMENT = 8 };

// ---- Encoding -----------------------------------------------------------------------------------
static int put_text(const char *text, size_t size, void *context) {
    bytes_put(context, text, size);
    return 0;
}

void checkpoint_encode_header(const checkpoint *c, bytes *out) {
    json_t *header = checkpoint_describe(c);
    bytes_put_u64(out, 0);
    if (gw_ok(c->scope)) json_dump_callback(header, put_text, out, JSON_COMPACT);
    json_decref(header);
    while (!out->failed && out->size % ALIGNMENT) bytes_put_u8(out, ' ');
    if (gw_ok(c->scope) && out->failed)
        scope_fail(c->scope, GW_NO_MEMORY, "no memory for a header");
    if (!gw_ok(c->scope)) return;
    uint64_t size = out->size - SIZE_BYTES;
    if (size > LIMIT_CHECKPOINT_HEADER_BYTES)
        scope_fail(c->scope, GW_LIMIT,
                   "names and texts take %llu bytes, but at most %d are allowed",
                   (unsigned long long)size, LIMIT_CHECKPOINT_HEADER_BYTES);
    for (int i = 0; i < SIZE_BYTES; i++) out->data[i] = (uint8_t)(size >> (8 * i));
}

static bool write_numbers(const checkpoint *c, const checkpoint_entry *e, checkpoint_sink to) {
    packed numbers;
    if (!tensor_pack(e->x, &numbers))
        return scope_fail(c->scope, GW_NO_MEMORY, "no memory for the numbers of \"%.200s\"",
                          e->name);
    bool written = to.write(to.context, numbers.bytes, (size_t)(e->end - e->begin));
    packed_release(&numbers);
    return written;
}

static void encode_numbers(const checkpoint *c, checkpoint_sink to) {
    for (size_t width = 8; width > 0; width /= 2) {
        for (int i = 0; i < c->count; i++) {
            const checkpoint_entry *e = &c->items[i];
            if (gw_dtype_size(gw_dtype_of(e->x)) == width && e->end > e->begin &&
                !write_numbers(c, e, to))
                return;
        }
    }
}

void checkpoint_encode(gw_scope *s, gw_map *values, checkpoint_sink to) {
    checkpoint c;
    bytes header = { 0 };
    checkpoint_init(&c, s);
    checkpoint_flatten(&c, values);
    if (gw_ok(s)) checkpoint_lay_out(&c);
    if (gw_ok(s)) checkpoint_keep_checks(&c);
    if (gw_ok(s)) checkpoint_encode_header(&c, &header);
    if (gw_ok(s) && to.write(to.context, header.data, header.size)) encode_numbers(&c, to);
    bytes_fini(&header);
    checkpoint_fini(&c);
}

// ---- Decoding -----------------------------------------------------------------------------------
static void decode_header(checkpoint *c, const checkpoint_source *from, uint64_t size) {
    char *text = mem_alloc((size_t)size + 1);
    if (!text) {
        scope_fail(c->scope, GW_NO_MEMORY, "no memory for a header of %llu bytes",
                   (unsigned long long)size);
    } else if (from->read(from->context, text, (size_t)size, SIZE_BYTES)) {
        checkpoint_read_header(c, text, (size_t)size, from->size - SIZE_BYTES - size);
    }
    mem_free(text);
}

static uint64_t header_size(checkpoint *c, const checkpoint_source *from) {
    uint8_t bytes[SIZE_BYTES];
    if (from->size < SIZE_BYTES)
        scope_fail(c->scope, GW_INVALID, "not a checkpoint: it has only %llu bytes",
                   (unsigned long long)from->size);
    if (!gw_ok(c->scope) || !from->read(from->context, bytes, SIZE_BYTES, 0)) return 0;
    reader r = reader_of(bytes, sizeof bytes);
    uint64_t size = reader_u64(&r), left = from->size - SIZE_BYTES;
    if (size > LIMIT_CHECKPOINT_HEADER_BYTES)
        scope_fail(c->scope, GW_INVALID,
                   "not a checkpoint: its header would have %llu bytes, at most %d are allowed",
                   (unsigned long long)size, LIMIT_CHECKPOINT_HEADER_BYTES);
    else if (size > left)
        scope_fail(c->scope, GW_INVALID,
                   "truncated: the header has %llu bytes, of which %llu are present",
                   (unsigned long long)size, (unsigned long long)left);
    return size;
}

static void check_bools(checkpoint *c, const checkpoint_entry *e, const uint8_t *at) {
    for (uint64_t i = 0; i < e->end - e->begin; i++) {
        if (at[i] <= 1) continue;
        scope_fail(c->scope, GW_INVALID, "\"%.200s\" has the byte %d, which is not a bool", e->name,
                   at[i]);
        return;
    }
}

uint64_t checkpoint_decode_header(checkpoint *c, const checkpoint_source *from) {
    uint64_t size = gw_ok(c->scope) ? header_size(c, from) : 0;
    if (gw_ok(c->scope)) decode_header(c, from, size);
    return SIZE_BYTES + size;
}

bool checkpoint_decode_entry(checkpoint *c, const checkpoint_source *from, uint64_t start,
                             const json_t *checks, const checkpoint_entry *e, uint8_t *out) {
    size_t size = (size_t)(e->end - e->begin);
    if (size && !from->read(from->context, out, size, start + e->begin)) return false;
    if (checks) checkpoint_compare(c, checks, e, out, start + e->begin);
    if (gw_ok(c->scope) && e->dtype == GW_BOOL8) check_bools(c, e, out);
    return gw_ok(c->scope);
}

void checkpoint_decode_numbers(checkpoint *c, const checkpoint_source *from, uint64_t start) {
    gw_scope *s = c->scope;
    json_t *checks = checkpoint_read_checks(c);
    for (int i = 0; i < c->count && gw_ok(s); i++) {
        checkpoint_entry *e = &c->items[i];
        gw_tensor *x = tensor_new(s, e->dtype, e->shape.count, e->shape.sizes);
        e->x = x ? scope_own(s, x) : NULL;
        uint8_t *bytes = e->x ? gw_data_for_write(s, e->x) : NULL;
        if (!bytes || !checkpoint_decode_entry(c, from, start, checks, e, bytes)) break;
    }
    json_decref(checks);
}

void checkpoint_decode(gw_scope *s, gw_map **out, gw_scope *out_scope, checkpoint_source from) {
    checkpoint c;
    checkpoint_init(&c, s);
    uint64_t start = checkpoint_decode_header(&c, &from);
    if (gw_ok(s)) checkpoint_decode_numbers(&c, &from, start);
    gw_map *values = gw_ok(s) ? checkpoint_nest(&c, out_scope) : NULL;
    if (gw_ok(s)) *out = values;
    checkpoint_fini(&c);
}
