// The standby poller: a thread that replaces the poller while a task of the poller takes long, so that
// a worker stays alive for the others while it runs user code.
//
// It costs nothing while no task takes long: it sleeps until a timer is due, such as that of the
// heartbeats twice a second, and then checks whether the poller has been away for 100 ms.
// Turns that it makes leave their tasks to the thread that is away, so that tasks still run one after
// the other.
#include "net/loop/loop.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/status.h"
#include "base/system_error.h"

enum { PATIENCE_MS = 100 };

// Until |fd| is readable or the timeout has passed; false: the standby poller ends.
static bool sleep_for(os_env *o, int fd, int timeout_ms) {
    struct pollfd fds[] = { { .fd = o->standby_fd, .events = POLLIN },
                            { .fd = fd, .events = POLLIN } };
    poll(fds, 2, timeout_ms);
    return !fds[0].revents;
}

static uint64_t read_absence(os_env *o) {
    loop_lock_take(o);
    uint64_t absence = o->absence;
    loop_lock_release(o);
    return absence;
}

static void make_turn(os_env *o, const struct epoll_event *events, int count) {
    loop_call_back(events, count);
    loop_lock_leave_tasks_to(o, o->poller->thread);
    loop_free_retired(o);
}

// Drops the events that it has in hand when the poller is back: they are still ready.
static void stand_in(os_env *o, uint64_t absence) {
    struct epoll_event events[LOOP_EVENTS_MAX];
    loop_lock_take(o);
    for (int count = 0; o->absence == absence && !o->standby_ends;) {
        make_turn(o, events, count);
        if (!loop_stop_checking(o, true)) {
            count = loop_check(o, events, LOOP_EVENTS_MAX);
            continue;
        }
        loop_lock_release(o);
        count = loop_sleep(o, NULL, o->inner, events, LOOP_EVENTS_MAX, ENV_NEVER);
        loop_lock_take(o);
    }
    loop_lock_release(o);
}

static void *keep(void *arg) {
    os_env *o = arg;
    while (sleep_for(o, o->timer_fd, -1)) {
        uint64_t absence = read_absence(o);
        if (!sleep_for(o, -1, PATIENCE_MS)) break;
        if (absence) stand_in(o, absence);
    }
    return NULL;
}

gw_status standby_open(os_env *o, gw_error *error) {
    o->standby_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (o->standby_fd < 0)
        return error_set(error, GW_SYSTEM, "eventfd: %s", system_error_text(errno).text);
    int failed = os_create_thread(&o->standby, keep, o);
    if (failed)
        return error_set(error, GW_SYSTEM, "pthread_create: %s",
                         system_thread_error_text(failed).text);
    o->has_standby = true;
    return GW_OK;
}

// The thread may sleep in |inner| since the poller returned.
void standby_close(os_env *o) {
    if (o->has_standby) {
        loop_lock_take(o);
        o->standby_ends = true;
        loop_lock_release(o);
        uint64_t one = 1;
        ssize_t written = write(o->standby_fd, &one, sizeof one);
        written = write(o->wake_fd, &one, sizeof one);
        (void)written;
        pthread_join(o->standby, NULL);
    }
    if (o->standby_fd >= 0) close(o->standby_fd);
}
