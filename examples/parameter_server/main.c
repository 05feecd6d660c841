// A parameter server, in the manner of HogWild! (Recht et al. 2011): no trainer waits for another one. The server takes
// a step with each gradient as it arrives, although its weights have changed since that gradient was begun. Three
// forms:
//
//     parameter_server                                 the model is on the server, and passes go through it
//     parameter_server --form push                     trainers pull weights, compute here, and push gradients
//     parameter_server --form hogwild                  the same by backward passes and optimizers of the trainers
//     gradwire run -n 5 -- parameter_server            one server, four trainers
//
// In the last form the server only keeps the weights: a trainer fetches them, its backward pass sends the gradients
// back to them, and its own optimizer, a concurrent one, updates them there.
//
// The lines that communicate: 2 in a trainer of the first form (forward, step; the backward pass crosses workers by
// itself), 3 in one of the second (pull, push, and a last pull after the last push), 3 in one of the third (the
// references, their weights, and the count); and 2 of the whole program: the server's object, "train" on all trainers.
#include "../common/digits.h"
#include "../common/program.h"
#include "../common/weights.h"

#include <gradwire.h>

#include <string.h>

enum { WIDTH = 128, REPORTS = 20 };
static const char *const names[] = { "server", "trainer%d", NULL };

// The command line, the same on all workers.
static const char *form = "backward",
                  *data, *const forms[] = { "backward", "push", "hogwild", NULL };
static int64_t epochs = 20, size = 16, seed = 1;
static double lr = 0.1, momentum;

static curve progress = { .options = { .title = "test accuracy",
                                       .x_label = "report",
                                       .max = 1,
                                       .percent = true,
                                       .goal = 0.95 } };

// ---- The server ---------------------------------------------------------------------------------

typedef struct server {
    gw_scope *own;
    gw_module *model;
    gw_optimizer *optimizer;
    digits test;
    int64_t step_count;
    int64_t behind;    // sum over gradients of the steps taken since they were begun
    int64_t interval;  // gradients between two reports
} server;

GW_CLASS(server, server_open);

static void server_open(gw_scope *own, server *self, const gw_args *a) {
    (void)a;
    self->own = own;
    self->model = digits_model(own, WIDTH);
    self->optimizer = gw_sgd(own, gw_parameters(own, self->model), .lr = lr, .momentum = momentum);
}

// Counts a step.
static void count(gw_scope *s, server *self) {
    if (!gw_ok(s)) return;
    int64_t step = ++self->step_count;
    if (step % self->interval) return;
    double accuracy = digits_accuracy(s, self->model, self->test);
    const char *late = self->behind ? gw_format(s, "  gradients %.1f steps late",
                                                (double)self->behind / (double)step)
                                    : "";
    const char *line =
        gw_format(s, "step %5lld  test accuracy %.1f %%%s", (long long)step, accuracy * 100, late);
    curve_add(&progress, accuracy, line);
    curve_print(&progress, line);
}

// Trainers of the first form call this: forward through the model.
GW_METHOD(server, forward, GW_INLINE, "tensor") {
    return gw_value_of(gw_module_call(s, self->model, gw_arg_tensor(s, a, 0)));
}

// Takes a step with the gradients that the caller's backward pass has accumulated here.
GW_METHOD(server, step, GW_INLINE, "") {
    gw_optimizer_step(s, self->optimizer);
    count(s, self);
    return gw_none();
}

// Trainers of the second form call this: the weights, and the number of steps taken.
GW_METHOD(server, pull, GW_INLINE, "") {
    gw_map *m = gw_map_open(s);
    gw_map_put(s, m, "weights", weights_of(s, self->model));
    gw_map_put(s, m, "step", self->step_count);
    return gw_value_of(m);
}

// Trainers call this: a gradient, and the step of the weights it was computed from.
GW_METHOD(server, push, GW_INLINE, "list, int") {
    self->behind += self->step_count - gw_arg_int(s, a, 1);
    gradients_add(s, self->model, gw_arg_list(s, a, 0));
    gw_optimizer_step(s, self->optimizer);
    count(s, self);
    return gw_none();
}

// Trainers of the third form call these: references to the weights; and that a step was taken.
GW_METHOD(server, weights, GW_INLINE, "") {
    gw_list *refs = gw_list_open(s);
    for (int i = 0; i < gw_module_parameter_count(self->model); i++)
        gw_list_add(s, refs, gw_rref_open(s, gw_module_parameter_at(s, self->model, i)));
    return gw_value_of(refs);
}

GW_METHOD(server, count, GW_INLINE, "") {
    count(s, self);
    return gw_none();
}

// ---- Trainers -----------------------------------------------------------------------------------

// The form of PyTorch's tutorial: forward through the server, backward through it, and a step
// there.
static void step_through(gw_scope *s, gw_rref *ps, digits batch) {
    gw_tensor *logits = gw_tensor_of(s, gw_rpc_sync(s, ps, "forward", batch.images));
    gw_backward(s, gw_cross_entropy(s, logits, batch.labels));
    gw_rpc_sync(s, ps, "step");
}

// Computes everything here, with weights of the server.
static void step_apart(gw_scope *s, gw_rref *ps, digits batch, gw_module *model) {
    gw_map *now = gw_map_of(s, gw_rpc_sync(s, ps, "pull"));
    weights_load(s, model, gw_list_of(s, gw_map_get(s, now, "weights")));
    gw_backward(s, digits_loss(s, model, batch));
    gw_rpc_notify(s, ps, "push", gradients_of(s, model), gw_map_get(s, now, "step"));
}

// Uses fetched weights; the backward pass sends the gradients to their owner.
static void step_hogwild(gw_scope *s, gw_rref *ps, digits batch, gw_list *weights,
                         gw_optimizer *opt) {
    enum { WEIGHTS = 6 };  // of three layers
    gw_future *here[WEIGHTS];
    for (int i = 0; i < WEIGHTS; i++)
        here[i] = gw_to_here_async(s, gw_rref_of(s, gw_list_get(s, weights, i)));
    gw_tensor *x = batch.images;
    for (int i = 0; i < WEIGHTS && gw_ok(s); i += 2) {
        gw_tensor *weight = gw_tensor_of(s, gw_wait(s, here[i]));
        x = gw_linear(s, i ? gw_relu(s, x) : x, weight, gw_tensor_of(s, gw_wait(s, here[i + 1])));
    }
    gw_backward(s, gw_cross_entropy(s, x, batch.labels));
    gw_optimizer_step(s, opt);
    gw_rpc_notify(s, ps, "count");
}

// Worker 0 calls this on all trainers, with the server.
GW_FUNCTION(train, GW_POOL, "rref") {
    gw_rref *ps = gw_arg_rref(s, a, 0);
    bool apart = strcmp(form, "push") == 0, hogwild = strcmp(form, "hogwild") == 0;
    digits all = digits_load(s, data).train;
    digits mine = digits_share(s, all, gw_rpc_self(s).rank - 1, gw_rpc_world_size(s) - 1);
    gw_module *model = apart ? digits_model(s, WIDTH) : NULL;
    gw_list *weights = hogwild ? gw_list_of(s, gw_rpc_sync(s, ps, "weights")) : NULL;
    gw_optimizer *opt =
        hogwild ? gw_sgd(s, weights, .lr = lr, .momentum = momentum, .concurrent = true) : NULL;
    gw_data_loader *loader =
        gw_data_loader_open(s, digits_dataset(s, mine), .batch_size = size, .shuffle = true);
    for (int64_t epoch = 0; epoch < epochs && gw_ok(s); epoch++) {
        while (gw_data_loader_next(s, loader)) {
            gw_scope *step = gw_scope_open(s);
            digits batch = digits_batch(step, loader);
            if (hogwild)
                step_hogwild(step, ps, batch, weights, opt);
            else if (apart)
                step_apart(step, ps, batch, model);
            else
                step_through(step, ps, batch);
            gw_scope_close_up(step);
        }
    }
    if (apart || hogwild) gw_rpc_sync(s, ps, "pull");  // executed after the last push, or count
    return gw_none();
}

// ---- The program --------------------------------------------------------------------------------

static void finish(gw_scope *s, gw_rref *ps) {
    server *self = gw_local(s, ps, server);
    if (!self) return;
    double accuracy = digits_accuracy(s, self->model, self->test);
    const char *line =
        gw_format(s, "%d trainers, %lld steps: %.2f %% of the test digits",
                  gw_rpc_world_size(s) - 1, (long long)self->step_count, accuracy * 100);
    curve_add(&progress, accuracy, line);
    curve_print(&progress, line);
}

static void run_server(gw_scope *root) {
    gw_scope *s = gw_scope_open(root);
    digits_split d = digits_load(s, data);
    gw_rref *ps = gw_remote(s, gw_rpc_self(s), "server");
    server *self = gw_local(s, ps, server);
    if (self) self->test = d.test;
    if (self) self->interval = epochs * (d.train.count / size + 1) / REPORTS + 1;
    int count;
    const gw_worker *workers = gw_rpc_workers(s, &count);  // the first is this one
    gw_call_options call = GW_OPTIONS(gw_call_options, .timeout_ms = GW_NO_TIMEOUT);
    if (gw_ok(s))
        gw_rpc_sync_all_with(s, gw_to_workers(workers + 1, count - 1), "train", GW_ARGS(ps), call);
    if (gw_ok(s)) finish(s, ps);
    gw_scope_close_up(s);
}

static void work(gw_scope *root) {
    gw_seed(root, (uint64_t)seed);
    if (gw_rpc_self(root).rank == 0) run_server(root);  // trainers serve until the server is done
}

int main(int argc, char **argv) {
    return program_main(
        argc, argv, work, &progress, .workers = 4, .workers_min = 2, .names = names,
        .roles = "a server and at least one trainer",
        .about =
            "Learns handwritten digits with one parameter server and trainers that have it take a\n"
            "step whenever they have a gradient.",
        .flags = {
            { "form", "backward|push|hogwild",
              "passes through the server, gradients sent to it, or steps of the trainers' own",
              .text = &form, .words = forms },
            { "epochs", "N", "passes of each trainer over its digits", .integer = &epochs, .min = 1,
              .max = 1e6 },
            { "batch", "N", "digits in a gradient", .integer = &size, .min = 1, .max = 1e6 },
            { "lr", "X", "learning rate", .real = &lr, .max = 1000 },
            { "momentum", "X", "of SGD", .real = &momentum, .max = 1 },
            { "seed", "N", "of weights and orders", .integer = &seed, .max = 1e15 },
            { "data", "FILE", "digits instead of the repository's", .text = &data } });
}
