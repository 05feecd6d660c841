// A step on an owner: prepare and commit, or both at once, in the turns of the parameters.
#include "distributed/optim/optimizer_owner.h"

#include "base/failpoint.h"
#include "base/mutation.h"

static bool shares_parameter(const gw_optimizer *a, const gw_optimizer *b) {
    for (int i = 0; i < a->parameter_count; i++)
        if (optimizer_has(b, b->parameter_count, a->parameters[i].x)) return true;
    return false;
}

// OPT-3: whether no other optimizer computes or has prepared a step of the same parameters.
// Parameters in one turn cannot compute at the same time, so there only a prepared step is in the
// way.
static bool is_free(gw_scope *s, const owned_optimizer *self) {
    const agent *a = s->agent;
    list_each(l, &optimizers_of(a)->all) {
        const owned_optimizer *other = list_entry(l, owned_optimizer, link);
        if (other == self || !(other->prepared || other->computes) ||
            !shares_parameter(self->optimizer, other->optimizer))
            continue;
        return scope_fail(s, GW_OVERLOADED,
                          "another optimizer is making a step of the same parameters");
    }
    return true;
}

static void take_owners(gw_scope *s, owned_optimizer *self, const gw_list *ranks) {
    worker_set owners = { { 0 } };
    for (int i = 0; i < gw_list_count(ranks) && gw_ok(s); i++) {
        int64_t rank = gw_int_of(s, gw_list_get(s, ranks, i));
        if (rank < 0 || rank >= LIMIT_WORKERS)
            scope_fail(s, GW_INVALID, "an owner has rank %lld, but must have 0 to %d",
                       (long long)rank, LIMIT_WORKERS - 1);
        else
            worker_set_add(&owners, (int)rank);
    }
    if (gw_ok(s)) self->owners = owners;
}

static bool take_options(gw_scope *s, owned_optimizer *self, gw_value v) {
    if (v.kind == GW_NONE || !gw_ok(s)) return gw_ok(s);
    gw_optimizer *o = self->optimizer;
    const gw_list *both = gw_list_of(s, v);
    take_owners(s, self, gw_list_of(s, gw_list_get(s, both, 0)));
    const gw_list *list = gw_list_of(s, gw_list_get(s, both, 1));
    optimizer_group *groups = gw_alloc(s, (size_t)o->group_count * sizeof *groups);
    int count = o->rule->option_count;
    if (gw_ok(s) && gw_list_count(list) != count * o->group_count)
        scope_fail(s, GW_INVALID, "%d options were given, but %d parameter groups have %d",
                   gw_list_count(list), o->group_count, count * o->group_count);
    for (int i = 0; i < o->group_count && gw_ok(s); i++) {
        groups[i] = o->groups[i];
        owned_read_options(s, o->rule, list, i * count, &groups[i]);
    }
    for (int i = 0; i < o->group_count && gw_ok(s); i++) o->groups[i] = groups[i];
    return gw_ok(s);
}

void owned_abort(owned_optimizer *self) {
    optimizer_abort(self->optimizer);
    self->prepared = 0;
}

// Begins the transaction of one try, unless it was aborted. Drops the values that an older transaction has
// prepared, whose abort its trainer could not send. Opens the scope |out|, which has the turns
// until end_step closes it.
static bool begin_step(gw_scope *s, owned_optimizer *self, const gw_args *a,
                       uint64_t *out_transaction, gw_scope **out) {
    *out_transaction = (uint64_t)gw_arg_int(s, a, 0);
    gw_value options = gw_arg(s, a, 1);
    (void)gw_grads_count(s);  // fetches the gradients
    *out = gw_scope_open(s);
    if (!turns_enter(*out, &self->turns)) return false;
    optimizers_lock(s);
    if (*out_transaction <= self->over) {
        scope_fail(*out, GW_CANCELLED, "this transaction of a step has ended");
    } else {
        owned_abort(self);
        self->over = *out_transaction - 1;
        self->computes = is_free(*out, self) && take_options(*out, self, options);
    }
    optimizers_unlock(s);
    return self->computes;
}

static gw_value end_step(gw_scope *in_turns) {
    gw_scope_close_up(in_turns);
    return gw_none();
}

// Without gradients the step counts, and nothing is computed.
gw_value serve_prepare(gw_scope *s, void *object, const gw_args *a) {
    owned_optimizer *self = object;
    uint64_t transaction;
    gw_scope *t;
    if (!begin_step(s, self, a, &transaction, &t)) return end_step(t);
    failpoint("step_prepare");
    bool ok = !gw_grads_count(s) || optimizer_prepare(s, self->optimizer);
    optimizers_lock(s);
    if (ok) self->prepared = transaction;
    self->computes = false;
    optimizers_unlock(s);
    failpoint("step_prepared");
    return end_step(t);
}

gw_value serve_step(gw_scope *s, void *object, const gw_args *a) {
    owned_optimizer *self = object;
    uint64_t transaction;
    gw_scope *t;
    if (!begin_step(s, self, a, &transaction, &t)) return end_step(t);
    if (gw_grads_count(s))
        optimizer_step(s, self->optimizer);
    else
        optimizer_commit(self->optimizer);
    optimizers_lock(s);
    self->over = transaction;
    self->computes = false;
    optimizers_unlock(s);
    return end_step(t);
}

gw_value serve_commit(gw_scope *s, void *object, const gw_args *a) {
    owned_optimizer *self = object;
    uint64_t transaction = (uint64_t)gw_arg_int(s, a, 0);
    gw_scope *t = gw_scope_open(s);
    if (!turns_enter(t, &self->turns)) return end_step(t);
    failpoint("step_commit");
    optimizers_lock(s);
    bool may = !self->is_fenced || has_mutation(MUTATION_LATE_COMMIT);
    if (self->prepared == transaction && transaction && may) {
        optimizer_commit(self->optimizer);
        self->prepared = 0;
        self->over = self->committed = transaction;
    } else if (self->is_fenced) {
        scope_fail(
            t, GW_FENCED,
            "the step cannot be made: another owner has lost the worker that makes the step");
    } else {
        scope_fail(t, GW_WRONG_STATE, "the step cannot be committed: it was not prepared");
    }
    optimizers_unlock(s);
    failpoint("step_committed");
    return end_step(t);
}

gw_value serve_abort(gw_scope *s, void *object, const gw_args *a) {
    owned_optimizer *self = object;
    uint64_t transaction = (uint64_t)gw_arg_int(s, a, 0);
    optimizers_lock(s);
    if (gw_ok(s) && transaction > self->over) self->over = transaction;
    if (self->prepared && self->prepared <= self->over) owned_abort(self);
    optimizers_unlock(s);
    return gw_none();
}
