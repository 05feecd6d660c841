// Looking before sleeping: at what lies in memory, and whether it pays.
//
// A source whose bytes come through memory is *looked at* from its first event on, until the poller sleeps: then it is told
// (class->sleeps) that from now on it has to make itself heard in the epoll set. While somebody looks, nothing that comes
// costs a system call.
//
// Whoever changes the list is the poller, or the keeper while the poller is away: the poller goes through it without the
// loop lock.
#include "net/loop/loop.h"

enum {
    KERNEL_EVERY = 16,        // looks in memory for each one at the epoll set
    SLEEP_MIN_NS = 2 * 1000,  // what a wait without looking may cost
    SLEEP_MAX_NS = 100 * 1000,
    DISTURBED_MAX = 4,
    WAITS_MAX = 8192,
};

// ---- At what lies in memory ---------------------------------------------------------------------

void loop_look_at(os_env *o, source *s) {
    if (!list_has(&s->looked)) list_append(&o->looked, &s->looked);
}

int loop_look_in_memory(os_env *o, struct epoll_event *events, int count) {
    int found = 0;
    list_each(l, &o->looked) {
        source *s = list_entry(l, source, looked);
        if (found == count) break;
        if (s->class->has_something(s))
            events[found++] = (struct epoll_event){ .events = 0, .data.ptr = s };
    }
    return found;
}

int loop_look(os_env *o, struct epoll_event *events, int count) {
    int found = 0;
    if (!list_is_empty(&o->looked)) {
        found = loop_look_in_memory(o, events, count);
        if (o->memory_looks < KERNEL_EVERY) {
            o->memory_looks++;
            return found;
        }
    }
    o->memory_looks = 0;
    if (found == count) return found;
    int more = epoll_wait(o->inner, events + found, count - found, 0);
    return more < 0 ? found : found + more;
}

// Who forgets is asleep for long, and is not told but by bells: it is never away.
bool loop_nobody_looks(os_env *o, bool forgets) {
    bool all_sleep = true;
    o->looked_asleep = true;
    list_each(l, &o->looked) {
        source *s = list_entry(l, source, looked);
        if (!s->class->sleeps(s, !forgets && !o->expected)) {
            all_sleep = false;
        } else if (forgets) {
            list_remove(l);
        }
    }
    return all_sleep;
}

void loop_somebody_looks(os_env *o) {
    if (!o->looked_asleep) return;
    o->looked_asleep = false;
    list_each(l, &o->looked) {
        source *s = list_entry(l, source, looked);
        s->class->awakes(s);
    }
}

// ---- Whether it pays ----------------------------------------------------------------------------

// Looking again and again costs nothing that anybody wants as long as a yield comes back soon. When one does not, other
// work has had the processor: as many waits sleep at once as take, by what such waits have taken lately, the time that was
// lost; more of them if this happens again and again. So a busy machine costs a worker at most twice what sleeping does,
// and a disturbance that passes costs it little.
void loop_look_was_disturbed(os_env *o, int64_t lost_ns) {
    int64_t waits = (lost_ns / (o->sleep_ns + 1)) << o->disturbed_count;
    o->sleep_at_once = waits < WAITS_MAX ? (int)waits : WAITS_MAX;
    if (o->disturbed_count < DISTURBED_MAX) o->disturbed_count++;
}

void loop_slept(os_env *o, int64_t waited_ns) {
    if (waited_ns < SLEEP_MIN_NS) waited_ns = SLEEP_MIN_NS;
    if (waited_ns > SLEEP_MAX_NS) waited_ns = SLEEP_MAX_NS;
    o->sleep_ns += (waited_ns - o->sleep_ns) / 8;
}

void loop_look_was_good(os_env *o) {
    if (o->disturbed_count > 0) o->disturbed_count--;
}

bool loop_looks_pay(os_env *o) {
    if (o->sleep_at_once == 0) return true;
    o->sleep_at_once--;
    return false;
}
