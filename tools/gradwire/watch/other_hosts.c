#include "watch/other_hosts.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>

#include "system/clock.h"
#include "options/command.h"
#include "watch/ending.h"
#include "watch/members.h"
#include "job/report.h"

// Hosts agree how a job ends within the time that it takes to detect the loss of a host.
enum { OUTCOME_MS = 12000, SILENCE_MS = 10000 };

void other_hosts_report_failure(job *j, int code, const char *why) {
    nodes *n = &j->nodes;
    if (!nodes_are_open(n)) {
        sink_print(j->messages, "%s", why);
        ending_set_code(j, code);
    } else if (!n->failed_code) {
        n->failed_code = code;
        snprintf(n->failed_why, sizeof n->failed_why, "%s", why);
        nodes_send(n, LINK_FAILED, code, why);
    }
}

void other_hosts_keep_failure(job *j, int code, const char *why) {
    sink_print(j->messages, "%s", why);
    if (!j->nodes.failed_code) j->nodes.failed_code = code;
}

static int code_of(const link_message *m) {
    switch (m->kind) {
    case LINK_FAILED:
    case LINK_DONE: return m->number;
    case LINK_SIGNAL: return EXIT_SIGNAL + m->number;
    case LINK_LOST:
    case LINK_DEAD:
    case LINK_ABSENT:
    case LINK_READY:
    case LINK_CANNOT: break;
    }
    return EXIT_OWN_FAILURE;
}

static void decided(job *j, const link_message *m) {
    bool is_first = !j->nodes.is_decided, is_own = m->node == j->options.node_rank;
    if (!is_first && m->kind != LINK_SIGNAL) return;
    if (m->kind == LINK_SIGNAL && is_own) return;  // this host has sent it
    j->nodes.is_decided = true;
    if (is_first) report_node(j, m);
    if (is_first) ending_set_code(j, code_of(m));
    if (m->kind == LINK_SIGNAL) ending_happened(j, USER_SIGNAL, signals_to_ranks(m->number));
    if (m->kind == LINK_LOST || (m->kind == LINK_FAILED && !is_own))
        ending_happened(j, OTHER_HOST_FAILED, SIGTERM);
}

void other_hosts_take(job *j) {
    for (link_message m; nodes_take(&j->nodes, &m);) {
        switch (m.kind) {
        case LINK_DEAD: members_end(j, m.text); break;
        case LINK_ABSENT:
            if (m.node != j->options.node_rank) members_take_absent(j, m.text);
            break;
        default: decided(j, &m); break;
        }
    }
}

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
    if (!awaits_outcome(j)) nodes_send(n, LINK_DONE, n->failed_code, "");
    if (!n->has_reported_wait && clock_now_ms() >= j->alone_ms + SILENCE_MS) {
        n->has_reported_wait = true;
        sink_print(j->messages, "all ranks of this host have ended; waiting for the other hosts");
    }
    if (clock_now_ms() < other_hosts_deadline_ms(j)) return true;
    link_message own = { .kind = LINK_FAILED,
                         .node = j->options.node_rank,
                         .number = n->failed_code };
    snprintf(own.text, sizeof own.text, "%s", n->failed_why);
    decided(j, &own);
    return false;
}

static bool has_met(job *j, int *out_code) {
    link_message m;
    while (nodes_take(&j->nodes, &m)) {
        if (m.kind == LINK_READY) {
            j->nodes.has_met = true;
            j->port = m.number;
            snprintf(j->nodes.job_id, sizeof j->nodes.job_id, "%.*s",
                     (int)sizeof j->nodes.job_id - 1, m.text);
            return true;
        }
        report_node(j, &m);
        *out_code = EXIT_OWN_FAILURE;
        return false;
    }
    return false;
}

bool other_hosts_meet(job *j, int *out_code) {
    *out_code = 0;
    while (nodes_are_open(&j->nodes) && !*out_code) {
        struct pollfd ready[2] = { { .fd = j->signals.fd, .events = POLLIN },
                                   { .fd = j->nodes.fd, .events = POLLIN } };
        int signal_number;
        nodes_send_heartbeat(&j->nodes);
        poll(ready, 2, HEARTBEAT_MS);
        if (has_met(j, out_code)) return true;
        for (signal_duty duty; (duty = signals_take(&j->signals, &signal_number)) != DUTY_NONE;) {
            if (duty != DUTY_END) continue;
            sink_print(j->messages, "%s: ending before all hosts have met",
                       signals_name(signal_number));
            *out_code = EXIT_SIGNAL + signal_number;
            // The link reports it if it finds meanwhile that all hosts have met.
            nodes_send(&j->nodes, LINK_SIGNAL, signal_number, "");
        }
    }
    return !*out_code;
}
