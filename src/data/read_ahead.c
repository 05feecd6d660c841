// Threads that read batches in advance. They take batches in order, and the
// program gets them in order, however long each takes.
#include "data/loader.h"

#include "base/mem.h"
#include "base/system_error.h"
#include "base/value.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef enum batch_state { EMPTY, AWAITING_THREAD, AWAITING_ITEMS, AWAITING_PROGRAM } batch_state;

typedef struct batch {
    batch_state state;
    int64_t start;   // the batch begins with this item of the epoch
    gw_value value;  // a copy
    gw_error error;  // or its status is not GW_OK
} batch;

struct read_ahead {
    const gw_data_loader *loader;
    pthread_mutex_t lock;
    pthread_cond_t has_work, has_batch;
    bool is_ending;
    batch *batches;  // a ring; batches[first] is the next batch for the program
    int batch_count, first;
    pthread_t *threads;
    int thread_count;
    pid_t process;  // of the threads: a child of fork has none of them
};

static batch *batch_at(read_ahead *a, int behind) {
    return &a->batches[(a->first + behind) % a->batch_count];
}

// ---- On the threads -----------------------------------------------------------------------------
static batch *find_work(read_ahead *a) {
    for (int i = 0; i < a->batch_count; i++)
        if (batch_at(a, i)->state == AWAITING_THREAD) return batch_at(a, i);
    return NULL;
}

static void *read_batches(void *context) {
    read_ahead *a = context;
    pthread_mutex_lock(&a->lock);
    while (!a->is_ending) {
        batch *b = find_work(a);
        if (!b) {
            pthread_cond_wait(&a->has_work, &a->lock);
            continue;
        }
        b->state = AWAITING_ITEMS;
        pthread_mutex_unlock(&a->lock);
        gw_scope *s = gw_scope_open(NULL);
        loader_read(s, a->loader, b->start, &b->value);
        b->error = gw_scope_close(s);
        pthread_mutex_lock(&a->lock);
        b->state = AWAITING_PROGRAM;
        pthread_cond_signal(&a->has_batch);
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

// ---- Starting and ending ------------------------------------------------------------------------
// Signals are for the program's threads.
static int start_thread(read_ahead *a, pthread_t *out) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(out, NULL, read_batches, a);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

static void init_locks(read_ahead *a) {
    pthread_condattr_t monotonic;
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->has_work, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&a->has_batch, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

static void free_memory(read_ahead *a) {
    mem_free(a->threads);
    mem_free(a->batches);
    mem_free(a);
}

static bool is_of_parent(const read_ahead *a) {
    return a->process != getpid();
}

void read_ahead_close(read_ahead *a) {
    if (is_of_parent(a)) {
        free_memory(a);
        return;
    }
    pthread_mutex_lock(&a->lock);
    a->is_ending = true;
    pthread_cond_broadcast(&a->has_work);
    pthread_mutex_unlock(&a->lock);
    for (int i = 0; i < a->thread_count; i++) pthread_join(a->threads[i], NULL);
    pthread_cond_destroy(&a->has_batch);
    pthread_cond_destroy(&a->has_work);
    pthread_mutex_destroy(&a->lock);
    free_memory(a);
}

// Fewer threads than wanted read the same batches.
static void start_threads(gw_scope *s, read_ahead *a, int wanted) {
    int failed = 0;
    while (a->thread_count < wanted && !failed) {
        failed = start_thread(a, &a->threads[a->thread_count]);
        a->thread_count += !failed;
    }
    if (!a->thread_count)
        scope_fail(s, GW_SYSTEM, "%s: pthread_create: %s", a->loader->dataset->name,
                   system_thread_error_text(failed).text);
}

static read_ahead *read_ahead_open(gw_scope *s, const gw_data_loader *l) {
    read_ahead *a = mem_calloc(sizeof *a);
    batch *batches = mem_calloc((size_t)l->ahead_count * sizeof *batches);
    pthread_t *threads = mem_calloc((size_t)l->thread_count * sizeof *threads);
    if (!a || !batches || !threads) {
        mem_free(threads);
        mem_free(batches);
        mem_free(a);
        scope_fail(s, GW_NO_MEMORY, "%s: no memory for reading ahead", l->dataset->name);
        return NULL;
    }
    a->loader = l;
    a->batches = batches;
    a->batch_count = l->ahead_count;
    a->threads = threads;
    a->process = getpid();
    init_locks(a);
    start_threads(s, a, l->thread_count);
    if (gw_ok(s)) return a;
    read_ahead_close(a);
    return NULL;
}

static void empty(batch *b) {
    if (b->state == AWAITING_PROGRAM && b->error.status == GW_OK) value_free(b->value);
    b->state = EMPTY;
}

void read_ahead_stop(read_ahead *a) {
    if (is_of_parent(a)) return;
    pthread_mutex_lock(&a->lock);
    for (int i = 0; i < a->batch_count; i++)
        if (a->batches[i].state == AWAITING_THREAD) a->batches[i].state = EMPTY;
    for (int i = 0; i < a->batch_count; i++) {
        while (a->batches[i].state == AWAITING_ITEMS) pthread_cond_wait(&a->has_batch, &a->lock);
        empty(&a->batches[i]);
    }
    pthread_mutex_unlock(&a->lock);
}

// ---- For the program ----------------------------------------------------------------------------
// Has the batches from item |start| on read, as far as the ring goes.
static void request_batches(read_ahead *a, int64_t start) {
    for (int i = 0; i < a->batch_count && loader_batch_size(a->loader, start); i++) {
        batch *b = batch_at(a, i);
        if (b->state == EMPTY) {
            b->start = start;
            b->state = AWAITING_THREAD;
        }
        start += a->loader->batch_size;
    }
    pthread_cond_broadcast(&a->has_work);
}

// Waits for |b|, at most until the deadline of |s|.
static void await(gw_scope *s, read_ahead *a, const batch *b) {
    int64_t left_ms = gw_scope_time_left_ms(s);
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    if (left_ms < INT64_MAX) {
        until.tv_sec += left_ms / 1000;
        until.tv_nsec += left_ms % 1000 * 1000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
    }
    int failed = 0;
    while (b->state != AWAITING_PROGRAM && failed != ETIMEDOUT)
        failed = left_ms < INT64_MAX ? pthread_cond_timedwait(&a->has_batch, &a->lock, &until)
                                     : pthread_cond_wait(&a->has_batch, &a->lock);
    if (b->state != AWAITING_PROGRAM)
        scope_fail(s, GW_TIMEOUT,
                   "gw_data_loader_next: %s: the batch was not read within the deadline",
                   a->loader->dataset->name);
}

bool read_ahead_take(gw_scope *s, gw_data_loader *l, gw_value *out) {
    if (!s->may_wait)
        return scope_fail(
            s, GW_WOULD_BLOCK,
            "gw_data_loader_next: %s: a GW_INLINE function must not wait for the threads of "
            "a loader",
            l->dataset->name);
    if (!l->ahead && !(l->ahead = read_ahead_open(s, l))) return false;
    read_ahead *a = l->ahead;
    if (is_of_parent(a))
        return scope_fail(s, GW_WRONG_STATE,
                          "gw_data_loader_next: %s: the loader has threads of the parent of this "
                          "process, which was forked: open a loader in this process",
                          l->dataset->name);
    pthread_mutex_lock(&a->lock);
    request_batches(a, l->position);
    batch *b = batch_at(a, 0);
    await(s, a, b);
    if (gw_ok(s)) {
        b->state = EMPTY;
        *out = b->value;
        if (b->error.status == GW_OK) {
            a->first = (a->first + 1) % a->batch_count;
            request_batches(a, l->position + l->batch_size);  // while the program uses this one
        } else {
            scope_fail_with(s, &b->error);
        }
    }
    pthread_mutex_unlock(&a->lock);
    return gw_ok(s);
}
