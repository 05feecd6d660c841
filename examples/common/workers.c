#include "workers.h"

#include "deaths.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t stop_signal;

static void remember_signal(int signal) {
    stop_signal = signal;
}

static void end_all(const pid_t *pids, int count, int signal) {
    for (int i = 0; i < count; i++)
        if (pids[i] > 0) kill(pids[i], signal);
}

static int exit_code_of(int status) {
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// A worker that fails reports its error itself; a worker that is killed cannot.
static void report_killed(int rank, int status) {
    int signal = WTERMSIG(status);
    fprintf(stderr, "%s: worker %d was killed by signal %d (%s)\n", program_invocation_short_name,
            rank, signal, strsignal(signal));
}

static void nothing(int signal) {
    (void)signal;
}

// Waits until a child has ended, a worker was declared dead, or a signal ends the program.
static void await_event(int deaths, const sigset_t *open_mask) {
    struct pollfd ready = { .fd = deaths, .events = POLLIN };
    ppoll(&ready, 1, NULL, open_mask);
}

// Kills a worker that hangs as soon as other workers have declared it dead.
static void end_dead(int deaths, const pid_t *pids, int count) {
    for (pid_t dead; (dead = deaths_take(deaths)) > 0;) {
        int rank = 0;
        while (rank < count && pids[rank] != dead) rank++;
        if (rank < count) kill(dead, SIGKILL);
    }
}

static int run_child(int rank, int world_size, const char *init_method, pid_t parent,
                     int (*work)(const char *init_method, void *context), void *context) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // no child outlives a killed parent
    if (getppid() != parent) return 1;
    char text[16];
    snprintf(text, sizeof text, "%d", rank);
    setenv("RANK", text, 1);
    snprintf(text, sizeof text, "%d", world_size);
    setenv("WORLD_SIZE", text, 1);
    return work(init_method, context);
}

int workers_run(int world_size, int (*work)(const char *init_method, void *context),
                void *context) {
    char path[] = "/tmp/gradwire_XXXXXX", init_method[64];
    int file = mkstemp(path), failure = 0, started = 0;
    pid_t *pids = calloc((size_t)world_size, sizeof *pids), parent = getpid();
    if (file < 0 || !pids) {
        fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, path, strerror(errno));
        free(pids);
        return 1;
    }
    close(file);
    int deaths = deaths_open();
    snprintf(init_method, sizeof init_method, "file://%s", path);

    struct sigaction action = { .sa_handler = remember_signal };
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    // Without this block a child would lose a signal that arrives before it has restored the default handlers.
    sigset_t events, open_mask;
    sigemptyset(&events);
    sigaddset(&events, SIGINT);
    sigaddset(&events, SIGTERM);
    sigprocmask(SIG_BLOCK, &events, &open_mask);
    fflush(NULL);                      // or each child would print the buffered output again
    setvbuf(stdout, NULL, _IOLBF, 0);  // as the library does under a launcher
    for (; started < world_size; started++) {
        pids[started] = fork();
        if (pids[started] == 0) {
            signal(SIGINT, SIG_DFL);
            signal(SIGTERM, SIG_DFL);
            sigprocmask(SIG_SETMASK, &open_mask, NULL);
            int code = run_child(started, world_size, init_method, parent, work, context);
            fflush(NULL);
            _exit(code);
        }
        if (pids[started] < 0) {
            fprintf(stderr, "%s: worker %d: %s\n", program_invocation_short_name, started,
                    strerror(errno));
            failure = 1;
            break;
        }
    }
    if (failure) end_all(pids, started, SIGTERM);
    sigaddset(&events, SIGCHLD);
    sigaction(SIGCHLD, &(struct sigaction){ .sa_handler = nothing }, NULL);
    sigprocmask(SIG_BLOCK, &events, NULL);
    for (int left = started; left > 0;) {
        int status;
        pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid <= 0) {
            await_event(deaths, &open_mask);
            if (stop_signal) end_all(pids, started, SIGTERM);
            end_dead(deaths, pids, started);
            continue;
        }
        left--;
        int rank = 0;
        while (rank < started && pids[rank] != pid) rank++;
        if (rank < started) pids[rank] = 0;
        // SIGTERM after a failure was sent by this process.
        bool is_foreign = WIFSIGNALED(status) && (!failure || WTERMSIG(status) != SIGTERM);
        if (is_foreign && !stop_signal) report_killed(rank, status);
        if (failure == 0 && exit_code_of(status) != 0) end_all(pids, started, SIGTERM);
        // A worker that was killed is the cause of errors of the others, also if one of these has ended before.
        if (failure == 0 || (is_foreign && failure < 128)) failure = exit_code_of(status);
    }
    sigprocmask(SIG_SETMASK, &open_mask, NULL);
    if (deaths >= 0) close(deaths);
    unlink(path);
    free(pids);
    return stop_signal ? 128 + stop_signal : failure;
}
