// The coordinator's part: commits views once a quorum has them, and admits joining members.
#include "membership/membership_internal.h"

#include "base/limits.h"

#include <stdio.h>
#include <string.h>

#define AGAIN_NS INT64_C(1000000000)  // until the same request is repeated

bool membership_has_pending(const membership *ms) {
    int rank = 0;
    for (member *x; (x = member_next(ms, &rank));)
        if (x->fact.stage == MEMBER_JOINING || x->fact.stage == MEMBER_FAILED) return true;
    return false;
}

static bool has_reported(const membership *ms, const member *x, int64_t within_ns, int64_t now_ns) {
    (void)within_ns, (void)now_ns;
    return member_is_self(ms, x) || x->reported == ms->digest;
}

// MEM-15: "The coordinator waits until a quorum of the voters and a quorum of the present members
// have sent it its own digest."
void membership_commit_view(membership *ms, int64_t now_ns) {
    if (!membership_has_pending(ms) || !membership_is_quorum(ms, true, has_reported, 0, now_ns) ||
        !membership_is_quorum(ms, false, has_reported, 0, now_ns))
        return;
    uint64_t before = ms->digest;
    int rank = 0;
    for (member *x; (x = member_next(ms, &rank));) {
        if (x->fact.stage == MEMBER_FAILED) {
            member_advance(ms, x, MEMBER_REMOVED, x->fact.left, NULL, now_ns);
        } else if (x->fact.stage == MEMBER_JOINING &&
                   (member_is_self(ms, x) || x->reported == before)) {
            member_advance(ms, x, MEMBER_ACTIVE, false, NULL, now_ns);
        }
    }
}

// MEM-16: one addition at a time. Members that are admitted meanwhile are added together with the next.
void membership_announce(membership *ms, int64_t now_ns) {
    int rank = 0;
    for (member *x; (x = member_next(ms, &rank));)
        if (x->fact.stage == MEMBER_JOINING && x->alive_ns) return;
    rank = 0;
    for (member *x; (x = member_next(ms, &rank));) {
        if (!x->is_queued) continue;
        member_advance(ms, x, MEMBER_JOINING, false, NULL, now_ns);
        x->known_ns = now_ns;
        x->wants_full = x->agrees = true;
    }
}

// The others may have members that an earlier coordinator admitted and this one does not have. So
// it admits no member before it has the views of all.
static bool has_all_views(const membership *ms) {
    int rank = 0;
    for (member *x; (x = member_next(ms, &rank));)
        if (member_is_present(x) && !member_is_self(ms, x) && !x->agrees) return false;
    return true;
}

static const member *find_same(const membership *ms, uint64_t incarnation, const char *name) {
    int rank = 0;
    for (member *x; (x = member_next(ms, &rank));) {
        if (!member_is_present(x) && !x->is_queued) continue;
        if (x->fact.incarnation == incarnation || !strcmp(x->fact.name, name)) return x;
    }
    return NULL;
}

gw_status membership_admit(membership *ms, uint64_t incarnation, const char *name,
                           const char *addresses, int64_t now_ns, int *out_rank, gw_error *error) {
    if (ms->is_fenced) {
        *error = ms->fenced_why;
        return error->status = GW_FENCED;
    }
    if (!membership_is_coordinator(ms) || !ms->is_complete)
        return error_set(error, GW_WRONG_STATE, "rank %d admits new workers, not this one",
                         ms->lowest);
    const member *same = find_same(ms, incarnation, name);
    bool is_again = same && same->fact.incarnation == incarnation;
    if (is_again) *out_rank = same->fact.rank;
    // Nothing changes for a member that has not received its rank, and is silent until then.
    if (is_again && !same->is_queued) return GW_OK;
    if (ms->doubt_ns || !membership_receives_from_quorum(ms, MEMBERSHIP_SUSPECT_NS, now_ns) ||
        !has_all_views(ms))
        return error_set(error, GW_WRONG_STATE, "%s does not receive from a quorum now",
                         ms->options.name);
    if (is_again) return GW_OK;
    if (same)
        return error_set(error, GW_DUPLICATE, "the name \"%s\" is taken by rank %d", name,
                         same->fact.rank);
    if (ms->limit >= LIMIT_WORKERS)
        return error_set(error, GW_LIMIT, "there were %d workers already, and no more ranks",
                         LIMIT_WORKERS);
    member_fact f = { .rank = ms->limit, .incarnation = incarnation };
    snprintf(f.name, sizeof f.name, "%s", name);
    snprintf(f.addresses, sizeof f.addresses, "%s", addresses);
    member *x = member_make(ms, &f, now_ns);
    if (!x) return error_set(error, GW_NO_MEMORY, "no memory for %s", name);
    x->is_queued = true;
    *out_rank = f.rank;
    membership_finish(ms, now_ns);
    return GW_OK;
}

void membership_request_views(membership *ms, int64_t now_ns) {
    if (!membership_is_coordinator(ms)) return;
    bool pending = membership_has_pending(ms);
    int rank = 0;
    for (member *x; (x = member_next(ms, &rank));) {
        if (!member_is_present(x) || member_is_self(ms, x)) continue;
        if (x->agrees && !(pending && x->reported != ms->digest)) continue;
        if (x->view_requested_ns && now_ns - x->view_requested_ns < AGAIN_NS) continue;
        x->view_requested_ns = now_ns;
        membership_send_heartbeat(ms, x);
    }
}
