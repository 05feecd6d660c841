#include "base/value.h"

#include "base/mem.h"
#include "base/nearest.h"
#include "base/scope.h"

#include <gradwire/binding.h>
#include <stddef.h>
#include <string.h>

static const char *const kind_names[GW_KIND_COUNT] = {
    [GW_NONE] = "none",     [GW_BOOL] = "bool",      [GW_INT] = "int",       [GW_FLOAT] = "float",
    [GW_STRING] = "string", [GW_BYTES] = "bytes",    [GW_TENSOR] = "tensor", [GW_LIST] = "list",
    [GW_MAP] = "map",       [GW_RREF] = "reference", [GW_FUTURE] = "future", [GW_WORKER] = "worker",
    [GW_ERROR] = "error",
};

const char *gw_kind_name(gw_kind kind) {
    return (unsigned)kind < GW_KIND_COUNT ? kind_names[kind] : "unknown kind";
}

// ---- From C -------------------------------------------------------------------------------------
gw_value gw_none(void) {
    return (gw_value){ .kind = GW_NONE };
}
gw_value gw_value_of_bool(bool x) {
    return (gw_value){ .kind = GW_BOOL, .as.boolean = x };
}
gw_value gw_value_of_int(int64_t x) {
    return (gw_value){ .kind = GW_INT, .as.integer = x };
}
gw_value gw_value_of_float(double x) {
    return (gw_value){ .kind = GW_FLOAT, .as.real = x };
}

gw_value gw_value_of_string(const char *x) {
    if (!x) return gw_none();
    return (gw_value){ .kind = GW_STRING, .as.string = x, .size = strlen(x) };
}

gw_value gw_value_of_bytes(const void *bytes, size_t size) {
    if (!bytes && size) return gw_none();
    return (gw_value){ .kind = GW_BYTES, .as.bytes = bytes, .size = size };
}

// A NULL pointer is none.
static gw_value of_pointer(gw_kind kind, const void *x) {
    return x ? (gw_value){ .kind = kind, .as.bytes = x } : gw_none();
}

gw_value gw_value_of_tensor(const gw_tensor *x) {
    return of_pointer(GW_TENSOR, x);
}
gw_value gw_value_of_list(const gw_list *x) {
    return of_pointer(GW_LIST, x);
}
gw_value gw_value_of_map(const gw_map *x) {
    return of_pointer(GW_MAP, x);
}
gw_value gw_value_of_rref(const gw_rref *x) {
    return of_pointer(GW_RREF, x);
}
gw_value gw_value_of_future(const gw_future *x) {
    return of_pointer(GW_FUTURE, x);
}
gw_value gw_value_of_worker(gw_worker x) {
    return (gw_value){ .kind = GW_WORKER,
                       .rank = x.rank,
                       .as.worker = x.name ? x.name : "",
                       .incarnation = x.incarnation };
}
gw_value gw_value_of_error(const gw_error *x) {
    return of_pointer(GW_ERROR, x);
}

// ---- Back to C ----------------------------------------------------------------------------------
// |function| is the public name, for the error.
static bool is(gw_scope *s, const char *function, gw_value v, gw_kind kind) {
    if (s->error) return false;
    if (v.kind == kind) return true;
    return scope_fail(s, GW_INVALID, "%s: expected %s, got %s", function, gw_kind_name(kind),
                      gw_kind_name(v.kind));
}

bool gw_bool_of(gw_scope *s, gw_value v) {
    if (v.kind == GW_INT && (v.as.integer | 1) == 1 && !s->error) return v.as.integer;
    return is(s, __func__, v, GW_BOOL) && v.as.boolean;
}

int64_t gw_int_of(gw_scope *s, gw_value v) {
    return is(s, __func__, v, GW_INT) ? v.as.integer : 0;
}

double gw_float_of(gw_scope *s, gw_value v) {
    if (v.kind == GW_INT && !s->error) return (double)v.as.integer;
    return is(s, __func__, v, GW_FLOAT) ? v.as.real : 0;
}

const char *gw_string_of(gw_scope *s, gw_value v) {
    return is(s, __func__, v, GW_STRING) ? v.as.string : "";
}

// Returned in place of a list or map that does not exist: empty, and never written to.
gw_list list_poison = { .handle = { &list_class, HANDLE_IMMORTAL }, .inside = true };
gw_map map_poison = {
    .handle = { &map_class, HANDLE_IMMORTAL },
    .values = { .inside = true },
};

gw_list *gw_list_of(gw_scope *s, gw_value v) {
    return is(s, __func__, v, GW_LIST) ? v.as.list : &list_poison;
}

gw_map *gw_map_of(gw_scope *s, gw_value v) {
    return is(s, __func__, v, GW_MAP) ? v.as.map : &map_poison;
}

gw_worker gw_worker_of(gw_scope *s, gw_value v) {
    if (!is(s, __func__, v, GW_WORKER)) return (gw_worker){ .name = "", .rank = -1 };
    return (gw_worker){ .name = v.as.worker, .rank = v.rank, .incarnation = v.incarnation };
}

// ---- Owning the contents of a value -------------------------------------------------------------
gw_handle *value_handle(gw_value v) {
    switch (v.kind) {
    case GW_TENSOR:
    case GW_LIST:
    case GW_MAP:
    case GW_RREF:
    case GW_FUTURE: return (gw_handle *)v.as.bytes;
    default: return NULL;
    }
}

// A NUL after the copy, which strings need.
static void *copy_bytes(const void *bytes, size_t size) {
    char *copy = size < SIZE_MAX ? mem_alloc(size + 1) : NULL;
    if (!copy) return NULL;
    if (size) memcpy(copy, bytes, size);
    copy[size] = '\0';
    return copy;
}

static gw_list *items_of(gw_value v) {
    return v.kind == GW_LIST ? v.as.list : v.kind == GW_MAP ? &v.as.map->values : NULL;
}

bool value_copy(gw_value *out, gw_value v) {
    switch (v.kind) {
    case GW_STRING:
    case GW_BYTES: v.as.bytes = copy_bytes(v.as.bytes, v.size); break;
    case GW_WORKER: v.as.worker = copy_bytes(v.as.worker, strlen(v.as.worker)); break;
    case GW_ERROR: v.as.bytes = copy_bytes(v.as.error, sizeof *v.as.error); break;
    default:
        if (items_of(v) && !items_of(v)->inside) items_of(v)->inside = true;
        handle_retain(value_handle(v));
        *out = v;
        return true;
    }
    if (!v.as.bytes) return false;
    *out = v;
    return true;
}

void value_free(gw_value v) {
    switch (v.kind) {
    case GW_STRING:
    case GW_BYTES:
    case GW_WORKER:
    case GW_ERROR: mem_free((void *)v.as.bytes); return;
    default: handle_release(value_handle(v));
    }
}

// ---- Lists --------------------------------------------------------------------------------------
static void free_map(gw_map *m);

// Destroyed containers are queued in |dead|: containers in containers are destroyed one after
// the other, at any depth.
static void free_item(gw_value v, gw_list **dead) {
    gw_list *items = items_of(v);
    if (!items) {
        value_free(v);
    } else if (handle_uncount(value_handle(v))) {
        items->after = *dead;
        *dead = items;
    }
}

static void destroy_items(gw_list *dead) {
    while (dead) {
        gw_list *list = dead;
        dead = list->after;
        for (int i = list->count; i-- > 0;) free_item(list->items[i], &dead);
        mem_free(list->items);
        if (list->handle.class) {
            mem_give(list, sizeof *list);
        } else {
            free_map((gw_map *)((char *)list - offsetof(gw_map, values)));
        }
    }
}

static void destroy_list(gw_handle *h) {
    gw_list *list = (gw_list *)h;
    list->after = NULL;
    destroy_items(list);
}

const handle_class list_class = { .name = "list", .destroy = destroy_list };

gw_list *list_open(void) {
    gw_list *list = mem_take_zeros(sizeof *list);
    if (!list) return NULL;
    handle_init(&list->handle, &list_class);
    return list;
}

bool list_add(gw_list *list, gw_value v) {
    if (!mem_grow(&list->items, &list->capacity, (uint32_t)list->count + 1, sizeof v)) return false;
    if (!value_copy(&list->items[list->count], v)) return false;
    list->count++;
    return true;
}

gw_list *gw_list_open(gw_scope *s) {
    if (s->error) return &list_poison;
    gw_list *list = list_open();
    if (!list) scope_fail(s, GW_NO_MEMORY, "no memory for a list");
    return scope_own_or(s, list, &list_poison);
}

// A walk over containers in containers, each once, at any depth.
typedef struct walk {
    map seen;
    const gw_list **todo;
    uint32_t count, capacity;
    bool has_failed;  // without memory
} walk;

static void walk_to(walk *w, gw_value v) {
    const gw_list *list = items_of(v);
    if (!list || w->has_failed || map_find(&w->seen, (uintptr_t)list)) return;
    w->has_failed = !map_put(&w->seen, (uintptr_t)list, (void *)list) ||
                    !mem_grow(&w->todo, &w->capacity, w->count + 1, sizeof *w->todo);
    if (!w->has_failed) w->todo[w->count++] = list;
}

// Whether |v| is |container|, or contains it: then it could never be released. True without memory.
static bool contains(gw_value v, gw_value container, bool *out_failed) {
    walk w = { .count = 0 };
    walk_to(&w, v);
    bool found = false;
    while (w.count && !found) {
        const gw_list *list = w.todo[--w.count];
        found = list == items_of(container);
        for (int i = 0; i < list->count; i++) walk_to(&w, list->items[i]);
    }
    map_fini(&w.seen);
    mem_free(w.todo);
    *out_failed = w.has_failed && !found;
    return found || w.has_failed;
}

static bool may_hold(gw_scope *s, gw_value container, gw_value v) {
    if (s->error) return false;
    gw_list *items = items_of(v);
    // Only a container that is inside another can be inside |v|: no walk is needed where values are
    // built from the inside.
    bool walk = items && (v.as.bytes == container.as.bytes || items_of(container)->inside);
    bool has_failed;
    if (!walk || !contains(v, container, &has_failed)) return true;
    if (has_failed)
        scope_fail(s, GW_NO_MEMORY, "no memory to search a %s", gw_kind_name(v.kind));
    else
        scope_fail(s, GW_INVALID, "a %s cannot be put into itself", gw_kind_name(v.kind));
    return false;
}

// Whether |s| has not failed, and neither has the scope that made the container.
static bool check_container(gw_scope *s, const char *kind, const void *container,
                            const void *poison) {
    if (s->error) return false;
    if (!container)
        scope_fail(s, GW_INVALID, "the %s is NULL", kind);
    else if (container == poison)
        scope_fail(s, GW_INVALID, "the %s was made in a scope that has failed", kind);
    return !s->error;
}

static bool check_list(gw_scope *s, const gw_list *list) {
    return check_container(s, "list", list, &list_poison);
}

static bool check_key(gw_scope *s, const char *key) {
    if (!s->error && !key) scope_fail(s, GW_INVALID, "the key is NULL");
    return !s->error;
}

static bool check_map(gw_scope *s, const gw_map *map) {
    return check_container(s, "map", map, &map_poison);
}

void gw_list_add_with(gw_scope *s, gw_list *list, gw_value v) {
    if (!check_list(s, list) || !may_hold(s, gw_value_of_list(list), v)) return;
    if (!list_add(list, v)) scope_fail(s, GW_NO_MEMORY, "no memory for an item of a list");
}

int gw_list_count(const gw_list *list) {
    return list ? list->count : 0;
}

gw_values gw_list_items(const gw_list *list) {
    return list ? (gw_values){ list->count, list->items } : (gw_values){ 0 };
}

gw_value gw_list_get(gw_scope *s, const gw_list *list, int index) {
    if (!check_list(s, list)) return gw_none();
    if (index >= 0 && index < list->count) return list->items[index];
    scope_fail(s, GW_INVALID, "item %d is out of range for a list of %d items", index, list->count);
    return gw_none();
}

// ---- Maps ---------------------------------------------------------------------------------------
static void free_map(gw_map *m) {
    for (int i = 0; i < m->values.count; i++) mem_free(m->keys[i]);
    mem_free(m->keys);
    map_fini(&m->index);
    mem_give(m, sizeof *m);
}

static void destroy_map(gw_handle *h) {
    gw_map *m = (gw_map *)h;
    m->values.after = NULL;
    destroy_items(&m->values);
}

const handle_class map_class = { .name = "map", .destroy = destroy_map };

static gw_map *open_map(void) {
    gw_map *m = mem_take_zeros(sizeof *m);
    if (!m) return NULL;
    handle_init(&m->handle, &map_class);
    return m;
}

static int place_of(const gw_map *m, const char *key) {
    return (int)(intptr_t)map_find_name(&m->index, key) - 1;
}

static bool replace(gw_map *m, int place, gw_value v) {
    gw_value copy;
    if (!value_copy(&copy, v)) return false;
    value_free(m->values.items[place]);
    m->values.items[place] = copy;
    return true;
}

bool map_set(gw_map *m, const char *key, size_t key_size, gw_value v) {
    char *name = copy_bytes(key, key_size);
    if (!name) return false;
    int place = place_of(m, name);
    if (place >= 0) {
        mem_free(name);
        return replace(m, place, v);
    }
    if (!mem_grow(&m->keys, &m->key_capacity, (uint32_t)m->values.count + 1, sizeof *m->keys))
        goto free_name;
    if (!map_put_name(&m->index, name, (void *)(intptr_t)(m->values.count + 1))) goto free_name;
    if (!list_add(&m->values, v)) goto take_name;
    m->keys[m->values.count - 1] = name;
    return true;

take_name:
    map_take_name(&m->index, name);
free_name:
    mem_free(name);
    return false;
}

gw_map *gw_map_open(gw_scope *s) {
    if (s->error) return &map_poison;
    gw_map *m = open_map();
    if (!m) scope_fail(s, GW_NO_MEMORY, "no memory for a map");
    return scope_own_or(s, m, &map_poison);
}

void gw_map_put_with(gw_scope *s, gw_map *map, const char *key, gw_value v) {
    if (!check_map(s, map) || !check_key(s, key) || !may_hold(s, gw_value_of_map(map), v)) return;
    if (!map_set(map, key, strlen(key), v))
        scope_fail(s, GW_NO_MEMORY, "no memory for \"%s\" in a map", key);
}

int gw_map_count(const gw_map *map) {
    return map ? map->values.count : 0;
}

const char *gw_map_key(gw_scope *s, const gw_map *map, int index) {
    if (!check_map(s, map)) return "";
    if (index >= 0 && index < map->values.count) return map->keys[index];
    scope_fail(s, GW_INVALID, "key %d is out of range for a map of %d keys", index,
               map->values.count);
    return "";
}

gw_value gw_map_find(const gw_map *map, const char *key) {
    int place = map && key ? place_of(map, key) : -1;
    return place < 0 ? gw_none() : map->values.items[place];
}

gw_value gw_map_get(gw_scope *s, const gw_map *map, const char *key) {
    if (!check_map(s, map) || !check_key(s, key)) return gw_none();
    int place = place_of(map, key);
    if (place >= 0) return map->values.items[place];
    nearest n = nearest_to(key);
    for (int i = 0; i < map->values.count; i++) nearest_offer(&n, map->keys[i]);
    scope_fail(s, GW_NOT_FOUND, "gw_map_get: no \"%s\" in the map%s", key, nearest_words(&n));
    return gw_none();
}
