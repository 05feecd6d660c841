// Threads that wait for work. After some work they spin shortly, as the poller if there is no other; then they sleep.
// While another thread polls, bytes that arrive through memory do not wake them. One of them is on watch for when the
// poller leaves, and while the poller only checks memory. Changing the watch wakes no thread either: each idle thread
// sleeps in an epoll set of its own, in which |inner| is switched on or off.
#include "net/loop/loop.h"

#include <assert.h>
#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/status.h"
#include "base/system_error.h"

enum { INNER_READY, EVENT_READY };

static gw_status open_seat(os_env *o, seat *s, gw_error *error) {
    *s = (seat){ .outer = -1, .event_fd = -1 };
    s->outer = epoll_create1(EPOLL_CLOEXEC);
    s->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event inner = { .data.u32 = INNER_READY };
    struct epoll_event event = { .events = EPOLLIN, .data.u32 = EVENT_READY };
    if (s->outer >= 0 && s->event_fd >= 0 &&
        epoll_ctl(s->outer, EPOLL_CTL_ADD, s->event_fd, &event) == 0 &&
        epoll_ctl(s->outer, EPOLL_CTL_ADD, o->inner, &inner) == 0)
        return GW_OK;
    gw_status status =
        error_set(error, GW_SYSTEM, "epoll or eventfd: %s", system_error_text(errno).text);
    if (s->event_fd >= 0) close(s->event_fd);
    if (s->outer >= 0) close(s->outer);
    return status;
}

// The first seat is opened with the environment, so that one idle thread can always be on watch.
gw_status idle_init(os_env *o, gw_error *error) {
    gw_status status = open_seat(o, &o->seats[0], error);
    if (status == GW_OK) o->seat_count = 1;
    return status;
}

void idle_fini(os_env *o) {
    for (int i = 0; i < o->seat_count; i++) {
        close(o->seats[i].event_fd);
        close(o->seats[i].outer);
    }
}

static seat *take_seat(os_env *o) {
    for (int i = 0; i < LOOP_SEATS_MAX; i++) {
        seat *s = &o->seats[i];
        if (i == o->seat_count) {
            if (open_seat(o, s, NULL)) return NULL;
            o->seat_count++;
        }
        if (s->taken) continue;
        s->taken = true;
        return s;
    }
    return NULL;
}

static void switch_inner(os_env *o, seat *s, uint32_t events) {
    struct epoll_event inner = { .events = events, .data.u32 = INNER_READY };
    int failed = epoll_ctl(s->outer, EPOLL_CTL_MOD, o->inner, &inner);
    assert(!failed);
}

void idle_put_on_watch(os_env *o) {
    list_each(l, &o->idle) {
        slot *s = list_entry(l, slot, link);
        if (!s->seat) continue;
        // One event wakes it once; |inner| is switched on again after the event is handled.
        switch_inner(o, s->seat, EPOLLIN | EPOLLONESHOT);
        o->on_watch = s;
        return;
    }
    // Only threads without a seat are left; the one that wakes takes a free one.
    if (!list_is_empty(&o->idle)) loop_lock_kick(o, list_entry(o->idle.next, slot, link));
}

void idle_take_off_watch(os_env *o) {
    if (!o->on_watch) return;
    switch_inner(o, o->on_watch->seat, 0);
    o->on_watch = NULL;
}

// Returns whether |inner| had something. Called without the loop lock.
static bool sleep_in_seat(os_env *o, slot *s, int64_t until_ns) {
    struct epoll_event events[2];
    int n = loop_sleep(o, s, s->seat->outer, events, 2, until_ns);
    bool ready = false;
    for (int i = 0; i < n; i++) {
        if (events[i].data.u32 == INNER_READY) {
            ready = true;
        } else {
            uint64_t count;
            ssize_t size = read(s->seat->event_fd, &count, sizeof count);
            (void)size;
        }
    }
    return ready;
}

static void sleep_idle(os_env *o, slot *s, int64_t until_ns) {
    bool ready = false;
    atomic_store_explicit(&s->state, SLOT_ASLEEP, memory_order_relaxed);
    atomic_fetch_add_explicit(&o->idle_count, 1, memory_order_relaxed);
    loop_lock_ring_late_bells(o);
    loop_lock_release(o);
    if (s->seat) {
        ready = sleep_in_seat(o, s, until_ns);
    } else {
        loop_sleep_on_futex(o, s, until_ns);
    }
    loop_lock_take(o);
    atomic_store_explicit(&s->state, SLOT_AWAKE, memory_order_relaxed);
    if (!ready) return;
    if (o->on_watch == s) o->on_watch = NULL;
    if (!o->poller) {
        idle_take_off_watch(o);
        loop_poll_ready(o, s);
    }
}

// More work arrives soon, or not for long. A thread that polls meanwhile gives it to this one without a wake-up.
static void spin_first(os_env *o, slot *s, int64_t until_ns, bool has_worked) {
    if (!loop_should_spin(o)) return;
    if (!o->poller && list_is_empty(&o->parked)) {
        loop_poll_shortly(o, s, until_ns);
    } else if (has_worked) {
        loop_spin_for_signal(o, s, until_ns);
    }
}

void idle_wait(os_env *o, slot *s, int64_t until_ns) {
    list_prepend(&o->idle, &s->link);
    for (bool checked = false; !loop_is_over(o, s, until_ns, checked); checked = true) {
        if (!s->seat) s->seat = take_seat(o);
        spin_first(o, s, until_ns, !checked);
        if (loop_is_over(o, s, until_ns, true)) break;
        loop_hand_over(o, s);
        sleep_idle(o, s, until_ns);
    }
    list_remove(&s->link);
    if (o->on_watch == s) idle_take_off_watch(o);
    if (s->seat) s->seat->taken = false;
    loop_hand_over(o, NULL);
}
