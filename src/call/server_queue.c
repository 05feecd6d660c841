#include "call/server_queue.h"

#include "base/mem.h"
#include "call/flow_control.h"
#include "call/server.h"

#include <assert.h>
#include <string.h>

static uint64_t key_of(const serving *s) {
    return hash_u64(s->header.fixed.order) + (uint64_t)s->caller;
}

static strand *find_or_make(agent *a, uint64_t key) {
    strand *t = map_find(&a->strands, key);
    if (t) return t;
    t = mem_take(sizeof *t);
    if (!t) return NULL;
    memset(t, 0, sizeof *t);
    t->agent = a;
    t->key = key;
    list_init(&t->waiting);
    list_init(&t->inlined);
    if (map_put(&a->strands, key, t)) return t;
    mem_give(t, sizeof *t);
    return NULL;
}

static void free_if_done(strand *t) {
    if (t->admitted || t->running || !list_is_empty(&t->waiting)) return;
    map_take(&t->agent->strands, t->key);
    mem_give(t, sizeof *t);
}

// Those that wait in one queue keep their order there; others wait until those before them have started.
static bool may_admit(const strand *t, serving *s) {
    return !t->admitted || t->where == serving_queue(s);
}

static void admit(strand *t, serving *s) {
    t->admitted++;
    t->where = serving_queue(s);
    serving_admit_on_loop(s);
}

static void admit_waiting(strand *t) {
    while (!list_is_empty(&t->waiting)) {
        serving *s = list_entry(t->waiting.next, serving, strand_link);
        if (!may_admit(t, s)) return;
        list_remove(&s->strand_link);
        admit(t, s);
    }
}

gw_status strand_enter_on_loop(agent *a, serving *s, gw_error *error) {
    strand *t = find_or_make(a, key_of(s));
    if (!t) return error_set(error, GW_NO_MEMORY, "no memory for a call");
    s->strand = t;
    if (list_is_empty(&t->waiting) && may_admit(t, s)) {
        admit(t, s);
    } else {
        list_append(&t->waiting, &s->strand_link);
    }
    return GW_OK;
}

void strand_started_on_loop(serving *s) {
    strand *t = s->strand;
    s->strand = NULL;
    assert(t->admitted > 0);
    t->admitted--;
    admit_waiting(t);
    free_if_done(t);
}

void strand_cancel_on_loop(serving *s) {
    strand *t = s->strand;
    if (!t) return;
    bool admitted = !(s->state == SERVING_ORDER);
    list_remove(&s->strand_link);
    if (admitted) {
        strand_started_on_loop(s);
    } else {
        s->strand = NULL;
        free_if_done(t);
    }
}

// ---- Running inline ----

// Replies of one batch go out together, but none waits for long.
enum { BATCH_NS = 20 * 1000 };

static serving *take_inlined(strand *t) {
    list_node *l = list_take(&t->inlined);
    return l ? list_entry(l, serving, strand_link) : NULL;
}

static void run_inlined(task *task) {
    strand *t = list_entry(task, strand, task);
    env *e = t->agent->env;
    serving *s = t->first;
    int64_t start_ns = env_now_ns(e);
    while (s) s = serving_run_inline(s, env_now_ns(e) - start_ns > BATCH_NS);
}

void strand_run_on_loop(serving *s) {
    strand *t = s->strand;
    if (t->running) {
        list_append(&t->inlined, &s->strand_link);
        return;
    }
    t->running = true;
    t->first = s;
    serving_start_on_loop(s);
    t->task.run = run_inlined;
    pool_run_soon_on_loop(&t->agent->pool, &t->task);
}

serving *strand_next_on_loop(serving *s) {
    strand *t = s->strand;
    serving *next;
    s->strand = NULL;
    t->admitted--;
    admit_waiting(t);
    if (!list_is_empty(&t->inlined) && !room_for_replies_on_loop(t->agent, s->caller))
        while ((next = take_inlined(t))) room_hold_on_loop(next, true);
    next = take_inlined(t);
    if (next) {
        serving_start_on_loop(next);
    } else {
        t->running = false;
        free_if_done(t);
    }
    return next;
}
