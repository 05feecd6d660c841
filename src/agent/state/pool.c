#include "agent/state/pool.h"

#include "base/limits.h"
#include "base/mem.h"
#include "base/status.h"

// Calls nested to the last allowed depth still find a thread (docs/protocol/calls.md).
enum { THREADS_FOR_NO_HOPS = 504, THREADS_PER_HOP = 8 };
_Static_assert(THREADS_FOR_NO_HOPS + THREADS_PER_HOP * LIMIT_DEPTH <= LIMIT_THREADS,
               "the deepest call keeps within the limit");

typedef struct pool_thread {
    pool *pool;
    list_node link;  // in |idle|
    waiter waiter;
} pool_thread;

static void thread_main(void *arg);

void pool_init(pool *p, env *e, int slots) {
    *p = (pool){ .env = e, .slots = slots };
    list_init(&p->queue);
    list_init(&p->idle);
    list_init(&p->errands);
}

gw_status pool_add_thread_on_loop(pool *p, gw_error *error) {
    pool_thread *t = mem_calloc(sizeof *t);
    if (!t) return error_set(error, GW_NO_MEMORY, "no memory for a thread");
    t->pool = p;
    gw_status status = env_spawn(p->env, thread_main, t, error);
    if (status) {
        mem_free(t);
        return status;
    }
    p->thread_count++;
    p->roused++;
    return GW_OK;
}

// The thread of this turn is awake already; else the latest one has the warmest memory.
static pool_thread *pick_idle(pool *p) {
    waiter *turn = env_turn(p->env);
    list_each(l, &p->idle) {
        pool_thread *t = list_entry(l, pool_thread, link);
        if (&t->waiter == turn) return t;
    }
    return list_entry(p->idle.next, pool_thread, link);
}

static void rouse(pool *p, pool_thread *t) {
    list_remove(&t->link);
    p->roused++;
    env_wake(p->env, &t->waiter);
}

// As many threads awake as there are jobs that may run, and one idle.
static void dispatch(pool *p) {
    if (p->ending) return;
    int wanted = p->slots - p->busy < p->queue_count ? p->slots - p->busy : p->queue_count;
    while (p->roused < wanted) {
        if (!list_is_empty(&p->idle)) {
            rouse(p, pick_idle(p));
        } else if (p->thread_count >= LIMIT_THREADS || pool_add_thread_on_loop(p, NULL)) {
            return;  // the next job that ends or waits continues with the queue
        }
    }
    bool spare = !list_is_empty(&p->idle) || p->roused > wanted;
    if (wanted > 0 && !spare && p->thread_count < LIMIT_THREADS) pool_add_thread_on_loop(p, NULL);
}

void pool_submit_on_loop(pool *p, pool_job *j) {
    list_append(&p->queue, &j->link);
    p->queue_count++;
    dispatch(p);
}

void pool_run_soon_on_loop(pool *p, task *t) {
    if (!p->taking || (list_is_empty(&p->idle) && !p->roused)) {
        env_defer(p->env, t);
        return;
    }
    list_append(&p->errands, &t->link);
    if (!p->roused) rouse(p, pick_idle(p));
}

// As tasks of a turn of this thread, which needs no slot for them.
static void run_errands(pool *p) {
    for (list_node *l; (l = list_take(&p->errands));) env_defer(p->env, list_entry(l, task, link));
    env_leave(p->env);
    env_enter(p->env);
}

bool pool_withdraw_on_loop(pool *p, pool_job *j) {
    if (!list_has(&j->link)) return false;
    list_remove(&j->link);
    p->queue_count--;
    return true;
}

void pool_give_place_on_loop(pool *p) {
    p->busy--;
    dispatch(p);
}

void pool_regain_place_on_loop(pool *p) {
    p->busy++;
}

static pool_job *next_job(pool *p) {
    if (p->busy >= p->slots) return NULL;
    list_each(l, &p->queue) {
        pool_job *j = list_entry(l, pool_job, link);
        if (p->started >= THREADS_FOR_NO_HOPS + THREADS_PER_HOP * j->depth) continue;
        pool_withdraw_on_loop(p, j);
        return j;
    }
    return NULL;
}

static bool begin_job(pool *p, pool_job *j) {
    p->taking = true;
    bool runs = j->taken(j);
    p->taking = false;
    return runs;
}

static void run_job(pool *p, pool_job *j) {
    p->busy++;
    p->started++;
    if (begin_job(p, j)) {
        dispatch(p);  // other jobs may start concurrently
        env_leave(p->env);
        j->run(j);
        env_enter(p->env);
    }
    p->busy--;
    p->started--;
}

static void wait_for_job(pool *p, pool_thread *t) {
    t->waiter = (waiter){ .idle = true, .what = "work" };
    list_prepend(&p->idle, &t->link);
    env_wait(p->env, &t->waiter, ENV_NEVER);
    p->roused--;
}

static void thread_main(void *arg) {
    pool_thread *t = arg;
    pool *p = t->pool;
    env *e = p->env;
    env_enter(e);
    p->roused--;
    for (pool_job *j;;) {
        if (!list_is_empty(&p->errands))
            run_errands(p);
        else if ((j = next_job(p)))  // also when the pool ends: a thread may wait for the job
            run_job(p, j);
        else if (!p->ending)
            wait_for_job(p, t);
        else
            break;
    }
    if (--p->thread_count == 0 && p->closer) env_wake(e, p->closer);
    mem_free(t);
    env_leave(e);
}

void pool_end_on_loop(pool *p) {
    p->ending = true;
    while (!list_is_empty(&p->idle)) rouse(p, list_entry(p->idle.next, pool_thread, link));
}

pool_job *pool_take_on_loop(pool *p) {
    list_node *l = list_take(&p->queue);
    if (!l) return NULL;
    p->queue_count--;
    return list_entry(l, pool_job, link);
}

void pool_join_on_loop(pool *p) {
    if (!p->thread_count) return;
    waiter w = { .what = "the threads of the pool" };
    p->closer = &w;
    while (p->thread_count) {
        w.woken = false;
        env_wait(p->env, &w, ENV_NEVER);
    }
    p->closer = NULL;
}
