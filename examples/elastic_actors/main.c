// One learner, and actors that may be killed, leave at SIGTERM, and join at any time, also from other hosts. CartPole-v1 by
// REINFORCE: an actor plays an episode with the weights of the learner, and sends the gradients to it.
//
//     gradwire run --role learner:1:stop --role actor:4:restart --max-restarts 100 -- elastic_actors    kill actors meanwhile
//     gradwire run --nnodes 1:4 -n 5 --rdzv-endpoint head:29500 --key job.key -- elastic_actors        on each host
//
// The rank 0 is the learner. No actor waits for another actor. An actor that has lost the learner continues with the
// learner's next attempt.
#include "../common/cartpole.h"
#include "../common/flags.h"
#include "../common/weights.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

enum { RECENT = 20 };

static int64_t updates = 400;
static double goal;

static gw_module *policy_open(gw_scope *s) {
    return gw_nn_sequential(s, gw_nn_linear(s, 4, 64), gw_nn_tanh(s), gw_nn_linear(s, 64, 2));
}

// ---- The learner --------------------------------------------------------------------------------

typedef struct learner {
    gw_module *policy;
    gw_optimizer *optimizer;
    int64_t update_count;
    double scores[RECENT];
    gw_future *done;
} learner;

GW_CLASS(learner, learner_open, "");

static void learner_open(gw_scope *own, learner *self, const gw_args *a) {
    (void)a;
    self->policy = policy_open(own);
    self->optimizer = gw_adam(own, gw_parameters(own, self->policy), .lr = 1e-2);
    self->done = gw_future_open(own);
}

static double recent_score(const learner *self) {
    int64_t count = self->update_count < RECENT ? self->update_count : RECENT;
    double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += self->scores[i];
    return count ? sum / (double)count : 0;
}

// The weights to continue with; an empty list when learning is over.
GW_METHOD(learner, pull, GW_INLINE, "") {
    return gw_value_of(self->update_count < updates ? weights_of(s, self->policy)
                                                    : gw_list_open(s));
}

GW_METHOD(learner, push, GW_INLINE, "list, float") {  // gradients, score
    if (self->update_count == updates) return gw_none();
    gradients_add(s, self->policy, gw_arg_list(s, a, 0));
    gw_clip_grad_norm(s, gw_parameters(s, self->policy), 1);
    gw_optimizer_step(s, self->optimizer);
    if (!gw_ok(s)) return gw_none();
    self->scores[self->update_count++ % RECENT] = gw_arg_float(s, a, 1);
    if (self->update_count % 50 == 0)
        printf("update %lld: score %.1f\n", (long long)self->update_count, recent_score(self));
    if (self->update_count == updates) gw_future_set(s, self->done, 1);
    return gw_none();
}

static bool learn(gw_scope *root) {
    gw_rref *me = gw_remote(root, gw_rpc_self(root), "learner");
    learner *self = gw_local(root, me, learner);
    gw_rref_set_name(root, me, "learner");
    if (self) gw_wait(root, self->done);
    if (!gw_ok(root)) return false;
    printf("%lld updates, score %.1f\n", (long long)self->update_count, recent_score(self));
    return recent_score(self) >= goal;
}

// ---- An actor -----------------------------------------------------------------------------------

typedef struct episode {
    int count;
    float states[CARTPOLE_STEPS_MAX][4], returns[CARTPOLE_STEPS_MAX];
    int64_t actions[CARTPOLE_STEPS_MAX];
} episode;

static void play(gw_scope *s, gw_module *policy, episode *e) {
    cartpole game;
    const float *noise = gw_data(gw_rand(s, GW_F32, 4));
    if (gw_ok(s)) cartpole_reset(&game, noise);
    e->count = 0;
    for (bool is_over = false; gw_ok(s) && !is_over; e->count++) {
        gw_scope *t = gw_scope_open(s);
        gw_no_grad(t);
        cartpole_observe(&game, e->states[e->count]);
        gw_tensor *scores = gw_module_call(t, policy, gw_from(t, e->states[e->count], 1, 4));
        gw_tensor *action = gw_categorical_sample(t, gw_categorical_from_logits(t, scores));
        e->actions[e->count] = gw_item_int(t, action);
        if (gw_ok(t)) cartpole_step(&game, (int)e->actions[e->count], &is_over);
        gw_scope_close_up(t);
    }
}

// Returns of the steps, with mean 0 and variance 1.
static void compute_returns(episode *e) {
    double value = 0, sum = 0, squares = 0, n = e->count;
    for (int i = e->count - 1; i >= 0; i--) {
        e->returns[i] = (float)(value = 1 + 0.99 * value);
        sum += value;
        squares += value * value;
    }
    double mean = sum / n, deviation = sqrt(squares / n - mean * mean) + 1e-6;
    for (int i = 0; i < e->count; i++) e->returns[i] = (float)((e->returns[i] - mean) / deviation);
}

static gw_tensor *loss_of(gw_scope *s, gw_module *policy, const episode *e) {
    gw_tensor *states = gw_from(s, &e->states[0][0], e->count, 4);
    gw_categorical choice = gw_categorical_from_logits(s, gw_module_call(s, policy, states));
    gw_tensor *log_probs = gw_categorical_log_prob(s, choice, gw_from(s, e->actions, e->count));
    return gw_neg(s, gw_mean(s, gw_mul(s, log_probs, gw_from(s, e->returns, e->count))));
}

// Returns false when learning is over.
static bool take_turn(gw_scope *s, gw_module *policy, episode *e) {
    gw_rref *learner = gw_named(s, "learner", "learner");
    gw_list *weights = gw_list_of(s, gw_rpc_sync(s, learner, "pull"));
    if (gw_ok(s) && gw_list_count(weights) == 0) return false;
    weights_load(s, policy, weights);
    play(s, policy, e);
    if (!gw_ok(s)) return true;
    compute_returns(e);
    gw_backward(s, loss_of(s, policy, e));
    gw_rpc_sync(s, learner, "push", gradients_of(s, policy), (double)e->count);
    return true;
}

// Whether the next attempt of the learner can mend |error|.
static bool is_passing(gw_error error) {
    return error.status == GW_DISCONNECTED || error.status == GW_NOT_FOUND;
}

static void act(gw_scope *root, gw_elastic *job) {
    static episode e;
    gw_module *policy = policy_open(root);
    printf("actor %d plays, pid %d\n", gw_rpc_launched().rank, (int)getpid());
    for (bool learns = true; learns && gw_ok(root) && !gw_elastic_leaving(job);) {
        gw_scope *s = gw_scope_open(root);
        learns = take_turn(s, policy, &e);
        gw_error error = gw_scope_close(s);
        if (error.status && !is_passing(error)) gw_scope_fail(root, &error);
    }
    if (gw_elastic_leaving(job)) printf("actor %d leaves\n", gw_rpc_launched().rank);
}

int main(int argc, char **argv) {
    const flag flags[] = {
        { "updates", "N", "episodes to learn from", .integer = &updates, .min = 1, .max = 1e6 },
        { "goal", "S", "the score that the last 20 episodes must have", .real = &goal, .max = 500 },
        { 0 },
    };
    int code = flags_parse("elastic_actors",
                           "Learns CartPole-v1 with actors that may be killed, leave and join.",
                           flags, argc, argv);
    if (code >= 0) return code;
    bool is_learner = gw_rpc_launched().rank <= 0, has_learnt = true;
    gw_scope *root = gw_scope_open(NULL);
    gw_elastic *job = gw_elastic_join(root, .name = is_learner ? "learner" : "actor%d");
    gw_seed(root, (uint64_t)gw_rpc_launched().rank + 1);
    if (gw_ok(root) && gw_elastic_get_reason(job) == GW_RUNNING) {
        if (is_learner)
            has_learnt = learn(root);
        else
            act(root, job);
    }
    gw_elastic_close(root, job);
    code = gw_exit_code(gw_scope_close(root));
    return code || has_learnt ? code : 3;
}
