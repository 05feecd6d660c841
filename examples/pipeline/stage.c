#include "stage.h"

#include "../common/digits.h"

enum { HELD_MAX = 1024 };

// A micro-batch after its forward and before its backward pass.
typedef struct held {
    gw_tensor *x, *y;  // in and out
} held;

typedef struct stage {
    gw_scope *own, *step;  // as long as the stage; one step, with its graph and its gradients
    gw_module *model;
    gw_optimizer *optimizer;
    int64_t micro_batches;
    held queue[HELD_MAX];  // oldest first, from |first| on
    int first, count, count_max;
    double loss;  // of the last stage: so far in this step
} stage;

GW_CLASS(stage, stage_open);  // number, width, lr, seed, micro_batches

gw_module *stage_model(gw_scope *s, const options *o, int number) {
    gw_scope *seeded = gw_scope_open(s);
    gw_seed(seeded, (uint64_t)(o->seed * STAGES + number));
    gw_module *m;
    if (number == 0)
        m = gw_nn_sequential(seeded, gw_nn_linear(seeded, DIGITS_PIXELS, o->width),
                             gw_nn_relu(seeded));
    else if (number < STAGES - 1)
        m = gw_nn_sequential(seeded, gw_nn_linear(seeded, o->width, o->width), gw_nn_relu(seeded));
    else
        m = gw_nn_linear(seeded, o->width, DIGITS_CLASSES);
    gw_keep(s, m);
    gw_scope_close_up(seeded);
    return m;
}

gw_optimizer *stage_optimizer(gw_scope *s, const options *o, gw_list *parameters) {
    return gw_sgd(s, parameters, .lr = o->lr, .momentum = 0.9);
}

gw_tensor *stage_loss(gw_scope *s, gw_tensor *scores, gw_tensor *labels, int64_t micro_batches) {
    return gw_div(s, gw_cross_entropy(s, scores, labels), micro_batches);
}

gw_rref *stage_remote(gw_scope *s, const options *o, int number) {
    return gw_remote(s, number, "stage", number, o->width, o->lr, o->seed, o->micro_batches);
}

static void stage_open(gw_scope *own, stage *self, const gw_args *a) {
    options o = { .width = gw_arg_int(own, a, 1),
                  .lr = gw_arg_float(own, a, 2),
                  .seed = gw_arg_int(own, a, 3) };
    self->own = own;
    self->step = gw_scope_open(own);
    self->model = stage_model(own, &o, (int)gw_arg_int(own, a, 0));
    self->optimizer = stage_optimizer(own, &o, gw_parameters(own, self->model));
    self->micro_batches = gw_arg_int(own, a, 4);
}

static held *queue_at(stage *self, int index) {
    return &self->queue[(self->first + index) % HELD_MAX];
}

// Receives a micro-batch from the previous stage. The last stage has its labels, and returns the loss.
GW_METHOD(stage, forward, GW_POOL,
          "tensor, any, any") {  // x, labels or none, previous call
    gw_scope *step = self->step;
    gw_tensor *x = gw_requires_grad(step, gw_detach(step, gw_arg_tensor(s, a, 0)));
    gw_tensor *y = gw_module_call(step, self->model, x);
    if (gw_arg(s, a, 1).kind == GW_TENSOR) {
        y = stage_loss(step, y, gw_arg_tensor(s, a, 1), self->micro_batches);
        self->loss += gw_item(step, y);
    }
    *queue_at(self, self->count++) = (held){ x, y };
    if (self->count > self->count_max) self->count_max = self->count;
    return gw_value_of(gw_detach(s, y));
}

// Receives the gradient of the oldest micro-batch from the next stage: accumulates the gradients of the weights and
// returns the gradient of x.
GW_METHOD(stage, backward, GW_POOL, "any, any") {  // dy or none, previous call
    gw_value dy = gw_arg(s, a, 0);
    if (self->count == 0) gw_fail(s, GW_WRONG_STATE, "no micro-batch has gone forward");
    if (!gw_ok(s)) return gw_none();
    held oldest = *queue_at(self, 0);
    gw_backward(self->step, oldest.y, .gradient = dy.kind == GW_TENSOR ? dy.as.tensor : NULL);
    gw_tensor *dx = gw_grad(self->step, oldest.x);
    self->first = (self->first + 1) % HELD_MAX;
    self->count--;
    return gw_value_of(dx);
}

// All micro-batches are done: takes an optimizer step. Returns the loss, which only the last stage has.
GW_METHOD(stage, step, GW_POOL, "any") {  // previous call
    gw_optimizer_step(self->step, self->optimizer);
    gw_error e = gw_scope_close(self->step);
    self->step = gw_scope_open(self->own);
    gw_scope_fail(s, &e);
    double loss = self->loss;
    self->loss = 0;
    return gw_value_of(loss);
}

// With --schedule autograd: the forward pass is recorded for the caller's backward pass, and the caller's optimizer has
// the references to the weights.
GW_METHOD(stage, apply, GW_POOL, "tensor") {
    return gw_value_of(gw_module_call(s, self->model, gw_arg_tensor(s, a, 0)));
}

GW_METHOD(stage, parameters, GW_INLINE, "") {
    gw_list *refs = gw_list_open(s);
    for (int i = 0; i < gw_module_parameter_count(self->model); i++)
        gw_list_add(s, refs, gw_rref_open(s, gw_module_parameter_at(s, self->model, i)));
    return gw_value_of(refs);
}

// The most micro-batches that this stage has held at a time.
GW_METHOD(stage, most_held, GW_INLINE, "") {
    return gw_value_of(self->count_max);
}

GW_METHOD(stage, weights, GW_INLINE, "") {
    return gw_value_of(gw_parameters(s, self->model));
}
