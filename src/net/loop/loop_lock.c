// Taking and releasing the loop lock, and the end of a turn.
#include "net/loop/loop.h"

#include <assert.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

bool loop_lock_held(env *e) {
    // Only this thread writes its own id there, so no order is needed.
    return atomic_load_explicit(&os_env_of(e)->holder, memory_order_relaxed) == pthread_self();
}

void loop_lock_take(os_env *o) {
    assert(!env_held_here);
    pthread_mutex_lock(&o->loop_lock);
    env_held_here = &o->base;
    atomic_store_explicit(&o->holder, pthread_self(), memory_order_relaxed);
    o->depth = 1;
}

static void do_kick(os_env *o, kick k) {
    atomic_fetch_add_explicit(&o->kick_total, 1, memory_order_relaxed);
    if (k.event_fd >= 0) {
        // Fails only when full, and then it is signalled already.
        ssize_t written = write(k.event_fd, &(uint64_t){ 1 }, sizeof(uint64_t));
        (void)written;
    } else {
        syscall(SYS_futex, k.futex, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    }
}

// By the time a woken peer runs, all that it was woken for has been written, and a thread that is about to wait for the
// reply has recorded that it checks its memory. So the reply wakes no thread.
static void ring_bells(os_env *o) {
    for (list_node *l; (l = list_take(&o->bells));) {
        source *s = list_entry(l, source, bell);
        s->class->ring(s);
    }
}

void loop_lock_ring(os_env *o, source *s) {
    list_remove(&s->bell);  // it may have been late
    list_append(&o->bells, &s->bell);
}

void loop_lock_ring_later(os_env *o, source *s) {
    if (!list_has(&s->bell)) list_append(&o->late_bells, &s->bell);
}

void loop_lock_ring_late_bells(os_env *o) {
    list_splice(&o->bells, &o->late_bells);
}

void loop_lock_release(os_env *o) {
    kick kicks[LOOP_KICKS_MAX];
    ring_bells(o);
    int count = o->kick_count;
    for (int i = 0; i < count; i++) kicks[i] = o->kicks[i];
    o->kick_count = 0;
    o->depth = 0;
    env_held_here = NULL;
    atomic_store_explicit(&o->holder, 0, memory_order_relaxed);
    pthread_mutex_unlock(&o->loop_lock);
    for (int i = 0; i < count; i++) do_kick(o, kicks[i]);
}

void loop_lock_kick(os_env *o, slot *s) {
    if (atomic_exchange_explicit(&s->state, SLOT_SIGNALLED, memory_order_acq_rel) != SLOT_ASLEEP)
        return;
    kick k = { .event_fd = -1, .futex = &s->state };
    if (s->seat) k.event_fd = s->seat->event_fd;
    if (s == o->poller) k.event_fd = o->wake_fd;
    if (o->kick_count < LOOP_KICKS_MAX) {
        o->kicks[o->kick_count++] = k;
    } else {
        do_kick(o, k);
    }
}

void loop_lock_defer(env *e, task *t) {
    assert(loop_lock_held(e));
    assert(!list_has(&t->link));
    list_append(&os_env_of(e)->deferred, &t->link);
}

static drain *find_drain(os_env *o, pthread_t thread) {
    list_each(l, &o->drains) {
        drain *d = list_entry(l, drain, link);
        if (d->thread == thread) return d;
    }
    return NULL;
}

static drain *find_own_drain(os_env *o) {
    return find_drain(o, pthread_self());
}

// With the loop lock before and after, without it while a task runs. A task's own turns add to the
// same list.
static void run_all(os_env *o, drain *d) {
    while (!list_is_empty(&d->tasks)) {
        loop_lock_release(o);
        for (list_node *l; (l = list_take(&d->tasks));) {
            task *t = list_entry(l, task, link);
            t->run(t);
        }
        loop_lock_take(o);
        list_splice(&d->tasks, &d->late);
    }
}

static void run_in_new_drain(os_env *o) {
    drain d = { .thread = pthread_self() };
    list_init(&d.tasks);
    list_init(&d.late);
    list_splice(&d.tasks, &o->deferred);
    list_prepend(&o->drains, &d.link);
    run_all(o, &d);
    list_remove(&d.link);
}

// Before this thread waits: runs all of its tasks, since it may be about to wait for one of them.
void loop_lock_run_tasks(os_env *o) {
    if (list_is_empty(&o->deferred) && list_is_empty(&o->drains)) return;
    drain *d = find_own_drain(o);
    if (d) {
        list_splice(&d->tasks, &o->deferred);
        run_all(o, d);
    } else if (!list_is_empty(&o->deferred)) {
        run_in_new_drain(o);
    }
}

void loop_lock_leave_tasks_to(os_env *o, pthread_t thread) {
    list_splice(&find_drain(o, thread)->late, &o->deferred);
}

void loop_lock_enter(env *e) {
    os_env *o = os_env_of(e);
    if (loop_lock_held(e)) {
        o->depth++;
    } else {
        loop_lock_take(o);
    }
}

void loop_lock_leave(env *e) {
    os_env *o = os_env_of(e);
    assert(loop_lock_held(e) && o->depth > 0);
    if (o->depth > 1) {
        o->depth--;
        return;
    }
    if (!list_is_empty(&o->deferred)) {
        drain *d = find_own_drain(o);
        if (d) {
            // A task's own turn: the loop that runs the task continues with these.
            list_splice(&d->tasks, &o->deferred);
        } else {
            run_in_new_drain(o);
        }
    }
    loop_lock_release(o);
}
