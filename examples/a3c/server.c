#include "server.h"

#include "../common/weights.h"
#include "policy.h"

enum { LINES = 20 };

GW_CLASS(server, server_open, "");

static void server_open(gw_scope *own, server *self, const gw_args *a) {
    (void)a;
    self->own = own;
}

void server_begin(server *self, const options *o, curve *progress) {
    self->o = o;
    self->progress = progress;
    self->policy = policy_open(self->own, &o->task);
    self->optimizer = gw_adam(self->own, gw_parameters(self->own, self->policy), .lr = o->task.lr);
}

double server_score(const server *self) {
    int64_t count = self->episodes < RECENT ? self->episodes : RECENT;
    double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += self->scores[i];
    return count ? sum / (double)count : 0;
}

static bool is_over(const server *self) {
    const options *o = self->o;
    return self->steps >= o->task.steps ||
           (o->goal_ends && self->episodes >= RECENT && server_score(self) >= o->task.goal);
}

static void show(gw_scope *s, server *self) {
    double score = server_score(self);
    const char *line = gw_format(s, "step %7lld  %5lld episodes  score %8.2f",
                                 (long long)self->steps, (long long)self->episodes, score);
    if (!gw_ok(s) || self->episodes == 0) return;
    curve_add(self->progress, score, line);
    int64_t lines = self->steps * LINES / self->o->task.steps;
    if (lines > self->lines) curve_print(self->progress, line);
    self->lines = lines;
}

// Returns the current weights, or an empty list when learning is over.
static gw_value current_weights(gw_scope *s, const server *self) {
    return gw_value_of(is_over(self) ? gw_list_open(s) : weights_of(s, self->policy));
}

// Workers call this once at the start.
GW_METHOD(server, pull, GW_INLINE, "") {
    return current_weights(s, self);
}

// Workers call this to apply their gradients. Returns the weights to continue with.
GW_METHOD(server, push, GW_INLINE, "list, int, list") {  // gradients, steps, scores
    gw_list *gradients = gw_arg_list(s, a, 0), *scores = gw_arg_list(s, a, 2);
    for (int i = 0; i < gw_list_count(scores) && gw_ok(s); i++)
        self->scores[self->episodes++ % RECENT] = gw_float_of(s, gw_list_get(s, scores, i));
    double rest = 1 - (double)self->steps / (double)self->o->task.steps;
    gw_optimizer_set_lr(s, self->optimizer, self->o->task.lr * (rest > 0 ? rest : 0));
    gradients_add(s, self->policy, gradients);
    gw_clip_grad_norm(s, gw_parameters(s, self->policy), 0.5);
    gw_optimizer_step(s, self->optimizer);
    self->updates++;
    self->steps += gw_arg_int(s, a, 1);
    show(s, self);
    return current_weights(s, self);
}
