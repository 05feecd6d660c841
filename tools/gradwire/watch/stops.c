#include "watch/stops.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "system/clock.h"
#include "watch/flight.h"
#include "watch/members.h"
#include "job/report.h"

enum { LATE_MS = 1000 };

static void note(job *j, const siginfo_t *change) {
    if (run_world_max(&j->options) == 1) return;
    for (int i = 0; i < j->options.rank_count; i++) {
        rank *r = &j->ranks[i];
        if (!r->is_running || r->pid != change->si_pid) continue;
        r->stopped_ms = change->si_code == CLD_STOPPED ? clock_now_ms() : 0;
    }
}

void stops_take(job *j) {
    for (;;) {
        siginfo_t change = { 0 };
        if (waitid(P_ALL, 0, &change, WSTOPPED | WCONTINUED | WNOHANG) != 0 || !change.si_pid)
            return;
        note(j, &change);
    }
}

static bool is_stopped(const rank *r) {
    proc p;
    return r->is_running && r->stopped_ms && proc_read(r->pid, &p) && p.state == 'T';
}

// A user may stop a rank that does not use the library.
static bool is_waited_for(const job *j, const rank *r) {
    if (j->policy.stage != AWAITING_RANKS) return false;
    return r->has_begun || run_has_hosts(&j->options) || members_are_joining(j);
}

// The report shows what the others wait for: afterwards they fail one after the other.
static void end_stopped(job *j, rank *r) {
    hang_before_kill(j, r->pid, "has been stopped (SIGSTOP)");
    snprintf(r->killed_why, sizeof r->killed_why, "it had been stopped (SIGSTOP) for %d s",
             SILENT_MS / 1000);
    report_killed(j, r);
    kill(r->pid, SIGKILL);
    r->stopped_ms = 0;
}

void stops_end(job *j) {
    int64_t now_ms = clock_now_ms(), late_ms = now_ms - j->stops_checked_ms;
    for (int i = 0; i < j->options.rank_count; i++) {
        rank *r = &j->ranks[i];
        // The launcher may have been stopped together with its ranks, and is continued before them.
        if (r->stopped_ms && late_ms > LATE_MS) r->stopped_ms = now_ms;
        if (r->stopped_ms && now_ms - r->stopped_ms >= SILENT_MS && is_stopped(r) &&
            is_waited_for(j, r))
            end_stopped(j, r);
    }
    j->stops_checked_ms = now_ms;
}

int64_t stops_deadline_ms(const job *j) {
    for (int i = 0; i < j->options.rank_count; i++)
        if (j->ranks[i].is_running && j->ranks[i].stopped_ms)
            return j->stops_checked_ms + HEARTBEAT_MS;
    return INT64_MAX;
}
