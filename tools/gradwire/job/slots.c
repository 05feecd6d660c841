#include "job/slots.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/settings/error_file.h"
#include "options/command.h"

// Over several hosts they are kept: all others may be members of other hosts.
static void forget_members(job *j, const rank *r) {
    int kept = 0;
    for (int i = 0; i < j->member_count; i++) {
        job_member *m = &j->members[i];
        if (m->rank == r && !nodes_are_open(&j->nodes)) continue;
        if (m->rank == r) *m = (job_member){ .incarnation = m->incarnation, .is_former = true };
        j->members[kept++] = *m;
    }
    j->member_count = kept;
}

// The other ranks have survived the loss of |r|, or fail for a reason that they report.
static void forget_loss(job *j, const rank *r) {
    for (int i = 0; i < j->options.rank_count; i++) {
        rank *x = &j->ranks[i];
        bool is_lost = x->lost_absent == r;
        for (int k = 0; k < j->member_count && x->lost_member && !is_lost; k++)
            is_lost = j->members[k].rank == r && j->members[k].incarnation == x->lost_member;
        if (!is_lost) continue;
        x->lost_absent = NULL;
        x->lost_member = 0;
        x->lost_why[0] = '\0';
    }
}

void slot_clear(job *j, rank *r, int attempt) {
    forget_loss(j, r);
    forget_members(j, r);
    slot_close_output(r);
    slot_close_flight(r);
    memset(r, 0, offsetof(rank, attempt));
    r->attempt = attempt;
    r->last.count = 0;
}

bool slot_is_due(const rank *r, int64_t now_ms) {
    if (!r->awaits_start || now_ms < r->start_ms) return false;
    for (int k = 0; k < OUTPUTS; k++)
        if (output_has_more(&r->outputs[k])) return false;
    return true;
}

bool slot_leaves_members(const job *j, const rank *r) {
    bool any = false;
    for (int i = 0; i < j->member_count; i++) {
        const job_member *m = &j->members[i];
        if (m->rank != r || !m->has_joined) continue;
        if (m->has_left) return false;
        any = true;
    }
    return any;
}

// A rank that has exited with 0 too early fails the job as well.
int slot_exit_code(const rank *r) {
    if (r->has_ended_early) return EXIT_LEFT_BEHIND;
    return WIFSIGNALED(r->status) ? EXIT_SIGNAL + WTERMSIG(r->status) : WEXITSTATUS(r->status);
}

uint64_t slot_incarnation(const job *j, const rank *r) {
    for (int i = 0; i < j->member_count; i++)
        if (j->members[i].rank == r) return j->members[i].incarnation;
    return 0;
}

int slots_count_successes(const job *j) {
    int count = 0;
    for (int i = 0; i < j->options.rank_count; i++)
        count += j->ranks[i].pid && !j->ranks[i].is_running && !j->ranks[i].status;
    return count;
}

bool slots_have_state(const job *j) {
    for (int i = 0; i < j->options.rank_count; i++)
        if (j->ranks[i].is_running && j->ranks[i].has_state) return true;
    return false;
}

void slots_clear_absence(job *j) {
    j->absence[0] = '\0';
    j->absent = NULL;
    j->absence_is_sent = false;
}

void slot_close_flight(rank *r) {
    if (r->flight_fd > 0) close(r->flight_fd);
    r->flight_fd = 0;
}

void slot_close_output(rank *r) {
    for (int k = 0; k < OUTPUTS; k++) {
        output_finish(&r->outputs[k]);
        log_close(&r->logs[k]);
    }
    log_close(&r->log);
}

void slot_write_error(const job *j, rank *r, const char *why) {
    char path[LOG_PATH_BYTES], status[32];
    int number = run_rank(&j->options, (int)(r - j->ranks));
    if (!j->options.log_dir) return;
    if (!log_folder_path(&j->logs, number, r->attempt, "error.json", path)) return;
    if (access(path, F_OK) == 0) return;
    if (WIFSIGNALED(r->status))
        snprintf(status, sizeof status, "signal %d", WTERMSIG(r->status));
    else
        snprintf(status, sizeof status, "exit code %d", WEXITSTATUS(r->status));
    error_report e = {
        .message = why, .status = status, .worker = "", .slot = number, .attempt = r->attempt
    };
    r->is_described = error_file_write(path, &e);
}
