#include "report.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "proc.h"

static int number_of(const job *j, const rank *r) {
    return (int)(r - j->ranks);
}

static void describe_end(const job *j, const rank *r, char *out, size_t size) {
    if (WIFSIGNALED(r->status)) {
        int number = WTERMSIG(r->status);
        snprintf(out, size, "rank %d (pid %d) was killed by signal %d (%s)%s", number_of(j, r),
                 (int)r->pid, number, strsignal(number),
                 WCOREDUMP(r->status) ? ", core dumped" : "");
    } else {
        snprintf(out, size, "rank %d (pid %d) exited with code %d", number_of(j, r), (int)r->pid,
                 WEXITSTATUS(r->status));
    }
}

void report_failure(job *j, const rank *r) {
    char text[160];
    describe_end(j, r, text, sizeof text);
    sink_say(j->say, "%s", text);
}

void report_dead(job *j, const rank *r, pid_t pid, const char *why) {
    char who[64];
    if (r)
        snprintf(who, sizeof who, "rank %d (pid %d)", number_of(j, r), (int)pid);
    else
        snprintf(who, sizeof who, "process %d", (int)pid);
    sink_say(j->say, "%s is dead to the others, and is killed: %s", who, why);
}

void report_absent(job *j, const rank *r, int joining_count) {
    sink_say(j->say, "rank %d (pid %d) exited with code 0 without joining, and %d worker%s for it",
             number_of(j, r), (int)r->pid, joining_count, joining_count == 1 ? " waits" : "s wait");
}

void report_signal(job *j, int signal_number) {
    sink_say(j->say, "%s: stopping %d rank%s; a second one kills at once",
             signals_name(signal_number), j->running_count, j->running_count == 1 ? "" : "s");
}

static void say_processes(job *j, int count, const char *what) {
    sink_say(j->say, "%d process%s %s", count, count == 1 ? "" : "es", what);
}

void report_leftovers(job *j, int count) {
    if (count > 0) say_processes(j, count, "left behind by the ranks: stopping");
}

void report_killing(job *j, int others_count) {
    if (others_count <= 0) return;
    char what[80];
    snprintf(what, sizeof what, "did not end within %g s: killing",
             (double)j->options.grace_ms / 1000);
    say_processes(j, others_count, what);
}

void report_unkillable(job *j) {
    for (int i = 0; i < j->options.rank_count; i++) {
        const rank *r = &j->ranks[i];
        proc p;
        if (!r->is_running || !proc_read(r->pid, &p)) continue;
        sink_say(j->say, "rank %d (pid %d) cannot be killed and is left (state %c)", i, (int)r->pid,
                 p.state);
    }
    if (j->running_count == 0 && !j->is_alone)
        sink_say(j->say, "processes below the ranks cannot be killed and are left");
}

void report_lost_output(job *j, const sink *s) {
    const char *name = s == &j->sinks[0] ? "standard output" : "standard error";
    sink_say(j->say, "cannot write %s: %s", name, strerror(s->error));
}

void report_end(job *j) {
    if (!j->cause || !tail_is_buried(&j->cause->last)) return;
    char text[160];
    describe_end(j, j->cause, text, sizeof text);
    sink_say(j->say, "%s first; its last lines were:", text);
    tail_put(&j->cause->last, j->cause->outputs[0].prefix, j->say);
}
