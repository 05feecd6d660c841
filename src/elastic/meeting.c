// Meetings: all members agree between two steps on who is a member, and on what some of them want. ELAS-2 and ELAS-4 of
// docs/protocol/elastic.md.
#include "elastic/elastic.h"

#include "base/mutation.h"
#include "parallel/ddp/ddp.h"

// Bits that count if all members have set them.
enum {
    INTACT = 1,  // the last step has not failed, and no exchange of states
    NONE_PENDING = 2,
    NONE_LEAVES = 4,
    NONE_ASKS = 8,  // for a checkpoint
    EACH_LEAVES = 16,
    IS_PATIENT = 32  // it has not been paused for the whole timeout
};
enum { REPEATS_MAX = 3, PAUSE_MS = 200 };

bool meeting_leaves(const gw_elastic *j) {
    return atomic_load(&j->leaves) || (atomic_load(&j->takes_term) && term_has_arrived());
}

static bool asks_for_checkpoint(const gw_elastic *j) {
    return atomic_load(&j->asks) || checkpoints_are_due_by_time(j);
}

bool meeting_is_wanted(const gw_elastic *j) {
    return gw_group_pending(j->group) || meeting_leaves(j) || asks_for_checkpoint(j);
}

// ---- Pauses ---------------------------------------------------------------------------------------

static int64_t paused_ms(const gw_elastic *j) {
    return j->is_paused ? (env_now_ns(j->agent->env) - j->paused_ns) / 1000000 : 0;
}

static bool is_patient(const gw_elastic *j) {
    if (has_mutation(MUTATION_PAUSE_WITHOUT_END)) return true;
    return !j->options.timeout_ms || paused_ms(j) < j->options.timeout_ms;
}

// Notes whether this member waits for others: the same on all members.
static bool pauses(gw_elastic *j) {
    bool are_few = j->reason == GW_RUNNING && gw_group_size(j->group) < j->options.min &&
                   gw_optimizer_steps(j->opt) < j->options.steps;
    if (has_mutation(MUTATION_PAUSE_LEFT_OUT)) return false;
    if (are_few && !j->is_paused) j->paused_ns = env_now_ns(j->agent->env);
    atomic_store(&j->is_paused, are_few);
    return are_few;
}

// All members of the group fail together, after a checkpoint.
static bool give_up(gw_scope *root, gw_elastic *j) {
    if (!checkpoints_write(root, j)) return false;
    return scope_fail(root, GW_TIMEOUT,
                      "gw_elastic_begin: %d members, fewer than .min = %d, for %lld s",
                      gw_group_size(j->group), j->options.min, (long long)paused_ms(j) / 1000);
}

// Until this member is asked to leave, or for a moment: then all agree again.
static void wait_a_moment(gw_scope *root, const gw_elastic *j) {
    gw_scope *t = gw_scope_open(root);
    gw_scope_set_timeout(t, PAUSE_MS);
    gw_wait(t, j->asked);
    scope_close_unread(t);
}

// ---- Agreeing -------------------------------------------------------------------------------------

static uint64_t own_flags(const gw_elastic *j, bool leaves, bool asks) {
    uint64_t flags = j->is_lost ? 0 : INTACT;
    if (!gw_group_pending(j->group)) flags |= NONE_PENDING;
    if (!asks) flags |= NONE_ASKS;
    if (is_patient(j)) flags |= IS_PATIENT;
    return flags | (leaves ? EACH_LEAVES : NONE_LEAVES);
}

// A step that fails since some other worker is lost, such as a parameter server, fails again and again.
static bool check_repeats(gw_scope *root, gw_elastic *j, bool misses_one) {
    if (j->is_lost && j->loss.status && !misses_one) j->repeats++;
    if (misses_one) j->repeats = 0;
    gw_error loss = j->loss;
    j->loss = (gw_error){ 0 };
    if (j->repeats < REPEATS_MAX) return true;
    return scope_fail_with(root, &loss);
}

// The next generation, with all pending joiners. False with |root| failed.
static bool reform(gw_scope *root, gw_elastic *j) {
    gw_scope *t = gw_scope_open(root);
    gw_group *g =
        gw_group_reform(t, j->group, .min = 1, .grow = true, .timeout_ms = j->options.timeout_ms);
    if (gw_ok(t)) {
        gw_set(j->own, &j->group, g);
        j->is_lost = false;
    }
    return elastic_close_part(root, t, &j->is_lost);
}

// The others do not wait for it when they re-form the group. Its part of a checkpoint is written before it leaves the
// job.
static void leave(gw_elastic *j) {
    gw_group *g = j->group;
    j->group = NULL;
    gw_drop(j->own, g);
    j->reason = GW_LEAVING;
}

// All leave, none joins: what they have is in a checkpoint. False: a member was lost meanwhile, and the others meet
// again.
static bool save_before_all_leave(gw_scope *root, gw_elastic *j) {
    return checkpoints_write(root, j) && !j->is_lost;
}

// What the members have agreed on, while all are present: whether they re-form the group, else a checkpoint. False with
// |root| failed.
static bool act(gw_scope *root, gw_elastic *j, uint64_t flags, bool leaves, bool asks,
                bool *out_reforms) {
    bool is_pending = !(flags & NONE_PENDING), some_leave = !(flags & NONE_LEAVES);
    *out_reforms = is_pending || some_leave;
    // Joining members first: if all others leave, they have the state.
    bool leaves_now = some_leave && !is_pending;
    if (leaves_now && (flags & EACH_LEAVES) && !save_before_all_leave(root, j)) return gw_ok(root);
    if (leaves_now && leaves) leave(j);
    if (*out_reforms) return true;
    j->saves = !(flags & NONE_ASKS);
    if (asks) atomic_store(&j->asks, false);
    return true;
}

bool meeting_hold(gw_scope *root, gw_elastic *j) {
    while (j->reason == GW_RUNNING) {
        bool leaves = meeting_leaves(j), asks = asks_for_checkpoint(j);
        bool reforms = true, was_lost = false;
        gw_scope *t = gw_scope_open(root);
        gw_agreement all = gw_group_agree(t, j->group, own_flags(j, leaves, asks));
        if (!elastic_close_part(root, t, &was_lost)) return false;
        bool is_intact = !was_lost && (all.flags & INTACT) && !all.missing_count;
        if (!check_repeats(root, j, all.missing_count > 0)) return false;
        if (is_intact) {
            j->is_lost = false;
            if (!act(root, j, all.flags, leaves, asks, &reforms)) return false;
            if (j->reason != GW_RUNNING) break;
            if (!reforms && !pauses(j)) break;
            if (!reforms && !(all.flags & IS_PATIENT)) return give_up(root, j);
        }
        if (!reforms) {
            wait_a_moment(root, j);
            continue;
        }
        if (!reform(root, j)) return false;
        if (!j->is_lost && !state_exchange(root, j)) return false;
    }
    wishes_forget(j->ddp);
    j->met_at_step = gw_optimizer_steps(j->opt);
    return true;
}
