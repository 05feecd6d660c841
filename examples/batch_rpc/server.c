// A parameter server that waits for the gradients of all trainers, and answers all of them at once.
#include "../common/digits.h"
#include "../common/weights.h"
#include "learners.h"

#include <stdio.h>

enum { WIDTH = 128, REPORTS = 20 };
static const double goal = 0.95;

typedef struct parameter_server {
    gw_scope *own, *batch;  // lives as long as the server, as the gradients of one step
    gw_module *model;
    gw_optimizer *optimizer;
    int64_t update_size, update_count;  // gradients that make a step, and those that have arrived
    gw_future *updated;                 // the answer to all of them
    gw_future *lost;                    // the error if a trainer is lost
} parameter_server;

GW_CLASS(parameter_server, server_open);  // update size, lr

static void begin_update(parameter_server *self) {
    self->batch = gw_scope_open(self->own);
    self->update_count = 0;
    gw_set(self->own, &self->updated, gw_future_open(self->own));
}

static void server_open(gw_scope *own, parameter_server *self, const gw_args *a) {
    int count;
    const gw_worker *workers = gw_rpc_workers(own, &count);
    self->own = own;
    self->lost = gw_member_lost(own, workers, count);
    self->update_size = gw_arg_int(own, a, 0);
    self->model = digits_model(own, WIDTH);
    // A step along the mean of n gradients equals a step along their sum with a learning rate n times smaller.
    double lr = gw_arg_float(own, a, 1) / (double)self->update_size;
    self->optimizer = gw_sgd(own, gw_parameters(own, self->model), .lr = lr);
    begin_update(self);
}

GW_METHOD(parameter_server, fetch_model, GW_INLINE, "") {
    return gw_value_of(weights_of(s, self->model));
}

// Takes the step, and sends the new weights to all trainers.
static void finish_update(gw_scope *s, parameter_server *self) {
    gw_optimizer_step(self->batch, self->optimizer);
    gw_error e = gw_scope_close(self->batch);
    if (e.status == GW_OK)
        gw_future_set(s, self->updated, weights_of(s, self->model));
    else
        gw_future_fail(s, self->updated, e.status, "%s", e.text);
    begin_update(self);
}

// Trainers call this. The call of the last trainer, or the loss of a trainer, resolves all calls. A function that
// returns a future holds no thread.
GW_METHOD(parameter_server, update_and_fetch_model, GW_INLINE, "list") {
    gw_future *either[] = { self->updated, self->lost };
    gw_future *answer = gw_collect_first(s, either, 2);
    gradients_add(self->batch, self->model, gw_arg_list(s, a, 0));  // to those that have arrived
    if (++self->update_count == self->update_size) finish_update(s, self);
    return gw_value_of(answer);
}

// ---- Trainers -----------------------------------------------------------------------------------

// server, file of digits or none, first epoch, epochs, batch
GW_FUNCTION(train, GW_POOL, "rref, any, int, int, int") {
    gw_rref *ps = gw_arg_rref(s, a, 0);
    gw_value path = gw_arg(s, a, 1);
    int64_t first = gw_arg_int(s, a, 2), end = first + gw_arg_int(s, a, 3);
    digits all = digits_load(s, path.kind == GW_STRING ? path.as.string : NULL).train;
    gw_dataset *d = digits_dataset(s, all);
    // Each trainer has the same number of samples.
    gw_sampler *mine = gw_distributed_sampler(s, d, .num_replicas = gw_rpc_world_size(s) - 1,
                                              .rank = gw_rpc_self(s).rank - 1, .drop_last = true);
    gw_data_loader *loader = gw_data_loader_open(s, d, .batch_size = gw_arg_int(s, a, 4),
                                                 .sampler = mine, .drop_last = true);
    gw_module *model = digits_model(s, WIDTH);
    gw_list *weights = gw_list_of(s, gw_rpc_sync(s, ps, "fetch_model"));
    gw_data_loader_set_epoch(s, loader, first);
    while (gw_data_loader_epoch(loader) < end && gw_ok(s)) {
        while (gw_data_loader_next(s, loader)) {
            gw_scope *step = gw_scope_open(s);
            weights_load(step, model, weights);
            gw_backward(step, digits_loss(step, model, digits_batch(step, loader)));
            gw_set(s, &weights,
                   gw_list_of(step, gw_rpc_sync(step, ps, "update_and_fetch_model",
                                                gradients_of(step, model))));
            gw_scope_close_up(step);
        }
    }
    return gw_none();
}

// ---- Learning -----------------------------------------------------------------------------------

// Runs some epochs on all trainers.
static double train_all(gw_scope *s, gw_rref *ps, const options *o, int64_t first, int64_t epochs,
                        digits test) {
    int count;
    const gw_worker *workers = gw_rpc_workers(s, &count);  // the first is this one
    gw_call_options call = GW_OPTIONS(gw_call_options, .timeout_ms = GW_NO_TIMEOUT);
    gw_rpc_sync_all_with(s, gw_to_workers(workers + 1, count - 1), "train",
                         GW_ARGS(ps, gw_value_of(o->data), first, epochs, o->batch), call);
    parameter_server *self = gw_ok(s) ? gw_local(s, ps, parameter_server) : NULL;
    return self ? digits_accuracy(s, self->model, test) : 0;
}

bool server_learn(gw_scope *root, const options *o, curve *progress) {
    digits_split d = digits_load(root, o->data);
    int trainers = gw_rpc_world_size(root) - 1;
    if (gw_ok(root) && d.train.count / trainers < o->batch)
        gw_fail(root, GW_INVALID, "%d trainers have no %d digits each", trainers, (int)o->batch);
    gw_rref *ps =
        gw_remote(root, gw_rpc_self(root), "parameter_server", o->no_batch ? 1 : trainers, o->lr);
    double accuracy = 0, since_s = now_s();
    int64_t stretch = o->epochs / REPORTS + 1;
    progress->options =
        (curve_options){ .title = "test accuracy", .x_label = "report", .max = 1, .goal = goal };
    for (int64_t epoch = 0; epoch < o->epochs && gw_ok(root); epoch += stretch) {
        gw_scope *s = gw_scope_open(root);
        int64_t epochs = epoch + stretch < o->epochs ? stretch : o->epochs - epoch;
        accuracy = train_all(s, ps, o, epoch, epochs, d.test);
        const char *line =
            gw_format(s, "epoch %3d  test accuracy %.1f %%", (int)(epoch + epochs), accuracy * 100);
        if (gw_ok(s)) curve_add(progress, accuracy, line);
        if (gw_ok(s)) curve_print(progress, line);
        gw_scope_close_up(s);
    }
    double seconds = now_s() - since_s;
    double gradients = (double)(d.train.count / trainers / o->batch * o->epochs * trainers);
    if (gw_ok(root))
        printf("%d trainers, answered %s: %.2f %% of the test digits, %.0f gradients a second\n",
               trainers, o->no_batch ? "one by one" : "together", accuracy * 100,
               gradients / seconds);
    return accuracy >= goal;
}
