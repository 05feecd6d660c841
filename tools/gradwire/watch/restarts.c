#include "watch/restarts.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "job/report.h"
#include "job/slots.h"
#include "launch/start.h"
#include "options/failures.h"
#include "options/roles.h"
#include "system/clock.h"
#include "watch/ending.h"
#include "watch/health.h"
#include "watch/members.h"

// Host 0 decides within the time that it takes to detect its loss.
enum { DECISION_MS = 12000 };

// A worker of an elastic job continues after losses, and another one can take the place of one that is lost.
static bool are_elastic(const job *j, const rank *failed) {
    for (int i = 0; i < j->options.rank_count; i++) {
        const rank *r = &j->ranks[i];
        if ((r == failed || r->is_running) && !r->is_elastic) return false;
    }
    return true;
}

static failure_policy policy_of(const job *j, const rank *r) {
    return roles_policy(&j->options, (int)(r - j->ranks));
}

static int next_round(const job *j) {
    int newest = 0;
    for (int i = 0; i < j->options.rank_count; i++)
        if (j->ranks[i].attempt > newest) newest = j->ranks[i].attempt;
    return newest + 1;
}

static void start_one(rank *r, const restart_plan *plan, int64_t now_ms) {
    r->awaits_start = true;
    r->start_ms = now_ms + plan->delay_ms;
    r->next_attempt = plan->attempt;
}

static void start_all(job *j, const restart_plan *plan, int64_t now_ms) {
    j->round = plan->attempt;
    j->round_start_ms = now_ms + plan->delay_ms;
    ending_happened(j, ROUND_FAILED, SIGTERM);
}

// ---- On one host ----------------------------------------------------------------------------------

static budget_decision ask_budget(job *j, const rank *r, int64_t now_ms, int64_t *out_start_ms) {
    budget_failure f = { .slot = (int)(r - j->ranks),
                         .started_ms = r->started_ms,
                         .now_ms = now_ms,
                         .has_joined = r->has_joined,
                         .job_has_begun = j->has_begun,
                         .job_has_joined = j->has_joined };
    return budget_fail(&j->budget, &f, out_start_ms);
}

static bool decide(job *j, rank *r, char *why, size_t size) {
    int64_t start_ms, now_ms = clock_now_ms();
    budget_decision decision = ask_budget(j, r, now_ms, &start_ms);
    if (decision != BUDGET_RESTART) {
        size_t at = strlen(why);
        snprintf(why + at, size - at, "%s", report_why_none(j, decision));
        return false;
    }
    failure_survivors left = { .are_elastic = are_elastic(j, r),
                               .is_elastic = r->is_elastic,
                               .has_state = slots_have_state(j),
                               .is_finished = j->is_finished };
    bool all = failures_act(policy_of(j, r), left, decision) == ACTION_START_ALL;
    restart_plan plan = { .rank = run_rank(&j->options, (int)(r - j->ranks)),
                          .all = all,
                          .attempt = all ? next_round(j) : r->attempt + 1,
                          .left = budget_left(&j->budget, now_ms),
                          .delay_ms = start_ms - now_ms };
    report_restart(j, why, &plan);
    if (all)
        start_all(j, &plan, now_ms);
    else
        start_one(r, &plan, now_ms);
    return true;
}

// ---- Over several hosts -----------------------------------------------------------------------------

static void ask_host_0(job *j, rank *r, const char *why) {
    link_message m = message_of(LINK_RANK_FAILED, slot_exit_code(r), why);
    m.rank = run_rank(&j->options, (int)(r - j->ranks));
    m.attempt = r->attempt;
    m.ms = r->ended_ms - r->started_ms;
    m.flags = (r->has_joined ? LINK_HAS_JOINED : 0) | (r->is_elastic ? LINK_IS_ELASTIC : 0);
    m.incarnation = slot_incarnation(j, r);
    nodes_send(&j->nodes, &m);
    r->awaits_decision = true;
    r->judged_ms = clock_now_ms();
}

static restart_plan plan_of(const link_message *m) {
    return (restart_plan){ .rank = m->rank,
                           .all = m->kind == LINK_RESTART_ALL,
                           .attempt = m->attempt,
                           .left = m->count,
                           .delay_ms = m->ms };
}

// |m| is about the rank |index| of this host; NULL: about a rank of another host.
static rank *find_rank(job *j, const link_message *m) {
    int index = m->rank - run_rank(&j->options, 0);
    return index >= 0 && index < j->options.rank_count ? &j->ranks[index] : NULL;
}

void restarts_take_one(job *j, const link_message *m) {
    restart_plan plan = plan_of(m);
    rank *r = find_rank(j, m);
    report_restart(j, m->text, &plan);
    if (!r) members_forget(j, m->incarnation);
    if (!r || !r->awaits_decision) return;
    r->awaits_decision = false;
    start_one(r, &plan, clock_now_ms());
}

// A host whose ranks have all ended well may be done a second time.
void restarts_take_all(job *j, const link_message *m) {
    restart_plan plan = plan_of(m);
    report_restart(j, m->text, &plan);
    for (int i = 0; i < j->options.rank_count; i++) j->ranks[i].awaits_decision = false;
    j->nodes.has_reported_end = j->nodes.has_reported_wait = false;
    j->nodes.done_ms = 0;
    start_all(j, &plan, clock_now_ms());
}

rank *restarts_find_undecided(job *j) {
    for (int i = 0; i < j->options.rank_count; i++) {
        rank *r = &j->ranks[i];
        if (r->awaits_decision && clock_now_ms() >= r->judged_ms + DECISION_MS) return r;
    }
    return NULL;
}

// ---- All of it --------------------------------------------------------------------------------------

bool restarts_take_failure(job *j, rank *r, char *why, size_t size) {
    if (policy_of(j, r) < FAILURE_RESTART) return false;
    health_require(j);
    if (!nodes_are_open(&j->nodes)) return decide(j, r, why, size);
    ask_host_0(j, r, why);
    return true;
}

void restarts_end_round(job *j) {
    link_message m = message_of(LINK_ROUND_ENDED, 0, "");
    m.attempt = j->round;
    ending_happened(j, ROUND_ENDED, 0);
    nodes_send(&j->nodes, &m);
    if (!nodes_are_open(&j->nodes)) restarts_begin_round(j);
}

void restarts_begin_round(job *j) {
    for (int i = 0; i < j->options.rank_count; i++) {
        rank *r = &j->ranks[i];
        r->is_judged = true;  // whatever its end was: it adds nothing
        r->awaits_start = true;
        r->start_ms = j->round_start_ms;
        r->next_attempt = j->round;
    }
    slots_clear_absence(j);
    ending_happened(j, ROUND_STARTS, 0);
}

bool restarts_start(job *j, int *out_code) {
    if (!restarts_are_awaited(j) || health_is_awaited(j)) return true;
    if (start_ranks(j, clock_now_ms(), out_code) != START_REFUSED) return true;
    report_not_started(j);
    return false;
}

bool restarts_are_awaited(const job *j) {
    for (int i = 0; j->policy.stage == AWAITING_RANKS && i < j->options.rank_count; i++)
        if (j->ranks[i].awaits_start || j->ranks[i].awaits_decision) return true;
    return false;
}

// The descriptor of output that was not passed on yet wakes the loop.
int64_t restarts_deadline_ms(const job *j) {
    int64_t until_ms = INT64_MAX;
    if (!restarts_are_awaited(j)) return until_ms;
    for (int i = 0; i < j->options.rank_count; i++) {
        const rank *r = &j->ranks[i];
        bool is_blocked = r->awaits_start && (health_is_awaited(j) || !slot_is_due(r, INT64_MAX));
        if (r->awaits_start && !is_blocked && r->start_ms < until_ms) until_ms = r->start_ms;
        int64_t undecided_ms = r->awaits_decision ? r->judged_ms + DECISION_MS : INT64_MAX;
        if (undecided_ms < until_ms) until_ms = undecided_ms;
    }
    return until_ms;
}
