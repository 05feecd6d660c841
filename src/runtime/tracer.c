#include "runtime/tracer.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/status.h"
#include "base/system_error.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TEXT_BYTES = 1024, LONGEST_S = 86400 };

// ---- Its process --------------------------------------------------------------------------------

static const char *program(void) {
    const char *tool = getenv("GW_TOOL");
    return tool && *tool ? tool : "gradwire";
}

// It has a group of its own, so that a signal of the terminal ends the program and not the trace.
static int prepare(posix_spawnattr_t *attributes, posix_spawn_file_actions_t *files, int output) {
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    int error = posix_spawnattr_setsigmask(attributes, &none);
    if (!error) error = posix_spawnattr_setsigdefault(attributes, &all);
    if (!error) error = posix_spawnattr_setpgroup(attributes, 0);
    if (!error)
        error = posix_spawnattr_setflags(
            attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
    if (!error) error = posix_spawn_file_actions_addopen(files, 0, "/dev/null", O_RDONLY, 0);
    if (!error) error = posix_spawn_file_actions_adddup2(files, output, 1);
    if (!error) error = posix_spawn_file_actions_adddup2(files, output, 2);
    if (!error) error = posix_spawn_file_actions_addclosefrom_np(files, 3);
    return error;
}

static int spawn(pid_t *out, char *const arguments[], int output) {
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t files;
    int error = posix_spawnattr_init(&attributes);
    if (error) return error;
    error = posix_spawn_file_actions_init(&files);
    if (!error) {
        error = prepare(&attributes, &files, output);
        if (!error) error = posix_spawnp(out, program(), &files, &attributes, arguments, environ);
        posix_spawn_file_actions_destroy(&files);
    }
    posix_spawnattr_destroy(&attributes);
    return error;
}

static gw_status start(tracer *t, char *const arguments[], gw_error *error) {
    int ends[2];
    *t = (tracer){ .fd = -1 };
    if (pipe2(ends, O_CLOEXEC))
        return error_set(error, GW_SYSTEM, "pipe: %s", system_error_text(errno).text);
    int failure = spawn(&t->pid, arguments, ends[1]);
    close(ends[1]);
    if (!failure) {
        t->fd = ends[0];
        return GW_OK;
    }
    close(ends[0]);
    *t = (tracer){ .fd = -1 };
    if (failure == ENOENT)
        return error_set(error, GW_NOT_FOUND,
                         "the program \"%.200s\", which writes traces, is not on the path; GW_TOOL "
                         "names it",
                         program());
    return error_set(error, GW_SYSTEM, "%.200s: %s", program(),
                     system_thread_error_text(failure).text);
}

// ---- Its output ---------------------------------------------------------------------------------

static int64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int64_t until_after(int64_t timeout_ms) {
    return timeout_ms == INT64_MAX ? INT64_MAX : now_ms() + timeout_ms;
}

static bool await_output(const tracer *t, int64_t until_ms) {
    struct pollfd in = { .fd = t->fd, .events = POLLIN };
    for (;;) {
        int64_t left = until_ms == INT64_MAX ? -1 : until_ms - now_ms();
        if (until_ms != INT64_MAX && left < 0) left = 0;
        int n = poll(&in, 1, left > INT32_MAX ? INT32_MAX : (int)left);
        if (n > 0) return true;
        if (n == 0 && left >= 0 && now_ms() >= until_ms) return false;
        if (n < 0 && errno != EINTR) return false;
    }
}

// Appends what it prints to |text|, up to the end of a line, or of all if |whole|. False after the time.
static bool read_output(const tracer *t, char text[TEXT_BYTES], bool whole, int64_t until_ms) {
    size_t used = strlen(text);
    while (whole || !strchr(text, '\n')) {
        char some[256];
        if (!await_output(t, until_ms)) return false;
        ssize_t n = read(t->fd, some, whole ? sizeof some : 1);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        if ((size_t)n >= TEXT_BYTES - used) n = (ssize_t)(TEXT_BYTES - 1 - used);
        memcpy(text + used, some, (size_t)n);
        used += (size_t)n;
        text[used] = '\0';
    }
    return true;
}

// Waits for its end, and forgets it. Whether it has done its work; a program that reaps all of its processes by itself
// leaves that unknown.
static bool reap(tracer *t) {
    int status = 0;
    pid_t pid;
    while ((pid = waitpid(t->pid, &status, 0)) < 0 && errno == EINTR) continue;
    close(t->fd);
    *t = (tracer){ .fd = -1 };
    return pid < 0 || (WIFEXITED(status) && !WEXITSTATUS(status));
}

static gw_status fail_late(tracer *t, const char *what, gw_error *error) {
    tracer_kill(t);
    return error_set(error, GW_TIMEOUT, "%s", what);
}

// The first line, without the name of the program and the end of the line.
static const char *reason_of(char text[TEXT_BYTES]) {
    static const char name[] = "gradwire trace: ";
    text[strcspn(text, "\n")] = '\0';
    if (!text[0]) return "it has ended without a reason";
    return strncmp(text, name, sizeof name - 1) == 0 ? text + sizeof name - 1 : text;
}

static void log_lines(char text[TEXT_BYTES]) {
    for (char *line = text; *line;) {
        size_t size = strcspn(line, "\n");
        bool is_last = !line[size];
        line[size] = '\0';
        if (*line) log_line("%s", line);
        line += size + !is_last;
    }
}

// ---- Its life -----------------------------------------------------------------------------------

static void put(char *arguments[], int *count, char *argument) {
    if (argument) arguments[(*count)++] = argument;
}

gw_status tracer_open(tracer *t, const tracer_wish *w, int64_t timeout_ms, gw_error *error) {
    char seconds[32], levels[128], steps[64], pid[16], text[TEXT_BYTES] = "";
    char *arguments[16] = { (char *)"gradwire", (char *)"trace", (char *)"-o", (char *)w->file };
    int count = 4;
    snprintf(seconds, sizeof seconds, "--seconds=%.3f", w->seconds > 0 ? w->seconds : LONGEST_S);
    snprintf(levels, sizeof levels, "--levels=%s", w->levels ? w->levels : "");
    snprintf(steps, sizeof steps, "--steps=%s", w->steps ? w->steps : "");
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    put(arguments, &count, seconds);
    put(arguments, &count, w->levels ? levels : NULL);
    put(arguments, &count, w->steps ? steps : NULL);
    put(arguments, &count, w->from_start ? (char *)"--from-start" : NULL);
    put(arguments, &count, pid);
    gw_status status = start(t, arguments, error);
    if (status) return status;
    if (!read_output(t, text, false, until_after(timeout_ms)))
        return fail_late(t, "the process that traces has not begun in time", error);
    if (strncmp(text, "tracing ", 8) == 0) return GW_OK;
    read_output(t, text, true, until_after(timeout_ms));
    tracer_kill(t);
    return error_set(error, GW_SYSTEM, "%s", reason_of(text));
}

// Waits until it has written.
static gw_status complete(tracer *t, int64_t timeout_ms, gw_error *error) {
    char text[TEXT_BYTES] = "";
    if (!read_output(t, text, true, until_after(timeout_ms)))
        return fail_late(t, "the trace was not written in time", error);
    if (!reap(t)) return error_set(error, GW_SYSTEM, "%s", reason_of(text));
    log_lines(text);
    return GW_OK;
}

gw_status tracer_finish(tracer *t, int64_t timeout_ms, gw_error *error) {
    kill(t->pid, SIGUSR1);
    return complete(t, timeout_ms, error);
}

void tracer_kill(tracer *t) {
    if (t->pid <= 0) return;
    kill(t->pid, SIGKILL);
    reap(t);
}

gw_status tracer_merge(const char *const *files, int count, const char *file, int64_t timeout_ms,
                       gw_error *error) {
    char **arguments = mem_calloc((size_t)(count + 5) * sizeof *arguments);
    if (!arguments) return error_set(error, GW_NO_MEMORY, "no memory for a list of files");
    char *first[] = { (char *)"gradwire", (char *)"trace", (char *)"-o", (char *)file };
    memcpy(arguments, first, sizeof first);
    for (int i = 0; i < count; i++) arguments[4 + i] = (char *)files[i];
    tracer t;
    gw_status status = start(&t, arguments, error);
    mem_free(arguments);
    return status ? status : complete(&t, timeout_ms, error);
}
