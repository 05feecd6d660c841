#include "others.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>

#include "clock.h"
#include "command.h"
#include "ending.h"
#include "members.h"
#include "report.h"

// Hosts agree how a job ends within the time that it takes to notice that one of them is gone.
enum { VERDICT_MS = 12000, SILENCE_MS = 10000 };

void others_part_failed(job *j, int code, const char *why) {
    nodes *n = &j->nodes;
    if (!nodes_are_there(n)) {
        sink_say(j->say, "%s", why);
        ending_set_code(j, code);
    } else if (!n->failed_code) {
        n->failed_code = code;
        snprintf(n->failed_why, sizeof n->failed_why, "%s", why);
        nodes_tell(n, LINK_FAILED, code, why);
    }
}

void others_keep_failure(job *j, int code, const char *why) {
    sink_say(j->say, "%s", why);
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
    if (m->kind == LINK_SIGNAL && is_own) return;  // of which it has told
    j->nodes.is_decided = true;
    if (is_first) report_node(j, m);
    if (is_first) ending_set_code(j, code_of(m));
    if (m->kind == LINK_SIGNAL) ending_happened(j, USER_SIGNAL, signals_to_ranks(m->number));
    if (m->kind == LINK_LOST || (m->kind == LINK_FAILED && !is_own))
        ending_happened(j, OTHERS_FAILED, SIGTERM);
}

void others_take(job *j) {
    for (link_message m; nodes_take(&j->nodes, &m);) {
        switch (m.kind) {
        case LINK_DEAD: members_end(j, m.text); break;
        case LINK_ABSENT:
            if (m.node != j->options.node_rank) members_hear_absent(j, m.text);
            break;
        default: decided(j, &m); break;
        }
    }
}

// Whether a failure here waits for its verdict, and not for the ranks of others.
static bool awaits_verdict(const job *j) {
    return j->nodes.failed_code && !j->options.keep && !j->nodes.is_decided;
}

int64_t others_deadline_ms(const job *j) {
    return awaits_verdict(j) ? j->alone_ms + VERDICT_MS : INT64_MAX;
}

bool others_are_awaited(job *j) {
    nodes *n = &j->nodes;
    if (!nodes_are_there(n) || n->is_decided) return false;
    if (!awaits_verdict(j)) nodes_tell(n, LINK_DONE, n->failed_code, "");
    if (!n->has_said && clock_now_ms() >= j->alone_ms + SILENCE_MS) {
        n->has_said = true;
        sink_say(j->say, "all ranks of this host have ended; waits for the other hosts");
    }
    if (clock_now_ms() < others_deadline_ms(j)) return true;
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

bool others_meet(job *j, int *out_code) {
    *out_code = 0;
    while (nodes_are_there(&j->nodes) && !*out_code) {
        struct pollfd ready[2] = { { .fd = j->signals.fd, .events = POLLIN },
                                   { .fd = j->nodes.fd, .events = POLLIN } };
        int signal_number;
        nodes_beat(&j->nodes);
        poll(ready, 2, BEAT_MS);
        if (has_met(j, out_code)) return true;
        for (signal_duty duty; (duty = signals_take(&j->signals, &signal_number)) != DUTY_NONE;) {
            if (duty != DUTY_END) continue;
            sink_say(j->say, "%s: ends before all hosts have met", signals_name(signal_number));
            *out_code = EXIT_SIGNAL + signal_number;
        }
    }
    return !*out_code;
}
