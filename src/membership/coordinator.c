// The coordinator's part: commits views once a quorum has them, and announces the members that it has admitted.
#include "membership/membership_internal.h"

#define AGAIN_NS INT64_C(1000000000)  // until the same request is repeated

static bool has_reported(const membership *ms, const member *x, int64_t within_ns, int64_t now_ns) {
    (void)within_ns, (void)now_ns;
    return member_is_self(ms, x) || x->reported == ms->digest;
}

// MEM-15: the coordinator waits until a quorum of the voters and a quorum of the present members have sent it the
// digest of its own view.
void membership_commit_view(membership *ms, int64_t now_ns) {
    if (!membership_has_pending(ms) || !membership_is_quorum(ms, true, has_reported, 0, now_ns) ||
        !membership_is_quorum(ms, false, has_reported, 0, now_ns))
        return;
    uint64_t before = ms->digest;
    for (member *x = NULL; (x = member_next(ms, x));) {
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
    for (member *x = NULL; (x = member_next(ms, x));)
        if (x->fact.stage == MEMBER_JOINING && x->alive_ns) return;
    for (member *x = NULL; (x = member_next(ms, x));) {
        if (!x->is_queued) continue;
        member_advance(ms, x, MEMBER_JOINING, false, NULL, now_ns);
        x->known_ns = now_ns;
        x->wants_full = x->agrees = true;
    }
}

void membership_request_views(membership *ms, int64_t now_ns) {
    if (!membership_is_coordinator(ms)) return;
    bool pending = membership_has_pending(ms);
    for (member *x = NULL; (x = member_next(ms, x));) {
        if (!member_is_present(x) || member_is_self(ms, x)) continue;
        if (x->agrees && !(pending && x->reported != ms->digest)) continue;
        if (x->view_requested_ns && now_ns - x->view_requested_ns < AGAIN_NS) continue;
        x->view_requested_ns = now_ns;
        membership_send_heartbeat(ms, x);
    }
}
