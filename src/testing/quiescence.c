#include "testing/quiescence.h"

enum { MS = 1000 * 1000 };

void sim_pass_time(env *e, int64_t ns) {
    waiter wait = { .what = "the others" };
    env_enter(e);
    env_wait(e, &wait, env_now_ns(e) + ns);
    env_leave(e);
}

static bool all_have_arrived(const quiescence *q, int phase) {
    for (int i = 0; i < q->count; i++)
        if (!q->is_out(q->context, i) && q->phases[i] < phase) return false;
    return true;
}

// How long it may take until all workers have received the faults and no message is under way.
static int64_t calm_ns(const quiescence *q) {
    sim_counts c = sim_count(q->sim);
    int64_t calm = SIM_SECOND + 50 * q->delay_max_ns;
    if (c.cuts + c.frames_lost > 0) calm += 3 * SIM_SECOND;
    if (c.crashes > 0) calm += 2 * SIM_SECOND;
    if (c.stops + c.partitions > 0) calm += 30 * SIM_SECOND;
    return calm;
}

static bool is_calm(const quiescence *q, int64_t since_ns) {
    int64_t fault_ns = sim_last_fault_ns(q->sim);
    if (fault_ns > since_ns) since_ns = fault_ns;
    return sim_plan_is_over(q->sim) && sim_now_ns(q->sim) > since_ns + calm_ns(q);
}

bool quiescence_await(quiescence *q, env *e, int worker) {
    int phase = ++q->phases[worker];
    while (!all_have_arrived(q, phase)) {
        if (sim_is_ghost(e)) return false;
        sim_pass_time(e, 50 * MS);
    }
    int64_t since_ns = sim_now_ns(q->sim);
    while (q->checked < phase && !is_calm(q, since_ns)) {
        if (sim_is_ghost(e)) return false;
        sim_pass_time(e, 500 * MS);
    }
    if (q->checked >= phase) return false;
    q->checked = phase;
    return true;
}
