#include "watch/restarts.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "job/report.h"
#include "job/slots.h"
#include "launch/start.h"
#include "options/failures.h"
#include "system/clock.h"
#include "watch/ending.h"

// A worker of an elastic job continues after losses, and another one can take the place of one that is lost.
static bool are_elastic(const job *j, const rank *failed) {
    for (int i = 0; i < j->options.rank_count; i++) {
        const rank *r = &j->ranks[i];
        if ((r == failed || r->is_running) && !r->is_elastic) return false;
    }
    return true;
}

// Whether another rank runs through which the next attempt of |failed| could join the job.
static bool is_state_left(const job *j, const rank *failed) {
    for (int i = 0; i < j->options.rank_count; i++) {
        const rank *r = &j->ranks[i];
        if (r != failed && r->is_running && r->has_state) return true;
    }
    return false;
}

static int next_round(const job *j) {
    int newest = 0;
    for (int i = 0; i < j->options.rank_count; i++)
        if (j->ranks[i].attempt > newest) newest = j->ranks[i].attempt;
    return newest + 1;
}

static budget_decision ask_budget(job *j, const rank *r, int64_t now_ms, int64_t *out_start_ms) {
    budget_failure f = { .slot = (int)(r - j->ranks),
                         .started_ms = r->started_ms,
                         .now_ms = now_ms,
                         .has_joined = r->has_joined,
                         .job_has_begun = j->has_begun,
                         .job_has_joined = j->has_joined };
    return budget_fail(&j->budget, &f, out_start_ms);
}

bool restarts_take_failure(job *j, rank *r, char *why, size_t size) {
    if (!run_restarts(&j->options)) return false;
    int64_t start_ms, now_ms = clock_now_ms();
    budget_decision decision = ask_budget(j, r, now_ms, &start_ms);
    if (decision != BUDGET_RESTART) {
        size_t at = strlen(why);
        snprintf(why + at, size - at, "%s", report_why_none(j, decision));
        return false;
    }
    failure_survivors left = { .are_elastic = are_elastic(j, r),
                               .is_elastic = r->is_elastic,
                               .has_state = is_state_left(j, r),
                               .is_finished = j->is_finished };
    bool all = failures_act(j->options.on_failure, left, decision) == ACTION_START_ALL;
    restart_plan plan = { .all = all,
                          .attempt = all ? next_round(j) : r->attempt + 1,
                          .left = budget_left(&j->budget, now_ms),
                          .delay_ms = start_ms - now_ms };
    report_restart(j, r, why, &plan);
    if (all) {
        j->round_start_ms = start_ms;
        ending_happened(j, ROUND_FAILED, SIGTERM);
        return true;
    }
    r->awaits_start = true;
    r->start_ms = start_ms;
    r->next_attempt = plan.attempt;
    return true;
}

void restarts_begin_round(job *j) {
    int round = j->round = next_round(j);
    for (int i = 0; i < j->options.rank_count; i++) {
        rank *r = &j->ranks[i];
        r->is_judged = true;  // whatever its end was: it adds nothing
        r->awaits_start = true;
        r->start_ms = j->round_start_ms;
        r->next_attempt = round;
    }
    slots_clear_absence(j);
    ending_happened(j, ROUND_ENDED, 0);
}

void restarts_start(job *j) {
    int code;
    if (!restarts_are_awaited(j)) return;
    if (start_ranks(j, clock_now_ms(), &code) != START_REFUSED) return;
    report_not_started(j);
    ending_set_code(j, code);
    ending_happened(j, RANK_FAILED, SIGTERM);
}

bool restarts_are_awaited(const job *j) {
    for (int i = 0; j->policy.stage == AWAITING_RANKS && i < j->options.rank_count; i++)
        if (j->ranks[i].awaits_start) return true;
    return false;
}

// The descriptor of output that was not passed on yet wakes the loop.
int64_t restarts_deadline_ms(const job *j) {
    int64_t until_ms = INT64_MAX;
    if (!restarts_are_awaited(j)) return until_ms;
    for (int i = 0; i < j->options.rank_count; i++) {
        const rank *r = &j->ranks[i];
        bool is_blocked = r->awaits_start && !slot_is_due(r, INT64_MAX);
        if (r->awaits_start && !is_blocked && r->start_ms < until_ms) until_ms = r->start_ms;
    }
    return until_ms;
}
