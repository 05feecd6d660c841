#include "checkpoint/index.h"

#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/limits.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FORMAT = 1, SUM_DIGITS = 8 };

// The end of the file: ,"crc32c":"xxxxxxxx"}
static const char before_sum[] = ",\"crc32c\":\"", after_sum[] = "\"}";

const char *checkpoint_index_part_name(gw_scope *s, int rank, int members) {
    return gw_format(s, "part-%d-of-%d.safetensors", rank + 1, members);
}

const char *checkpoint_index_own_name(gw_scope *s, int rank, int members) {
    return gw_format(s, "own-%d-of-%d.safetensors", rank + 1, members);
}

// ---- Writing ------------------------------------------------------------------------------------

static bool no_memory(gw_scope *s) {
    return scope_fail(s, GW_NO_MEMORY, "no memory for an index");
}

static json_t *describe_file(const part_facts *facts) {
    char sum[SUM_DIGITS + 1];
    snprintf(sum, sizeof sum, "%08" PRIx32, facts->header);
    return json_pack("{s:I, s:s}", "size", (json_int_t)facts->size, "header", sum);
}

static json_t *describe_files(gw_scope *s, const checkpoint_index_contents *x, int writer_count) {
    json_t *out = json_object();
    for (int i = 0; i < writer_count && gw_ok(s); i++)
        if (json_object_set_new(out, checkpoint_index_part_name(s, x->writers[i], x->members),
                                describe_file(&x->parts[x->writers[i]])))
            no_memory(s);
    for (int rank = 0; x->has_own && rank < x->members && gw_ok(s); rank++)
        if (json_object_set_new(out, checkpoint_index_own_name(s, rank, x->members),
                                describe_file(&x->owns[rank])))
            no_memory(s);
    return out;
}

static json_t *describe_weights(gw_scope *s, const checkpoint_index_contents *x) {
    json_t *out = json_object();
    for (int i = 0; i < x->shares->count && gw_ok(s); i++) {
        const share *at = &x->shares->items[i];
        const char *name = shares_name(s, x->values, at);
        const char *file = checkpoint_index_part_name(s, x->writers[at->writer], x->members);
        if (gw_ok(s) && json_object_get(out, name))
            scope_fail(s, GW_INVALID, "two values would have the name \"%.200s\"", name);
        else if (gw_ok(s) && json_object_set_new(out, name, json_string(file)))
            no_memory(s);
    }
    return out;
}

static json_t *describe_tensor(const checkpoint_entry *e) {
    json_t *shape = json_array();
    for (int d = 0; d < e->shape.count; d++)
        json_array_append_new(shape, json_integer(e->shape.sizes[d]));
    return json_pack("{s:s, s:o, s:[]}", "dtype", checkpoint_dtype_name(e->dtype), "shape", shape,
                     "ends");
}

static json_t *describe_ranges(gw_scope *s, const checkpoint_index_contents *x) {
    json_t *out = json_object();
    for (int i = 0; i < x->shares->count && gw_ok(s); i++) {
        const share *at = &x->shares->items[i];
        const checkpoint_entry *e = &x->values->items[at->entry];
        if (at->is_whole) continue;
        if (!json_object_get(out, e->name)) json_object_set_new(out, e->name, describe_tensor(e));
        json_t *ends = json_object_get(json_object_get(out, e->name), "ends");
        json_int_t end = (json_int_t)(at->end / gw_dtype_size(e->dtype));
        if (json_array_append_new(ends, json_integer(end))) no_memory(s);
    }
    return out;
}

static int count_writers(const shares *x) {
    int count = 1;
    for (int i = 0; i < x->count; i++)
        if (x->items[i].writer >= count) count = x->items[i].writer + 1;
    return count;
}

static int put_text(const char *text, size_t size, void *context) {
    bytes_put(context, text, size);
    return 0;
}

// Behind all other fields, in place of the last brace.
static void put_sum(bytes *out) {
    char sum[SUM_DIGITS + 1];
    out->size--;
    bytes_put(out, before_sum, sizeof before_sum - 1);
    snprintf(sum, sizeof sum, "%08" PRIx32, crc32c(0, out->data, out->size));
    bytes_put(out, sum, SUM_DIGITS);
    bytes_put(out, after_sum, sizeof after_sum - 1);
}

bool checkpoint_index_encode(gw_scope *s, const checkpoint_index_contents *x, bytes *out) {
    uint64_t total = 0;
    for (int i = 0; i < x->values->count; i++)
        total += x->values->items[i].end - x->values->items[i].begin;
    json_t *weights = describe_weights(s, x), *ranges = describe_ranges(s, x);
    json_t *files = describe_files(s, x, count_writers(x->shares));
    json_t *root =
        json_pack("{s:{s:I}, s:o, s:{s:i, s:I, s:i, s:i, s:O, s:o, s:o}}", "metadata", "total_size",
                  (json_int_t)total, "weight_map", weights, "gradwire", "format", FORMAT, "step",
                  (json_int_t)x->step, "members", x->members, "own", x->has_own ? x->members : 0,
                  "texts", x->values->texts, "ranges", ranges, "files", files);
    if (gw_ok(s)) json_dump_callback(root, put_text, out, JSON_COMPACT);
    if (gw_ok(s) && (!root || out->failed || !out->size)) no_memory(s);
    json_decref(root);
    if (gw_ok(s)) put_sum(out);
    return gw_ok(s) && (!out->failed || no_memory(s));
}

// ---- Reading ------------------------------------------------------------------------------------

static bool check_sum(gw_scope *s, const char *text, size_t size) {
    size_t end = sizeof after_sum - 1, begin = sizeof before_sum - 1;
    size_t tail = begin + SUM_DIGITS + end;
    char sum[SUM_DIGITS + 1];
    if (size < tail || memcmp(text + size - end, after_sum, end) != 0 ||
        memcmp(text + size - tail, before_sum, begin) != 0)
        return scope_fail(s, GW_INVALID, "the index does not end with its checksum");
    size_t covered = size - end - SUM_DIGITS;
    snprintf(sum, sizeof sum, "%08" PRIx32, crc32c(0, text, covered));
    if (!memcmp(sum, text + covered, SUM_DIGITS)) return true;
    return scope_fail(s, GW_INVALID, "the index has the checksum %s, not %.8s", sum,
                      text + covered);
}

static bool wrong(gw_scope *s, const char *what) {
    return scope_fail(s, GW_INVALID, "the index has no valid %s", what);
}

static bool read_count(const json_t *j, const char *key, int64_t max, int64_t *out) {
    const json_t *value = json_object_get(j, key);
    *out = json_integer_value(value);
    return json_is_integer(value) && *out >= 0 && *out <= max;
}

static bool are_strings(json_t *object) {
    const char *key;
    json_t *value;
    bool ok = json_is_object(object);
    json_object_foreach(object, key, value) ok = ok && json_is_string(value);
    return ok;
}

static bool read_fields(gw_scope *s, checkpoint_index *x) {
    json_t *own = json_object_get(x->root, "gradwire");
    int64_t format, members, own_count;
    x->weight_map = json_object_get(x->root, "weight_map");
    x->texts = json_object_get(own, "texts");
    x->ranges = json_object_get(own, "ranges");
    x->files = json_object_get(own, "files");
    if (!read_count(own, "format", INT32_MAX, &format)) return wrong(s, "\"format\"");
    if (format != FORMAT)
        return scope_fail(s, GW_UNSUPPORTED, "the index has the format %" PRId64 ", not %d", format,
                          FORMAT);
    if (!read_count(own, "step", INT64_MAX, &x->step)) return wrong(s, "\"step\"");
    if (!read_count(own, "members", LIMIT_WORKERS, &members) || !members)
        return wrong(s, "\"members\"");
    if (!read_count(own, "own", members, &own_count) || (own_count && own_count != members))
        return wrong(s, "\"own\"");
    x->members = (int)members;
    x->own = (int)own_count;
    if (!are_strings(x->weight_map)) return wrong(s, "\"weight_map\"");
    if (!are_strings(x->texts)) return wrong(s, "\"texts\"");
    if (!json_is_object(x->ranges)) return wrong(s, "\"ranges\"");
    if (!json_is_object(x->files)) return wrong(s, "\"files\"");
    return true;
}

bool checkpoint_index_decode(gw_scope *s, const char *text, size_t size, checkpoint_index *out) {
    json_error_t error;
    *out = (checkpoint_index){ 0 };
    if (!check_sum(s, text, size)) return false;
    out->root = checkpoint_parse(text, size, &error);
    if (!json_is_object(out->root))
        return scope_fail(s, GW_INVALID, "the index is not a JSON object: %.200s",
                          out->root ? "it is another JSON value" : error.text);
    return read_fields(s, out);
}

void checkpoint_index_fini(checkpoint_index *x) {
    json_decref(x->root);
    x->root = NULL;
}

bool checkpoint_index_find_file(gw_scope *s, const checkpoint_index *x, const char *file,
                                part_facts *out) {
    const json_t *facts = json_object_get(x->files, file);
    const char *sum = json_string_value(json_object_get(facts, "header"));
    int64_t size;
    if (!read_count(facts, "size", INT64_MAX, &size) || !sum || strlen(sum) != SUM_DIGITS)
        return scope_fail(s, GW_INVALID, "the index has no size and checksum of %.80s", file);
    *out = (part_facts){ (uint64_t)size, (uint32_t)strtoul(sum, NULL, 16) };
    return true;
}
