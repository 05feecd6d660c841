#include "system/signals.h"

#include <errno.h>
#include <stddef.h>
#include <sys/signalfd.h>
#include <unistd.h>

static const struct {
    int number;
    signal_duty duty;
    int to_ranks;
    const char *name;
} duties[] = {
    { SIGCHLD, DUTY_CHILD, 0, "SIGCHLD" },        { SIGINT, DUTY_END, SIGINT, "SIGINT" },
    { SIGTERM, DUTY_END, SIGTERM, "SIGTERM" },    { SIGHUP, DUTY_END, SIGTERM, "SIGHUP" },
    { SIGQUIT, DUTY_END, SIGQUIT, "SIGQUIT" },    { SIGTSTP, DUTY_PAUSE, SIGTSTP, "SIGTSTP" },
    { SIGCONT, DUTY_RESUME, SIGCONT, "SIGCONT" }, { SIGUSR1, DUTY_USER, SIGUSR1, "SIGUSR1" },
    { SIGUSR2, DUTY_USER, SIGUSR2, "SIGUSR2" },
};
enum { DUTY_COUNT = sizeof duties / sizeof duties[0] };

// Dispositions that the launcher needs for itself.
static const struct {
    int number;
    void (*handler)(int);
} own_actions[] = {
    { SIGPIPE, SIG_IGN },  // a write then fails with EPIPE
    { SIGTTIN, SIG_IGN },  // a read in the background then fails with EIO
    { SIGCHLD, SIG_DFL },  // ignored, children would vanish without a status
};
enum { OWN_ACTION_COUNT = sizeof own_actions / sizeof own_actions[0] };

_Static_assert(sizeof((signals *)0)->old_actions / sizeof(struct sigaction) == OWN_ACTION_COUNT,
               "each own disposition has its old one");

// nohup and shells' background jobs ignore these signals on purpose. SIGTERM is never ignored so.
static bool is_ignored(int signal_number) {
    struct sigaction action;
    return signal_number != SIGCHLD && signal_number != SIGTERM && signal_number != SIGCONT &&
           sigaction(signal_number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

bool signals_open(signals *s) {
    sigset_t mask;
    sigemptyset(&mask);
    for (int i = 0; i < DUTY_COUNT; i++) {
        if (!is_ignored(duties[i].number)) sigaddset(&mask, duties[i].number);
    }
    s->fd = signalfd(-1, &mask, SFD_NONBLOCK | SFD_CLOEXEC);
    if (s->fd < 0) return false;
    sigprocmask(SIG_BLOCK, &mask, &s->old_mask);
    for (int i = 0; i < OWN_ACTION_COUNT; i++) {
        struct sigaction action = { .sa_handler = own_actions[i].handler };
        sigaction(own_actions[i].number, &action, &s->old_actions[i]);
    }
    return true;
}

void signals_close(signals *s) {
    close(s->fd);
}

signal_duty signals_take(signals *s, int *out_signal) {
    struct signalfd_siginfo info;
    ssize_t n;
    do n = read(s->fd, &info, sizeof info);
    while (n < 0 && errno == EINTR);
    if (n != sizeof info) return DUTY_NONE;
    *out_signal = (int)info.ssi_signo;
    for (int i = 0; i < DUTY_COUNT; i++) {
        if (duties[i].number == *out_signal) return duties[i].duty;
    }
    return DUTY_NONE;
}

bool signals_end_waits(void) {
    sigset_t pending;
    sigpending(&pending);
    for (int i = 0; i < DUTY_COUNT; i++) {
        if (duties[i].duty == DUTY_END && !is_ignored(duties[i].number) &&
            sigismember(&pending, duties[i].number))
            return true;
    }
    return false;
}

void signals_restore(const signals *s) {
    for (int i = 0; i < OWN_ACTION_COUNT; i++)
        sigaction(own_actions[i].number, &s->old_actions[i], NULL);
    sigprocmask(SIG_SETMASK, &s->old_mask, NULL);
}

int signals_to_ranks(int signal_number) {
    for (int i = 0; i < DUTY_COUNT; i++) {
        if (duties[i].number == signal_number) return duties[i].to_ranks;
    }
    return SIGTERM;
}

const char *signals_name(int signal_number) {
    for (int i = 0; i < DUTY_COUNT; i++) {
        if (duties[i].number == signal_number) return duties[i].name;
    }
    return "a signal";
}
