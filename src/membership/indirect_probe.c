// Asking others whether they hear a member that is silent here: one bad link is no death.
#include "membership/membership_internal.h"

#include "base/mem.h"
#include "base/mutation.h"

enum { WITNESSES = 3 };

// ---- Asking -------------------------------------------------------------------------------------------------------
static bool can_be_asked(const membership *ms, const member *witness, const member *about) {
    return member_is_there(witness) && witness != about && witness->fact.rank != ms->options.rank;
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

// "The coordinator asks three that it hears, in turns; who would decide in its place asks everyone."
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

// Whether everyone who could have said yes has had its chance.
static bool has_ended(const membership *ms, const member *x, int64_t now_ns) {
    int64_t passed_ns = now_ns - x->probe_ns;
    if (!x->asked_all) return x->answered >= x->asked || passed_ns >= MEMBERSHIP_ROUND_NS;
    if (passed_ns < MEMBERSHIP_PROBE_NS) return false;
    return x->answered >= count_heard(ms, x, now_ns) || passed_ns >= 2 * MEMBERSHIP_ROUND_NS;
}

static void end_round(member *x) {
    member_denial denial = x->asked_all ? DENIED_BY_ALL : DENIED_BY_SOME;
    if (denial > x->denial) x->denial = denial;
    x->probe = 0;
}

void membership_probe(membership *ms, int64_t now_ns) {
    bool all =
        membership_coordinator(ms) != ms->options.rank && membership_is_candidate(ms, now_ns);
    int rank = 0;
    for (member *x; (x = member_next(ms, &rank));) {
        bool silent = x->state != MEMBER_UNWATCHED && x->state != MEMBER_GONE &&
                      (x->state == MEMBER_SUSPECTED ||
                       (x->direct_ns && now_ns - x->direct_ns >= MEMBERSHIP_SUSPECT_NS));
        if (!silent || x->fact.rank == ms->options.rank) continue;
        if (x->probe && has_ended(ms, x, now_ns)) end_round(x);
        bool is_due = now_ns - x->probe_ns >= MEMBERSHIP_PROBE_NS || (all && !x->asked_all);
        if (!x->probe && is_due) ask_witnesses(ms, x, all, now_ns);
    }
}

bool member_is_denied(const membership *ms, const member *x, bool by_all) {
    (void)ms;
    if (has_mutation(MUTATION_NO_PROBES)) return true;
    return x->denial >= (by_all ? DENIED_BY_ALL : DENIED_BY_SOME);
}

void membership_answered(membership *ms, const membership_message *m, int64_t now_ns) {
    member *x = member_find(ms, m->rank);
    if (!x || x->state == MEMBER_GONE || x->fact.rank == ms->options.rank) return;
    if (has_mutation(MUTATION_NO_PROBES)) return;
    if (m->yes) {
        member_apply(ms, x, MEMBER_HEAR, now_ns);
    } else if (x->probe && m->number == x->probe) {
        x->answered++;
        if (has_ended(ms, x, now_ns)) end_round(x);
    }
}

// ---- Answering ----------------------------------------------------------------------------------------------------
static void reply(membership *ms, int to, uint64_t number, int rank, bool yes) {
    membership_message heard = {
        .kind = MEMBERSHIP_HEARD, .number = number, .rank = rank, .yes = yes
    };
    message *m = membership_encode(&heard);
    if (m) ms->options.send(ms->options.user, to, m);
}

static void forget(question *q) {
    list_remove(&q->link);
    mem_give(q, sizeof *q);
}

// Of each member only its last question about each other.
static void forget_older(membership *ms, int from, int rank) {
    list_each(l, &ms->questions) {
        question *q = list_entry(l, question, link);
        if (q->from == from && q->rank == rank) forget(q);
    }
}

// Only what was heard here: what others have said would go round in circles.
static bool is_fresh(const member *x, int64_t since_ns) {
    return x->direct_ns && x->direct_ns >= since_ns;
}

void membership_answer(membership *ms, member *from, const membership_message *m, int64_t now_ns) {
    member *x = member_find(ms, m->rank);
    bool is_self = m->rank == ms->options.rank;
    if (is_self || !x || !member_is_there(x)) {
        reply(ms, from->fact.rank, m->number, m->rank, is_self);
        return;
    }
    if (is_fresh(x, now_ns - MEMBERSHIP_FRESH_NS)) {
        reply(ms, from->fact.rank, m->number, m->rank, true);
        return;
    }
    forget_older(ms, from->fact.rank, m->rank);
    question *q = mem_take(sizeof *q);
    if (!q) return;  // it will ask again
    *q = (question){
        .from = from->fact.rank, .rank = m->rank, .number = m->number, .asked_ns = now_ns
    };
    list_append(&ms->questions, &q->link);
    membership_beat(ms, x);
}

void membership_answer_due(membership *ms, int64_t now_ns) {
    list_each(l, &ms->questions) {
        question *q = list_entry(l, question, link);
        const member *x = member_find(ms, q->rank);
        bool yes = member_is_there(x) && is_fresh(x, q->asked_ns);
        if (!yes && member_is_there(x) && now_ns - q->asked_ns < MEMBERSHIP_PROBE_NS) continue;
        const member *from = member_find(ms, q->from);
        if (member_is_there(from)) reply(ms, q->from, q->number, q->rank, yes);
        forget(q);
    }
}

void membership_drop_questions(membership *ms) {
    while (!list_is_empty(&ms->questions)) forget(list_entry(ms->questions.next, question, link));
}
