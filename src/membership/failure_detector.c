// What is heard of each member, who is suspected, and who watches whom.
#include "membership/membership_internal.h"

#include "base/mutation.h"

#include <assert.h>

// ---- What is thought of one ----------------------------------------------------------------------------------------
static void ask(membership *ms, member *x, int64_t now_ns) {
    x->watched_ns = now_ns;
    if (!x->direct_ns || now_ns - x->direct_ns >= MEMBERSHIP_BEAT_NS) membership_beat(ms, x);
}

static void note(membership *ms, member *x, int64_t now_ns) {
    (void)ms;
    x->heard_ns = now_ns;
    x->probe = 0;
    x->denial = NOT_DENIED;
}

static void bury(membership *ms, member *x, int64_t now_ns) {
    (void)ms, (void)now_ns;
    x->must_tell_gone = true;
    x->beat_is_out = false;
}

static void nothing(membership *ms, member *x, int64_t now_ns) {
    (void)ms, (void)x, (void)now_ns;
}

typedef struct rule {
    member_state from;
    member_event event;
    member_state to;
    void (*action)(membership *ms, member *x, int64_t now_ns);
    const char *why;
} rule;

// clang-format off
static const rule rules[] = {
    { MEMBER_UNWATCHED, MEMBER_WATCH,   MEMBER_HEARD,     ask,             "its silence counts from here on" },
    { MEMBER_UNWATCHED, MEMBER_UNWATCH, MEMBER_UNWATCHED, nothing,         "so it was" },
    { MEMBER_UNWATCHED, MEMBER_HEAR,    MEMBER_UNWATCHED, note,            "for others that may ask" },
    { MEMBER_UNWATCHED, MEMBER_END,     MEMBER_GONE,      bury,            "somebody knows it" },

    { MEMBER_HEARD,     MEMBER_WATCH,   MEMBER_HEARD,     nothing,         "so it is" },
    { MEMBER_HEARD,     MEMBER_UNWATCH, MEMBER_UNWATCHED, nothing,         "the judge is back, or nothing is awaited any more" },
    { MEMBER_HEARD,     MEMBER_HEAR,    MEMBER_HEARD,     note,            "it is alive" },
    { MEMBER_HEARD,     MEMBER_SILENT,  MEMBER_SUSPECTED, nothing,         "it did not answer a beat either" },
    { MEMBER_HEARD,     MEMBER_END,     MEMBER_GONE,      bury,            "somebody knows it" },

    { MEMBER_SUSPECTED, MEMBER_WATCH,   MEMBER_SUSPECTED, nothing,         "so it is" },
    { MEMBER_SUSPECTED, MEMBER_UNWATCH, MEMBER_UNWATCHED, nothing,         "it is for the judge to say" },
    { MEMBER_SUSPECTED, MEMBER_HEAR,    MEMBER_HEARD,     note,            "it was slow, or one link is bad" },
    { MEMBER_SUSPECTED, MEMBER_SILENT,  MEMBER_SUSPECTED, nothing,         "whether it is dead is for the one that decides" },
    { MEMBER_SUSPECTED, MEMBER_END,     MEMBER_GONE,      bury,            "it was declared dead, or somebody knows" },
};
// clang-format on

void member_apply(membership *ms, member *x, member_event event, int64_t now_ns) {
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (rules[i].from != x->state || rules[i].event != event) continue;
        x->state = rules[i].to;
        rules[i].action(ms, x, now_ns);
        return;
    }
    assert(x->state == MEMBER_GONE && event != MEMBER_END);  // who is gone stays gone
}

// ---- Hearing ------------------------------------------------------------------------------------------------------
bool member_hears(const membership *ms, const member *x, int64_t within_ns, int64_t now_ns) {
    if (x->fact.rank == ms->options.rank) return true;
    return x->heard_ns && now_ns - x->heard_ns < within_ns;
}

// How long nothing was heard, asking it. Whoever was never heard may still be starting.
int64_t member_silence(const member *x, int64_t since_ns, int64_t now_ns) {
    if (!since_ns) since_ns = x->known_ns + MEMBERSHIP_GRACE_NS;
    if (since_ns < x->watched_ns) since_ns = x->watched_ns;
    return now_ns - since_ns;
}

static bool is_in(const membership *ms, const member *x, bool counted) {
    if (counted) return x->fact.stage == MEMBER_COUNTED || x->fact.stage == MEMBER_OUT;
    // Whoever is new is counted or not by the coordinator's word alone: until it was heard of, it is not.
    bool unheard = x->fact.stage == MEMBER_NEW && !x->heard_ns;
    return member_is_there(x) && !(unheard && membership_coordinator(ms) == ms->options.rank &&
                                   x->fact.rank != ms->options.rank);
}

// "More than half, or half with the lowest."
bool membership_is_quorum(const membership *ms, bool counted, member_test *test, int64_t within_ns,
                          int64_t now_ns) {
    int all = 0, passed = 0, rank = 0;
    bool lowest_passes = false;
    for (member *x; (x = member_next(ms, &rank));) {
        if (!is_in(ms, x, counted)) continue;
        bool passes = member_is_there(x) && test(ms, x, within_ns, now_ns);
        if (all == 0) lowest_passes = passes;
        all++;
        passed += passes;
    }
    return passed * 2 > all || (passed * 2 == all && lowest_passes);
}

bool membership_hears_quorum(const membership *ms, int64_t within_ns, int64_t now_ns) {
    if (has_mutation(MUTATION_NO_MAJORITY)) return true;
    return membership_is_quorum(ms, true, member_hears, within_ns, now_ns);
}

void membership_heard(membership *ms, int rank, int64_t now_ns) {
    member *x = member_find(ms, rank);
    if (!x || x->state == MEMBER_GONE || ms->is_fenced || rank == ms->options.rank) return;
    x->direct_ns = now_ns;
    x->beat_is_out = false;
    member_apply(ms, x, MEMBER_HEAR, now_ns);
}

void membership_beat(membership *ms, member *x) {
    bool asks = ms->doubt_ns || (ms->lowest == ms->options.rank && x->told != ms->digest);
    membership_message beat = { .kind = MEMBERSHIP_BEAT,
                                .digest = ms->digest,
                                .flags = (uint8_t)((ms->has_quorum ? MEMBERSHIP_HAS_MOST : 0) |
                                                   (asks ? MEMBERSHIP_ASKS : 0)) };
    message *m = membership_encode(&beat);
    if (!m) return;  // the next tick tries again
    x->beat_is_out = true;
    ms->options.send(ms->options.user, x->fact.rank, m);
}

// ---- Who watches whom ----------------------------------------------------------------------------------------------
bool member_is_watched(const membership *ms, const member *x) {
    if (!member_is_there(x) || x->fact.rank == ms->options.rank) return false;
    int coordinator = membership_coordinator(ms);
    return coordinator == ms->options.rank || x->fact.rank == coordinator || x->awaits > 0 ||
           ms->trouble_ns;
}

// "While the coordinator is silent, or does not hear most itself, a worker watches everyone", until it hears the coordinator, be it
// the next one.
static void note_trouble(membership *ms, int64_t now_ns) {
    const member *coordinator = member_find(ms, ms->lowest);
    if (coordinator->fact.rank == ms->options.rank) {
        ms->trouble_ns = 0;
        return;
    }
    bool is_silent =
        member_silence(coordinator, coordinator->direct_ns, now_ns) >= MEMBERSHIP_SUSPECT_NS;
    if (is_silent || !ms->coordinator_has_quorum) {
        if (!ms->trouble_ns) ms->trouble_ns = now_ns;
    } else if (coordinator->direct_ns >= ms->trouble_ns) {
        ms->trouble_ns = 0;
    }
}

static void watch(membership *ms, member *x, int64_t now_ns) {
    if (x->state == MEMBER_GONE || x->fact.rank == ms->options.rank) return;
    member_apply(ms, x, member_is_watched(ms, x) ? MEMBER_WATCH : MEMBER_UNWATCH, now_ns);
    if (x->state == MEMBER_UNWATCHED) return;
    bool is_coordinator = membership_coordinator(ms) == ms->options.rank;
    bool patient = !is_coordinator && x->fact.rank == membership_coordinator(ms) && !ms->trouble_ns;
    int64_t beat_ns = patient ? MEMBERSHIP_OWN_BEAT_NS : MEMBERSHIP_BEAT_NS;
    if (!x->beat_is_out && now_ns - x->direct_ns >= beat_ns) membership_beat(ms, x);
    if (member_silence(x, x->heard_ns, now_ns) >= MEMBERSHIP_SUSPECT_NS)
        member_apply(ms, x, MEMBER_SILENT, now_ns);
}

void membership_watch(membership *ms, int64_t now_ns) {
    note_trouble(ms, now_ns);
    int rank = 0;
    for (member *x; (x = member_next(ms, &rank));) watch(ms, x, now_ns);
}
