// What there is no memory to say about passes is kept, without any, and said again: done, abort,
// scope closed. With the loop lock held, unless a comment says otherwise.
#include "distributed/autograd/passes.h"

#include "base/mem.h"

#define AGAIN_NS INT64_C(100000000)

static void say_again(timer *t);

static void arm(agent *a) {
    graphs *gs = graphs_of(a);
    if (gs->again.armed) return;
    gs->again.fire = say_again;
    env_set_timer(a->env, &gs->again, env_now_ns(a->env) + AGAIN_NS);
}

// ---- Words --------------------------------------------------------------------------------------

static bool say(agent *a, const pass_word *w, const gw_error *why) {
    message *m = agent_message_on_loop(a, (uint8_t)w->kind);
    if (!m) return false;
    if (w->kind == KIND_PASS_ABORT) bytes_put_u32(&m->head, (uint32_t)w->initiator);
    bytes_put_u64(&m->head, w->number);
    if (w->kind == KIND_PASS_ABORT) encode_error(&m->head, why);
    if (!m->head.failed) return agent_send_on_loop(a, w->to, m, true, NULL) != GW_NO_MEMORY;
    message_release(m);
    return false;
}

// Whoever cannot be told the end of its pass would wait for it: more than fits loses it instead, at
// the next turn, since whoever has come here may be going through the passes. What this worker's
// own passes have come to its participants hear again, with the end of the scope.
static void keep(agent *a, const pass_word *w) {
    graphs *gs = graphs_of(a);
    if (gs->unsaid_count < PASS_WORDS_MAX)
        gs->unsaid[gs->unsaid_count++] = *w;
    else if (w->initiator != a->rank)
        worker_set_add(&gs->untold, w->to);
    arm(a);
}

void passes_say_on_loop(agent *a, pass_word w, const gw_error *why) {
    w.status = why ? why->status : GW_OK;
    if (!say(a, &w, why)) keep(a, &w);
}

bool passes_is_unsaid_on_loop(const agent *a, int initiator, uint64_t number) {
    const graphs *gs = graphs_of(a);
    for (uint32_t i = 0; i < gs->unsaid_count; i++) {
        const pass_word *w = &gs->unsaid[i];
        if (w->kind == KIND_PASS_ABORT && w->initiator == initiator && w->number == number)
            return true;
    }
    return false;
}

static bool say_late(agent *a, const pass_word *w) {
    gw_error why;
    if (agent_member(a, w->to)->lost) return true;
    error_set(&why, w->status ? w->status : GW_NO_MEMORY,
              "%s: it has given up this backward pass, and has no memory to say why", a->name);
    return say(a, w, &why);
}

static void say_words(agent *a) {
    graphs *gs = graphs_of(a);
    uint32_t left = 0;
    for (uint32_t i = 0; i < gs->unsaid_count; i++)
        if (!say_late(a, &gs->unsaid[i])) gs->unsaid[left++] = gs->unsaid[i];
    gs->unsaid_count = left;
}

// May end other passes, which have words to say.
static void lose_untold(agent *a) {
    graphs *gs = graphs_of(a);
    for (int rank = 0; rank < a->member_count; rank++) {
        gw_error why;
        if (!worker_set_has(&gs->untold, rank)) continue;
        worker_set_remove(&gs->untold, rank);
        error_set(&why, GW_NO_MEMORY, "%s: no memory to tell it the end of a backward pass",
                  agent_member(a, rank)->name);
        if (rank != a->rank && a->peers) peers_lose(a->peers, rank, &why);
    }
}

// ---- Scopes -------------------------------------------------------------------------------------

static bool say_closed(agent *a, int to, uint64_t scope) {
    message *m = agent_message_on_loop(a, KIND_SCOPE_CLOSED);
    if (!m) return false;
    bytes_put_u64(&m->head, scope);
    passes_put_ended_on_loop(a, a->rank, &m->head);
    if (!m->head.failed) return agent_send_on_loop(a, to, m, true, NULL) != GW_NO_MEMORY;
    message_release(m);
    return false;
}

static bool tell_visited(pass_visited *v) {
    agent *a = v->agent;
    bool all = true;
    for (int rank = 0; rank < a->member_count && a->phase != AGENT_LEFT; rank++) {
        if (!worker_set_has(&v->workers, rank)) continue;
        if (agent_member(a, rank)->lost || say_closed(a, rank, v->scope))
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
    bool told = agent_is_closed(a);
    if (!told) {
        env_enter(a->env);
        told = tell_visited(v);
        if (!told) list_append(&graphs_of(a)->closing, &v->link);
        if (!told) arm(a);
        env_leave(a->env);
    }
    if (told) free_visited(v);
}

static void say_closings(agent *a) {
    list_each(l, &graphs_of(a)->closing) {
        pass_visited *v = list_entry(l, pass_visited, link);
        if (!tell_visited(v)) continue;
        list_remove(l);
        free_visited(v);
    }
}

// ---- Both ---------------------------------------------------------------------------------------

size_t passes_unsaid_count(const agent *a) {
    const graphs *gs = graphs_of(a);
    size_t count = gs->unsaid_count;
    list_each(l, &gs->closing) count++;
    return count;
}

static void say_again(timer *t) {
    graphs *gs = list_entry(t, graphs, again);
    agent *a = gs->agent;
    say_words(a);
    say_closings(a);
    lose_untold(a);
    if (passes_unsaid_count(a))
        arm(a);
    else
        leaving_check_on_loop(a);
}

void passes_stop_saying_on_loop(agent *a) {
    graphs *gs = graphs_of(a);
    if (gs->again.armed) env_set_timer(a->env, &gs->again, ENV_NEVER);
    gs->unsaid_count = 0;
    for (list_node *l; (l = list_take(&gs->closing));)
        free_visited(list_entry(l, pass_visited, link));
}
