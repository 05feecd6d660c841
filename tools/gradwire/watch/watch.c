// One loop: each event is a ready descriptor or an expired deadline.
#include "watch/watch.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "watch/causes.h"
#include "system/clock.h"
#include "options/command.h"
#include "options/failures.h"
#include "options/roles.h"
#include "watch/ending.h"
#include "watch/flight.h"
#include "watch/flow.h"
#include "watch/health.h"
#include "watch/hung.h"
#include "watch/members.h"
#include "watch/other_hosts.h"
#include "watch/restarts.h"
#include "system/proc.h"
#include "job/report.h"
#include "job/slots.h"
#include "watch/stops.h"
#include "watch/stragglers.h"

enum { LOOK_AGAIN_MS = 20, SLOW_READER_MS = 1000 };

// The indices of the descriptors that the loop polls.
enum {
    POLL_SIGNALS,
    POLL_EVENTS,
    POLL_NODES,
    POLL_INPUT,
    POLL_FLOW = POLL_INPUT + INPUT_POLL_COUNT
};

void watch_start_failed(job *j, int code) {
    other_hosts_report_failure(j, code, j->refusal);
    ending_happened(j, START_FAILED, 0);
}

// ---- Signals to the launcher --------------------------------------------------------------------

static void pause_all(job *j) {
    ending_signal_groups(j, SIGTSTP);
    // By the signal's default action, which the kernel suppresses in an orphaned process group.
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGTSTP);
    sigprocmask(SIG_UNBLOCK, &mask, NULL);
    raise(SIGTSTP);
    sigprocmask(SIG_BLOCK, &mask, NULL);
    ending_signal_groups(j, SIGCONT);
}

static void pass_on(job *j, int signal_number) {
    for (int i = 0; i < j->options.rank_count; i++) {
        if (j->ranks[i].is_running) kill(j->ranks[i].pid, signal_number);
    }
}

static void end_job(job *j, int signal_number) {
    ending_set_code(j, EXIT_SIGNAL + signal_number);
    j->asked_ms = clock_now_ms();
    const link_message m = message_of(LINK_SIGNAL, signal_number, "");
    nodes_send(&j->nodes, &m);
    j->nodes.is_decided = true;
    if (j->is_alone) return;  // the launcher only waited for a reader of its output
    if (j->policy.stage == AWAITING_RANKS) report_signal(j, signal_number);
    ending_happened(j, USER_SIGNAL, signals_to_ranks(signal_number));
}

// SIGTERM, or a signal that means the same.
static void leave(job *j, int signal_number) {
    if (j->leaves || other_hosts_may_leave(j))
        other_hosts_leave(j, signal_number);
    else
        end_job(j, SIGTERM);
}

static void take_user_signal(job *j, int signal_number) {
    switch (run_on_signal(&j->options, signal_number)) {
    case SIGNAL_DUMP: flight_take_signal(j, signal_number); break;
    case SIGNAL_LEAVE: leave(j, signal_number); break;
    case SIGNAL_FORWARD: pass_on(j, signal_number); break;
    }
}

static void take_signals(job *j) {
    int signal_number;
    for (signal_duty duty; (duty = signals_take(&j->signals, &signal_number)) != DUTY_NONE;) {
        switch (duty) {
        case DUTY_END:
            if (signal_number == SIGTERM)
                leave(j, signal_number);
            else
                end_job(j, signal_number);
            break;
        case DUTY_PAUSE: pause_all(j); break;
        case DUTY_RESUME: ending_signal_groups(j, SIGCONT); break;
        case DUTY_USER: take_user_signal(j, signal_number); break;
        case DUTY_CHILD:
        case DUTY_NONE: break;
        }
    }
}

static void take_stop(job *j) {
    int signal_number = j->stop_signal;
    j->stop_signal = 0;
    if (signal_number) end_job(j, signal_number);
}

// ---- Ends of processes --------------------------------------------------------------------------

static rank *find_rank(job *j, pid_t pid) {
    for (int i = 0; i < j->options.rank_count; i++) {
        if (j->ranks[i].is_running && j->ranks[i].pid == pid) return &j->ranks[i];
    }
    return NULL;
}

// The process of |r| has ended, and was not waited for: its group is still its own. The next attempt of a rank finds nothing
// of a failed one.
static void prepare_end(job *j, rank *r, const siginfo_t *how) {
    bool exits_with_0 = how->si_code == CLD_EXITED && how->si_status == 0;
    bool has_failed = failures_has_failed(roles_policy(&j->options, (int)(r - j->ranks)),
                                          exits_with_0, exits_with_0 && slot_leaves_members(j, r));
    r->has_ended_early = has_failed && exits_with_0;
    // Processes that were asked to end have the grace time for it.
    bool was_asked = j->policy.stage != AWAITING_RANKS;
    if (has_failed && !was_asked && run_restarts(&j->options)) kill(-r->pid, SIGKILL);
}

static void monitor_ended(job *j) {
    bool runs = monitor_process_restart(&j->monitor);
    sink_print(j->messages, "the process that serves the page of the job has ended%s",
               runs ? "; it starts again" : "");
}

static void rank_ended(job *j, rank *r, int status) {
    r->is_running = false;
    r->status = status;
    r->ended_ms = clock_now_ms();
    j->running_count--;
    bool is_killed = WIFSIGNALED(status);
    log_folder_event(&j->logs, "exited", "s:i, s:i, s:i", "slot",
                     run_rank(&j->options, (int)(r - j->ranks)), "attempt", r->attempt,
                     is_killed ? "signal" : "code",
                     is_killed ? WTERMSIG(status) : WEXITSTATUS(status));
    for (int k = 0; k < OUTPUTS; k++) output_drain(&r->outputs[k]);
    stragglers_replace(j, r);
}

// All reports of a process are read before it is waited for: after that its pid no longer identifies it.
static void reap(job *j) {
    bool any = false;
    for (siginfo_t ended = { 0 }; waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) == 0;
         ended.si_pid = 0) {
        int status;
        if (!ended.si_pid) break;
        members_take_events(j);
        rank *r = find_rank(j, ended.si_pid);
        if (r) prepare_end(j, r, &ended);
        if (waitpid(ended.si_pid, &status, 0) != ended.si_pid) continue;
        j->tree_has_changed = any = true;
        if (ended.si_pid == j->guard.pid) j->guard.pid = 0;
        if (ended.si_pid == j->nodes.pid) j->nodes.pid = 0;
        if (ended.si_pid == j->health.pid) health_ended(j, status);
        if (ended.si_pid == j->monitor.pid) monitor_ended(j);
        if (ended.si_pid == j->recorder.pid) flight_lose_trace(j);
        if (r) rank_ended(j, r, status);
    }
    if (any || clock_now_ms() >= j->judge_ms) causes_judge(j);
}

static bool is_killing(const job *j) {
    return j->policy.stage == AWAITING_DEATH || j->policy.stage == AWAITING_ROUND_DEATH;
}

// The failure of a rank that has ended is judged later, or ranks start again.
static bool is_undecided(const job *j) {
    if (j->policy.stage == AWAITING_HOSTS) return true;
    return j->policy.stage == AWAITING_RANKS &&
           (j->judge_ms != INT64_MAX || restarts_are_awaited(j));
}

// Once no rank runs, looks for processes that ranks have left behind. The guard is a child, too, and ends last.
static void look_for_leftovers(job *j) {
    bool must_look = j->tree_has_changed || is_killing(j);
    if (j->running_count > 0 || j->is_alone || !must_look || is_undecided(j)) return;
    j->tree_has_changed = false;
    int count = ending_sweep(j, 0);
    if (count > 0) {
        ending_happened(j, LEFTOVERS_FOUND, SIGTERM);
        return;
    }
    if (policy_ends_round(&j->policy)) {
        restarts_end_round(j);
        return;
    }
    if (other_hosts_may_restart(j)) {
        other_hosts_await_restart(j);
        return;
    }
    health_close(j);
    guard_close(&j->guard);
    monitor_process_close(&j->monitor);
    pid_t pid = waitpid(-1, NULL, WNOHANG);
    if (pid > 0 && pid == j->nodes.pid) j->nodes.pid = 0;
    if (pid > 0 && pid == j->recorder.pid) flight_lose_trace(j);
    bool has_own_alone = pid == 0 && (j->nodes.pid || j->recorder.pid);
    j->is_alone = count < 0 || (pid < 0 && errno == ECHILD) || has_own_alone;
    j->tree_has_changed = !j->is_alone;
    if (j->is_alone) j->alone_ms = clock_now_ms();
}

// ---- The loop -----------------------------------------------------------------------------------

// At the end the launcher waits only for the reader of its output: without limit, unless a signal has ended the job.
static int64_t deadline_ms(const job *j) {
    if (!j->is_alone) return j->policy.deadline_ms;
    if (!j->asked_ms) return other_hosts_deadline_ms(j);
    return (j->asked_ms > j->alone_ms ? j->asked_ms : j->alone_ms) + SLOW_READER_MS;
}

static int time_to_wait_ms(const job *j) {
    bool looks = j->tree_has_changed && j->running_count == 0 && !j->is_alone;
    if (looks && !is_undecided(j)) return LOOK_AGAIN_MS;
    int64_t until_ms = deadline_ms(j);
    if (restarts_deadline_ms(j) < until_ms) until_ms = restarts_deadline_ms(j);
    if (j->judge_ms < until_ms) until_ms = j->judge_ms;
    if (stops_deadline_ms(j) < until_ms) until_ms = stops_deadline_ms(j);
    if (hang_deadline_ms(j) < until_ms) until_ms = hang_deadline_ms(j);
    if (hung_deadline_ms(j) < until_ms) until_ms = hung_deadline_ms(j);
    if (health_deadline_ms(j) < until_ms) until_ms = health_deadline_ms(j);
    if (stragglers_deadline_ms(j) < until_ms) until_ms = stragglers_deadline_ms(j);
    if (nodes_deadline_ms(&j->nodes) < until_ms) until_ms = nodes_deadline_ms(&j->nodes);
    if (until_ms == INT64_MAX) return -1;
    int64_t left_ms = until_ms - clock_now_ms();
    if (left_ms < 0) return 0;
    if (is_killing(j) && left_ms > LOOK_AGAIN_MS) return LOOK_AGAIN_MS;
    return left_ms < 3600000 ? (int)left_ms : 3600000;
}

static void wait_for_something(job *j) {
    j->polls[POLL_SIGNALS] = (struct pollfd){ .fd = j->signals.fd, .events = POLLIN };
    j->polls[POLL_EVENTS] = (struct pollfd){ .fd = j->channels.poll_fd, .events = POLLIN };
    j->polls[POLL_NODES] = nodes_poll(&j->nodes);
    input_poll(&j->input, j->polls + POLL_INPUT);
    flow_poll(j, j->polls + POLL_FLOW);
    // poll() fails if it is interrupted or memory is short for a moment: then nothing is ready.
    poll(j->polls, (nfds_t)(POLL_FLOW + flow_poll_count(j)), time_to_wait_ms(j));
}

static void start_again(job *j) {
    int code;
    char why[LINK_TEXT_SIZE];
    if (restarts_start(j, &code)) return;
    snprintf(why, sizeof why, "ranks do not start again: %.*s", LINK_TEXT_SIZE / 2, j->refusal);
    other_hosts_report_failure(j, code, why);
    ending_happened(j, RANK_FAILED, SIGTERM);
}

static void turn(job *j) {
    wait_for_something(j);
    nodes_send_heartbeat(&j->nodes);
    nodes_flush(&j->nodes);
    take_signals(j);
    members_take_events(j);
    take_stop(j);
    reap(j);
    stops_take(j);
    if (clock_now_ms() >= stops_deadline_ms(j)) stops_end(j);
    if (clock_now_ms() >= hang_deadline_ms(j)) hang_check(j);
    if (clock_now_ms() >= hung_deadline_ms(j)) hung_end(j);
    if (clock_now_ms() >= health_deadline_ms(j)) health_run(j);
    if (clock_now_ms() >= stragglers_deadline_ms(j)) stragglers_check(j);
    other_hosts_take(j);
    members_find_absent(j);
    flow_read(j, j->polls + POLL_FLOW);
    input_relay(&j->input, j->polls + POLL_INPUT);
    look_for_leftovers(j);
    start_again(j);
    if (j->is_alone) flow_finish(j);
    flow_write(j);
    if (!j->is_alone && clock_now_ms() >= deadline_ms(j)) ending_happened(j, TIME_IS_UP, SIGTERM);
}

static bool is_over(job *j) {
    if (!j->is_alone) return j->policy.stage == AWAITING_NOTHING;
    if (other_hosts_are_awaited(j)) return false;
    return flow_is_done(j) || clock_now_ms() >= deadline_ms(j);
}

// --min-success on one host: whether enough ranks have exited with 0, if nothing but failures has ended the job.
static bool has_min_success(const job *j) {
    if (!j->options.min_success || j->asked_ms || j->refusal[0]) return false;
    return slots_count_successes(j) >= j->options.min_success;
}

// A host that leaves ends well if its ranks do. If the job has ended meanwhile, the outcome counts.
static void set_code_of_leaving(job *j) {
    bool has_succeeded = slots_count_successes(j) == j->options.rank_count;
    ending_set_code(j, has_succeeded ? 0 : EXIT_SIGNAL + SIGTERM);
}

int watch(job *j) {
    j->tree_has_changed = true;
    while (!is_over(j)) turn(j);
    report_end(j);
    flight_print_path(j);
    while (!is_over(j)) turn(j);
    if (!j->is_alone) {
        report_unkillable(j);
        if (j->exit_code == 0) j->exit_code = EXIT_OWN_FAILURE;
    }
    bool decides_alone = !run_has_hosts(&j->options) && j->is_alone;
    if (decides_alone && has_min_success(j)) j->exit_code = 0;
    if (j->leaves) set_code_of_leaving(j);
    log_folder_event(&j->logs, "ended", "s:i", "code", j->exit_code);
    bool is_lost = false;
    for (int i = 0; i < OUTPUTS; i++) is_lost |= j->sinks[i].error && !j->sinks[i].is_broken;
    return is_lost && j->exit_code == 0 ? EXIT_OUTPUT_LOST : j->exit_code;
}
