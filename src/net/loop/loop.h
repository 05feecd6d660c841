// Internals of env_os: the loop lock, waiting threads, polling. See the README of this folder.
#ifndef NET_LOOP_LOOP_H
#define NET_LOOP_LOOP_H

#include "base/bytes.h"
#include "base/env.h"
#include "net/loop/timers.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>

enum {
    LOOP_EVENTS_MAX = 64,  // taken from the kernel at once
    LOOP_KICKS_MAX = 16,   // put off to the end of a turn; more are done at once
    LOOP_SEATS_MAX = 4,    // idle threads that can be put on watch without waking them
};

typedef struct os_env os_env;

// Something in the epoll set, embedded in its owner. What transports poll begins with its source,
// is owned by the env, and ends by being retired: it is freed when no event in hand can refer to it.
typedef struct source source;

typedef struct source_class {
    void (*ready)(source *s, uint32_t events);  // with the loop lock; 0: its memory is ready
    void (*abandon)(source *s);  // the env closes: retires it without notifying its user
    void (*free)(source *s);     // NULL: it is only memory

    // Of a source in memory, which a poller can check; see spin.c. All but |has_something| with the loop lock.
    bool (*has_something)(source *s);  // for |ready|. By the poller alone, without the loop lock
    // No thread checks any more: events have to make the epoll set ready; if |is_away|, patient ones do not.
    // False: it has something.
    bool (*sleeps)(source *s, bool is_away);
    void (*awakes)(source *s);  // a thread checks again
    void (*ring)(source *s);    // wakes its peer
} source_class;

struct source {
    const source_class *class;
    list_node link;         // in |sources| or |retired|
    list_node memory_link;  // in |memory_sources|
    list_node bell;         // in |bells| or |late_bells|
};

// Where an idle thread sleeps: an epoll set of its own, around |inner| and an eventfd to wake just
// this thread. On watch means that |inner| can wake it.
typedef struct seat {
    bool taken;
    int outer, event_fd;
} seat;

// One thread whose waits signals interrupt, and env_interrupt. |caught| is set from then on until it
// is released.
typedef struct signal_catcher {
    bool is_active;
    bool catches;  // signals; false: no signal could interrupt
    pthread_t catcher;
    sigset_t set;
    int fd;
    const char *caught;  // "SIGTERM"; "": env_interrupt
    source source;
} signal_catcher;

// The connection to the launcher that has started this process; see launcher.c.
typedef struct launcher_connection {
    bool was_tried, is_open;
    int fd;
    bytes out;  // reports that the launcher has not received, from |out_done| on
    size_t out_done;
    char in[1024];  // the beginning of a line
    size_t in_size;
    void (*on_line)(void *user, const char *line);
    void *user;
    source source;
} launcher_connection;

typedef enum slot_state {
    SLOT_AWAKE,
    SLOT_ASLEEP,    // in the kernel, or on its way there
    SLOT_SIGNALLED  // must check its conditions before it sleeps
} slot_state;

// One call of env_wait, on its stack.
typedef struct slot {
    _Atomic uint32_t state;
    waiter *waiter;
    pthread_t thread;
    bool was_interrupted;  // by a signal handler, in its sleep
    list_node link;        // in |parked| or |idle|
    seat *seat;            // of an idle thread that has one
} slot;

// The tasks that one thread is running, on its stack.
typedef struct drain {
    pthread_t thread;
    list_node link;   // in |drains|
    list_node tasks;  // touched by that thread alone
    list_node late;   // with the loop lock: what turns of the standby poller have deferred
} drain;

// A sleeping thread to be woken once the loop lock is released, so that it does not wake only to
// wait for the loop lock.
typedef struct kick {
    int event_fd;             // or -1
    _Atomic uint32_t *futex;  // may be gone by then, which does no harm
} kick;

struct os_env {
    env base;

    // the loop lock
    pthread_mutex_t loop_lock;
    _Atomic pthread_t holder;  // 0: none
    int depth;
    list_node deferred;  // tasks of this turn
    list_node drains;
    kick kicks[LOOP_KICKS_MAX];
    int kick_count;
    list_node bells;       // sources whose peers are woken when the loop lock is released
    list_node late_bells;  // when a thread of this env falls asleep: of peers that are away
    int expected;          // see env_expect

    // waiting threads
    slot *poller;      // polls, or runs the tasks of its last events
    slot *turning;     // the poller while callbacks run
    slot *on_watch;    // the idle one that |inner| can wake; NULL while the poller needs none
    list_node parked;  // others that wait for something, latest first
    list_node idle;    // all that are idle, latest first
    seat seats[LOOP_SEATS_MAX];
    int seat_count;  // opened so far

    // closed TCP streams that wait for the peer's close, oldest first
    list_node lingering;
    int lingering_count;

    // the standby poller
    uint64_t absence;  // its number, while the poller is away in its tasks; else 0
    uint64_t absence_count;
    pthread_t standby;
    bool has_standby, standby_ends;
    int standby_fd;  // to end it

    // the spin policy
    int64_t usual_wait_ns;         // until something arrives
    int sleep_at_once;             // this many waits do not spin
    int disturbed_count;           // of the recent spins
    int64_t sleep_ns;              // the usual time of a wait without spinning
    list_node memory_sources;      // changed by the poller alone
    bool memory_asleep;            // no thread checks them
    _Atomic bool yields_are_long;  // a yield lets another process run
    int memory_checks;             // since the last check of |inner|

    // what is polled
    int inner;
    source wake_source, timer_source;
    int wake_fd, timer_fd;
    timers timers;
    int64_t armed_ns;  // what |timer_fd| is set to
    struct epoll_event events[LOOP_EVENTS_MAX];
    signal_catcher signals;
    launcher_connection launcher;

    // what transports poll
    list_node sources, retired;
    int spare_fd;  // given up to refuse a connection when there are no more
    int cut_every;

    // threads
    list_node threads;

    _Atomic uint64_t poll_count, sleep_count, idle_count, kick_total, wake_total;
};

static inline os_env *os_env_of(env *e) {
    return (os_env *)e;
}

// ---- loop_lock.c --------------------------------------------------------------------------------
void loop_lock_enter(env *e);
void loop_lock_leave(env *e);
bool loop_lock_held(env *e);
void loop_lock_defer(env *e, task *t);
void loop_lock_take(os_env *o);     // bare: no turn begins or ends
void loop_lock_release(os_env *o);  // bare, but wakes the threads that this turn has signalled
void loop_lock_run_tasks(os_env *o);
void loop_lock_leave_tasks_to(os_env *o, pthread_t thread);  // which is running tasks
void loop_lock_kick(os_env *o, slot *s);                     // makes |s| check its conditions soon
void loop_lock_ring(os_env *o, source *s);                   // wakes the peer of |s| soon
void loop_lock_ring_later(os_env *o, source *s);             // before a thread sleeps
void loop_lock_ring_late_bells(os_env *o);                   // a thread is about to sleep

// ---- loop.c -------------------------------------------------------------------------------------
gw_status loop_init(os_env *o, gw_error *error);
void loop_fini(os_env *o);
bool loop_wait(env *e, waiter *w, int64_t until_ns);
void loop_wake(env *e, waiter *w);
waiter *loop_turn(env *e);
void loop_set_timer(env *e, timer *t, int64_t due_ns);
void loop_expect(env *e, int change);
gw_status loop_add(os_env *o, int fd, source *s, uint32_t events, gw_error *error);
void loop_change(os_env *o, int fd, source *s, uint32_t events);
void loop_remove(os_env *o, int fd);  // before it is closed
void loop_own(os_env *o, source *s);
void loop_retire(os_env *o, source *s);
void loop_free_retired(os_env *o);
void loop_abandon_all(os_env *o);
int loop_sleep(os_env *o, slot *s, int epoll_fd, struct epoll_event *events, int count,
               int64_t until_ns);
void loop_sleep_on_futex(os_env *o, slot *s, int64_t until_ns);
void loop_spin_for_signal(os_env *o, slot *s, int64_t until_ns);  // without polling
void loop_poll_shortly(os_env *o, slot *s, int64_t until_ns);
void loop_poll_ready(os_env *o, slot *s);  // one check without sleeping, and its turn
bool loop_is_over(os_env *o, const slot *s, int64_t until_ns, bool checked);
// Makes sure that a thread polls if any thread waits; |from| continues to wait.
void loop_hand_over(os_env *o, const slot *from);
void loop_call_back(const struct epoll_event *events, int count);

// Between two checks of memory.
static inline void loop_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

// ---- spin.c -------------------------------------------------------------------------------------
bool loop_should_spin(os_env *o);  // before this wait
void loop_spin_was_disturbed(os_env *o, int64_t lost_ns);
void loop_spin_was_useful(os_env *o);
void loop_slept(os_env *o, int64_t waited_ns);  // how long a wait without spinning took
void loop_add_memory_source(os_env *o,
                            source *s);  // by the poller, or the standby poller in its place
int loop_check(os_env *o, struct epoll_event *events,
               int count);  // memory, and at times |inner|
int loop_check_memory(os_env *o, struct epoll_event *events, int count);
// From now on each memory source makes |inner| ready. If |forgets|, those that have nothing are removed from the list
// until their next event. False: one has something now.
bool loop_stop_checking(os_env *o, bool forgets);
void loop_resume_checking(os_env *o);

// ---- idle_poller.c ------------------------------------------------------------------------------
gw_status idle_init(os_env *o, gw_error *error);
void idle_wait(os_env *o, slot *s, int64_t until_ns);
void idle_put_on_watch(os_env *o);    // the latest, if there is one
void idle_take_off_watch(os_env *o);  // if one is
void idle_fini(os_env *o);

// ---- standby_poller.c ---------------------------------------------------------------------------
gw_status standby_open(os_env *o, gw_error *error);
void standby_close(os_env *o);

// ---- signals.c ----------------------------------------------------------------------------------
void os_catch_signals(env *e);
const char *os_release_signals(env *e);
void os_interrupt(env *e);

// ---- launcher.c ---------------------------------------------------------------------------------
void os_report_to_launcher(env *e, const char *line);
void os_listen_to_launcher(env *e, void (*on_line)(void *user, const char *line), void *user);
void launcher_fini(os_env *o);

// ---- acceptor.c ---------------------------------------------------------------------------------
void acceptor_init(os_env *o);
void acceptor_fini(os_env *o);

// ---- clock.c ------------------------------------------------------------------------------------
int64_t os_now_ns(env *e);
int os_create_thread(pthread_t *out, void *(*run)(void *), void *arg);

#endif
