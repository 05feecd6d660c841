// The functions of gradwire/elastic.h.
#include "elastic/elastic.h"

#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/mutation.h"
#include "optim/optimizer.h"
#include "parallel/ddp/ddp.h"
#include "parallel/shard/shard.h"
#include <gradwire/ops.h>
#include <gradwire/ref.h>
#include "trace/record.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void destroy(gw_handle *h) {
    gw_elastic *j = (gw_elastic *)(void *)h;
    jobs_remove(j);
    if (atomic_load(&j->takes_term)) term_give_back();
    handle_release(j->asked);
    agent_release(j->agent);
    mem_free(j);
}

static const handle_class elastic_class = { .name = "elastic job", .destroy = destroy };

static void stay(gw_handle *h) {
    (void)h;
}

static const handle_class poison_class = { .name = "elastic job", .destroy = stay };
static gw_elastic elastic_poison = { .handle = { &poison_class, HANDLE_IMMORTAL },
                                     .reason = GW_FAILED };

// Whether |j| can be used: else |s| has failed.
static bool is_usable(gw_scope *s, const char *what, const gw_elastic *j) {
    if (!j || j == &elastic_poison)
        scope_fail(s, GW_INVALID, "%s: %s", what,
                   j ? "the job could not be opened" : "job is NULL");
    return gw_ok(s);
}

gw_elastic *elastic_poisoned(void) {
    return &elastic_poison;
}

static bool is_open(const gw_elastic *j) {
    return j && j != &elastic_poison && j->group;
}

bool elastic_close_part(gw_scope *root, gw_scope *t, bool *out_lost) {
    gw_error e = gw_scope_close(t);
    if (e.status == GW_DISCONNECTED) {
        *out_lost = true;
        return true;
    }
    if (e.status) scope_fail_with(root, &e);
    return gw_ok(root);
}

const char *elastic_finished_name(gw_scope *s, const char *name) {
    return gw_format(s, "finished:%016" PRIx64, hash_bytes(name, strlen(name)));
}

// ---- Opening --------------------------------------------------------------------------------------

static bool check_numbers(gw_scope *s, const gw_elastic_options *o) {
    const struct {
        const char *name;
        int64_t is, min;
    } numbers[] = { { "steps", o->steps, 1 },
                    { "min", o->min, 0 },
                    { "size", o->size, 0 },
                    { "every_ms", o->every_ms, 0 },
                    { "every_steps", o->every_steps, 0 },
                    { "keep", o->keep, 1 },
                    { "meet_every", o->meet_every, 1 },
                    { "timeout_ms", o->timeout_ms, 0 } };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && gw_ok(s); i++)
        if (numbers[i].is < numbers[i].min)
            scope_fail(s, GW_INVALID,
                       "gw_elastic_open: .%s is %" PRId64 ", but must be at least %" PRId64,
                       numbers[i].name, numbers[i].is, numbers[i].min);
    return gw_ok(s);
}

static bool check_parameters(gw_scope *s, const gw_module *model, const gw_optimizer *opt) {
    int found = 0;
    for (int i = 0; gw_ok(s) && i < gw_module_parameter_count(model); i++)
        found += optimizer_has(opt, opt->parameter_count, gw_module_parameter_at(s, model, i));
    if (gw_ok(s) && found < opt->parameter_count)
        scope_fail(
            s, GW_INVALID,
            "gw_elastic_open: the optimizer has %d parameters, of which %d are not parameters "
            "of the model",
            opt->parameter_count, opt->parameter_count - found);
    return gw_ok(s);
}

static bool check(gw_scope *s, const gw_module *model, const gw_optimizer *opt,
                  const gw_elastic_options *o) {
    if (!gw_ok(s) || !check_numbers(s, o)) return false;
    if (!model) return scope_fail(s, GW_INVALID, "gw_elastic_open: model is NULL");
    if (!optimizer_check(s, opt, "gw_elastic_open")) return false;
    if (opt->remote)
        return scope_fail(s, GW_INVALID, "gw_elastic_open: the optimizer %s",
                          shard_of(opt) ? "is sharded" : "has parameters of other workers");
    if (!check_parameters(s, model, opt)) return false;
    if (o->name && !*o->name) return scope_fail(s, GW_INVALID, "gw_elastic_open: .name is empty");
    if ((unsigned)o->on_term > GW_IGNORE)
        return scope_fail(s, GW_INVALID,
                          "gw_elastic_open: .on_term is %d, which is not a gw_on_term",
                          (int)o->on_term);
    if (!o->save != !o->load)
        return scope_fail(s, GW_INVALID, "gw_elastic_open: .save and .load are set together");
    return true;
}

// The texts of |o| outlive the caller's.
static void keep_options(gw_scope *root, gw_elastic *j, const gw_elastic_options *o) {
    const char *folder = o->checkpoint ? o->checkpoint : getenv("GW_CHECKPOINT_DIR");
    j->options = *o;
    j->options.name = gw_format(j->own, "%s", o->name ? o->name : "trainers");
    j->options.checkpoint = folder && *folder ? gw_format(j->own, "%s", folder) : NULL;
    if (j->options.checkpoint) checkpoints_check(root, j->options.checkpoint);
}

gw_elastic *elastic_make(gw_scope *root, const char *what) {
    gw_elastic *j = mem_calloc(sizeof *j);
    if (!j) {
        scope_fail(root, GW_NO_MEMORY, "%s: no memory", what);
        return NULL;
    }
    handle_init(&j->handle, &elastic_class);
    j = scope_own(root, j);
    if (!j) return NULL;
    j->root = root;
    j->own = gw_scope_open(root);
    return j;
}

static gw_elastic *make(gw_scope *root, gw_module *model, gw_optimizer *opt,
                        const gw_elastic_options *o) {
    gw_elastic *j = elastic_make(root, "gw_elastic_open");
    if (!j) return NULL;
    j->model = gw_keep(j->own, model);
    j->opt = gw_keep(j->own, opt);
    j->met_at_step = j->saved_step = -1;
    keep_options(root, j, o);
    return j;
}

void elastic_report_state(gw_elastic *j) {
    if (!j->lacks_state || !j->has_state) return;
    env_enter(j->agent->env);
    agent_notify_launcher(j->agent, "elastic", j->agent->incarnation, "");
    env_leave(j->agent->env);
    j->lacks_state = false;
}

void elastic_take_term(gw_elastic *j) {
    if (j->options.on_term == GW_LEAVE) atomic_store(&j->takes_term, term_take(jobs_term_arrived));
}

bool elastic_open_for_requests(gw_scope *root, gw_elastic *j, const char *what) {
    gw_scope *t = gw_scope_open(root);
    j->asked = handle_retain(gw_future_open(t));
    gw_scope_close_up(t);
    if (gw_ok(root) && !jobs_add(j))
        scope_fail(root, GW_DUPLICATE,
                   "%s: %s has another open job \"%s\": each needs a .name of its own", what,
                   j->agent->name, j->options.name);
    return gw_ok(root);
}

static bool enter(gw_scope *root, gw_elastic *j) {
    launched at;
    if (!gw_ok(root) || !launched_read(root, getenv, &at)) return false;
    if (!enter_job(root, j, &at) || !elastic_open_for_requests(root, j, "gw_elastic_open") ||
        !enter_group(root, j))
        return gw_ok(root) && state_load_newest(root, j);
    if (!state_exchange(root, j)) return false;
    elastic_report_state(j);
    if (!meeting_hold(root, j)) return false;
    elastic_report_state(j);
    j->saved_ns = env_now_ns(j->agent->env);
    elastic_take_term(j);
    return true;
}

gw_elastic *gw_elastic_open_with(gw_scope *root, gw_module *model, gw_optimizer *opt,
                                 gw_elastic_options options) {
    gw_elastic *j = check(root, model, opt, &options) ? make(root, model, opt, &options) : NULL;
    if (j && enter(root, j)) return j;
    if (j) jobs_remove(j);
    return &elastic_poison;
}

// ---- Steps ----------------------------------------------------------------------------------------

static const char unequal_passes[] =
    "members have made unequal numbers of backward passes in a step";

static bool must_meet(const gw_elastic *j, int64_t step) {
    if (j->is_lost || wishes_of_some(j->ddp)) return true;
    if (gw_group_size(j->group) == 1 && meeting_is_wanted(j)) return true;
    if (step >= j->options.steps) return step != j->met_at_step;
    return !wishes_are_carried(j->ddp) && step % j->options.meet_every == 0 &&
           step != j->met_at_step;
}

static void report_finished(gw_elastic *j) {
    env_enter(j->agent->env);
    agent_notify_launcher(j->agent, "finished", j->agent->incarnation, "");
    env_leave(j->agent->env);
    j->reason = GW_FINISHED;
}

// Workers that have not joined get to know this by a name, and by the launcher.
static void finish(gw_scope *root, gw_elastic *j) {
    gw_scope *t = gw_scope_open(root);
    const char *name = elastic_finished_name(t, j->options.name);
    gw_rref_set_name(t, gw_remote(t, gw_rpc_self(t), "gw.abs", gw_zeros(t, GW_F32, 1)), name);
    gw_error e = gw_scope_close(t);
    if (e.status && e.status != GW_DUPLICATE)
        log_line("workers that join the job of %s cannot find out that it has finished: %s",
                 j->agent->name, e.text);
    report_finished(j);
}

static bool is_member(const gw_elastic *j, const gw_lost_worker *of) {
    for (int i = 0; of->how && i < j->group->count; i++)
        if (j->group->members[i].incarnation == of->incarnation) return true;
    return false;
}

// ELAS-12: ends passes that other members have begun instead of meeting. The loss of a member ends them anyway.
static void close_step(gw_elastic *j) {
    gw_error why = j->loss;
    if (j->is_lost && is_member(j, &why.lost)) return;
    if (why.status)
        why.status = GW_DISCONNECTED;
    else
        error_set(&why, GW_CANCELLED, "%s: it has ended step %" PRId64, unequal_passes,
                  j->step_number);
    steps_close(j->ddp, &why);
}

static bool meet(gw_scope *root, gw_elastic *j) {
    if (gw_group_size(j->group) > 1) close_step(j);
    return meeting_hold(root, j);
}

// A loss while a checkpoint begins, or while the members wait for the last one, is handled at once.
static bool prepare(gw_scope *root, gw_elastic *j) {
    do {
        if (must_meet(j, gw_optimizer_steps(j->opt)) && !meet(root, j)) return false;
        if (j->reason == GW_RUNNING && !checkpoints_begin_if_due(root, j)) return false;
    } while (j->reason == GW_RUNNING && j->is_lost);
    if (j->reason == GW_RUNNING && gw_optimizer_steps(j->opt) >= j->options.steps) finish(root, j);
    return j->reason == GW_RUNNING;
}

// An error about what members have in common is an error of all of them.
static bool is_common(const gw_error *e) {
    return e->status == GW_MISMATCH || e->status == GW_TIMEOUT;
}

// The others continue without this member, whenever it leaves the job.
static void fail(gw_scope *root, gw_elastic *j) {
    gw_group *g = j->group;
    const agent *a = j->agent;
    gw_error why;
    j->reason = GW_FAILED;
    if (!g) return;
    why = *scope_error(root);
    if (!is_common(&why)) {
        error_set(&why, GW_DISCONNECTED, "%s has failed: %s", a->name, scope_error(root)->text);
        error_set_lost(&why, GW_LOSS_LEFT, a->rank, a->incarnation, a->name);
    }
    steps_end(j->ddp, &why);
    j->group = NULL;
    gw_drop(j->own, g);
}

gw_scope *gw_elastic_begin(gw_scope *root, gw_elastic *j) {
    if (!is_usable(root, "gw_elastic_begin", j)) {
        if (j && j != &elastic_poison && j->reason == GW_RUNNING) fail(root, j);
        return NULL;
    }
    if (!j->opt) {
        scope_fail(root, GW_WRONG_STATE,
                   "gw_elastic_begin: a job of gw_elastic_join has no replicas and no steps");
        return NULL;
    }
    if (j->step)
        scope_fail(root, GW_WRONG_STATE, "gw_elastic_begin: step %" PRId64 " has not ended",
                   j->step_number);
    bool begins = gw_ok(root) && j->reason == GW_RUNNING && prepare(root, j);
    if (!gw_ok(root) && j->reason == GW_RUNNING) fail(root, j);
    if (!begins) return NULL;
    j->step_number = gw_optimizer_steps(j->opt);
    steps_begin(j->ddp, j->step_number);
    wishes_set_own(j->ddp, meeting_is_wanted(j));
    j->step = gw_scope_open(root);
    gw_scope_label(j->step, "step %" PRId64, j->step_number);
    if (gw_ok(j->step)) j->step->is_lent = !has_mutation(MUTATION_STEP_SCOPE_CLOSES);
    return j->step;
}

// Whether |e| is that of another member's program, which has ended a pass on all members: that member fails, as if it
// were lost.
static bool is_of_other(const gw_elastic *j, const gw_error *e) {
    return e->status && !is_common(e) && e->aborts[0].group && e->worker[0] &&
           strcmp(e->worker, j->agent->name) != 0;
}

// The error of a pass that members differ in, or that another member has not begun, since it meets (close_step).
static void explain(const gw_elastic *j, gw_error *e) {
    bool is_of_pass = e->aborts[0].group && group_has_reported(j->ddp->group, e);
    if (is_of_pass && e->status == GW_MISMATCH) error_prefix(e, unequal_passes);
    if (is_of_pass && e->status == GW_CANCELLED) e->status = GW_MISMATCH;
}

static bool check_step(gw_elastic *j, int64_t made) {
    if (made != 1)
        return scope_fail(j->root, GW_INVALID,
                          "gw_elastic_end: step %" PRId64 " has called gw_optimizer_step %" PRId64
                          " times, not once",
                          j->step_number, made);
    if (steps_passes(j->ddp) < 1)
        return scope_fail(j->root, GW_INVALID,
                          "gw_elastic_end: step %" PRId64
                          " has made no backward pass of the replicas",
                          j->step_number);
    return true;
}

bool gw_elastic_end(gw_elastic *j, gw_scope *s) {
    if (!j || j == &elastic_poison) return false;
    if (!j->step || s != j->step) {
        scope_fail(j->root, j->step ? GW_INVALID : GW_WRONG_STATE, "gw_elastic_end: %s",
                   j->step ? "this is not the scope of the step" : "no step has begun");
        return false;
    }
    s->is_lent = false;
    gw_error e = gw_scope_close(s);
    j->step = NULL;
    explain(j, &e);
    int64_t made = gw_optimizer_steps(j->opt) - j->step_number;
    if (e.status == GW_DISCONNECTED || is_of_other(j, &e)) {
        j->is_lost = true;
        j->loss = e;
    } else if (e.status) {
        scope_fail_with(j->root, &e);
    }
    if (e.status) return made == 1;
    j->repeats = 0;
    if (trace_is_on(TRACE_STEP))
        trace_record(TRACE_ELASTIC_STEP, j->agent->observer.row, (uint64_t)j->step_number,
                     (uint64_t)j->ddp->group->count, 0);
    return check_step(j, made);
}

// ---- Closing --------------------------------------------------------------------------------------

// Waits for a request to leave end.
static void end_requests(gw_elastic *j) {
    gw_scope *t = agent_scope_open(j->agent, 0, 0, ENV_NEVER);
    gw_future_fail(t, j->asked, GW_CANCELLED, "the elastic job has closed");
    scope_close_unread(t);
}

// Without replicas the program decides when the work is done: by closing the job before it is asked to leave.
static void end_joined(gw_elastic *j) {
    if (j->reason != GW_RUNNING) return;
    if (meeting_leaves(j))
        j->reason = GW_LEAVING;
    else
        report_finished(j);
}

void gw_elastic_close(gw_scope *root, gw_elastic *j) {
    if (!j || j == &elastic_poison || !j->own) {
        if (!j || j == &elastic_poison) is_usable(root, "gw_elastic_close", j);
        return;
    }
    if (j->step) {
        j->step->is_lent = false;
        gw_scope_close_up(j->step);
        scope_fail(root, GW_WRONG_STATE, "gw_elastic_close: step %" PRId64 " has not ended",
                   j->step_number);
        j->step = NULL;
    }
    if (!gw_ok(root) && j->reason == GW_RUNNING) fail(root, j);
    if (j->opt) j->step_number = gw_optimizer_steps(j->opt);
    if (j->opt && gw_ok(root)) checkpoints_await(root, j);
    if (!j->opt && gw_ok(root)) end_joined(j);
    bool is_alone = j->reason == GW_LEAVING || !gw_ok(root);
    if (j->has_joined && j->agent && is_alone) gw_rpc_leave(root);
    if (j->has_joined && j->agent && !is_alone) gw_rpc_shutdown(root);
    j->group = NULL;
    scope_close_unread(j->own);
    j->own = NULL;
    jobs_remove(j);
    if (atomic_exchange(&j->takes_term, false)) term_give_back();
    if (j->asked) end_requests(j);
}

// ---- Reading --------------------------------------------------------------------------------------

int64_t gw_elastic_step(const gw_elastic *j) {
    if (!j || j == &elastic_poison) return 0;
    return j->opt && j->own && !j->step ? gw_optimizer_steps(j->opt) : j->step_number;
}

int gw_elastic_rank(const gw_elastic *j) {
    return is_open(j) ? gw_group_rank(j->group) : 0;
}

int gw_elastic_size(const gw_elastic *j) {
    return is_open(j) ? gw_group_size(j->group) : 1;
}

int gw_elastic_generation(const gw_elastic *j) {
    return is_open(j) ? gw_group_generation(j->group) : 0;
}

gw_elastic_reason gw_elastic_get_reason(const gw_elastic *j) {
    if (!j) return GW_FAILED;
    gw_elastic_reason reason = atomic_load(&j->reason);
    return reason == GW_RUNNING && atomic_load(&j->is_paused) ? GW_PAUSED : reason;
}

const char *gw_elastic_reason_name(gw_elastic_reason reason) {
    switch (reason) {
    case GW_RUNNING: return "running";
    case GW_FINISHED: return "finished";
    case GW_LEAVING: return "leaving";
    case GW_FAILED: return "failed";
    case GW_PAUSED: return "paused";
    }
    return "unknown";
}

gw_group *gw_elastic_group(const gw_elastic *j) {
    return is_open(j) ? j->group : NULL;
}

gw_ddp *gw_elastic_ddp(const gw_elastic *j) {
    return is_open(j) ? j->ddp : NULL;
}

gw_share gw_elastic_share(const gw_elastic *j, int64_t count) {
    int64_t rank = gw_elastic_rank(j), size = gw_elastic_size(j);
    if (count < 1) return (gw_share){ 0 };
    // The first |more| members take one sample more.
    int64_t each = count / size, more = count % size;
    gw_share part = { .first = rank * each + (rank < more ? rank : more),
                      .count = each + (rank < more) };
    part.weight = (double)part.count * (double)size / (double)count;
    return part;
}

// ---- Wishes ---------------------------------------------------------------------------------------

void gw_elastic_leave(gw_elastic *j) {
    if (!j || j == &elastic_poison || atomic_exchange(&j->leaves, true)) return;
    if (j->asked) asked_complete(j->agent, j->asked);
}

bool gw_elastic_leaving(const gw_elastic *j) {
    return j && j != &elastic_poison && meeting_leaves(j);
}

gw_future *gw_elastic_asked(gw_scope *s, gw_elastic *j) {
    if (gw_ok(s) && is_usable(s, "gw_elastic_asked", j) && j->asked) return gw_keep(s, j->asked);
    gw_future *none = gw_future_open(s);
    if (gw_ok(s)) gw_future_fail(s, none, GW_CANCELLED, "the elastic job has finished");
    return none;
}

void gw_elastic_ask_checkpoint(gw_elastic *j) {
    if (j && j != &elastic_poison && j->options.checkpoint) atomic_store(&j->asks, true);
}
