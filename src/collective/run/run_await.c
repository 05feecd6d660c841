// The waits of a run: for the programs of partners that have not entered. WAIT-1.
#include "collective/run/run.h"

#define ABORT_NS INT64_C(30000000000)  // GRP-10

static int next_missing(const await *w, int *at) {
    const run *r = list_entry(w, const run, await);
    for (; *at < r->group->count; ++*at) {
        const run_partner *m = &r->partners[*at];
        if (m->is_partner && !m->entered) return r->group->members[(*at)++].rank;
    }
    return -1;
}

// The other members receive it by an abort: GRP-4.
static void give_up(run *r, const gw_error *why) {
    awaits_close_on_loop(&r->await);
    if (r->state != RUN_UNDER_WAY && r->state != RUN_DONE) return;
    env *e = r->group->agent->env;
    if (r->state == RUN_UNDER_WAY) {
        r->has_reported = true;
        env_set_timer(e, &r->timer, env_now_ns(e) + ABORT_NS);
    }
    group_report_failed_on_loop(r->group, r->sequence->key, r->number, r->number + 1, why);
}

static void end(await *w, int rank, const gw_error *why) {
    (void)rank;
    give_up(list_entry(w, run, await), why);
}

static const await_class await_of_partners = { .next = next_missing, .end = end };

void run_await_programs_on_loop(run *r) {
    agent *a = r->group->agent;
    if (r->enters_missing)
        awaits_open_on_loop(a, &r->await, &await_of_partners, a->rank, r->caller);
}

// The first partner that has left without sending a message that this member needs; -1.
static int find_left(const run *r) {
    const gw_group *g = r->group;
    for (int i = 0; i < g->count && g->left_count && !r->has_reported; i++) {
        const run_partner *p = &r->partners[i];
        bool is_needed = p->is_partner && (!p->entered || p->next_receive >= 0);
        if (is_needed && agent_member(g->agent, g->members[i].rank)->lost) return i;
    }
    return -1;
}

bool run_needs_left_on_loop(const run *r) {
    return (r->state == RUN_UNDER_WAY || r->state == RUN_DONE) && find_left(r) >= 0;
}

void run_report_left_on_loop(run *r) {
    const member *m = agent_member(r->group->agent, r->group->members[find_left(r)].rank);
    gw_error why = agent_why_lost(m);
    why.status = GW_DISCONNECTED;
    r->has_reported = true;
    give_up(r, &why);
}
