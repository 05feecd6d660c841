// Indirect probes: other members say whether they hear one that is silent here. One bad link is no
// failure.
#include "membership/membership_internal.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/mutation.h"

enum { WITNESSES = 3 };

// ---- Asking -------------------------------------------------------------------------------------
static bool can_be_asked(const membership *ms, const member *witness, const member *about) {
    return member_is_present(witness) && witness != about && witness->fact.rank != ms->options.rank;
}

static void send_probe(membership *ms, const member *to, member *about) {
    membership_message probe = { .kind = MEMBERSHIP_PROBE,
                                 .number = about->probe,
                                 .rank = about->fact.rank };
    message *m = membership_encode(&probe);
    if (!m) return;
    about->asked++;
    ms->options.send(ms->options.user, to->fact.rank, m);
}

// MEM-9: the coordinator asks three members that it hears, others each time; a worker that would
// decide in its place asks everyone.
static void ask_witnesses(membership *ms, member *about, bool all, int64_t now_ns) {
    about->probe = ++ms->last_probe;
    about->probe_ns = now_ns;
    about->asked = about->answered = 0;
    about->asked_all = all;
    for (int i = 0; i < ms->limit && (all || about->asked < WITNESSES); i++) {
        int rank = all ? i : (about->next_witness + i) % ms->limit;
        const member *x = member_find(ms, rank);
        if (!x || !can_be_asked(ms, x, about)) continue;
        if (!all && !member_hears(ms, x, MEMBERSHIP_SUSPECT_NS, now_ns)) continue;
        send_probe(ms, x, about);
        if (!all) about->next_witness = (rank + 1) % ms->limit;
        if (!all && about->asked == WITNESSES) break;
    }
}

static int count_heard(const membership *ms, const member *about, int64_t now_ns) {
    int count = 0, rank = 0;
    for (member *x; (x = member_next(ms, &rank));)
        count += can_be_asked(ms, x, about) && member_hears(ms, x, MEMBERSHIP_SUSPECT_NS, now_ns);
    return count;
}

// Whether every member that could have said yes has had the time for it.
static bool has_ended(const membership *ms, const member *x, int64_t now_ns) {
    int64_t passed_ns = now_ns - x->probe_ns;
    if (!x->asked_all) return x->answered >= x->asked || passed_ns >= MEMBERSHIP_ROUND_NS;
    if (passed_ns < MEMBERSHIP_PROBE_NS) return false;
    return x->answered >= count_heard(ms, x, now_ns) || passed_ns >= 2 * MEMBERSHIP_ROUND_NS;
}

static void end_round(member *x) {
    member_verdict verdict = x->asked_all ? UNREFUTED_BY_ALL : UNREFUTED_BY_SOME;
    if (verdict > x->verdict) x->verdict = verdict;
    x->probe = 0;
}

// A member that was never heard may still be starting (MEM-10); or connections to it cannot be opened from here, and a worker that
// needs it asks early for one the other way (MEM-23).
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
    int rank = 0;
    for (member *x; (x = member_next(ms, &rank));) {
        if (!is_silent(ms, x, now_ns)) continue;
        if (x->probe && has_ended(ms, x, now_ns)) end_round(x);
        bool is_due = now_ns - x->probe_ns >= MEMBERSHIP_PROBE_NS || (all && !x->asked_all);
        if (!x->probe && is_due) ask_witnesses(ms, x, all, now_ns);
    }
}

bool member_is_unrefuted(const membership *ms, const member *x, bool by_all) {
    (void)ms;
    if (has_mutation(MUTATION_NO_PROBES)) return true;
    return x->verdict >= (by_all ? UNREFUTED_BY_ALL : UNREFUTED_BY_SOME);
}

// One link is bad: that is no death, and calls over it end at their deadlines. So the log says it, once.
static void say_unheard(const membership *ms, member *x, const member *witness, int64_t now_ns) {
    int64_t silence_ns = now_ns - (x->direct_ns ? x->direct_ns : x->monitored_ns);
    if (x->is_said_unheard || silence_ns < MEMBERSHIP_SUSPECT_NS) return;
    x->is_said_unheard = true;
    log_line(
        "%s has not heard %s (rank %d) for %.1f s, and %s hears it: the link between the two is "
        "bad",
        ms->options.name, x->fact.name, x->fact.rank, (double)silence_ns / 1e9, witness->fact.name);
}

void membership_probe_reply(membership *ms, const member *from, const membership_message *m,
                            int64_t now_ns) {
    member *x = member_find(ms, m->rank);
    if (!x || x->state == MEMBER_GONE || x->fact.rank == ms->options.rank) return;
    if (has_mutation(MUTATION_NO_PROBES)) return;
    if (m->yes) {
        if (from != x) say_unheard(ms, x, from, now_ns);
        member_apply(ms, x, MEMBER_HEARD, now_ns);
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

// MEM-23: "A worker that is asked about a member tells that member who asks."
static void ask_to_call_back(membership *ms, const member *x, const member *asker) {
    message *m = membership_encode(
        &(membership_message){ .kind = MEMBERSHIP_CALL_BACK, .rank = asker->fact.rank });
    if (m) ms->options.send(ms->options.user, x->fact.rank, m);
}

void membership_call_back(membership *ms, const membership_message *m) {
    member *x = member_find(ms, m->rank);
    if (x && member_is_present(x) && !member_is_self(ms, x) && !x->heartbeat_is_out)
        membership_send_heartbeat(ms, x);
}

static void forget(asked_probe *q) {
    list_remove(&q->link);
    mem_give(q, sizeof *q);
}

// Of each member only its last probe about each other one counts.
static void forget_older(membership *ms, int from, int rank) {
    list_each(l, &ms->asked_probes) {
        asked_probe *q = list_entry(l, asked_probe, link);
        if (q->from == from && q->rank == rank) forget(q);
    }
}

// Only what this worker has heard itself: what others have said would go round in circles.
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
    if (x != from) ask_to_call_back(ms, x, from);
    if (is_fresh(x, now_ns - MEMBERSHIP_FRESH_NS)) {
        reply(ms, from->fact.rank, m->number, m->rank, true);
        return;
    }
    forget_older(ms, from->fact.rank, m->rank);
    asked_probe *q = mem_take(sizeof *q);
    if (!q) return;  // it will ask again
    *q = (asked_probe){
        .from = from->fact.rank, .rank = m->rank, .number = m->number, .asked_ns = now_ns
    };
    list_append(&ms->asked_probes, &q->link);
    membership_send_heartbeat(ms, x);
}

void membership_answer_due_probes(membership *ms, int64_t now_ns) {
    list_each(l, &ms->asked_probes) {
        asked_probe *q = list_entry(l, asked_probe, link);
        const member *x = member_find(ms, q->rank);
        bool yes = member_is_present(x) && is_fresh(x, q->asked_ns);
        if (!yes && member_is_present(x) && now_ns - q->asked_ns < MEMBERSHIP_PROBE_NS) continue;
        const member *from = member_find(ms, q->from);
        if (member_is_present(from)) reply(ms, q->from, q->number, q->rank, yes);
        forget(q);
    }
}

void membership_drop_probes(membership *ms) {
    while (!list_is_empty(&ms->asked_probes))
        forget(list_entry(ms->asked_probes.next, asked_probe, link));
}
