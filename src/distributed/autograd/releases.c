// Releases of receives: the senders of what nothing here needs any more delete their sends.
#include "distributed/autograd/graphs.h"

#include "base/mem.h"

#include <string.h>

enum { BATCH_NS = 1000 * 1000 };  // how long a release waits, to go in one message with others

void receive_free(receive *r) {
    agent *a = r->agent;
    marks_fini(&r->all);
    mem_free(r->slots);
    mem_give(r, sizeof *r);
    agent_release(a);
}

static void fire(timer *t) {
    receives_flush_on_loop(list_entry(t, graphs, release_timer)->agent);
}

static void release_later_on_loop(graphs *gs, receive *r) {
    env *e = gs->agent->env;
    list_append(&gs->released, &r->link);
    gs->released_count++;
    if (gs->release_timer.armed) return;
    gs->release_timer.fire = fire;
    env_set_timer(e, &gs->release_timer, env_now_ns(e) + BATCH_NS);
}

// Whether the sender still has the send, and so needs a release.
static bool needs_release_on_loop(const receive *r) {
    const agent *a = r->agent;
    return !r->settled && a->phase != AGENT_LEFT && !agent_member(a, r->from)->lost;
}

// The last tensor, node or message that needed the receive is gone: its send is released.
void receive_end(receive *r) {
    agent *a = r->agent;
    bool waits = false;
    if (!agent_is_closed(a)) {
        env_enter(a->env);
        waits = needs_release_on_loop(r);
        if (waits) release_later_on_loop(graphs_of(a), r);
        env_leave(a->env);
    }
    if (!waits) receive_free(r);
}

// Sends one message with all releases in |gs->released| for |rank|. False without memory.
static bool release_to_on_loop(graphs *gs, int rank) {
    message *m = agent_message_on_loop(gs->agent, KIND_SENDS_RELEASED);
    if (!m) return false;
    uint32_t count = 0;
    bytes_put_u32(&m->head, 0);
    list_each(l, &gs->released) {
        const receive *r = list_entry(l, receive, link);
        if (r->from != rank) continue;
        bytes_put_u64(&m->head, r->send);
        count++;
    }
    if (m->head.failed) {
        message_release(m);
        return false;
    }
    memcpy(m->head.data, &count, sizeof count);
    // Sending fails only if the worker is lost; then it needs no release.
    agent_send_on_loop(gs->agent, rank, m, false, NULL);
    return true;
}

static void take_out_on_loop(graphs *gs, int rank) {
    list_each(l, &gs->released) {
        receive *r = list_entry(l, receive, link);
        if (rank >= 0 && r->from != rank) continue;
        list_remove(l);
        gs->released_count--;
        receive_free(r);
    }
}

void receives_flush_on_loop(agent *a) {
    graphs *gs = graphs_of(a);
    bool stays = true;
    while (stays && gs->released_count) {
        int rank = list_entry(gs->released.next, receive, link)->from;
        bool gone = agent_member(a, rank)->lost || a->phase == AGENT_LEFT;
        stays = gone || release_to_on_loop(gs, rank);
        if (stays) take_out_on_loop(gs, rank);
    }
    if (gs->released_count)
        env_set_timer(a->env, &gs->release_timer, env_now_ns(a->env) + BATCH_NS);
    else if (gs->release_timer.armed)
        env_set_timer(a->env, &gs->release_timer, ENV_NEVER);
}

static void flush_task(task *t) {
    graphs *gs = list_entry(t, graphs, release_task);
    agent *a = gs->agent;
    env_enter(a->env);
    gs->releases_soon = false;
    receives_flush_on_loop(a);
    env_leave(a->env);
}

void receives_flush_soon_on_loop(agent *a) {
    graphs *gs = graphs_of(a);
    if (gs->releases_soon) return;
    gs->releases_soon = true;
    gs->release_task.run = flush_task;
    env_defer(a->env, &gs->release_task);
}

void receives_close_on_loop(agent *a) {
    take_out_on_loop(graphs_of(a), -1);
    if (graphs_of(a)->release_timer.armed)
        env_set_timer(a->env, &graphs_of(a)->release_timer, ENV_NEVER);
}

void receives_release_unread_on_loop(agent *a, int from, uint64_t send) {
    message *m = agent_message_on_loop(a, KIND_SENDS_RELEASED);
    if (!m) return;
    bytes_put_u32(&m->head, 1);
    bytes_put_u64(&m->head, send);
    agent_post_on_loop(a, from, m);
}
