// A data set on one worker that another worker learns from.
//
// worker1 owns a "dataset" object: it draws the rows, scales them and returns mini-batches. worker0 trains a linear
// model on them, fetching the next batch while it computes a step on the last one, and sends its weights to the owner
// of the data for evaluation. It shows
//
//     a class with methods; a reference to an object as target of calls and as argument;
//     futures as arguments: "rescale" starts when "mean" and "spread" have arrived;
//     a module, backward and an optimizer on data of another worker;
//     an error of the other worker that is reported and cleared.
//
//     build/bin/gradwire run -n 2 -- build/bin/remote_dataset
#include <gradwire.h>
#include <stdio.h>

enum { FEATURES = 3, ROWS = 512, BATCH = 32, EPOCHS = 6 };

typedef struct dataset {
    gw_scope *own;
    gw_tensor *x, *y;  // rows x FEATURES, rows x 1
} dataset;

GW_CLASS(dataset, dataset_open);  // rows, seed

static void dataset_open(gw_scope *own, dataset *self, const gw_args *a) {
    int64_t rows = gw_arg_int(own, a, 0);
    float scale[] = { 1, 20, 0.1f }, shift[] = { 0, 50, 2 }, truth[] = { 1.5f, -0.1f, 8 };
    gw_seed(own, (uint64_t)gw_arg_int(own, a, 1));
    gw_tensor *x = gw_randn(own, GW_F32, rows, FEATURES);
    x = gw_add(own, gw_mul(own, x, gw_from(own, scale, FEATURES)), gw_from(own, shift, FEATURES));
    self->own = own;
    self->x = x;
    self->y = gw_matmul(own, x, gw_from(own, truth, FEATURES, 1));
    self->y = gw_add(own, self->y, gw_mul(own, gw_randn(own, GW_F32, rows, 1), 0.1));
}

GW_METHOD(dataset, mean, GW_POOL, "") {
    return gw_value_of(gw_mean(s, self->x, .dim = 0, .keepdim = true));
}

GW_METHOD(dataset, spread, GW_POOL, "") {
    return gw_value_of(gw_std(s, self->x, .dim = 0, .keepdim = true));
}

GW_METHOD(dataset, rescale, GW_POOL, "tensor, tensor") {  // mean, spread: 1 x FEATURES
    gw_tensor *centred = gw_sub(s, self->x, gw_arg_tensor(s, a, 0));
    gw_tensor *scaled = gw_div(s, centred, gw_arg_tensor(s, a, 1));
    if (gw_ok(s)) gw_set(self->own, &self->x, scaled);
    return gw_none();
}

GW_METHOD(dataset, batch, GW_POOL, "int") {  // the pair x, y
    int64_t i = gw_arg_int(s, a, 0), count = gw_size(self->x, 0) / BATCH;
    if (i < 0 || i >= count) {
        gw_fail(s, GW_INVALID, "batch %d of %d", (int)i, (int)count);
        return gw_none();
    }
    gw_list *pair = gw_list_open(s);
    gw_list_add(s, pair, gw_slice(s, self->x, 0, i * BATCH, (i + 1) * BATCH, 1));
    gw_list_add(s, pair, gw_slice(s, self->y, 0, i * BATCH, (i + 1) * BATCH, 1));
    return gw_value_of(pair);
}

GW_FUNCTION(evaluate, GW_POOL, "rref, tensor, tensor") {  // data set, weight, bias
    dataset *d = gw_local(s, gw_arg_rref(s, a, 0), dataset);
    if (!d) return gw_none();
    gw_tensor *guess = gw_linear(s, d->x, gw_arg_tensor(s, a, 1), gw_arg_tensor(s, a, 2));
    return gw_value_of(gw_item(s, gw_mse(s, guess, d->y)));
}

static double evaluate(gw_scope *s, gw_rref *data, gw_module *model) {
    return gw_float_of(s, gw_rpc_sync(s, gw_rref_owner(s, data), "evaluate", data,
                                      gw_module_parameter_get(s, model, "weight"),
                                      gw_module_parameter_get(s, model, "bias")));
}

static void learn(gw_scope *root) {
    gw_rref *data = gw_remote(root, "worker1", "dataset", ROWS, 7);
    gw_future *mean = gw_rpc_async(root, data, "mean");
    gw_future *spread = gw_rpc_async(root, data, "spread");
    gw_rpc_sync(root, data, "rescale", mean, spread);

    gw_seed(root, 1);
    gw_module *model = gw_nn_linear(root, FEATURES, 1);
    gw_optimizer *opt = gw_sgd(root, gw_parameters(root, model), .lr = 0.03);
    int steps = EPOCHS * ROWS / BATCH;
    printf("before: mean squared error %.4f\n", evaluate(root, data, model));
    gw_future *next = NULL;
    gw_set(root, &next, gw_rpc_async(root, data, "batch", 0));
    for (int step = 0; step < steps && gw_ok(root); step++) {
        gw_scope *s = gw_scope_open(root);
        gw_scope_label(s, "step %d", step);
        gw_list *pair = gw_list_of(s, gw_wait(s, next));
        // Arrives while this step computes. It outlives the step, so root keeps it.
        gw_set(root, &next, gw_rpc_async(s, data, "batch", (step + 1) % (ROWS / BATCH)));
        gw_tensor *x = gw_tensor_of(s, gw_list_get(s, pair, 0));
        gw_tensor *y = gw_tensor_of(s, gw_list_get(s, pair, 1));
        gw_backward(s, gw_mse(s, gw_module_call(s, model, x), y));
        gw_optimizer_step(s, opt);
        if ((step + 1) % 32 == 0) printf("step %d: %.4f\n", step + 1, evaluate(s, data, model));
        gw_scope_close_up(s);
    }

    gw_scope *attempt = gw_scope_open(root);  // closed, not merged: root stays clean
    gw_rpc_sync(attempt, data, "batch", 1000);
    gw_error e = gw_scope_close(attempt);
    if (e.status != GW_OK) printf("as expected, %s: %s\n", gw_status_name(e.status), e.text);
}

int main(void) {
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root);
    if (gw_ok(root) && gw_rpc_world_size(root) != 2)
        gw_fail(root, GW_INVALID, "this program is for two workers: gradwire run -n 2 -- ...");
    if (gw_ok(root) && gw_rpc_self(root).rank == 0) learn(root);
    gw_rpc_shutdown(root);
    return gw_exit_code(gw_scope_close(root));
}
