#include "options/budget.h"

#include "base/mutation.h"

enum {
    EARLY_MS = 10000,  // an attempt that fails sooner has failed at its beginning
    CRASHES_MAX = 3,
    SOON_MS = 60000,  // restarts of a slot that follow sooner are delayed
    DELAY_MS_MAX = 30000,
};

static bool is_counted(const budget *b, int64_t restart_ms, int64_t now_ms) {
    return !b->window_ms || now_ms - restart_ms < b->window_ms;
}

int budget_left(const budget *b, int64_t now_ms) {
    int left = b->max;
    for (int i = 0; i < b->max && i < b->count; i++)
        left -= is_counted(b, b->restarts_ms[i], now_ms);
    return left;
}

// A program that reports nothing may have worked for long. One that has begun to join has done nothing else yet.
static bool never_joined(const budget_failure *f, bool is_early) {
    return !f->job_has_joined && (f->job_has_begun || is_early);
}

static int64_t delay_ms(const budget *b, const budget_slot *s, int64_t now_ms) {
    if (!s->has_restarted || now_ms - s->restarted_ms >= SOON_MS) return 0;
    int64_t doubled_ms = s->delay_ms ? 2 * s->delay_ms : b->backoff_ms;
    int64_t most_ms = b->backoff_ms > DELAY_MS_MAX ? b->backoff_ms : DELAY_MS_MAX;
    return doubled_ms < most_ms ? doubled_ms : most_ms;
}

budget_decision budget_fail(budget *b, const budget_failure *f, int64_t *out_start_ms) {
    budget_slot *s = &b->slots[f->slot];
    bool is_early = f->now_ms - f->started_ms < EARLY_MS;
    if (never_joined(f, is_early)) return BUDGET_NEVER_JOINED;
    s->early_count = is_early && !f->has_joined ? s->early_count + 1 : 0;
    if (s->early_count == CRASHES_MAX) return BUDGET_CRASH_LOOP;
    if (budget_left(b, f->now_ms) <= 0) return BUDGET_SPENT;
    s->delay_ms = delay_ms(b, s, f->now_ms);
    s->restarted_ms = f->now_ms + s->delay_ms;
    s->has_restarted = true;
    if (!has_mutation(MUTATION_BUDGET_NOT_CHARGED)) b->restarts_ms[b->count++ % b->max] = f->now_ms;
    *out_start_ms = s->restarted_ms;
    return BUDGET_RESTART;
}
