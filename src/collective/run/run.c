// The life of a run within its group: its messages, its states and its end.
#include "collective/agree/agree.h"
#include "collective/run/backend_run.h"

#include "agent/members/member_table.h"
#include "base/mem.h"
#include "base/mutation.h"
#include "collective/run/history.h"

// ---- Work ---------------------------------------------------------------------------------------

void run_await_partners_on_loop(const run *r, bool awaits) {
    for (int i = 0; i < r->group->count; i++)
        if (r->partners[i].is_partner)
            member_table_await_on_loop(r->group->agent, r->group->members[i].rank, awaits);
}

// ---- Received messages --------------------------------------------------------------------------

// GRP-24: this member and |from| have called different collectives before it.
static void report_past(gw_group *g, int from, uint64_t key, uint64_t number) {
    gw_error error;
    text_builder t = { error.text, 0, sizeof error.text };
    error_set(&error, GW_MISMATCH, "%s", "");
    text_put(&t, "%s and %s have called different collectives before",
             group_member_name(g, g->self), group_member_name(g, from));
    history_put_last(g, key, number, &t);
    report_about about = { key, number, number + 1, REPORT_PAST, 0, 0 };
    group_report_about_on_loop(g, &about, &error);
}

// GRP-24: |is_past|: their signatures match here, and earlier ones did not.
static void report_mismatch(run *r, int from, bool is_past) {
    gw_error error;
    if (r->state != RUN_DETACHED && (!r->sequence->doubt || r->number < r->sequence->doubt))
        r->sequence->doubt = r->number;
    error_set(&error, GW_MISMATCH, "%s and %s call different collectives",
              group_member_name(r->group, r->group->self), group_member_name(r->group, from));
    if (r->state == RUN_DETACHED)  // GRP-23: no member begins it
        run_detached_over_on_loop(r);
    else if (is_past)
        report_past(r->group, from, r->key, r->number);
    else
        group_report_on_loop(r->group, r->key, r->number, &error);
}

static void arrived(incoming *p) {
    arrival *x = p->user;
    run *r = x->run;
    list_remove(&x->link);
    list_append(&r->arrivals, &x->link);
    run_wake_on_loop(r);
}

// GRP-1: a piece of the result is received in place.
static void name_place(const run *r, message *m, int step) {
    segment place;
    if (m->incomplete && r->has_places && run_find_place(r, step, &place))
        message_set_target(m, place.block, place.offset, place.size);
}

// Takes |p|.
static gw_status take_value(run *r, run_partner *m, incoming *p, const reader *in,
                            gw_error *error) {
    arrival *x = m->next_receive < 0 ? NULL : mem_alloc(sizeof *x);
    if (!x) {
        bool expected = m->next_receive >= 0;
        incoming_close_on_loop(r->group->agent, p);
        if (!expected)
            return error_set(
                error, GW_PROTOCOL,
                "collective: malformed message: a value that the algorithm does not have");
        error_set(error, GW_NO_MEMORY, "no memory for a collective");
        if (r->state == RUN_DETACHED) {
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
    uint64_t past;
    if (m->entered || m->differs || !signature_read(in, r->group->count, &theirs, &holds) ||
        (past = reader_u64(in), false) || !reader_text(in, origin, sizeof origin)) {
        incoming_close_on_loop(r->group->agent, p);
        return error_set(error, GW_PROTOCOL, "collective: malformed enter message");
    }
    bool matches =
        signature_matches(&r->signature, &theirs) || has_mutation(MUTATION_SIGNATURE_NOT_COMPARED);
    // A detached run has no sequence any more.
    bool is_compared = past && r->past && r->sequence && r->number >= r->sequence->past_from;
    bool is_past = matches && m->is_partner && is_compared && past != r->past &&
                   !has_mutation(MUTATION_PAST_NOT_COMPARED);
    if (!matches || !m->is_partner || is_past) {
        m->differs = true;
        incoming_close_on_loop(r->group->agent, p);
        report_mismatch(r, from, is_past);
        return GW_OK;
    }
    m->entered = true;
    if (--r->enters_missing == 0) awaits_close_on_loop(&r->await);
    gw_status status = GW_OK;
    if (holds)
        status = take_value(r, m, p, in, error);
    else
        incoming_close_on_loop(r->group->agent, p);
    run_wake_on_loop(r);
    gw_group *g = r->group;
    bool is_held = r->held;
    over_if_all_have_entered(r);
    if (is_held) run_finalize_on_loop(g);
    return status;
}

// Whether a value was dropped: later values are ignored until the abort.
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
        return error_set(error, GW_PROTOCOL,
                         "collective: malformed message: value %u, but value %u was expected",
                         index, m->received);
    }
    return take_value(r, m, p, in, error);
}

void run_over_received_on_loop(gw_group *g, int from, const group_header *h, const incoming *p) {
    const bytes *head = &p->message->head;
    reader in = reader_of(head->data + GROUP_HEADER_BYTES, head->size - GROUP_HEADER_BYTES);
    const history_record *own = history_find_on_loop(g, h->key, h->number);
    sequence *t = group_find_sequence_on_loop(g, h->key);
    collective_signature theirs;
    bool holds;
    gw_error error;
    if (!t || sequence_has_ended(t, h->number) || !own || own->status ||
        !signature_read(&in, g->count, &theirs, &holds))
        return;
    if (signature_matches(&own->signature, &theirs)) return;
    if (!t->doubt || h->number < t->doubt) t->doubt = h->number;
    error_set(&error, GW_MISMATCH, "%s and %s call different collectives",
              group_member_name(g, g->self), group_member_name(g, from));
    group_report_on_loop(g, h->key, h->number, &error);
}

gw_status run_received_on_loop(run *r, int from, incoming *p, uint8_t kind, gw_error *error) {
    const bytes *head = &p->message->head;
    reader in = reader_of(head->data + GROUP_HEADER_BYTES, head->size - GROUP_HEADER_BYTES);
    return kind == KIND_ENTER ? enter_received(r, from, p, &in, error)
                              : part_received(r, from, p, &in, error);
}

// ---- The end ------------------------------------------------------------------------------------

static void leave_group(run *r) {
    awaits_close_on_loop(&r->await);
    r->state = RUN_OVER;
    list_remove(&r->link);
    final_leave_on_loop(r->group, r->sequence);
    leaving_check_on_loop(r->group->agent);
    run_release_on_loop(r);
}

// A run under way stops waiting.
static void stop_waiting(run *r) {
    env_set_timer(r->group->agent->env, &r->timer, ENV_NEVER);
    if (!r->is_awaited) env_expect(r->group->agent->env, -1);
    run_await_partners_on_loop(r, false);
    for (list_node *l; (l = list_take(&r->promised));) {
        arrival *x = list_entry(l, arrival, link);
        incoming_close_on_loop(r->group->agent, x->incoming);
        mem_free(x);
    }
}

// GRP-24: whether |r|, which has its result, can succeed.
static bool is_finalized(const run *r) {
    if (has_mutation(MUTATION_DONE_NOT_FINAL)) return true;
    if (r->enters_missing || r->sequence->doubt) return false;
    list_each(l, &r->group->runs) {
        const run *x = list_entry(l, run, link);
        if (x == r) break;
        if (x->sequence == r->sequence && x->held) return false;
    }
    return true;
}

static run *find_held(const gw_group *g) {
    list_each(l, &g->runs) {
        run *r = list_entry(l, run, link);
        if (r->held && is_finalized(r)) return r;
    }
    return NULL;
}

static void end_done(run *r, result *value);

// The end of one run may start others, so each search begins again.
void run_finalize_on_loop(gw_group *g) {
    for (run *r; (r = find_held(g));) {
        result *value = r->held;
        r->held = NULL;
        end_done(r, value);
    }
}

static void over_if_all_have_entered(run *r) {
    gw_group *g = r->group;
    if (r->state != RUN_DONE || r->enters_missing) return;
    sequence_leave(g, r->sequence);
    leave_group(r);
    run_finalize_on_loop(g);
    run_admit_on_loop(g);
}

static void complete(run *r, result *value) {
    r->future->on_cancel = NULL;
    r->future->makers = 0;
    future_complete_on_loop(r->future, value);
}

void run_done_on_loop(run *r, result *value) {
    if (is_finalized(r))
        end_done(r, value);
    else
        r->held = value;
}

static void end_done(run *r, result *value) {
    stop_waiting(r);
    history_end_on_loop(r, GW_OK);
    r->state = RUN_DONE;
    complete(r, value);
    over_if_all_have_entered(r);
}

void run_detached_over_on_loop(run *r) {
    if (r->state != RUN_DETACHED) return;
    r->state = RUN_OVER;
    list_remove(&r->link);
    r->group->detached_count--;
    backend_run_forget_on_loop(r);
    if (r->group->is_over) group_end_on_loop(r->group);
    leaving_check_on_loop(r->group->agent);
    run_release_on_loop(r);
}

// GRP-23. One more detached run breaks the group.
static void detach(run *r, const gw_error *error) {
    gw_group *g = r->group;
    gw_error full;
    history_end_on_loop(r, error->status);
    stop_waiting(r);
    awaits_close_on_loop(&r->await);
    r->state = RUN_DETACHED;
    list_remove(&r->link);
    list_append(&g->detached, &r->link);
    sequence_leave(g, r->sequence);
    g->detached_count++;
    complete(r, result_of_error(error));
    final_leave_on_loop(g, r->sequence);
    r->sequence = NULL;
    if (g->detached_count <= RUNS_MAX) return;
    error_set(&full, GW_TIMEOUT, "backend \"%s\" still runs %d collectives that have failed",
              g->backend->name, RUNS_MAX);
    backend_group_down_on_loop(g);
    group_break_all_on_loop(g, &full);
}

void backend_group_down_on_loop(gw_group *g) {
    if (g->backend_is_down) return;
    g->backend_is_down = true;
    while (!list_is_empty(&g->detached))
        run_detached_over_on_loop(list_entry(g->detached.next, run, link));
    if (g->communicator) g->backend->abort(g->communicator);
}

void run_fail_by_abort_on_loop(run *r, uint64_t all, const gw_error *error) {
    if (!r->held && backend_run_detaches_on_loop(r, all))
        detach(r, error);
    else
        run_fail_on_loop(r, error);
}

void run_fail_on_loop(run *r, const gw_error *error) {
    if (r->state == RUN_OVER) return;
    history_end_on_loop(r, error->status);
    if (r->state == RUN_UNDER_WAY) stop_waiting(r);
    if (r->state == RUN_WAITING) env_set_timer(r->group->agent->env, &r->timer, ENV_NEVER);
    if (r->state != RUN_WAITING)
        sequence_leave(r->group, r->sequence);
    else
        sequence_stop_waiting(r->group, r->sequence);
    awaits_close_on_loop(&r->await);
    bool is_done = r->state == RUN_DONE;
    r->state = RUN_OVER;
    list_remove(&r->link);
    backend_run_forget_on_loop(r);
    if (r->held) result_release_on_loop(r->group->agent, r->held);
    r->held = NULL;
    if (!is_done) complete(r, result_of_error(error));
    final_leave_on_loop(r->group, r->sequence);
    leaving_check_on_loop(r->group->agent);
    run_release_on_loop(r);
}

static bool is_observed(const run *r) {
    return handle_is_sole(&r->future->handle) || !list_is_empty(&r->future->nexts);
}

void run_end_by_abort_on_loop(run *r, uint64_t all, const gw_error *error, bool *ended,
                              bool *reported) {
    const result *before = future_result(r->future);
    sequence *t = r->sequence;
    if (!before || result_error(before)) {
        bool is_known = r->failure || r->notice->was_read || is_observed(r);
        *ended = true;
        *reported = *reported || is_known;
        r->notice->is_missed = !is_known;
        t->missed_count += !is_known;
    }
    run_fail_by_abort_on_loop(r, all, error);
}
