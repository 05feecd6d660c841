// Meetings: all members agree between two steps on who is a member, and on what some of them want. ELAS-2 and ELAS-4 of
// docs/protocol/elastic.md.
#include "elastic/elastic.h"

#include "parallel/ddp/ddp.h"

// Bits that count if all members have set them.
enum {
    INTACT = 1,  // the last step has not failed, and no exchange of states
    NONE_PENDING = 2,
    NONE_LEAVES = 4,
    NONE_ASKS = 8,  // for a checkpoint
    EACH_LEAVES = 16
};
enum { REPEATS_MAX = 3 };

static bool wants_to_leave(const gw_elastic *j) {
    return atomic_load(&j->leaves) || (j->restores_signal && term_has_arrived());
}

static bool asks_for_checkpoint(const gw_elastic *j) {
    return atomic_load(&j->asks) || checkpoints_are_due_by_time(j);
}

bool meeting_is_wanted(const gw_elastic *j) {
    return gw_group_pending(j->group) || wants_to_leave(j) || asks_for_checkpoint(j);
}

static uint64_t own_flags(const gw_elastic *j, bool leaves, bool asks) {
    uint64_t flags = j->is_lost ? 0 : INTACT;
    if (!gw_group_pending(j->group)) flags |= NONE_PENDING;
    if (!asks) flags |= NONE_ASKS;
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
    gw_group *g = gw_group_reform(t, j->group, .min = j->options.min, .grow = true,
                                  .timeout_ms = j->options.timeout_ms);
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
    for (bool reforms = true; reforms && j->reason == GW_RUNNING;) {
        bool leaves = wants_to_leave(j), asks = asks_for_checkpoint(j), was_lost = false;
        gw_scope *t = gw_scope_open(root);
        gw_agreement all = gw_group_agree(t, j->group, own_flags(j, leaves, asks));
        if (!elastic_close_part(root, t, &was_lost)) return false;
        bool is_intact = !was_lost && (all.flags & INTACT) && !all.missing_count;
        if (!check_repeats(root, j, all.missing_count > 0)) return false;
        if (is_intact) {
            j->is_lost = false;
            if (!act(root, j, all.flags, leaves, asks, &reforms)) return false;
            if (!reforms || j->reason != GW_RUNNING) break;
        }
        if (!reform(root, j)) return false;
        if (!j->is_lost && !state_exchange(root, j)) return false;
    }
    wishes_forget(j->ddp);
    j->met_at_step = gw_optimizer_steps(j->opt);
    return true;
}
