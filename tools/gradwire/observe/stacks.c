#include "observe/stacks.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "observe/clean.h"
#include "system/clock.h"

enum { LINES = 120, BYTES_MAX = 64 * 1024 };

extern char **environ;

stacks_budget stacks_begin(int64_t time_ms) {
    return (stacks_budget){ .until_ms = clock_now_ms() + time_ms, .lines = LINES };
}

// Starts eu-stack with its output in |*out_fd|; -1: it is not installed.
static pid_t start(pid_t of, int *out_fd) {
    char number[16];
    int ends[2];
    pid_t pid = -1;
    posix_spawn_file_actions_t actions;
    if (pipe2(ends, O_CLOEXEC) != 0) return -1;
    snprintf(number, sizeof number, "%d", (int)of);
    char *const arguments[] = { (char[]){ "eu-stack" }, (char[]){ "-p" }, number, NULL };
    if (posix_spawn_file_actions_init(&actions) == 0) {
        posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
        posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
        if (posix_spawnp(&pid, "eu-stack", &actions, NULL, arguments, environ) != 0) pid = -1;
        posix_spawn_file_actions_destroy(&actions);
    }
    close(ends[1]);
    *out_fd = ends[0];
    if (pid < 0) close(ends[0]);
    return pid;
}

// Reads until the end of the output, of memory, or of the time.
static size_t read_output(int fd, int64_t until_ms, char *out, size_t size) {
    size_t used = 0;
    while (used < size) {
        int64_t left_ms = until_ms - clock_now_ms();
        struct pollfd p = { .fd = fd, .events = POLLIN };
        if (left_ms <= 0) break;
        int n = poll(&p, 1, (int)left_ms);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        ssize_t more = read(fd, out + used, size - used);
        if (more < 0 && errno == EINTR) continue;
        if (more <= 0) break;
        used += (size_t)more;
    }
    return used;
}

static void end(pid_t pid) {
    int status;
    kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
}

static void write_lines(stacks_budget *b, char *text, const char *name, pid_t pid, FILE *out) {
    char *rest = NULL;
    if (*text) fprintf(out, "stacks of %s (pid %d), by eu-stack\n", name, (int)pid);
    for (char *line = strtok_r(text, "\n", &rest); line && b->lines > 0;
         line = strtok_r(NULL, "\n", &rest)) {
        clean_text(line);
        fprintf(out, "  %.200s\n", line);
        b->lines--;
    }
}

void stacks_write(stacks_budget *b, pid_t pid, const char *name, FILE *out) {
    int fd;
    if (b->lines <= 0 || clock_now_ms() >= b->until_ms) return;
    char *text = malloc(BYTES_MAX + 1);
    pid_t tool = text ? start(pid, &fd) : -1;
    if (tool >= 0) {
        text[read_output(fd, b->until_ms, text, BYTES_MAX)] = '\0';
        close(fd);
        end(tool);
        write_lines(b, text, name, pid, out);
    }
    free(text);
}
