// gw_checkpoint_begin: the snapshot, and the agreement of the members. CKPT-1 and CKPT-2 of
// docs/protocol/checkpoint.md.
#include "checkpoint/writing.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/mutation.h"
#include "collective/opening/opening.h"
#include "tensor/tensor.h"
#include <gradwire/ops.h>
#include "trace/record.h"

#include <inttypes.h>
#include <string.h>

static const char function[] = "gw_checkpoint_begin";

// ---- The snapshot -------------------------------------------------------------------------------
// See docs/decisions/0052-snapshots.md.

// Whether the program can write to the memory of |x| without the library.
static bool is_lent_by_program(const gw_tensor *x) {
    const block *b = x->storage->block;
    return b->external && !b->is_mapped;
}

static void keep_entry(gw_scope *s, gw_scope *texts, checkpoint_entry *e) {
    const gw_tensor *x = e->x;
    int64_t *sizes = gw_alloc(texts, ((size_t)x->dims + 1) * sizeof *sizes);
    gw_tensor *kept = NULL;
    if (is_lent_by_program(x))
        kept = gw_clone(s, e->x);
    else if (has_mutation(MUTATION_SNAPSHOT_NOT_PINNED))
        kept = scope_own(s, handle_retain(e->x));
    else
        kept = scope_own(s, tensor_saved(s, x));
    e->name = gw_format(texts, "%s", e->name);  // it may be a key of the caller's map
    if (!sizes || !gw_ok(s)) return;
    for (int d = 0; d < x->dims; d++) sizes[d] = x->sizes[d];
    e->dtype = (gw_dtype)x->dtype;
    e->shape = (gw_shape){ x->dims, sizes };
    e->x = kept;
}

// Texts of |c| are of w->scope, tensors of w->snapshot.
static void take_snapshot(writing *w, checkpoint *c, gw_map *values) {
    c->has_nesting = true;
    checkpoint_flatten(c, values);
    for (int i = 0; i < c->count && gw_ok(w->scope) && gw_ok(w->snapshot); i++)
        keep_entry(w->snapshot, w->scope, &c->items[i]);
    if (!gw_ok(w->scope) || !gw_ok(w->snapshot)) return;
    scope_release_from(w->scope, 0);
    checkpoint_lay_out(c);
}

static writing *make(gw_scope *s, const char *home, gw_group *group, gw_map *values,
                     const gw_checkpoint_options *o) {
    agent *a = s->agent;
    writing *w = mem_calloc(sizeof *w);
    gw_future *f = w ? future_open(a, "") : NULL;
    if (!f) {
        mem_free(w);
        scope_fail(s, GW_NO_MEMORY, "%s: no memory", function);
        return NULL;
    }
    w->agent = agent_retain(a);
    w->future = f;
    w->draft.lock_fd = -1;
    w->scope = agent_scope_open(a, 0, 0, context_deadline_ns(s));
    w->scope->grad_enabled = false;
    w->snapshot = gw_scope_open(w->scope);
    w->home = gw_format(w->scope, "%s", home);
    w->step = o->step;
    w->keep = o->keep;
    w->bytes_per_second = o->bytes_per_second;
    w->has_own = o->own != NULL;
    w->rank = group ? gw_group_rank(group) : 0;
    w->members = group ? gw_group_size(group) : 1;
    checkpoint_init(&w->values, w->scope);
    checkpoint_init(&w->own, w->scope);
    take_snapshot(w, &w->values, values);
    if (o->own && gw_ok(w->scope)) take_snapshot(w, &w->own, o->own);
    w->own.scope = w->snapshot;
    return w;
}

// ---- Agreeing -----------------------------------------------------------------------------------

// Of names, dtypes and shapes, and of the nesting.
static uint64_t hash_of(const checkpoint *c) {
    const char *key;
    json_t *text;
    uint64_t hash = 0;
    for (int i = 0; i < c->count; i++) {
        const checkpoint_entry *e = &c->items[i];
        hash = hash_u64(hash ^ hash_bytes(e->name, strlen(e->name))) + (uint64_t)e->dtype;
        for (int d = 0; d < e->shape.count; d++)
            hash = hash_u64(hash ^ (uint64_t)e->shape.sizes[d]);
    }
    json_object_foreach(c->texts, key, text) hash = hash_u64(hash ^ hash_bytes(key, strlen(key)));
    const char *nesting = json_string_value(json_object_get(c->texts, "gradwire"));
    return nesting ? hash_u64(hash ^ hash_bytes(nesting, strlen(nesting))) : hash;
}

static gw_list *describe(gw_scope *s, const writing *w) {
    uint64_t size = 0;
    for (int i = 0; i < w->values.count; i++)
        size += w->values.items[i].end - w->values.items[i].begin;
    gw_list *out = gw_list_open(s);
    gw_list_add(s, out, gw_format(s, "folder %s", w->home));
    gw_list_add(s, out, gw_format(s, ".step %" PRId64, w->step));
    gw_list_add(s, out, gw_format(s, ".keep %d", w->keep));
    gw_list_add(s, out, w->has_own ? "with .own" : "without .own");
    gw_list_add(s, out,
                gw_format(s, "%d tensors of %" PRIu64 " bytes (names and shapes %08x)",
                          w->values.count, size, (unsigned)hash_of(&w->values)));
    return out;
}

// The group of the checkpoint, which all members open.
static bool agree(gw_scope *s, writing *w, gw_group *group) {
    if (!group) return gw_ok(s);
    gw_scope *t = gw_scope_open(s);
    opening o = { .function = function, .options = describe(t, w), .own = gw_none() };
    w->group = group_open_own(t, w->scope, group, &o);
    gw_scope_close_up(t);
    return gw_ok(s);
}

// ---- The function -------------------------------------------------------------------------------

static bool check(gw_scope *s, const char *home, const gw_map *values,
                  const gw_checkpoint_options *o) {
    if (!home || !*home) return scope_fail(s, GW_INVALID, "%s: no folder", function);
    if (strlen(home) >= HOME_PATH_BYTES / 2)
        return scope_fail(s, GW_INVALID, "%s: the path of the folder has %zu bytes, more than %d",
                          function, strlen(home), HOME_PATH_BYTES / 2 - 1);
    if (!values) return scope_fail(s, GW_INVALID, "%s: no map", function);
    if (o->step < -1)
        return scope_fail(s, GW_INVALID, "%s: .step is %" PRId64 ", but must be at least -1",
                          function, o->step);
    if (o->keep < 0)
        return scope_fail(s, GW_INVALID, "%s: .keep is %d, but must be at least 0", function,
                          o->keep);
    if (o->bytes_per_second < 0)
        return scope_fail(s, GW_INVALID,
                          "%s: .bytes_per_second is %" PRId64 ", but must be at least 0", function,
                          o->bytes_per_second);
    return true;
}

static writing *prepare(gw_scope *s, const char *home, gw_group *group, gw_map *values,
                        const gw_checkpoint_options *o) {
    if (!gw_ok(s) || !agent_of(s) || !check(s, home, values, o)) return NULL;
    writing *w = make(s, home, group, values, o);
    if (!w) return NULL;
    const gw_error *e = gw_ok(w->snapshot) ? scope_error(w->scope) : scope_error(w->snapshot);
    if (!e->status) return w;
    gw_error error = *e;
    error_prefix(&error, function);
    scope_fail_with(s, &error);
    writing_free(w);
    return NULL;
}

gw_future *gw_checkpoint_begin_with(gw_scope *s, const char *folder, gw_group *group,
                                    gw_map *values, gw_checkpoint_options options) {
    writing *w = prepare(s, folder, group, values, &options);
    if (!w) {
        if (group) group_open_own_failed(s, group);
        return &future_poison;
    }
    if (!agree(s, w, group)) {
        writing_free(w);
        return &future_poison;
    }
    gw_future *f = scope_own_or(s, handle_retain(w->future), &future_poison);
    trace_record_text(TRACE_CHECKPOINT_BEGUN, w->agent->observer.row, (uint64_t)w->draft.name.step,
                      0, folder);
    writing_start(w);
    return f;
}
