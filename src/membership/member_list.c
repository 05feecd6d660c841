// The members, as data: finding and making them, queries, and that this worker is fenced.
#include "membership/membership_internal.h"

#include "base/mem.h"

// ---- Members ------------------------------------------------------------------------------------
member *member_find(const membership *ms, int rank) {
    return rank >= 0 && rank < ms->limit ? ms->by_rank[rank] : NULL;
}

member *member_self(const membership *ms) {
    return ms->by_rank[ms->options.rank];
}

member *member_next(const membership *ms, const member *x) {
    for (int rank = x ? x->fact.rank + 1 : 0; rank < ms->limit; rank++)
        if (ms->by_rank[rank]) return ms->by_rank[rank];
    return NULL;
}

bool member_is_present(const member *x) {
    return x->fact.stage == MEMBER_JOINING || x->fact.stage == MEMBER_ACTIVE;
}

static bool reserve_rank(membership *ms, int rank) {
    if (rank >= ms->capacity) {
        int capacity = ms->capacity ? ms->capacity * 2 : 8;
        while (capacity <= rank) capacity *= 2;
        member **grown = mem_realloc(ms->by_rank, (size_t)capacity * sizeof *grown);
        if (!grown) return false;
        ms->by_rank = grown;
        ms->capacity = capacity;
    }
    while (ms->limit <= rank) ms->by_rank[ms->limit++] = NULL;
    return true;
}

// In stage UNKNOWN.
member *member_make(membership *ms, const member_fact *f, int64_t now_ns) {
    if (!reserve_rank(ms, f->rank)) return NULL;
    member *x = mem_calloc(sizeof *x);
    if (!x) return NULL;
    x->fact = *f;
    x->fact.stage = MEMBER_UNKNOWN;
    x->fact.left = false;
    x->fact.why[0] = '\0';
    x->known_ns = now_ns;
    ms->by_rank[f->rank] = x;
    return x;
}

// ---- Queries ------------------------------------------------------------------------------------
int membership_limit(const membership *ms) {
    return ms->limit;
}

int membership_coordinator(const membership *ms) {
    return ms->lowest;
}

uint64_t membership_incarnation(const membership *ms, int rank) {
    const member *x = member_find(ms, rank);
    return x && x->fact.stage != MEMBER_UNKNOWN ? x->fact.incarnation : 0;
}

bool membership_was_present(const membership *ms, int rank) {
    const member *x = member_find(ms, rank);
    return x && x->was_present;
}

bool membership_is_gone(const membership *ms, int rank) {
    const member *x = member_find(ms, rank);
    return x && x->state == MEMBER_GONE;
}

bool membership_is_fenced(const membership *ms) {
    return ms->is_fenced;
}

bool membership_is_in_doubt(const membership *ms) {
    return ms->doubt_ns != 0;
}

bool membership_has_joined(const membership *ms) {
    return ms->is_complete && member_self(ms)->fact.stage == MEMBER_ACTIVE;
}

uint64_t membership_epoch(const membership *ms) {
    return ms->epoch;
}

uint64_t membership_digest(const membership *ms) {
    return ms->digest;
}

// ---- Fencing ------------------------------------------------------------------------------------
void membership_set_lost_self(const membership *ms, gw_loss how, gw_error *why) {
    error_set_lost(why, how, ms->options.rank, ms->options.incarnation, ms->options.name);
}

void membership_fence(membership *ms, const gw_error *why) {
    if (ms->is_fenced) return;
    ms->is_fenced = ms->must_notify_fenced = true;
    ms->fenced_why = *why;
    // A worker that was never admitted is not fenced: it has lost the coordinator that admits it
    // (MEM-22).
    if (why->status != GW_DISCONNECTED) ms->fenced_why.status = GW_FENCED;
    if (ms->fenced_why.status == GW_FENCED && !why->lost.how)
        membership_set_lost_self(ms, GW_LOSS_DECLARED, &ms->fenced_why);
}
