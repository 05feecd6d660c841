// The env of one node: the loop lock, waiting, tasks and timers, as in net/ but with one thread at
// a time. The role is never fought for: a thread gives the baton away only while it does not hold
// the loop lock.
#include "testing/sim_parts.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/status.h"

enum { ENTER_NS = 100 };  // so that a thread which reads the clock in a loop sees it advance

static sim_env_ *of(env *e) {
    return (sim_env_ *)e;
}

// ---- Clock and randomness -----------------------------------------------------------------------

static int64_t now_ns(env *e) {
    return of(e)->sim->now_ns;
}

static int64_t wall_ns(env *e) {
    const sim *s = of(e)->sim;
    return s->now_ns + s->nodes[of(e)->node].wall_offset_ns;
}

static uint64_t random_u64(env *e) {
    uint64_t x = of(e)->random += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

// ---- The role -----------------------------------------------------------------------------------

static bool held(env *e) {
    return of(e)->holder == of(e)->sim->running;
}

static void take_loop_lock(sim_env_ *x) {
    assert(!x->holder && !env_held_here);
    env_held_here = &x->base;
    x->holder = x->sim->running;
    x->depth = 1;
}

static void release_loop_lock(sim_env_ *x) {
    assert(list_is_empty(&x->deferred));
    env_held_here = NULL;
    x->holder = NULL;
    x->depth = 0;
}

static void defer(env *e, task *t) {
    assert(held(e) && !list_has(&t->link));
    list_append(&of(e)->deferred, &t->link);
}

static sim_drain *find_own_drain(sim_env_ *x) {
    list_each(l, &x->drains) {
        sim_drain *d = list_entry(l, sim_drain, link);
        if (d->thread == x->sim->running) return d;
    }
    return NULL;
}

static void run_all(sim_env_ *x, sim_drain *d) {
    if (list_is_empty(&d->tasks)) return;
    release_loop_lock(x);
    for (list_node *l; (l = list_take(&d->tasks));) {
        task *t = list_entry(l, task, link);
        sim_maybe_overtaken(x->sim);
        sim_note(x->sim, d->thread, "runs a task", 0, 0);
        t->run(t);
    }
    take_loop_lock(x);
}

static void run_in_new_drain(sim_env_ *x) {
    sim_drain d = { .thread = x->sim->running };
    list_init(&d.tasks);
    list_splice(&d.tasks, &x->deferred);
    list_prepend(&x->drains, &d.link);
    run_all(x, &d);
    list_remove(&d.link);
}

static void run_tasks(sim_env_ *x) {
    sim_drain *d = find_own_drain(x);
    if (d) {
        list_splice(&d->tasks, &x->deferred);
        run_all(x, d);
    } else if (!list_is_empty(&x->deferred)) {
        run_in_new_drain(x);
    }
}

static void enter(env *e) {
    sim_env_ *x = of(e);
    if (held(e)) {
        x->depth++;
        return;
    }
    x->sim->now_ns += ENTER_NS;
    sim_maybe_overtaken(x->sim);
    take_loop_lock(x);
}

static void leave(env *e) {
    sim_env_ *x = of(e);
    assert(held(e) && x->depth > 0);
    if (x->depth > 1) {
        x->depth--;
        return;
    }
    if (!list_is_empty(&x->deferred)) {
        sim_drain *d = find_own_drain(x);
        if (d) {
            list_splice(&d->tasks, &x->deferred);
        } else {
            run_in_new_drain(x);
        }
    }
    release_loop_lock(x);
}

// ---- Waiting ------------------------------------------------------------------------------------

static void make_turn(sim_env_ *x, waiter *w, sim_event *ev) {
    sim_thread *before = x->dispatcher;
    x->dispatcher = x->sim->running;
    x->turning = w;
    ev->happen(ev);
    x->turning = NULL;
    run_tasks(x);
    x->dispatcher = before;
}

static void wait_once(sim_env_ *x, sim_thread *t, waiter *w, int64_t until_ns) {
    sim *s = x->sim;
    t->waiter = w;
    t->waits_in = x;
    t->until_ns = until_ns;
    t->state = SIM_WAITING;
    list_append(&x->waiting, &t->queued);
    if (until_ns != ENV_NEVER) sim_event_at(s, &t->timeout, until_ns);
    release_loop_lock(x);
    sim_pass_baton(s);
    t->state = SIM_RUNNING;
    sim_event_at(s, &t->timeout, ENV_NEVER);
    take_loop_lock(x);
    sim_event *ev = t->given;
    t->given = NULL;
    if (ev) make_turn(x, w, ev);
}

static bool wait(env *e, waiter *w, int64_t until_ns) {
    sim_env_ *x = of(e);
    sim_thread *t = x->sim->running;
    assert(held(e) && x->depth == 1);
    assert(!x->turning);            // callbacks do not wait
    assert(t != &x->sim->outside);  // nor does the caller of the simulation
    run_tasks(x);
    w->parked = t;
    for (bool looked = false; !w->woken; looked = true) {
        if (looked && now_ns(e) >= until_ns) break;
        wait_once(x, t, w, until_ns);
    }
    w->parked = NULL;
    return w->woken;
}

static void wake(env *e, waiter *w) {
    assert(held(e));
    w->woken = true;
    sim_thread *t = w->parked;
    if (t && t->state == SIM_WAITING) sim_make_runnable(t);
}

static waiter *turn(env *e) {
    return of(e)->turning;
}

// ---- Timers -------------------------------------------------------------------------------------

static void set_alarm(sim_env_ *x) {
    sim_event_at(x->sim, &x->alarm, timers_due_ns(&x->timers));
}

static void set_timer(env *e, timer *t, int64_t due_ns) {
    sim_env_ *x = of(e);
    assert(held(e));
    timers_set(&x->timers, t, due_ns);
    if (!list_has(&x->alarm.ready)) set_alarm(x);
}

static void fire_due(sim_event *ev) {
    sim_env_ *x = ev->env;
    timers_fire_due(&x->timers, x->sim->now_ns);
    set_alarm(x);
}

// ---- Opening and closing ------------------------------------------------------------------------

static gw_status spawn(env *e, void (*main)(void *arg), void *arg, gw_error *error) {
    sim_env_ *x = of(e);
    assert(held(e));
    if (sim_thread_open(x->sim, x, false, x->node, main, arg)) return GW_OK;
    return error_set(error, GW_NO_MEMORY, "a thread: out of memory");
}

void sim_env_forget_threads(sim_env_ *x) {
    list_init(&x->deferred);
    list_init(&x->drains);
    list_init(&x->waiting);
    x->holder = x->dispatcher = x->joining = NULL;
    x->turning = NULL;
}

static void join_threads(sim_env_ *x) {
    sim *s = x->sim;
    if (x->spawned_count == 0) return;
    x->joining = s->running;
    x->joining->state = SIM_JOINING;
    s->is_stuck = false;
    sim_pass_baton(s);
    s->running->state = SIM_RUNNING;
    if (x->spawned_count == 0) return;
    sim_write_report(s);
    abort();  // there is no way on: the caller expects its threads to have ended
}

void sim_env_close(env *e) {
    sim_env_ *x = of(e);
    assert(!held(e));
    if (x->closed) return;
    join_threads(x);
    assert(list_is_empty(&x->waiting));
    x->closed = true;
    sim_net_close(x);
    sim_event_at(x->sim, &x->alarm, ENV_NEVER);
}

void sim_env_free(sim_env_ *x) {
    mem_free(x);
}

// A simulated process has no launcher.
static void report_to_launcher(env *e, const char *line) {
    (void)e, (void)line;
}

static void listen_to_launcher(env *e, void (*on_line)(void *user, const char *line), void *user) {
    (void)e, (void)on_line, (void)user;
}

static const env_class sim_class = {
    .name = "sim",
    .now_ns = now_ns,
    .wall_ns = wall_ns,
    .random_u64 = random_u64,
    .enter = enter,
    .leave = leave,
    .held = held,
    .wait = wait,
    .wake = wake,
    .turn = turn,
    .defer = defer,
    .set_timer = set_timer,
    .spawn = spawn,
    .report_to_launcher = report_to_launcher,
    .listen_to_launcher = listen_to_launcher,
    .close = sim_env_close,
};

static const transport *const sim_transports[] = { &sim_transport, NULL };
static const transport *const with_rings[] = { &sim_rings_transport, &sim_transport, NULL };

env *sim_env(sim *s, int node) {
    assert(node >= 0 && node < SIM_NODES_MAX);
    int incarnation = 0;
    list_each(l, &s->envs) {
        sim_env_ *x = list_entry(l, sim_env_, link);
        if (x->node != node) continue;
        if (!x->closed && !x->is_ghost) return &x->base;
        incarnation++;
    }
    sim_env_ *x = mem_calloc(sizeof *x);
    if (!x) return NULL;
    x->base =
        (env){ .class = &sim_class, .transports = s->options.rings ? with_rings : sim_transports };
    x->sim = s;
    x->node = node;
    x->random =
        s->seed * UINT64_C(0xd1342543de82ef95) + (uint64_t)node * 1000003 + (uint64_t)incarnation;
    list_init(&x->deferred);
    list_init(&x->drains);
    list_init(&x->waiting);
    list_init(&x->conns);
    list_init(&x->listeners);
    sim_event_init(s, &x->alarm, x, "timers are due", fire_due);
    list_append(&s->envs, &x->link);
    return &x->base;
}
