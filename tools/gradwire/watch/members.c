#include "watch/members.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watch/events.h"
#include "watch/flight.h"
#include "job/report.h"
#include "system/clock.h"

static rank *find_rank(job *j, pid_t group) {
    for (int i = 0; i < j->options.rank_count; i++) {
        if (j->ranks[i].pid == group) return &j->ranks[i];
    }
    return NULL;
}

static job_member *find_member(job *j, uint64_t incarnation) {
    for (int i = 0; i < j->member_count; i++) {
        if (j->members[i].incarnation == incarnation) return &j->members[i];
    }
    return NULL;
}

static bool is_running(const job_member *m) {
    proc p;
    return m->process.pid && proc_read(m->process.pid, &p) &&
           p.start_time == m->process.start_time && !proc_is_zombie(&p);
}

static job_member *add_entry(job *j, const job_member *m) {
    if (j->member_count == j->member_capacity) {
        int more = j->member_capacity ? 2 * j->member_capacity : 64;
        job_member *larger = realloc(j->members, (size_t)more * sizeof *larger);
        if (!larger) return NULL;
        j->members = larger;
        j->member_capacity = more;
    }
    j->members[j->member_count] = *m;
    return &j->members[j->member_count++];
}

// A member that is not recorded for lack of memory is not ended when it is declared dead.
static job_member *add_member(job *j, const worker_event *n) {
    proc p;
    // A process below its rank that has ended since has reported its group.
    if (!proc_read(n->from->pid, &p)) p = (proc){ .group = (pid_t)strtol(n->why, NULL, 10) };
    const job_member m = { .incarnation = n->incarnation,
                           .process = p,
                           .rank = find_rank(j, p.group) };
    return add_entry(j, &m);
}

// ---- Which rank has lost which, or has failed ------------------------------------------------------------------

// The first loss of a rank is the reason if it fails; later ones may be consequences of the same loss.
static bool is_first_loss(rank *r, const char *why) {
    if (!r || r->lost_why[0] || r->failed_ns) return false;
    snprintf(r->lost_why, sizeof r->lost_why, "%s", why);
    return true;
}

// Once all ranks are asked to end, they all lose each other.
static rank *find_sender(const job *j, const worker_event *n) {
    if (j->policy.stage != AWAITING_RANKS) return NULL;
    for (int i = 0; i < j->member_count; i++)
        if (j->members[i].incarnation == n->from->incarnation) return j->members[i].rank;
    return NULL;
}

// With restarts, a member whose slot has its next attempt is not the cause of a later failure. On one host such a member is
// not recorded any more.
static bool is_former(job *j, uint64_t incarnation) {
    const job_member *m = find_member(j, incarnation);
    if (m) return m->is_former;
    return run_restarts(&j->options) && !nodes_are_open(&j->nodes);
}

// A process that has joined again loses the member that it was before.
static bool has_lost_itself(job *j, const worker_event *n) {
    const job_member *lost = find_member(j, n->incarnation);
    return lost && lost->process.pid == n->from->pid;
}

static void note_lost(job *j, const worker_event *n) {
    rank *r = find_sender(j, n);
    if (is_former(j, n->incarnation) || has_lost_itself(j, n)) return;
    if (is_first_loss(r, n->why)) r->lost_member = n->incarnation;
}

static void note_failed(job *j, const worker_event *n) {
    rank *r = find_sender(j, n);
    char *why;
    int64_t ns = strtoll(n->why, &why, 10);
    if (!r || r->lost_why[0] || r->failed_ns) return;
    r->failed_ns = ns;
    r->failed_from = n->incarnation;
    snprintf(r->failed_why, sizeof r->failed_why, "%s", *why ? why + 1 : why);
}

static void note_continues(job *j, const worker_event *n) {
    rank *r = find_sender(j, n);
    if (r) r->failed_ns = 0;
}

static void note_absent(const job_member *m, rank *absent, const char *how) {
    if (m && m->rank != absent && is_first_loss(m->rank, how)) m->rank->lost_absent = absent;
}

// A report of a loss may arrive before the lost member's own: reports of different workers have no order.
rank *members_lost_by(const job *j, const rank *r) {
    if (r->lost_absent) return r->lost_absent;
    for (int i = 0; r->lost_member && i < j->member_count; i++)
        if (j->members[i].incarnation == r->lost_member) return j->members[i].rank;
    return NULL;
}

static void forget_loss_of(job *j, uint64_t incarnation) {
    for (int i = 0; i < j->options.rank_count; i++) {
        rank *r = &j->ranks[i];
        if (r->lost_member != incarnation) continue;
        r->lost_member = 0;
        r->lost_why[0] = '\0';
    }
    if (j->judge_ms != INT64_MAX) j->judge_ms = clock_now_ms();
}

// Later reports of its loss have no effect either.
void members_forget(job *j, uint64_t incarnation) {
    const job_member former = { .incarnation = incarnation, .is_former = true };
    if (!incarnation || find_member(j, incarnation)) return;
    add_entry(j, &former);
    forget_loss_of(j, incarnation);
}

bool members_failed_elsewhere(const job *j, const rank *r) {
    uint64_t other = r->failed_ns ? r->failed_from : r->lost_member;
    if (!nodes_are_open(&j->nodes) || !other) return false;
    for (int i = 0; i < j->member_count; i++)
        if (j->members[i].incarnation == other) return false;
    return true;
}

rank *members_failed_before(job *j, const rank *r) {
    rank *first = NULL;
    for (int i = 0; i < j->options.rank_count; i++) {
        rank *x = &j->ranks[i];
        if (!x->failed_ns || x == r || (r->failed_ns && r->failed_ns <= x->failed_ns)) continue;
        if (!first || x->failed_ns < first->failed_ns) first = x;
    }
    return first;
}

// The other members continue without it, so it can only delay the end of the job.
static void end_member(job *j, const job_member *m, const char *why) {
    if (!is_running(m)) return;
    rank *r = find_rank(j, m->process.pid);
    hang_before_kill(j, m->process.pid, "is dead to the other workers");
    if (r) snprintf(r->killed_why, sizeof r->killed_why, "%s", why);
    report_dead(j, r, m->process.pid, why);
    proc_signal(&m->process, SIGKILL);
}

// The member may be of another host, whose launcher has its process.
static void notify_other_hosts(job *j, const worker_event *n) {
    char text[EVENT_TEXT_SIZE + 32];
    snprintf(text, sizeof text, "%016" PRIx64 " %s", n->incarnation, n->why);
    const link_message m = message_of(LINK_DEAD, 0, text);
    nodes_send(&j->nodes, &m);
}

static void end_dead(job *j, const job_member *m, const worker_event *n) {
    if (m)
        end_member(j, m, n->why);
    else
        notify_other_hosts(j, n);
}

void members_end(job *j, const char *text) {
    uint64_t incarnation;
    int at = 0;
    if (sscanf(text, "%16" SCNx64 " %n", &incarnation, &at) != 1) return;
    const job_member *m = find_member(j, incarnation);
    if (m) end_member(j, m, text + at);
}

// ---- Joining workers, and ranks that cannot join any more -----------------------------------------

// How a rank has ended, taken from the line about it.
static const char *how_it_ended(const char *line) {
    int at = 0;
    sscanf(line, "ended %*d %*d %n", &at);
    return line + at;
}

static void begin_joining(job *j, const worker_event *n) {
    job_member *m = find_member(j, n->incarnation);
    if (!m) m = add_member(j, n);
    if (m) m->is_joining = true;
    if (m && m->rank) m->rank->has_begun = true;
    j->has_begun = true;
    if (j->is_finished) channel_send(n->from, "finished");
    if (!j->absence[0]) return;
    channel_send(n->from, j->absence);
    note_absent(m, j->absent, how_it_ended(j->absence));
}

static void record(job *j, const rank *r, const char *event) {
    log_folder_event(&j->logs, event, "s:i, s:i", "slot",
                     run_rank(&j->options, (int)(r - j->ranks)), "attempt", r->attempt);
}

static void end_joining(job *j, const worker_event *n) {
    job_member *m = find_member(j, n->incarnation);
    if (!m) return;
    m->is_joining = false;
    if (n->kind != EVENT_JOINED) return;
    m->has_joined = j->has_joined = true;
    if (!m->rank) return;
    m->rank->has_joined = true;
    record(j, m->rank, "joined");
}

static void note_elastic(job *j, const worker_event *n) {
    job_member *m = find_member(j, n->incarnation);
    if (!m || !m->rank) return;
    rank *r = m->rank;
    r->is_elastic = true;
    r->has_state |= !n->why[0];
    // It has joined without the rank that is absent.
    if (r->lost_absent) r->lost_why[0] = '\0';
    r->lost_absent = NULL;
}

static void note_left(job *j, const worker_event *n) {
    job_member *m = find_member(j, n->incarnation);
    if (!m) return;
    m->has_left = true;
    if (m->rank) record(j, m->rank, "left");
}

// Workers that still join would wait for members that may have ended (LAUN-23).
void members_take_finished(job *j) {
    if (j->is_finished) return;
    j->is_finished = true;
    for (int i = 0; i < j->channels.count; i++) {
        const channel *to = j->channels.list[i];
        const job_member *m = find_member(j, to->incarnation);
        if (m && m->is_joining) channel_send(to, "finished");
    }
}

static void note_finished(job *j) {
    if (j->is_finished) return;
    members_take_finished(j);
    const link_message m = message_of(LINK_FINISHED, 0, "");
    nodes_send(&j->nodes, &m);
}

static void note_stop(job *j, const worker_event *n) {
    j->stop_signal = strcmp(n->why, "checkpoint") == 0 ? SIGTERM : SIGINT;
    sink_print(j->messages, "gradwire stop (pid %d): the job ends", (int)n->from->pid);
}

void members_take_events(job *j) {
    for (worker_event n; events_take(&j->channels, &n);) {
        switch (n.kind) {
        case EVENT_JOINS: begin_joining(j, &n); break;
        case EVENT_JOINED:
        case EVENT_REFUSED: end_joining(j, &n); break;
        case EVENT_DEAD:
        case EVENT_LOST:
            note_lost(j, &n);
            if (n.kind == EVENT_DEAD) end_dead(j, find_member(j, n.incarnation), &n);
            break;
        case EVENT_FAILED: note_failed(j, &n); break;
        case EVENT_CONTINUES: note_continues(j, &n); break;
        case EVENT_ELASTIC: note_elastic(j, &n); break;
        case EVENT_LEFT: note_left(j, &n); break;
        case EVENT_FINISHED: note_finished(j); break;
        case EVENT_STOP: note_stop(j, &n); break;
        }
    }
}

static void notify_joining(job *j, rank *absent, const char *line) {
    for (int i = 0; i < j->channels.count; i++) {
        const channel *to = j->channels.list[i];
        const job_member *m = find_member(j, to->incarnation);
        if (!m || !m->is_joining) continue;
        channel_send(to, line);
        note_absent(m, absent, how_it_ended(line));
    }
}

// One absence is enough for workers that begin to join later.
static void keep_absence(job *j, rank *absent, const char *line) {
    if (j->absence[0]) return;
    j->absent = absent;
    snprintf(j->absence, sizeof j->absence, "%s", line);
}

static int count_joining(const job *j) {
    int count = 0;
    for (int i = 0; i < j->member_count; i++)
        count += j->members[i].is_joining && is_running(&j->members[i]);
    return count;
}

bool members_are_joining(const job *j) {
    return count_joining(j) > 0;
}

// The process group of a rank that has ended may have more processes, which may join. With restarts, the next attempt of
// a rank that has failed joins in its place.
static bool is_absent(const job *j, const rank *r) {
    bool is_done = r->pid && !r->is_running && !r->awaits_start && kill(-r->pid, 0) != 0;
    return is_done && !(run_restarts(&j->options) && (r->status || r->has_ended_early));
}

// One absence is enough for all workers that are joining now. A rank that had joined before it ended is absent only for
// workers that begin to join later.
static void notify_absent(job *j, rank *r) {
    char how[160], line[LINK_TEXT_SIZE];
    int number = run_rank(&j->options, (int)(r - j->ranks));
    report_describe(j, r, how, sizeof how);
    snprintf(line, sizeof line, "ended %d %d %s", number, run_world_size(&j->options), how);
    keep_absence(j, r, line);
    if (r->has_joined || j->absence_is_sent) return;
    j->absence_is_sent = true;
    notify_joining(j, r, line);
    const link_message m = message_of(LINK_ABSENT, 0, line);
    nodes_send(&j->nodes, &m);
}

void members_take_absent(job *j, const char *text) {
    keep_absence(j, NULL, text);
    notify_joining(j, NULL, text);
}

void members_take_lost_host(job *j, int node, const char *why) {
    char line[LINK_TEXT_SIZE];
    const run_options *o = &j->options;
    snprintf(line, sizeof line, "ended %d %d host %d is lost: %.*s", node * o->rank_count,
             run_world_size(o), node, LINK_TEXT_SIZE / 2, why);
    members_take_absent(j, line);
    // What its members have been lost for is known now.
    for (int i = 0; i < o->rank_count; i++) {
        uint64_t lost = j->ranks[i].lost_member;
        if (lost && !find_member(j, lost)) forget_loss_of(j, lost);
    }
}

// A rank that has ended with another code has been reported for that.
static void print_absent(job *j, rank *r) {
    if (r->status || r->has_begun || r->is_reported_absent) return;
    int joining_count = count_joining(j);
    r->is_reported_absent = joining_count > 0;
    if (r->is_reported_absent) report_absent(j, r, joining_count);
}

void members_find_absent(job *j) {
    if (j->policy.stage != AWAITING_RANKS) return;  // all ranks are asked to end
    for (int i = 0; i < j->options.rank_count; i++) {
        rank *r = &j->ranks[i];
        if (!r->is_absent && !is_absent(j, r)) continue;
        print_absent(j, r);
        if (!r->is_absent) notify_absent(j, r);
        r->is_absent = true;
    }
}
