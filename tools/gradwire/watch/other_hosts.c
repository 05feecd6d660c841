#include "watch/other_hosts.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>

#include "system/clock.h"
#include "options/command.h"
#include "watch/ending.h"
#include "watch/members.h"
#include "watch/restarts.h"
#include "job/report.h"
#include "job/slots.h"

// Hosts agree how a job ends within the time that it takes to detect the loss of a host.
enum { OUTCOME_MS = 12000, SILENCE_MS = 10000, PLACE_MS = 2000 };

void other_hosts_report_failure(job *j, int code, const char *why) {
    nodes *n = &j->nodes;
    if (!nodes_are_open(n)) {
        sink_print(j->messages, "%s", why);
        ending_set_code(j, code);
    } else if (!n->failed_code) {
        const link_message m = message_of(LINK_FAILED, code, why);
        n->failed_code = code;
        snprintf(n->failed_why, sizeof n->failed_why, "%s", why);
        nodes_send(n, &m);
    }
}

void other_hosts_keep_failure(job *j, int code, const char *why) {
    sink_print(j->messages, "%s", why);
    if (!j->nodes.failed_code) j->nodes.failed_code = code;
}

// ---- The outcome ------------------------------------------------------------------------------------

static int code_of(const link_message *m) {
    if (m->kind == LINK_FAILED || m->kind == LINK_DONE) return m->number;
    return m->kind == LINK_SIGNAL ? EXIT_SIGNAL + m->number : EXIT_OWN_FAILURE;
}

// A rank of this host whose failure ends the job, after host 0 has decided that.
static void note_cause(job *j, const link_message *m) {
    int index = m->rank - run_rank(&j->options, 0);
    if (m->kind != LINK_FAILED || index < 0 || index >= j->options.rank_count) return;
    j->cause = &j->ranks[index];
    report_failed(j, j->cause, m->text);
}

// Ranks of this host are asked to end, unless they have been when its own failure was reported.
static void end_ranks(job *j, const link_message *m) {
    bool is_own = m->node == j->options.node_rank;
    switch (m->kind) {
    case LINK_SIGNAL: ending_happened(j, USER_SIGNAL, signals_to_ranks(m->number)); break;
    case LINK_DONE: j->tree_has_changed = true; break;  // to end without ranks
    case LINK_FAILED:
        if (is_own && m->rank == NO_RANK) break;
        ending_happened(j, OTHER_HOST_FAILED, SIGTERM);
        break;
    default: ending_happened(j, OTHER_HOST_FAILED, SIGTERM); break;
    }
}

static void decided(job *j, const link_message *m) {
    bool is_first = !j->nodes.is_decided, is_own = m->node == j->options.node_rank;
    if (!is_first && m->kind != LINK_SIGNAL) return;
    if (m->kind == LINK_SIGNAL && is_own) return;  // this host has sent it
    j->nodes.is_decided = true;
    if (is_first) {
        report_node(j, m);
        note_cause(j, m);
        ending_set_code(j, code_of(m));
    }
    if (!j->is_alone) end_ranks(j, m);
}

// Host 0 has reported nothing for long.
static void decide_alone(job *j, const rank *r) {
    link_message own = message_of(LINK_FAILED, slot_exit_code(r), "");
    own.node = j->options.node_rank;
    own.rank = run_rank(&j->options, (int)(r - j->ranks));
    report_describe(j, r, own.text, sizeof own.text);
    decided(j, &own);
}

// ---- Decisions about restarts -----------------------------------------------------------------------

// Ranks that run, or will: without any of them the answer would be true of each job.
static bool are_elastic(const job *j) {
    for (int i = 0; i < j->options.rank_count; i++) {
        const rank *r = &j->ranks[i];
        bool runs = r->is_running || r->awaits_start || r->awaits_decision;
        if (runs && !r->is_elastic) return false;
    }
    return true;
}

static void reply(job *j, int question) {
    link_message m = message_of(LINK_STATE, question, "");
    members_take_events(j);
    m.flags = (j->has_begun ? LINK_HAS_BEGUN : 0) | (j->has_joined ? LINK_HAS_JOINED : 0) |
              (are_elastic(j) ? LINK_IS_ELASTIC : 0) | (slots_have_state(j) ? LINK_HAS_STATE : 0) |
              (j->is_finished ? LINK_IS_FINISHED : 0);
    nodes_send(&j->nodes, &m);
}

// ---- Hosts that join and leave ----------------------------------------------------------------------

static void set_count(job *j, const link_message *m) {
    if (j->options.is_dynamic) j->options.node_count = m->count;
}

// The first one that a host takes is its own.
static void take_admission(job *j, const link_message *m) {
    bool is_own = !j->nodes.has_met || m->number == j->nodes.peer;
    set_count(j, m);
    if (is_own) {
        j->nodes.peer = m->number;
        j->options.node_rank = m->node;
        for (int i = 0; i < j->options.rank_count; i++) j->ranks[i].next_attempt = m->attempt;
    } else if (j->policy.stage != AWAITING_HOSTS) {
        report_node(j, m);
    }
}

// A host joins a round that runs only if all ranks that run are elastic: so are its own, since their program is the same.
static void take_first_round(job *j, const link_message *m) {
    j->round = m->attempt;
    for (int i = 0; i < j->options.rank_count; i++)
        j->ranks[i].is_elastic = m->flags & LINK_IS_ELASTIC;
}

static void end_own_ranks(job *j) {
    j->nodes.is_decided = true;
    ending_happened(j, USER_SIGNAL, SIGTERM);
}

bool other_hosts_may_leave(const job *j) {
    const run_options *o = &j->options;
    return o->is_dynamic && o->node_rank > 0 && o->on_failure != FAILURE_STOP &&
           !j->nodes.is_decided && !j->nodes.failed_code && !j->is_alone;
}

void other_hosts_leave(job *j, int signal_number) {
    const link_message m = message_of(LINK_LEAVES, SIGTERM, "");
    if (j->leaves) {
        end_own_ranks(j);
        return;
    }
    j->leaves = true;
    sink_print(j->messages, "%s: this host leaves the job", signals_name(signal_number));
    nodes_send(&j->nodes, &m);
}

static void take_leaving(job *j, const link_message *m) {
    if (m->node != j->options.node_rank)
        report_node(j, m);
    else if (!j->nodes.is_decided)
        end_own_ranks(j);
}

// A host that is lost to the others is cut off from them.
static void take_loss(job *j, const link_message *m) {
    set_count(j, m);
    if (m->node == j->options.node_rank) {
        link_message lost = *m;
        lost.kind = LINK_LOST;
        decided(j, &lost);
        return;
    }
    report_node(j, m);
    members_take_lost_host(j, m->node, m->text);
}

// Decisions that a host receives after the end of the job has been decided, or after its own part has failed, have no effect.
static void take_restart(job *j, const link_message *m) {
    if (j->nodes.is_decided || j->nodes.failed_code) return;
    switch (m->kind) {
    case LINK_RESTART: restarts_take_one(j, m); break;
    case LINK_RESTART_ALL:
        restarts_take_all(j, m);
        if (j->leaves) end_own_ranks(j);
        break;
    default:
        if (j->policy.stage == AWAITING_HOSTS && m->attempt == j->round) restarts_begin_round(j);
        break;
    }
}

bool other_hosts_may_restart(const job *j) {
    const nodes *n = &j->nodes;
    return nodes_are_open(n) && !n->has_ended && run_restarts(&j->options) && !n->is_decided &&
           !n->failed_code;
}

static void report_done(job *j) {
    link_message m = message_of(LINK_DONE, j->nodes.failed_code, "");
    m.count = slots_count_successes(j);
    m.attempt = j->round;
    nodes_send(&j->nodes, &m);
}

void other_hosts_await_restart(job *j) {
    ending_happened(j, LEFTOVERS_GONE, 0);
    report_done(j);
    j->nodes.done_ms = clock_now_ms();
}

// ---- Messages ---------------------------------------------------------------------------------------

static void print_wait(job *j, int64_t since_ms) {
    if (j->nodes.has_reported_wait || clock_now_ms() < since_ms + SILENCE_MS) return;
    j->nodes.has_reported_wait = true;
    sink_print(j->messages, "all ranks of this host have ended; waiting for the other hosts");
}

static void take_message(job *j, const link_message *m) {
    switch (m->kind) {
    case LINK_DEAD: members_end(j, m->text); break;
    case LINK_ABSENT:
        if (m->node != j->options.node_rank) members_take_absent(j, m->text);
        break;
    case LINK_FINISHED: members_take_finished(j); break;
    case LINK_ASK: reply(j, m->number); break;
    case LINK_RESTART:
    case LINK_RESTART_ALL:
    case LINK_START_ROUND: take_restart(j, m); break;
    case LINK_ADMIT: take_admission(j, m); break;
    case LINK_LEAVES: take_leaving(j, m); break;
    case LINK_LEFT:
        set_count(j, m);
        report_node(j, m);
        break;
    case LINK_GONE: take_loss(j, m); break;
    default: decided(j, m); break;
    }
}

void other_hosts_take(job *j) {
    for (link_message m; nodes_take(&j->nodes, &m);) take_message(j, &m);
    const rank *undecided = restarts_find_undecided(j);
    if (undecided && !j->nodes.is_decided) decide_alone(j, undecided);
    if (j->nodes.done_ms && !j->nodes.is_decided) print_wait(j, j->nodes.done_ms);
}

// ---- The end ----------------------------------------------------------------------------------------

// Whether a failure of this host waits for the outcome of the job, and not for the ranks of other hosts.
static bool awaits_outcome(const job *j) {
    return j->nodes.failed_code && j->options.on_failure != FAILURE_KEEP && !j->nodes.is_decided;
}

int64_t other_hosts_deadline_ms(const job *j) {
    return awaits_outcome(j) ? j->alone_ms + OUTCOME_MS : INT64_MAX;
}

bool other_hosts_are_awaited(job *j) {
    nodes *n = &j->nodes;
    if (!nodes_are_open(n) || n->is_decided) return false;
    if (!awaits_outcome(j)) report_done(j);
    print_wait(j, j->alone_ms);
    if (clock_now_ms() < other_hosts_deadline_ms(j)) return true;
    link_message own = message_of(LINK_FAILED, n->failed_code, n->failed_why);
    own.node = j->options.node_rank;
    decided(j, &own);
    return false;
}

// ---- The beginning ----------------------------------------------------------------------------------

typedef enum meeting { IS_MEETING, HAS_MET, HAS_ENDED } meeting;

static void take_ready(job *j, const link_message *m) {
    j->nodes.has_met = true;
    j->nodes.has_reported_wait = false;
    j->port = m->number;
    snprintf(j->nodes.job_id, sizeof j->nodes.job_id, "%.*s", (int)sizeof j->nodes.job_id - 1,
             m->text);
}

// A host that waits for a place in the job ends with it.
static meeting take_meeting(job *j, int *out_code) {
    for (link_message m; nodes_take(&j->nodes, &m);) {
        switch (m.kind) {
        case LINK_ADMIT: take_admission(j, &m); break;
        case LINK_START_ROUND: take_first_round(j, &m); break;
        case LINK_READY: take_ready(j, &m); return HAS_MET;
        case LINK_WAITS:
            j->nodes.waits_ms = clock_now_ms();
            j->nodes.job_runs = m.number;
            break;
        case LINK_DONE:
            sink_print(j->messages, "the job has ended before this host has had a place in it");
            return HAS_ENDED;
        default:
            report_node(j, &m);
            *out_code = code_of(&m);
            return HAS_ENDED;
        }
    }
    return IS_MEETING;
}

// The link reports the signal if it finds meanwhile that all hosts have met. A host that has been given a place in a dynamic job
// meanwhile leaves it.
static meeting take_signal(job *j, int signal_number, int *out_code) {
    bool leaves = j->options.is_dynamic && signal_number == SIGTERM;
    const link_message ends = message_of(leaves ? LINK_LEAVES : LINK_SIGNAL, signal_number, "");
    sink_print(j->messages, "%s: ending before all hosts have met", signals_name(signal_number));
    *out_code = EXIT_SIGNAL + signal_number;
    nodes_send(&j->nodes, &ends);
    return HAS_ENDED;
}

static void print_place_wait(job *j) {
    nodes *n = &j->nodes;
    if (!n->waits_ms || n->has_reported_wait || clock_now_ms() < n->waits_ms + PLACE_MS) return;
    n->has_reported_wait = true;
    if (n->job_runs)
        sink_print(j->messages, "the ranks of the job run; waiting for a free place for this host");
    else
        sink_print(j->messages,
                   "waiting for other hosts: the job needs %d hosts, and takes at most %d",
                   j->options.node_min, j->options.node_max);
    sink_flush(j->messages);
}

static meeting turn(job *j, int *out_code) {
    struct pollfd ready[] = { { .fd = j->signals.fd, .events = POLLIN },
                              { .fd = j->nodes.fd, .events = POLLIN },
                              { .fd = j->channels.poll_fd, .events = POLLIN } };
    int signal_number;
    nodes_send_heartbeat(&j->nodes);
    poll(ready, 3, HEARTBEAT_MS);
    meeting m = take_meeting(j, out_code);
    while (m == IS_MEETING) {
        signal_duty duty = signals_take(&j->signals, &signal_number);
        if (duty == DUTY_NONE) break;
        bool leaves =
            duty == DUTY_USER && run_on_signal(&j->options, signal_number) == SIGNAL_LEAVE;
        if (duty == DUTY_END || leaves)
            m = take_signal(j, leaves ? SIGTERM : signal_number, out_code);
    }
    members_take_events(j);
    if (m == IS_MEETING && j->stop_signal) m = take_signal(j, j->stop_signal, out_code);
    if (m == IS_MEETING) print_place_wait(j);
    return m;
}

bool other_hosts_meet(job *j, int *out_code) {
    meeting m = nodes_are_open(&j->nodes) ? IS_MEETING : HAS_MET;
    *out_code = 0;
    if (j->options.is_dynamic) j->options.node_rank = NO_NODE;  // until host 0 has given it one
    while (m == IS_MEETING) m = turn(j, out_code);
    return m == HAS_MET;
}
