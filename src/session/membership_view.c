// What all members agree on: merging, telling, and when it counts.
#include "session/membership_inside.h"

#include "base/limits.h"
#include "base/log.h"

#include <stdio.h>
#include <string.h>

#define AGAIN_NS INT64_C(1000000000)  // until the same is sent or asked again

// ---- Stages -------------------------------------------------------------------------------------------------------
static void find_lowest(membership *ms) {
    int rank = 0;
    for (member *x; (x = member_next(ms, &rank));) {
        if (!member_is_there(x)) continue;
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
        x->must_tell_joined = true;
        ms->epoch++;
    }
    if (before < MEMBER_OUT && stage >= MEMBER_OUT) {
        ms->epoch++;
        f->left = left;
        x->why = *why;
        snprintf(f->why, sizeof f->why, "%.255s", why->text);
        member_apply(ms, x, MEMBER_END, now_ns);
    } else if (stage == MEMBER_ENDED) {
        f->left = left;
    }
    find_lowest(ms);
    return true;
}

// ---- Sending ------------------------------------------------------------------------------------------------------
static bool is_self(const membership *ms, const member *x) {
    return x->fact.rank == ms->options.rank;
}

static bool is_judge(const membership *ms) {
    return ms->lowest == ms->options.rank;
}

static bool has_pending(const membership *ms) {
    int rank = 0;
    for (member *x; (x = member_next(ms, &rank));)
        if (x->fact.stage == MEMBER_NEW || x->fact.stage == MEMBER_OUT) return true;
    return false;
}

static void send_view(membership *ms, const member *to, bool full) {
    membership_message view = {
        .kind = MEMBERSHIP_VIEW,
        .digest = ms->digest,
        .flags = (uint8_t)((ms->has_most ? MEMBERSHIP_HAS_MOST : 0) |
                           (is_judge(ms) && has_pending(ms) ? MEMBERSHIP_ASKS : 0) |
                           (full ? MEMBERSHIP_FULL : 0)),
    };
    message *m = membership_encode(&view);
    if (!m) return;  // the digests of beats will tell
    int rank = 0;
    for (member *x; (x = member_next(ms, &rank));)
        if (x->fact.stage != MEMBER_UNKNOWN && (full || x->is_dirty))
            membership_add_fact(m, &x->fact);
    ms->options.send(ms->options.user, to->fact.rank, m);
}

// Not the same again and again, should the other have no memory for it.
static void send_full(membership *ms, member *to, int64_t now_ns) {
    bool again = to->full_sent == ms->digest && to->full_for == to->told;
    if (again && now_ns - to->full_ns < AGAIN_NS) return;
    to->full_sent = ms->digest;
    to->full_for = to->told;
    to->full_ns = now_ns;
    send_view(ms, to, true);
}

static void send_known(membership *ms, const member *to) {
    message *m =
        membership_encode(&(membership_message){ .kind = MEMBERSHIP_KNOWN, .digest = ms->digest });
    if (m) ms->options.send(ms->options.user, to->fact.rank, m);
}

// ---- Hearing what others know ---------------------------------------------------------------------------------------
static void note_told(membership *ms, member *from, const membership_message *m) {
    from->told = m->digest;
    if (m->digest == ms->digest) from->agrees = ms->is_complete = true;
    if (m->kind != MEMBERSHIP_KNOWN && from->fact.rank == ms->lowest)
        ms->judge_has_most = m->flags & MEMBERSHIP_HAS_MOST;
}

// "Whoever hears of another digest than its own answers with its view; when asked, also of the same."
static void answer_digest(membership *ms, member *from, const membership_message *m,
                          int64_t now_ns) {
    if (from->fact.stage == MEMBER_UNKNOWN) return;  // not announced yet
    if (m->digest != ms->digest) {
        send_full(ms, from, now_ns);
    } else if (m->flags & MEMBERSHIP_ASKS) {
        send_known(ms, from);
    }
}

void membership_told(membership *ms, member *from, const membership_message *m, int64_t now_ns) {
    note_told(ms, from, m);
    if (m->kind == MEMBERSHIP_BEAT) answer_digest(ms, from, m, now_ns);
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
    if (f->stage >= MEMBER_OUT) error_set(&why, GW_DISCONNECTED, "%s", f->why);
    if (f->rank == ms->options.rank && f->stage >= MEMBER_OUT) {
        error_set(&why, GW_FENCED, "the others have declared this worker dead: %s; join anew",
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
    note_told(ms, from, m);
    answer_digest(ms, from, m, now_ns);
    return GW_OK;
}

// ---- The judge's part -----------------------------------------------------------------------------------------------
static bool knows(const membership *ms, const member *x, int64_t within_ns, int64_t now_ns) {
    (void)within_ns, (void)now_ns;
    return is_self(ms, x) || x->told == ms->digest;
}

// "What is new counts once most of those counted before, and most of those there now, know it."
static void settle(membership *ms, int64_t now_ns) {
    if (!has_pending(ms) || !membership_is_most(ms, true, knows, 0, now_ns) ||
        !membership_is_most(ms, false, knows, 0, now_ns))
        return;
    uint64_t known = ms->digest;
    int rank = 0;
    for (member *x; (x = member_next(ms, &rank));) {
        if (x->fact.stage == MEMBER_OUT) {
            member_advance(ms, x, MEMBER_ENDED, x->fact.left, &x->why, now_ns);
        } else if (x->fact.stage == MEMBER_NEW && (is_self(ms, x) || x->told == known)) {
            member_advance(ms, x, MEMBER_COUNTED, false, NULL, now_ns);
        }
    }
}

// "One addition at a time": those admitted meanwhile come together with the next.
static void announce_admitted(membership *ms, int64_t now_ns) {
    int rank = 0;
    for (member *x; (x = member_next(ms, &rank));)
        if (x->fact.stage == MEMBER_NEW && x->heard_ns) return;
    rank = 0;
    for (member *x; (x = member_next(ms, &rank));) {
        if (!x->is_queued) continue;
        member_advance(ms, x, MEMBER_NEW, false, NULL, now_ns);
        x->known_ns = now_ns;
        x->wants_full = x->agrees = true;
    }
}

// The others may know of members, admitted by the judge before, of whom this one has not heard. So it admits nobody
// before it knows the views of all.
static bool knows_all_views(const membership *ms) {
    int rank = 0;
    for (member *x; (x = member_next(ms, &rank));)
        if (member_is_there(x) && !is_self(ms, x) && !x->agrees) return false;
    return true;
}

static const member *find_same(const membership *ms, uint64_t incarnation, const char *name) {
    int rank = 0;
    for (member *x; (x = member_next(ms, &rank));) {
        if (!member_is_there(x) && !x->is_queued) continue;
        if (x->fact.incarnation == incarnation || !strcmp(x->fact.name, name)) return x;
    }
    return NULL;
}

gw_status membership_admit(membership *ms, uint64_t incarnation, const char *name,
                           const char *address, int64_t now_ns, int *out_rank, gw_error *error) {
    if (ms->is_fenced) return error_set(error, GW_FENCED, "%s", ms->fenced_why.text);
    if (!is_judge(ms) || !ms->is_complete)
        return error_set(error, GW_WRONG_STATE, "rank %d admits new workers, not this one",
                         ms->lowest);
    if (ms->doubt_ns || !membership_hears_most(ms, MEMBERSHIP_SUSPECT_NS, now_ns) ||
        !knows_all_views(ms))
        return error_set(error, GW_WRONG_STATE, "%s does not hear enough of the others now",
                         ms->options.name);
    const member *same = find_same(ms, incarnation, name);
    if (same && same->fact.incarnation != incarnation)
        return error_set(error, GW_DUPLICATE, "the name \"%s\" is taken by rank %d", name,
                         same->fact.rank);
    if (same) {
        *out_rank = same->fact.rank;
        return GW_OK;
    }
    if (ms->limit >= LIMIT_WORKERS)
        return error_set(error, GW_LIMIT, "there were %d workers already, and no more ranks",
                         LIMIT_WORKERS);
    member_fact f = { .rank = ms->limit, .incarnation = incarnation };
    snprintf(f.name, sizeof f.name, "%s", name);
    snprintf(f.address, sizeof f.address, "%s", address);
    member *x = member_make(ms, &f, now_ns);
    if (!x) return error_set(error, GW_NO_MEMORY, "no memory for %s", name);
    x->is_queued = true;
    *out_rank = f.rank;
    membership_finish(ms, now_ns);
    return GW_OK;
}

void membership_ask_views(membership *ms, int64_t now_ns) {
    if (!is_judge(ms)) return;
    bool pending = has_pending(ms);
    int rank = 0;
    for (member *x; (x = member_next(ms, &rank));) {
        if (!member_is_there(x) || is_self(ms, x)) continue;
        if (x->agrees && !(pending && x->told != ms->digest)) continue;
        if (x->asked_view_ns && now_ns - x->asked_view_ns < AGAIN_NS) continue;
        x->asked_view_ns = now_ns;
        membership_beat(ms, x);
    }
}

// ---- The end of an event ----------------------------------------------------------------------------------------------
// "The judge tells all others what has changed, and everybody else tells the judge."
static void spread(membership *ms) {
    bool to_all = is_judge(ms) || ms->spreads || ms->trouble_ns;
    bool changed = false;
    int rank = 0;
    for (member *x; (x = member_next(ms, &rank));) changed |= x->is_dirty;
    if (!changed) return;
    rank = 0;
    for (member *x; (x = member_next(ms, &rank));) {
        if (!member_is_there(x) || is_self(ms, x)) continue;
        bool knows_it = x->fact.rank == ms->changed_by && x->told == ms->digest;
        bool from_judge = ms->changed_by == ms->lowest;
        if (to_all ? !knows_it : x->fact.rank == ms->lowest && !from_judge)
            send_view(ms, x, x->wants_full);
        x->wants_full = false;
    }
    rank = 0;
    for (member *x; (x = member_next(ms, &rank));) x->is_dirty = false;
}

static void become_judge(membership *ms) {
    int rank = 0;
    for (member *x; (x = member_next(ms, &rank));) {
        x->agrees = false;
        x->told = 0;
        x->asked_view_ns = 0;
    }
}

static void change_judge(membership *ms) {
    ms->judge = ms->lowest;
    ms->judge_has_most = true;
    if (!ms->is_complete) {
        gw_error why;
        error_set(&why, GW_FENCED,
                  "%s was joining, and the worker that let it in is gone; join anew",
                  ms->options.name);
        membership_fence(ms, &why);
        return;
    }
    if (is_judge(ms)) become_judge(ms);
    if (ms->options.judge_changed) ms->options.judge_changed(ms->options.user, ms->judge);
}

// Returns whether anything was told.
static bool tell_user(membership *ms) {
    bool told = false;
    int rank = 0;
    for (member *x; !ms->is_fenced && (x = member_next(ms, &rank));) {
        if (x->must_tell_joined) {
            x->must_tell_joined = false;
            told = true;
            if (!is_self(ms, x)) ms->options.joined(ms->options.user, &x->fact);
        }
        bool is_suspected = x->state == MEMBER_SUSPECTED;
        if (is_suspected != x->is_told_suspected && x->state != MEMBER_GONE && !ms->is_fenced) {
            x->is_told_suspected = is_suspected;
            told = true;
            if (ms->options.suspected)
                ms->options.suspected(ms->options.user, x->fact.rank, is_suspected);
        }
        if (x->must_tell_gone && !ms->is_fenced) {
            x->must_tell_gone = false;
            told = true;
            ms->options.gone(ms->options.user, x->fact.rank, x->fact.left, &x->why);
        }
    }
    return told;
}

void membership_finish(membership *ms, int64_t now_ns) {
    if (ms->in_finish) return;
    ms->in_finish = true;
    for (bool again = true; again && !ms->is_fenced;) {
        if (ms->is_started && is_judge(ms) && ms->is_complete && !ms->doubt_ns) {
            settle(ms, now_ns);
            announce_admitted(ms, now_ns);
        }
        // The user first: whoever has joined can be sent something then.
        again = tell_user(ms);
        if (ms->is_fenced) break;
        spread(ms);
        ms->changed_by = -1;
        ms->spreads = false;
        if (ms->is_started && !ms->is_fenced && ms->judge != ms->lowest) {
            change_judge(ms);
            again = true;
        }
    }
    ms->in_finish = false;
    if (!ms->must_tell_fenced) return;
    ms->must_tell_fenced = false;
    ms->options.fenced(ms->options.user, &ms->fenced_why);
}
