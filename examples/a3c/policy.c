#include "policy.h"

enum { WIDTH = 64 };

static gw_module *tower(gw_scope *s, int in, int out) {
    return gw_nn_sequential(s, gw_nn_linear(s, in, WIDTH), gw_nn_tanh(s),
                            gw_nn_linear(s, WIDTH, WIDTH), gw_nn_tanh(s),
                            gw_nn_linear(s, WIDTH, out));
}

// The weights of the actor's last layer start small, so that all actions start with about the same probability.
static void shrink(gw_scope *s, gw_module *actor) {
    gw_scope *plain = gw_scope_open(s);
    gw_no_grad(plain);
    gw_tensor *last = gw_module_parameter_get(plain, actor, "4.weight");
    gw_mul_(plain, last, 0.1);
    gw_scope_close_up(plain);
}

// The actor returns scores of actions, or the mean of the action. states: N S, result: N A.
static gw_tensor *forward(gw_scope *s, gw_module *m, gw_tensor *states) {
    return gw_module_call(s, gw_module_child(s, m, "actor"), states);
}

gw_module *policy_open(gw_scope *s, const task *t) {
    gw_module *m = gw_module_open(s, "policy", forward, NULL);
    gw_module *actor = tower(s, t->state_size, t->action_count ? t->action_count : 1);
    shrink(s, actor);
    if (!t->action_count) actor = gw_nn_sequential(s, actor, gw_nn_tanh(s));  // -1 to 1
    gw_module_register_module(s, m, "actor", actor);
    gw_module_register_module(s, m, "critic", tower(s, t->state_size, 1));
    if (!t->action_count) gw_module_register_parameter(s, m, "log_std", gw_zeros(s, GW_F32, 1));
    return m;
}

static gw_tensor *values_of(gw_scope *s, gw_module *policy, gw_tensor *states) {
    return gw_squeeze(s, gw_module_call(s, gw_module_child(s, policy, "critic"), states), 1);
}

decision policy_decide(gw_scope *s, const task *t, gw_module *policy, gw_tensor *states,
                       bool greedy) {
    gw_no_grad(s);
    gw_tensor *action, *scores = gw_module_call(s, policy, states);
    if (t->action_count && greedy) {
        action = gw_argmax(s, scores, .dim = 1);
    } else if (t->action_count) {
        action = gw_categorical_sample(s, gw_categorical_from_logits(s, scores));
    } else {
        action = gw_squeeze(s, scores, 1);
        gw_tensor *std = gw_exp(s, gw_module_parameter_get(s, policy, "log_std"));
        gw_tensor *noise = gw_randn(s, GW_F32, gw_size(states, 0));
        if (!greedy) action = gw_add(s, action, gw_mul(s, noise, std));
    }
    return (decision){ gw_data(gw_contiguous(s, gw_to_dtype(s, action, GW_F32))),
                       gw_data(gw_contiguous(s, values_of(s, policy, states))) };
}

gw_tensor *policy_loss(gw_scope *s, const task *t, gw_module *policy, experience e) {
    gw_tensor *log_prob, *entropy, *scores = gw_module_call(s, policy, e.states);
    if (t->action_count) {
        gw_categorical choice = gw_categorical_from_logits(s, scores);
        log_prob = gw_categorical_log_prob(s, choice, gw_to_dtype(s, e.actions, GW_I64));
        entropy = gw_mean(s, gw_categorical_entropy(s, choice));
    } else {  // the normal distribution's, without its constant
        gw_tensor *log_std = gw_module_parameter_get(s, policy, "log_std");
        gw_tensor *off =
            gw_div(s, gw_sub(s, e.actions, gw_squeeze(s, scores, 1)), gw_exp(s, log_std));
        log_prob = gw_sub(s, gw_mul(s, gw_mul(s, off, off), -0.5), log_std);
        entropy = gw_mean(s, log_std);
    }
    gw_tensor *gain = gw_mean(s, gw_mul(s, log_prob, e.advantages));
    gw_tensor *surprise = gw_mse(s, values_of(s, policy, e.states), e.returns);
    gw_tensor *loss = gw_sub(s, gw_mul(s, surprise, 0.5), gain);
    return gw_sub(s, loss, gw_mul(s, entropy, t->entropy));
}
