// The service of passes: the graphs of one agent when it opens, loses a worker, stops and ends.
#include "distributed/autograd/passes.h"

#include "base/mem.h"
#include "distributed/autograd/gradients.h"

static gw_status open(agent *a, const gw_rpc_options *options, void **state, gw_error *error) {
    (void)options;
    graphs *gs = mem_calloc(sizeof *gs);
    if (!gs) return error_set(error, GW_NO_MEMORY, "no memory for graphs");
    gs->agent = a;
    list_init(&gs->released);
    list_init(&gs->passes);
    list_init(&gs->ending);
    list_init(&gs->closing);
    a->remote.grads = &gradients_remote;
    a->remote.late = &distributed_late_waiting;
    *state = gs;
    return GW_OK;
}

// Drops the gradients that the lost worker |rank| has sent before the marks, and counts the pass
// against no worker any more.
static void forget_sender_on_loop(distributed_pass *x, int rank) {
    if (x->by == rank) x->by = -1;
    list_each(l, &x->inbox) {
        distributed_pass_mail *mail = list_entry(l, distributed_pass_mail, link);
        if (x->state != DISTRIBUTED_PASS_MARKING || mail->peer != rank) continue;
        list_remove(l);
        message_release(mail->message);
        mem_give(mail, sizeof *mail);
    }
}

static void lost(agent *a, int rank) {
    const member *m = agent_member(a, rank);
    gw_error error = agent_why_lost(m);
    sends_lost_on_loop(a, rank);
    receives_flush_on_loop(a);
    list_each(l, &graphs_of(a)->passes) {
        distributed_pass *x = list_entry(l, distributed_pass, link);
        bool has_contact = x->by == rank || distributed_pass_awaits(x, rank);
        forget_sender_on_loop(x, rank);
        if (x->initiator == rank) {
            distributed_pass_apply_on_loop(x, DISTRIBUTED_PASS_LOST);
        } else if (x->initiator == a->rank && distributed_pass_awaits(x, rank)) {
            distributed_pass_fail_on_loop(x, &error);
        } else if (x->initiator != a->rank && has_contact && x->state < DISTRIBUTED_PASS_COMPLETE) {
            // Its initiator need not have begun it: the lost worker may have sent a false report.
            distributed_pass_fail_part_on_loop(x, &error);
        }
    }
    passes_peer *in = map_take(&graphs_of(a)->others, passes_peer_key(rank));
    if (in) passes_peer_free(in);
}

static void stop(agent *a, const gw_error *why) {
    graphs *gs = graphs_of(a);
    list_each(l, &gs->passes) {
        distributed_pass *x = list_entry(l, distributed_pass, link);
        if (x->initiator == a->rank)
            distributed_pass_fail_on_loop(x, why);
        else
            distributed_pass_apply_on_loop(x, DISTRIBUTED_PASS_FAILED);
    }
    receives_close_on_loop(a);
    passes_stop_reporting_on_loop(a);
}

static void close(agent *a) {
    sends_close(a);
    env_enter(a->env);
    receives_close_on_loop(a);
    env_leave(a->env);
}

static void free_graphs(void *state) {
    graphs *gs = state;
    for (map_cursor e = { 0 }; map_next(&gs->others, &e);) passes_peer_free(e.value);
    map_fini(&gs->others);
    map_fini(&gs->sends);
    mem_free(gs->lost);
    mem_free(gs);
}

static void list_pending(const agent *a, pending *out) {
    size_t count = 0;
    list_each(l, &graphs_of(a)->passes) count +=
        list_entry(l, distributed_pass, link)->state < DISTRIBUTED_PASS_COMPLETE;
    pending_add(out, "is in", count, "backward pass", "backward passes");
    pending_add(out, "has no memory for", passes_deferred_count(a), "message", "messages");
}

static bool acts(const agent *a) {
    pending p = { 0 };
    list_pending(a, &p);
    return p.count;
}

static bool names_unknown(const agent *a, const message *m) {
    return m->kind == KIND_GRADIENT && gradient_names_unknown(a, m);
}

static const function *const functions[] = { gradient_functions, NULL };

const service pass_service = {
    .name = "pass",
    .data = &pass_data,
    .kind_first = KIND_GRADIENT,
    .kind_last = PASS_KIND_LAST,
    .functions = functions,
    .attachment = &graph_attachment,
    .open = open,
    .received = graphs_received_on_loop,
    .names_unknown = names_unknown,
    .lost = lost,
    .pending = list_pending,
    .acts = acts,
    .stop = stop,
    .close = close,
    .free = free_graphs,
};
