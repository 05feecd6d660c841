// Indirect probes: other members report whether they receive from a member that is silent here. One bad link is no
// failure.
#include "membership/membership_internal.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/mutation.h"

enum { WITNESSES = 3 };

// ---- Querying -----------------------------------------------------------------------------------
static bool can_be_witness(const membership *ms, const member *witness, const member *about) {
    return member_is_present(witness) && witness != about && witness->fact.rank != ms->options.rank;
}

static void send_probe(membership *ms, const member *to, member *about) {
    membership_message probe = { .kind = MEMBERSHIP_PROBE,
                                 .number = about->probe,
                                 .rank = about->fact.rank };
    message *m = membership_encode(&probe);
    if (!m) return;
    about->queried++;
    ms->options.send(ms->options.user, to->fact.rank, m);
}

// MEM-9: the coordinator queries three members from which it receives, others each time; a worker that would
// decide in its place queries all.
static void query_witnesses(membership *ms, member *about, bool all, int64_t now_ns) {
    about->probe = ++ms->last_probe;
    about->probe_ns = now_ns;
    about->queried = about->answered = 0;
    about->queried_all = all;
    for (int i = 0; i < ms->limit && (all || about->queried < WITNESSES); i++) {
        int rank = all ? i : (about->next_witness + i) % ms->limit;
        const member *x = member_find(ms, rank);
        if (!x || !can_be_witness(ms, x, about)) continue;
        if (!all && !member_receives_from(ms, x, MEMBERSHIP_SUSPECT_NS, now_ns)) continue;
        send_probe(ms, x, about);
        if (!all) about->next_witness = (rank + 1) % ms->limit;
        if (!all && about->queried == WITNESSES) break;
    }
}

static int count_received(const membership *ms, const member *about, int64_t now_ns) {
    int count = 0;
    for (member *x = NULL; (x = member_next(ms, x));)
        count += can_be_witness(ms, x, about) &&
                 member_receives_from(ms, x, MEMBERSHIP_SUSPECT_NS, now_ns);
    return count;
}

// Whether every member that could have answered yes has had the time for it.
static bool has_ended(const membership *ms, const member *x, int64_t now_ns) {
    int64_t passed_ns = now_ns - x->probe_ns;
    if (!x->queried_all) return x->answered >= x->queried || passed_ns >= MEMBERSHIP_ROUND_NS;
    if (passed_ns < MEMBERSHIP_PROBE_NS) return false;
    return x->answered >= count_received(ms, x, now_ns) || passed_ns >= 2 * MEMBERSHIP_ROUND_NS;
}

static void end_round(member *x) {
    probe_outcome outcome = x->queried_all ? UNREFUTED_BY_ALL : UNREFUTED_BY_SOME;
    if (outcome > x->outcome) x->outcome = outcome;
    x->probe = 0;
}

// A member that has never sent anything may still be starting (MEM-10); or connections to it cannot be opened from
// here, and a worker that needs it requests early a connection in the other direction (MEM-23).
static bool is_silent(const membership *ms, const member *x, int64_t now_ns) {
    if (x->state == MEMBER_UNMONITORED || x->state == MEMBER_GONE || member_is_self(ms, x))
        return false;
    if (x->state == MEMBER_SUSPECTED) return true;
    bool is_needed = x->awaits > 0 && !membership_is_coordinator(ms);
    int64_t since_ns = x->direct_ns || !is_needed ? x->direct_ns : x->monitored_ns;
    return since_ns && now_ns - since_ns >= MEMBERSHIP_SUSPECT_NS;
}

void membership_probe(membership *ms, int64_t now_ns) {
    bool all =
        membership_coordinator(ms) != ms->options.rank && membership_is_candidate(ms, now_ns);
    for (member *x = NULL; (x = member_next(ms, x));) {
        if (!is_silent(ms, x, now_ns)) continue;
        if (x->probe && has_ended(ms, x, now_ns)) end_round(x);
        bool is_due = now_ns - x->probe_ns >= MEMBERSHIP_PROBE_NS || (all && !x->queried_all);
        if (!x->probe && is_due) query_witnesses(ms, x, all, now_ns);
    }
}

bool member_is_unrefuted(const membership *ms, const member *x, bool by_all) {
    (void)ms;
    if (has_mutation(MUTATION_NO_PROBES)) return true;
    return x->outcome >= (by_all ? UNREFUTED_BY_ALL : UNREFUTED_BY_SOME);
}

// One bad link is no death, and calls over it end at their deadlines. So it is logged, once.
static void log_bad_link(const membership *ms, member *x, const member *witness, int64_t now_ns) {
    int64_t silence_ns = now_ns - (x->direct_ns ? x->direct_ns : x->monitored_ns);
    if (x->is_link_logged || silence_ns < MEMBERSHIP_SUSPECT_NS) return;
    x->is_link_logged = true;
    log_line("%s has received nothing from %s (rank %d) for %.1f s, but %s receives from that "
             "worker: the link between these two is bad",
             ms->options.name, x->fact.name, x->fact.rank, (double)silence_ns / 1e9,
             witness->fact.name);
}

void membership_probe_reply(membership *ms, const member *from, const membership_message *m,
                            int64_t now_ns) {
    member *x = member_find(ms, m->rank);
    if (!x || x->state == MEMBER_GONE || x->fact.rank == ms->options.rank) return;
    if (has_mutation(MUTATION_NO_PROBES)) return;
    if (m->yes) {
        if (from != x) log_bad_link(ms, x, from, now_ns);
        member_apply(ms, x, MEMBER_RECEIVED, now_ns);
    } else if (x->probe && m->number == x->probe) {
        x->answered++;
        if (has_ended(ms, x, now_ns)) end_round(x);
    }
}

// ---- Answering ----------------------------------------------------------------------------------
static void reply(membership *ms, int to, uint64_t number, int rank, bool yes) {
    membership_message answer = {
        .kind = MEMBERSHIP_PROBE_REPLY, .number = number, .rank = rank, .yes = yes
    };
    message *m = membership_encode(&answer);
    if (m) ms->options.send(ms->options.user, to, m);
}

// MEM-23: the receiver of a probe about a member sends that member *call back* with the rank of the prober.
static void request_call_back(membership *ms, const member *x, const member *requester) {
    message *m = membership_encode(
        &(membership_message){ .kind = MEMBERSHIP_CALL_BACK, .rank = requester->fact.rank });
    if (m) ms->options.send(ms->options.user, x->fact.rank, m);
}

void membership_call_back(membership *ms, const membership_message *m) {
    member *x = member_find(ms, m->rank);
    if (x && member_is_present(x) && !member_is_self(ms, x) && !x->heartbeat_is_out)
        membership_send_heartbeat(ms, x);
}

static void forget(pending_probe *q) {
    list_remove(&q->link);
    mem_give(q, sizeof *q);
}

// Only the last probe of each member about each other one counts.
static void forget_older(membership *ms, int from, int rank) {
    list_each(l, &ms->pending_probes) {
        pending_probe *q = list_entry(l, pending_probe, link);
        if (q->from == from && q->rank == rank) forget(q);
    }
}

// Only direct evidence: reports of others would circulate.
static bool is_fresh(const member *x, int64_t since_ns) {
    return x->direct_ns && x->direct_ns >= since_ns;
}

void membership_answer_probe(membership *ms, member *from, const membership_message *m,
                             int64_t now_ns) {
    member *x = member_find(ms, m->rank);
    bool is_self = m->rank == ms->options.rank;
    if (is_self || !x || !member_is_present(x)) {
        reply(ms, from->fact.rank, m->number, m->rank, is_self);
        return;
    }
    if (x != from) request_call_back(ms, x, from);
    if (is_fresh(x, now_ns - MEMBERSHIP_FRESH_NS)) {
        reply(ms, from->fact.rank, m->number, m->rank, true);
        return;
    }
    forget_older(ms, from->fact.rank, m->rank);
    pending_probe *q = mem_take(sizeof *q);
    if (!q) return;  // the probe will be repeated
    *q = (pending_probe){
        .from = from->fact.rank, .rank = m->rank, .number = m->number, .received_ns = now_ns
    };
    list_append(&ms->pending_probes, &q->link);
    membership_send_heartbeat(ms, x);
}

void membership_answer_due_probes(membership *ms, int64_t now_ns) {
    list_each(l, &ms->pending_probes) {
        pending_probe *q = list_entry(l, pending_probe, link);
        const member *x = member_find(ms, q->rank);
        bool yes = member_is_present(x) && is_fresh(x, q->received_ns);
        if (!yes && member_is_present(x) && now_ns - q->received_ns < MEMBERSHIP_PROBE_NS) continue;
        const member *from = member_find(ms, q->from);
        if (member_is_present(from)) reply(ms, q->from, q->number, q->rank, yes);
        forget(q);
    }
}

void membership_drop_probes(membership *ms) {
    while (!list_is_empty(&ms->pending_probes))
        forget(list_entry(ms->pending_probes.next, pending_probe, link));
}
