// The life of a run: entering, what comes for it, its end.
#include "collective/backend_run.h"

#include "agent/context.h"
#include "agent/member_table.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/mutation.h"
#include "call/protocol.h"
#include "collective/answer.h"
#include "collective/collective.h"
#include "collective/groups_state.h"
#include "collective/history.h"
#include "collective/where.h"

#include <stdio.h>
#include <string.h>

#define PATIENCE_NS INT64_C(10000000000)
#define VERDICT_NS INT64_C(30000000000)  // GRP-10

// ---- Counts -------------------------------------------------------------------------------------

static bool is_last(run *r) {
    return atomic_fetch_sub_explicit(&r->count, 1, memory_order_acq_rel) == 1;
}

run *run_retain(run *r) {
    atomic_fetch_add_explicit(&r->count, 1, memory_order_relaxed);
    return r;
}

void run_release(run *r) {
    if (is_last(r)) run_free(r);
}

static void free_later(task *t) {
    run_free(list_entry(t, run, task));
}

static void release_on_loop(run *r) {
    if (!is_last(r)) return;
    r->task.run = free_later;
    env_defer(r->group->agent->env, &r->task);
}

// ---- What the program knows ---------------------------------------------------------------------

static void tell_on_loop(notice *n) {
    sequence *t = n->sequence;
    if (!t) return;
    if (n->verdict && n->verdict == t->verdicts) t->missed = false;
    if (t->cancelled && t->cancelled == n->number) t->cancelled_was_told = true;
}

void run_told(gw_future *f) {
    notice *n = f->source_state;
    if (agent_is_closed(f->agent)) return;
    env_enter(f->agent->env);
    tell_on_loop(n);
    env_leave(f->agent->env);
}

// What the program lets go of it does not want to know.
static void free_notice(gw_future *f) {
    notice *n = f->source_state;
    if (n->verdict && !agent_is_closed(f->agent)) {
        env_enter(f->agent->env);
        sequence *t = n->sequence;
        if (n->verdict == t->verdicts && t->untold && --t->untold == 0) t->missed = false;
        env_leave(f->agent->env);
    }
    handle_release(n->group);
    mem_free(n);
}

const future_source run_future_source = { .told = run_told, .free = free_notice };

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
              group_member_name(g, 0), group_member_name(g, g->self), (unsigned long long)number);
    group_break_all_on_loop(g, &error);
}

// A run that has not entered has no say in verdicts, but it does not wait for ever for one that does
// not come: GRP-10.
static void arm_waiting(run *r) {
    env *e = r->group->agent->env;
    int64_t due_ns = r->deadline_ns, later_ns = env_now_ns(e) + VERDICT_NS;
    if (due_ns > ENV_NEVER - VERDICT_NS) return;
    due_ns += VERDICT_NS;
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
        where_tell_on_loop(r);
        arm(r);
        return;
    }
    if (r->has_reported) {
        give_up_the_leader(r);
        return;
    }
    r->has_reported = true;
    env *e = r->group->agent->env;
    env_set_timer(e, &r->timer, env_now_ns(e) + VERDICT_NS);
    where_report_late_on_loop(r);
}

// ---- Entering -----------------------------------------------------------------------------------

static void watch_partners(const run *r, bool awaits) {
    for (int i = 0; i < r->group->count; i++)
        if (r->partners[i].is_partner)
            member_table_await_on_loop(r->group->agent, r->group->members[i].rank, awaits);
}

static void work_later(task *t) {
    run *r = list_entry(t, run, task);
    env *e = r->group->agent->env;
    env_enter(e);
    r->deferred = false;
    bool goes = !r->works && run_is_at_work(r);
    if (goes) r->works = true;
    env_leave(e);
    if (goes) run_work(r);
    run_release(r);
}

static void defer_work(run *r) {
    if (r->deferred || r->works) return;  // who works looks again before it stops
    atomic_fetch_add_explicit(&r->count, 1, memory_order_relaxed);
    r->deferred = true;
    r->task.run = work_later;
    env_defer(r->group->agent->env, &r->task);
}

void run_look_again_on_loop(run *r) {
    if (run_is_at_work(r)) defer_work(r);
}

static void take_early(run *r) {
    gw_group *g = r->group;
    for (early_message *x;
         r->state == RUN_UNDER_WAY && (x = early_take_on_loop(g, r->sequence->key, r->number));) {
        gw_error error;
        uint8_t kind = x->kind;
        int from = x->from;
        incoming *p = early_open_on_loop(g->agent, x);
        if (run_received_on_loop(r, group_index_of(g, from), p, kind, &error))
            group_blame_on_loop(g, from, &error);
    }
}

// GRP-5.
static void report_cancelled(run *r) {
    gw_error error;
    sequence *t = r->sequence;
    error_set(&error, GW_CANCELLED, "%s has cancelled it",
              group_member_name(r->group, r->group->self));
    t->cancelled = r->number;
    t->cancelled_was_told = false;
    t->frozen = true;
    group_report_on_loop(r->group, t->key, r->number, &error);
}

static void enter(run *r) {
    gw_group *g = r->group;
    list_remove(&r->link);
    list_append(&g->runs, &r->link);
    g->waiting_count--;
    g->run_count++;
    r->state = RUN_UNDER_WAY;
    r->number = r->notice->number = r->sequence->next++;
    if (!r->is_awaited) env_expect(g->agent->env, 1);
    if (r->backend) backend_run_entered_on_loop(r);
    if (r->out_place) *r->out_place = (run_place){ r->sequence->key, r->number };
    r->began_ns = env_now_ns(g->agent->env);
    history_begin_on_loop(r);
    arm(r);
    watch_partners(r, true);
    if (future_result(r->future)) report_cancelled(r);
    take_early(r);
}

// GRP-3.
static bool may_enter(const gw_group *g) {
    return g->run_count < RUNS_MAX || has_mutation(MUTATION_ENTER_AHEAD);
}

static bool has_earlier_series(const list_node *list, const run *r) {
    list_each(l, list) {
        const run *x = list_entry(l, run, link);
        uint64_t key = x->sequence->key;
        if (x->backend && key_is_series(key) && key < r->sequence->key && x->state != RUN_DONE)
            return true;
    }
    return false;
}

// GRP-21: with a backend one series is under way at a time.
static bool awaits_series(const run *r) {
    return r->backend && key_is_series(r->sequence->key) &&
           (has_earlier_series(&r->group->runs, r) || has_earlier_series(&r->group->waiting, r));
}

void run_admit_on_loop(gw_group *g) {
    list_each(l, &g->waiting) {
        run *r = list_entry(l, run, link);
        if (!may_enter(g)) return;
        if (r->sequence->frozen || awaits_series(r)) continue;
        enter(r);
        defer_work(r);
    }
    answer_enters_on_loop(g);
}

static void give_up(canceller *c) {
    run *r = list_entry(c, run, cancelled);
    if (r->state == RUN_UNDER_WAY) report_cancelled(r);  // else when it has its number
}

static gw_status check_enters(const gw_group *g, gw_error *error) {
    const agent *a = g->agent;
    if (g->broken.status) {
        *error = g->broken;
        return error->status;
    }
    if (a->phase == AGENT_LEFT) return agent_left_error(a, "a collective", error);
    return collective_check_enters(a, error);
}

// GRP-6: what this member did not come to, or does not know of, has ended with an error.
static gw_status take_missed(sequence *t, gw_error *error) {
    if (!t->missed) return GW_OK;
    t->missed = false;
    *error = *error_kept(t->why);
    error_forget(&t->why);
    return error->status;
}

// It has waited for what it has cancelled, or has let go of it.
bool run_knows_verdict_on_loop(const gw_group *g, const sequence *t) {
    if (!t->frozen) return false;
    if (t->knows) return true;
    const run *r = t->cancelled ? group_find_run_on_loop(g, t->key, t->cancelled) : NULL;
    return t->cancelled && (t->cancelled_was_told || (r && handle_is_sole(&r->future->handle)));
}

// GRP-6: the verdict about a collective, which this member may not have heard of, by its backward.
static void hear(const gw_group *g, sequence *t, const gw_error *why) {
    if (!t->missed || !sequence_has_told(g, t, why)) return;
    t->missed = false;
    error_forget(&t->why);
}

// GRP-21: of a final key, what comes behind the verdict fails with that.
static gw_status take_final(gw_group *g, uint64_t key, gw_error *error) {
    const gw_error *why = series_find_verdict_on_loop(g, key);
    if (!why) return GW_OK;
    *error = *why;
    if (!key_is_once(key)) return error->status;
    map_entry *e;
    hear(g, &g->main, error);
    for (size_t i = 0; (e = map_next(&g->sequences, &i));) hear(g, e->value, error);
    return error->status;
}

// A call without a key is one of the series that is under way.
static uint64_t key_of(const gw_group *g, uint64_t key) {
    return key || !g->series ? key : GROUP_KEY_SERIES + g->series;
}

static gw_status check_count(const gw_group *g, gw_error *error) {
    if (g->run_count + g->waiting_count < LIMIT_GROUP_COLLECTIVES) return GW_OK;
    return error_set(error, GW_LIMIT,
                     "group \"%s\": %d collectives are under way here: wait for some of them",
                     g->name, LIMIT_GROUP_COLLECTIVES);
}

static gw_status start_on_loop(run *r, uint64_t given, gw_error *error) {
    gw_group *g = r->group;
    gw_status status = check_enters(g, error);
    uint64_t key = key_of(g, given);
    if (status || (status = take_final(g, key, error)) || (status = check_count(g, error)))
        return status;
    if (!given) r->signature.shares ^= g->series_mark;
    r->key = key;
    r->sequence = group_sequence_on_loop(g, key);
    if (!r->sequence)
        return error_set(error, GW_LIMIT, "group \"%s\": more than %d keys, or no memory", g->name,
                         LIMIT_GROUP_KEYS);
    if ((status = take_missed(r->sequence, error))) return status;
    if (!key_is_final(key)) {
        r->notice->sequence = r->sequence;
        r->behind = run_knows_verdict_on_loop(g, r->sequence);
    }
    r->sequence->run_count++;
    r->cancelled.run = give_up;
    r->future->on_cancel = &r->cancelled;
    r->future->makers = 1;
    atomic_fetch_add_explicit(&r->count, 1, memory_order_relaxed);  // the group's
    list_append(&g->waiting, &r->link);
    g->waiting_count++;
    r->timer.fire = fire;
    bool first = g->waiting.next == &r->link;
    if (first && may_enter(g) && !r->sequence->frozen && !awaits_series(r)) {
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
    if (!r) {  // all others can bring theirs
        if (s->error->status == GW_NO_MEMORY) run_enter_failed(s, g, request->options.key);
        return &future_poison;
    }
    gw_future *f = handle_retain(r->future);
    env_enter(g->agent->env);
    gw_status status = start_on_loop(r, request->options.key, &error);
    bool works = !status && r->works;  // any thread that has the loop may from here on
    env_leave(g->agent->env);
    if (status) scope_fail_with(s, &error);
    if (works) run_work(r);
    run_release(r);
    if (status) {  // nothing will complete it, also not when the scope closes behind its agent
        handle_release(f);
        return &future_poison;
    }
    f->called_at = request->options.origin;
    f = scope_own(s, f);
    return f ? f : &future_poison;
}

// The first of |t| that is under way, or the next: of a final key, a verdict about either is the same,
// and who has not come to that one is named.
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

void run_enter_failed(gw_scope *s, gw_group *g, uint64_t key) {
    gw_error error = *s->error, ignored;
    env_enter(g->agent->env);
    key = key_of(g, key);
    bool goes = !check_enters(g, &ignored) && !series_find_verdict_on_loop(g, key);
    sequence *t = goes ? group_sequence_on_loop(g, key) : NULL;
    if (!t || sequence_has_told(g, t, &error)) {  // everybody knows
    } else if (t->missed) {                       // it knows by now that something is wrong
        t->missed = false;
        error_forget(&t->why);
    } else if (t->frozen) {  // the verdict that comes ends this, too
        t->knows = true;
    } else {
        error_prefix(&error, group_member_name(g, g->self));
        t->knows = t->frozen = true;
        group_report_failed_on_loop(g, key, number_to_report(g, t), &error);
    }
    env_leave(g->agent->env);
}

// ---- What comes ---------------------------------------------------------------------------------

static void report_mismatch(run *r, int from) {
    gw_error error;
    error_set(&error, GW_MISMATCH, "%s and %s do not do the same",
              group_member_name(r->group, r->group->self), group_member_name(r->group, from));
    if (r->state == RUN_DRAINING)  // GRP-23: nobody begins it
        run_drained_on_loop(r);
    else
        group_report_on_loop(r->group, r->key, r->number, &error);
}

static void arrived(incoming *p) {
    arrival *x = p->user;
    run *r = x->run;
    list_remove(&x->link);
    list_append(&r->arrivals, &x->link);
    run_look_again_on_loop(r);
}

// GRP-1: what is a piece of the result is received where it lies in it.
static void name_place(const run *r, message *m, int step) {
    segment place;
    if (m->incomplete && r->has_places && run_find_place(r, step, &place))
        message_name_place(m, place.block, place.offset, place.size);
}

// Takes |p|.
static gw_status take_value(run *r, run_partner *m, incoming *p, const reader *in,
                            gw_error *error) {
    arrival *x = m->next_receive < 0 ? NULL : mem_alloc(sizeof *x);
    if (!x) {
        bool expected = m->next_receive >= 0;
        incoming_close_on_loop(r->group->agent, p);
        if (!expected) return error_set(error, GW_PROTOCOL, "collective: a value that no plan has");
        error_set(error, GW_NO_MEMORY, "no memory for a collective");
        if (r->state == RUN_DRAINING) {
            backend_group_down_on_loop(r->group);
            group_break_all_on_loop(r->group, error);
        } else {
            group_dropped_on_loop(r->group, r->key, r->number, error);
        }
        return GW_OK;
    }
    *x = (arrival){ .run = r,
                    .incoming = p,
                    .value_at = p->message->head.size - reader_left(in),
                    .step = m->next_receive };
    m->next_receive = r->next_of_peer[m->next_receive];
    m->received++;
    name_place(r, p->message, x->step);
    incoming_count_segments_on_loop(p);
    if (!incoming_await_on_loop(p, arrived, x)) {
        arrived(p);
    } else {
        list_append(&r->promised, &x->link);
    }
    return GW_OK;
}

static void over_if_all_have_entered(run *r);

static gw_status enter_received(run *r, int from, incoming *p, reader *in, gw_error *error) {
    run_partner *m = &r->partners[from];
    collective_signature theirs;
    bool holds;
    char origin[LIMIT_ORIGIN_BYTES + 1];
    if (m->entered || m->differs || !signature_read(in, r->group->count, &theirs, &holds) ||
        !reader_text(in, origin, sizeof origin)) {
        incoming_close_on_loop(r->group->agent, p);
        return error_set(error, GW_PROTOCOL, "collective: an enter that means nothing");
    }
    bool matches =
        signature_matches(&r->signature, &theirs) || has_mutation(MUTATION_SIGNATURE_NOT_COMPARED);
    if (!matches || !m->is_partner) {
        m->differs = true;
        incoming_close_on_loop(r->group->agent, p);
        report_mismatch(r, from);
        return GW_OK;
    }
    m->entered = true;
    r->enters_missing--;
    gw_status status = GW_OK;
    if (holds)
        status = take_value(r, m, p, in, error);
    else
        incoming_close_on_loop(r->group->agent, p);
    run_look_again_on_loop(r);
    over_if_all_have_entered(r);
    return status;
}

// What lies behind a value that was dropped, until the verdict.
static bool has_dropped(const run *r) {
    const sequence *t = group_find_sequence_on_loop(r->group, r->key);
    return t && t->has_dropped;
}

static gw_status part_received(run *r, int from, incoming *p, reader *in, gw_error *error) {
    run_partner *m = &r->partners[from];
    uint32_t index = reader_u32(in);
    bool is_behind = !m->entered || index > m->received;
    if (m->differs || (is_behind && has_dropped(r))) {
        incoming_close_on_loop(r->group->agent, p);
        return GW_OK;
    }
    if (in->failed || !m->entered || index != m->received) {
        incoming_close_on_loop(r->group->agent, p);
        return error_set(error, GW_PROTOCOL, "collective: value %u where %u is next", index,
                         m->received);
    }
    return take_value(r, m, p, in, error);
}

gw_status run_received_on_loop(run *r, int from, incoming *p, uint8_t kind, gw_error *error) {
    const bytes *head = &p->message->head;
    reader in = reader_of(head->data + GROUP_HEADER_BYTES, head->size - GROUP_HEADER_BYTES);
    return kind == KIND_ENTER ? enter_received(r, from, p, &in, error)
                              : part_received(r, from, p, &in, error);
}

// ---- The end ------------------------------------------------------------------------------------

static void leave_group(run *r) {
    r->state = RUN_OVER;
    list_remove(&r->link);
    series_leave_on_loop(r->group, r->sequence);
    release_on_loop(r);
}

// Of one that is under way: from here on it does not wait.
static void stop_waiting(run *r) {
    env_set_timer(r->group->agent->env, &r->timer, ENV_NEVER);
    if (!r->is_awaited) env_expect(r->group->agent->env, -1);
    watch_partners(r, false);
    for (list_node *l; (l = list_take(&r->promised));) {
        arrival *x = list_entry(l, arrival, link);
        incoming_close_on_loop(r->group->agent, x->incoming);
        mem_free(x);
    }
}

static void over_if_all_have_entered(run *r) {
    gw_group *g = r->group;
    if (r->state != RUN_DONE || r->enters_missing) return;
    g->run_count--;
    leave_group(r);
    run_admit_on_loop(g);
}

static void complete(run *r, result *value) {
    r->future->on_cancel = NULL;
    r->future->makers = 0;
    future_complete_on_loop(r->future, value);
}

void run_done_on_loop(run *r, result *value) {
    stop_waiting(r);
    history_end_on_loop(r, GW_OK);
    r->state = RUN_DONE;
    complete(r, value);
    over_if_all_have_entered(r);
}

void run_drained_on_loop(run *r) {
    if (r->state != RUN_DRAINING) return;
    r->state = RUN_OVER;
    list_remove(&r->link);
    r->group->draining_count--;
    backend_run_forget_on_loop(r);
    release_on_loop(r);
}

// GRP-23. One more that does not end is too much.
static void drain(run *r, const gw_error *error) {
    gw_group *g = r->group;
    gw_error full;
    history_end_on_loop(r, error->status);
    stop_waiting(r);
    r->state = RUN_DRAINING;
    list_remove(&r->link);
    list_append(&g->draining, &r->link);
    g->run_count--;
    g->draining_count++;
    complete(r, result_of_error(error));
    series_leave_on_loop(g, r->sequence);
    r->sequence = NULL;
    if (g->draining_count <= RUNS_MAX) return;
    error_set(&full, GW_TIMEOUT, "backend \"%s\" has not ended %d collectives that verdicts have",
              g->backend->name, RUNS_MAX);
    backend_group_down_on_loop(g);
    group_break_all_on_loop(g, &full);
}

void run_fail_by_verdict_on_loop(run *r, uint64_t all, const gw_error *error) {
    if (backend_run_drains_on_loop(r, all))
        drain(r, error);
    else
        run_fail_on_loop(r, error);
}

void run_fail_on_loop(run *r, const gw_error *error) {
    if (r->state == RUN_OVER) return;
    history_end_on_loop(r, error->status);
    if (r->state == RUN_UNDER_WAY) stop_waiting(r);
    if (r->state == RUN_WAITING) env_set_timer(r->group->agent->env, &r->timer, ENV_NEVER);
    if (r->state != RUN_WAITING)
        r->group->run_count--;
    else
        r->group->waiting_count--;
    bool is_done = r->state == RUN_DONE;
    r->state = RUN_OVER;
    list_remove(&r->link);
    backend_run_forget_on_loop(r);
    if (!is_done) complete(r, result_of_error(error));
    series_leave_on_loop(r->group, r->sequence);
    release_on_loop(r);
}

static bool is_told(const run *r) {
    return handle_is_sole(&r->future->handle) || !list_is_empty(&r->future->nexts);
}

void run_end_by_verdict_on_loop(run *r, uint64_t all, const gw_error *error, bool *ended,
                                bool *told) {
    const result *before = future_result(r->future);
    sequence *t = r->sequence;
    if (!before || result_error(before)) {
        bool knows =
            is_told(r) || (t->cancelled && t->cancelled == r->number && t->cancelled_was_told);
        *ended = true;
        *told = *told || knows;
        if (!knows) r->notice->verdict = t->verdicts;
        t->untold += !knows;
    }
    run_fail_by_verdict_on_loop(r, all, error);
}
