#include "agent.h"

#include <float.h>

// agent(gamma): makes an observer on every other worker.
GW_CLASS(agent, agent_open, agent_close, "float");

static void agent_open(gw_scope *own, agent *self, const gw_args *a) {
    self->own = own;
    self->episode = gw_scope_open(own);
    self->gamma = gw_arg_float(own, a, 0);
    self->policy =
        gw_nn_sequential(own, gw_nn_linear(own, 4, 128), gw_nn_dropout(own, 0.6), gw_nn_relu(own),
                         gw_nn_linear(own, 128, 2), gw_nn_softmax(own, 1));
    self->optimizer = gw_adam(own, gw_parameters(own, self->policy), .lr = 1e-2);

    int observers = gw_rpc_world_size(own) - 1;
    self->tracks = gw_alloc(own, (size_t)observers * sizeof *self->tracks);
    for (int i = 0; i < observers && gw_ok(own); i++)
        self->tracks[i].observer = gw_remote(own, i + 1, "observer", i);
    self->track_count = gw_ok(own) ? observers : 0;
}

static void agent_close(agent *self) {
    gw_scope_close_up(self->episode);
}

static track *track_of(gw_scope *s, agent *self, int64_t id) {
    if (id >= 0 && id < self->track_count) return &self->tracks[id];
    gw_fail(s, GW_INVALID, "no observer %lld", (long long)id);
    return NULL;
}

// Observers call this: samples an action for |state| and stores its log-probability.
GW_METHOD(agent, select_action, GW_INLINE, "int, tensor") {
    track *t = track_of(s, self, gw_arg_int(s, a, 0));
    if (!t || t->action_count == CARTPOLE_STEPS_MAX) return gw_none();
    gw_tensor *state = gw_unsqueeze(s, gw_arg_tensor(s, a, 1), 0);
    gw_categorical choice = gw_categorical_from_probs(s, gw_module_call(s, self->policy, state));
    gw_tensor *action = gw_categorical_sample(s, choice);
    gw_tensor *log_prob = gw_categorical_log_prob(s, choice, action);
    t->log_probs[t->action_count++] = gw_keep(self->episode, log_prob);
    return gw_value_of(gw_item_int(s, action));
}

// Observers call this with the reward of the last action.
GW_METHOD(agent, report_reward, GW_INLINE, "int, float") {
    track *t = track_of(s, self, gw_arg_int(s, a, 0));
    if (t && t->reward_count < CARTPOLE_STEPS_MAX)
        t->rewards[t->reward_count++] = gw_arg_float(s, a, 1);
    return gw_none();
}

void agent_run_episode(gw_scope *s, agent *self, gw_rref *me) {
    gw_future **futures = gw_alloc(s, (size_t)self->track_count * sizeof *futures);
    if (!futures) return;
    for (int i = 0; i < self->track_count; i++)
        futures[i] = gw_rpc_async(s, self->tracks[i].observer, "run_episode", me);
    gw_wait_all(s, futures, self->track_count);
}

int agent_steps(const agent *self) {
    int steps = 0;
    for (int i = 0; i < self->track_count; i++) steps += self->tracks[i].action_count;
    return steps;
}

double agent_finish_episode(gw_scope *s, agent *self) {
    int steps = agent_steps(self), n = 0;
    double least = DBL_MAX;
    float *discounted = gw_alloc(s, (size_t)steps * sizeof *discounted);
    gw_tensor **log_probs = gw_alloc(s, (size_t)steps * sizeof(gw_tensor *));
    if (!discounted || !log_probs) return 0;
    for (int i = 0; i < self->track_count; i++) {
        track *t = &self->tracks[i];
        double rewards = 0, value = 0;  // reset for each observer
        for (int step = t->action_count - 1; step >= 0; step--) {
            rewards += t->rewards[step];
            value = t->rewards[step] + self->gamma * value;
            discounted[n + step] = (float)value;
            log_probs[n + step] = t->log_probs[step];
        }
        n += t->action_count;
        if (rewards < least) least = rewards;
        t->action_count = t->reward_count = 0;
    }
    self->running_reward = 0.05 * least + 0.95 * self->running_reward;

    gw_tensor *returns = gw_from(s, discounted, n);
    returns = gw_div(s, gw_sub(s, returns, gw_mean(s, returns)),
                     gw_add(s, gw_std(s, returns), FLT_EPSILON));
    gw_tensor *loss = gw_neg(s, gw_sum(s, gw_mul(s, gw_cat(s, log_probs, n, 0), returns)));
    gw_backward(s, loss);
    gw_optimizer_step(s, self->optimizer);

    gw_scope_close_up(self->episode);
    self->episode = gw_scope_open(self->own);
    return least;
}
