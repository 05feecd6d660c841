// How a run enters its group once its sequence and the limit admit it, and how long it waits.
#include "collective/run/backend_run.h"

#include "agent/dispatch/dispatch.h"
#include "base/mutation.h"
#include "collective/run/history.h"
#include "collective/run/stall_report.h"

#define PATIENCE_NS INT64_C(10000000000)
#define ABORT_NS INT64_C(30000000000)  // GRP-10

// ---- Time ---------------------------------------------------------------------------------------

static void arm(run *r) {
    env *e = r->group->agent->env;
    int64_t next_ns = env_now_ns(e) + PATIENCE_NS;
    env_set_timer(e, &r->timer, next_ns < r->deadline_ns ? next_ns : r->deadline_ns);
}

// The leader's query is under way, and that member has not answered.
static bool is_silent(const gw_group *g, int i) {
    return g->testimonies && !g->testimonies[i].has_answered;
}

// GRP-10.
static void give_up(run *r) {
    gw_group *g = r->group;
    gw_error error;
    char silent[GW_ERROR_TEXT_MAX] = "";
    uint64_t number = r->number ? r->number : r->sequence->next;
    text_builder t = { silent, 0, sizeof silent };
    group_put_silent_on_loop(g, group_leader_on_loop(g), is_silent, &t);
    error_set(&error, GW_TIMEOUT, "%scollective %llu has not ended", silent,
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
        give_up(r);
    else
        arm_waiting(r);
}

void run_timer_fire(timer *t) {
    run *r = list_entry(t, run, timer);
    if (r->state == RUN_WAITING) fire_waiting(r);
    if (r->state != RUN_UNDER_WAY) return;
    if (env_now_ns(r->group->agent->env) < r->deadline_ns) {
        stall_log_on_loop(r);
        arm(r);
        return;
    }
    if (r->has_reported) {
        give_up(r);
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
            dispatch_protocol_error_on_loop(g->agent, from, &error);
    }
}

static void report_cancelled(run *r) {
    call_cancelled_on_loop(r->group, r->sequence, r->number);
}

static void enter(run *r) {
    gw_group *g = r->group;
    list_remove(&r->link);
    list_append(&g->runs, &r->link);
    sequence_stop_waiting(g, r->sequence);
    sequence_enter(g, r->sequence);
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

static bool may_be_next(const run *r) {
    return !r->sequence->frozen && !awaits_final(r);
}

// The first, since it may have to fail, or, if the limit has refused that one, the first of another sequence.
static run *next_to_admit(const gw_group *g, const run *refused) {
    if (refused && !g->idle_count) return NULL;
    list_each(l, &g->waiting) {
        run *r = list_entry(l, run, link);
        if (may_be_next(r) && (!refused || sequence_may_enter(g, r->sequence))) return r;
    }
    return NULL;
}

// False: it waits for other runs to end.
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
    } else if (sequence_may_enter(g, r->sequence)) {
        enter(r);
        run_wake_on_loop(r);
    } else {
        return false;
    }
    return true;
}

void run_admit_on_loop(gw_group *g) {
    const run *refused = NULL;
    for (run *r; (r = next_to_admit(g, refused));) {
        run_retain(r);
        if (!admit(r)) refused = r;
        run_release_on_loop(r);
    }
    shadow_enters_on_loop(g);
}

void run_give_up(canceller *c) {
    run *r = list_entry(c, run, cancelled);
    if (r->state == RUN_UNDER_WAY) report_cancelled(r);  // else when it has its number
}

void run_enter_or_wait_on_loop(run *r) {
    gw_group *g = r->group;
    bool first = g->waiting.next == &r->link;
    if (first && sequence_may_enter(g, r->sequence) && may_be_next(r)) {
        r->works = true;
        enter(r);
    } else {
        arm_waiting(r);
        run_admit_on_loop(g);
    }
}
