#include "watch/stragglers.h"

#include <signal.h>
#include <stdlib.h>

#include "job/report.h"
#include "observe/straggler.h"
#include "system/clock.h"

enum { CHECK_MS = 5000, STEPS = 100, SHARE_PERCENT = 20 };

static void name_straggler(job *j, rank *r, double share) {
    bool leaves = j->options.on_straggler == STRAGGLER_REPLACE && r->is_elastic;
    report_straggler(j, r, share, STEPS, leaves);
    r->is_straggler = true;
    r->is_replaced = leaves;
    if (leaves) kill(r->pid, SIGTERM);
}

void stragglers_check(job *j) {
    char why[IMAGE_WHY_SIZE];
    size_t most = (size_t)j->options.rank_count;
    image *images = calloc(most, sizeof *images);
    rank **ranks = calloc(most, sizeof(rank *));
    int count = 0;
    double share;
    for (int i = 0; images && ranks && i < j->options.rank_count; i++) {
        rank *r = &j->ranks[i];
        if (!r->is_running || r->flight_fd <= 0) continue;
        if (image_take(r->flight_fd, &images[count], why, sizeof why)) ranks[count++] = r;
    }
    int found = count > 1 ? straggler_find(images, count, STEPS, &share) : -1;
    if (found >= 0 && share * 100 > SHARE_PERCENT && !ranks[found]->is_straggler)
        name_straggler(j, ranks[found], share);
    if (images) image_free_all(images, count);
    free(ranks);
    j->stragglers_checked_ms = clock_now_ms();
}

int64_t stragglers_deadline_ms(const job *j) {
    bool checks = j->options.on_straggler != STRAGGLER_IGNORE && j->options.rank_count > 1 &&
                  j->policy.stage == AWAITING_RANKS && j->has_joined;
    return checks ? j->stragglers_checked_ms + CHECK_MS : INT64_MAX;
}

// The restart costs nothing: no attempt has failed.
void stragglers_replace(job *j, rank *r) {
    bool follows = r->is_replaced && r->status == 0 && !r->has_ended_early && !j->is_finished &&
                   j->policy.stage == AWAITING_RANKS;
    r->is_replaced = false;
    if (!follows) return;
    r->awaits_start = true;
    r->start_ms = clock_now_ms();
    r->next_attempt = r->attempt + 1;
}
