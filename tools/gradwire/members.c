#include "members.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "report.h"

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
    return proc_read(m->process.pid, &p) && p.start_time == m->process.start_time &&
           !proc_is_zombie(&p);
}

// Who is not noted for want of memory is not ended when it is declared dead.
static void add_member(job *j, const news *n) {
    proc p;
    if (!proc_read(n->from, &p)) return;
    if (j->member_count == j->member_capacity) {
        int more = j->member_capacity ? 2 * j->member_capacity : 64;
        job_member *larger = realloc(j->members, (size_t)more * sizeof *larger);
        if (!larger) return;
        j->members = larger;
        j->member_capacity = more;
    }
    j->members[j->member_count++] =
        (job_member){ .incarnation = n->incarnation, .process = p, .is_joining = true };
    rank *r = find_rank(j, p.group);
    if (r) r->has_joined = true;
}

// The others go on without it, so it can only hold up the job.
static void end_member(job *j, const job_member *m, const char *why) {
    if (!is_running(m)) return;
    rank *r = find_rank(j, m->process.pid);
    if (r) r->is_dead = true;
    report_dead(j, r, m->process.pid, why);
    proc_signal(&m->process, SIGKILL);
}

// It may be of another host, whose launcher knows its process.
static void tell_others(job *j, const news *n) {
    char text[NEWS_TEXT_SIZE + 32];
    snprintf(text, sizeof text, "%016" PRIx64 " %s", n->incarnation, n->why);
    nodes_tell(&j->nodes, LINK_DEAD, 0, text);
}

void members_end(job *j, const char *text) {
    uint64_t incarnation;
    int at = 0;
    if (sscanf(text, "%16" SCNx64 " %n", &incarnation, &at) != 1) return;
    const job_member *m = find_member(j, incarnation);
    if (m) end_member(j, m, text + at);
}

void members_take_news(job *j) {
    for (news n; news_take(j->news_fd, &n);) {
        job_member *m = find_member(j, n.incarnation);
        if (n.kind == NEWS_JOINS && !m) add_member(j, &n);
        if ((n.kind == NEWS_JOINED || n.kind == NEWS_REFUSED) && m) m->is_joining = false;
        if (n.kind == NEWS_DEAD && m) end_member(j, m, n.why);
        if (n.kind == NEWS_DEAD && !m) tell_others(j, &n);
    }
}

static int count_joining(const job *j) {
    int count = 0;
    for (int i = 0; i < j->member_count; i++)
        count += j->members[i].is_joining && is_running(&j->members[i]);
    return count;
}

void members_name_absent(job *j) {
    int joining_count = -1;
    for (int i = 0; i < j->options.rank_count; i++) {
        rank *r = &j->ranks[i];
        if (!r->pid || r->is_running || r->status || r->has_joined || r->is_told_absent) continue;
        if (joining_count < 0) joining_count = count_joining(j);
        if (!joining_count) return;
        r->is_told_absent = true;
        report_absent(j, r, joining_count);
    }
}
