#include "hosts/coordinator.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mutation.h"
#include "options/command.h"
#include "options/failures.h"

typedef enum coordinator_stage {
    AWAITING_HOSTS,  // enough of them, so that all ranks can start
    ANNOUNCING,      // the numbers of hosts, behind which their ranks start
    AWAITING_FAILURES,
    AWAITING_STATES,     // of all hosts, for the first event that is pending
    AWAITING_ROUND_END,  // the ranks of all hosts to end, so that all can start again
    AWAITING_NO_MORE,    // how the job ends is decided
} coordinator_stage;

struct coordinator {
    // arguments
    run_options options;
    // state
    coordinator_stage stage;
    roster hosts;
    int announced, announced_end;   // the numbers that are still to be announced
    bool has_started;               // a round
    bool may_admit;                 // spares, if that has not been decided since the last change
    int64_t too_few_ms, enough_ms;  // since when there are too few hosts, or enough; 0: not so
    budget budget;
    link_message *pending;  // what has happened, in the order in which it is decided
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

// A rank has at most one failure that is pending, a host one loss and one wish to leave, and there is one question about
// spares.
static size_t pending_max(const run_options *o) {
    return (size_t)run_world_max(o) + 2 * (size_t)o->node_max + 1;
}

coordinator *coordinator_open(const run_options *o) {
    coordinator *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    *c = (coordinator){ .options = *o,
                        .stage = o->is_dynamic ? AWAITING_HOSTS : AWAITING_FAILURES,
                        .has_started = !o->is_dynamic,
                        .pending = calloc(pending_max(o), sizeof *c->pending),
                        .budget = {
                            .max = o->max_restarts,
                            .window_ms = o->restart_window_ms,
                            .backoff_ms = o->backoff_ms,
                            .restarts_ms = calloc((size_t)o->max_restarts + 1, sizeof(int64_t)),
                            .slots = calloc((size_t)run_world_max(o), sizeof(budget_slot)),
                        } };
    bool is_open = roster_open(&c->hosts, o->node_max, o->is_dynamic);
    if (is_open && c->pending && c->budget.restarts_ms && c->budget.slots) return c;
    coordinator_close(c);
    return NULL;
}

void coordinator_close(coordinator *c) {
    if (!c) return;
    roster_close(&c->hosts);
    free(c->pending);
    free(c->budget.restarts_ms);
    free(c->budget.slots);
    free(c);
}

const roster *coordinator_hosts(const coordinator *c) {
    return &c->hosts;
}

bool coordinator_has_started(const coordinator *c) {
    return c->has_started || c->round > 0;
}

static void decide(coordinator *c, link_kind kind, const link_message *m) {
    assert(!c->has_decision);
    c->decision = *m;
    c->decision.kind = kind;
    if (kind == LINK_GONE || kind == LINK_LEFT) c->decision.count = c->hosts.count;
    c->has_decision = true;
    if (coordinator_ends_job(kind)) c->stage = AWAITING_NO_MORE;
}

// ---- Failures ---------------------------------------------------------------------------------------

static void end_job(coordinator *c, const link_message *failed, budget_decision refusal) {
    link_message m = *failed;
    m.refusal = refusal;
    decide(c, LINK_FAILED, &m);
}

// Whatever else is pending: those ranks start again, too. |why|: a failure, or a host that is lost or leaves.
static void start_all(coordinator *c, const link_message *why) {
    link_message m = *why;
    m.count = budget_left(&c->budget, c->now_ms);
    m.attempt = c->round = ++c->attempt;
    c->pending_count = c->asked_count = 0;
    c->success_count = 0;
    roster_clear(&c->hosts, HOST_HAS_ENDED_ROUND);
    roster_clear(&c->hosts, HOST_IS_DONE);
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
    failure_action action = failures_act(c->options.on_failure, left, decision);
    bool lacks_host = !c->options.is_dynamic && c->hosts.count < c->hosts.max;
    if (action == ACTION_START_ALL && lacks_host) {
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

static bool can_continue(const coordinator *c) {
    return failures_survive_host(c->options.on_failure, c->left.are_elastic, c->has_joined);
}

// All ranks start again on the hosts that are left, which costs no restart.
static void start_all_without(coordinator *c, const link_message *m, const char *what) {
    link_message why = *m;
    snprintf(why.text, sizeof why.text, "host %d %s%s%.600s", m->node, what, *m->text ? ": " : "",
             m->text);
    start_all(c, &why);
}

static void decide_loss(coordinator *c, const link_message *lost) {
    if (can_continue(c))
        decide(c, LINK_GONE, lost);
    else if (c->options.is_dynamic)
        start_all_without(c, lost, "is lost");
    else
        decide(c, LINK_LOST, lost);
}

static void decide_leaving(coordinator *c, const link_message *m) {
    if (can_continue(c))
        decide(c, LINK_LEAVES, m);
    else
        start_all_without(c, m, "leaves the job");
}

// ---- Hosts that join --------------------------------------------------------------------------------

static bool rescales(const coordinator *c) {
    return c->options.rescales_now && run_restarts(&c->options);
}

// --rescale=now: the next round has the hosts that wait. It costs no restart.
static void rescale(coordinator *c) {
    link_message why = { .node = NO_NODE, .rank = NO_RANK };
    if (!rescales(c)) return;
    snprintf(why.text, sizeof why.text, "a host joins the job");
    start_all(c, &why);
}

// The ranks of the new hosts have other attempts than ranks before them in the same slots.
static void admit(coordinator *c) {
    if (c->left.is_finished || !roster_can_admit(&c->hosts)) return;
    if (!can_continue(c)) {
        rescale(c);
        return;
    }
    c->announced = roster_admit(&c->hosts);
    c->announced_end = c->announced + 1;
    c->stage = ANNOUNCING;
}

static void announce(coordinator *c) {
    if (c->announced == c->announced_end) {
        const link_message m = { .attempt = c->round,
                                 .rank = NO_RANK,
                                 .count = c->hosts.count,
                                 .flags = c->has_started ? LINK_IS_ELASTIC : 0 };
        c->stage = AWAITING_FAILURES;
        c->has_started = c->may_admit = true;
        decide(c, LINK_START_ROUND, &m);
        return;
    }
    roster_host *h = &c->hosts.hosts[c->announced];
    bool has_new_attempt = h->was_used && !has_mutation(MUTATION_ATTEMPT_AGAIN);
    const link_message m = { .node = c->announced++,
                             .number = h->peer,
                             .rank = NO_RANK,
                             .attempt = has_new_attempt ? ++c->attempt : c->round,
                             .count = c->hosts.count };
    h->was_used = true;
    decide(c, LINK_ADMIT, &m);
}

static void start_round(coordinator *c) {
    roster_renumber(&c->hosts);
    c->announced = 0;
    c->announced_end = c->hosts.count;
    c->has_started = false;
    c->stage = ANNOUNCING;
}

// The hosts that the next round would have.
static int host_count(const coordinator *c) {
    int count = roster_staying_count(&c->hosts) + c->hosts.spare_count;
    return count < c->hosts.max ? count : c->hosts.max;
}

// The first round waits a little longer for more hosts than it needs.
static void start_round_if_enough(coordinator *c) {
    int count = host_count(c);
    bool is_first = c->round == 0;
    if (count < c->options.node_min) {
        c->enough_ms = 0;
        return;
    }
    if (!c->enough_ms) c->enough_ms = c->now_ms;
    if (!is_first || count == c->hosts.max || c->now_ms >= c->enough_ms + c->options.last_call_ms)
        start_round(c);
}

static int present_count(const coordinator *c) {
    return c->stage == AWAITING_HOSTS ? host_count(c) : roster_staying_count(&c->hosts);
}

static void end_for_lack_of_hosts(coordinator *c, int64_t after_ms) {
    link_message m = { .node = NO_NODE, .number = EXIT_OWN_FAILURE, .rank = NO_RANK };
    snprintf(m.text, sizeof m.text, "the job needs %d hosts, but has had %d for %lld s",
             c->options.node_min, present_count(c), (long long)(after_ms / 1000));
    decide(c, LINK_FAILED, &m);
}

// Whether fewer hosts than the job needs are left, for too long.
static bool lacks_hosts(coordinator *c, int64_t after_ms) {
    bool is_ending = c->stage == AWAITING_ROUND_END;
    if (is_ending || present_count(c) >= c->options.node_min)
        c->too_few_ms = 0;
    else if (!c->too_few_ms)
        c->too_few_ms = c->now_ms;
    return c->too_few_ms && c->now_ms >= c->too_few_ms + after_ms;
}

void coordinator_tick(coordinator *c, int64_t now_ms) {
    if (!c->options.is_dynamic || c->stage == AWAITING_NO_MORE) return;
    c->now_ms = now_ms;
    c->may_admit = true;
    bool is_first = c->stage == AWAITING_HOSTS && c->round == 0;
    int64_t after_ms = is_first ? c->options.rdzv_timeout_ms : c->options.min_timeout_ms;
    if (lacks_hosts(c, after_ms)) end_for_lack_of_hosts(c, after_ms);
}

// ---- Decisions --------------------------------------------------------------------------------------

static void decide_first(coordinator *c) {
    link_message first = c->pending[0];
    c->asked_count--;
    memmove(c->pending, c->pending + 1, (size_t)--c->pending_count * sizeof *c->pending);
    switch (first.kind) {
    case LINK_LOST: decide_loss(c, &first); break;
    case LINK_LEAVES: decide_leaving(c, &first); break;
    case LINK_JOINS: admit(c); break;
    default: decide_failure(c, &first); break;
    }
}

// A host replies when it has read all that its workers have reported. So what a worker has reported before another one has
// failed counts, on whichever host it is. The replies count for all events that had arrived before the question.
static void ask(coordinator *c) {
    const link_message m = { .number = ++c->question, .rank = NO_RANK };
    roster_clear(&c->hosts, HOST_HAS_REPLIED);
    c->asked_count = c->pending_count;
    c->left = (failure_survivors){ .are_elastic = true };
    c->stage = AWAITING_STATES;
    decide(c, LINK_ASK, &m);
}

static bool any_is_done(const coordinator *c) {
    for (int i = 0; i < c->hosts.max; i++)
        if (c->hosts.hosts[i].is_in && c->hosts.hosts[i].flags[HOST_IS_DONE]) return true;
    return false;
}

static void end_if_done(coordinator *c) {
    if (!roster_all(&c->hosts, HOST_IS_DONE)) return;
    bool has_succeeded = c->options.min_success && c->success_count >= c->options.min_success;
    const link_message m = { .number = has_succeeded ? 0 : c->code, .rank = NO_RANK };
    decide(c, LINK_DONE, &m);
}

// Whether the states of all hosts are worth a question: a host is admitted only while the job continues.
static bool might_admit(const coordinator *c) {
    return c->may_admit && roster_can_admit(&c->hosts) && !any_is_done(c) &&
           (failures_survive_host(c->options.on_failure, true, true) || rescales(c));
}

static void ask_for_admission(coordinator *c) {
    c->may_admit = false;
    c->pending[c->pending_count++] = (link_message){ .kind = LINK_JOINS, .node = NO_NODE };
    ask(c);
}

static void start_round_if_ended(coordinator *c) {
    bool is_early = has_mutation(MUTATION_ROUND_TOO_EARLY);
    if (!is_early && !roster_all(&c->hosts, HOST_HAS_ENDED_ROUND)) return;
    if (c->options.is_dynamic) {
        c->stage = AWAITING_HOSTS;
        return;
    }
    const link_message m = { .attempt = c->round, .rank = NO_RANK, .count = c->hosts.count };
    c->stage = AWAITING_FAILURES;
    decide(c, LINK_START_ROUND, &m);
}

// Makes the next decision, if there is one.
static void advance(coordinator *c) {
    if (c->stage == AWAITING_STATES && roster_all(&c->hosts, HOST_HAS_REPLIED))
        c->stage = AWAITING_FAILURES;
    if (c->stage == AWAITING_ROUND_END) start_round_if_ended(c);
    if (c->stage == AWAITING_HOSTS) start_round_if_enough(c);
    if (c->stage == AWAITING_FAILURES && !c->has_decision) {
        if (c->asked_count)
            decide_first(c);
        else if (c->pending_count)
            ask(c);
        else if (might_admit(c))
            ask_for_admission(c);
        else
            end_if_done(c);
    }
    if (c->stage == ANNOUNCING && !c->has_decision) announce(c);
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
    c->hosts.hosts[m->node].flags[HOST_HAS_REPLIED] = true;
}

// A report that was sent before all ranks were to start again has no effect.
static void take_done(coordinator *c, const link_message *m) {
    bool *is_done = &c->hosts.hosts[m->node].flags[HOST_IS_DONE];
    if (*is_done || m->attempt != c->round || c->stage == AWAITING_ROUND_END) return;
    *is_done = true;
    c->success_count += m->count;
    if (!c->code) c->code = m->number;
}

static bool starts_again(const coordinator *c) {
    return c->stage == AWAITING_ROUND_END || c->stage == AWAITING_HOSTS;
}

static void keep(coordinator *c, const link_message *m) {
    if ((size_t)c->pending_count < pending_max(&c->options)) c->pending[c->pending_count++] = *m;
}

// The ranks of a host that leaves end as they were asked to.
static void take_failure(coordinator *c, const link_message *m) {
    if (starts_again(c) || m->attempt < c->round || c->hosts.hosts[m->node].is_leaving) return;
    keep(c, m);
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

// Without host 0 no host would decide. In a job whose hosts are given, a round needs all hosts.
static bool survives_loss(const coordinator *c, int node) {
    if (node == 0) return false;
    if (c->options.is_dynamic && c->options.on_failure >= FAILURE_RESTART) return true;
    return c->stage != AWAITING_ROUND_END &&
           failures_survive_host(c->options.on_failure, true, true);
}

static void take_loss(coordinator *c, const link_message *m) {
    roster_remove(&c->hosts, m->node);
    forget_failures(c, m->node);
    if (!survives_loss(c, m->node)) {
        decide(c, LINK_LOST, m);
    } else if (starts_again(c)) {
        decide(c, LINK_GONE, m);
    } else if (c->options.on_failure == FAILURE_KEEP) {
        if (!c->code) c->code = EXIT_OWN_FAILURE;
        decide(c, LINK_GONE, m);
    } else {
        keep(c, m);
    }
}

// A job that does not continue without the host ends, as by any signal (LAUN-38). A host whose ranks have been asked to end because
// all start again just does not start again.
static void take_leave(coordinator *c, const link_message *m) {
    roster_host *h = &c->hosts.hosts[m->node];
    bool may_continue = m->node > 0 && c->options.on_failure != FAILURE_STOP;
    if (h->is_leaving) return;
    h->is_leaving = true;
    forget_failures(c, m->node);
    if (!may_continue)
        decide(c, LINK_SIGNAL, m);
    else if (starts_again(c))
        decide(c, LINK_LEAVES, m);
    else
        keep(c, m);
}

// Without a wish to leave, its ranks may still run.
static void take_left(coordinator *c, const link_message *m) {
    if (!c->hosts.hosts[m->node].is_leaving) {
        link_message lost = *m;
        lost.kind = LINK_LOST;
        take_loss(c, &lost);
        return;
    }
    roster_remove(&c->hosts, m->node);
    decide(c, LINK_LEFT, m);
}

static void take(coordinator *c, const link_message *m) {
    switch (m->kind) {
    case LINK_FAILED: decide(c, LINK_FAILED, m); break;
    case LINK_DONE: take_done(c, m); break;
    case LINK_LOST: take_loss(c, m); break;
    case LINK_LEAVES: take_leave(c, m); break;
    case LINK_LEFT: take_left(c, m); break;
    case LINK_RANK_FAILED: take_failure(c, m); break;
    case LINK_STATE: take_state(c, m); break;
    case LINK_ROUND_ENDED:
        if (m->attempt == c->round) c->hosts.hosts[m->node].flags[HOST_HAS_ENDED_ROUND] = true;
        break;
    default: break;  // none is a report
    }
}

// A host that waits for a place.
static void take_spare(coordinator *c, const link_message *m) {
    if (m->kind == LINK_JOINS && roster_add_spare(&c->hosts, m->number)) c->may_admit = true;
    if (m->kind == LINK_LOST || m->kind == LINK_LEFT) roster_remove_spare(&c->hosts, m->number);
}

// Another host has sent the numbers.
static bool is_valid(const coordinator *c, const link_message *m) {
    int first = m->node * c->options.rank_count;
    return m->kind != LINK_RANK_FAILED ||
           (m->rank >= first && m->rank < first + c->options.rank_count && m->attempt >= 0 &&
            m->attempt < INT32_MAX && m->ms >= 0);
}

void coordinator_take(coordinator *c, const link_message *m, int64_t now_ms) {
    c->now_ms = now_ms;
    if (m->node == NO_NODE) take_spare(c, m);
    if (m->node < 0 || m->node >= c->hosts.max || !is_valid(c, m)) return;
    // A later signal counts as well: a user who sends a second one does not want to wait.
    if (m->kind == LINK_SIGNAL || m->kind == LINK_DEAD || m->kind == LINK_ABSENT ||
        m->kind == LINK_FINISHED)
        decide(c, m->kind, m);
    if (c->stage == AWAITING_NO_MORE || !c->hosts.hosts[m->node].is_in) return;
    take(c, m);
}
