// Threads of a simulation: real ones, of which only the holder of the baton runs. They are used
// again by the next simulation, since a thousand short ones are run in a row.
#include "testing/sim_parts.h"

#include <assert.h>
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"

// A real thread; lives on its own stack, for ever.
typedef struct carrier {
    _Atomic(sim_thread *) job;
    _Atomic uint32_t has_job;
    int cpu;
    struct carrier *next;
} carrier;

// Free carriers belong to the process: a simulation takes them and they return by themselves.
static pthread_mutex_t free_lock = PTHREAD_MUTEX_INITIALIZER;
static carrier *free_carriers;

static void raise_flag(_Atomic uint32_t *flag) {
    atomic_store_explicit(flag, 1, memory_order_release);
    syscall(SYS_futex, flag, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void await_flag(_Atomic uint32_t *flag) {
    while (!atomic_load_explicit(flag, memory_order_acquire))
        syscall(SYS_futex, flag, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
    atomic_store_explicit(flag, 0, memory_order_relaxed);
}

// ---- One processor for all, so that passing the baton does not wake another one -----------------

static void pin_to(int cpu) {
    cpu_set_t mask;
    CPU_ZERO(&mask);
    CPU_SET(cpu, &mask);
    sched_setaffinity(0, sizeof mask, &mask);
}

int sim_pin(sim *s, void *old_mask, unsigned long size) {
    if (sched_getaffinity(0, size, old_mask)) return 0;
    s->cpu = sched_getcpu();
    if (s->cpu < 0) return 0;
    pin_to(s->cpu);
    return 1;
}

void sim_unpin(const void *old_mask, unsigned long size) {
    sched_setaffinity(0, size, old_mask);
}

// ---- The baton ----------------------------------------------------------------------------------

static void take_baton(sim_thread *t) {
    await_flag(&t->has_baton);
    if (t->cancelled) longjmp(t->start, 1);
}

void sim_pass_baton(sim *s) {
    sim_thread *self = s->running, *next = sim_choose(s);
    if (next == self) return;
    s->counts.switches++;
    s->running = next;
    raise_flag(&next->has_baton);
    take_baton(self);
}

void sim_make_runnable(sim_thread *t) {
    sim *s = t->sim;
    list_remove(&t->queued);
    sim_event_at(s, &t->timeout, ENV_NEVER);
    t->state = SIM_RUNNABLE;
    list_append(&s->runnable, &t->queued);
}

bool sim_thread_can_run(const sim_thread *t) {
    return t->node < 0 || !t->sim->nodes[t->node].is_stopped;
}

void sim_maybe_overtaken(sim *s) {
    sim_thread *t = s->running;
    if (t == &s->outside || !sim_chance(s, s->options.interleave_per_million)) return;
    sim_make_runnable(t);
    sim_pass_baton(s);
    t->state = SIM_RUNNING;
}

// ---- Life of a thread ---------------------------------------------------------------------------

static void end_thread(sim_thread *t) {
    sim *s = t->sim;
    sim_note(s, t, "ends", 0, 0);
    sim_event_at(s, &t->timeout, ENV_NEVER);
    list_remove(&t->link);
    list_remove(&t->queued);
    if (t->is_main) s->main_count--;
    if (t->env && --t->env->spawned_count == 0 && t->env->joining) {
        sim_make_runnable(t->env->joining);
        t->env->joining = NULL;
    }
}

static void run_thread(carrier *c, sim_thread *t) {
    if (setjmp(t->start) == 0) {
        take_baton(t);
        t->state = SIM_RUNNING;
        if (t->sim->cpu >= 0 && t->sim->cpu != c->cpu) pin_to(c->cpu = t->sim->cpu);
        t->main(t->arg);
    }
}

static void put_back(carrier *c) {
    pthread_mutex_lock(&free_lock);
    c->next = free_carriers;
    free_carriers = c;
    pthread_mutex_unlock(&free_lock);
}

static void *carry(void *arg) {
    carrier c = { .job = arg, .cpu = -1 };
    for (;;) {
        sim_thread *t = atomic_load_explicit(&c.job, memory_order_relaxed);
        sim *s = t->sim;
        run_thread(&c, t);
        bool was_cancelled = t->cancelled;
        end_thread(t);
        mem_free(t);
        put_back(&c);
        sim_thread *next = was_cancelled ? &s->outside : sim_choose(s);
        s->running = next;
        raise_flag(&next->has_baton);
        await_flag(&c.has_job);
    }
    return NULL;
}

static bool start_carrier(sim_thread *t) {
    pthread_mutex_lock(&free_lock);
    carrier *c = free_carriers;
    if (c) free_carriers = c->next;
    pthread_mutex_unlock(&free_lock);
    if (c) {
        atomic_store_explicit(&c->job, t, memory_order_relaxed);
        raise_flag(&c->has_job);
        return true;
    }
    pthread_t handle;
    if (pthread_create(&handle, NULL, carry, t)) return false;
    pthread_detach(handle);
    return true;
}

static void wait_is_over(sim_event *ev) {
    sim_thread *t = list_entry(ev, sim_thread, timeout);
    if (t->state == SIM_WAITING) sim_make_runnable(t);
}

bool sim_thread_open(sim *s, sim_env_ *env, bool is_main, int node, void (*main)(void *arg),
                     void *arg) {
    assert(node >= 0 && node < SIM_NODES_MAX);
    sim_thread *t = mem_calloc(sizeof *t);
    if (!t) return false;
    t->sim = s;
    t->env = env;
    t->is_main = is_main;
    t->node = node;
    t->main = main;
    t->arg = arg;
    t->id = ++s->next_id;
    sim_event_init(s, &t->timeout, NULL, "time is up", wait_is_over);
    if (is_main) {
        snprintf(t->label, sizeof t->label, "node %d main", node);
    } else {
        snprintf(t->label, sizeof t->label, "node %d thread %d", node, ++env->thread_count);
    }
    if (!start_carrier(t)) {
        mem_free(t);
        return false;
    }
    list_append(&s->threads, &t->link);
    sim_make_runnable(t);
    if (is_main) s->main_count++;
    if (env) env->spawned_count++;
    return true;
}

bool sim_spawn(sim *s, int node, void (*main)(void *arg), void *arg) {
    return sim_thread_open(s, NULL, true, node, main, arg);
}

void sim_cancel_all(sim *s) {
    while (!list_is_empty(&s->threads)) {
        sim_thread *t = list_entry(s->threads.next, sim_thread, link);
        t->cancelled = true;
        s->running = t;
        raise_flag(&t->has_baton);
        await_flag(&s->outside.has_baton);
    }
    list_each(l, &s->envs) sim_env_forget_threads(list_entry(l, sim_env_, link));
}
