// Which member gives the state of the job, and the exchange: ELAS-5 to ELAS-8 of docs/protocol/elastic.md.
#include "elastic/elastic.h"

#include "base/log.h"
#include "base/map.h"
#include "optim/optimizer.h"
#include "parallel/reform.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// What a member reports before the exchange.
typedef struct account {
    bool has_state;
    int64_t steps, passes;
    const char *options;  // and the model, that all members have alike
} account;

typedef struct exchange {
    account *members;  // by rank
    int count, giver;
    bool is_new;         // no member has the state of the job
    bool is_restored;    // all begin with a checkpoint
    gw_map *checkpoint;  // of rank 0, which gives it; NULL
    gw_map *program;     // the giver's state of the program; NULL: there is none
} exchange;

// Of the names, dtypes and shapes of its parameters.
static uint64_t hash_of_model(gw_scope *s, const gw_module *model) {
    uint64_t hash = 0;
    for (int i = 0; gw_ok(s) && i < gw_module_parameter_count(model); i++) {
        const gw_tensor *x = gw_module_parameter_at(s, model, i);
        const char *name = gw_module_parameter_name(s, model, i);
        if (!gw_ok(s)) break;
        hash = hash_u64(hash ^ hash_bytes(name, strlen(name))) + (uint64_t)gw_dtype_of(x);
        for (int d = 0; d < gw_dims(x); d++) hash = hash_u64(hash ^ (uint64_t)gw_size(x, d));
    }
    return hash;
}

static account own_account(gw_scope *s, const gw_elastic *j) {
    const gw_elastic_options *o = &j->options;
    return (account){
        .has_state = j->has_state,
        .steps = gw_optimizer_steps(j->opt),
        .passes = gw_ddp_get_stats(j->ddp).completed,
        .options =
            gw_format(s,
                      "a model of %d parameters (%08x), optimizer %s%s, %" PRId64
                      " steps, .min %d, .every_steps %" PRId64 ", .meet_every %" PRId64 "%s%s",
                      gw_module_parameter_count(j->model), (unsigned)hash_of_model(s, j->model),
                      j->opt->rule->name, o->hook ? ", with .hook" : "", o->steps, o->min,
                      o->every_steps, o->meet_every, o->checkpoint ? ", with checkpoints" : "",
                      o->save ? ", with .save" : ""),
    };
}

static void gather(gw_scope *s, const gw_elastic *j, exchange *x) {
    account own = own_account(s, j);
    gw_list *mine = gw_list_open(s);
    gw_list_add(s, mine, own.has_state);
    gw_list_add(s, mine, own.steps);
    gw_list_add(s, mine, own.passes);
    gw_list_add(s, mine, own.options);
    gw_list *all = gw_all_gather_value(s, j->group, mine);
    x->count = gw_ok(s) ? gw_list_count(all) : 0;
    x->members = gw_alloc(s, (size_t)(x->count + 1) * sizeof *x->members);
    for (int i = 0; gw_ok(s) && i < x->count; i++) {
        gw_list *theirs = gw_list_of(s, gw_list_get(s, all, i));
        x->members[i] = (account){ gw_bool_of(s, gw_list_get(s, theirs, 0)),
                                   gw_int_of(s, gw_list_get(s, theirs, 1)),
                                   gw_int_of(s, gw_list_get(s, theirs, 2)),
                                   gw_string_of(s, gw_list_get(s, theirs, 3)) };
    }
}

// reform_replicas compares in the same way: a member without the state has made no step of this job.
static bool is_ahead(const account *a, const account *b) {
    if (a->has_state != b->has_state) return a->has_state;
    return a->steps != b->steps ? a->steps > b->steps : a->passes > b->passes;
}

static void choose_giver(exchange *x) {
    for (int i = 1; i < x->count; i++)
        if (is_ahead(&x->members[i], &x->members[x->giver])) x->giver = i;
    x->is_new = !x->members[x->giver].has_state;
}

// ---- Members that differ --------------------------------------------------------------------------

static bool differs(const exchange *x, int i) {
    return strcmp(x->members[i].options, x->members[x->giver].options) != 0;
}

// ELAS-6: those that differ from the giver fail, and the others continue without them. False: one differs.
static bool compare(gw_scope *s, const gw_elastic *j, const exchange *x) {
    int own = gw_group_rank(j->group);
    bool all_equal = true;
    for (int i = 0; i < x->count; i++) all_equal &= !differs(x, i);
    if (gw_ok(s) && differs(x, own))
        scope_fail(s, GW_MISMATCH, "gw_elastic_open: this member has %s; %s has %s",
                   x->members[own].options, gw_group_worker(s, j->group, x->giver).name,
                   x->members[x->giver].options);
    return all_equal;
}

// ---- The newest checkpoint ------------------------------------------------------------------------

static void load(gw_scope *s, gw_elastic *j, gw_map *values) {
    gw_module_load_state_dict(s, j->model, gw_map_of(s, gw_map_get(s, values, "model")));
    gw_optimizer_load_state_dict(s, j->opt, gw_map_of(s, gw_map_get(s, values, "optimizer")));
}

bool state_load_newest(gw_scope *root, gw_elastic *j) {
    gw_scope *t = gw_scope_open(root);
    gw_map *values = j->options.checkpoint ? checkpoints_find(t, j->options.checkpoint) : NULL;
    if (values) load(t, j, values);
    gw_scope_close_up(t);
    return gw_ok(root);
}

// On rank 0 of members that are all new, if they are not beyond it.
static void restore(gw_scope *s, gw_elastic *j, exchange *x) {
    gw_map *values = checkpoints_find(s, j->options.checkpoint);
    if (!values || !gw_ok(s)) return;
    int64_t step = gw_int_of(s, gw_map_get(s, values, "step"));
    if (!gw_ok(s) || step < x->members[x->giver].steps) return;
    load(s, j, values);
    if (!gw_ok(s)) scope_explain_error(s, "gw_elastic_open: the newest checkpoint");
    if (!gw_ok(s)) return;
    log_info("%s continues with the checkpoint of step %" PRId64, j->agent->name, step);
    x->checkpoint = values;
}

// ELAS-7: rank 0 reports to all whether it gives a checkpoint.
static void restore_for_all(gw_scope *s, gw_elastic *j, exchange *x) {
    if (gw_group_rank(j->group) == 0) restore(s, j, x);
    gw_value restored = gw_ok(s) ? gw_value_of(x->checkpoint != NULL) : gw_none();
    x->is_restored = gw_bool_of(s, gw_broadcast_value(s, j->group, restored, 0));
    if (x->is_restored) x->giver = 0;
}

// ---- The exchange ---------------------------------------------------------------------------------

static void receive_program(gw_scope *s, const gw_elastic *j, exchange *x) {
    const gw_elastic_options *o = &j->options;
    gw_value own = gw_none();
    if (gw_group_rank(j->group) == x->giver && gw_ok(s)) {
        gw_map *state = x->checkpoint ? gw_map_of(s, gw_map_get(s, x->checkpoint, "program"))
                                      : o->save(s, o->context);
        if (gw_ok(s)) own = gw_value_of(state);
    }
    gw_value given = gw_broadcast_value(s, j->group, own, x->giver);
    if (gw_ok(s)) x->program = gw_map_of(s, given);
}

// Everything has arrived before anything is put in place, so that a loss leaves a member with its old state or the new
// one: reform_replicas puts its part in place last, and what follows depends on this member alone.
static void put(gw_scope *s, gw_elastic *j, const exchange *x) {
    int own = gw_group_rank(j->group);
    const account *mine = &x->members[own], *given = &x->members[x->giver];
    bool is_behind =
        own == x->giver ? x->checkpoint != NULL : !mine->has_state || mine->steps < given->steps;
    reform_replicas(s, j->ddp, j->opt, j->group, !x->is_new && !mine->has_state);
    if (gw_ok(s) && x->program && is_behind) j->options.load(s, j->options.context, x->program);
    if (!gw_ok(s)) return;
    j->has_state = true;
    // The same on all members, so that all begin the next checkpoint.
    j->saved_step = x->is_restored ? gw_optimizer_steps(j->opt) : -1;
}

bool state_exchange(gw_scope *root, gw_elastic *j) {
    gw_scope *t = gw_scope_open(root);
    exchange x = { 0 };
    gather(t, j, &x);
    if (gw_ok(t)) choose_giver(&x);
    bool all_equal = gw_ok(t) && compare(t, j, &x);
    if (!all_equal && gw_ok(t)) {
        gw_error none = gw_scope_close(t);
        (void)none;
        return j->is_lost = true;
    }
    bool restores = x.is_new && j->options.checkpoint;
    if (all_equal && restores) restore_for_all(t, j, &x);
    if (all_equal && gw_ok(t) && j->options.save) receive_program(t, j, &x);
    if (all_equal && gw_ok(t)) put(t, j, &x);
    return elastic_close_part(root, t, &j->is_lost);
}
