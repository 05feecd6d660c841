// One loop: everything that happens is a descriptor that is ready, or the time that is up.
#include "watch.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "command.h"
#include "proc.h"
#include "report.h"
#include "sweep.h"

enum { LOOK_AGAIN_MS = 20, SLOW_READER_MS = 1000 };

// Places of the descriptors that the loop waits for.
enum {
    POLL_INPUT = 0,
    POLL_SIGNALS = POLL_INPUT + INPUT_POLL_COUNT,
    POLL_SINKS,
    POLL_OUTPUTS = POLL_SINKS + OUTPUTS,  // rank by rank
};

// ---- Signals to the job -------------------------------------------------------------------------------------------

// Programs that are no longer there have not been waited for yet, so that their numbers are still theirs.
static void signal_groups(job *j, int signal_number) {
    for (int i = 0; i < j->options.rank_count; i++) {
        if (j->ranks[i].is_running) kill(-j->ranks[i].pid, signal_number);
    }
}

// Processes that have left the group of their rank, or whose rank has ended.
static int sweep_others(job *j, int signal_number) {
    sweep_options options = { .spared = j->guard.pid, .spared_groups = j->groups };
    for (int i = 0; i < j->options.rank_count; i++) {
        if (j->ranks[i].is_running) j->groups[options.spared_group_count++] = j->ranks[i].pid;
    }
    return sweep(signal_number, options);
}

static void signal_all(job *j, int signal_number) {
    signal_groups(j, signal_number);
    sweep_others(j, signal_number);
    // A stopped process obeys when it goes on.
    if (signal_number != SIGKILL) {
        signal_groups(j, SIGCONT);
        sweep_others(j, SIGCONT);
    }
    j->tree_has_changed = true;
}

static void happened(job *j, policy_event event, int asked) {
    policy_stage before = j->policy.stage;
    int signal_number = policy_happened(&j->policy, event, asked, clock_now_ms());
    if (event == TIME_IS_UP && before == AWAITING_STOP) report_killing(j, sweep_others(j, 0));
    if (event == TIME_IS_UP && before == AWAITING_LEFTOVERS)
        report_leftovers(j, sweep_others(j, 0));
    if (signal_number) signal_all(j, signal_number);
}

void watch_start_failed(job *j, int code) {
    j->has_exit_code = true;
    j->exit_code = code;
    happened(j, START_FAILED, 0);
}

static void set_exit_code(job *j, int code) {
    if (!j->has_exit_code) j->exit_code = code;
    j->has_exit_code = true;
}

// ---- Signals to the launcher --------------------------------------------------------------------------------------

static void pause_all(job *j) {
    signal_groups(j, SIGTSTP);
    // By the signal's own effect, which the kernel withholds where nobody could wake us.
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGTSTP);
    sigprocmask(SIG_UNBLOCK, &mask, NULL);
    raise(SIGTSTP);
    sigprocmask(SIG_BLOCK, &mask, NULL);
    signal_groups(j, SIGCONT);
}

static void pass_on(job *j, int signal_number) {
    for (int i = 0; i < j->options.rank_count; i++) {
        if (j->ranks[i].is_running) kill(j->ranks[i].pid, signal_number);
    }
}

static void end_job(job *j, int signal_number) {
    if (j->policy.stage == AWAITING_RANKS) report_signal(j, signal_number);
    set_exit_code(j, EXIT_SIGNAL + signal_number);
    j->asked_ms = clock_now_ms();
    if (j->is_alone) return;
    happened(j, USER_SIGNAL, signals_to_ranks(signal_number));
}

static void take_signals(job *j) {
    int signal_number;
    for (signal_duty duty; (duty = signals_take(&j->signals, &signal_number)) != DUTY_NONE;) {
        switch (duty) {
        case DUTY_END: end_job(j, signal_number); break;
        case DUTY_PAUSE: pause_all(j); break;
        case DUTY_RESUME: signal_groups(j, SIGCONT); break;
        case DUTY_PASS: pass_on(j, signal_number); break;
        case DUTY_CHILD:
        case DUTY_NONE: break;
        }
    }
}

// ---- Ends of processes --------------------------------------------------------------------------------------------

static bool has_failed(const rank *r) {
    return r->pid && !r->is_running && r->status != 0;
}

static rank *find_rank(job *j, pid_t pid) {
    for (int i = 0; i < j->options.rank_count; i++) {
        if (j->ranks[i].is_running && j->ranks[i].pid == pid) return &j->ranks[i];
    }
    return NULL;
}

static void rank_failed(job *j, rank *r) {
    bool by_itself = j->policy.stage == AWAITING_RANKS;
    if (by_itself) report_failure(j, r);
    if (by_itself && !j->cause) j->cause = r;
    set_exit_code(j, WIFSIGNALED(r->status) ? EXIT_SIGNAL + WTERMSIG(r->status)
                                            : WEXITSTATUS(r->status));
    if (!j->options.keep || !by_itself) happened(j, RANK_FAILED, SIGTERM);
}

// Ends that are noticed together have no known order. Who was killed is the likelier cause: the others may have exited
// because of it.
static void judge(job *j, rank *const *ended, int count) {
    for (int i = 0; i < count; i++) {
        for (int k = 0; k < OUTPUTS; k++) output_drain(&ended[i]->outputs[k]);
    }
    for (int i = 0; i < count; i++) {
        if (has_failed(ended[i]) && WIFSIGNALED(ended[i]->status)) rank_failed(j, ended[i]);
    }
    for (int i = 0; i < count; i++) {
        if (has_failed(ended[i]) && !WIFSIGNALED(ended[i]->status)) rank_failed(j, ended[i]);
    }
}

static void reap(job *j) {
    rank *ended[RANK_COUNT_MAX];
    int count = 0, status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        j->tree_has_changed = true;
        if (pid == j->guard.pid) j->guard.pid = 0;
        rank *r = find_rank(j, pid);
        if (!r) continue;
        r->is_running = false;
        r->status = status;
        j->running_count--;
        ended[count++] = r;
    }
    judge(j, ended, count);
}

// Once no rank runs: what have they left behind? The guard is a child, too, and the last to go.
static void look_for_leftovers(job *j) {
    bool must_look = j->tree_has_changed || j->policy.stage == AWAITING_DEATH;
    if (j->running_count > 0 || j->is_alone || !must_look) return;
    j->tree_has_changed = false;
    int count = sweep_others(j, 0);
    if (count > 0) {
        happened(j, LEFTOVERS_FOUND, SIGTERM);
        return;
    }
    guard_close(&j->guard);
    pid_t pid = waitpid(-1, NULL, WNOHANG);
    j->is_alone = count < 0 || (pid < 0 && errno == ECHILD);
    j->tree_has_changed = !j->is_alone;
    if (j->is_alone) j->alone_ms = clock_now_ms();
}

// ---- Output -------------------------------------------------------------------------------------------------------

static int output_count(const job *j) {
    return j->options.rank_count * OUTPUTS;
}

static output *output_at(const job *j, int i) {
    return &j->ranks[i / OUTPUTS].outputs[i % OUTPUTS];
}

// Each in its turn, one read at a time, so that one that never ends does not keep the others waiting.
static void read_outputs(job *j) {
    int count = output_count(j);
    for (int n = 0; n < count; n++) {
        int i = (j->first_output + n) % count;
        output *o = output_at(j, i);
        if (o->fd < 0 || !j->polls[POLL_OUTPUTS + i].revents) continue;
        if (!sink_has_room(o->to)) sink_flush(o->to);
        if (sink_has_room(o->to)) output_read(o);
    }
    j->first_output = (j->first_output + 1) % count;
}

// Who has gone is gone for those who write, too: they get a broken pipe, as if they had written directly.
static void break_outputs(job *j, const sink *s) {
    for (int i = 0; i < output_count(j); i++) {
        output *o = output_at(j, i);
        if (o->to == s) output_finish(o);
    }
}

static void write_outputs(job *j) {
    for (int i = 0; i < OUTPUTS; i++) {
        sink *s = &j->sinks[i];
        int error_before = s->error;
        sink_flush(s);
        if (s->is_broken) break_outputs(j, s);
        if (s->error && !error_before && !s->is_broken) report_lost_output(j, s);
    }
}

static bool outputs_are_done(const job *j) {
    for (int i = 0; i < OUTPUTS; i++) {
        if (!sink_is_empty(&j->sinks[i])) return false;
    }
    for (int i = 0; i < output_count(j); i++) {
        if (output_at(j, i)->fd >= 0) return false;
    }
    return true;
}

// With nobody left to write, a pipe that is empty stays so, even if a stranger holds its other end.
static void finish_outputs(job *j) {
    for (int i = 0; i < output_count(j); i++) {
        output *o = output_at(j, i);
        if (o->fd < 0) continue;
        output_drain(o);
        if (sink_has_room(o->to)) output_finish(o);
    }
}

// ---- The loop -----------------------------------------------------------------------------------------------------

// Descriptors that are not wanted now are -1, which poll() passes over.
static void gather(job *j) {
    input_poll(&j->input, j->polls + POLL_INPUT);
    j->polls[POLL_SIGNALS] = (struct pollfd){ .fd = j->signals.fd, .events = POLLIN };
    for (int i = 0; i < OUTPUTS; i++) {
        const sink *s = &j->sinks[i];
        j->polls[POLL_SINKS + i] =
            (struct pollfd){ .fd = sink_is_empty(s) ? -1 : s->fd, .events = POLLOUT };
    }
    for (int i = 0; i < output_count(j); i++) {
        const output *o = output_at(j, i);
        j->polls[POLL_OUTPUTS + i] =
            (struct pollfd){ .fd = sink_has_room(o->to) ? o->fd : -1, .events = POLLIN };
    }
}

// At the end only a reader of our output is waited for: without limit, unless somebody wants the end.
static int64_t deadline_ms(const job *j) {
    if (!j->is_alone) return j->policy.deadline_ms;
    if (!j->asked_ms) return INT64_MAX;
    return (j->asked_ms > j->alone_ms ? j->asked_ms : j->alone_ms) + SLOW_READER_MS;
}

static int time_to_wait_ms(const job *j) {
    if (j->tree_has_changed && j->running_count == 0 && !j->is_alone) return LOOK_AGAIN_MS;
    int64_t until_ms = deadline_ms(j);
    if (until_ms == INT64_MAX) return -1;
    int64_t left_ms = until_ms - clock_now_ms();
    if (left_ms < 0) return 0;
    if (j->policy.stage == AWAITING_DEATH && left_ms > LOOK_AGAIN_MS) return LOOK_AGAIN_MS;
    return left_ms < 3600000 ? (int)left_ms : 3600000;
}

static void turn(job *j) {
    gather(j);
    // A failure is an interruption or a want of memory for a moment: then nothing is ready.
    poll(j->polls, (nfds_t)(POLL_OUTPUTS + output_count(j)), time_to_wait_ms(j));
    take_signals(j);
    reap(j);
    read_outputs(j);
    input_relay(&j->input, j->polls + POLL_INPUT);
    look_for_leftovers(j);
    if (j->is_alone) finish_outputs(j);
    write_outputs(j);
    if (!j->is_alone && clock_now_ms() >= deadline_ms(j)) happened(j, TIME_IS_UP, SIGTERM);
}

static bool is_over(const job *j) {
    if (!j->is_alone) return j->policy.stage == AWAITING_NOTHING;
    return outputs_are_done(j) || clock_now_ms() >= deadline_ms(j);
}

int watch(job *j) {
    j->tree_has_changed = true;
    while (!is_over(j)) turn(j);
    report_end(j);
    while (!is_over(j)) turn(j);
    if (!j->is_alone) {
        report_unkillable(j);
        if (j->exit_code == 0) j->exit_code = EXIT_OWN_FAILURE;
    }
    bool is_lost = false;
    for (int i = 0; i < OUTPUTS; i++) is_lost |= j->sinks[i].error && !j->sinks[i].is_broken;
    return is_lost && j->exit_code == 0 ? EXIT_OUTPUT_LOST : j->exit_code;
}
