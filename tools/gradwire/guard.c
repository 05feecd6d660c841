#include "guard.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "proc.h"

enum { LIFELINE_FD = 3, ROUNDS_MAX = 1000, ROUND_MS = 10 };

static int kill_marked(const char *mark) {
    proc *all = NULL;
    int count = proc_list(&all), found = 0;
    for (int i = 0; i < count; i++) {
        if (all[i].pid == getpid() || proc_is_zombie(&all[i])) continue;
        if (proc_has_mark(all[i].pid, mark) && proc_signal(&all[i], SIGKILL)) found++;
    }
    free(all);
    return found;
}

// Holds nothing of the launcher's: whoever waits for the end of its output, waits for the launcher alone.
static void let_go_of_everything(int lifeline_fd) {
    setsid();  // a terminal's signals and its closing do not come here
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
    let_go_of_everything(lifeline_fd);
    char none;
    while (read(LIFELINE_FD, &none, 1) < 0 && errno == EINTR) continue;
    // What is found may be starting others at this moment: until nothing is found.
    const struct timespec pause = { .tv_nsec = ROUND_MS * 1000000 };
    for (int i = 0; i < ROUNDS_MAX && kill_marked(mark) > 0; i++) nanosleep(&pause, NULL);
    _exit(0);
}

bool guard_open(guard *g, const char *mark) {
    int lifeline[2];
    if (pipe2(lifeline, O_CLOEXEC) != 0) return false;
    pid_t pid = fork();
    if (pid == 0) {
        close(lifeline[1]);
        watch(lifeline[0], mark);
    }
    int error = errno;
    close(lifeline[0]);
    if (pid < 0) {
        close(lifeline[1]);
        errno = error;
        return false;
    }
    *g = (guard){ .pid = pid, .lifeline_fd = lifeline[1] };
    return true;
}

void guard_close(guard *g) {
    if (!g->pid) return;
    kill(g->pid, SIGKILL);
    while (waitpid(g->pid, NULL, 0) < 0 && errno == EINTR) continue;
    close(g->lifeline_fd);
    *g = (guard){ .lifeline_fd = -1 };
}
