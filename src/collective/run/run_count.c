// The counts of a run, how its worker is woken, and the state of its future.
#include "collective/run/run.h"

#include "base/mem.h"

// ---- Counts -------------------------------------------------------------------------------------

void run_free(run *r) {
    plan_fini(&r->plan);
    for (list_node *l; (l = list_take(&r->arrivals));) {
        arrival *x = list_entry(l, arrival, link);
        incoming_close(x->incoming);
        mem_free(x);
    }
    for (int i = 0; r->values && i < r->plan_steps; i++) run_let_go(r, i);
    if (r->scope) {
        scope_close_unread(r->scope);
    }
    for (int i = 0; r->values && i < r->plan_steps; i++) incoming_close(r->values[i].incoming);
    mem_give(r->tables, r->tables_size);
    mem_free(r->shares);
    mem_free(r->detail);
    error_forget(&r->failure);
    mem_free(r->backend);
    handle_release(r->future);
    handle_release(r->group);
    mem_free(r);
}

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
    run_free(list_entry(t, run, freeing));
}

void run_release_on_loop(run *r) {
    if (!is_last(r)) return;
    r->freeing.run = free_later;
    env_defer(r->group->agent->env, &r->freeing);
}

void run_wake_on_loop(run *r) {
    if (!run_is_at_work(r) || r->deferred || r->works)
        return;  // the worker checks again at its end
    atomic_fetch_add_explicit(&r->count, 1, memory_order_relaxed);
    r->deferred = true;
    env_defer(r->group->agent->env, &r->work);
}

// ---- The program's side -------------------------------------------------------------------------

static void report_on_loop(notice *n) {
    n->was_read = true;
    if (n->is_missed) n->sequence->missed = false;
}

void run_reported(gw_future *f) {
    notice *n = f->source_state;
    if (agent_is_closed(f->agent)) return;
    env_enter(f->agent->env);
    report_on_loop(n);
    env_leave(f->agent->env);
}

// A program that drops the future does not need the error.
static void free_notice(gw_future *f) {
    notice *n = f->source_state;
    if (n->is_missed && !agent_is_closed(f->agent)) {
        env_enter(f->agent->env);
        sequence *t = n->sequence;
        if (--t->missed_count == 0 && !t->fails_next) t->missed = false;
        env_leave(f->agent->env);
    }
    handle_release(n->group);
    mem_free(n);
}

const future_source run_future_source = { .reported = run_reported,
                                          .free = free_notice,
                                          .describe = run_describe };
