// The header of a safetensors file. All of it is checked against the size of the file before
// anything in it is used.
#include "checkpoint/checkpoint.h"

#include "base/limits.h"
#include "base/mem.h"
#include "tensor/ops/op.h"
#include "tensor/tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char metadata_name[] = "__metadata__";

static const char *const dtype_names[GW_DTYPE_COUNT] = {
    [GW_F32] = "F32", [GW_F64] = "F64", [GW_F16] = "F16", [GW_BF16] = "BF16", [GW_I64] = "I64",
    [GW_I32] = "I32", [GW_I16] = "I16", [GW_I8] = "I8",   [GW_U8] = "U8",     [GW_BOOL8] = "BOOL",
};

const char *checkpoint_dtype_name(gw_dtype dtype) {
    return dtype_names[dtype];
}

// ---- Entries ------------------------------------------------------------------------------------
void checkpoint_init(checkpoint *c, gw_scope *s) {
    *c = (checkpoint){ .scope = s, .texts = json_object() };
    if (!c->texts) scope_fail(s, GW_NO_MEMORY, "no memory for a header");
}

void checkpoint_fini(checkpoint *c) {
    mem_free(c->items);
    json_decref(c->texts);
}

checkpoint_entry *checkpoint_add(checkpoint *c, const char *name) {
    if (!mem_grow(&c->items, &c->capacity, (uint32_t)c->count + 1, sizeof *c->items)) {
        scope_fail(c->scope, GW_NO_MEMORY, "no memory for %d names", c->count);
        return NULL;
    }
    c->items[c->count] = (checkpoint_entry){ .name = name };
    return &c->items[c->count++];
}

// ---- Writing ------------------------------------------------------------------------------------
static size_t size_of(const checkpoint_entry *e) {
    return (size_t)gw_numel(e->x) * gw_dtype_size(gw_dtype_of(e->x));
}

// Tensors with the widest numbers are first, so that each is aligned; else in the order of adding.
void checkpoint_lay_out(checkpoint *c) {
    uint64_t at = 0;
    for (size_t width = 8; width > 0; width /= 2) {
        for (int i = 0; i < c->count; i++) {
            checkpoint_entry *e = &c->items[i];
            if (gw_dtype_size(gw_dtype_of(e->x)) != width) continue;
            e->begin = at;
            e->end = at += size_of(e);
        }
    }
}

static json_t *describe_entry(const checkpoint_entry *e) {
    json_t *shape = json_array();
    for (int d = 0; d < gw_dims(e->x); d++)
        json_array_append_new(shape, json_integer(gw_size(e->x, d)));
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", dtype_names[gw_dtype_of(e->x)], "shape",
                     shape, "data_offsets", (json_int_t)e->begin, (json_int_t)e->end);
}

json_t *checkpoint_describe(const checkpoint *c) {
    gw_scope *s = c->scope;
    json_t *out = json_object();
    if (json_object_size(c->texts)) json_object_set(out, metadata_name, c->texts);
    for (int i = 0; i < c->count && gw_ok(s); i++) {
        const char *name = c->items[i].name;
        if (!strcmp(name, metadata_name) || json_object_get(out, name)) {
            scope_fail(s, GW_INVALID, "two values would have the name \"%.200s\"", name);
        } else if (json_object_set_new(out, name, describe_entry(&c->items[i]))) {
            scope_fail(s, GW_INVALID, "the name \"%.200s\" is not UTF-8", name);
        }
    }
    return out;
}

// ---- Reading ------------------------------------------------------------------------------------
static bool wrong(checkpoint *c, const char *name) {
    return scope_fail(c->scope, GW_INVALID,
                      "\"%.200s\" does not describe a tensor by dtype, shape and data_offsets",
                      name);
}

static bool read_dtype(checkpoint *c, checkpoint_entry *e, const json_t *j) {
    const char *name = json_string_value(j);
    if (!name) return wrong(c, e->name);
    for (int d = 0; d < GW_DTYPE_COUNT; d++) {
        if (strcmp(dtype_names[d], name) != 0) continue;
        e->dtype = (gw_dtype)d;
        return true;
    }
    return scope_fail(c->scope, GW_UNSUPPORTED,
                      "\"%.200s\" is of the dtype %.40s, which is not supported here", e->name,
                      name);
}

static bool read_count(const json_t *j, uint64_t *out) {
    json_int_t n = json_integer_value(j);
    *out = (uint64_t)n;
    return json_is_integer(j) && n >= 0;
}

static bool read_shape(checkpoint *c, checkpoint_entry *e, const json_t *j) {
    size_t dims = json_array_size(j);
    if (!json_is_array(j)) return wrong(c, e->name);
    if (dims > LIMIT_DIMS)
        return scope_fail(c->scope, GW_INVALID, "\"%.200s\" has %zu dimensions, more than %d",
                          e->name, dims, LIMIT_DIMS);
    int64_t *sizes = gw_alloc(c->scope, (dims + 1) * sizeof *sizes);
    for (size_t d = 0; d < dims && sizes; d++) {
        uint64_t size;
        if (!read_count(json_array_get(j, d), &size)) return wrong(c, e->name);
        sizes[d] = (int64_t)size;
    }
    e->shape = (gw_shape){ (int)dims, sizes };
    return sizes != NULL;
}

// False if the size, dimensions of 0 not counted, does not fit into 64 bits.
static bool bytes_of(const checkpoint_entry *e, uint64_t *out) {
    uint64_t all = gw_dtype_size(e->dtype);
    bool is_empty = false;
    for (int d = 0; d < e->shape.count; d++) {
        uint64_t size = (uint64_t)e->shape.sizes[d];
        is_empty |= !size;
        if (__builtin_mul_overflow(all, size ? size : 1, &all)) return false;
    }
    *out = is_empty ? 0 : all;
    return all <= INT64_MAX;
}

static bool check_size(checkpoint *c, const checkpoint_entry *e, uint64_t data_size) {
    uint64_t size;
    bool is_possible = bytes_of(e, &size);
    if (!is_possible || e->end < e->begin || e->end - e->begin != size) {
        scope_fail(c->scope, GW_INVALID,
                   "\"%.200s\" is %s %s, for which the offsets %llu to %llu are wrong", e->name,
                   gw_dtype_name(e->dtype), shape_text_of(e->shape.count, e->shape.sizes).text,
                   (unsigned long long)e->begin, (unsigned long long)e->end);
    } else if (e->end > data_size) {
        scope_fail(c->scope, GW_INVALID,
                   "truncated: \"%.200s\" ends at byte %llu of the data, of which %llu are present",
                   e->name, (unsigned long long)e->end, (unsigned long long)data_size);
    }
    return gw_ok(c->scope);
}

static bool read_entry(checkpoint *c, const char *key, const json_t *j, uint64_t data_size) {
    checkpoint_entry *e = checkpoint_add(c, gw_format(c->scope, "%s", key));
    if (!e || !gw_ok(c->scope)) return false;
    const json_t *offsets = json_object_get(j, "data_offsets");
    if (json_array_size(offsets) != 2 || !read_count(json_array_get(offsets, 0), &e->begin) ||
        !read_count(json_array_get(offsets, 1), &e->end))
        return wrong(c, e->name);
    return read_dtype(c, e, json_object_get(j, "dtype")) &&
           read_shape(c, e, json_object_get(j, "shape")) && check_size(c, e, data_size);
}

bool checkpoint_read_tensor(checkpoint *c, checkpoint_entry *e, const json_t *j, uint64_t *out) {
    if (!read_dtype(c, e, json_object_get(j, "dtype")) ||
        !read_shape(c, e, json_object_get(j, "shape")))
        return false;
    return bytes_of(e, out) || wrong(c, e->name);
}

static bool read_metadata(checkpoint *c, json_t *j) {
    const char *key;
    json_t *text;
    bool ok = json_is_object(j);
    json_object_foreach(j, key, text) {
        ok = ok && json_is_string(text);
    }
    if (ok) {
        json_decref(c->texts);
        c->texts = json_incref(j);
    } else {
        scope_fail(c->scope, GW_INVALID, "%s is not a JSON object of strings", metadata_name);
    }
    return ok;
}

static int by_offset(const void *a, const void *b) {
    const checkpoint_entry *x = *(const checkpoint_entry *const *)a,
                           *y = *(const checkpoint_entry *const *)b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

// Each byte behind the header belongs to exactly one tensor.
static void check_offsets(checkpoint *c, uint64_t data_size) {
    const checkpoint_entry **order = mem_alloc((size_t)(c->count + 1) * sizeof *order);
    if (!order) {
        scope_fail(c->scope, GW_NO_MEMORY, "no memory for %d names", c->count);
        return;
    }
    for (int i = 0; i < c->count; i++) order[i] = &c->items[i];
    qsort(order, (size_t)c->count, sizeof *order, by_offset);
    uint64_t at = 0;
    for (int i = 0; i < c->count && gw_ok(c->scope); i++) {
        if (order[i]->begin < at)
            scope_fail(c->scope, GW_INVALID, "\"%.200s\" overlaps with \"%.200s\"", order[i]->name,
                       order[i - 1]->name);
        else if (order[i]->begin > at)
            scope_fail(c->scope, GW_INVALID,
                       "the bytes %llu to %llu belong to no tensor before \"%.200s\"",
                       (unsigned long long)at, (unsigned long long)order[i]->begin, order[i]->name);
        at = order[i]->end;
    }
    if (gw_ok(c->scope) && at != data_size)
        scope_fail(c->scope, GW_INVALID, "the last %llu bytes belong to no tensor",
                   (unsigned long long)(data_size - at));
    mem_free(order);
}

enum { JSON_DEPTH_MAX = 3 * LIMIT_NESTING };

static bool is_too_deep(const char *text, size_t size) {
    int depth = 0;
    bool is_quoted = false;
    for (size_t i = 0; i < size && depth <= JSON_DEPTH_MAX; i++) {
        if (text[i] == '"')
            is_quoted = !is_quoted;
        else if (is_quoted && text[i] == '\\')
            i++;
        else if (!is_quoted)
            depth += (text[i] == '{' || text[i] == '[') - (text[i] == '}' || text[i] == ']');
    }
    return depth > JSON_DEPTH_MAX;
}

json_t *checkpoint_parse(const char *text, size_t size, json_error_t *error) {
    if (!is_too_deep(text, size)) return json_loadb(text, size, JSON_REJECT_DUPLICATES, error);
    snprintf(error->text, sizeof error->text, "nested deeper than %d levels", JSON_DEPTH_MAX);
    return NULL;
}

void checkpoint_read_header(checkpoint *c, const char *text, size_t size, uint64_t data_size) {
    json_error_t error;
    json_t *header = checkpoint_parse(text, size, &error);
    if (!json_is_object(header))
        scope_fail(c->scope, GW_INVALID, "its header is not a JSON object: %.200s",
                   header ? "it is another JSON value" : error.text);
    const char *key;
    json_t *value;
    json_object_foreach(header, key, value) {
        bool ok =
            gw_ok(c->scope) && (strcmp(key, metadata_name) ? read_entry(c, key, value, data_size)
                                                           : read_metadata(c, value));
        if (!ok) break;
    }
    if (gw_ok(c->scope)) check_offsets(c, data_size);
    json_decref(header);
}
