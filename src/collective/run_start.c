// How a run enters its group: the errors that its caller gets at once, its number, its deadline.
#include "collective/backend_run.h"

#include "agent/context.h"
#include "base/mutation.h"
#include "collective/shadow.h"
#include "collective/groups_state.h"
#include "collective/history.h"
#include "collective/stall_report.h"

#include <stdio.h>

#define PATIENCE_NS INT64_C(10000000000)
#define ABORT_NS INT64_C(30000000000)  // GRP-10

// ---- Time ---------------------------------------------------------------------------------------

static void arm(run *r) {
    env *e = r->group->agent->env;
    int64_t next_ns = env_now_ns(e) + PATIENCE_NS;
    env_set_timer(e, &r->timer, next_ns < r->deadline_ns ? next_ns : r->deadline_ns);
}

// GRP-10.
static void give_up_the_leader(run *r) {
    gw_group *g = r->group;
    gw_error error;
    uint64_t number = r->number ? r->number : r->sequence->next;
    error_set(&error, GW_TIMEOUT, "%s does not answer to %s: collective %llu has not ended",
              group_member_name(g, group_leader_on_loop(g)), group_member_name(g, g->self),
              (unsigned long long)number);
    group_break_all_on_loop(g, &error);
}

// A run that has not entered has no part in aborts, but it does not wait for ever for one that does not arrive:
// GRP-10.
static void arm_waiting(run *r) {
    env *e = r->group->agent->env;
    int64_t due_ns = r->deadline_ns, later_ns = env_now_ns(e) + ABORT_NS;
    if (due_ns > ENV_NEVER - ABORT_NS) return;
    due_ns += ABORT_NS;
    env_set_timer(e, &r->timer, due_ns > later_ns ? due_ns : later_ns);
}

static void fire_waiting(run *r) {
    if (r->sequence->frozen)
        give_up_the_leader(r);
    else
        arm_waiting(r);
}

static void fire(timer *t) {
    run *r = list_entry(t, run, timer);
    if (r->state == RUN_WAITING) fire_waiting(r);
    if (r->state != RUN_UNDER_WAY) return;
    if (env_now_ns(r->group->agent->env) < r->deadline_ns) {
        stall_log_on_loop(r);
        arm(r);
        return;
    }
    if (r->has_reported) {
        give_up_the_leader(r);
        return;
    }
    r->has_reported = true;
    env *e = r->group->agent->env;
    env_set_timer(e, &r->timer, env_now_ns(e) + ABORT_NS);
    stall_report_late_on_loop(r);
}

// ---- Entering -----------------------------------------------------------------------------------

static void take_unexpected(run *r) {
    gw_group *g = r->group;
    for (unexpected_message *x; r->state == RUN_UNDER_WAY &&
                                (x = unexpected_take_on_loop(g, r->sequence->key, r->number));) {
        gw_error error;
        uint8_t kind = x->kind;
        int from = x->from;
        incoming *p = unexpected_open_on_loop(g->agent, x);
        if (run_received_on_loop(r, group_index_of(g, from), p, kind, &error))
            group_blame_on_loop(g, from, &error);
    }
}

static void report_cancelled(run *r) {
    call_cancelled_on_loop(r->group, r->sequence, r->number);
}

static void enter(run *r) {
    gw_group *g = r->group;
    list_remove(&r->link);
    list_append(&g->runs, &r->link);
    g->waiting_count--;
    g->run_count++;
    r->state = RUN_UNDER_WAY;
    r->number = r->sequence->next++;
    if (r->number >= r->sequence->past_from) {
        r->past = r->sequence->past;
        r->sequence->past = signature_add(r->past, &r->signature);
    }
    if (!r->is_awaited) env_expect(g->agent->env, 1);
    if (r->backend) backend_run_entered_on_loop(r);
    if (r->out_place) *r->out_place = (run_place){ r->sequence->key, r->number };
    r->began_ns = env_now_ns(g->agent->env);
    history_begin_on_loop(r);
    arm(r);
    run_await_partners_on_loop(r, true);
    run_await_programs_on_loop(r);
    if (!key_is_final(r->sequence->key))
        call_note_path_on_loop(g, r->sequence, r->number, &r->called_in);
    if (r->state != RUN_UNDER_WAY) return;  // allocation failed, and the group has broken
    if (future_result(r->future)) report_cancelled(r);
    take_unexpected(r);
    if (run_needs_left_on_loop(r)) run_report_left_on_loop(r);
}

// GRP-3.
static bool may_enter(const gw_group *g) {
    return g->run_count < RUNS_MAX || has_mutation(MUTATION_ENTER_AHEAD);
}

static bool has_earlier_final(const list_node *list, const run *r) {
    list_each(l, list) {
        const run *x = list_entry(l, run, link);
        uint64_t key = x->sequence->key;
        if (x->backend && key_is_final_sequence(key) && key < r->sequence->key &&
            x->state != RUN_DONE)
            return true;
    }
    return false;
}

// GRP-21: with a backend one final sequence is under way at a time.
static bool awaits_final(const run *r) {
    return r->backend && key_is_final_sequence(r->sequence->key) &&
           (has_earlier_final(&r->group->runs, r) || has_earlier_final(&r->group->waiting, r));
}

enum { FAILURES_AT_ONCE = CALL_PATHS_KEPT / 2 };  // so that members find the scopes of each

static void fail_in_its_place(run *r) {
    sequence *t = r->sequence;
    gw_error error = *error_kept(r->failure);
    uint32_t count = r->failures < FAILURES_AT_ONCE ? r->failures : FAILURES_AT_ONCE;
    scope_path path = r->called_in;
    r->failures -= count;
    scope_path_make_call(&r->called_in, t->next + count);
    if (!r->failures) run_fail_on_loop(r, &error);
    call_fail_in_place_on_loop(r->group, t, &path, count, &error);
}

static run *next_to_admit(const gw_group *g) {
    list_each(l, &g->waiting) {
        run *r = list_entry(l, run, link);
        if (!r->sequence->frozen && !awaits_final(r)) return r;
    }
    return NULL;
}

// False: it waits, for an abort or for other runs to end.
static bool admit(run *r) {
    gw_group *g = r->group;
    gw_error error;
    call_place place = call_place_on_loop(g, r->sequence, &r->called_in, &error);
    if (r->state != RUN_WAITING) return true;  // the group has broken
    if (place == CALL_WAITS) return true;      // and so do the others of its sequence
    if (place == CALL_FAILS) {
        if (r->failure && --r->failures)
            scope_path_make_call(&r->called_in, r->sequence->next);
        else
            run_fail_on_loop(r, &error);
    } else if (r->failure) {
        fail_in_its_place(r);
    } else if (may_enter(g)) {
        enter(r);
        run_wake_on_loop(r);
    } else {
        return false;
    }
    return true;
}

void run_admit_on_loop(gw_group *g) {
    bool continues = true;
    for (run *r; continues && (r = next_to_admit(g));) {
        run_retain(r);
        continues = admit(r);
        run_release_on_loop(r);
    }
    shadow_enters_on_loop(g);
}

static void give_up(canceller *c) {
    run *r = list_entry(c, run, cancelled);
    if (r->state == RUN_UNDER_WAY) report_cancelled(r);  // else when it has its number
}

// ---- Errors at once -----------------------------------------------------------------------------

static gw_status check_enters(gw_group *g, gw_error *error) {
    const agent *a = g->agent;
    if (g->broken.status) {
        g->break_is_known = true;
        *error = g->broken;
        return error->status;
    }
    if (a->phase == AGENT_LEFT) return agent_left_error(a, "a collective", error);
    return awaits_check_acts_on_loop(a, error);
}

// GRP-6: the abort of a collective, which this member may not have received, arrives with its backward.
static void clear_missed(const gw_group *g, sequence *t, const gw_error *why) {
    if (t->missed && sequence_has_reported(g, t, why)) t->missed = t->fails_next = false;
}

// GRP-21: calls of a final key behind its abort fail with that.
static gw_status take_final(gw_group *g, uint64_t key, gw_error *error) {
    const gw_error *why = final_find_abort_on_loop(g, key);
    if (!why) return GW_OK;
    *error = *why;
    if (!key_is_once(key)) return error->status;
    map_entry *e;
    clear_missed(g, &g->main, error);
    for (size_t i = 0; (e = map_next(&g->sequences, &i));) clear_missed(g, e->value, error);
    return error->status;
}

// A call without a key belongs to the final sequence that is under way.
static uint64_t key_of(const gw_group *g, uint64_t key) {
    return key || !g->final_number ? key : GROUP_KEY_FINAL + g->final_number;
}

static gw_status check_count(const gw_group *g, gw_error *error) {
    if (g->run_count + g->waiting_count < LIMIT_GROUP_COLLECTIVES) return GW_OK;
    return error_set(error, GW_LIMIT,
                     "group \"%s\": %d collectives are under way here: wait for some of them",
                     g->name, LIMIT_GROUP_COLLECTIVES);
}

static gw_status without_sequence(const gw_group *g, gw_error *error) {
    if (g->sequences.count >= LIMIT_GROUP_KEYS)
        return error_set(error, GW_LIMIT, "group \"%s\": more than %d keys", g->name,
                         LIMIT_GROUP_KEYS);
    return error_set(error, GW_NO_MEMORY, "group \"%s\": no memory for a collective", g->name);
}

// ---- Entering as failed -------------------------------------------------------------------------

// The first number of |t| that is under way, or the next: of a final key an abort of either has the same effect, and
// a member that has not entered the former is named.
static uint64_t number_to_report(const gw_group *g, const sequence *t) {
    uint64_t number = t->next;
    list_each(l, &g->runs) {
        const run *r = list_entry(l, run, link);
        if (r->sequence == t && key_is_final(t->key) && r->state == RUN_UNDER_WAY &&
            r->number < number)
            number = r->number;
    }
    return number;
}

// There is no sequence: |key| exceeds the limit, or allocation failed.
static void fail_unknown_on_loop(gw_group *g, uint64_t key, const gw_error *error) {
    if (g->sequences.count >= LIMIT_GROUP_KEYS)
        group_report_failed_on_loop(g, key, 1, 2, error);
    else
        group_break_all_on_loop(g, error);
}

// Of a final key one failure is final. If one is under way, that ends this call, too.
static void fail_final_on_loop(gw_group *g, sequence *t, const gw_error *error) {
    uint64_t number = number_to_report(g, t);
    bool reports = !t->frozen;
    t->frozen = true;
    if (reports) group_report_failed_on_loop(g, t->key, number, number + 1, error);
}

static void wait_for_turn(run *r, sequence *t) {
    gw_group *g = r->group;
    r->key = t->key;
    r->sequence = t;
    if (!key_is_final(t->key)) r->notice->sequence = t;
    t->run_count++;
    r->future->makers = 1;
    atomic_fetch_add_explicit(&r->count, 1, memory_order_relaxed);  // the group's
    list_append(&g->waiting, &r->link);
    g->waiting_count++;
    r->timer.fire = fire;
}

static bool has_waiting(const gw_group *g, const sequence *t) {
    list_each(l, &g->waiting) {
        if (list_entry(l, run, link)->sequence == t) return true;
    }
    return false;
}

enum { FAILURES_MAX = 256 };  // that wait each for itself; later failures join the last one

static run *last_failure(const gw_group *g, const sequence *t) {
    run *last = NULL;
    int count = 0;
    list_each(l, &g->waiting) {
        run *r = list_entry(l, run, link);
        if (r->sequence != t) continue;
        last = r->failure ? r : NULL;
        count += r->failure != NULL;
    }
    return count >= FAILURES_MAX ? last : NULL;
}

// Only members that enter a coalesced call have the count of its collectives.
static bool is_one(const run *r) {
    return !r->called_in.of_several;
}

static void break_at_limit(gw_group *g, const gw_error *error) {
    char before[96];
    gw_error full = *error;
    full.status = GW_LIMIT;
    snprintf(before, sizeof before, "%d calls that have failed wait here: re-form the group",
             FAILURES_MAX);
    error_prefix(&full, before);
    group_break_all_on_loop(g, &full);
}

// GRP-5. |r| takes the number of the call in its sequence; NULL if its allocation failed.
static void enter_failed_on_loop(gw_group *g, uint64_t key, run *r, const gw_error *error) {
    gw_error ignored;
    if (check_enters(g, &ignored) || final_find_abort_on_loop(g, key)) return;
    sequence *t = group_sequence_on_loop(g, key);
    run *last = t ? last_failure(g, t) : NULL;
    if (!t) {
        fail_unknown_on_loop(g, key, error);
    } else if (key_is_final(key)) {
        fail_final_on_loop(g, t, error);
    } else if (last && r && is_one(last) && is_one(r) && last->failures < UINT32_MAX) {
        last->failures++;
    } else if (last) {
        break_at_limit(g, error);
    } else if (!r) {
        group_break_all_on_loop(g, error);
    } else {
        t->fails_next = t->missed = false;  // the program has observed an error
        wait_for_turn(r, t);
        run_admit_on_loop(g);
    }
}

// Of a final key, a scope that has failed reports that once. An error that scopes share cannot name the scope: each
// of its calls is reported.
static bool is_reported_on_loop(gw_group *g, uint64_t key, gw_scope *s) {
    gw_error *own = scope_own_error(s);
    if (!own) return false;
    const sequence *t = group_find_sequence_on_loop(g, key);
    sequence of_key = { .key = key };
    if (t && sequence_has_reported(g, t, own)) return key_is_final(key);
    sequence_note_report(g, t ? t : &of_key, own);
    return false;
}

void run_enter_failed(gw_scope *s, gw_scope *called_in, gw_group *g, uint64_t key) {
    gw_error error = *s->error;
    error_prefix(&error, group_member_name(g, g->self));
    run *r = run_open_failed(g, &error);
    if (r) r->called_in = scope_path_of(called_in);
    env_enter(g->agent->env);
    key = key_of(g, key);
    if (!is_reported_on_loop(g, key, s)) enter_failed_on_loop(g, key, r, &error);
    env_leave(g->agent->env);
    if (r) run_release(r);
}

// ---- Starting -----------------------------------------------------------------------------------

// |*out_refused|: the other members have not received the error.
static gw_status start_on_loop(run *r, uint64_t given, bool *out_refused, gw_error *error) {
    gw_group *g = r->group;
    gw_status status = check_enters(g, error);
    uint64_t key = key_of(g, given);
    if (status || (status = take_final(g, key, error))) return status;
    sequence *t = group_sequence_on_loop(g, key);
    if (t && !has_waiting(g, t) && call_place_on_loop(g, t, &r->called_in, error) == CALL_FAILS)
        return error->status;
    if ((status = check_enters(g, error))) return status;  // this may have broken the group
    status = t ? check_count(g, error) : without_sequence(g, error);
    *out_refused = status;
    if (status) return status;
    if (!given) r->signature.shares ^= g->final_mark;
    wait_for_turn(r, t);
    r->cancelled.run = give_up;
    r->future->on_cancel = &r->cancelled;
    bool first = g->waiting.next == &r->link;
    if (first && may_enter(g) && !t->frozen && !awaits_final(r)) {
        r->works = true;
        enter(r);
    } else {
        arm_waiting(r);
        run_admit_on_loop(g);
    }
    return GW_OK;
}

gw_future *run_start(gw_scope *s, gw_group *g, const run_request *request) {
    gw_error error;
    run *r = run_open(s, g, request);
    if (!r) {
        run_enter_failed(s, s, g, request->options.key);
        return &future_poison;
    }
    gw_future *f = handle_retain(r->future);
    env_enter(g->agent->env);
    r->caller = awaits_caller_on_loop(g->agent, s);
    bool refused = false;
    gw_status status = start_on_loop(r, request->options.key, &refused, &error);
    bool works = !status && r->works;  // any thread that holds the loop may work from here on
    env_leave(g->agent->env);
    if (status) scope_fail_with(s, &error);
    if (refused) run_enter_failed(s, s, g, request->options.key);
    if (works) run_work(r);
    run_release(r);
    if (status) {  // no worker will complete it, also if the scope closes after its agent
        handle_release(f);
        return &future_poison;
    }
    f->called_at = request->options.origin;
    f = scope_own(s, f);
    return f ? f : &future_poison;
}
