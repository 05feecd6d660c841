#include "watch/health.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "options/command.h"
#include "system/clock.h"
#include "watch/members.h"

enum { CHECK_MS = 60000, COOLDOWN_MS_MAX = 3600000, POLL_MS = 1000 };

// ---- The process --------------------------------------------------------------------------------

_Noreturn static void become_check(const job *j, pid_t launcher) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != launcher) _exit(1);  // it ended before the line above
    signals_restore(&j->signals);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    setenv("GRADWIRE_JOB", j->id, 1);
    execl("/bin/sh", "sh", "-c", j->options.health_check, (char *)NULL);
    _exit(EXIT_NOT_EXECUTABLE);
}

static void start(job *j) {
    health *h = &j->health;
    pid_t launcher = getpid();
    h->started_ms = clock_now_ms();
    h->pid = fork();
    if (h->pid == 0) become_check(j, launcher);
    if (h->pid > 0) {
        setpgid(h->pid, h->pid);  // the child calls it, too: either may run first
        return;
    }
    sink_print(j->messages, "--health-check cannot start: fork fails");
    h->pid = 0;
    h->next_ms = h->started_ms + POLL_MS;
}

// ---- Its result ---------------------------------------------------------------------------------

static void describe(int status, bool is_late, char *out, size_t size) {
    if (is_late)
        snprintf(out, size, "took more than %d s", CHECK_MS / 1000);
    else if (WIFSIGNALED(status))
        snprintf(out, size, "was killed by signal %d", WTERMSIG(status));
    else
        snprintf(out, size, "exited with code %d", WEXITSTATUS(status));
}

static void pass(job *j) {
    health *h = &j->health;
    h->is_required = false;
    if (h->cooldown_ms) sink_print(j->messages, "--health-check has passed: ranks start here");
    h->cooldown_ms = 0;
}

static void cool_down(job *j, int status, int64_t now_ms) {
    health *h = &j->health;
    char how[64];
    h->cooldown_ms = h->cooldown_ms ? 2 * h->cooldown_ms : j->options.host_cooldown_ms;
    if (h->cooldown_ms > COOLDOWN_MS_MAX) h->cooldown_ms = COOLDOWN_MS_MAX;
    h->next_ms = now_ms + h->cooldown_ms;
    describe(status, now_ms - h->started_ms >= CHECK_MS, how, sizeof how);
    sink_print(j->messages, "--health-check %s: no rank starts on this host for %g s", how,
               (double)h->cooldown_ms / 1000);
    log_folder_event(&j->logs, "unhealthy", "s:s, s:i", "why", how, "ms", (int)h->cooldown_ms);
}

void health_ended(job *j, int status) {
    j->health.pid = 0;
    if (!status)
        pass(j);
    else
        cool_down(j, status, clock_now_ms());
}

// ---- When ---------------------------------------------------------------------------------------

void health_require(job *j) {
    health *h = &j->health;
    if (!j->options.health_check || h->is_required) return;
    h->is_required = true;
    h->next_ms = clock_now_ms();
}

bool health_is_awaited(const job *j) {
    return j->health.is_required;
}

void health_run(job *j) {
    health *h = &j->health;
    if (h->pid)
        kill(-h->pid, SIGKILL);
    else
        start(j);
}

int64_t health_deadline_ms(const job *j) {
    const health *h = &j->health;
    if (h->pid) return h->started_ms + CHECK_MS;
    bool is_due = h->is_required && j->policy.stage == AWAITING_RANKS;
    return is_due ? h->next_ms : INT64_MAX;
}

void health_close(job *j) {
    health *h = &j->health;
    if (!h->pid) return;
    kill(-h->pid, SIGKILL);
    while (waitpid(h->pid, NULL, 0) < 0 && errno == EINTR) continue;
    h->pid = 0;
}

// ---- Before the job -----------------------------------------------------------------------------

static void reap_check(job *j) {
    int status;
    if (j->health.pid && waitpid(j->health.pid, &status, WNOHANG) == j->health.pid)
        health_ended(j, status);
}

// The signal that ends the job; 0: none.
static int take_signal(job *j) {
    int signal_number;
    for (signal_duty duty; (duty = signals_take(&j->signals, &signal_number)) != DUTY_NONE;) {
        bool leaves =
            duty == DUTY_USER && run_on_signal(&j->options, signal_number) == SIGNAL_LEAVE;
        if (duty == DUTY_END || leaves) return leaves ? SIGTERM : signal_number;
    }
    members_take_events(j);
    return j->stop_signal;
}

bool health_await(job *j, int *out_code) {
    struct pollfd ready[] = { { .fd = j->signals.fd, .events = POLLIN },
                              { .fd = j->channels.poll_fd, .events = POLLIN } };
    int signal_number = 0;
    health_require(j);
    while (health_is_awaited(j) && !signal_number) {
        if (clock_now_ms() >= health_deadline_ms(j)) health_run(j);
        sink_flush(j->messages);
        poll(ready, 2, POLL_MS);
        signal_number = take_signal(j);
        reap_check(j);
    }
    if (signal_number) health_close(j);
    *out_code = EXIT_SIGNAL + signal_number;
    return !signal_number;
}
