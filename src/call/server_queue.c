#include "call/server_queue.h"

#include "base/mem.h"
#include "call/flow_control.h"
#include "call/server.h"

#include <assert.h>
#include <string.h>

static uint64_t key_of(const served_call *s) {
    return hash_u64(s->header.fixed.order) + (uint64_t)s->caller;
}

static call_queue *find_or_make(agent *a, uint64_t key) {
    call_queue *t = map_find(&calls_of(a)->queues, key);
    if (t) return t;
    t = mem_take(sizeof *t);
    if (!t) return NULL;
    memset(t, 0, sizeof *t);
    t->agent = a;
    t->key = key;
    list_init(&t->waiting);
    list_init(&t->inlined);
    if (map_put(&calls_of(a)->queues, key, t)) return t;
    mem_give(t, sizeof *t);
    return NULL;
}

static void free_if_done(call_queue *t) {
    if (t->admitted || t->running || !list_is_empty(&t->waiting)) return;
    map_take(&calls_of(t->agent)->queues, t->key);
    mem_give(t, sizeof *t);
}

// Those that wait in one queue keep their order there; others wait until those before them have started.
static bool may_admit(const call_queue *t, served_call *s) {
    return !t->admitted || t->where == served_call_queue(s);
}

static void admit(call_queue *t, served_call *s) {
    t->admitted++;
    s->admitted = true;
    t->where = served_call_queue(s);
    served_call_admit_on_loop(s);
}

static void admit_waiting(call_queue *t) {
    while (!list_is_empty(&t->waiting)) {
        served_call *s = list_entry(t->waiting.next, served_call, queue_link);
        if (!may_admit(t, s)) return;
        list_remove(&s->queue_link);
        admit(t, s);
    }
}

gw_status call_queue_enter_on_loop(agent *a, served_call *s, gw_error *error) {
    call_queue *t = find_or_make(a, key_of(s));
    if (!t) return error_set(error, GW_NO_MEMORY, "no memory for a call");
    s->queue = t;
    if (list_is_empty(&t->waiting) && may_admit(t, s)) {
        admit(t, s);
    } else {
        list_append(&t->waiting, &s->queue_link);
    }
    return GW_OK;
}

void call_queue_started_on_loop(served_call *s) {
    call_queue *t = s->queue;
    s->queue = NULL;
    assert(t->admitted > 0);
    t->admitted--;
    admit_waiting(t);
    free_if_done(t);
}

void call_queue_cancel_on_loop(served_call *s) {
    call_queue *t = s->queue;
    if (!t) return;
    list_remove(&s->queue_link);
    if (s->admitted) {
        call_queue_started_on_loop(s);
    } else {
        s->queue = NULL;
        free_if_done(t);
    }
}

// ---- Running inline ----

// Replies of one batch go out together, but none waits for long.
enum { BATCH_NS = 20 * 1000 };

static served_call *take_inlined(call_queue *t) {
    list_node *l = list_take(&t->inlined);
    return l ? list_entry(l, served_call, queue_link) : NULL;
}

static void run_inlined(task *task) {
    call_queue *t = list_entry(task, call_queue, task);
    env *e = t->agent->env;
    served_call *s = t->first;
    int64_t start_ns = env_now_ns(e);
    while (s) s = served_call_run_inline(s, env_now_ns(e) - start_ns > BATCH_NS);
}

void call_queue_run_on_loop(served_call *s) {
    call_queue *t = s->queue;
    if (t->running) {
        list_append(&t->inlined, &s->queue_link);
        return;
    }
    t->running = true;
    t->first = s;
    served_call_apply_on_loop(s, SERVED_STARTED);
    t->task.run = run_inlined;
    pool_run_soon_on_loop(&t->agent->pool, &t->task);
}

served_call *call_queue_next_on_loop(served_call *s) {
    call_queue *t = s->queue;
    served_call *next;
    s->queue = NULL;
    t->admitted--;
    admit_waiting(t);
    if (!list_is_empty(&t->inlined) && !flow_has_capacity_on_loop(t->agent, s->caller))
        while ((next = take_inlined(t))) served_call_apply_on_loop(next, SERVED_BLOCKED);
    next = take_inlined(t);
    if (next) {
        served_call_apply_on_loop(next, SERVED_STARTED);
    } else {
        t->running = false;
        free_if_done(t);
    }
    return next;
}
