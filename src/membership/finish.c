// The end of an event: commits the view, notifies the other members and the user.
#include "membership/membership_internal.h"

// MEM-17: the coordinator sends all changes to all others, every other worker sends them to the
// coordinator.
static void notify_members(membership *ms) {
    bool to_all = membership_is_coordinator(ms) || ms->spreads || ms->no_coordinator_ns;
    bool changed = false;
    for (member *x = NULL; (x = member_next(ms, x));) changed |= x->is_dirty;
    if (!changed) return;
    for (member *x = NULL; (x = member_next(ms, x));) {
        if (!member_is_present(x) || member_is_self(ms, x)) continue;
        bool has_it = x->fact.rank == ms->changed_by && x->reported == ms->digest;
        bool from_coordinator = ms->changed_by == ms->lowest;
        if (to_all ? !has_it : x->fact.rank == ms->lowest && !from_coordinator)
            membership_send_view(ms, x, x->wants_full);
        x->wants_full = false;
    }
    for (member *x = NULL; (x = member_next(ms, x));) x->is_dirty = false;
}

static void become_coordinator(membership *ms) {
    for (member *x = NULL; (x = member_next(ms, x));) {
        x->agrees = false;
        x->reported = 0;
        x->view_requested_ns = 0;
    }
}

static bool has_active(const membership *ms) {
    for (member *x = NULL; (x = member_next(ms, x));)
        if (x->fact.stage == MEMBER_ACTIVE) return true;
    return false;
}

// MEM-22
static void lose_admission(membership *ms) {
    gw_error why;
    const member_fact *by = &member_find(ms, ms->admitted_by)->fact;
    error_set(&why, GW_DISCONNECTED, "%s, which has admitted this worker, is lost", by->name);
    error_set_lost(&why, by->how, by->rank, by->incarnation, by->name);
    membership_fence(ms, &why);
}

static void change_coordinator(membership *ms, int64_t now_ns) {
    ms->coordinator = ms->lowest;
    ms->coordinator_since_ns = now_ns;
    ms->coordinator_has_quorum = ms->had_quorum;
    if (!ms->is_complete) {
        lose_admission(ms);
        return;
    }
    if (membership_is_coordinator(ms)) become_coordinator(ms);
    if (ms->options.coordinator_changed)
        ms->options.coordinator_changed(ms->options.user, ms->coordinator);
}

// Returns whether the user was notified of anything.
static bool notify_user(membership *ms) {
    bool notified = false;
    for (member *x = NULL; !ms->is_fenced && (x = member_next(ms, x));) {
        if (x->must_notify_joined) {
            x->must_notify_joined = false;
            x->was_present = x->fact.stage < MEMBER_FAILED;
            notified = true;
            if (!member_is_self(ms, x)) ms->options.joined(ms->options.user, &x->fact);
        }
        bool is_suspected = x->state == MEMBER_SUSPECTED;
        if (is_suspected != x->is_notified_suspected && x->state != MEMBER_GONE && !ms->is_fenced) {
            x->is_notified_suspected = is_suspected;
            notified = true;
            if (ms->options.suspected)
                ms->options.suspected(ms->options.user, x->fact.rank, is_suspected);
        }
        if (x->must_notify_gone && !ms->is_fenced) {
            x->must_notify_gone = false;
            notified = true;
            gw_error why;
            error_set(&why, x->why, "%s", x->fact.why);
            error_set_lost(&why, x->fact.how, x->fact.rank, x->fact.incarnation, x->fact.name);
            ms->options.gone(ms->options.user, x->fact.rank, x->fact.left, &why);
        }
    }
    return notified;
}

void membership_finish(membership *ms, int64_t now_ns) {
    if (ms->in_finish) return;
    ms->in_finish = true;
    for (bool again = true; again && !ms->is_fenced;) {
        if (ms->is_started && membership_is_coordinator(ms) && ms->is_complete && !ms->doubt_ns) {
            membership_commit_view(ms, now_ns);
            membership_announce(ms, now_ns);
        }
        // The user first: then it can send something to a joining member.
        again = notify_user(ms);
        if (ms->is_fenced) break;
        if (ms->is_started && !has_active(ms)) {
            lose_admission(ms);
            break;
        }
        notify_members(ms);
        ms->changed_by = -1;
        ms->spreads = false;
        if (ms->is_started && !ms->is_fenced && ms->coordinator != ms->lowest) {
            change_coordinator(ms, now_ns);
            again = true;
        }
    }
    ms->in_finish = false;
    if (!ms->must_notify_fenced) return;
    ms->must_notify_fenced = false;
    ms->options.fenced(ms->options.user, &ms->fenced_why);
}
