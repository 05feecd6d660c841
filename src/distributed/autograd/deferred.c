// Reports about passes that there is no memory to send: done, abort, scope closed. They are kept in memory taken
// before, and sent again later. With the loop lock held, unless a comment states otherwise.
#include "distributed/autograd/passes.h"

#include "base/mem.h"

#define AGAIN_NS INT64_C(100000000)

static void send_again(timer *t);

static void arm(agent *a) {
    graphs *gs = graphs_of(a);
    if (gs->again.armed) return;
    gs->again.fire = send_again;
    env_set_timer(a->env, &gs->again, env_now_ns(a->env) + AGAIN_NS);
}

// ---- Reports -----------------------------------------------------------------------------------

static bool send_report(agent *a, const pass_report *w, const gw_error *why) {
    message *m = agent_message_on_loop(a, (uint8_t)w->kind);
    if (!m) return false;
    if (w->kind == KIND_PASS_ABORT) bytes_put_u32(&m->head, (uint32_t)w->initiator);
    bytes_put_u64(&m->head, w->number);
    if (w->kind == KIND_PASS_ABORT) encode_error(&m->head, why);
    return agent_post_on_loop(a, w->to, m);
}

// A worker that does not get the end of its pass would wait for it: if a report does not fit, this worker loses it
// instead, at the next turn, since the caller may be iterating over the passes. Participants of this worker's own
// passes get the end again, with the end of the scope.
static void keep(agent *a, const pass_report *w) {
    graphs *gs = graphs_of(a);
    if (gs->deferred_count < PASS_REPORTS_MAX)
        gs->deferred[gs->deferred_count++] = *w;
    else if (w->initiator != a->rank)
        worker_set_add(&gs->unreported, w->to);
    arm(a);
}

void passes_report_on_loop(agent *a, pass_report w, const gw_error *why) {
    w.status = why ? why->status : GW_OK;
    if (!send_report(a, &w, why)) keep(a, &w);
}

void distributed_pass_abort_on_loop(const distributed_pass *x, int to, const gw_error *why) {
    passes_report_on_loop(
        x->agent,
        (pass_report){
            .kind = KIND_PASS_ABORT, .to = to, .initiator = x->initiator, .number = x->number },
        why);
}

static bool send_late(agent *a, const pass_report *w) {
    gw_error why;
    if (agent_member(a, w->to)->lost) return true;
    error_set(&why, w->status ? w->status : GW_NO_MEMORY,
              "%s: this worker has ended the backward pass, and has no memory to report the reason",
              a->name);
    return send_report(a, w, &why);
}

static void send_reports(agent *a) {
    graphs *gs = graphs_of(a);
    uint32_t left = 0;
    for (uint32_t i = 0; i < gs->deferred_count; i++)
        if (!send_late(a, &gs->deferred[i])) gs->deferred[left++] = gs->deferred[i];
    gs->deferred_count = left;
}

// May end other passes, which send reports.
static void lose_unreported(agent *a) {
    graphs *gs = graphs_of(a);
    for (int rank = 0; rank < a->member_count; rank++) {
        gw_error why;
        if (!worker_set_has(&gs->unreported, rank)) continue;
        worker_set_remove(&gs->unreported, rank);
        error_set(&why, GW_NO_MEMORY,
                  "%s: no memory to report the end of a backward pass to this worker",
                  agent_member(a, rank)->name);
        if (rank != a->rank && a->peers) peers_lose(a->peers, rank, &why);
    }
}

// ---- Scopes -------------------------------------------------------------------------------------

static bool send_closed(agent *a, int to, uint64_t scope) {
    message *m = agent_message_on_loop(a, KIND_SCOPE_CLOSED);
    if (!m) return false;
    bytes_put_u64(&m->head, scope);
    passes_put_ended_on_loop(a, a->rank, &m->head);
    return agent_post_on_loop(a, to, m);
}

static bool notify_visited(pass_visited *v) {
    agent *a = v->agent;
    bool all = true;
    for (int rank = 0; rank < a->member_count && a->phase != AGENT_LEFT; rank++) {
        if (!worker_set_has(&v->workers, rank)) continue;
        if (agent_member(a, rank)->lost || send_closed(a, rank, v->scope))
            worker_set_remove(&v->workers, rank);
        else
            all = false;
    }
    return all;
}

static void free_visited(pass_visited *v) {
    agent_release(v->agent);
    mem_free(v);
}

// Without the loop lock.
void pass_visited_close(pass_visited *v) {
    agent *a = v->agent;
    bool is_notified = agent_is_closed(a);
    if (!is_notified) {
        env_enter(a->env);
        is_notified = notify_visited(v);
        if (!is_notified) list_append(&graphs_of(a)->closing, &v->link);
        if (!is_notified) arm(a);
        env_leave(a->env);
    }
    if (is_notified) free_visited(v);
}

static void send_closings(agent *a) {
    list_each(l, &graphs_of(a)->closing) {
        pass_visited *v = list_entry(l, pass_visited, link);
        if (!notify_visited(v)) continue;
        list_remove(l);
        free_visited(v);
    }
}

// ---- Both ---------------------------------------------------------------------------------------

size_t passes_deferred_count(const agent *a) {
    const graphs *gs = graphs_of(a);
    size_t count = gs->deferred_count;
    list_each(l, &gs->closing) count++;
    return count;
}

static void send_again(timer *t) {
    graphs *gs = list_entry(t, graphs, again);
    agent *a = gs->agent;
    send_reports(a);
    send_closings(a);
    lose_unreported(a);
    if (passes_deferred_count(a))
        arm(a);
    else
        leaving_check_on_loop(a);
}

void passes_stop_reporting_on_loop(agent *a) {
    graphs *gs = graphs_of(a);
    if (gs->again.armed) env_set_timer(a->env, &gs->again, ENV_NEVER);
    gs->deferred_count = 0;
    for (list_node *l; (l = list_take(&gs->closing));)
        free_visited(list_entry(l, pass_visited, link));
}
