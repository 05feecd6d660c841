// The machine: its decisions about silent members, its contact with the others, and its clock.
#include "membership/membership_internal.h"

#include "base/limits.h"
#include "base/mem.h"
#include "base/mutation.h"

#include <stdio.h>

#define SECONDS(ns) ((double)(ns) / 1e9)

// ---- Requesting answers -------------------------------------------------------------------------
static bool has_answered(const membership *ms, const member *x, int64_t within_ns, int64_t now_ns) {
    return member_is_self(ms, x) || (x->answered_ns && now_ns - x->answered_ns < within_ns);
}

// From members that have not answered since then. Suspected members need not answer, unless this worker is in doubt.
static void request_answers(membership *ms, int64_t since_ns, int64_t now_ns) {
    for (member *x = NULL; (x = member_next(ms, x));) {
        if (!member_is_present(x) || member_is_self(ms, x) || x->answered_ns > since_ns) continue;
        if (x->state == MEMBER_SUSPECTED && !ms->doubt_ns) continue;
        if (now_ns - x->view_requested_ns < MEMBERSHIP_TICK_NS) continue;
        x->view_requested_ns = now_ns;
        membership_request_answer(ms, x);
    }
}

// ---- Deciding -----------------------------------------------------------------------------------
// MEM-13: deciding takes a quorum of the voters and a quorum of the present members which have
// answered: a member may be received from, and receive nothing.
static bool may_decide(const membership *ms, int64_t now_ns) {
    if (has_mutation(MUTATION_NO_MAJORITY)) return true;
    member_test *test = has_mutation(MUTATION_RECEIVED_ONLY) ? member_receives_from : has_answered;
    return membership_is_quorum(ms, true, test, MEMBERSHIP_SUSPECT_NS, now_ns) &&
           membership_is_quorum(ms, false, test, MEMBERSHIP_SUSPECT_NS, now_ns);
}

static void declare_dead(membership *ms, member *x, int64_t silence_ns, int64_t now_ns) {
    gw_error why;
    error_set(&why, GW_DISCONNECTED, "%s (rank %d) has sent nothing to %s for %.1f s", x->fact.name,
              x->fact.rank, ms->options.name, SECONDS(silence_ns));
    error_set_lost(&why, GW_LOSS_SILENT, x->fact.rank, x->fact.incarnation, x->fact.name);
    x->is_declared_here = true;
    member_advance(ms, x, MEMBER_FAILED, false, &why, now_ns);
    ms->spreads = true;
}

bool membership_has_declared(const membership *ms, int rank) {
    const member *x = member_find(ms, rank);
    return x && x->is_declared_here;
}

const char *membership_failed(const membership *ms, int rank) {
    const member *x = member_find(ms, rank);
    return x && x->fact.stage == MEMBER_FAILED ? x->fact.why : NULL;
}

static bool suspects_any(const membership *ms) {
    for (member *x = NULL; (x = member_next(ms, x));)
        if (x->state == MEMBER_SUSPECTED) return true;
    return false;
}

static void decide(membership *ms, int64_t now_ns) {
    bool is_coordinator = membership_coordinator(ms) == ms->options.rank;
    if (!suspects_any(ms) || ms->doubt_ns) return;
    if (!is_coordinator && !membership_is_candidate(ms, now_ns)) return;
    request_answers(ms, now_ns - MEMBERSHIP_FRESH_NS, now_ns);
    if (!may_decide(ms, now_ns)) return;
    for (member *x = NULL; (x = member_next(ms, x));) {
        if (x->state != MEMBER_SUSPECTED || !member_is_unrefuted(ms, x, !is_coordinator)) continue;
        int64_t silence_ns = member_silence(x, x->alive_ns, now_ns);
        if (silence_ns >= MEMBERSHIP_DEAD_NS) declare_dead(ms, x, silence_ns, now_ns);
    }
}

// ---- Contact ------------------------------------------------------------------------------------
static bool has_answered_in_doubt(const membership *ms, const member *x, int64_t within_ns,
                                  int64_t now_ns) {
    (void)within_ns, (void)now_ns;
    return member_is_self(ms, x) || x->answered_ns > ms->doubt_ns;
}

// MEM-19, and MEM-20 for a worker in doubt. Messages that were in transit when a worker was stopped are received
// when it continues, but are no answers.
static bool is_in_contact_within(const membership *ms, int64_t within_ns, int64_t now_ns) {
    member_test *test = ms->doubt_ns ? has_answered_in_doubt : member_receives_from;
    const member *coordinator = member_find(ms, ms->lowest);
    // The silence of a new coordinator starts when it became one.
    bool is_new =
        !ms->doubt_ns && ms->coordinator_since_ns && now_ns - ms->coordinator_since_ns < within_ns;
    bool by_coordinator = coordinator->fact.rank != ms->options.rank &&
                          ms->coordinator_has_quorum &&
                          (is_new || test(ms, coordinator, within_ns, now_ns));
    return by_coordinator || has_mutation(MUTATION_NO_MAJORITY) ||
           membership_is_quorum(ms, true, test, within_ns, now_ns);
}

// Whether it is in contact. Records the least age of the evidence for it.
static bool is_in_contact(membership *ms, int64_t now_ns) {
    int64_t within_ns = MEMBERSHIP_SUSPECT_NS;
    if (!is_in_contact_within(ms, within_ns, now_ns)) return false;
    do within_ns -= MEMBERSHIP_TICK_NS;
    while (within_ns > 0 && is_in_contact_within(ms, within_ns, now_ns));
    ms->contact_evidence_ns = now_ns - within_ns;
    return true;
}

// MEM-21: no member is left that could report the decisions of those that have ended.
static bool has_lost_all(const membership *ms) {
    bool any_failed = false;
    for (member *x = NULL; (x = member_next(ms, x));) {
        if (member_is_self(ms, x)) continue;
        if (member_is_present(x)) return false;
        any_failed = any_failed || x->fact.stage == MEMBER_FAILED;
    }
    return any_failed;
}

// MEM-20: all others have ended, and those that are *failed* have left in order. Each
// took this worker for a member at its end, and no member remains that could decide otherwise.
static bool have_all_left(const membership *ms) {
    for (member *x = NULL; (x = member_next(ms, x));) {
        if (member_is_self(ms, x)) continue;
        if (member_is_present(x) || (x->fact.stage == MEMBER_FAILED && !x->has_left)) return false;
    }
    return true;
}

static void end_doubt_alone(membership *ms, int64_t now_ns) {
    gw_error why;
    error_set(&why, GW_DISCONNECTED, "%s", "");
    for (member *x = NULL; (x = member_next(ms, x));)
        if (x->fact.stage == MEMBER_FAILED)
            member_advance(ms, x, MEMBER_REMOVED, true, &why, now_ns);
    ms->contact_ns = now_ns;
    ms->doubt_ns = 0;
}

static void fence_alone(membership *ms) {
    gw_error why;
    error_set(&why, GW_FENCED,
              "%s has lost all other workers before they could confirm that it is a member: call "
              "gw_rpc_init again",
              ms->options.name);
    membership_set_lost_self(ms, GW_LOSS_ALONE, &why);
    membership_fence(ms, &why);
}

// MEM-20: a worker that was out of contact may have been declared dead. It decides nothing until it
// receives answers.
static void check_contact(membership *ms, int64_t now_ns) {
    if (is_in_contact(ms, now_ns)) {
        if (now_ns > ms->contact_ns) ms->contact_ns = now_ns;
        ms->doubt_ns = 0;
        ms->had_quorum = true;
        return;
    }
    int64_t passed_ns = now_ns - ms->contact_ns;
    if (!ms->had_quorum) passed_ns -= MEMBERSHIP_GRACE_NS;
    if (ms->had_quorum && !ms->doubt_ns && passed_ns > 0) ms->doubt_ns = now_ns;
    if (have_all_left(ms)) {
        end_doubt_alone(ms, now_ns);
        return;
    }
    if (has_lost_all(ms)) {
        fence_alone(ms);
        return;
    }
    if (ms->doubt_ns) request_answers(ms, ms->doubt_ns, now_ns);
    if (passed_ns < MEMBERSHIP_CUT_OFF_NS) return;
    if (ms->no_coordinator_ns && now_ns - ms->no_coordinator_ns < MEMBERSHIP_SUSPECT_NS) return;
    gw_error why;
    error_set(&why, GW_FENCED,
              "%s was cut off from most other workers for %.1f s, and they continue without it: "
              "call gw_rpc_init again",
              ms->options.name, SECONDS(now_ns - ms->contact_evidence_ns));
    membership_set_lost_self(ms, GW_LOSS_CUT_OFF, &why);
    membership_fence(ms, &why);
}

static void announce_quorum(membership *ms, int64_t now_ns) {
    bool has = membership_coordinator(ms) != ms->options.rank ||
               membership_receives_from_quorum(ms, MEMBERSHIP_SUSPECT_NS, now_ns);
    if (has == ms->has_quorum) return;
    ms->has_quorum = has;
    for (member *x = NULL; (x = member_next(ms, x));)
        if (member_is_present(x) && x->fact.rank != ms->options.rank)
            membership_send_heartbeat(ms, x);
}

// ---- Time ---------------------------------------------------------------------------------------
static void shift(int64_t *ns, int64_t by_ns, int64_t now_ns) {
    if (!*ns) return;
    *ns = *ns + by_ns < now_ns ? *ns + by_ns : now_ns;
}

// MEM-11: a worker that was stopped must not take its own pause for the silence of others, and they
// may have declared it dead.
static void discount_delay(membership *ms, int64_t now_ns) {
    int64_t late_ns = now_ns - ms->due_ns;
    if (late_ns <= 0) return;
    bool slept = late_ns > MEMBERSHIP_LATE_NS;
    for (member *x = NULL; (x = member_next(ms, x));) {
        shift(&x->monitored_ns, slept ? now_ns : late_ns, now_ns);
        shift(&x->known_ns, late_ns, now_ns);
        shift(&x->probe_ns, late_ns, now_ns);
        if (slept) continue;
        shift(&x->direct_ns, late_ns, now_ns);
        if (!ms->doubt_ns)
            shift(&x->answered_ns, late_ns, now_ns);  // in doubt earlier answers do not count
        shift(&x->alive_ns, late_ns, now_ns);
    }
    list_each(l, &ms->pending_probes)
        shift(&list_entry(l, pending_probe, link)->received_ns, late_ns, now_ns);
    shift(&ms->no_coordinator_ns, late_ns, now_ns);
    ms->contact_ns += late_ns;
    ms->contact_evidence_ns += late_ns;
    shift(&ms->coordinator_since_ns, late_ns, now_ns);
    if (!slept) return;
    ms->contact_ns = now_ns + MEMBERSHIP_CUT_OFF_NS;
    ms->doubt_ns = now_ns;
}

static bool is_quiet(const membership *ms) {
    for (member *x = NULL; (x = member_next(ms, x));)
        if (x->state == MEMBER_SUSPECTED || x->probe) return false;
    return !ms->no_coordinator_ns && list_is_empty(&ms->pending_probes);
}

int64_t membership_tick(membership *ms, int64_t now_ns) {
    if (ms->is_fenced || !ms->is_started) return ENV_NEVER;
    discount_delay(ms, now_ns);
    announce_quorum(ms, now_ns);
    membership_detect_failures(ms, now_ns);
    membership_probe(ms, now_ns);
    membership_answer_due_probes(ms, now_ns);
    decide(ms, now_ns);
    check_contact(ms, now_ns);
    if (!ms->is_fenced) membership_request_views(ms, now_ns);
    membership_finish(ms, now_ns);
    if (ms->is_fenced) return ENV_NEVER;
    ms->due_ns = now_ns + (is_quiet(ms) ? MEMBERSHIP_TICK_NS : MEMBERSHIP_QUICK_TICK_NS);
    return ms->due_ns;
}

static bool has_failed(const membership *ms) {
    for (member *x = NULL; (x = member_next(ms, x));)
        if (x->fact.stage == MEMBER_FAILED) return true;
    return false;
}

// ---- Other evidence -----------------------------------------------------------------------------
void membership_lost(membership *ms, int rank, bool left, const gw_error *why, int64_t now_ns) {
    if (ms->is_fenced) return;
    member *x = member_find(ms, rank);
    if (!x || rank == ms->options.rank) return;
    x->has_left = x->has_left || left;
    if (x->state == MEMBER_GONE) return;
    if (why->status == GW_FENCED && !has_mutation(MUTATION_NO_FENCING)) {
        membership_fence(ms, why);
    } else {
        ms->changed_by = -1;
        // It stays a voter while this worker is in doubt, and while no quorum has a decision: the others may
        // have continued without this worker before it ended.
        bool stays = ms->doubt_ns || has_failed(ms);
        member_advance(ms, x, stays ? MEMBER_FAILED : MEMBER_REMOVED, left, why, now_ns);
    }
    membership_finish(ms, now_ns);
}

void membership_await(membership *ms, int rank, bool awaits) {
    member *x = member_find(ms, rank);
    if (!x) return;
    x->awaits += awaits ? 1 : -1;
    if (x->awaits < 0) x->awaits = 0;
}

static bool is_answer(const membership_message *m) {
    return m->kind == MEMBERSHIP_VIEW || m->kind == MEMBERSHIP_VIEW_ACK ||
           m->kind == MEMBERSHIP_PROBE_REPLY;
}

gw_status membership_received(membership *ms, int from, const message *m, int64_t now_ns,
                              gw_error *error) {
    member *x = member_find(ms, from);
    if (ms->is_fenced || !x || from == ms->options.rank) return GW_OK;
    if (x->state == MEMBER_GONE && !has_mutation(MUTATION_NO_FENCING)) return GW_OK;
    membership_message body;
    gw_status status = membership_decode(m, &body, error);
    if (status) return status;
    membership_note_receive(ms, from, now_ns);
    if (is_answer(&body)) x->answered_ns = now_ns;
    switch (body.kind) {
    case MEMBERSHIP_VIEW: status = membership_merge(ms, x, &body, now_ns, error); break;
    case MEMBERSHIP_PROBE: membership_answer_probe(ms, x, &body, now_ns); break;
    case MEMBERSHIP_PROBE_REPLY: membership_probe_reply(ms, x, &body, now_ns); break;
    case MEMBERSHIP_CALL_BACK: membership_call_back(ms, &body); break;
    default: membership_note_digest(ms, x, &body, now_ns); break;
    }
    membership_finish(ms, now_ns);
    return status;
}

// ---- Opening and closing ------------------------------------------------------------------------
static gw_status add(membership *ms, int rank, uint64_t incarnation, const char *name,
                     const char *addresses, member_stage stage, gw_error *error) {
    member_fact f = { .rank = rank, .incarnation = incarnation };
    snprintf(f.name, sizeof f.name, "%s", name);
    snprintf(f.addresses, sizeof f.addresses, "%s", addresses);
    if (rank < 0 || rank >= LIMIT_WORKERS)
        return error_set(error, GW_LIMIT, "rank %d is too large: a job has at most %d workers",
                         rank, LIMIT_WORKERS);
    if (member_find(ms, rank)) return error_set(error, GW_DUPLICATE, "rank %d is taken", rank);
    member *x = member_make(ms, &f, 0);
    if (!x) return error_set(error, GW_NO_MEMORY, "no memory for %s", name);
    member_advance(ms, x, stage, false, NULL, 0);
    x->must_notify_joined = x->is_dirty = false;
    x->was_present = true;
    x->agrees = true;
    return GW_OK;
}

gw_status membership_add(membership *ms, int rank, uint64_t incarnation, const char *name,
                         const char *addresses, gw_error *error) {
    return add(ms, rank, incarnation, name, addresses, MEMBER_ACTIVE, error);
}

gw_status membership_open(membership_options options, membership **out, gw_error *error) {
    membership *ms = mem_calloc(sizeof *ms);
    if (!ms) return error_set(error, GW_NO_MEMORY, "no memory for an agent");
    ms->options = options;
    ms->lowest = options.rank;
    ms->is_complete = !options.joins;
    ms->changed_by = -1;
    list_init(&ms->pending_probes);
    gw_status status = add(ms, options.rank, options.incarnation, options.name, options.addresses,
                           options.joins ? MEMBER_JOINING : MEMBER_ACTIVE, error);
    if (status) {
        membership_close(ms);
        return status;
    }
    ms->options.name = member_self(ms)->fact.name;
    ms->options.addresses = member_self(ms)->fact.addresses;
    *out = ms;
    return GW_OK;
}

void membership_start(membership *ms, int64_t now_ns) {
    ms->is_started = true;
    ms->coordinator = ms->admitted_by = ms->lowest;
    ms->has_quorum = ms->coordinator != ms->options.rank;
    ms->contact_ns = ms->contact_evidence_ns = ms->due_ns = now_ns;
    for (member *x = NULL; (x = member_next(ms, x));) x->known_ns = now_ns;
}

void membership_close(membership *ms) {
    if (!ms) return;
    membership_drop_probes(ms);
    for (int i = 0; i < ms->limit; i++) mem_free(ms->by_rank[i]);
    mem_free(ms->by_rank);
    mem_free(ms);
}
