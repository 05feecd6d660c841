// Nested values as entries under flat names, and back.
//
// If a map has values other than tensors, __metadata__ has, under "gradwire", the nesting as JSON,
// with the kind of each value: {"model":{"0.weight":"tensor"},"step":"int"}.
#include "checkpoint/checkpoint.h"

#include "base/bytes.h"
#include "base/limits.h"
#include "tensor/dtype.h"
#include "tensor/pack.h"
#include <gradwire/ops.h>
#include <gradwire/ref.h>

#include <string.h>

static const char tree_name[] = "gradwire";

static const char *join(gw_scope *s, const char *path, const char *name) {
    return path ? gw_format(s, "%s.%s", path, name) : name;
}

// ---- Flattening ---------------------------------------------------------------------------------
static json_t *flatten(checkpoint *c, const char *path, int depth, gw_value v);

static json_t *kind_of(checkpoint *c, gw_kind kind) {
    json_t *name = json_string(gw_kind_name(kind));
    if (!name) scope_fail(c->scope, GW_NO_MEMORY, "no memory for a header");
    return name;
}

static json_t *flatten_tensor(checkpoint *c, const char *path, gw_tensor *x, gw_kind kind) {
    x = gw_contiguous(c->scope, tensor_to_device(c->scope, x, GW_CPU));
    checkpoint_entry *e = gw_ok(c->scope) ? checkpoint_add(c, path) : NULL;
    if (!e) return NULL;
    e->x = x;
    return kind_of(c, kind);
}

static json_t *flatten_number(checkpoint *c, const char *path, gw_value v) {
    gw_dtype dtype = v.kind == GW_FLOAT ? GW_F64 : v.kind == GW_INT ? GW_I64 : GW_BOOL8;
    gw_tensor *x = gw_zeros_with(c->scope, dtype, GW_SHAPE());
    void *at = gw_ok(c->scope) ? gw_data_for_write(c->scope, x) : NULL;
    if (!at) return NULL;
    dtype_write_value(dtype, at, v);
    return flatten_tensor(c, path, x, v.kind);
}

static json_t *flatten_text(checkpoint *c, const char *path, gw_value v) {
    bool is_whole = strlen(v.as.string) == v.size;
    if (!strcmp(path, tree_name) || json_object_get(c->texts, path)) {
        scope_fail(c->scope, GW_INVALID, "two texts would have the name \"%.200s\"", path);
    } else if (!is_whole || json_object_set_new(c->texts, path, json_string(v.as.string))) {
        scope_fail(c->scope, GW_INVALID, "\"%.200s\" is no UTF-8 text", path);
    }
    return gw_ok(c->scope) ? kind_of(c, GW_STRING) : NULL;
}

static json_t *flatten_map(checkpoint *c, const char *path, int depth, gw_map *map) {
    gw_scope *s = c->scope;
    json_t *out = json_object();
    for (int i = 0; i < gw_map_count(map) && gw_ok(s); i++) {
        const char *key = gw_map_key(s, map, i);
        json_t *inner = flatten(c, join(s, path, key), depth, gw_map_find(map, key));
        if (!gw_ok(s)) {
            json_decref(inner);
        } else if (json_object_set_new(out, key, inner)) {
            scope_fail(s, GW_INVALID, "the name \"%.200s\" is not UTF-8", key);
        }
    }
    return out;
}

static json_t *flatten_list(checkpoint *c, const char *path, int depth, gw_list *list) {
    gw_scope *s = c->scope;
    json_t *out = json_array();
    for (int i = 0; i < gw_list_count(list) && gw_ok(s); i++) {
        const char *element = join(s, path, gw_format(s, "%d", i));
        json_t *inner = flatten(c, element, depth, gw_list_get(s, list, i));
        if (!gw_ok(s)) {
            json_decref(inner);
        } else if (json_array_append_new(out, inner)) {
            scope_fail(s, GW_NO_MEMORY, "no memory for a header");
        }
    }
    return out;
}

static json_t *flatten(checkpoint *c, const char *path, int depth, gw_value v) {
    gw_scope *s = c->scope;
    if (v.kind == GW_RREF && gw_ok(s)) v = gw_to_here_value(s, v.as.rref);
    if (!gw_ok(s)) return NULL;
    if (depth > LIMIT_NESTING) {
        scope_fail(s, GW_LIMIT, "\"%.200s\" is nested in more than %d maps and lists", path,
                   LIMIT_NESTING);
        return NULL;
    }
    switch (v.kind) {
    case GW_NONE: return kind_of(c, GW_NONE);
    case GW_BOOL:
    case GW_INT:
    case GW_FLOAT: return flatten_number(c, path, v);
    case GW_STRING: return flatten_text(c, path, v);
    case GW_BYTES:
        return flatten_tensor(
            c, path, gw_from_with(s, GW_U8, v.as.bytes, GW_SHAPE((int64_t)v.size)), GW_BYTES);
    case GW_TENSOR: return flatten_tensor(c, path, v.as.tensor, GW_TENSOR);
    case GW_LIST: return flatten_list(c, path, depth + 1, v.as.list);
    case GW_MAP: return flatten_map(c, path, depth + 1, v.as.map);
    default:
        scope_fail(s, GW_INVALID, "\"%.200s\" is of kind %s, which a checkpoint cannot have", path,
                   gw_kind_name(v.kind));
        return NULL;
    }
}

static bool is_flat(gw_scope *s, gw_map *values) {
    for (int i = 0; i < gw_map_count(values); i++)
        if (gw_map_find(values, gw_map_key(s, values, i)).kind != GW_TENSOR) return false;
    return true;
}

static int put_text(const char *text, size_t size, void *context) {
    bytes_put(context, text, size);
    return 0;
}

void checkpoint_put_text(checkpoint *c, const char *name, const json_t *tree) {
    bytes text = { 0 };
    json_dump_callback(tree, put_text, &text, JSON_COMPACT);
    if (text.failed ||
        json_object_set_new(c->texts, name, json_stringn((const char *)text.data, text.size)))
        scope_fail(c->scope, GW_NO_MEMORY, "no memory for a header");
    bytes_fini(&text);
}

void checkpoint_flatten(checkpoint *c, gw_map *values) {
    if (!gw_ok(c->scope)) return;
    json_t *tree = flatten_map(c, NULL, 1, values);
    if (gw_ok(c->scope) && (c->has_nesting || !is_flat(c->scope, values)))
        checkpoint_put_text(c, tree_name, tree);
    json_decref(tree);
}

// ---- Nesting ------------------------------------------------------------------------------------
typedef struct nester {
    gw_scope *scope, *out;
    gw_map *flat;  // tensors by name
    json_t *texts;
    json_t *left;  // an object of the names that the tree has not mentioned yet
} nester;

static gw_value nest(nester *n, const char *path, int depth, const json_t *tree);

static gw_value number_of(nester *n, const char *path, gw_kind kind, const gw_tensor *x) {
    gw_dtype dtype = gw_dtype_of(x);
    bool is_scalar = gw_dims(x) == 0;
    if (is_scalar && kind == GW_INT && dtype == GW_I64)
        return gw_value_of_int(*(const int64_t *)gw_data(x));
    if (is_scalar && kind == GW_FLOAT && dtype == GW_F64)
        return gw_value_of_float(*(const double *)gw_data(x));
    if (is_scalar && kind == GW_BOOL && dtype == GW_BOOL8)
        return gw_value_of_bool(*(const uint8_t *)gw_data(x));
    if (gw_dims(x) == 1 && kind == GW_BYTES && dtype == GW_U8)
        return gw_value_of_bytes(gw_data(x), (size_t)gw_numel(x));
    scope_fail(n->scope, GW_INVALID,
               "\"%.200s\" is declared as kind %s, but its tensor has another shape or dtype", path,
               gw_kind_name(kind));
    return gw_none();
}

static gw_value nest_tensor(nester *n, const char *path, gw_kind kind) {
    gw_value v = gw_map_find(n->flat, path);
    if (json_object_del(n->left, path)) {
        scope_fail(n->scope, GW_INVALID, "\"%.200s\" is declared as kind %s, but is missing", path,
                   gw_kind_name(kind));
        return gw_none();
    }
    return kind == GW_TENSOR ? v : number_of(n, path, kind, v.as.tensor);
}

static gw_value nest_text(nester *n, const char *path) {
    const char *text =
        strcmp(path, tree_name) ? json_string_value(json_object_get(n->texts, path)) : NULL;
    if (!text) scope_fail(n->scope, GW_INVALID, "the text \"%.200s\" is missing", path);
    return gw_value_of_string(text);
}

static gw_value nest_leaf(nester *n, const char *path, const char *kind) {
    static const gw_kind kinds[] = { GW_TENSOR, GW_INT, GW_FLOAT, GW_BOOL, GW_BYTES };
    if (!strcmp(kind, gw_kind_name(GW_NONE))) return gw_none();
    if (!strcmp(kind, gw_kind_name(GW_STRING))) return nest_text(n, path);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(kind, gw_kind_name(kinds[i]))) return nest_tensor(n, path, kinds[i]);
    scope_fail(n->scope, GW_INVALID,
               "\"%.200s\" is declared as kind \"%.40s\", which does not exist", path, kind);
    return gw_none();
}

static gw_map *nest_map(nester *n, const char *path, int depth, const json_t *tree) {
    gw_map *out = gw_map_open(path ? n->scope : n->out);
    const char *key;
    json_t *inner;
    json_object_foreach((json_t *)tree, key, inner) {
        gw_value v = nest(n, join(n->scope, path, key), depth, inner);
        if (gw_ok(n->scope)) gw_map_put(n->scope, out, key, v);
        if (!gw_ok(n->scope)) break;
    }
    return out;
}

static gw_list *nest_list(nester *n, const char *path, int depth, const json_t *tree) {
    gw_list *out = gw_list_open(n->scope);
    for (size_t i = 0; i < json_array_size(tree) && gw_ok(n->scope); i++) {
        const char *element = join(n->scope, path, gw_format(n->scope, "%zu", i));
        gw_list_add(n->scope, out, nest(n, element, depth, json_array_get(tree, i)));
    }
    return out;
}

static gw_value nest(nester *n, const char *path, int depth, const json_t *tree) {
    if (!gw_ok(n->scope)) return gw_none();
    if (depth > LIMIT_NESTING) {
        scope_fail(n->scope, GW_INVALID, "\"%.200s\" is nested in more than %d maps and lists",
                   path, LIMIT_NESTING);
        return gw_none();
    }
    if (json_is_object(tree)) return gw_value_of_map(nest_map(n, path, depth + 1, tree));
    if (json_is_array(tree)) return gw_value_of_list(nest_list(n, path, depth + 1, tree));
    if (json_is_string(tree)) return nest_leaf(n, path, json_string_value(tree));
    scope_fail(n->scope, GW_INVALID, "\"%.200s\" is declared without a kind", path);
    return gw_none();
}

static gw_map *flat_map(checkpoint *c, gw_scope *out, json_t *left) {
    gw_map *flat = gw_map_open(out);
    for (int i = 0; i < c->count && gw_ok(c->scope); i++) {
        gw_map_put(c->scope, flat, c->items[i].name, c->items[i].x);
        if (left && json_object_set_new(left, c->items[i].name, json_true()))
            scope_fail(c->scope, GW_NO_MEMORY, "no memory for a header");
    }
    return flat;
}

static gw_map *nest_all(checkpoint *c, gw_scope *out, const json_t *tree) {
    nester n = { .scope = c->scope, .out = out, .texts = c->texts, .left = json_object() };
    n.flat = flat_map(c, c->scope, n.left);
    gw_map *values = gw_ok(c->scope) ? nest_map(&n, NULL, 1, tree) : NULL;
    if (gw_ok(c->scope) && json_object_size(n.left))
        scope_fail(c->scope, GW_INVALID, "\"%.200s\" is missing in the description of the nesting",
                   json_object_iter_key(json_object_iter(n.left)));
    json_decref(n.left);
    return values;
}

gw_map *checkpoint_nest(checkpoint *c, gw_scope *out) {
    const char *text = json_string_value(json_object_get(c->texts, tree_name));
    if (!text) return flat_map(c, out, NULL);
    json_error_t error;
    json_t *tree = checkpoint_parse(text, strlen(text), &error);
    gw_map *values = NULL;
    if (!json_is_object(tree)) {
        scope_fail(c->scope, GW_INVALID, "the description of its nesting is not a JSON object: %s",
                   tree ? "it is another JSON value" : error.text);
    } else {
        values = nest_all(c, out, tree);
    }
    json_decref(tree);
    return values;
}
