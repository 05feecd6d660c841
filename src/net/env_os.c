// The env class of the kernel: its transports, wall clock, randomness and threads. loop/ has the rest.
#include "net/env_os.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <time.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/status.h"
#include "base/system_error.h"
#include "net/loop/loop.h"
#include "net/shm/shm.h"
#include "net/tcp/tcp.h"
#include "trace/region.h"

typedef struct thread {
    list_node link;
    pthread_t handle;
    void (*main)(void *arg);
    void *arg;
} thread;

static int64_t os_wall_ns(env *e) {
    (void)e;
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static uint64_t os_random_u64(env *e) {
    (void)e;
    uint64_t x;
    // Up to 256 bytes are complete once the kernel has entropy; before that the call blocks, and a
    // signal may interrupt it.
    while (getrandom(&x, sizeof x, 0) != sizeof x) {
    }
    return x;
}

static void *run_thread(void *arg) {
    thread *t = arg;
    t->main(t->arg);
    return NULL;
}

static gw_status os_spawn(env *e, void (*main)(void *arg), void *arg, gw_error *error) {
    thread *t = mem_alloc(sizeof *t);
    if (!t) return error_set(error, GW_NO_MEMORY, "a thread: out of memory");
    *t = (thread){ .main = main, .arg = arg };
    int failed = os_create_thread(&t->handle, run_thread, t);
    if (failed) {
        mem_free(t);
        return error_set(error, GW_SYSTEM, "pthread_create: %s",
                         system_thread_error_text(failed).text);
    }
    list_append(&os_env_of(e)->threads, &t->link);
    return GW_OK;
}

static void join_threads(os_env *o) {
    for (;;) {
        loop_lock_take(o);
        list_node *l = list_take(&o->threads);
        loop_lock_release(o);
        if (!l) return;
        thread *t = list_entry(l, thread, link);
        pthread_join(t->handle, NULL);
        mem_free(t);
    }
}

static const env_class ended_class;

static void os_close(env *e) {
    os_env *o = os_env_of(e);
    join_threads(o);
    standby_close(o);
    loop_abandon_all(o);
    launcher_fini(o);
    acceptor_fini(o);
    loop_fini(o);
    o->base.class = &ended_class;
}

static void os_free(env *e) {
    os_env *o = os_env_of(e);
    pthread_mutex_destroy(&o->loop_lock);
    mem_free(o);
}

// ---- After its end ------------------------------------------------------------------------------

static bool ended_wait(env *e, waiter *w, int64_t until_ns) {
    (void)e, (void)until_ns;
    return w->woken;
}

static void ended_wake(env *e, waiter *w) {
    (void)e;
    w->woken = true;
}

static waiter *ended_turn(env *e) {
    (void)e;
    return NULL;
}

static void ended_set_timer(env *e, timer *t, int64_t due_ns) {
    (void)e, (void)due_ns;
    t->armed = false;
}

static gw_status ended_spawn(env *e, void (*main)(void *arg), void *arg, gw_error *error) {
    (void)e, (void)main, (void)arg;
    return error_set(error, GW_WRONG_STATE, "a thread: the agent is closed");
}

static void ended_report(env *e, const char *line) {
    (void)e, (void)line;
}

static void ended_listen(env *e, void (*on_line)(void *user, const char *line), void *user) {
    (void)e, (void)on_line, (void)user;
}

static void ended_close(env *e) {
    (void)e;
}

static const env_class ended_class = {
    .name = "os",
    .now_ns = os_now_ns,
    .wall_ns = os_wall_ns,
    .random_u64 = os_random_u64,
    .enter = loop_lock_enter,
    .leave = loop_lock_leave,
    .held = loop_lock_held,
    .wait = ended_wait,
    .wake = ended_wake,
    .turn = ended_turn,
    .defer = loop_lock_defer,
    .set_timer = ended_set_timer,
    .spawn = ended_spawn,
    .report_to_launcher = ended_report,
    .listen_to_launcher = ended_listen,
    .close = ended_close,
    .free = os_free,
};

// ---- Opening ------------------------------------------------------------------------------------

static const env_class os_class = {
    .name = "os",
    .now_ns = os_now_ns,
    .wall_ns = os_wall_ns,
    .random_u64 = os_random_u64,
    .enter = loop_lock_enter,
    .leave = loop_lock_leave,
    .held = loop_lock_held,
    .wait = loop_wait,
    .wake = loop_wake,
    .turn = loop_turn,
    .defer = loop_lock_defer,
    .set_timer = loop_set_timer,
    .expect = loop_expect,
    .spawn = os_spawn,
    .catch_signals = os_catch_signals,
    .release_signals = os_release_signals,
    .interrupt = os_interrupt,
    .report_to_launcher = os_report_to_launcher,
    .listen_to_launcher = os_listen_to_launcher,
    .close = os_close,
    .free = os_free,
};

// The best first.
static const transport *const all_transports[] = { &shm_transport, &tcp_transport, NULL };
static const transport *const tcp_alone[] = { &tcp_transport, NULL };

static const transport *const *transports_from_environment(void) {
    const char *text = getenv("GW_TRANSPORT");
    if (!text || !*text) return all_transports;
    if (strcmp(text, "tcp") == 0) return tcp_alone;
    log_line("GW_TRANSPORT=%s is unknown: set \"tcp\" to use TCP only, or unset it to use the best "
             "transport",
             text);
    return all_transports;
}

static int cut_every_from_environment(void) {
    const char *text = getenv("GW_TEST_CUT_EVERY");
    long count = text ? strtol(text, NULL, 10) : 0;
    return count > 0 && count < 1000000000 ? (int)count : 0;
}

static int64_t descriptor_max(void) {
    struct rlimit r;
    bool has =
        !getrlimit(RLIMIT_NOFILE, &r) && r.rlim_cur != RLIM_INFINITY && r.rlim_cur < INT64_MAX;
    return has ? (int64_t)r.rlim_cur : 0;
}

gw_status env_os_open(env **out, gw_error *error) {
    os_env *o = mem_calloc(sizeof *o);
    if (!o) return error_set(error, GW_NO_MEMORY, "an environment: out of memory");
    o->base = (env){ .class = &os_class,
                     .transports = transports_from_environment(),
                     .descriptor_max = descriptor_max(),
                     .processor_count = (int)sysconf(_SC_NPROCESSORS_CONF) };
    trace_open();
    pthread_mutex_init(&o->loop_lock, NULL);
    list_init(&o->deferred);
    list_init(&o->drains);
    list_init(&o->threads);
    list_init(&o->sources);
    list_init(&o->retired);
    list_init(&o->lingering);
    o->cut_every = cut_every_from_environment();
    acceptor_init(o);
    gw_status status = loop_init(o, error);
    if (status) {
        env_close(&o->base);
        return status;
    }
    *out = &o->base;
    return GW_OK;
}

void env_os_cut_every(env *e, int count) {
    os_env_of(e)->cut_every = count;
}

env_os_counts env_os_count(env *e) {
    os_env *o = os_env_of(e);
    return (env_os_counts){
        .polls = atomic_load_explicit(&o->poll_count, memory_order_relaxed),
        .sleeps = atomic_load_explicit(&o->sleep_count, memory_order_relaxed),
        .idles = atomic_load_explicit(&o->idle_count, memory_order_relaxed),
        .kicks = atomic_load_explicit(&o->kick_total, memory_order_relaxed),
        .wakes = atomic_load_explicit(&o->wake_total, memory_order_relaxed),
    };
}
