// The view: its changes, merging those of other members, and sending it to them.
#include "membership/membership_internal.h"

#include "base/log.h"
#include "base/mutation.h"

#include <stdio.h>

#define AGAIN_NS INT64_C(1000000000)  // until the same is sent or requested again

// ---- Stages -------------------------------------------------------------------------------------
static void find_lowest(membership *ms) {
    for (member *x = NULL; (x = member_next(ms, x));) {
        if (!member_is_present(x)) continue;
        ms->lowest = x->fact.rank;
        return;
    }
    ms->lowest = ms->options.rank;
}

bool member_advance(membership *ms, member *x, member_stage stage, bool left, const gw_error *why,
                    int64_t now_ns) {
    member_stage before = x->fact.stage;
    if (stage <= before) return false;
    member_fact *f = &x->fact;
    if (before) ms->digest ^= member_digest(f->rank, f->incarnation, before);
    ms->digest ^= member_digest(f->rank, f->incarnation, stage);
    f->stage = stage;
    x->is_dirty = true;
    x->is_queued = false;
    if (before == MEMBER_UNKNOWN) {
        x->must_notify_joined = true;
        ms->epoch++;
    }
    if (before < MEMBER_FAILED && stage >= MEMBER_FAILED) {
        ms->epoch++;
        f->left = left;
        x->why = why->status;
        f->how = why->lost.how;
        snprintf(f->why, sizeof f->why, "%.255s", why->text);
        member_apply(ms, x, MEMBER_END, now_ns);
    } else if (stage == MEMBER_REMOVED) {
        f->left = left;
    }
    // MEM-24: a fact that no quorum has may not hold for the others.
    if (stage == MEMBER_REMOVED && !has_mutation(MUTATION_ACTS_ALONE)) x->must_notify_gone = true;
    if (stage == MEMBER_FAILED && has_mutation(MUTATION_ACTS_ALONE)) x->must_notify_gone = true;
    find_lowest(ms);
    return true;
}

bool membership_has_pending(const membership *ms) {
    for (member *x = NULL; (x = member_next(ms, x));)
        if (x->fact.stage == MEMBER_JOINING || x->fact.stage == MEMBER_FAILED) return true;
    return false;
}

// ---- Sending ------------------------------------------------------------------------------------
void membership_send_view(membership *ms, const member *to, bool full) {
    membership_message view = {
        .kind = MEMBERSHIP_VIEW,
        .digest = ms->digest,
        .flags = (uint8_t)((ms->has_quorum ? MEMBERSHIP_HAS_QUORUM : 0) |
                           (membership_is_coordinator(ms) && membership_has_pending(ms)
                                ? MEMBERSHIP_REQUESTS_ANSWER
                                : 0) |
                           (full ? MEMBERSHIP_FULL : 0)),
    };
    message *m = membership_encode(&view);
    if (!m) return;  // the digests of heartbeats will differ
    for (member *x = NULL; (x = member_next(ms, x));)
        if (x->fact.stage != MEMBER_UNKNOWN && (full || x->is_dirty))
            membership_add_fact(m, &x->fact);
    ms->options.send(ms->options.user, to->fact.rank, m);
}

// Not the same repeatedly, in case the other has no memory for it.
static void send_full(membership *ms, member *to, int64_t now_ns) {
    bool again = to->full_sent == ms->digest && to->full_for == to->reported;
    if (again && now_ns - to->full_ns < AGAIN_NS) return;
    to->full_sent = ms->digest;
    to->full_for = to->reported;
    to->full_ns = now_ns;
    membership_send_view(ms, to, true);
}

static void send_view_ack(membership *ms, const member *to) {
    message *m = membership_encode(
        &(membership_message){ .kind = MEMBERSHIP_VIEW_ACK, .digest = ms->digest });
    if (m) ms->options.send(ms->options.user, to->fact.rank, m);
}

// ---- The views of others ------------------------------------------------------------------------
static void note_reported_digest(membership *ms, member *from, const membership_message *m) {
    from->reported = m->digest;
    if (m->digest == ms->digest) from->agrees = ms->is_complete = true;
    if (m->kind != MEMBERSHIP_VIEW_ACK && from->fact.rank == ms->lowest)
        ms->coordinator_has_quorum = m->flags & MEMBERSHIP_HAS_QUORUM;
}

// MEM-17: a worker that receives another digest than its own answers with its view; if an answer is requested
// and the digest is the same, with a view ack.
static void answer_digest(membership *ms, member *from, const membership_message *m,
                          int64_t now_ns) {
    if (from->fact.stage == MEMBER_UNKNOWN) return;  // not announced yet
    if (m->digest != ms->digest) {
        send_full(ms, from, now_ns);
    } else if (m->flags & MEMBERSHIP_REQUESTS_ANSWER) {
        send_view_ack(ms, from);
    }
}

void membership_note_digest(membership *ms, member *from, const membership_message *m,
                            int64_t now_ns) {
    note_reported_digest(ms, from, m);
    if (m->kind == MEMBERSHIP_HEARTBEAT) answer_digest(ms, from, m, now_ns);
}

static gw_status check_identities(const membership *ms, membership_message m, gw_error *error) {
    member_fact f;
    for (uint32_t i = 0; i < m.fact_count; i++) {
        membership_next_fact(&m, &f);
        const member *x = member_find(ms, f.rank);
        if (x && x->fact.incarnation != f.incarnation)
            return error_set(error, GW_PROTOCOL, "view: rank %d is %s, not %s", f.rank,
                             x->fact.name, f.name);
    }
    return GW_OK;
}

static void merge_fact(membership *ms, const member_fact *f, int64_t now_ns) {
    gw_error why;
    if (f->stage >= MEMBER_FAILED) error_set(&why, GW_DISCONNECTED, "%s", f->why);
    if (f->stage >= MEMBER_FAILED) error_set_lost(&why, f->how, f->rank, f->incarnation, f->name);
    if (f->rank == ms->options.rank && f->stage >= MEMBER_FAILED) {
        error_set(&why, GW_FENCED,
                  "the other workers have declared this worker dead: %s; call gw_rpc_init on "
                  "another scope to join again",
                  f->why);
        membership_fence(ms, &why);
        return;
    }
    member *x = member_find(ms, f->rank);
    if (!x) x = member_make(ms, f, now_ns);
    if (x) {
        member_advance(ms, x, f->stage, f->left, &why, now_ns);
    } else {
        log_line("no memory for %s (rank %d)", f->name, f->rank);  // the digests differ meanwhile
    }
}

gw_status membership_merge(membership *ms, member *from, membership_message *m, int64_t now_ns,
                           gw_error *error) {
    gw_status status = check_identities(ms, *m, error);
    if (status) return status;
    bool names_self = false;
    ms->changed_by = from->fact.rank;
    for (uint32_t i = 0; i < m->fact_count && !ms->is_fenced; i++) {
        member_fact f;
        membership_next_fact(m, &f);
        if (f.rank == ms->options.rank) names_self = true;
        merge_fact(ms, &f, now_ns);
    }
    if (ms->is_fenced) return GW_OK;
    if (names_self && (m->flags & MEMBERSHIP_FULL)) ms->is_complete = true;
    note_reported_digest(ms, from, m);
    answer_digest(ms, from, m, now_ns);
    return GW_OK;
}
