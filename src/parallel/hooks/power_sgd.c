// The state of PowerSGD between passes.
#include "parallel/hooks/power_sgd.h"

#include "base/mem.h"
#include "base/random.h"
#include "base/scope.h"
#include "base/status.h"
#include "tensor/tensor.h"
#include <gradwire/ops.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- Life ---------------------------------------------------------------------------------------

static void forget(power_sgd_memory *m) {
    handle_release(m->error);
    handle_release(m->q);
    m->error = m->q = NULL;
}

static void destroy(gw_handle *h) {
    gw_power_sgd *p = (gw_power_sgd *)h;
    for (int i = 0; i < p->memory_count; i++) forget(&p->memories[i]);
    mem_free(p->memories);
    mem_give(p, sizeof *p);
}

static const handle_class power_sgd_class = { .name = "power_sgd", .destroy = destroy };
static gw_power_sgd power_sgd_poison = { .handle = { &power_sgd_class, HANDLE_IMMORTAL } };

// The same on all members, without a word between them.
static gw_tensor *draw(gw_scope *s, const gw_power_sgd *p, int64_t pass, int bucket, gw_dtype dtype,
                       int64_t count) {
    uint32_t key[4];
    philox(p->options.seed, ((uint64_t)pass << 20) + (uint64_t)bucket, key);
    gw_scope *t = gw_scope_open(s);
    gw_seed(t, (uint64_t)key[0] << 32 | key[1]);
    gw_tensor *q = gw_keep(s, gw_randn_with(t, dtype, (gw_shape){ 1, &count }));
    gw_scope_close_up(t);
    return q;
}

static bool check_options(gw_scope *s, const gw_power_sgd_options *o) {
    if (o->rank < 1)
        scope_fail(s, GW_INVALID, "gw_power_sgd_open: .rank is %d, but must be 1 or more", o->rank);
    else if (o->start < 2)
        scope_fail(s, GW_INVALID,
                   "gw_power_sgd_open: start is %lld, but must be at least 2, since buckets change "
                   "after the first pass",
                   (long long)o->start);
    else if (!(o->min_rate > 0))
        scope_fail(s, GW_INVALID, "gw_power_sgd_open: .min_rate is %g, but must be above 0",
                   o->min_rate);
    else if (!(o->epsilon >= 0 && isfinite(o->epsilon)))
        scope_fail(s, GW_INVALID,
                   "gw_power_sgd_open: .epsilon is %g, but must be finite and 0 or more",
                   o->epsilon);
    return gw_ok(s);
}

gw_power_sgd *gw_power_sgd_open_with(gw_scope *s, gw_power_sgd_options options) {
    if (!gw_ok(s) || !check_options(s, &options)) return &power_sgd_poison;
    gw_power_sgd *p = mem_take(sizeof *p);
    if (!p) {
        scope_fail(s, GW_NO_MEMORY, "gw_power_sgd_open: no memory");
        return &power_sgd_poison;
    }
    *p = (gw_power_sgd){ .options = options, .draw = draw };
    handle_init(&p->handle, &power_sgd_class);
    return scope_own_or(s, p, &power_sgd_poison);
}

bool power_sgd_is_usable(gw_scope *s, const char *function, const gw_power_sgd *p) {
    if (gw_ok(s) && (!p || p == &power_sgd_poison))
        scope_fail(s, GW_INVALID, "%s: %s", function,
                   p ? "the gw_power_sgd could not be opened" : "the gw_power_sgd is NULL");
    return gw_ok(s);
}

// ---- Counting -----------------------------------------------------------------------------------

int64_t power_sgd_pass_of(const gw_power_sgd *p, const gw_bucket *b) {
    return p->earlier + b->pass - 1;
}

void power_sgd_count(gw_power_sgd *p, const gw_bucket *b, int64_t before, int64_t after) {
    env *e = b->ddp->agent->env;
    env_enter(e);
    if (gw_bucket_is_last(b)) p->stats.passes = power_sgd_pass_of(p, b) + 1;
    p->stats.numel_before += before;
    p->stats.numel_after += after;
    env_leave(e);
}

gw_power_sgd_stats gw_power_sgd_get_stats(const gw_power_sgd *p) {
    return p ? p->stats : (gw_power_sgd_stats){ 0 };
}

// ---- Memories -----------------------------------------------------------------------------------

static bool has_numbers(const gw_tensor *x, gw_dtype dtype, int64_t count) {
    return !x || (gw_dtype_of(x) == dtype && gw_numel(x) == count);
}

static bool fits(const power_sgd_memory *m, uint64_t leaves, const low_rank *x) {
    return (!m->leaves || m->leaves == leaves) &&
           has_numbers(m->error, x->dtype, x->rows * x->columns) &&
           has_numbers(m->q, x->dtype, x->rank * x->columns);
}

bool power_sgd_claim(gw_power_sgd *p, const gw_ddp *d) {
    env_enter(d->agent->env);
    if (!p->set_for) p->set_for = d;
    bool is_own = p->set_for == d;
    env_leave(d->agent->env);
    return is_own;
}

static bool grow(gw_power_sgd *p, int count) {
    if (p->memory_count >= count) return true;
    power_sgd_memory *all = mem_realloc(p->memories, (size_t)count * sizeof *all);
    if (!all) return false;
    while (p->memory_count < count) all[p->memory_count++] = (power_sgd_memory){ 0 };
    p->memories = all;
    return true;
}

// Once for each leaf: exchanges under way point into it.
static gw_status reserve(gw_power_sgd *p, const gw_ddp *d, gw_error *error) {
    if (!p->ddp) p->ddp = d;
    if (p->ddp != d)
        return error_set(error, GW_INVALID, "this gw_power_sgd is used by another gw_ddp");
    if (grow(p, d->gate.leaf_count)) return GW_OK;
    return error_set(error, GW_NO_MEMORY, "no memory for PowerSGD");
}

power_sgd_memory *power_sgd_memory_take(gw_scope *s, gw_power_sgd *p, const gw_ddp *d, int leaf,
                                        uint64_t leaves, const low_rank *x) {
    env *e = d->agent->env;
    gw_error error;
    power_sgd_memory *m = NULL, old = { 0 };
    env_enter(e);
    gw_status status = reserve(p, d, &error);
    if (!status && !p->memories[leaf].is_used) m = &p->memories[leaf];
    if (m && !fits(m, leaves, x)) {
        old = *m;
        m->error = m->q = NULL;
    }
    if (m) {
        m->is_used = true;
        m->leaves = leaves;
    }
    env_leave(e);
    forget(&old);
    if (status) scope_fail_with(s, &error);
    return m;
}

void power_sgd_memory_give(const gw_ddp *d, power_sgd_memory *m, gw_tensor *error, gw_tensor *q) {
    env *e = d->agent->env;
    power_sgd_memory old = { 0 };
    env_enter(e);
    if (error) {
        old.error = m->error;
        m->error = handle_retain(error);
    }
    if (q) {
        old.q = m->q;
        m->q = handle_retain(q);
    }
    m->is_used = false;
    env_leave(e);
    forget(&old);
}

// ---- State --------------------------------------------------------------------------------------

gw_map *gw_power_sgd_state_dict(gw_scope *s, gw_power_sgd *p) {
    gw_map *map = gw_map_open(s);
    if (!power_sgd_is_usable(s, "gw_power_sgd_state_dict", p)) return map;
    gw_map_put(s, map, "passes", p->stats.passes);
    for (int i = 0; i < p->memory_count && gw_ok(s); i++) {
        const power_sgd_memory *m = &p->memories[i];
        if (m->error) gw_map_put(s, map, gw_format(s, "%d.error", i), m->error);
        if (m->q) gw_map_put(s, map, gw_format(s, "%d.q", i), m->q);
    }
    return map;
}

enum { LEAVES_MAX = 1 << 20 };

// Whether |key| is that of a memory: "12.error".
static bool read_key(const char *key, int *leaf, bool *is_error) {
    char *end;
    long number = strtol(key, &end, 10);
    *is_error = strcmp(end, ".error") == 0;
    *leaf = (int)number;
    return end != key && number >= 0 && number < LEAVES_MAX &&
           (*is_error || strcmp(end, ".q") == 0);
}

static bool load_item(gw_scope *s, gw_power_sgd *p, const char *key, gw_value v) {
    int leaf;
    bool is_error, is_known = read_key(key, &leaf, &is_error);
    if (!is_known || v.kind != GW_TENSOR || gw_dims(v.as.tensor) != 1)
        return scope_fail(s, GW_INVALID,
                          "gw_power_sgd_load_state_dict: \"%s\" is not a name of its state", key);
    gw_tensor *x = gw_contiguous(s, gw_clone(s, v.as.tensor));
    if (!grow(p, leaf + 1)) scope_fail(s, GW_NO_MEMORY, "no memory for PowerSGD");
    if (!gw_ok(s)) return false;
    power_sgd_memory *m = &p->memories[leaf];
    *(is_error ? &m->error : &m->q) = handle_retain(x);
    return true;
}

static void forget_all(gw_power_sgd *p) {
    for (int i = 0; i < p->memory_count; i++) forget(&p->memories[i]);
    mem_free(p->memories);
    p->memories = NULL;
    p->memory_count = 0;
    p->earlier = 0;
}

void gw_power_sgd_load_state_dict(gw_scope *s, gw_power_sgd *p, gw_map *state) {
    if (!power_sgd_is_usable(s, "gw_power_sgd_load_state_dict", p)) return;
    if (p->ddp || p->stats.passes) {
        scope_fail(
            s, GW_WRONG_STATE,
            "gw_power_sgd_load_state_dict: a state can be loaded only before the first pass");
        return;
    }
    gw_scope *t = scope_open_unrecorded(s);
    gw_value counted = state ? gw_map_find(state, "passes") : gw_none();
    int64_t passes = counted.kind == GW_INT ? counted.as.integer : -1;
    if (passes < 0)
        scope_fail(t, GW_INVALID, "gw_power_sgd_load_state_dict: the state has no \"passes\"");
    forget_all(p);
    for (int i = 0; gw_ok(t) && i < gw_map_count(state); i++) {
        const char *key = gw_map_key(t, state, i);
        if (strcmp(key, "passes") != 0) load_item(t, p, key, gw_map_get(t, state, key));
    }
    if (gw_ok(t))
        p->earlier = passes;
    else
        forget_all(p);
    gw_scope_close_up(t);
}

// ---- After a loss -------------------------------------------------------------------------------

gw_map *power_sgd_save(gw_scope *s, void *power_sgd) {
    gw_power_sgd *p = power_sgd;
    gw_map *map = gw_map_open(s);
    if (!power_sgd_is_usable(s, "gw_ddp_reform", p)) return map;
    gw_map_put(s, map, "earlier", p->earlier);
    for (int i = 0; i < p->memory_count && gw_ok(s); i++) {
        const power_sgd_memory *m = &p->memories[i];
        if (!m->q) continue;
        gw_map_put(s, map, gw_format(s, "%d.q", i), m->q);
        gw_map_put(s, map, gw_format(s, "%d.leaves", i), (int64_t)m->leaves);
    }
    return map;
}

// The memory of this member is of other leaves, or of passes that the others have skipped.
static void load_memory(gw_scope *s, gw_power_sgd *p, gw_map *state, int leaf, bool is_behind) {
    power_sgd_memory *m = &p->memories[leaf];
    gw_value q = gw_map_find(state, gw_format(s, "%d.q", leaf));
    gw_value leaves = gw_map_find(state, gw_format(s, "%d.leaves", leaf));
    bool is_other = leaves.kind == GW_INT && m->leaves != (uint64_t)leaves.as.integer;
    gw_tensor *own = q.kind == GW_TENSOR ? gw_contiguous(s, gw_clone(s, q.as.tensor)) : NULL;
    if (!gw_ok(s)) return;
    handle_release(m->q);
    m->q = handle_retain(own);
    if (is_behind || is_other) {
        handle_release(m->error);
        m->error = NULL;
    }
    if (leaves.kind == GW_INT) m->leaves = (uint64_t)leaves.as.integer;
}

void power_sgd_load(gw_scope *s, void *power_sgd, gw_map *state, bool is_behind) {
    gw_power_sgd *p = power_sgd;
    if (!power_sgd_is_usable(s, "gw_ddp_reform", p)) return;
    gw_scope *t = scope_open_unrecorded(s);
    p->earlier = gw_int_of(t, gw_map_get(t, state, "earlier"));
    for (int i = 0; i < gw_map_count(state) && gw_ok(t); i++) {
        int leaf;
        bool is_error;
        const char *key = gw_map_key(t, state, i);
        if (read_key(key, &leaf, &is_error) && !grow(p, leaf + 1))
            scope_fail(t, GW_NO_MEMORY, "no memory for PowerSGD");
    }
    for (int i = 0; i < p->memory_count && gw_ok(t); i++) load_memory(t, p, state, i, is_behind);
    gw_scope_close_up(t);
}
