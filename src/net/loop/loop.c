// Waiting and polling.
#include "net/loop/loop.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/status.h"
#include "base/system_error.h"

enum {
    SPIN_NS = 20 * 1000,         // how long a waiting thread spins before it sleeps
    SPIN_MAX_NS = 200 * 1000,    // if its events usually arrive within half of this
    YIELD_LONG_NS = 100 * 1000,  // a yield that takes longer was the time slice of another process
    SLEEP_USUAL_NS = 25 * 1000,  // the initial estimate of the time of a wait that does not spin
    YIELD_SHORT_NS = 1500,  // a yield that takes longer let another process run: perhaps the peer
    SPINS = 16,             // checks of memory between two yields
};

typedef enum spin_result {
    SPIN_NOT_DONE,
    SPIN_FOUND_NOTHING,
    SPIN_FOUND,
    SPIN_DISTURBED,
} spin_result;

// ---- The epoll set ------------------------------------------------------------------------------

gw_status loop_add(os_env *o, int fd, source *s, uint32_t events, gw_error *error) {
    struct epoll_event event = { .events = events, .data.ptr = s };
    if (epoll_ctl(o->inner, EPOLL_CTL_ADD, fd, &event) == 0) return GW_OK;
    return error_set(error, GW_SYSTEM, "epoll_ctl: %s", system_error_text(errno).text);
}

void loop_change(os_env *o, int fd, source *s, uint32_t events) {
    struct epoll_event event = { .events = events, .data.ptr = s };
    int failed = epoll_ctl(o->inner, EPOLL_CTL_MOD, fd, &event);
    assert(!failed);  // of a descriptor that was added; needs no memory
}

// Closing a descriptor is not enough: a forked child may hold the same stream open, and its place
// in the set with it.
void loop_remove(os_env *o, int fd) {
    epoll_ctl(o->inner, EPOLL_CTL_DEL, fd, NULL);  // fails if it was never added
}

void loop_own(os_env *o, source *s) {
    list_append(&o->sources, &s->link);
}

void loop_retire(os_env *o, source *s) {
    list_remove(&s->link);
    list_remove(&s->bell);
    list_append(&o->retired, &s->link);
}

void loop_free_retired(os_env *o) {
    for (list_node *l; (l = list_take(&o->retired));) {
        source *s = list_entry(l, source, link);
        list_remove(&s->memory_link);
        if (s->class->free) s->class->free(s);
        mem_free(s);
    }
}

void loop_abandon_all(os_env *o) {
    loop_lock_take(o);
    while (!list_is_empty(&o->sources)) {
        source *s = list_entry(o->sources.next, source, link);
        s->class->abandon(s);
    }
    loop_free_retired(o);
    loop_lock_release(o);
}

static void drain_wake_fd(source *s, uint32_t events) {
    os_env *o = (os_env *)(void *)((char *)s - offsetof(os_env, wake_source));
    (void)events;
    uint64_t count;
    ssize_t size = read(o->wake_fd, &count, sizeof count);
    (void)size;
}

// ---- Timers -------------------------------------------------------------------------------------

static void arm(os_env *o, int64_t due_ns) {
    if (due_ns < 1) due_ns = 1;  // 0 would disarm
    struct itimerspec at = { .it_value = { due_ns / 1000000000, due_ns % 1000000000 } };
    timerfd_settime(o->timer_fd, TFD_TIMER_ABSTIME, &at, NULL);
    o->armed_ns = due_ns;
}

// The descriptor is set anew only for something earlier: a deadline is mostly armed and disarmed
// without it.
void loop_set_timer(env *e, timer *t, int64_t due_ns) {
    os_env *o = os_env_of(e);
    assert(loop_lock_held(e));
    timers_set(&o->timers, t, due_ns);
    if (timers_due_ns(&o->timers) < o->armed_ns) arm(o, timers_due_ns(&o->timers));
}

static void fire_due(source *s, uint32_t events) {
    os_env *o = (os_env *)(void *)((char *)s - offsetof(os_env, timer_source));
    (void)events;
    uint64_t count;
    ssize_t size = read(o->timer_fd, &count, sizeof count);
    (void)size;
    o->armed_ns = 0;  // armed once for all, below
    timers_fire_due(&o->timers, os_now_ns(&o->base));
    o->armed_ns = ENV_NEVER;
    if (timers_due_ns(&o->timers) != ENV_NEVER) arm(o, timers_due_ns(&o->timers));
}

// ---- Polling ------------------------------------------------------------------------------------

// Sleeps until something is ready or |until_ns|; interruptions count as nothing ready, and |s|, if it is given, notes them.
int loop_sleep(os_env *o, slot *s, int epoll_fd, struct epoll_event *events, int count,
               int64_t until_ns) {
    int timeout_ms = -1;
    if (until_ns != ENV_NEVER) {
        int64_t left_ns = until_ns - os_now_ns(&o->base);
        int64_t left_ms = left_ns <= 0 ? 0 : (left_ns - 1) / 1000000 + 1;
        timeout_ms = left_ms > INT_MAX ? INT_MAX : (int)left_ms;
    }
    atomic_fetch_add_explicit(&o->sleep_count, 1, memory_order_relaxed);
    int n = epoll_wait(epoll_fd, events, count, timeout_ms);
    if (n < 0 && s) s->was_interrupted = true;
    return n < 0 ? 0 : n;
}

static bool is_signalled(slot *s) {
    return atomic_load_explicit(&s->state, memory_order_acquire) == SLOT_SIGNALLED;
}

// Returns how many of |events| are filled. Only the poller may.
static int check_once(os_env *o) {
    atomic_fetch_add_explicit(&o->poll_count, 1, memory_order_relaxed);
    return loop_check(o, o->events, LOOP_EVENTS_MAX);
}

static void learn_from(os_env *o, spin_result result, int64_t lost_ns) {
    if (result == SPIN_FOUND) loop_spin_was_useful(o);
    if (result == SPIN_DISTURBED) loop_spin_was_disturbed(o, lost_ns);
}

// A peer that takes longer to reply than the shortest spin would find this thread asleep each time,
// and each call would cost two wake-ups: many times the cost of the reply. So a thread spins twice
// as long as events usually take to arrive.
static void remember_wait(os_env *o, int64_t waited_ns) {
    if (waited_ns > 4 * SPIN_MAX_NS) waited_ns = 4 * SPIN_MAX_NS;
    o->usual_wait_ns += (waited_ns - o->usual_wait_ns) / 4;
}

static int64_t spin_limit_ns(const os_env *o) {
    int64_t ns = 2 * o->usual_wait_ns;
    return ns < SPIN_NS || ns > SPIN_MAX_NS ? SPIN_NS : ns;
}

// Spins for |spin_ns|, without the loop lock, until |s| is signalled or, for the poller, something
// is ready. |*out_lost_ns| is the time of the last yield.
static spin_result spin_for(os_env *o, slot *s, int64_t spin_ns, int64_t until_ns, int *out_count,
                            int64_t *out_lost_ns) {
    int64_t start_ns = os_now_ns(&o->base), last_ns = start_ns;
    int spins = o->yields_are_long ? 1 : SPINS;
    for (;;) {
        // Checking memory is cheap: several checks for each yield.
        for (int i = 0; i < spins; i++) {
            if (out_count && (*out_count = check_once(o)) > 0) return SPIN_FOUND;
            if (is_signalled(s)) return SPIN_FOUND;
            if (!out_count || list_is_empty(&o->memory_sources)) break;
            loop_pause();
        }
        if (last_ns - start_ns > spin_ns || last_ns >= until_ns) return SPIN_FOUND_NOTHING;
        sched_yield();
        int64_t now_ns = os_now_ns(&o->base);
        *out_lost_ns = now_ns - last_ns;
        o->yields_are_long = *out_lost_ns > YIELD_SHORT_NS;
        if (*out_lost_ns > YIELD_LONG_NS) return SPIN_DISTURBED;
        last_ns = now_ns;
    }
}

// Returns whether |s| may sleep: not if it has been signalled, perhaps since its wait is over.
static bool fall_asleep(slot *s) {
    uint32_t expected = SLOT_AWAKE;
    return atomic_compare_exchange_strong_explicit(&s->state, &expected, SLOT_ASLEEP,
                                                   memory_order_acq_rel, memory_order_acquire);
}

void loop_call_back(const struct epoll_event *events, int count) {
    for (int i = 0; i < count; i++) {
        source *ready = events[i].data.ptr;
        ready->class->ready(ready, events[i].events);
    }
}

static void begin_absence(os_env *o) {
    o->absence = ++o->absence_count;
}

// One turn: the callbacks, then the tasks they have deferred.
static void make_turn(os_env *o, slot *s, int count) {
    o->turning = s;
    loop_call_back(o->events, count);
    o->turning = NULL;
    begin_absence(o);
    loop_lock_run_tasks(o);
    o->absence = 0;
}

// Sleeps until |inner| has something, unless a memory source has something.
static int sleep_in_inner(os_env *o, slot *s, int64_t until_ns) {
    loop_lock_take(o);
    bool sleeps = loop_stop_checking(o, true);
    if (sleeps) idle_take_off_watch(o);
    if (sleeps) loop_lock_ring_late_bells(o);
    loop_lock_release(o);
    if (!sleeps) return check_once(o);
    return loop_sleep(o, s, o->inner, o->events, LOOP_EVENTS_MAX, until_ns);
}

static void begin_check(os_env *o) {
    // Events in hand are those of the last check, all handled: none can refer to a closed stream any
    // more.
    loop_free_retired(o);
    loop_resume_checking(o);
    // Bytes that arrive through memory do not wake the one on watch.
    if (list_is_empty(&o->memory_sources)) idle_take_off_watch(o);
    o->absence = 0;
}

static void poll_until_something(os_env *o, slot *s, int64_t until_ns) {
    begin_check(o);
    int count = 0;
    int64_t lost_ns = 0;
    spin_result spun = loop_should_spin(o) ? SPIN_FOUND_NOTHING : SPIN_NOT_DONE;
    int64_t spin_ns = spin_limit_ns(o), start_ns = os_now_ns(&o->base);
    loop_lock_release(o);
    if (spun != SPIN_NOT_DONE) spun = spin_for(o, s, spin_ns, until_ns, &count, &lost_ns);
    if (spun != SPIN_FOUND && fall_asleep(s)) count = sleep_in_inner(o, s, until_ns);
    loop_lock_take(o);
    atomic_store_explicit(&s->state, SLOT_AWAKE, memory_order_relaxed);
    learn_from(o, spun, lost_ns);
    int64_t waited_ns = os_now_ns(&o->base) - start_ns;
    if (count > 0) remember_wait(o, waited_ns);
    if (count > 0 && spun == SPIN_NOT_DONE) loop_slept(o, waited_ns);
    make_turn(o, s, count);
}

void loop_spin_for_signal(os_env *o, slot *s, int64_t until_ns) {
    int64_t lost_ns = 0;
    loop_lock_release(o);
    spin_result spun = spin_for(o, s, SPIN_NS, until_ns, NULL, &lost_ns);
    loop_lock_take(o);
    atomic_store_explicit(&s->state, SLOT_AWAKE, memory_order_relaxed);
    learn_from(o, spun, lost_ns);
}

// Polls for as long as each spin finds something.
void loop_poll_shortly(os_env *o, slot *s, int64_t until_ns) {
    o->poller = s;
    for (bool found = true; found && !loop_is_over(o, s, until_ns, true);) {
        int count = 0;
        int64_t lost_ns = 0;
        begin_check(o);
        loop_lock_release(o);
        spin_result spun = spin_for(o, s, SPIN_NS, until_ns, &count, &lost_ns);
        loop_lock_take(o);
        atomic_store_explicit(&s->state, SLOT_AWAKE, memory_order_relaxed);
        learn_from(o, spun, lost_ns);
        found = count > 0;
        make_turn(o, s, count);
    }
    o->poller = NULL;
}

void loop_poll_ready(os_env *o, slot *s) {
    o->poller = s;
    loop_free_retired(o);
    o->memory_checks = INT_MAX;
    make_turn(o, s, check_once(o));
    o->poller = NULL;
}

// ---- Waiting ------------------------------------------------------------------------------------

void loop_sleep_on_futex(os_env *o, slot *s, int64_t until_ns) {
    struct timespec at = { until_ns / 1000000000, until_ns % 1000000000 };
    atomic_fetch_add_explicit(&o->sleep_count, 1, memory_order_relaxed);
    long failed = syscall(SYS_futex, &s->state, FUTEX_WAIT_BITSET_PRIVATE, SLOT_ASLEEP,
                          until_ns == ENV_NEVER ? NULL : &at, NULL, FUTEX_BITSET_MATCH_ANY);
    if (failed && errno == EINTR) s->was_interrupted = true;
}

// Another thread polls. The first parked thread spins for its signal before it sleeps: it is the next
// to poll.
static void sleep_parked(os_env *o, slot *s, int64_t until_ns) {
    spin_result spun =
        list_is_empty(&o->parked) && loop_should_spin(o) ? SPIN_FOUND_NOTHING : SPIN_NOT_DONE;
    int64_t lost_ns = 0;
    list_prepend(&o->parked, &s->link);
    loop_lock_release(o);
    if (spun != SPIN_NOT_DONE) spun = spin_for(o, s, SPIN_NS, until_ns, NULL, &lost_ns);
    if (spun != SPIN_FOUND && fall_asleep(s)) loop_sleep_on_futex(o, s, until_ns);
    loop_lock_take(o);
    atomic_store_explicit(&s->state, SLOT_AWAKE, memory_order_relaxed);
    learn_from(o, spun, lost_ns);
    list_remove(&s->link);
}

bool loop_is_over(os_env *o, const slot *s, int64_t until_ns, bool checked) {
    if (s->waiter->woken) return true;
    if (o->signals.caught && s->thread == o->signals.catcher) return true;
    if (s->was_interrupted && s->waiter->until_signal) return true;
    return checked && until_ns != ENV_NEVER && os_now_ns(&o->base) >= until_ns;
}

static void wake_inner(os_env *o) {
    ssize_t written = write(o->wake_fd, &(uint64_t){ 1 }, sizeof(uint64_t));
    (void)written;  // it fails only when full, and then it is ready already
}

// The thread on watch forgets memory sources, since it sleeps for long; a poller that leaves will be back soon.
// False: a memory source has something.
static bool hand_over(os_env *o, const slot *from) {
    if (o->poller) return true;
    if (!list_is_empty(&o->parked)) {
        loop_lock_kick(o, list_entry(o->parked.next, slot, link));
        return true;
    }
    if (!o->on_watch) idle_put_on_watch(o);
    return !o->on_watch || loop_stop_checking(o, o->on_watch == from);
}

void loop_hand_over(os_env *o, const slot *from) {
    if (!hand_over(o, from)) wake_inner(o);
}

// Memory sources may have been left with bells for urgent messages only.
void loop_expect(env *e, int change) {
    os_env *o = os_env_of(e);
    assert(loop_lock_held(e));
    o->expected += change;
    if (change > 0) loop_hand_over(o, NULL);
}

static bool yields_role(const waiter *w) {
    return w->idle || w->patient;
}

enum { TURNS_BEFORE_LEAVING = 4 };

static bool take_arrived(os_env *o, slot *s) {
    int count = list_is_empty(&o->parked) ? loop_check_memory(o, o->events, LOOP_EVENTS_MAX) : 0;
    if (count > 0) make_turn(o, s, count);
    return count > 0;
}

// Handling the memory sources that have bytes when the poller leaves costs less than waking another thread for them.
static void leave(os_env *o, slot *s) {
    for (int turns = 0; turns < TURNS_BEFORE_LEAVING; turns++) {
        if (take_arrived(o, s)) continue;
        o->poller = NULL;
        if (hand_over(o, NULL)) return;
        o->poller = s;
    }
    o->poller = NULL;
    loop_hand_over(o, NULL);
}

static void wait_for_something(os_env *o, slot *s, int64_t until_ns) {
    // A task of the poller waits: the poller cannot continue before it, so this one polls in its
    // place.
    slot *below = o->poller && o->poller->thread == s->thread ? o->poller : NULL;
    for (bool checked = false; !loop_is_over(o, s, until_ns, checked); checked = true) {
        if (o->poller && o->poller->thread != s->thread) {
            if (yields_role(o->poller->waiter))
                loop_lock_kick(o, o->poller);  // it only waits for work
            sleep_parked(o, s, until_ns);
        } else {
            o->poller = s;
            poll_until_something(o, s, until_ns);
        }
    }
    if (o->poller != s) {
        loop_hand_over(o, NULL);
    } else if (below) {
        o->poller = below;
        begin_absence(o);
    } else {
        leave(o, s);
    }
}

bool loop_wait(env *e, waiter *w, int64_t until_ns) {
    os_env *o = os_env_of(e);
    assert(loop_lock_held(e) && o->depth == 1);
    assert(!o->turning);  // callbacks do not wait
    slot s = { .waiter = w, .thread = pthread_self() };
    w->parked = &s;
    loop_lock_run_tasks(o);
    if (yields_role(w)) {
        idle_wait(o, &s, until_ns);
    } else {
        wait_for_something(o, &s, until_ns);
    }
    w->parked = NULL;
    return w->woken;
}

void loop_wake(env *e, waiter *w) {
    os_env *o = os_env_of(e);
    assert(loop_lock_held(e));
    w->woken = true;
    if (w->parked) loop_lock_kick(o, w->parked);
}

waiter *loop_turn(env *e) {
    os_env *o = os_env_of(e);
    return o->turning ? o->turning->waiter : NULL;
}

static const source_class waking = { .ready = drain_wake_fd }, timing = { .ready = fire_due };

// ---- Opening ------------------------------------------------------------------------------------

static gw_status add_own(os_env *o, int fd, source *s, const char *call, gw_error *error) {
    if (fd < 0) return error_set(error, GW_SYSTEM, "%s: %s", call, system_error_text(errno).text);
    return loop_add(o, fd, s, EPOLLIN, error);
}

gw_status loop_init(os_env *o, gw_error *error) {
    list_init(&o->parked);
    list_init(&o->idle);
    o->armed_ns = ENV_NEVER;
    list_init(&o->memory_sources);
    list_init(&o->bells);
    list_init(&o->late_bells);
    o->sleep_ns = SLEEP_USUAL_NS;
    o->wake_source.class = &waking;
    o->timer_source.class = &timing;
    o->inner = o->wake_fd = o->timer_fd = o->standby_fd = -1;
    o->inner = epoll_create1(EPOLL_CLOEXEC);
    if (o->inner < 0)
        return error_set(error, GW_SYSTEM, "epoll_create1: %s", system_error_text(errno).text);
    o->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    gw_status status = add_own(o, o->wake_fd, &o->wake_source, "eventfd", error);
    if (status) return status;
    o->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    status = add_own(o, o->timer_fd, &o->timer_source, "timerfd_create", error);
    if (status) return status;
    status = idle_init(o, error);
    return status ? status : standby_open(o, error);
}

void loop_fini(os_env *o) {
    idle_fini(o);
    if (o->timer_fd >= 0) close(o->timer_fd);
    if (o->wake_fd >= 0) close(o->wake_fd);
    if (o->inner >= 0) close(o->inner);
}
