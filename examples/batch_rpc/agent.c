// An agent that runs its policy once for the states of all observers.
// Observers play in step. Each observer requests an action; the call of the last one runs the policy and resolves the
// calls of all.
#include "../common/cartpole.h"
#include "learners.h"

#include <float.h>
#include <stdio.h>
#include <string.h>

static const double goal = 400;

typedef struct agent {
    gw_scope *own, *episode;  // lives as long as the agent, as the graph between two lessons
    gw_module *policy;        // states, N 4 -> probabilities of the actions, N 2
    gw_optimizer *optimizer;
    gw_rref **observers;
    int observer_count;  // N

    float *states;  // N 4, of the waiting observers
    int waiting_count;
    gw_future *actions;  // N: the actions that observers wait for
    gw_future *lost;     // the error if an observer is lost

    gw_tensor *
        *log_probs;  // of the actions taken: N for each step, or 1 for each step and observer
    int log_prob_count;
    int64_t steps;  // of each observer between two lessons
} agent;

GW_CLASS(agent, agent_open);  // lr, steps

static void agent_open(gw_scope *own, agent *self, const gw_args *a) {
    int n = gw_rpc_world_size(own) - 1;
    self->own = own;
    self->steps = gw_arg_int(own, a, 1);
    self->policy = gw_nn_sequential(own, gw_nn_linear(own, 4, 128), gw_nn_relu(own),
                                    gw_nn_linear(own, 128, 2), gw_nn_softmax(own, 1));
    self->optimizer = gw_adam(own, gw_parameters(own, self->policy), .lr = gw_arg_float(own, a, 0));
    self->states = gw_alloc(own, (size_t)n * sizeof(float[4]));
    self->log_probs = gw_alloc(own, (size_t)(n * self->steps) * sizeof(gw_tensor *));
    self->observers = gw_alloc(own, (size_t)n * sizeof(gw_rref *));
    for (int i = 0; i < n && gw_ok(own); i++)
        self->observers[i] = gw_remote(own, i + 1, "observer", i);
    int count;
    const gw_worker *workers = gw_rpc_workers(own, &count);
    self->lost = gw_member_lost(own, workers, count);
    self->observer_count = n;
    self->episode = gw_scope_open(own);
    self->actions = gw_future_open(own);
}

// Samples an action for each of |states|, and stores their log-probabilities at |first|.
static gw_tensor *act(gw_scope *s, agent *self, gw_tensor *states, int first) {
    gw_categorical choice = gw_categorical_from_probs(s, gw_module_call(s, self->policy, states));
    gw_tensor *actions = gw_categorical_sample(s, choice);
    gw_set(self->episode, &self->log_probs[first], gw_categorical_log_prob(s, choice, actions));
    self->log_prob_count++;
    return actions;
}

static gw_value take_own(gw_scope *s, gw_value actions, void *id) {
    return gw_value_of(gw_item_int(s, gw_select(s, gw_tensor_of(s, actions), 0, (intptr_t)id)));
}

// Samples in a scope of the agent's own, so that the random numbers do not depend on which observer calls last.
static void answer_all(agent *self) {
    gw_scope *s = gw_scope_open(self->own);
    gw_tensor *states = gw_from(s, self->states, self->observer_count, 4);
    gw_tensor *actions = act(s, self, states, self->log_prob_count);
    if (gw_ok(s))
        gw_future_set(s, self->actions, actions);
    else
        gw_future_fail(s, self->actions, GW_REMOTE, "%s", gw_scope_error(s)->text);
    gw_scope_close_up(s);
    gw_set(self->own, &self->actions, gw_future_open(self->own));
    self->waiting_count = 0;
}

static bool is_valid(gw_scope *s, const agent *self, int64_t id, gw_tensor *state, int64_t step) {
    bool valid = id >= 0 && id < self->observer_count && step >= 0 && step < self->steps &&
                 gw_numel(state) == 4 && gw_dtype_of(state) == GW_F32;
    if (!valid && gw_ok(s)) gw_fail(s, GW_INVALID, "no such observer, state or step");
    return valid && gw_ok(s);
}

// Observers call this: observer, its state, number of the step. The result follows when all observers have called, or
// one of them is lost.
GW_METHOD(agent, select_action_batch, GW_INLINE, "int, tensor, int") {
    int64_t id = gw_arg_int(s, a, 0);
    gw_tensor *state = gw_arg_tensor(s, a, 1);
    if (!is_valid(s, self, id, state, gw_arg_int(s, a, 2))) return gw_none();
    gw_future *either[] = { self->actions, self->lost };
    gw_future *actions = gw_collect_first(s, either, 2);
    gw_future *own_action = gw_then(s, actions, take_own, (void *)(intptr_t)id);
    memcpy(self->states + 4 * id, gw_data(state), sizeof(float[4]));
    if (++self->waiting_count == self->observer_count) answer_all(self);
    return gw_value_of(own_action);
}

// The same for one observer, with an immediate result.
GW_METHOD(agent, select_action, GW_INLINE, "int, tensor, int") {
    int64_t id = gw_arg_int(s, a, 0), step = gw_arg_int(s, a, 2);
    gw_tensor *state = gw_arg_tensor(s, a, 1);
    if (!is_valid(s, self, id, state, step)) return gw_none();
    int first = (int)(step * self->observer_count + id);
    return gw_value_of(gw_item_int(s, act(s, self, gw_unsqueeze(s, state, 0), first)));
}

// ---- Learning -----------------------------------------------------------------------------------

// All observers play some steps. Their returns: steps N; *out_reward is how long the pole stayed upright.
static gw_tensor *play(gw_scope *s, agent *self, gw_rref *me, const options *o,
                       double *out_reward) {
    int n = self->observer_count;
    gw_future **played = gw_alloc(s, (size_t)n * sizeof *played);
    gw_tensor **returns = gw_alloc(s, (size_t)n * sizeof *returns);
    const char *method = o->no_batch ? "select_action" : "select_action_batch";
    for (int i = 0; i < n; i++)
        played[i] = gw_rpc_async(s, self->observers[i], "play", me, method, o->steps, o->gamma);
    *out_reward = 0;
    for (int i = 0; i < n && gw_ok(s); i++) {
        gw_list *pair = gw_list_of(s, gw_wait(s, played[i]));
        returns[i] = gw_tensor_of(s, gw_list_get(s, pair, 0));
        *out_reward += gw_float_of(s, gw_list_get(s, pair, 1)) / n;
    }
    return gw_stack(s, returns, gw_ok(s) ? n : 0, 1);
}

// REINFORCE (Williams 1992), as in examples/rl_cartpole.
static void learn(gw_scope *s, agent *self, gw_tensor *returns) {
    returns = gw_reshape(s, returns, -1);
    returns = gw_div(s, gw_sub(s, returns, gw_mean(s, returns)),
                     gw_add(s, gw_std(s, returns), FLT_EPSILON));
    gw_tensor *log_probs = gw_cat(s, self->log_probs, self->log_prob_count, 0);
    gw_backward(s, gw_neg(s, gw_mean(s, gw_mul(s, log_probs, returns))));
    gw_optimizer_step(s, self->optimizer);
    memset(self->log_probs, 0, (size_t)self->log_prob_count * sizeof(gw_tensor *));
    self->log_prob_count = 0;
    gw_scope_close_up(self->episode);
    self->episode = gw_scope_open(self->own);
}

bool agent_learn(gw_scope *root, const options *o, curve *progress) {
    gw_rref *me = gw_remote(root, gw_rpc_self(root), "agent", o->lr, o->steps);
    int n = gw_rpc_world_size(root) - 1;
    double running = 0, since_s = now_s();
    int64_t episode = 0;
    progress->options = (curve_options){
        .title = "running reward", .x_label = "episode", .max = 500, .goal = goal
    };
    while (episode < o->episodes && running < goal && gw_ok(root)) {
        gw_scope *s = gw_scope_open(root);
        agent *self = gw_local(s, me, agent);
        double reward = 0;
        gw_tensor *returns = self ? play(s, self, me, o, &reward) : NULL;
        if (gw_ok(s)) learn(s, self, returns);
        running = 0.8 * running + 0.2 * reward;
        const char *line = gw_format(s, "episode %3d  reward %.1f  running reward %.1f",
                                     (int)++episode, reward, running);
        if (gw_ok(s)) curve_add(progress, running, line);
        if (gw_ok(s) && (episode % 10 == 0 || running >= goal)) curve_print(progress, line);
        gw_scope_close_up(s);
    }
    if (gw_ok(root))
        printf("%d observers, answered %s: %.0f steps a second\n", n,
               o->no_batch ? "one by one" : "together",
               (double)(episode * o->steps * n) / (now_s() - since_s));
    return running >= goal;
}
