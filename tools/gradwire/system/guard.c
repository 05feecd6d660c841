#include "system/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "system/lifeline.h"
#include "system/proc.h"

enum {
    LIFELINE_FD = 3,
    ROUND_MS = 10,
    // A process that has just been forked, or becomes another program, may be missed: so not one
    // look, but several.
    QUIET_ROUNDS = 3,
    // Processes whose environment cannot be read may not be of the job, and are waited for only briefly.
    UNKNOWN_ROUNDS = 100,
    ROUNDS_MAX = 1000,
};

typedef struct round {
    int killed_count, unknown_count;
} round;

// Looks at all processes that were started after this one, as all of the job's were.
static round kill_marked(const char *mark, uint64_t start_time) {
    proc *all = NULL;
    int count = proc_list(&all);
    round r = { 0 };
    for (int i = 0; i < count; i++) {
        const proc *p = &all[i];
        if (p->pid == getpid() || p->start_time < start_time || proc_is_zombie(p)) continue;
        proc_mark found = proc_find_mark(p->pid, mark);
        if (found == MARK_PRESENT && proc_signal(p, SIGKILL)) r.killed_count++;
        if (found == MARK_UNKNOWN) r.unknown_count++;
    }
    free(all);
    return r;
}

static void kill_all_marked(const char *mark) {
    proc self = { 0 };
    proc_read(getpid(), &self);
    const struct timespec pause = { .tv_nsec = ROUND_MS * 1000000 };
    int quiet_count = 0, unknown_count = 0;
    for (int i = 0; i < ROUNDS_MAX; i++) {
        round r = kill_marked(mark, self.start_time);
        quiet_count = r.killed_count || r.unknown_count ? 0 : quiet_count + 1;
        unknown_count = r.killed_count ? 0 : unknown_count + 1;
        if (quiet_count == QUIET_ROUNDS || unknown_count == UNKNOWN_ROUNDS) return;
        nanosleep(&pause, NULL);
    }
}

// The guard keeps no descriptor of the launcher: a process that reads the launcher's output until its end waits for the
// launcher only.
static void detach(int lifeline_fd) {
    setsid();  // excludes this process from the signals and the hang-up of a terminal
    prctl(PR_SET_NAME, "gradwire-guard");
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    if (dup2(lifeline_fd, LIFELINE_FD) < 0) _exit(1);
    for (int fd = 0; fd < LIFELINE_FD; fd++) close(fd);
    syscall(SYS_close_range, LIFELINE_FD + 1, ~0U, 0);
    if (chdir("/") != 0) return;  // a folder in use; it does no harm otherwise
}

_Noreturn static void watch(int lifeline_fd, const char *mark) {
    detach(lifeline_fd);
    char none;
    while (read(LIFELINE_FD, &none, 1) < 0 && errno == EINTR) continue;
    kill_all_marked(mark);
    _exit(0);
}

bool guard_open(guard *g, const char *mark) {
    int fd;
    pid_t pid = lifeline_fork(&fd);
    if (pid == 0) watch(fd, mark);
    if (pid < 0) return false;
    *g = (guard){ .pid = pid, .lifeline_fd = fd };
    return true;
}

void guard_close(guard *g) {
    if (!g->pid) return;
    kill(g->pid, SIGKILL);
    while (waitpid(g->pid, NULL, 0) < 0 && errno == EINTR) continue;
    close(g->lifeline_fd);
    *g = (guard){ .lifeline_fd = -1 };
}
