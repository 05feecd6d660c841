// How a run starts: the errors that its caller gets at once, calls that enter as failed, waiting for its turn.
#include "collective/run/run.h"

#include "agent/bodies/context.h"

#include <stdio.h>

// ---- Errors at once -----------------------------------------------------------------------------

static gw_status check_enters(gw_group *g, gw_error *error) {
    const agent *a = g->agent;
    if (g->broken.status) {
        g->break_is_known = true;
        return error_copy(error, &g->broken);
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
    clear_missed(g, &g->main, error);
    for (map_cursor e = { 0 }; map_next(&g->sequences, &e);) clear_missed(g, e.value, error);
    return error->status;
}

// A call without a key belongs to the final sequence that is under way.
static uint64_t key_of(const gw_group *g, uint64_t key) {
    return key || !g->final_number ? key : GROUP_KEY_FINAL + g->final_number;
}

static gw_status check_count(const gw_group *g, gw_error *error) {
    if (g->run_count + g->waiting_count < LIMIT_GROUP_COLLECTIVES) return GW_OK;
    return error_set(
        error, GW_LIMIT,
        "group \"%s\": %d collectives are under way on this worker: wait for some of them", g->name,
        LIMIT_GROUP_COLLECTIVES);
}

static gw_status without_sequence(const gw_group *g, gw_error *error) {
    if (g->sequences.count >= LIMIT_GROUP_KEYS)
        return error_set(error, GW_LIMIT, "group \"%s\": more than %d keys (.key) are in use",
                         g->name, LIMIT_GROUP_KEYS);
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
    sequence_wait(g, t);
    r->timer.fire = run_timer_fire;
    r->work.run = run_work_later;
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
    char before[160];
    gw_error full = *error;
    full.status = GW_LIMIT;
    snprintf(before, sizeof before,
             "the errors of %d failed calls are kept for members that have not made these calls: "
             "re-form the group",
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
    gw_error error = group_error_of_self(g, s->error);
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
    r->cancelled.run = run_give_up;
    r->future->on_cancel = &r->cancelled;
    run_enter_or_wait_on_loop(r);
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
    return scope_own_or(s, f, &future_poison);
}
