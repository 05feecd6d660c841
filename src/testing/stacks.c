// Stacks of processes that hang or have crashed: by gdb where there is one, else by the processes
// themselves.
#include "testing/pace.h"
#include "testing/runner.h"

#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROCESSES_PRINTED_MAX = 8 };

// Keeps the frames of gdb's output that are useful: not the harness's, and not the signal
// handler that called gdb.
static const char keep_useful_frames[] =
    "/^Thread / { printf \"%s\", frames; frames = \"\"; print; seen = 1 }"
    "/^#.*<signal handler called>/ { frames = \"\"; next }"
    "/^#/ && !/libcmocka|src.testing.(child|main|stacks)[.]c/ { frames = frames $0 \"\\n\" }"
    "END { printf \"%s\", frames; exit !seen }";

enum { GDB_LIMIT_S = 30 };

// Returns whether gdb was found and could attach. It needs a limit of its own: it may wait for the
// kernel forever.
static bool print_by_gdb(pid_t pid, int output_fd) {
    pid_t shell = _Fork();  // without handlers of fork: this thread may hold a lock
    if (shell < 0) return false;
    if (shell == 0) {
        char command[1024];
        snprintf(command, sizeof command,
                 "timeout -k 1 %d gdb -q -nx --batch -ex 'thread apply all bt' -p %d 2>/dev/null | "
                 "awk '%s'",
                 (int)(GDB_LIMIT_S * pace_slowness()), (int)pid, keep_useful_frames);
        dup2(output_fd, STDOUT_FILENO);
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        unsetenv("DEBUGINFOD_URLS");
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    int status = 0;
    waitpid(shell, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// Every thread in turn is sent SIGQUIT, whose handler prints its stack.
static void request_stacks(pid_t pid) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *threads = opendir(path);
    if (!threads) return;
    for (struct dirent *e; (e = readdir(threads));) {
        int tid = (int)strtol(e->d_name, NULL, 10);
        if (tid <= 0) continue;
        syscall(SYS_tgkill, pid, tid, SIGQUIT);
        poll(NULL, 0, 100);  // for it to have printed before the next one starts
    }
    closedir(threads);
}

static pid_t group_of(pid_t pid) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "r");
    if (!f) return -1;
    int pgid = -1;
    // pid (name) state parent group; the name of a test program has no spaces or parentheses in it.
    if (fscanf(f, "%*d (%*[^)]) %*c %*d %d", &pgid) != 1) pgid = -1;
    fclose(f);
    return pgid;
}

// A test that wants a failure needs no stacks of it.
static bool are_wanted(void) {
    const char *text = getenv("GW_TEST_STACKS");
    return !text || strcmp(text, "none") != 0;
}

void testing_print_stacks_of_process(pid_t pid, int output_fd) {
    if (!are_wanted()) return;
    // This may run in a signal handler: no streams, no memory.
    char title[64];
    int size = snprintf(title, sizeof title, "---- stacks of process %d\n", (int)pid);
    if (write(output_fd, title, (size_t)size) < 0) return;
    if (!print_by_gdb(pid, output_fd)) request_stacks(pid);
}

void testing_print_stacks_of_group(pid_t pgid, int output_fd) {
    if (!are_wanted()) return;
    DIR *processes = opendir("/proc");
    if (!processes) return;
    // Listed first: gdb's own processes start and end while it works.
    pid_t found[PROCESSES_PRINTED_MAX];
    int found_count = 0;
    for (struct dirent *e; found_count < PROCESSES_PRINTED_MAX && (e = readdir(processes));) {
        pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);
        if (pid > 0 && group_of(pid) == pgid) found[found_count++] = pid;
    }
    closedir(processes);
    for (int i = 0; i < found_count; i++) testing_print_stacks_of_process(found[i], output_fd);
}
