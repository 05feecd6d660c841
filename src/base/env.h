// The environment: all that protocol code uses of the outside: clock, randomness, waiting
// and threads. The kernel (net/env_os.c) and the simulator (testing/sim.c) are two implementations
// of this one table. How bytes travel to other workers is another table, net/transport/transport.h; an env has
// a list of the transports that work with it.
//
// The loop lock. Protocol state of an agent is touched only by the thread that holds the loop lock
// of its env. A thread takes it with env_enter and releases it with env_leave; pairs may nest. env_wait releases the
// loop lock while it waits and makes progress itself: it reads streams, fires timers and runs tasks until another
// thread, a timer or a stream wakes its waiter. All callbacks of streams and timers run with the loop lock. Tasks run
// at the end of a turn *without* the loop lock, on the thread that made the turn; so user code runs in tasks or in
// threads of its own.
//
// A turn is the time between taking the loop lock and releasing it: one enter-leave
// pair, or the callbacks of the streams and timers that were found ready together. Tasks of one
// turn run one after the other, in the order of env_defer. Tasks of turns of streams and timers do
// not overlap, nor overtake each other: messages from the network are handled in the order in
// which they arrive. Only the tasks of a thread's own enter-leave pair may run concurrently with them. Callbacks do
// not wait for tasks that take long: the tasks that they defer wait.
//
// A thread holds the loop lock of one env at a time, so that two agents of a process never wait for each other's loop
// locks. A function that enters an env is not called while a loop lock is held: see env_held_here.
//
// Threads: env_now_ns, env_wall_ns, env_random_u64, env_held and env_enter from any thread.
// Everything else with the loop lock held.
#ifndef BASE_ENV_H
#define BASE_ENV_H

#include "base/list.h"
#include <gradwire/status.h>

typedef struct env env;
struct trace_activity;

#define ENV_NEVER INT64_MAX  // a time that is never reached

enum { ENV_LOGGED_LOSSES = 32 };

// A waiting thread; lives on its stack. |woken| is set by env_wake, once. Zero but for the first
// group.
typedef struct waiter {
    bool idle;       // waits only for work: spins shortly after some, lets other threads poll first
    bool patient;    // waits for long: threads that wait for work may poll first
    bool runs_pass;  // of a thread that runs a backward pass, for its other workers
    bool until_signal;  // a signal handler that interrupts its sleep ends the wait
    const char *what;   // what it waits for, for stall reports: "the reply of ps"; may be NULL
    // Fills what else is known of the wait; NULL: nothing. With the loop lock.
    void (*describe)(const struct waiter *w, struct trace_activity *out);
    bool woken;
    void *parked;  // for the env
} waiter;

// A function that runs at the end of the turn, without the loop lock. May be freed or deferred again by
// |run|.
typedef struct task {
    list_node link;
    void (*run)(struct task *t);
} task;

// Zero-initialised; armed by env_set_timer. |fire| runs with the loop lock, once for each arming.
// Disarmed before it is freed.
typedef struct timer {
    void (*fire)(struct timer *t);
    int64_t due_ns;
    bool armed;
    // for the env
    uint64_t order;
    struct timer *child, *next, **place;
} timer;

typedef struct env_class {
    const char *name;  // "os", "sim"
    int64_t (*now_ns)(env *e);
    int64_t (*wall_ns)(env *e);
    uint64_t (*random_u64)(env *e);

    void (*enter)(env *e);
    void (*leave)(env *e);  // ends the turn: runs deferred tasks
    bool (*held)(env *e);
    bool (*wait)(env *e, waiter *w, int64_t until_ns);
    void (*wake)(env *e, waiter *w);
    waiter *(*turn)(env *e);
    void (*defer)(env *e, task *t);
    void (*set_timer)(env *e, timer *t, int64_t due_ns);
    void (*expect)(env *e, int change);  // may be NULL
    gw_status (*spawn)(env *e, void (*main)(void *arg), void *arg, gw_error *error);
    void (*catch_signals)(env *e);  // may be NULL, both
    const char *(*release_signals)(env *e);
    void (*interrupt)(env *e);  // may be NULL
    void (*report_to_launcher)(env *e, const char *line);
    void (*listen_to_launcher)(env *e, void (*on_line)(void *user, const char *line), void *user);
    void (*close)(env *e);
    void (*free)(env *e);  // NULL: closing also frees it
} env_class;

struct env {
    const env_class *class;
    const struct transport *const *transports;  // of this env, the best first; ends with NULL
    const struct protection *protection;        // of its connections; NULL: they stay on this host
    int64_t descriptor_max;                     // that the process may have open; 0: no limit
    int processor_count;  // of this host, the same for all its processes; 0: unknown
    // Of logged_losses.h: incarnations, the latest ones; 0: none.
    _Atomic uint64_t logged_losses[ENV_LOGGED_LOSSES];
    _Atomic uint32_t logged_loss_count;
};

// Nanoseconds on a monotonic clock; not comparable with the clocks of other workers.
static inline int64_t env_now_ns(env *e) {
    return e->class->now_ns(e);
}
// The time |length_ns| after |now_ns|, or |length_ms| after it. Without a length, or beyond all times: ENV_NEVER.
static inline int64_t deadline_after_ns(int64_t now_ns, uint64_t length_ns) {
    int64_t due_ns;
    bool is_never = !length_ns || __builtin_add_overflow(now_ns, length_ns, &due_ns);
    return is_never ? ENV_NEVER : due_ns;
}
static inline int64_t deadline_after_ms(int64_t now_ns, int64_t length_ms) {
    uint64_t length_ns;
    bool is_never = length_ms <= 0 || __builtin_mul_overflow(length_ms, 1000000, &length_ns);
    return is_never ? ENV_NEVER : deadline_after_ns(now_ns, length_ns);
}

// Nanoseconds since 1970 on the wall clock: for display only, since it may step at any
// time, by any amount.
static inline int64_t env_wall_ns(env *e) {
    return e->class->wall_ns(e);
}
static inline uint64_t env_random_u64(env *e) {
    return e->class->random_u64(e);
}

static inline void env_enter(env *e) {
    e->class->enter(e);
}
static inline void env_leave(env *e) {
    e->class->leave(e);
}

// The env whose loop lock this thread holds; NULL: none. Written by the env implementations.
extern _Thread_local env *env_held_here __attribute__((tls_model("initial-exec")));

// Whether this thread holds the loop lock, for assertions.
static inline bool env_held(env *e) {
    return e->class->held(e);
}

// Waits, with the loop lock held before and after, until |w| is woken or the time |until_ns|, or, if requested, a signal.
// Returns w->woken. Runs the tasks of the turn so far first; with a time in the past it still checks
// once for ready events. Only in an outermost pair.
static inline bool env_wait(env *e, waiter *w, int64_t until_ns) {
    return e->class->wait(e, w, until_ns);
}
static inline void env_wake(env *e, waiter *w) {
    e->class->wake(e, w);
}

// The waiter on whose thread this turn of streams and timers runs; NULL in a turn by env_enter. If
// it is idle, it is the best one to wake for new work: its thread is awake already. Otherwise the
// most recently idle one is best.
static inline waiter *env_turn(env *e) {
    return e->class->turn(e);
}

static inline void env_defer(env *e, task *t) {
    e->class->defer(e, t);
}

// Arms |t|, again if it was armed; ENV_NEVER disarms.
static inline void env_set_timer(env *e, timer *t, int64_t due_ns) {
    e->class->set_timer(e, t, due_ns);
}

// Counts operations in progress (|change| is 1 or -1) that no thread waits for and that need patient messages
// (net/transport/transport.h): while there are any, patient messages wake this worker as all others do.
static inline void env_expect(env *e, int change) {
    if (e->class->expect) e->class->expect(e, change);
}

// Starts a thread, joined by env_close; |main| must have been requested to end by then.
static inline gw_status env_spawn(env *e, void (*main)(void *arg), void *arg, gw_error *error) {
    return e->class->spawn(e, main, arg, error);
}

// Until env_release_signals, a signal with a handler that interrupts system calls ends
// the waits of this thread, one thread at a time, as if they had timed out. Such waits are not
// repeated: env_release_signals returns the name of the signal, NULL for none, and lets the
// handler run. env_interrupt ends the waits of that thread in the same way, with the name "".
static inline void env_catch_signals(env *e) {
    if (e->class->catch_signals) e->class->catch_signals(e);
}
static inline const char *env_release_signals(env *e) {
    return e->class->release_signals ? e->class->release_signals(e) : NULL;
}

static inline void env_interrupt(env *e) {
    if (e->class->interrupt) e->class->interrupt(e);
}

// Sends a line to the launcher that has started this process, if one listens: see
// docs/protocol/launcher.md. With the loop lock held.
static inline void env_report_to_launcher(env *e, const char *line) {
    e->class->report_to_launcher(e, line);
}
// From now on |on_line| is called with each line that the launcher sends, in a turn of the loop. NULL: no function.
static inline void env_listen_to_launcher(env *e, void (*on_line)(void *user, const char *line),
                                          void *user) {
    e->class->listen_to_launcher(e, on_line, user);
}

// Ends the environment: joins spawned threads, closes what is open. Not called with the loop lock
// held. Returns whether |e| stays until env_free, for what still refers to it: its clocks continue, its lock can be taken,
// and no wait blocks.
static inline bool env_end(env *e) {
    bool stays = e->class->free;
    e->class->close(e);
    return stays;
}
static inline void env_free(env *e) {
    e->class->free(e);
}

// Both.
static inline void env_close(env *e) {
    if (e && env_end(e)) env_free(e);
}

#endif
