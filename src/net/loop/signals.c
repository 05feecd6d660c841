// Signals that interrupt a wait: those that request a program to end or to stop waiting, and have a
// handler without SA_RESTART. They are blocked meanwhile and polled through a signalfd with everything else,
// so that none is missed between two waits; the handler runs when they are released.
#include "net/loop/loop.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

typedef struct ending {
    int number;
    const char *name;
} ending;

static const ending endings[] = { { SIGHUP, "SIGHUP" },
                                  { SIGINT, "SIGINT" },
                                  { SIGQUIT, "SIGQUIT" },
                                  { SIGTERM, "SIGTERM" },
                                  { SIGALRM, "SIGALRM" } };
enum { ENDING_COUNT = sizeof endings / sizeof endings[0] };

static bool interrupts(int number) {
    struct sigaction action;
    return sigaction(number, NULL, &action) == 0 && action.sa_handler != SIG_DFL &&
           action.sa_handler != SIG_IGN && !(action.sa_flags & SA_RESTART);
}

static bool find_interrupting(sigset_t *out) {
    sigset_t blocked;
    bool any = false;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    sigemptyset(out);
    for (int i = 0; i < ENDING_COUNT; i++) {
        int number = endings[i].number;
        if (sigismember(&blocked, number) || !interrupts(number)) continue;
        sigaddset(out, number);
        any = true;
    }
    return any;
}

static void kick_catcher(os_env *o) {
    list_each(l, &o->parked) {
        slot *s = list_entry(l, slot, link);
        if (s->thread == o->signals.catcher) loop_lock_kick(o, s);
    }
}

// The signal stays pending for its handler, so the descriptor would stay ready.
static void on_signal(source *s, uint32_t events) {
    os_env *o = (os_env *)(void *)((char *)s - offsetof(os_env, signals.source));
    sigset_t pending;
    (void)events;
    if (!o->signals.catches || o->signals.caught)
        return;  // released, or interrupted, in the same turn
    sigpending(&pending);
    for (int i = 0; i < ENDING_COUNT && !o->signals.caught; i++)
        if (sigismember(&pending, endings[i].number) &&
            sigismember(&o->signals.set, endings[i].number))
            o->signals.caught = endings[i].name;
    if (!o->signals.caught) return;  // another thread has it now
    loop_remove(o, o->signals.fd);
    kick_catcher(o);
}

static const source_class polled = { .ready = on_signal };

void os_catch_signals(env *e) {
    os_env *o = (os_env *)e;
    signal_catcher *c = &o->signals;
    *c = (signal_catcher){ .is_active = true, .source.class = &polled, .catcher = pthread_self() };
    if (!find_interrupting(&c->set)) return;
    c->fd = signalfd(-1, &c->set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (c->fd < 0) return;  // without descriptors joining reports more
    if (loop_add(o, c->fd, &c->source, EPOLLIN, NULL)) {
        close(c->fd);
        return;
    }
    c->catches = true;
    pthread_sigmask(SIG_BLOCK, &c->set, NULL);
}

const char *os_release_signals(env *e) {
    os_env *o = (os_env *)e;
    signal_catcher *c = &o->signals;
    const char *caught = c->caught;
    c->is_active = false;
    c->caught = NULL;
    if (!c->catches) return caught;
    // One that was caught is out of the epoll set already.
    loop_remove(o, c->fd);
    close(c->fd);
    c->catches = false;
    pthread_sigmask(SIG_UNBLOCK, &c->set, NULL);
    return caught;
}

void os_interrupt(env *e) {
    os_env *o = (os_env *)e;
    if (!o->signals.is_active || o->signals.caught) return;
    o->signals.caught = "";
    kick_catcher(o);
}
