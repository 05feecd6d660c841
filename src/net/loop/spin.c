// The spin policy: checking memory sources before sleeping, and whether it pays.
//
// A source whose bytes arrive through memory is checked from its first event on, until the poller sleeps. Then the loop
// notifies the source (class->sleeps): from now on events have to make the epoll set ready. While a thread checks,
// arriving bytes cost no system call.
//
// Only the poller, or the standby poller while the poller is away, changes the list: the poller iterates over it
// without the loop lock.
#include "net/loop/loop.h"

enum {
    KERNEL_EVERY = 16,        // checks of memory for each check of the epoll set
    SLEEP_MIN_NS = 2 * 1000,  // bounds of the usual time of a wait without spinning
    SLEEP_MAX_NS = 100 * 1000,
    DISTURBED_MAX = 4,
    WAITS_MAX = 8192,
};

// ---- Memory sources -----------------------------------------------------------------------------

void loop_add_memory_source(os_env *o, source *s) {
    if (!list_has(&s->memory_link)) list_append(&o->memory_sources, &s->memory_link);
}

int loop_check_memory(os_env *o, struct epoll_event *events, int count) {
    int found = 0;
    list_each(l, &o->memory_sources) {
        source *s = list_entry(l, source, memory_link);
        if (found == count) break;
        if (s->class->has_something(s))
            events[found++] = (struct epoll_event){ .events = 0, .data.ptr = s };
    }
    return found;
}

int loop_check(os_env *o, struct epoll_event *events, int count) {
    int found = 0;
    if (!list_is_empty(&o->memory_sources)) {
        found = loop_check_memory(o, events, count);
        if (o->memory_checks < KERNEL_EVERY) {
            o->memory_checks++;
            return found;
        }
    }
    o->memory_checks = 0;
    if (found == count) return found;
    int more = epoll_wait(o->inner, events + found, count - found, 0);
    return more < 0 ? found : found + more;
}

// A caller that forgets sleeps for long and is woken by bells only, so it is never away.
bool loop_stop_checking(os_env *o, bool forgets) {
    bool all_sleep = true;
    o->memory_asleep = true;
    list_each(l, &o->memory_sources) {
        source *s = list_entry(l, source, memory_link);
        if (!s->class->sleeps(s, !forgets && !o->expected)) {
            all_sleep = false;
        } else if (forgets) {
            list_remove(l);
        }
    }
    return all_sleep;
}

void loop_resume_checking(os_env *o) {
    if (!o->memory_asleep) return;
    o->memory_asleep = false;
    list_each(l, &o->memory_sources) {
        source *s = list_entry(l, source, memory_link);
        s->class->awakes(s);
    }
}

// ---- Whether spinning pays ----------------------------------------------------------------------

// Spinning costs other threads nothing as long as a yield returns soon. When a yield takes long, other work had the
// processor: then as many waits sleep at once as compensate for the lost time, by the usual duration of such waits, and
// more of them if this happens repeatedly. So on a busy machine a worker pays at most twice the cost of sleeping, and a
// short disturbance costs it little.
void loop_spin_was_disturbed(os_env *o, int64_t lost_ns) {
    int64_t waits = (lost_ns / (o->sleep_ns + 1)) << o->disturbed_count;
    o->sleep_at_once = waits < WAITS_MAX ? (int)waits : WAITS_MAX;
    if (o->disturbed_count < DISTURBED_MAX) o->disturbed_count++;
}

void loop_slept(os_env *o, int64_t waited_ns) {
    if (waited_ns < SLEEP_MIN_NS) waited_ns = SLEEP_MIN_NS;
    if (waited_ns > SLEEP_MAX_NS) waited_ns = SLEEP_MAX_NS;
    o->sleep_ns += (waited_ns - o->sleep_ns) / 8;
}

void loop_spin_was_useful(os_env *o) {
    if (o->disturbed_count > 0) o->disturbed_count--;
}

bool loop_should_spin(os_env *o) {
    if (o->sleep_at_once == 0) return true;
    o->sleep_at_once--;
    return false;
}
