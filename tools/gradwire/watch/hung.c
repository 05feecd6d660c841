#include "watch/hung.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "job/report.h"
#include "observe/find.h"
#include "system/clock.h"
#include "watch/flight.h"

enum { CHECK_MS = 1000, LATE_MS = 5000 };

typedef struct view {
    image *images;
    rank **ranks;  // of the images
    bool *is_stuck;
    int count;
} view;

static void close_view(view *v) {
    image_free_all(v->images, v->count);
    free(v->ranks);
    free(v->is_stuck);
}

static view open_view(job *j) {
    char why[IMAGE_WHY_SIZE];
    size_t most = (size_t)j->options.rank_count;
    view v = { .images = calloc(most, sizeof *v.images),
               .ranks = calloc(most, sizeof(rank *)),
               .is_stuck = calloc(most, sizeof *v.is_stuck) };
    for (int i = 0; v.images && v.ranks && v.is_stuck && i < j->options.rank_count; i++) {
        rank *r = &j->ranks[i];
        image *x = &v.images[v.count];
        if (!r->is_running || r->flight_fd <= 0 ||
            !image_take_tables(r->flight_fd, x, why, sizeof why))
            continue;
        find_life(x);
        v.ranks[v.count++] = r;
    }
    return v;
}

// Only of a rank that others wait for: reading all records takes a while.
static bool has_stepped(const rank *r) {
    image x;
    char why[IMAGE_WHY_SIZE];
    if (!image_take(r->flight_fd, &x, why, sizeof why)) return false;
    bool has = stuck_has_stepped(&x);
    image_free(&x);
    return has;
}

static void end_hung(job *j, rank *r) {
    char how[80];
    double seconds = (double)j->options.progress_ms / 1000;
    snprintf(how, sizeof how, "has made no step for %g s", seconds);
    hang_before_kill_with_stacks(j, r->pid, how);
    snprintf(r->killed_why, sizeof r->killed_why,
             "it has made no step for %g s, while other workers waited for it", seconds);
    report_killed(j, r);
    kill(-r->pid, SIGKILL);
}

// The launcher may have been stopped together with its ranks, or the host has been asleep.
static void update(job *j, const view *v, int64_t now_ms) {
    bool is_late = now_ms - j->hung_checked_ms > LATE_MS;
    for (int i = 0; i < v->count; i++) {
        if (is_late) v->ranks[i]->progress = (stuck_progress){ 0 };
        stuck_update(&v->ranks[i]->progress, &v->images[i], now_ms);
    }
    j->hung_checked_ms = now_ms;
}

void hung_end(job *j) {
    view v = open_view(j);
    int64_t now_ms = clock_now_ms(), after_ms = j->options.progress_ms;
    update(j, &v, now_ms);
    if (!stuck_find(v.images, v.count, after_ms * 1000000, v.is_stuck)) v.count = 0;
    for (int i = 0; i < v.count; i++) {
        rank *r = v.ranks[i];
        if (v.is_stuck[i] && !r->killed_why[0] &&
            stuck_has_stopped(&r->progress, now_ms, after_ms) && has_stepped(r))
            end_hung(j, r);
    }
    close_view(&v);
}

int64_t hung_deadline_ms(const job *j) {
    bool checks = j->options.progress_ms && j->policy.stage == AWAITING_RANKS && j->has_begun;
    return checks ? j->hung_checked_ms + CHECK_MS : INT64_MAX;
}
