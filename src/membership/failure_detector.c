// The failure detector: which members are alive or suspected, and which of them this worker
// monitors.
#include "membership/membership_internal.h"

#include "base/machine.h"
#include "base/mutation.h"

#include <assert.h>

// ---- The state of one member --------------------------------------------------------------------
static void start_monitoring(membership *ms, member *x, int64_t now_ns) {
    x->monitored_ns = now_ns;
    if (!x->direct_ns || now_ns - x->direct_ns >= MEMBERSHIP_HEARTBEAT_NS)
        membership_send_heartbeat(ms, x);
}

static void note(membership *ms, member *x, int64_t now_ns) {
    (void)ms;
    x->alive_ns = now_ns;
    x->probe = 0;
    x->outcome = NOT_PROBED;
}

static void note_end(membership *ms, member *x, int64_t now_ns) {
    (void)ms, (void)now_ns;
    x->heartbeat_is_out = false;
}

static void nothing(membership *ms, member *x, int64_t now_ns) {
    (void)ms, (void)x, (void)now_ns;
}

typedef MACHINE_RULE(member_state, member_event, membership *ms, member *x, int64_t now_ns) rule;

// clang-format off
static const rule rules[] = {
    { MEMBER_UNMONITORED, MEMBER_MONITOR,   MEMBER_ALIVE,       start_monitoring, "its silence is counted from now on" },
    { MEMBER_UNMONITORED, MEMBER_UNMONITOR, MEMBER_UNMONITORED, nothing,          "unchanged" },
    { MEMBER_UNMONITORED, MEMBER_RECEIVED,  MEMBER_UNMONITORED, note,             "other members may probe it through this one" },
    { MEMBER_UNMONITORED, MEMBER_END,       MEMBER_GONE,        note_end,         "another member has detected it" },

    { MEMBER_ALIVE,       MEMBER_MONITOR,   MEMBER_ALIVE,       nothing,          "unchanged" },
    { MEMBER_ALIVE,       MEMBER_UNMONITOR, MEMBER_UNMONITORED, nothing,          "the coordinator is back, or this worker awaits nothing from it any more" },
    { MEMBER_ALIVE,       MEMBER_RECEIVED,  MEMBER_ALIVE,       note,             "it is alive" },
    { MEMBER_ALIVE,       MEMBER_SILENT,    MEMBER_SUSPECTED,   nothing,          "it did not answer a heartbeat" },
    { MEMBER_ALIVE,       MEMBER_END,       MEMBER_GONE,        note_end,         "another member has detected it" },

    { MEMBER_SUSPECTED,   MEMBER_MONITOR,   MEMBER_SUSPECTED,   nothing,          "unchanged" },
    { MEMBER_SUSPECTED,   MEMBER_UNMONITOR, MEMBER_UNMONITORED, nothing,          "the coordinator decides" },
    { MEMBER_SUSPECTED,   MEMBER_RECEIVED,  MEMBER_ALIVE,       note,             "it was only slow, or one link to it is bad" },
    { MEMBER_SUSPECTED,   MEMBER_SILENT,    MEMBER_SUSPECTED,   nothing,          "the worker that monitors it will declare it dead" },
    { MEMBER_SUSPECTED,   MEMBER_END,       MEMBER_GONE,        note_end,         "it was declared dead, or another member has detected it" },
};
// clang-format on

void member_apply(membership *ms, member *x, member_event event, int64_t now_ns) {
    const rule *r = machine_find(rules, sizeof rules, sizeof *rules, x->state, event);
    assert(r || (x->state == MEMBER_GONE && event != MEMBER_END));  // MEM-1
    if (!r) return;
    x->state = r->to;
    r->action(ms, x, now_ns);
}

// ---- Receiving ----------------------------------------------------------------------------------
bool member_receives_from(const membership *ms, const member *x, int64_t within_ns,
                          int64_t now_ns) {
    if (x->fact.rank == ms->options.rank) return true;
    return x->alive_ns && now_ns - x->alive_ns < within_ns;
}

// How long the member has sent nothing while it was monitored. A member that has never sent anything may still
// be starting (MEM-10).
int64_t member_silence(const member *x, int64_t since_ns, int64_t now_ns) {
    if (!since_ns) since_ns = x->known_ns + MEMBERSHIP_GRACE_NS;
    if (since_ns < x->monitored_ns) since_ns = x->monitored_ns;
    return now_ns - since_ns;
}

static bool is_in(const membership *ms, const member *x, bool voters) {
    if (voters) return x->fact.stage == MEMBER_ACTIVE || x->fact.stage == MEMBER_FAILED;
    // A joining member is part of no quorum of the coordinator until the coordinator has received from it
    // (MEM-16).
    bool never_received = x->fact.stage == MEMBER_JOINING && !x->alive_ns;
    return member_is_present(x) &&
           !(never_received && membership_coordinator(ms) == ms->options.rank &&
             x->fact.rank != ms->options.rank);
}

// "More than half of it, or exactly half with the lowest rank."
bool membership_is_quorum(const membership *ms, bool voters, member_test *test, int64_t within_ns,
                          int64_t now_ns) {
    int all = 0, passed = 0;
    bool lowest_passes = false;
    for (member *x = NULL; (x = member_next(ms, x));) {
        if (!is_in(ms, x, voters)) continue;
        bool passes = member_is_present(x) && test(ms, x, within_ns, now_ns);
        if (all == 0) lowest_passes = passes;
        all++;
        passed += passes;
    }
    return passed * 2 > all || (passed * 2 == all && lowest_passes);
}

bool membership_receives_from_quorum(const membership *ms, int64_t within_ns, int64_t now_ns) {
    if (has_mutation(MUTATION_NO_MAJORITY)) return true;
    return membership_is_quorum(ms, true, member_receives_from, within_ns, now_ns);
}

void membership_note_receive(membership *ms, int rank, int64_t now_ns) {
    member *x = member_find(ms, rank);
    if (!x || x->state == MEMBER_GONE || ms->is_fenced || rank == ms->options.rank) return;
    x->direct_ns = now_ns;
    x->heartbeat_is_out = x->is_link_logged = false;
    member_apply(ms, x, MEMBER_RECEIVED, now_ns);
}

static void send_heartbeat(membership *ms, member *x, bool requests) {
    membership_message heartbeat = { .kind = MEMBERSHIP_HEARTBEAT,
                                     .digest = ms->digest,
                                     .flags =
                                         (uint8_t)((ms->has_quorum ? MEMBERSHIP_HAS_QUORUM : 0) |
                                                   (requests ? MEMBERSHIP_REQUESTS_ANSWER : 0)) };
    message *m = membership_encode(&heartbeat);
    if (!m) return;  // the next tick tries again
    x->heartbeat_is_out = true;
    ms->options.send(ms->options.user, x->fact.rank, m);
}

void membership_request_answer(membership *ms, member *x) {
    send_heartbeat(ms, x, true);
}

void membership_send_heartbeat(membership *ms, member *x) {
    bool requests = ms->doubt_ns || (membership_is_coordinator(ms) && x->reported != ms->digest);
    send_heartbeat(ms, x, requests);
}

// ---- Which members are monitored ----------------------------------------------------------------
bool member_is_monitored(const membership *ms, const member *x) {
    if (!member_is_present(x) || x->fact.rank == ms->options.rank) return false;
    int coordinator = membership_coordinator(ms);
    return coordinator == ms->options.rank || x->fact.rank == coordinator || x->awaits > 0 ||
           ms->no_coordinator_ns || ms->doubt_ns;
}

// MEM-7: a worker monitors all members while the coordinator is silent or reports that it has lost its quorum: until
// the worker receives from the coordinator or from the next one.
static void note_coordinator(membership *ms, int64_t now_ns) {
    const member *coordinator = member_find(ms, ms->lowest);
    if (coordinator->fact.rank == ms->options.rank) {
        ms->no_coordinator_ns = 0;
        return;
    }
    bool is_silent =
        member_silence(coordinator, coordinator->direct_ns, now_ns) >= MEMBERSHIP_SUSPECT_NS;
    if (is_silent || (ms->had_quorum && !ms->coordinator_has_quorum)) {
        if (!ms->no_coordinator_ns) ms->no_coordinator_ns = now_ns;
    } else if (coordinator->direct_ns >= ms->no_coordinator_ns) {
        ms->no_coordinator_ns = 0;
    }
}

static void monitor(membership *ms, member *x, int64_t now_ns) {
    if (x->state == MEMBER_GONE || x->fact.rank == ms->options.rank) return;
    member_apply(ms, x, member_is_monitored(ms, x) ? MEMBER_MONITOR : MEMBER_UNMONITOR, now_ns);
    if (x->state == MEMBER_UNMONITORED) return;
    bool is_coordinator = membership_coordinator(ms) == ms->options.rank;
    bool patient =
        !is_coordinator && x->fact.rank == membership_coordinator(ms) && !ms->no_coordinator_ns;
    int64_t heartbeat_ns = patient ? MEMBERSHIP_TO_COORDINATOR_NS : MEMBERSHIP_HEARTBEAT_NS;
    if (!x->heartbeat_is_out && now_ns - x->direct_ns >= heartbeat_ns)
        membership_send_heartbeat(ms, x);
    if (member_silence(x, x->alive_ns, now_ns) >= MEMBERSHIP_SUSPECT_NS)
        member_apply(ms, x, MEMBER_SILENT, now_ns);
}

void membership_detect_failures(membership *ms, int64_t now_ns) {
    note_coordinator(ms, now_ns);
    for (member *x = NULL; (x = member_next(ms, x));) monitor(ms, x, now_ns);
}

// MEM-14: whether all lower ranks are silent, so that this worker decides in the coordinator's
// place.
bool membership_is_candidate(const membership *ms, int64_t now_ns) {
    for (member *x = NULL; (x = member_next(ms, x)) && x->fact.rank < ms->options.rank;) {
        if (!member_is_present(x)) continue;
        if (x->state == MEMBER_UNMONITORED || now_ns - x->monitored_ns < MEMBERSHIP_PROBE_NS ||
            member_receives_from(ms, x, MEMBERSHIP_SUSPECT_NS, now_ns))
            return false;
    }
    return true;
}
