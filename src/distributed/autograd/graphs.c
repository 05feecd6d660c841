// The table of one agent, at its opening, at losses and at its end.
#include "distributed/autograd/passes.h"

#include "base/mem.h"
#include "distributed/autograd/gradients.h"
#include "distributed/optim/optimizer.h"
#include "distributed/optim/optimizers.h"

static const scope_remote remote = { .grads = &gradients_remote, .optim = &owners_class };

gw_status graphs_open(agent *a, gw_error *error) {
    graphs *gs = mem_calloc(sizeof *gs);
    if (!gs) return error_set(error, GW_NO_MEMORY, "no memory for graphs");
    gs->agent = a;
    list_init(&gs->released);
    list_init(&gs->passes);
    list_init(&gs->ending);
    gs->optimizers = optimizers_open();
    if (!gs->optimizers) {
        mem_free(gs);
        return error_set(error, GW_NO_MEMORY, "no memory for graphs");
    }
    a->graphs = gs;
    a->remote = &remote;
    return GW_OK;
}

// What somebody has said who is gone: nothing waits for it that has not begun, and nothing is counted for it.
static void forget_told_on_loop(distributed_pass *x, int rank) {
    if (x->by == rank) x->by = -1;
    list_each(l, &x->inbox) {
        distributed_pass_mail *mail = list_entry(l, distributed_pass_mail, link);
        if (x->state != DISTRIBUTED_PASS_MARKING || mail->peer != rank) continue;
        list_remove(l);
        message_release(mail->message);
        mem_give(mail, sizeof *mail);
    }
}

void graphs_lost_on_loop(agent *a, int rank) {
    const member *m = agent_member(a, rank);
    sends_lost_on_loop(a, rank);
    receives_flush_on_loop(a);
    list_each(l, &a->graphs->passes) {
        distributed_pass *x = list_entry(l, distributed_pass, link);
        forget_told_on_loop(x, rank);
        if (x->initiator == rank) {
            distributed_pass_apply_on_loop(x, DISTRIBUTED_PASS_LOST);
        } else if (x->initiator == a->rank && distributed_pass_awaits(x, rank)) {
            gw_error error = m->why;
            if (m->known) error_prefix(&error, m->name);
            distributed_pass_fail_on_loop(x, &error);
        }
    }
    passes_peer *in = map_take(&a->graphs->others, passes_peer_key(rank));
    if (in) passes_peer_free(in);
}

void graphs_stop_on_loop(agent *a, const gw_error *why) {
    graphs *gs = a->graphs;
    if (!gs) return;
    list_each(l, &gs->passes) {
        distributed_pass *x = list_entry(l, distributed_pass, link);
        if (x->initiator == a->rank)
            distributed_pass_fail_on_loop(x, why);
        else
            distributed_pass_apply_on_loop(x, DISTRIBUTED_PASS_FAILED);
    }
    receives_close_on_loop(a);
}

void graphs_close(agent *a) {
    if (!a->graphs) return;
    sends_close(a);
    env_enter(a->env);
    receives_close_on_loop(a);
    env_leave(a->env);
}

void graphs_free(agent *a) {
    graphs *gs = a->graphs;
    if (!gs) return;
    map_entry *e;
    for (size_t i = 0; (e = map_next(&gs->others, &i));) passes_peer_free(e->value);
    map_fini(&gs->others);
    map_fini(&gs->sends);
    mem_free(gs->lost);
    optimizers_close(gs->optimizers);
    mem_free(gs);
}

size_t graphs_pending(const agent *a) {
    size_t count = 0;
    list_each(l, &a->graphs->passes) count +=
        list_entry(l, distributed_pass, link)->state < DISTRIBUTED_PASS_COMPLETE;
    return count;
}
