// Admits joining members, on the coordinator.
#include "membership/membership_internal.h"

#include "base/limits.h"

#include <stdio.h>
#include <string.h>

// The others may have members that an earlier coordinator admitted and this one does not have. So
// it admits no member before it has the views of all.
static bool has_all_views(const membership *ms) {
    for (member *x = NULL; (x = member_next(ms, x));)
        if (member_is_present(x) && !member_is_self(ms, x) && !x->agrees) return false;
    return true;
}

static const member *find_same(const membership *ms, uint64_t incarnation, const char *name) {
    for (member *x = NULL; (x = member_next(ms, x));) {
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
        return error_set(error, GW_WRONG_STATE,
                         "this worker cannot admit new workers: rank %d does", ms->lowest);
    const member *same = find_same(ms, incarnation, name);
    bool is_again = same && same->fact.incarnation == incarnation;
    if (is_again) *out_rank = same->fact.rank;
    // Nothing changes for a member that has not received its rank, and is silent until then.
    if (is_again && !same->is_queued) return GW_OK;
    if (ms->doubt_ns || !membership_receives_from_quorum(ms, MEMBERSHIP_SUSPECT_NS, now_ns) ||
        !has_all_views(ms))
        return error_set(error, GW_WRONG_STATE, "%s has no contact with a quorum now",
                         ms->options.name);
    if (is_again) return GW_OK;
    if (same)
        return error_set(error, GW_DUPLICATE, "the name \"%s\" is taken by rank %d", name,
                         same->fact.rank);
    if (ms->limit >= LIMIT_WORKERS)
        return error_set(error, GW_LIMIT, "the job has had %d workers, and has no more ranks",
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
