// What a run waits for: the programs of the partners that have not entered. WAIT-1.
#include "collective/run.h"

#define VERDICT_NS INT64_C(30000000000)  // GRP-10

static int next_missing(const await *w, int *at) {
    const run *r = list_entry(w, const run, await);
    for (; *at < r->group->count; ++*at) {
        const run_partner *m = &r->partners[*at];
        if (m->is_partner && !m->entered) return r->group->members[(*at)++].rank;
    }
    return -1;
}

// The others hear of it by a verdict: GRP-4.
static void end(await *w, int rank, const gw_error *why) {
    run *r = list_entry(w, run, await);
    (void)rank;
    awaits_close_on_loop(w);
    if (r->state != RUN_UNDER_WAY && r->state != RUN_DONE) return;
    env *e = r->group->agent->env;
    if (r->state == RUN_UNDER_WAY) {
        r->has_reported = true;
        env_set_timer(e, &r->timer, env_now_ns(e) + VERDICT_NS);
    }
    group_report_failed_on_loop(r->group, r->sequence->key, r->number, r->number + 1, why);
}

static const await_class await_of_partners = { .next = next_missing, .end = end };

void run_await_programs_on_loop(run *r) {
    agent *a = r->group->agent;
    if (r->enters_missing)
        awaits_open_on_loop(a, &r->await, &await_of_partners, a->rank, r->caller);
}
