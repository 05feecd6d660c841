#include "hosts/coordinator.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options/command.h"
#include "options/failures.h"

typedef enum coordinator_stage {
    AWAITING_FAILURES,
    AWAITING_STATES,     // of all hosts, for the first event that is pending
    AWAITING_ROUND_END,  // the ranks of all hosts to end, so that all can start again
    AWAITING_NO_MORE,    // how the job ends is decided
} coordinator_stage;

typedef struct host_state {
    bool is_lost;
    bool is_done;      // all its ranks have ended, and none is to start again
    bool has_replied;  // to the last question
    bool has_ended_round;
} host_state;

struct coordinator {
    // arguments
    failure_policy policy;
    int node_count, rank_count, min_success;  // |rank_count|: of a host
    // state
    coordinator_stage stage;
    host_state *hosts;
    budget budget;
    link_message
        *pending;  // LINK_RANK_FAILED and LINK_LOST, in the order in which they are decided
    int pending_count;
    int question;                // the last one
    int asked_count;             // of |pending|: events that had arrived when it was asked
    bool has_begun, has_joined;  // a worker of any attempt on any host
    failure_survivors left;      // of the ranks that run, by the replies to the last question
    int attempt;                 // the newest of any rank
    int round;                   // the last attempt that all ranks have started together
    int success_count;           // of ranks, on hosts that are done
    int code;                    // of the first host that was done with another code than 0
    int64_t now_ms;              // of the last report
    link_message decision;       // to be taken
    bool has_decision;
};

bool coordinator_ends_job(link_kind kind) {
    return kind == LINK_FAILED || kind == LINK_SIGNAL || kind == LINK_DONE || kind == LINK_LOST;
}

coordinator *coordinator_open(const run_options *o) {
    coordinator *c = calloc(1, sizeof *c);
    size_t node_count = (size_t)o->node_count, rank_count = node_count * (size_t)o->rank_count;
    if (!c) return NULL;
    *c = (coordinator){ .policy = o->on_failure,
                        .node_count = o->node_count,
                        .rank_count = o->rank_count,
                        .min_success = o->min_success,
                        .hosts = calloc(node_count, sizeof *c->hosts),
                        // A rank has at most one failure that is pending, a host at most one loss.
                        .pending = calloc(rank_count + node_count, sizeof *c->pending),
                        .budget = {
                            .max = o->max_restarts,
                            .window_ms = o->restart_window_ms,
                            .backoff_ms = o->backoff_ms,
                            .restarts_ms = calloc((size_t)o->max_restarts + 1, sizeof(int64_t)),
                            .slots = calloc(rank_count, sizeof(budget_slot)),
                        } };
    if (c->hosts && c->pending && c->budget.restarts_ms && c->budget.slots) return c;
    coordinator_close(c);
    return NULL;
}

void coordinator_close(coordinator *c) {
    if (!c) return;
    free(c->hosts);
    free(c->pending);
    free(c->budget.restarts_ms);
    free(c->budget.slots);
    free(c);
}

static void decide(coordinator *c, link_kind kind, const link_message *m) {
    assert(!c->has_decision);
    c->decision = *m;
    c->decision.kind = kind;
    c->has_decision = true;
    if (coordinator_ends_job(kind)) c->stage = AWAITING_NO_MORE;
}

// ---- All hosts --------------------------------------------------------------------------------------

typedef enum host_flag { HAS_REPLIED, HAS_ENDED_ROUND, IS_DONE } host_flag;

static bool *flag_of(host_state *h, host_flag flag) {
    switch (flag) {
    case HAS_REPLIED: return &h->has_replied;
    case HAS_ENDED_ROUND: return &h->has_ended_round;
    case IS_DONE: break;
    }
    return &h->is_done;
}

static bool all_have(const coordinator *c, host_flag flag) {
    for (int i = 0; i < c->node_count; i++)
        if (!c->hosts[i].is_lost && !*flag_of(&c->hosts[i], flag)) return false;
    return true;
}

static void clear_all(coordinator *c, host_flag flag) {
    for (int i = 0; i < c->node_count; i++) *flag_of(&c->hosts[i], flag) = false;
}

static bool has_lost_host(const coordinator *c) {
    for (int i = 0; i < c->node_count; i++)
        if (c->hosts[i].is_lost) return true;
    return false;
}

// ---- Failures ---------------------------------------------------------------------------------------

static void end_job(coordinator *c, const link_message *failed, budget_decision refusal) {
    link_message m = *failed;
    m.refusal = refusal;
    decide(c, LINK_FAILED, &m);
}

// Whatever else is pending: those ranks start again, too.
static void start_all(coordinator *c, const link_message *failed) {
    link_message m = *failed;
    m.attempt = c->round = ++c->attempt;
    c->pending_count = c->asked_count = 0;
    c->success_count = 0;
    clear_all(c, HAS_ENDED_ROUND);
    clear_all(c, IS_DONE);
    c->stage = AWAITING_ROUND_END;
    decide(c, LINK_RESTART_ALL, &m);
}

static void start_one(coordinator *c, const link_message *failed) {
    link_message m = *failed;
    m.attempt++;
    if (m.attempt > c->attempt) c->attempt = m.attempt;
    decide(c, LINK_RESTART, &m);
}

static void decide_failure(coordinator *c, const link_message *failed) {
    int64_t now_ms = c->now_ms, start_ms = now_ms;
    failure_survivors left = c->left;
    left.is_elastic = failed->flags & LINK_IS_ELASTIC;
    left.are_elastic = left.are_elastic && left.is_elastic;
    budget_failure f = { .slot = failed->rank,
                         .started_ms = now_ms - failed->ms,
                         .now_ms = now_ms,
                         .has_joined = failed->flags & LINK_HAS_JOINED,
                         .job_has_begun = c->has_begun,
                         .job_has_joined = c->has_joined };
    budget_decision decision = budget_fail(&c->budget, &f, &start_ms);
    failure_action action = failures_act(c->policy, left, decision);
    if (action == ACTION_START_ALL && has_lost_host(c)) {
        decision = BUDGET_NO_HOST;
        action = ACTION_END_JOB;
    }
    link_message m = *failed;
    m.count = budget_left(&c->budget, now_ms);
    m.ms = start_ms - now_ms;
    if (action == ACTION_START_RANK)
        start_one(c, &m);
    else if (action == ACTION_START_ALL)
        start_all(c, &m);
    else
        end_job(c, failed, decision);
}

static void decide_loss(coordinator *c, const link_message *lost) {
    bool survives = failures_survive_host(c->policy, c->left.are_elastic, c->has_joined);
    decide(c, survives ? LINK_GONE : LINK_LOST, lost);
}

static void decide_first(coordinator *c) {
    link_message first = c->pending[0];
    c->asked_count--;
    memmove(c->pending, c->pending + 1, (size_t)--c->pending_count * sizeof *c->pending);
    if (first.kind == LINK_LOST)
        decide_loss(c, &first);
    else
        decide_failure(c, &first);
}

// A host replies when it has read all that its workers have reported. So what a worker has reported before another one has
// failed counts, on whichever host it is. The replies count for all events that had arrived before the question.
static void ask(coordinator *c) {
    const link_message m = { .number = ++c->question, .rank = NO_RANK };
    clear_all(c, HAS_REPLIED);
    c->asked_count = c->pending_count;
    c->left = (failure_survivors){ .are_elastic = true };
    c->stage = AWAITING_STATES;
    decide(c, LINK_ASK, &m);
}

static void end_if_done(coordinator *c) {
    if (!all_have(c, IS_DONE)) return;
    bool has_succeeded = c->min_success && c->success_count >= c->min_success;
    const link_message m = { .number = has_succeeded ? 0 : c->code, .rank = NO_RANK };
    decide(c, LINK_DONE, &m);
}

static void start_round_if_ended(coordinator *c) {
    if (!all_have(c, HAS_ENDED_ROUND)) return;
    const link_message m = { .attempt = c->round, .rank = NO_RANK };
    c->stage = AWAITING_FAILURES;
    decide(c, LINK_START_ROUND, &m);
}

// Makes the next decision, if there is one.
static void advance(coordinator *c) {
    if (c->stage == AWAITING_STATES && all_have(c, HAS_REPLIED)) c->stage = AWAITING_FAILURES;
    if (c->stage == AWAITING_ROUND_END) start_round_if_ended(c);
    if (c->stage != AWAITING_FAILURES || c->has_decision) return;
    if (c->asked_count)
        decide_first(c);
    else if (c->pending_count)
        ask(c);
    else
        end_if_done(c);
}

bool coordinator_next(coordinator *c, link_message *out) {
    if (!c->has_decision) advance(c);
    if (c->has_decision) *out = c->decision;
    bool any = c->has_decision;
    c->has_decision = false;
    return any;
}

// ---- Reports ----------------------------------------------------------------------------------------

static void take_state(coordinator *c, const link_message *m) {
    c->has_begun |= (m->flags & LINK_HAS_BEGUN) != 0;
    c->has_joined |= (m->flags & LINK_HAS_JOINED) != 0;
    if (m->number != c->question) return;
    c->left.are_elastic &= (m->flags & LINK_IS_ELASTIC) != 0;
    c->left.has_state |= (m->flags & LINK_HAS_STATE) != 0;
    c->left.is_finished |= (m->flags & LINK_IS_FINISHED) != 0;
    c->hosts[m->node].has_replied = true;
}

// A report that was sent before all ranks were to start again has no effect.
static void take_done(coordinator *c, const link_message *m) {
    host_state *h = &c->hosts[m->node];
    if (h->is_done || m->attempt != c->round || c->stage == AWAITING_ROUND_END) return;
    h->is_done = true;
    c->success_count += m->count;
    if (!c->code) c->code = m->number;
}

static void take_failure(coordinator *c, const link_message *m) {
    bool is_full = c->pending_count == c->node_count * (c->rank_count + 1);
    if (c->stage == AWAITING_ROUND_END || m->attempt < c->round || is_full) return;
    c->pending[c->pending_count++] = *m;
}

static void forget_failures(coordinator *c, int node) {
    int kept = 0, asked = 0;
    for (int i = 0; i < c->pending_count; i++) {
        if (c->pending[i].node == node) continue;
        asked += i < c->asked_count;
        c->pending[kept++] = c->pending[i];
    }
    c->pending_count = kept;
    c->asked_count = asked;
}

// Without host 0 no host would decide. A round needs all hosts.
static void take_loss(coordinator *c, const link_message *m) {
    bool is_survivable = m->node > 0 && c->stage != AWAITING_ROUND_END;
    bool may_survive = failures_survive_host(c->policy, true, true);
    c->hosts[m->node].is_lost = true;
    forget_failures(c, m->node);
    if (!is_survivable || !may_survive) {
        decide(c, LINK_LOST, m);
    } else if (c->policy == FAILURE_KEEP) {
        if (!c->code) c->code = EXIT_OWN_FAILURE;
        decide(c, LINK_GONE, m);
    } else {
        c->pending[c->pending_count++] = *m;
    }
}

static void take(coordinator *c, const link_message *m) {
    switch (m->kind) {
    case LINK_FAILED: decide(c, LINK_FAILED, m); break;
    case LINK_DONE: take_done(c, m); break;
    case LINK_LOST: take_loss(c, m); break;
    case LINK_RANK_FAILED: take_failure(c, m); break;
    case LINK_STATE: take_state(c, m); break;
    case LINK_ROUND_ENDED:
        if (m->attempt == c->round) c->hosts[m->node].has_ended_round = true;
        break;
    default: break;  // none is a report
    }
}

// Another host has sent the numbers.
static bool is_valid(const coordinator *c, const link_message *m) {
    if (m->node < 0 || m->node >= c->node_count) return false;
    int first = m->node * c->rank_count;
    return m->kind != LINK_RANK_FAILED || (m->rank >= first && m->rank < first + c->rank_count &&
                                           m->attempt >= 0 && m->attempt < INT32_MAX && m->ms >= 0);
}

void coordinator_take(coordinator *c, const link_message *m, int64_t now_ms) {
    if (!is_valid(c, m)) return;
    // A later signal counts as well: a user who sends a second one does not want to wait.
    if (m->kind == LINK_SIGNAL || m->kind == LINK_DEAD || m->kind == LINK_ABSENT ||
        m->kind == LINK_FINISHED)
        decide(c, m->kind, m);
    if (c->stage == AWAITING_NO_MORE || c->hosts[m->node].is_lost) return;
    c->now_ms = now_ms;
    take(c, m);
}
