// A pipeline: a model split over three workers, with several micro-batches in flight.
//
// Worker 0 cuts each batch into micro-batches and sends each stage its operations in order; tensors go from stage to
// stage. An operation of a stage starts when its input has arrived and the previous operation is done. Worker 0 handles
// only a batch and its loss. The schedules: all forward and then all backward (Huang et al. 2019, GPipe), or one
// forward, one backward in turns (Narayanan et al. 2019, PipeDream), which holds no more micro-batches than there are
// stages. Either gives the weights of the unsplit model, bit for bit: pipeline --check. Or, as in PyTorch's tutorial on
// pipelines over RPC, forward through references, and then one distributed backward pass and one optimizer over all
// stages. Its gradients are added in another order, so that the weights are the same up to rounding.
//
//     pipeline                                    makes its own three processes
//     pipeline --schedule autograd                backward by distributed autograd
//     gradwire run -n 3 -- pipeline --schedule fill-drain
//
// The lines that communicate: 9 (init, the stages, forward, backward, the values between them, step and the wait for
// it, the most micro-batches held, shutdown; --check fetches weights in one more); with autograd 3 in a step (the first
// stages, the last, the wait), and 1 for the parameters.
#include "stage.h"

#include "../common/curve.h"
#include "../common/digits.h"
#include "../common/workers.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- The schedule -------------------------------------------------------------------------------

// Whether operation |index| of |stage| in a step, from 0 on, is a forward pass.
static bool is_forward(const options *o, int stage, int64_t index) {
    int64_t ahead = STAGES - stage;  // forward passes before the first backward pass
    if (strcmp(o->schedule, "fill-drain") == 0 || ahead > o->micro_batches)
        ahead = o->micro_batches;
    if (index < ahead) return true;
    return (index - ahead) % 2 == 1 && ahead + (index - ahead) / 2 < o->micro_batches;
}

typedef struct pipeline {
    gw_rref *stages[STAGES];
    gw_optimizer *optimizer;  // over all stages; NULL: each stage has its own
    const options *o;
} pipeline;

// The operations in flight of one step. References may be to tensors that do not exist yet.
typedef struct in_flight {
    gw_rref **y[STAGES], **dx[STAGES];          // of each micro-batch
    gw_rref *before[STAGES];                    // the last operation sent to the stage
    int64_t forward[STAGES], backward[STAGES];  // micro-batches already dispatched
} in_flight;

static gw_value value_behind(gw_scope *s, gw_rref *ref) {
    return ref ? gw_value_of(gw_by_value(s, ref)) : gw_none();
}

// Sends stage |i| its next operation. Returns false if its input was not dispatched yet.
static bool dispatch(gw_scope *s, const pipeline *p, in_flight *f, int i, digits batch) {
    int64_t m = f->forward[i], size = p->o->batch / p->o->micro_batches;
    bool is_first = i == 0, is_last = i == STAGES - 1;
    gw_value before = value_behind(s, f->before[i]);
    if (is_forward(p->o, i, f->forward[i] + f->backward[i])) {
        if (!is_first && f->forward[i - 1] == m) return false;
        digits part = digits_slice(s, batch, m * size, (m + 1) * size);
        gw_value x = is_first ? gw_value_of(part.images) : value_behind(s, f->y[i - 1][m]);
        gw_value labels = is_last ? gw_value_of(part.labels) : gw_none();
        f->before[i] = gw_remote(s, p->stages[i], "forward", x, labels, before);
        f->y[i][f->forward[i]++] = f->before[i];
    } else {
        m = f->backward[i];
        if (!is_last && f->backward[i + 1] == m) return false;
        gw_value dy = is_last ? gw_none() : value_behind(s, f->dx[i + 1][m]);
        f->before[i] = gw_remote(s, p->stages[i], "backward", dy, before);
        f->dx[i][f->backward[i]++] = f->before[i];
    }
    return true;
}

// Takes one step over |batch| by autograd: each stage records its forward pass.
static double train_step_by_autograd(gw_scope *s, const pipeline *p, digits batch) {
    int64_t count = p->o->micro_batches, size = p->o->batch / count;
    gw_future **scores = gw_alloc(s, (size_t)count * sizeof(gw_future *));
    for (int64_t m = 0; m < count && gw_ok(s); m++) {
        gw_value x = gw_value_of(digits_slice(s, batch, m * size, (m + 1) * size).images);
        for (int i = 0; i < STAGES - 1; i++)
            x = gw_value_of(gw_by_value(s, gw_remote(s, p->stages[i], "apply", x)));
        scores[m] = gw_rpc_async(s, p->stages[STAGES - 1], "apply", x);
    }
    gw_tensor *loss = NULL;
    double loss_sum = 0;
    for (int64_t m = 0; m < count && gw_ok(s); m++) {
        gw_tensor *labels = digits_slice(s, batch, m * size, (m + 1) * size).labels;
        gw_tensor *part = stage_loss(s, gw_tensor_of(s, gw_wait(s, scores[m])), labels, count);
        loss = loss ? gw_add(s, loss, part) : part;
        loss_sum += gw_item(s, part);
    }
    gw_backward(s, loss);
    gw_optimizer_step(s, p->optimizer);
    return loss_sum;
}

// Takes one step over |batch|. Returns its loss.
static double train_step(gw_scope *s, const pipeline *p, digits batch) {
    if (p->optimizer) return train_step_by_autograd(s, p, batch);
    in_flight f = { 0 };
    gw_future *steps[STAGES];
    for (int i = 0; i < STAGES; i++) {
        f.y[i] = gw_alloc(s, (size_t)p->o->micro_batches * sizeof(gw_rref *));
        f.dx[i] = gw_alloc(s, (size_t)p->o->micro_batches * sizeof(gw_rref *));
    }
    while (f.backward[0] < p->o->micro_batches && gw_ok(s))
        for (int i = 0; i < STAGES; i++)
            if (f.backward[i] < p->o->micro_batches) dispatch(s, p, &f, i, batch);
    for (int i = 0; i < STAGES && gw_ok(s); i++)
        steps[i] = gw_rpc_async(s, p->stages[i], "step", value_behind(s, f.before[i]));
    if (!gw_ok(s)) return 0;
    gw_wait_all(s, steps, STAGES);
    return gw_float_of(s, gw_wait(s, steps[STAGES - 1]));
}

// ---- The unsplit model --------------------------------------------------------------------------

typedef struct unsplit {
    gw_module *stages[STAGES];
    gw_module *model;
    gw_optimizer *optimizer;
} unsplit;

static unsplit unsplit_open(gw_scope *s, const options *o) {
    unsplit u = { 0 };
    for (int i = 0; i < STAGES; i++) u.stages[i] = stage_model(s, o, i);
    u.model = gw_nn_sequential_with(s, u.stages, STAGES);
    u.optimizer = stage_optimizer(s, o, gw_parameters(s, u.model));
    return u;
}

static double unsplit_step(gw_scope *s, const options *o, unsplit *u, digits batch) {
    double loss_sum = 0;
    int64_t size = o->batch / o->micro_batches;
    for (int64_t m = 0; m < o->micro_batches; m++) {
        digits part = digits_slice(s, batch, m * size, (m + 1) * size);
        gw_tensor *scores = gw_module_call(s, u->model, part.images);
        gw_tensor *loss = stage_loss(s, scores, part.labels, o->micro_batches);
        gw_backward(s, loss);
        loss_sum += gw_item(s, loss);
    }
    gw_optimizer_step(s, u->optimizer);
    return loss_sum;
}

// Autograd adds the gradients of micro-batches in another order, so the comparison allows rounding.
static bool is_same(gw_scope *s, const pipeline *p, gw_tensor *a, gw_tensor *b) {
    return p->optimizer ? gw_allclose(s, a, b, .rtol = 1e-3, .atol = 1e-5) : gw_equal(s, a, b);
}

static bool is_same_loss(const pipeline *p, double a, double b) {
    return p->optimizer ? fabs(a - b) <= 1e-4 * fabs(b) : a == b;
}

// Copies the weights of the stages into |model|. With |compare|, fails where they differ from those of |model|.
static void fetch(gw_scope *s, const pipeline *p, gw_module *model, bool compare) {
    gw_no_grad(s);
    for (int i = 0, n = 0; i < STAGES; i++) {
        gw_list *weights = gw_list_of(s, gw_rpc_sync(s, p->stages[i], "weights"));
        for (int j = 0; j < gw_list_count(weights) && gw_ok(s); j++, n++) {
            gw_tensor *here = gw_module_parameter_at(s, model, n);
            gw_tensor *there = gw_tensor_of(s, gw_list_get(s, weights, j));
            if (compare && !is_same(s, p, here, there) && gw_ok(s))
                gw_fail(s, GW_MISMATCH, "%s differs from that of the unsplit model",
                        gw_module_parameter_name(s, model, n));
            gw_copy_(s, here, there);
        }
    }
}

// ---- Learning -----------------------------------------------------------------------------------

static gw_optimizer *open_optimizer(gw_scope *s, const pipeline *p) {
    gw_list *all = gw_list_open(s);
    for (int i = 0; i < STAGES; i++) {
        gw_list *refs = gw_list_of(s, gw_rpc_sync(s, p->stages[i], "parameters"));
        for (int j = 0; j < gw_list_count(refs); j++) gw_list_add(s, all, gw_list_get(s, refs, j));
    }
    return stage_optimizer(s, p->o, all);
}

static void learn(gw_scope *root, const pipeline *p, unsplit *u, digits_split d, curve *progress) {
    const options *o = p->o;
    gw_data_loader *loader =
        gw_data_loader_open(root, digits_dataset(root, d.train), .batch_size = o->batch,
                            .shuffle = true, .drop_last = true);
    double steps = (double)gw_data_loader_count(loader);
    for (int epoch = 1; epoch <= o->epochs && gw_ok(root); epoch++) {
        gw_scope *s = gw_scope_open(root);
        double loss = 0;
        for (int step = 1; gw_data_loader_next(s, loader); step++) {
            gw_scope *t = gw_scope_open(s);
            gw_scope_label(t, "epoch %d: step %d", epoch, step);
            digits batch = digits_batch(t, loader);
            double step_loss = train_step(t, p, batch);
            loss += step_loss / steps;
            if (o->check && !is_same_loss(p, unsplit_step(t, o, u, batch), step_loss) && gw_ok(t))
                gw_fail(t, GW_MISMATCH, "the loss differs from that of the unsplit model");
            gw_scope_close_up(t);
        }
        const char *line = gw_format(s, "epoch %3d  loss %.4f", epoch, loss);
        if (gw_ok(s)) curve_add(progress, loss, line);
        if (gw_ok(s) && (epoch % (1 + o->epochs / 10) == 0 || epoch == o->epochs))
            curve_print(progress, line);
        gw_scope_close_up(s);
    }
}

static void print_stats(gw_scope *s, const pipeline *p, double steps) {
    gw_rpc_stats stats = gw_rpc_get_stats(s);
    printf("a step: %.1f messages, %.1f kB from and to worker 0; most micro-batches in flight:",
           (double)(stats.messages_sent + stats.messages_received) / steps,
           (double)(stats.bytes_sent + stats.bytes_received) / steps / 1e3);
    for (int i = 0; i < STAGES; i++)
        printf(" %d", (int)gw_int_of(s, gw_rpc_sync(s, p->stages[i], "most_held")));
    printf("; %llu reconnects\n", (unsigned long long)stats.reconnects);
}

static void run_pipeline(gw_scope *root, const options *o) {
    digits_split d = digits_load(root, o->data);
    if (gw_ok(root) && d.train.count < o->batch)
        gw_fail(root, GW_INVALID, "--batch %d: there are %d digits", (int)o->batch, d.train.count);
    pipeline p = { .o = o };
    for (int i = 0; i < STAGES; i++) p.stages[i] = stage_remote(root, o, i);
    if (strcmp(o->schedule, "autograd") == 0) p.optimizer = open_optimizer(root, &p);
    unsplit u = unsplit_open(root, o);
    curve progress;
    curve_open(&progress, stdout, (curve_options){ .title = "loss", .x_label = "epoch" });
    double since_s = now_s(), steps = (double)(o->epochs * (d.train.count / o->batch));
    learn(root, &p, &u, d, &progress);
    double step_ms = (now_s() - since_s) / steps * 1e3;
    if (gw_ok(root) && o->stats) print_stats(root, &p, steps);
    gw_scope *s = gw_scope_open(root);
    fetch(s, &p, u.model, o->check);
    gw_scope_close_up(s);
    double accuracy = digits_accuracy(root, u.model, d.test);
    if (gw_ok(root))
        printf("test accuracy: %.2f %% (%s, %.2f ms a step)\n", accuracy * 100, o->schedule,
               step_ms);
    if (gw_ok(root) && o->check)
        printf("weights and losses are those of the unsplit model%s\n",
               p.optimizer ? ", up to rounding" : "");
    if (gw_ok(root) && o->plot && !curve_plot(&progress, o->plot))
        gw_fail(root, GW_SYSTEM, "%s: %s", o->plot, strerror(errno));
    curve_close(&progress);
}

// Runs one worker. |init_method| is NULL under a launcher.
static int run_worker(const char *init_method, void *context) {
    const options *o = context;
    gw_scope *root = gw_scope_open(NULL);
    gw_seed(root, (uint64_t)o->seed);
    gw_rpc_init(root, .init_method = init_method);
    if (gw_ok(root) && gw_rpc_world_size(root) != STAGES)
        gw_fail(root, GW_INVALID, "this program is for %d workers", STAGES);
    if (gw_ok(root) && gw_rpc_self(root).rank == 0) run_pipeline(root, o);
    gw_rpc_shutdown(root);  // stages serve until worker 0 is done
    return gw_exit_code(gw_scope_close(root));
}

int main(int argc, char **argv) {
    options o;
    int code = options_parse(argc, argv, &o);
    if (code >= 0) return code;
    if (gw_rpc_launched().rank >= 0) return run_worker(NULL, &o);
    return workers_run(STAGES, run_worker, &o);
}
