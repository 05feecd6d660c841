// What an owner has of optimizers that others have made: objects of class gw.optimizer.
#include "dist/optimizer.h"
#include "dist/optimizers.h"

#include "base/mem.h"
#include "base/planted.h"
#include "dist/across.h"
#include "dist/turns.h"
#include "optim/state.h"

#include <pthread.h>
#include <string.h>

enum { ENDED_MAX = 64 };

typedef struct outcome {
    uint64_t id, committed;
} outcome;

// All of an agent. The lock is a leaf, held for moments only: values are computed and put in place in the turns of the
// parameters, so that neither steps of other trainers nor methods that read them run meanwhile.
struct optimizers {
    pthread_mutex_t lock;
    list_node all;             // of served_optimizer
    outcome ended[ENDED_MAX];  // of those that staged steps, the last ones
    int ended_count;
};

typedef struct served_optimizer {
    gw_optimizer *optimizer;
    uint64_t id;
    turns turns;
    worker_set owners;
    uint64_t committed;  // the last ticket of a step that was staged
    bool is_fenced;      // another owner has been told so: it stays
    list_node link;
    bool computes;    // new values, now
    uint64_t staged;  // the ticket of the step between stage and commit; 0: none
    uint64_t over;    // tickets up to this one are not staged any more
    loaded load;      // a map between being checked and being taken over
    bool has_load;
} served_optimizer;

optimizers *optimizers_open(void) {
    optimizers *o = mem_calloc(sizeof *o);
    if (!o) return NULL;
    pthread_mutex_init(&o->lock, NULL);
    list_init(&o->all);
    return o;
}

void optimizers_close(optimizers *o) {
    pthread_mutex_destroy(&o->lock);
    mem_free(o);
}

optimizers_counts optimizers_count(optimizers *all) {
    optimizers_counts n = { 0, 0 };
    pthread_mutex_lock(&all->lock);
    list_each(l, &all->all) {
        n.served++;
        n.staged += list_entry(l, served_optimizer, link)->staged != 0;
    }
    pthread_mutex_unlock(&all->lock);
    return n;
}

static void lock(const gw_scope *s) {
    const agent *a = s->agent;
    pthread_mutex_lock(&a->graphs->optimizers->lock);
}
static void unlock(const gw_scope *s) {
    const agent *a = s->agent;
    pthread_mutex_unlock(&a->graphs->optimizers->lock);
}

// ---- Groups -------------------------------------------------------------------------------------
static bool read_options(gw_scope *s, const rule *r, const gw_list *list, int at,
                         optimizer_group *g) {
    for (int k = 0; k < r->option_count; k++)
        option_set(&r->options[k], g, gw_float_of(s, gw_list_get(s, list, at + k)));
    return gw_ok(s) && rule_check(s, r, g);
}

static gw_list *values_of(gw_scope *s, const gw_list *references, turns *ts) {
    gw_list *values = gw_list_open(s);
    for (int i = 0; i < gw_list_count(references) && gw_ok(s); i++) {
        gw_rref *r = gw_rref_of(s, gw_list_get(s, references, i));
        if (gw_ok(s)) gw_list_add_value(s, values, gw_rref_local_value(s, r));
        if (gw_ok(s)) turns_add(s, ts, r);
    }
    return values;
}

// |group|: its options, the numbers of parameters, references to them.
static void add_group(gw_scope *s, served_optimizer *self, gw_list *group) {
    gw_optimizer *o = self->optimizer;
    gw_list *options = gw_list_of(s, gw_list_get(s, group, 0));
    gw_list *numbers = gw_list_of(s, gw_list_get(s, group, 1));
    gw_list *references = gw_list_of(s, gw_list_get(s, group, 2));
    optimizer_group g = { 0 };
    int count = gw_list_count(numbers);
    if (gw_ok(s) && gw_list_count(references) != count)
        scope_fail(s, GW_INVALID, "%d numbers for %d parameters", count, gw_list_count(references));
    if (!gw_ok(s) || !read_options(s, o->rule, options, 0, &g)) return;
    int *known = gw_alloc(s, ((size_t)count + 1) * sizeof *known);
    for (int i = 0; i < count && gw_ok(s); i++)
        known[i] = (int)gw_int_of(s, gw_list_get(s, numbers, i));
    gw_list *values = values_of(s, references, &self->turns);
    lock(s);
    optimizer_add_part(s, o, values, known, &g);
    unlock(s);
}

static void open_served(gw_scope *own, void *object, const gw_args *a) {
    served_optimizer *self = object;
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
    gw_scope_merge(s);
    if (!gw_ok(own)) {
        turns_fini(&self->turns);
        return;
    }
    const agent *agent = own->agent;
    lock(own);
    list_append(&agent->graphs->optimizers->all, &self->link);
    unlock(own);
}

// What the others have done with the step that is staged here, now that its trainer is lost: they are asked, and what they
// answer stays true. Whether any has committed it.
static bool has_been_committed(const gw_scope *own, const served_optimizer *self) {
    agent *a = own->agent;
    gw_future *replies[LIMIT_WORKERS];
    int count = 0;
    bool any = false;
    gw_scope *s = agent_scope_open(a, 0, 0, ENV_NEVER);
    for (int rank = 0; rank < LIMIT_WORKERS && rank < a->member_count && gw_ok(s); rank++)
        if (rank != a->rank && worker_set_has(&self->owners, rank))
            replies[count++] = gw_rpc_async(s, rank, "gw.optimizer_outcome", (int64_t)self->id);
    for (int i = 0; i < count; i++) {
        gw_value v = gw_wait(s, replies[i]);
        any |= gw_ok(s) && (uint64_t)gw_int_of(s, v) >= self->staged;
        gw_scope_clear(s);  // who is lost, too, is ahead of nobody who is left
    }
    gw_error ignored = gw_scope_close(s);
    (void)ignored;
    return any;
}

static void remember(optimizers *all, const served_optimizer *self) {
    if (all->ended_count == ENDED_MAX) {
        memmove(all->ended, all->ended + 1, (ENDED_MAX - 1) * sizeof *all->ended);
        all->ended_count--;
    }
    all->ended[all->ended_count++] = (outcome){ self->id, self->committed };
}

// Also when the trainer is lost: then a step may be staged.
static void close_served(gw_scope *own, void *object) {
    served_optimizer *self = object;
    const agent *a = own->agent;
    gw_scope *s = gw_scope_open(own);
    bool asks = self->staged && !planted(PLANTED_STEP_NOT_ASKED);
    bool commits = asks && has_been_committed(own, self);
    if (commits) turns_enter(s, &self->turns);
    lock(own);
    if (commits) {
        optimizer_commit(self->optimizer);
        self->committed = self->staged;
    }
    if (self->committed) remember(a->graphs->optimizers, self);
    list_remove(&self->link);
    if (self->has_load) state_forget(&self->load);
    optimizer_discard(self->optimizer);
    unlock(own);
    gw_error ignored = gw_scope_close(s);
    (void)ignored;
    turns_fini(&self->turns);
}

static gw_value serve_outcome(gw_scope *s, const gw_args *args) {
    uint64_t id = (uint64_t)gw_arg_int(s, args, 0), committed = 0;
    const agent *a = s->agent;
    optimizers *all = a->graphs->optimizers;
    lock(s);
    for (int i = 0; i < all->ended_count; i++)
        if (all->ended[i].id == id) committed = all->ended[i].committed;
    list_each(l, &all->all) {
        served_optimizer *o = list_entry(l, served_optimizer, link);
        if (o->id != id) continue;
        o->is_fenced = true;
        committed = o->committed;
    }
    unlock(s);
    return gw_value_of((int64_t)committed);
}

static gw_value serve_add_group(gw_scope *s, void *object, const gw_args *a) {
    add_group(s, object, gw_arg_list(s, a, 0));
    return gw_none();
}

static gw_value serve_group_count(gw_scope *s, void *object, const gw_args *a) {
    (void)s, (void)a;
    return gw_value_of(gw_optimizer_group_count(((served_optimizer *)object)->optimizer));
}

static gw_value serve_remove_group(gw_scope *s, void *object, const gw_args *a) {
    (void)a;
    gw_optimizer *o = ((served_optimizer *)object)->optimizer;
    lock(s);
    if (o->group_count > 1) optimizer_remove_group(o);
    unlock(s);
    return gw_none();
}

// ---- Steps --------------------------------------------------------------------------------------
static bool shares_parameter(const gw_optimizer *a, const gw_optimizer *b) {
    for (int i = 0; i < a->parameter_count; i++)
        for (int k = 0; k < b->parameter_count; k++)
            if (a->parameters[i].x == b->parameters[k].x) return true;
    return false;
}

// Until it is over the parameters of a step are its own. Where they have the same turn, only what is staged is in the way.
static bool is_free(gw_scope *s, const served_optimizer *self) {
    const agent *a = s->agent;
    list_each(l, &a->graphs->optimizers->all) {
        const served_optimizer *other = list_entry(l, served_optimizer, link);
        if (other == self || !(other->staged || other->computes) ||
            !shares_parameter(self->optimizer, other->optimizer))
            continue;
        scope_fail(s, GW_OVERLOADED, "another optimizer is in a step of the same parameters");
        return false;
    }
    return true;
}

static void take_owners(gw_scope *s, served_optimizer *self, const gw_list *ranks) {
    worker_set owners = { { 0 } };
    for (int i = 0; i < gw_list_count(ranks) && gw_ok(s); i++) {
        int64_t rank = gw_int_of(s, gw_list_get(s, ranks, i));
        if (rank < 0 || rank >= LIMIT_WORKERS)
            scope_fail(s, GW_INVALID, "an owner of rank %lld", (long long)rank);
        else
            worker_set_add(&owners, (int)rank);
    }
    if (gw_ok(s)) self->owners = owners;
}

static bool take_options(gw_scope *s, served_optimizer *self, gw_value v) {
    if (v.kind == GW_NONE || !gw_ok(s)) return gw_ok(s);
    gw_optimizer *o = self->optimizer;
    const gw_list *both = gw_list_of(s, v);
    take_owners(s, self, gw_list_of(s, gw_list_get(s, both, 0)));
    const gw_list *list = gw_list_of(s, gw_list_get(s, both, 1));
    optimizer_group *groups = gw_alloc(s, (size_t)o->group_count * sizeof *groups);
    int count = o->rule->option_count;
    if (gw_ok(s) && gw_list_count(list) != count * o->group_count)
        scope_fail(s, GW_INVALID, "%d options for %d groups", gw_list_count(list), o->group_count);
    for (int i = 0; i < o->group_count && gw_ok(s); i++) {
        groups[i] = o->groups[i];
        read_options(s, o->rule, list, i * count, &groups[i]);
    }
    for (int i = 0; i < o->group_count && gw_ok(s); i++) o->groups[i] = groups[i];
    return gw_ok(s);
}

static void discard(served_optimizer *self) {
    optimizer_discard(self->optimizer);
    self->staged = 0;
}

// A ticket is good for one try. What a try has left that its trainer could not take back gives way to the next. Opens the
// scope |out| that has the turns until end_step closes it.
static bool begin_step(gw_scope *s, served_optimizer *self, const gw_args *a, uint64_t *out_ticket,
                       gw_scope **out) {
    *out_ticket = (uint64_t)gw_arg_int(s, a, 0);
    gw_value options = gw_arg(s, a, 1);
    (void)gw_grads_count(s);  // brings the gradients here
    *out = gw_scope_open(s);
    if (!turns_enter(*out, &self->turns)) return false;
    lock(s);
    if (*out_ticket <= self->over) {
        scope_fail(*out, GW_CANCELLED, "this try of a step is over");
    } else {
        discard(self);
        self->over = *out_ticket - 1;
        self->computes = is_free(*out, self) && take_options(*out, self, options);
    }
    unlock(s);
    return self->computes;
}

static gw_value end_step(gw_scope *in_turns) {
    gw_scope_merge(in_turns);
    return gw_none();
}

// No gradients here: the step counts, and nothing is computed.
static gw_value serve_stage(gw_scope *s, void *object, const gw_args *a) {
    served_optimizer *self = object;
    uint64_t ticket;
    gw_scope *t;
    if (!begin_step(s, self, a, &ticket, &t)) return end_step(t);
    bool ok = !gw_grads_count(s) || optimizer_stage(s, self->optimizer);
    lock(s);
    if (ok) self->staged = ticket;
    self->computes = false;
    unlock(s);
    return end_step(t);
}

static gw_value serve_step(gw_scope *s, void *object, const gw_args *a) {
    served_optimizer *self = object;
    uint64_t ticket;
    gw_scope *t;
    if (!begin_step(s, self, a, &ticket, &t)) return end_step(t);
    if (gw_grads_count(s))
        optimizer_step(s, self->optimizer);
    else
        optimizer_commit(self->optimizer);
    lock(s);
    self->over = ticket;
    self->computes = false;
    unlock(s);
    return end_step(t);
}

static gw_value serve_commit(gw_scope *s, void *object, const gw_args *a) {
    served_optimizer *self = object;
    uint64_t ticket = (uint64_t)gw_arg_int(s, a, 0);
    gw_scope *t = gw_scope_open(s);
    if (!turns_enter(t, &self->turns)) return end_step(t);
    lock(s);
    if (self->staged == ticket && ticket && !self->is_fenced) {
        optimizer_commit(self->optimizer);
        self->staged = 0;
        self->over = self->committed = ticket;
    } else {
        scope_fail(t, GW_WRONG_STATE, "no step is staged that could be committed");
    }
    unlock(s);
    return end_step(t);
}

static gw_value serve_abort(gw_scope *s, void *object, const gw_args *a) {
    served_optimizer *self = object;
    uint64_t ticket = (uint64_t)gw_arg_int(s, a, 0);
    lock(s);
    if (gw_ok(s) && ticket > self->over) self->over = ticket;
    if (self->staged && self->staged <= self->over) discard(self);
    unlock(s);
    return gw_none();
}

// ---- State --------------------------------------------------------------------------------------
static gw_value serve_state(gw_scope *s, void *object, const gw_args *a) {
    (void)a;
    gw_map *map = gw_map_open(s);
    lock(s);
    state_write_parameters(s, ((served_optimizer *)object)->optimizer, map);
    unlock(s);
    return gw_value_of(map);
}

static void forget_load(served_optimizer *self) {
    if (self->has_load) state_forget(&self->load);
    self->has_load = false;
}

static gw_value serve_check(gw_scope *s, void *object, const gw_args *a) {
    served_optimizer *self = object;
    const gw_map *map = gw_arg_map(s, a, 0);
    if (!gw_ok(s)) return gw_none();
    lock(s);
    forget_load(self);
    self->has_load = state_read(s, self->optimizer, map, &self->load);
    unlock(s);
    return gw_none();
}

static gw_value serve_load(gw_scope *s, void *object, const gw_args *a) {
    (void)a;
    served_optimizer *self = object;
    lock(s);
    if (self->has_load) {
        discard(self);
        state_take_over(self->optimizer, &self->load);
        self->has_load = false;
    } else {
        scope_fail(s, GW_WRONG_STATE, "no map has been checked that could be loaded");
    }
    unlock(s);
    return gw_none();
}

#define METHOD(name, where, signature, body)                                                       \
    { "gw.optimizer", name, signature, where, NULL, body, { 0, NULL, NULL, NULL }, NULL }
const gw_registration optimizer_registrations[] = {
    { NULL,
      "gw.optimizer",
      "string, int, list",
      GW_POOL,
      NULL,
      NULL,
      { sizeof(served_optimizer), open_served, close_served, "string, int, list" },
      NULL },
    { NULL,
      "gw.optimizer_outcome",
      "int",
      GW_INLINE,
      serve_outcome,
      NULL,
      { 0, NULL, NULL, NULL },
      NULL },
    METHOD("group_count", GW_INLINE, "", serve_group_count),
    METHOD("add_group", GW_POOL, "list", serve_add_group),
    METHOD("remove_group", GW_INLINE, "", serve_remove_group),
    METHOD("step", GW_POOL, "int, any", serve_step),
    METHOD("stage", GW_POOL, "int, any", serve_stage),
    METHOD("commit", GW_POOL, "int", serve_commit),
    METHOD("abort", GW_INLINE, "int", serve_abort),
    METHOD("state", GW_POOL, "", serve_state),
    METHOD("check", GW_POOL, "map", serve_check),
    METHOD("load", GW_INLINE, "", serve_load),
    { 0 },
};
