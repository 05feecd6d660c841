#include "job/report.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "job/summary.h"
#include "system/proc.h"

static int number_of(const job *j, const rank *r) {
    return run_rank(&j->options, (int)(r - j->ranks));
}

// "pid 77", and of which host where there are several.
static const char *place_of(const job *j, pid_t pid, char out[64]) {
    if (!run_has_hosts(&j->options))
        snprintf(out, 64, "pid %d", (int)pid);
    else
        snprintf(out, 64, "host %d, pid %d", j->options.node_rank, (int)pid);
    return out;
}

void report_describe(const job *j, const rank *r, char *out, size_t size) {
    char place[64];
    place_of(j, r->pid, place);
    if (WIFSIGNALED(r->status)) {
        int number = WTERMSIG(r->status);
        snprintf(out, size, "rank %d (%s) was killed by signal %d (%s)%s", number_of(j, r), place,
                 number, strsignal(number), WCOREDUMP(r->status) ? ", core dumped" : "");
    } else {
        snprintf(out, size, "rank %d (%s) exited with code %d%s", number_of(j, r), place,
                 WEXITSTATUS(r->status), r->has_ended_early ? " before it had left the job" : "");
    }
}

void report_describe_failure(const job *j, const rank *r, const rank *cause, char *out,
                             size_t size) {
    char failed[160], first[160];
    report_describe(j, r, failed, sizeof failed);
    if (cause != r && !cause->is_running && !cause->status && !cause->has_ended_early) {
        report_describe(j, cause, first, sizeof first);
        snprintf(out, size, "%s before the job was over, and then %s", first, failed);
    } else if (cause->is_running && cause->failed_ns) {
        snprintf(out, size, "%s, after rank %d had failed: %s", failed, number_of(j, cause),
                 cause->failed_why);
    } else if (cause->is_running || (cause == r && r->lost_why[0])) {
        snprintf(out, size, "%s, after it had lost another worker: %s", failed, r->lost_why);
    } else if (cause == r && r->killed_why[0]) {
        snprintf(out, size, "%s: %s", failed, r->killed_why);
    } else {
        snprintf(out, size, "%s", failed);
    }
}

static const char *name_of(const job *j, int node, char out[64]) {
    if (node < 0 || node == j->options.node_rank)
        snprintf(out, 64, "this host");
    else
        snprintf(out, 64, "host %d", node);
    return out;
}

static const char *plural(int count) {
    return count == 1 ? "" : "s";
}

void report_node(job *j, const link_message *m) {
    char name[64];
    name_of(j, m->node, name);
    switch (m->kind) {
    case LINK_FAILED:
        sink_print(j->messages, "%s%s", m->text, m->refusal ? report_why_none(j, m->refusal) : "");
        break;
    case LINK_SIGNAL:
        sink_print(j->messages, "%s on %s: stopping %d rank%s", signals_name(m->number), name,
                   j->running_count, j->running_count == 1 ? "" : "s");
        break;
    case LINK_LOST:
        sink_print(j->messages, "%s is %s: %s", name,
                   m->node < 0 || m->node == j->options.node_rank ? "cut off from the others"
                                                                  : "lost",
                   m->text);
        break;
    case LINK_ADMIT:
        sink_print(j->messages, "%s has joined the job, which has %d hosts now", name, m->count);
        log_folder_event(&j->logs, "host joined", "s:i, s:i", "host", m->node, "hosts", m->count);
        break;
    case LINK_LEAVES: sink_print(j->messages, "%s leaves the job", name); break;
    case LINK_LEFT:
        sink_print(j->messages, "%s has left the job, which has %d host%s now", name, m->count,
                   plural(m->count));
        log_folder_event(&j->logs, "host left", "s:i, s:i", "host", m->node, "hosts", m->count);
        break;
    case LINK_CANNOT:
        sink_print(j->messages, "the hosts of the job did not meet: %s", m->text);
        break;
    case LINK_GONE:
        sink_print(j->messages, "%s is lost, and the job continues without it: %s", name, m->text);
        log_folder_event(&j->logs, "host lost", "s:i, s:s", "host", m->node, "why", m->text);
        break;
    default: break;  // the others are no events that users see
    }
}

void report_dead(job *j, const rank *r, pid_t pid, const char *why) {
    char name[64];
    if (r)
        snprintf(name, sizeof name, "rank %d (pid %d)", number_of(j, r), (int)pid);
    else
        snprintf(name, sizeof name, "process %d", (int)pid);
    sink_print(j->messages, "the other workers have declared %s dead, so it is killed: %s", name,
               why);
}

void report_killed(job *j, const rank *r) {
    sink_print(j->messages, "rank %d (pid %d) is killed: %s", number_of(j, r), (int)r->pid,
               r->killed_why);
}

void report_straggler(job *j, const rank *r, double share, int steps, bool leaves) {
    sink_print(j->messages,
               "rank %d (pid %d) is a straggler: the other ranks have waited for it for %.0f %% of "
               "the time of the last %d steps%s",
               number_of(j, r), (int)r->pid, share * 100, steps,
               leaves ? "; it leaves, and starts again" : "");
    log_folder_event(&j->logs, "straggler", "s:i, s:i, s:f, s:b", "slot", number_of(j, r),
                     "attempt", r->attempt, "share", share, "leaves", leaves);
}

void report_absent(job *j, const rank *r, int joining_count) {
    sink_print(
        j->messages, "rank %d (pid %d) exited with code 0 without joining, and %d worker%s for it",
        number_of(j, r), (int)r->pid, joining_count, joining_count == 1 ? " waits" : "s wait");
}

void report_signal(job *j, int signal_number) {
    sink_print(j->messages, "%s: stopping %d rank%s; a second signal kills them at once",
               signals_name(signal_number), j->running_count, j->running_count == 1 ? "" : "s");
}

static void print_processes(job *j, int count, const char *what) {
    sink_print(j->messages, "%d process%s %s", count, count == 1 ? "" : "es", what);
}

void report_leftovers(job *j, int count) {
    if (count > 0) print_processes(j, count, "started by the ranks still running: stopping");
}

void report_killing(job *j, int others_count) {
    if (others_count <= 0) return;
    char what[80];
    snprintf(what, sizeof what, "did not end within %g s: killing it",
             (double)j->options.grace_ms / 1000);
    print_processes(j, others_count, what);
}

void report_unkillable(job *j) {
    for (int i = 0; i < j->options.rank_count; i++) {
        const rank *r = &j->ranks[i];
        proc p;
        if (!r->is_running || !proc_read(r->pid, &p)) continue;
        sink_print(j->messages, "rank %d (pid %d) cannot be killed and is left running (state %c)",
                   number_of(j, r), (int)r->pid, p.state);
    }
    if (j->running_count == 0 && !j->is_alone)
        sink_print(j->messages,
                   "processes that ranks have started cannot be killed and are left running");
}

void report_lost_output(job *j, const sink *s) {
    const char *name = s == &j->sinks[0] ? "standard output" : "standard error";
    sink_print(j->messages, "cannot write %s: %s", name, strerror(s->error));
}

void report_restart(job *j, const char *why, const restart_plan *plan) {
    char delay[48] = "";
    if (plan->delay_ms > 0)
        snprintf(delay, sizeof delay, " in %g s", (double)plan->delay_ms / 1000);
    sink_print(j->messages, "%s; %s again%s, attempt %d (%d restart%s left)", why,
               plan->all ? "all ranks start" : "it starts", delay, plan->attempt, plan->left,
               plural(plan->left));
    log_folder_event(&j->logs, plan->all ? "restart-all" : "restart", "s:i, s:i, s:i, s:s", "slot",
                     plan->rank, "attempt", plan->attempt, "left", plan->left, "why", why);
}

void report_failed(job *j, const rank *r, const char *why) {
    log_folder_event(&j->logs, "failed", "s:i, s:i, s:s", "slot", number_of(j, r), "attempt",
                     r->attempt, "why", why);
}

const char *report_why_none(job *j, budget_decision decision) {
    static const char *const reasons[] = {
        [BUDGET_RESTART] = "",
        [BUDGET_SPENT] = "; no restart is left",
        [BUDGET_NEVER_JOINED] = "; it does not start again, since no worker had joined",
        [BUDGET_CRASH_LOOP] =
            "; it does not start again, since it has failed 3 times within 10 s of its start",
        [BUDGET_NO_HOST] = "; not all ranks can start again, since a host is lost",
    };
    log_folder_event(&j->logs, "no restart", "s:s", "why", reasons[decision] + 2);
    return reasons[decision];
}

void report_no_log(job *j, const rank *r, int error) {
    sink_print(j->messages, "attempt %d of rank %d has no log: %s", r->attempt, number_of(j, r),
               strerror(error));
}

void report_not_started(job *j) {
    log_folder_event(&j->logs, "not started", "s:s", "why", j->refusal);
}

void report_end(job *j) {
    if (j->cause && (run_restarts(&j->options) || j->options.log_dir)) {
        summary_print(j, j->cause);
        return;
    }
    if (!j->cause || !last_lines_are_buried(&j->cause->last)) return;
    char text[160];
    report_describe(j, j->cause, text, sizeof text);
    sink_print(j->messages, "%s first; its last lines were:", text);
    last_lines_put(&j->cause->last, j->cause->outputs[0].prefix, j->messages);
}
