// The owner side of optimizers: objects of class gw.optimizer, their groups and state.
#include "distributed/optim/optimizer_owner.h"

#include "base/mem.h"
#include "base/mutation.h"

#include <string.h>

static gw_status open_optimizers(agent *a, const gw_rpc_options *options, void **state,
                                 gw_error *error) {
    (void)options;
    optimizers *o = mem_calloc(sizeof *o);
    if (!o) return error_set(error, GW_NO_MEMORY, "no memory for optimizers");
    pthread_mutex_init(&o->lock, NULL);
    list_init(&o->all);
    a->remote.optim = &owners_class;
    *state = o;
    return GW_OK;
}

static void free_optimizers(void *state) {
    optimizers *o = state;
    pthread_mutex_destroy(&o->lock);
    mem_free(o);
}

static const function *const functions[] = { optimizer_functions, clipping_functions, NULL };

const service_data optimizer_data = { 0 };

const service optimizer_service = { .name = "optimizer",
                                    .data = &optimizer_data,
                                    .functions = functions,
                                    .open = open_optimizers,
                                    .free = free_optimizers };

optimizers_counts optimizers_count(optimizers *all) {
    optimizers_counts n = { 0 };
    pthread_mutex_lock(&all->lock);
    list_each(l, &all->all) {
        const owned_optimizer *o = list_entry(l, owned_optimizer, link);
        n.owned++;
        n.prepared += o->prepared != 0;
        n.fenced += o->is_fenced;
    }
    pthread_mutex_unlock(&all->lock);
    return n;
}

void optimizers_lock(const gw_scope *s) {
    const agent *a = s->agent;
    pthread_mutex_lock(&optimizers_of(a)->lock);
}
void optimizers_unlock(const gw_scope *s) {
    const agent *a = s->agent;
    pthread_mutex_unlock(&optimizers_of(a)->lock);
}

// ---- Groups -------------------------------------------------------------------------------------

bool owned_read_options(gw_scope *s, const rule *r, const gw_list *list, int at,
                        optimizer_group *g) {
    for (int k = 0; k < r->option_count; k++)
        option_set(&r->options[k], g, gw_float_of(s, gw_list_get(s, list, at + k)));
    return gw_ok(s) && rule_check(s, r, g);
}

static gw_list *values_of(gw_scope *s, const gw_list *references, turns *ts) {
    gw_list *values = gw_list_open(s);
    for (int i = 0; i < gw_list_count(references) && gw_ok(s); i++) {
        gw_rref *r = gw_rref_of(s, gw_list_get(s, references, i));
        if (gw_ok(s)) gw_list_add_with(s, values, gw_rref_local_value(s, r));
        if (gw_ok(s)) turns_add(s, ts, r);
    }
    return values;
}

// |group| is a list of three: options, numbers of parameters, references to them.
static void add_group(gw_scope *s, owned_optimizer *self, gw_list *group) {
    gw_optimizer *o = self->optimizer;
    gw_list *options = gw_list_of(s, gw_list_get(s, group, 0));
    gw_list *numbers = gw_list_of(s, gw_list_get(s, group, 1));
    gw_list *references = gw_list_of(s, gw_list_get(s, group, 2));
    optimizer_group g = { 0 };
    int count = gw_list_count(numbers);
    if (gw_ok(s) && gw_list_count(options) != o->rule->option_count)
        scope_fail(s, GW_INVALID, "%d options were given for gw_%s, which has %d",
                   gw_list_count(options), o->rule->name, o->rule->option_count);
    if (gw_ok(s) && gw_list_count(references) != count)
        scope_fail(s, GW_INVALID, "%d numbers were given for %d parameters", count,
                   gw_list_count(references));
    if (!gw_ok(s) || !owned_read_options(s, o->rule, options, 0, &g)) return;
    int *known = gw_alloc(s, ((size_t)count + 1) * sizeof *known);
    for (int i = 0; i < count && gw_ok(s); i++)
        known[i] = (int)gw_int_of(s, gw_list_get(s, numbers, i));
    gw_list *values = values_of(s, references, &self->turns);
    optimizers_lock(s);
    optimizer_add_part(s, o, values, known, &g);
    optimizers_unlock(s);
}

static void open_owned(gw_scope *own, void *object, const gw_args *a) {
    owned_optimizer *self = object;
    gw_scope *s = gw_scope_open(own);
    const rule *r = rule_find(gw_arg_string(s, a, 0));
    self->id = (uint64_t)gw_arg_int(s, a, 1);
    gw_list *groups = gw_arg_list(s, a, 2);
    if (gw_ok(s) && !r)
        scope_fail(s, GW_INVALID, "no rule is called \"%.64s\"", gw_arg_string(s, a, 0));
    if (gw_ok(s)) self->optimizer = optimizer_open(s, r);
    if (self->optimizer) scope_own(own, self->optimizer);
    if (!gw_ok(own)) self->optimizer = NULL;
    for (int i = 0; i < gw_list_count(groups) && gw_ok(s) && self->optimizer; i++)
        add_group(s, self, gw_list_of(s, gw_list_get(s, groups, i)));
    gw_scope_close_up(s);
    if (!gw_ok(own)) {
        turns_fini(&self->turns);
        return;
    }
    const agent *agent = own->agent;
    optimizers_lock(own);
    list_append(&optimizers_of(agent)->all, &self->link);
    optimizers_unlock(own);
}

// OPT-5: queries the other owners whether they have committed the transaction that is prepared here,
// after its trainer is lost. An owner that replies commits nothing more for the trainer, so its
// reply stays true.
static bool has_been_committed(const gw_scope *own, const owned_optimizer *self) {
    agent *a = own->agent;
    int count = 0, members = a->member_count;
    bool any = false;
    gw_scope *s = agent_scope_open(a, 0, 0, ENV_NEVER);
    gw_future **replies = gw_alloc(s, (size_t)members * sizeof(gw_future *));
    for (int rank = 0; rank < members && gw_ok(s); rank++)
        if (rank != a->rank && worker_set_has(&self->owners, rank))
            replies[count++] = gw_rpc_async(s, rank, "gw.optimizer_outcome", (int64_t)self->id);
    for (int i = 0; i < count; i++) {
        gw_value v = gw_wait(s, replies[i]);
        any |= gw_ok(s) && (uint64_t)gw_int_of(s, v) >= self->prepared;
        gw_scope_clear(s);  // a lost owner needs no agreement
    }
    scope_close_unread(s);
    return any;
}

static void remember(optimizers *all, const owned_optimizer *self) {
    if (all->ended_count == ENDED_MAX) {
        memmove(all->ended, all->ended + 1, (ENDED_MAX - 1) * sizeof *all->ended);
        all->ended_count--;
    }
    all->ended[all->ended_count++] = (outcome){ self->id, self->committed };
}

// The object ends with its last reference, also when its trainer is lost while a step is prepared.
static void close_owned(gw_scope *own, void *object) {
    owned_optimizer *self = object;
    const agent *a = own->agent;
    gw_scope *s = scope_open_regardless(own);
    bool queries = self->prepared && !has_mutation(MUTATION_STEP_NOT_QUERIED);
    bool commits = queries && has_been_committed(own, self);
    s->deadline_ns = ENV_NEVER;  // the other owners have committed, so this one must
    commits = commits && turns_enter(s, &self->turns);
    optimizers_lock(own);
    if (commits) {
        optimizer_commit(self->optimizer);
        self->committed = self->prepared;
    }
    if (self->committed) remember(optimizers_of(a), self);
    list_remove(&self->link);
    if (self->has_load) state_forget(&self->load);
    optimizer_abort(self->optimizer);
    optimizers_unlock(own);
    scope_close_unread(s);
    turns_fini(&self->turns);
}

static gw_value serve_outcome(gw_scope *s, const gw_args *args) {
    uint64_t id = (uint64_t)gw_arg_int(s, args, 0), committed = 0;
    const agent *a = s->agent;
    optimizers *all = optimizers_of(a);
    optimizers_lock(s);
    for (int i = 0; i < all->ended_count; i++)
        if (all->ended[i].id == id) committed = all->ended[i].committed;
    list_each(l, &all->all) {
        owned_optimizer *o = list_entry(l, owned_optimizer, link);
        if (o->id != id) continue;
        // Only an owner in the same transactions may query; from then on |committed| is fixed.
        if (!worker_set_has(&o->owners, gw_arg_caller(args).rank)) continue;
        o->is_fenced = true;
        committed = o->committed;
    }
    optimizers_unlock(s);
    return gw_value_of((int64_t)committed);
}

static gw_value serve_add_group(gw_scope *s, void *object, const gw_args *a) {
    add_group(s, object, gw_arg_list(s, a, 0));
    return gw_none();
}

static gw_value serve_group_count(gw_scope *s, void *object, const gw_args *a) {
    (void)s, (void)a;
    return gw_value_of(gw_optimizer_parameter_group_count(((owned_optimizer *)object)->optimizer));
}

static gw_value serve_keep_groups(gw_scope *s, void *object, const gw_args *a) {
    gw_optimizer *o = ((owned_optimizer *)object)->optimizer;
    int64_t count = gw_arg_int(s, a, 0);
    optimizers_lock(s);
    while (gw_ok(s) && o->group_count > count && o->group_count > 1) optimizer_remove_group(o);
    optimizers_unlock(s);
    return gw_none();
}

// ---- State --------------------------------------------------------------------------------------
static gw_value serve_state(gw_scope *s, void *object, const gw_args *a) {
    (void)a;
    gw_map *map = gw_map_open(s);
    optimizers_lock(s);
    state_write_parameters(s, ((owned_optimizer *)object)->optimizer, map);
    optimizers_unlock(s);
    return gw_value_of(map);
}

static void forget_load(owned_optimizer *self) {
    if (self->has_load) state_forget(&self->load);
    self->has_load = false;
}

static gw_value serve_check(gw_scope *s, void *object, const gw_args *a) {
    owned_optimizer *self = object;
    const gw_map *map = gw_arg_map(s, a, 0);
    if (!gw_ok(s)) return gw_none();
    optimizers_lock(s);
    forget_load(self);
    self->has_load =
        state_read(s, self->optimizer, "gw_optimizer_load_state_dict", map, &self->load);
    optimizers_unlock(s);
    return gw_none();
}

static gw_value serve_load(gw_scope *s, void *object, const gw_args *a) {
    (void)a;
    owned_optimizer *self = object;
    optimizers_lock(s);
    if (self->has_load) {
        owned_abort(self);
        state_take_over(self->optimizer, &self->load);
        self->has_load = false;
    } else {
        scope_fail(s, GW_WRONG_STATE, "no state can be loaded: the check of a state must precede");
    }
    optimizers_unlock(s);
    return gw_none();
}

#define METHOD(name_, where_, body_, ...)                                                          \
    { .name = (char *)name_, .where = where_, .signature = TAKES(__VA_ARGS__), .method = body_ }
static const function methods[] = {
    METHOD("group_count", GW_INLINE, serve_group_count),
    METHOD("add_group", GW_POOL, serve_add_group, 1 << GW_LIST),
    METHOD("keep_groups", GW_INLINE, serve_keep_groups, 1 << GW_INT),
    METHOD("step", GW_POOL, serve_step, 1 << GW_INT, TAKES_ANY),
    METHOD("prepare", GW_POOL, serve_prepare, 1 << GW_INT, TAKES_ANY),
    METHOD("commit", GW_POOL, serve_commit, 1 << GW_INT),
    METHOD("abort", GW_INLINE, serve_abort, 1 << GW_INT),
    METHOD("unscale", GW_POOL, serve_unscale, 1 << GW_FLOAT | 1 << GW_INT),
    METHOD("state", GW_POOL, serve_state),
    METHOD("check", GW_POOL, serve_check, 1 << GW_MAP),
    METHOD("load", GW_INLINE, serve_load),
};

static class owned_class = {
    .name = (char *)"gw.optimizer",
    .options = { .size = sizeof(owned_optimizer), .open = open_owned, .close = close_owned },
    .fixed_methods = methods,
    .fixed_count = sizeof methods / sizeof *methods
};

const function optimizer_functions[] = {
    { .name = (char *)"gw.optimizer",
      .where = GW_POOL,
      .signature = TAKES(1 << GW_STRING, 1 << GW_INT, 1 << GW_LIST),
      .class = &owned_class },
    { .name = (char *)"gw.optimizer_outcome",
      .where = GW_INLINE,
      .signature = TAKES(1 << GW_INT),
      .body = serve_outcome },
    { 0 },
};
