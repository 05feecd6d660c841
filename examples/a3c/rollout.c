#include "rollout.h"

#include <string.h>

static void reset(gw_scope *s, const task *t, environment *e) {
    const float *noise = gw_data(gw_rand(s, GW_F32, NOISE_COUNT));
    if (gw_ok(s)) t->reset(e, noise);
}

player player_open(gw_scope *s, const task *t, gw_module *policy, int64_t environments) {
    player p = { t, policy, (int)environments,
                 gw_alloc(s, (size_t)environments * sizeof *p.environments) };
    for (int i = 0; i < p.count && gw_ok(s); i++) reset(s, t, &p.environments[i]);
    return p;
}

// Returns N S, and writes the same numbers to |out|.
static gw_tensor *observe(gw_scope *s, const player *p, float *out) {
    for (int i = 0; i < p->count; i++)
        p->task->observe(&p->environments[i], out + i * p->task->state_size);
    return gw_from(s, out, p->count, p->task->state_size);
}

// What the rollout keeps of one environment's step.
typedef struct moment {
    float action, value, reward, next_value;
    bool ended;
} moment;

// Steps all environments. |next_value| stays unset until the next step, except where an episode was cut.
static void step_all(gw_scope *s, player *p, decision d, moment *now, gw_list *scores) {
    const task *t = p->task;
    for (int i = 0; i < p->count; i++) {
        environment *e = &p->environments[i];
        bool ended, cut;
        double reward = t->step(e, d.actions[i], &ended, &cut) * t->reward_scale;
        now[i] = (moment){ d.actions[i], d.values[i], (float)reward, 0, ended };
        if (!ended) continue;
        if (cut) {  // the episode could continue from here
            float state[STATE_MAX];
            t->observe(e, state);
            gw_tensor *last = gw_from(s, state, 1, t->state_size);
            const float *value = policy_decide(s, t, p->policy, last, true).values;
            now[i].next_value = gw_ok(s) ? *value : 0;
        }
        gw_list_add(s, scores, e->score);
        reset(s, t, e);
    }
}

// Generalised advantages (Schulman et al. 2016), computed from the last step to the first.
static void compute_advantages(const task *t, const moment *moments, int count, float *advantages,
                               float *returns) {
    for (int i = 0; i < count; i++) {
        double advantage = 0;
        for (int64_t step = t->rollout - 1; step >= 0; step--) {
            const moment *m = &moments[step * count + i];
            double surprise = m->reward + t->gamma * m->next_value - m->value;
            if (m->ended) advantage = 0;
            advantage = surprise + t->gamma * t->lambda * advantage;
            advantages[step * count + i] = (float)advantage;
            returns[step * count + i] = (float)advantage + m->value;
        }
    }
}

experience player_rollout(gw_scope *s, player *p, gw_list *scores) {
    const task *t = p->task;
    int64_t n = t->rollout * p->count;
    float *states = gw_alloc(s, (size_t)((n + p->count) * t->state_size) * sizeof *states);
    float *numbers = gw_alloc(s, (size_t)n * 3 * sizeof *numbers);
    moment *moments = gw_alloc(s, (size_t)n * sizeof *moments);
    for (int64_t step = 0; step <= t->rollout && gw_ok(s); step++) {
        gw_scope *now = gw_scope_open(s);
        gw_tensor *observed = observe(now, p, states + step * p->count * t->state_size);
        decision d = policy_decide(now, t, p->policy, observed, false);
        for (int i = 0; step > 0 && gw_ok(now) && i < p->count; i++) {
            moment *before = &moments[(step - 1) * p->count + i];
            if (!before->ended) before->next_value = d.values[i];
        }
        if (step < t->rollout && gw_ok(now)) step_all(now, p, d, moments + step * p->count, scores);
        gw_scope_close_up(now);
    }
    if (!gw_ok(s)) return (experience){ 0 };
    compute_advantages(t, moments, p->count, numbers, numbers + n);
    for (int64_t i = 0; i < n; i++) numbers[2 * n + i] = moments[i].action;
    return (experience){ .states = gw_from(s, states, n, t->state_size),
                         .actions = gw_from(s, numbers + 2 * n, n),
                         .advantages = gw_from(s, numbers, n),
                         .returns = gw_from(s, numbers + n, n) };
}

double player_evaluate(gw_scope *s, const task *t, gw_module *policy, int count) {
    player p = player_open(s, t, policy, count);
    float *states = gw_alloc(s, (size_t)(count * t->state_size) * sizeof *states);
    bool *over = gw_alloc(s, (size_t)count * sizeof *over);
    double sum = 0;
    for (int left = count; left > 0 && gw_ok(s);) {
        gw_scope *now = gw_scope_open(s);
        decision d = policy_decide(now, t, policy, observe(now, &p, states), true);
        for (int i = 0; i < count && gw_ok(now); i++) {
            bool cut;
            if (over[i]) continue;
            t->step(&p.environments[i], d.actions[i], &over[i], &cut);
            left -= over[i];
            if (over[i]) sum += p.environments[i].score;
        }
        gw_scope_close_up(now);
    }
    return sum / count;
}
