// gradwire stop: ends a job.
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "observe/find.h"
#include "options/arguments.h"
#include "options/command.h"
#include "system/launchers.h"

static void print_usage(void) {
    printf("usage: gradwire stop [--checkpoint] [JOB | PID]\n"
           "\n"
           "Ends a job of gradwire run on all of its hosts, and waits until the launcher of this "
           "host has ended.\n"
           "JOB is the id of a job, or the beginning of its mark; PID is the number of a process "
           "of a launcher or\n"
           "worker. If there are several jobs, one must be given. The ranks get SIGINT, and "
           "SIGKILL after the\n"
           "grace time of the job.\n"
           "\n"
           "  --checkpoint   the ranks get SIGTERM: the members of an elastic job with a folder "
           "of checkpoints\n"
           "                 write one before they leave\n"
           "\n"
           "Exit code: 0 if the job has ended; 1 if there is no such job.\n");
}

static bool complain(const char *text) {
    fprintf(stderr, "gradwire stop: %s\n", text);
    return false;
}

// Of several launchers, none is chosen.
static bool choose_only(const launcher *all, int count, char mark[LAUNCHER_MARK_SIZE]) {
    if (count == 0) return complain("no launcher of this user runs on this host");
    memcpy(mark, all[0].mark, LAUNCHER_MARK_SIZE);
    if (count == 1) return true;
    complain("there are several jobs; choose one:");
    for (int i = 0; i < count; i++)
        fprintf(stderr, "  %s (launcher %d)\n", all[i].mark, (int)all[i].pid);
    return false;
}

static bool choose_launcher(const launcher *all, int count, const char *wanted,
                            char mark[LAUNCHER_MARK_SIZE]) {
    const launcher *chosen = NULL;
    for (int i = 0; i < count; i++) {
        char number[16];
        snprintf(number, sizeof number, "%d", (int)all[i].pid);
        bool is_it = strcmp(number, wanted) == 0 ||
                     (*wanted && strncmp(all[i].mark, wanted, strlen(wanted)) == 0);
        if (is_it && !chosen) chosen = &all[i];
    }
    if (chosen) memcpy(mark, chosen->mark, LAUNCHER_MARK_SIZE);
    return chosen != NULL;
}

// By the memories of its workers. A job inside a job has both marks; the inner one is the last.
static bool choose_by_workers(const char *wanted, char mark[LAUNCHER_MARK_SIZE]) {
    char why[FIND_WHY_SIZE];
    found f;
    if (!find_job_tables(wanted, &f, why, sizeof why)) return complain(why);
    const char *marks = f.images[0].mark, *last = strrchr(marks, ':');
    snprintf(mark, LAUNCHER_MARK_SIZE, "%.*s", LAUNCHER_MARK_SIZE - 1, last ? last + 1 : marks);
    find_free(&f);
    return *mark || complain("gradwire run has not started this job");
}

static bool choose(const char *wanted, char mark[LAUNCHER_MARK_SIZE]) {
    launcher *all;
    int count = launchers_find(&all);
    bool ok = count >= 0 || complain("/proc/net/unix cannot be read");
    if (ok && !wanted) ok = choose_only(all, count, mark);
    if (ok && wanted)
        ok = choose_launcher(all, count, wanted, mark) || choose_by_workers(wanted, mark);
    free(all);
    return ok;
}

static void await_end(int pid_fd) {
    struct pollfd ended = { .fd = pid_fd, .events = POLLIN };
    while (pid_fd >= 0 && poll(&ended, 1, -1) != 1) continue;
}

// The launcher reads the line also if this process has ended, or has closed its end, before.
static bool stop(const char *mark, bool saves) {
    const char *line = saves ? "stop 0 checkpoint\n" : "stop 0\n";
    pid_t pid;
    int fd = launcher_connect(mark, &pid);
    if (fd < 0) return complain("the launcher of the job has ended, or is too busy");
    int pid_fd = (int)syscall(SYS_pidfd_open, pid, 0);
    bool is_sent = send(fd, line, strlen(line), MSG_NOSIGNAL) == (ssize_t)strlen(line);
    if (is_sent) await_end(pid_fd);
    if (pid_fd >= 0) close(pid_fd);
    close(fd);
    return is_sent || complain(strerror(errno));
}

int stop_command(int argc, char **argv) {
    const char *wanted = NULL;
    char mark[LAUNCHER_MARK_SIZE];
    bool saves = false;
    const argument options[] = { { "--checkpoint", ARGUMENT_FLAG, .flag = &saves }, { 0 } };
    int code = arguments_read(
        &(arguments){ "stop", print_usage, options, .wanted = &wanted, .wanted_max = 1 }, argc,
        argv);
    if (code >= 0) return code;
    return choose(wanted, mark) && stop(mark, saves) ? 0 : 1;
}
