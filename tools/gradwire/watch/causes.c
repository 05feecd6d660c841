#include "watch/causes.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "system/clock.h"
#include "options/roles.h"
#include "watch/ending.h"
#include "watch/flight.h"
#include "watch/members.h"
#include "watch/other_hosts.h"
#include "watch/restarts.h"
#include "job/report.h"
#include "job/slots.h"

// A process that is ending closes its connections some time before its end can be noticed.
enum { ENDING_MS = 5000 };

static bool has_failed(const rank *r) {
    return r->pid && !r->is_running && (r->status != 0 || r->has_ended_early);
}

// A rank whose program fails waits for the others in gw_rpc_shutdown. They fail because of it and may end first, with or
// without a report.
static rank *find_failed_before(job *j, const rank *r) {
    bool has_exited = has_failed(r) && WIFEXITED(r->status);
    return r->failed_ns || has_exited ? members_failed_before(j, r) : NULL;
}

// Back along what ranks have lost and whose program failed before, to one without either. Two that have lost each other
// are each a cause of their own.
static rank *find_cause(job *j, rank *r) {
    rank *c = r;
    for (int i = 0; i <= j->options.rank_count; i++) {
        rank *before = members_lost_by(j, c);
        if (!before) before = find_failed_before(j, c);
        if (!before || before == c) return c;
        c = before;
    }
    return r;
}

static bool is_about_to_end(const job *j, const rank *cause, const rank *r) {
    return j->policy.stage == AWAITING_RANKS &&
           (cause->is_running || members_failed_elsewhere(j, cause)) &&
           clock_now_ms() < r->ended_ms + ENDING_MS;
}

// Returns false if another attempt follows, or may follow.
static bool ends_job(job *j, rank *r, rank *cause, char *why, size_t size) {
    bool by_itself = j->policy.stage == AWAITING_RANKS;
    report_describe_failure(j, r, cause, why, size);
    if (by_itself) slot_write_error(j, r, why);
    if (by_itself) flight_failed(j);
    if (policy_ends_round(&j->policy)) return false;
    return !by_itself || !restarts_take_failure(j, r, why, size);
}

static void rank_failed(job *j, rank *r, rank *cause) {
    bool by_itself = j->policy.stage == AWAITING_RANKS;
    bool is_alone = !nodes_are_open(&j->nodes);
    bool keeps = roles_policy(&j->options, (int)(r - j->ranks)) == FAILURE_KEEP;
    char why[LINK_TEXT_SIZE];
    if (!ends_job(j, r, cause, why, sizeof why)) return;
    if (by_itself) report_failed(j, r, why);
    if (by_itself && !j->cause) j->cause = cause->is_running ? r : cause;
    if (is_alone && by_itself && (!r->killed_why[0] || run_restarts(&j->options)))
        sink_print(j->messages, "%s", why);
    if (is_alone)
        ending_set_code(j, slot_exit_code(r));
    else if (by_itself && keeps)
        other_hosts_keep_failure(j, slot_exit_code(r), why);
    else if (by_itself)
        other_hosts_report_failure(j, slot_exit_code(r), why);
    if (!keeps || !by_itself) ending_happened(j, RANK_FAILED, SIGTERM);
}

static void judge(job *j, rank *r) {
    rank *cause = find_cause(j, r);
    if (is_about_to_end(j, cause, r)) {
        int64_t until_ms = r->ended_ms + ENDING_MS;
        if (until_ms < j->judge_ms) j->judge_ms = until_ms;
        return;
    }
    if (cause != r && has_failed(cause) && !cause->is_judged) {
        cause->is_judged = true;
        rank_failed(j, cause, cause);
    }
    r->is_judged = true;
    rank_failed(j, r, cause);
}

// The order of ends that are noticed together, of ranks that have reported nothing, is not known. A killed rank is the
// likelier cause: the others may have exited because of it.
void causes_judge(job *j) {
    j->judge_ms = INT64_MAX;
    for (int killed = 1; killed >= 0; killed--) {
        for (int i = 0; i < j->options.rank_count; i++) {
            rank *r = &j->ranks[i];
            if (has_failed(r) && !r->is_judged && WIFSIGNALED(r->status) == killed) judge(j, r);
        }
    }
}
