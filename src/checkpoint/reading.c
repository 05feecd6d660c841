#include "checkpoint/reading.h"

#include "base/crc32c.h"
#include "base/limits.h"
#include "base/mem.h"
#include "checkpoint/home.h"
#include "tensor/tensor.h"

#include <inttypes.h>
#include <string.h>

// ---- Parts --------------------------------------------------------------------------------------

static bool check_header(gw_scope *s, reading_part *p, part_facts facts) {
    uint8_t *bytes = mem_alloc((size_t)p->start);
    if (!bytes) return scope_fail(s, GW_NO_MEMORY, "no memory for a header");
    bool is_read = file_read(&p->file, bytes, (size_t)p->start, 0);
    uint32_t sum = is_read ? crc32c(0, bytes, (size_t)p->start) : 0;
    mem_free(bytes);
    if (is_read && sum != facts.header)
        scope_fail(s, GW_INVALID, "its header has the checksum %08" PRIx32 ", not %08" PRIx32, sum,
                   facts.header);
    return gw_ok(s);
}

static void open_file(gw_scope *s, const char *path, part_facts facts, reading_part *p) {
    uint64_t size = 0;
    p->file = file_open(s, path, &size);
    if (p->file.fd < 0) return;
    p->source = (checkpoint_source){ file_read, &p->file, size };
    if (size != facts.size) {
        scope_fail(s, GW_INVALID, "it has %" PRIu64 " bytes, not %" PRIu64, size, facts.size);
        return;
    }
    p->start = checkpoint_decode_header(&p->header, &p->source);
    if (gw_ok(s) && check_header(s, p, facts)) p->checks = checkpoint_read_checks(&p->header);
    for (int i = 0; gw_ok(s) && i < p->header.count; i++)
        if (!json_object_get(p->checks, p->header.items[i].name))
            scope_fail(s, GW_INVALID, "it has no checksum of \"%.200s\"", p->header.items[i].name);
}

static bool open_part(reading *r, const char *name) {
    gw_scope *s = r->scope;
    part_facts facts;
    reading_part *p = &r->parts[r->part_count++];
    *p = (reading_part){ .name = gw_format(s, "%s", name), .file.fd = -1 };
    checkpoint_init(&p->header, s);
    if (!gw_ok(s) || !checkpoint_index_find_file(s, &r->index, name, &facts)) return false;
    open_file(s, home_file(s, r->path, name), facts, p);
    if (!gw_ok(s)) scope_explain_error(s, name);
    return gw_ok(s);
}

static bool is_own_name(const char *file) {
    return strncmp(file, "own-", 4) == 0;
}

static bool list_entries(reading *r, int number) {
    const reading_part *p = &r->parts[number];
    for (int i = 0; i < p->header.count; i++) {
        const char *name = p->header.items[i].name;
        const char *file = json_string_value(json_object_get(r->index.weight_map, name));
        if (!file || strcmp(file, p->name) != 0)
            return scope_fail(
                r->scope, GW_INVALID,
                "%s has \"%.200s\", but the index does not list this name in that file", p->name,
                name);
        if (json_object_set_new(r->places, name, json_pack("[i, i]", number, i)))
            return scope_fail(r->scope, GW_NO_MEMORY, "no memory for the names of a checkpoint");
    }
    return true;
}

static bool open_parts(reading *r) {
    const char *name;
    json_t *facts;
    json_object_foreach(r->index.files, name, facts) {
        if (strchr(name, '/'))
            return scope_fail(r->scope, GW_INVALID, "\"%.80s\" is not the name of a part", name);
        if (!open_part(r, name)) return false;
        if (!is_own_name(name) && !list_entries(r, r->part_count - 1)) return false;
    }
    return true;
}

// ---- Opening ------------------------------------------------------------------------------------

static bool read_index(reading *r) {
    gw_scope *s = r->scope;
    uint64_t size = 0;
    char *text = NULL;
    file f = file_open(s, home_file(s, r->path, HOME_INDEX), &size);
    if (gw_ok(s) && size > LIMIT_CHECKPOINT_HEADER_BYTES)
        scope_fail(s, GW_INVALID, "the index has %" PRIu64 " bytes, more than %d", size,
                   LIMIT_CHECKPOINT_HEADER_BYTES);
    if (gw_ok(s) && !(text = mem_alloc((size_t)size + 1)))
        scope_fail(s, GW_NO_MEMORY, "no memory for an index of %" PRIu64 " bytes", size);
    if (gw_ok(s) && file_read(&f, text, (size_t)size, 0))
        checkpoint_index_decode(s, text, (size_t)size, &r->index);
    mem_free(text);
    file_close(&f);
    return gw_ok(s);
}

void reading_open(reading *r, gw_scope *s, const char *path) {
    *r = (reading){ .scope = s, .path = path, .places = json_object() };
    checkpoint_init(&r->values, s);
    if (!r->places) scope_fail(s, GW_NO_MEMORY, "no memory for the names of a checkpoint");
    if (!gw_ok(s) || !read_index(r)) return;
    r->parts = gw_alloc(s, (json_object_size(r->index.files) + 1) * sizeof *r->parts);
    if (!r->parts || !open_parts(r)) return;
    size_t listed = json_object_size(r->index.weight_map), found = json_object_size(r->places);
    if (listed != found)
        scope_fail(s, GW_INVALID, "the index lists %zu names, of which the parts have %zu", listed,
                   found);
}

void reading_close(reading *r) {
    for (int i = 0; i < r->part_count; i++) {
        json_decref(r->parts[i].checks);
        checkpoint_fini(&r->parts[i].header);
        file_close(&r->parts[i].file);
    }
    json_decref(r->places);
    checkpoint_fini(&r->values);
    checkpoint_index_fini(&r->index);
}

// ---- Tensors ------------------------------------------------------------------------------------

typedef struct place {
    reading_part *part;
    const checkpoint_entry *entry;
} place;

// NULL entry: there is no such name, or it was read already.
static place take_place(reading *r, const char *name) {
    json_int_t number, i;
    json_t *at = json_object_get(r->places, name);
    if (!at || json_unpack(at, "[I, I]", &number, &i)) return (place){ 0 };
    reading_part *p = &r->parts[number];
    json_object_del(r->places, name);
    return (place){ p, &p->header.items[i] };
}

static uint8_t *add_tensor(reading *r, const char *name, gw_dtype dtype, gw_shape shape) {
    gw_scope *s = r->scope;
    checkpoint_entry *e = checkpoint_add(&r->values, gw_format(s, "%s", name));
    gw_tensor *x = e ? tensor_new(s, dtype, shape.count, shape.sizes) : NULL;
    if (!x) return NULL;
    e->x = scope_own(s, x);
    return gw_ok(s) ? gw_data_for_write(s, e->x) : NULL;
}

static bool read_numbers(reading *r, place at, uint8_t *out) {
    reading_part *p = at.part;
    if (checkpoint_decode_entry(&p->header, &p->source, p->start, p->checks, at.entry, out))
        return true;
    scope_explain_error(r->scope, p->name);
    return false;
}

// The range of |e| from |*at| on: moves |*at| behind it.
static bool read_range(reading *r, const checkpoint_entry *e, json_int_t end, json_int_t *at,
                       uint8_t *out) {
    uint64_t width = gw_dtype_size(e->dtype);
    const char *name =
        gw_format(r->scope, "%s[%lld:%lld]", e->name, (long long)*at, (long long)end);
    place from = take_place(r, name);
    bool fits = from.entry && from.entry->dtype == e->dtype &&
                from.entry->end - from.entry->begin == (uint64_t)(end - *at) * width;
    if (!fits)
        return scope_fail(r->scope, GW_INVALID, "\"%.200s\" is missing, or of another size", name);
    if (!read_numbers(r, from, out + (uint64_t)*at * width)) return false;
    *at = end;
    return true;
}

// A tensor that several parts have.
static bool read_ranges(reading *r, const char *name, const json_t *about) {
    gw_scope *s = r->scope;
    checkpoint_entry e = { .name = name };
    uint64_t size;
    json_int_t at = 0;
    const json_t *ends = json_object_get(about, "ends");
    if (!checkpoint_read_tensor(&r->values, &e, about, &size)) return false;
    json_int_t count = (json_int_t)(size / gw_dtype_size(e.dtype));
    size_t last = json_array_size(ends) - 1;
    // Before any memory is taken: the ranges of the files make up the whole.
    uint64_t present = 0;
    for (size_t i = 0; i < json_array_size(ends); i++) {
        json_int_t end = json_integer_value(json_array_get(ends, i));
        if (end <= at || (i == last) != (end == count))
            return scope_fail(s, GW_INVALID,
                              "the ranges of \"%.200s\" do not cover the whole tensor", name);
        const char *range = gw_format(s, "%s[%lld:%lld]", name, (long long)at, (long long)end);
        present += gw_ok(s) && json_object_get(r->places, range) != NULL;
        at = end;
    }
    if (!present || present != json_array_size(ends))
        return scope_fail(s, GW_INVALID, "ranges of \"%.200s\" are missing", name);
    uint8_t *out = add_tensor(r, name, e.dtype, e.shape);
    at = 0;
    for (size_t i = 0; out && i < json_array_size(ends); i++)
        if (!read_range(r, &e, json_integer_value(json_array_get(ends, i)), &at, out)) return false;
    return gw_ok(s);
}

static bool read_whole(reading *r, const char *name) {
    place at = take_place(r, name);
    if (!at.entry) return true;  // a range, which was read
    uint8_t *out = add_tensor(r, name, at.entry->dtype, at.entry->shape);
    return out && read_numbers(r, at, out);
}

gw_map *reading_values(reading *r, gw_scope *out) {
    const char *name;
    json_t *value;
    json_object_foreach(r->index.ranges, name, value) {
        if (!read_ranges(r, name, value)) return NULL;
    }
    json_object_foreach(r->index.weight_map, name, value) {
        if (!read_whole(r, name)) return NULL;
    }
    json_decref(r->values.texts);
    r->values.texts = json_incref(r->index.texts);
    return checkpoint_nest(&r->values, out);
}

gw_map *reading_own(reading *r, int rank, gw_scope *out) {
    gw_scope *s = r->scope;
    const char *name = checkpoint_index_own_name(s, rank, r->index.members);
    for (int i = 0; gw_ok(s) && i < r->part_count; i++) {
        reading_part *p = &r->parts[i];
        if (strcmp(p->name, name) != 0) continue;
        checkpoint_decode_numbers(&p->header, &p->source, p->start);
        gw_map *values = gw_ok(s) ? checkpoint_nest(&p->header, out) : NULL;
        if (!gw_ok(s)) scope_explain_error(s, name);
        return values;
    }
    scope_fail(s, GW_INVALID, "the index does not list %s", name);
    return NULL;
}
