// The values of a module by name: state_dict, and loading one.
#include "nn/module.h"

#include "base/mem.h"
#include "tensor/ops/op.h"
#include "tensor/pack.h"
#include <gradwire/autograd.h>

#include <stdio.h>
#include <string.h>

// ---- Shapes ------------------------------------------------------------------------------
static const char *shape_of(gw_scope *s, const gw_tensor *x) {
    return gw_format(s, "%s %s%s", gw_dtype_name(gw_dtype_of(x)), shape_text(x).text,
                     tensor_is_rows(x) ? " sparse by rows" : "");
}

static void add_slot(state_slots *all, state_slot slot) {
    if (mem_grow(&all->items, &all->capacity, (uint32_t)all->count + 1, sizeof slot))
        all->items[all->count++] = slot;
    else
        scope_fail(all->scope, GW_NO_MEMORY, "no memory for the names of a state");
}

static void add_here(state_slots *all, const module_path *where, const module_parts *parts) {
    for (int i = 0; i < parts->count; i++) {
        module_path at = { where, parts->items[i].name };
        gw_tensor *x = parts->items[i].is.parameter;
        add_slot(all, (state_slot){ .name = module_path_text(all->scope, &at),
                                    .shape = shape_of(all->scope, x),
                                    .here = x });
    }
}

static void add_remote(state_slots *all, const module_path *where, gw_module *m) {
    gw_scope *s = all->scope;
    gw_map *shapes = m->remote->shapes(s, m);
    for (int i = 0; gw_ok(s) && i < gw_map_count(shapes); i++) {
        module_path at = { where, gw_map_key(s, shapes, i) };
        add_slot(all, (state_slot){ .name = module_path_text(s, &at),
                                    .shape = gw_string_of(s, gw_map_find(shapes, at.name)),
                                    .remote = m,
                                    .inner = at.name });
    }
}

static bool collect(void *context, const module_path *where, gw_module *m) {
    state_slots *all = context;
    add_here(all, where, &m->parameters);
    add_here(all, where, &m->buffers);
    if (m->remote) add_remote(all, where, m);
    return gw_ok(all->scope);
}

bool state_slots_collect(state_slots *all, gw_scope *s, gw_module *m) {
    *all = (state_slots){ .scope = s };
    return gw_ok(s) && module_each(m, NULL, collect, all);
}

void state_slots_fini(state_slots *all) {
    mem_free(all->items);
}

// ---- state_dict ---------------------------------------------------------------------------------
typedef struct reader_of_state {
    gw_scope *scope;
    gw_map *out;
} reader_of_state;

static void put(reader_of_state *r, const module_path *at, gw_tensor *x) {
    gw_map_put(r->scope, r->out, module_path_text(r->scope, at), gw_detach(r->scope, x));
}

static void put_parts(reader_of_state *r, const module_path *where, const module_parts *parts) {
    for (int i = 0; i < parts->count; i++) {
        module_path at = { where, parts->items[i].name };
        put(r, &at, parts->items[i].is.parameter);
    }
}

static bool put_module(void *context, const module_path *where, gw_module *m) {
    reader_of_state *r = context;
    put_parts(r, where, &m->parameters);
    put_parts(r, where, &m->buffers);
    gw_map *remote = m->remote ? m->remote->state(r->scope, m) : NULL;
    for (int i = 0; remote && gw_ok(r->scope) && i < gw_map_count(remote); i++) {
        module_path at = { where, gw_map_key(r->scope, remote, i) };
        put(r, &at, gw_tensor_of(r->scope, gw_map_find(remote, at.name)));
    }
    return gw_ok(r->scope);
}

gw_map *gw_module_state_dict(gw_scope *s, gw_module *m) {
    gw_map *out = gw_map_open(s);
    gw_scope *t = gw_scope_open(s);  // the map holds its values, so |s| need not
    reader_of_state r = { t, out };
    if (module_is_usable(t, "gw_module_state_dict", m)) module_each(m, NULL, put_module, &r);
    gw_scope_close_up(t);
    return out;
}

// ---- Checking -----------------------------------------------------------------------------------
enum { NAMED_MAX = 3 };  // of each kind, in one error text

// One kind of mistake in a state: "lacks "a", "b" and 7 more".
typedef struct complaint {
    char text[240];
    int count;
} complaint;

static void complain(complaint *c, const char *start, const char *what) {
    size_t used = strlen(c->text), left = sizeof c->text - used;
    if (c->count < NAMED_MAX)
        snprintf(c->text + used, left, "%s%.100s", c->count ? ", " : start, what);
    c->count++;
}

static const char *text_of(gw_scope *s, const complaint *c) {
    if (c->count <= NAMED_MAX) return c->text;
    return gw_format(s, "%s and %d more", c->text, c->count - NAMED_MAX);
}

static bool fits(gw_scope *s, const state_slot *slot, const gw_tensor *x) {
    if (!slot->here) return strcmp(slot->shape, shape_of(s, x)) == 0;
    return !tensor_is_rows(x) && tensor_is_like(slot->here, x);
}

static void check_slot(gw_scope *s, const state_slot *slot, gw_value v, complaint *missing,
                       complaint *different) {
    if (v.kind == GW_NONE) {
        complain(missing, "lacks ", gw_format(s, "\"%s\"", slot->name));
    } else if (v.kind != GW_TENSOR) {
        complain(
            different, "",
            gw_format(s, "\"%s\" is of kind %s, not a tensor", slot->name, gw_kind_name(v.kind)));
    } else if (tensor_check(s, slot->name, v.as.tensor) && !fits(s, slot, v.as.tensor)) {
        complain(different, "",
                 gw_format(s, "\"%s\" is %s, not %s", slot->name, shape_of(s, v.as.tensor),
                           slot->shape));
    }
}

// Names that no slot has.
static void check_others(gw_scope *s, const state_slots *all, const gw_map *state, complaint *out) {
    gw_map *own_names = gw_map_open(s);
    for (int i = 0; i < all->count && gw_ok(s); i++)
        gw_map_put(s, own_names, all->items[i].name, true);
    for (int i = 0; i < gw_map_count(state) && gw_ok(s); i++) {
        const char *name = gw_map_key(s, state, i);
        if (gw_map_find(own_names, name).kind == GW_NONE)
            complain(out, "has ", gw_format(s, "\"%s\"", name));
    }
}

static void check(gw_scope *s, const gw_module *m, const state_slots *all, const gw_map *state,
                  gw_module_load_state_dict_options options) {
    complaint missing = { .count = 0 }, unexpected = { .count = 0 }, different = { .count = 0 };
    for (int i = 0; i < all->count && gw_ok(s); i++)
        check_slot(s, &all->items[i], gw_map_find(state, all->items[i].name), &missing, &different);
    if (!options.strict)
        missing.count = 0;
    else
        check_others(s, all, state, &unexpected);
    const char *text = "";
    if (missing.count) text = text_of(s, &missing);
    if (unexpected.count)
        text = gw_format(s, "%s%s%s, which the module does not have", text, *text ? "; it " : "",
                         text_of(s, &unexpected));
    if (different.count)
        text =
            gw_format(s, "%s%s%s", text, *text ? "; " : "does not fit: ", text_of(s, &different));
    if (gw_ok(s) && *text)
        scope_fail(s, GW_INVALID, "%s: the state %s; nothing has changed", m->name, text);
}

// ---- Loading ------------------------------------------------------------------------------------
static void note_storages(gw_scope *s, const state_slots *all, map *out) {
    for (int i = 0; i < all->count && gw_ok(s); i++) {
        gw_tensor *x = all->items[i].here;
        if (x && !map_put(out, (uintptr_t)x->storage, x->storage))
            scope_fail(s, GW_NO_MEMORY, "no memory to load \"%s\"; nothing has changed",
                       all->items[i].name);
    }
}

// Finds the new value of each slot of this worker, in memory that no commit writes to, and makes
// the slots writable: after this, committing needs no memory.
static void prepare(gw_scope *s, const state_slots *all, const gw_map *state, gw_tensor **sources) {
    map written = { 0 };
    note_storages(s, all, &written);
    for (int i = 0; i < all->count && gw_ok(s); i++) {
        const state_slot *slot = &all->items[i];
        gw_value v = slot->here ? gw_map_find(state, slot->name) : gw_none();
        if (v.kind != GW_TENSOR) continue;
        bool is_written = map_find(&written, (uintptr_t)v.as.tensor->storage);
        sources[i] = is_written ? gw_clone(s, v.as.tensor) : v.as.tensor;
        if (!storage_make_writable(slot->here->storage))
            scope_fail(s, GW_NO_MEMORY, "no memory to load \"%s\"; nothing has changed",
                       slot->name);
    }
    map_fini(&written);
}

static void commit(const state_slots *all, gw_tensor *const *sources) {
    for (int i = 0; i < all->count; i++) {
        gw_tensor *x = all->items[i].here;
        if (!sources[i]) continue;
        storage_make_writable(x->storage);
        tensor_assign(x, sources[i]);
    }
}

// Loads the slots of one remote module, which stand together. Returns the index behind them.
static int load_remote(gw_scope *s, const state_slots *all, int first, const gw_map *state) {
    gw_module *m = all->items[first].remote;
    gw_map *part = gw_map_open(s);
    int i = first;
    for (; i < all->count && all->items[i].remote == m && gw_ok(s); i++) {
        gw_value v = gw_map_find(state, all->items[i].name);
        if (v.kind == GW_TENSOR) gw_map_put(s, part, all->items[i].inner, v);
    }
    if (gw_ok(s)) m->remote->load(s, m, part);
    return i;
}

// Loads remote modules first: after prepare, the slots of this worker cannot fail.
static void load(gw_scope *s, const state_slots *all, const gw_map *state) {
    gw_tensor **sources = gw_alloc(s, (size_t)(all->count + 1) * sizeof(gw_tensor *));
    if (!sources) return;
    prepare(s, all, state, sources);
    const gw_module *before = NULL;
    for (int i = 0; i < all->count && gw_ok(s);) {
        if (!all->items[i].remote) {
            i++;
            continue;
        }
        if (before) gw_scope_label(s, "after the part %s had been loaded", before->name);
        before = all->items[i].remote;
        i = load_remote(s, all, i, state);
    }
    if (gw_ok(s)) commit(all, sources);
}

void gw_module_load_state_dict_with(gw_scope *s, gw_module *m, gw_map *state,
                                    gw_module_load_state_dict_options options) {
    if (!module_is_usable(s, "gw_module_load_state_dict", m)) return;
    if (!state) {
        scope_fail(s, GW_INVALID, "gw_module_load_state_dict: the map is NULL");
        return;
    }
    gw_scope *t = scope_open_unrecorded(s);
    state_slots all;
    if (state_slots_collect(&all, t, m)) check(t, m, &all, state, options);
    if (gw_ok(t)) load(t, &all, state);
    state_slots_fini(&all);
    gw_scope_close_up(t);
}
