// A pipeline of replicas: a model split over two stages, two replicas of each stage, and several micro-batches in
// flight in each of the two pipelines.
//
//     pipeline_ddp                                makes its own four processes
//     pipeline_ddp --check                        also trains the unsplit model, and compares
//     gradwire run -n 4 -- pipeline_ddp
//
// Worker 2 s + r is replica r of stage s. It runs one forward and one backward pass in turns (Narayanan et al. 2019,
// PipeDream), so that a stage holds no more micro-batches than there are stages behind it. Activations and gradients
// cross a cut of the model by send and receive with the previous or next worker. Gradients of all micro-batches but the
// last stay local; with the last one they become the mean over the replicas of the stage, while the backward pass
// continues.
//
// The lines that communicate: 6 (the group of all, the replicas, a send, a receive, the wait for pending sends, the
// weights of the other stage).
#include "../common/digits.h"
#include "../common/program.h"
#include "../common/weights.h"

enum { STAGES = 2, REPLICAS = 2, WORKERS = 4, WIDTH = 64, MICRO_MAX = 64 };

// The command line, the same on all workers.
static int64_t micro_batches = 8, size = 6, epochs = 12;
static bool check;

static curve progress = { .options = { .title = "loss", .x_label = "epoch", .of = &epochs } };

// ---- The model ----------------------------------------------------------------------------------

// Returns the same weights on each worker.
static gw_module *open_stage(gw_scope *root, int stage) {
    gw_scope *s = gw_scope_open(root);
    gw_seed(s, (uint64_t)stage + 1);
    gw_module *first = gw_nn_linear(s, stage ? WIDTH : DIGITS_PIXELS, WIDTH);
    gw_module *second = gw_nn_linear(s, WIDTH, stage ? DIGITS_CLASSES : WIDTH);
    gw_module *m = stage ? gw_nn_sequential(s, first, gw_nn_relu(s), second)
                         : gw_nn_sequential(s, first, gw_nn_relu(s), second, gw_nn_relu(s));
    gw_keep(root, m);
    gw_scope_close_up(s);
    return m;
}

static gw_tensor *loss_of(gw_scope *s, gw_tensor *scores, digits part) {
    return gw_div(s, gw_cross_entropy(s, scores, part.labels), micro_batches);
}

// Micro-batch |m| of replica |r|.
static digits micro_batch(gw_scope *s, digits batch, int r, int64_t m) {
    return digits_share(s, digits_share(s, batch, r, REPLICAS), (int)m, (int)micro_batches);
}

// ---- One worker ---------------------------------------------------------------------------------

typedef struct worker {
    int rank, stage, replica, other;  // |other|: the rank of the same replica's other stage
    gw_group *all;
    gw_module *model;
    gw_optimizer *optimizer;
    gw_tensor *x[MICRO_MAX], *y[MICRO_MAX];  // of micro-batches: in and out
    gw_future *sends[MICRO_MAX];
    double loss, sent_bytes, waited_s, steps_s;
} worker;

static void pass_on(gw_scope *s, worker *w, int64_t m, gw_tensor *x) {
    w->sends[m] = gw_isend(s, w->all, gw_detach(s, x), w->other);
    w->sent_bytes += (double)gw_numel(x) * 4;
}

static gw_tensor *receive(gw_scope *s, worker *w) {
    double since_s = now_s();
    gw_tensor *x = gw_recv(s, w->all, w->other);
    w->waited_s += now_s() - since_s;
    return x;
}

static void forward(gw_scope *s, worker *w, digits batch, int64_t m) {
    digits part = micro_batch(s, batch, w->replica, m);
    w->x[m] = w->stage ? gw_requires_grad(s, receive(s, w)) : part.images;
    w->y[m] = gw_module_call(s, w->model, w->x[m]);
    if (w->stage == 0) pass_on(s, w, m, w->y[m]);
    if (w->stage) w->loss += gw_item(s, w->y[m] = loss_of(s, w->y[m], part)) / REPLICAS;
}

static void backward(gw_scope *s, worker *w, int64_t m) {
    gw_backward(s, w->y[m], .gradient = w->stage ? NULL : receive(s, w));
    if (w->stage) pass_on(s, w, m, gw_grad(s, w->x[m]));
}

static void train_step(gw_scope *outer, worker *w, digits batch) {
    gw_scope *s = gw_scope_open(outer);
    double since_s = now_s();
    for (int64_t ahead = 0, behind = 0; behind < micro_batches && gw_ok(s);) {
        bool goes_ahead = ahead < micro_batches && ahead - behind < STAGES - w->stage;
        int64_t m = goes_ahead ? ahead++ : behind++;
        m == micro_batches - 1 ? gw_ddp_sync(s) : gw_ddp_no_sync(s);
        goes_ahead ? forward(s, w, batch, m) : backward(s, w, m);
    }
    if (gw_ok(s)) gw_wait_all(s, w->sends, (int)micro_batches);
    gw_optimizer_step(s, w->optimizer);
    w->steps_s += now_s() - since_s;
    gw_scope_close_up(s);
}

// ---- The unsplit model --------------------------------------------------------------------------

typedef struct unsplit {
    gw_module *stages[STAGES], *model;
    gw_optimizer *optimizer;
} unsplit;

// Computes the gradients of each replica's micro-batches, and their mean.
static void unsplit_step(gw_scope *outer, unsplit *u, digits batch) {
    gw_scope *s = gw_scope_open(outer), *replicas[REPLICAS];
    for (int r = 0; r < REPLICAS; r++) {
        replicas[r] = gw_scope_open(s);
        for (int64_t m = 0; m < micro_batches; m++) {
            digits part = micro_batch(s, batch, r, m);
            gw_backward(replicas[r], loss_of(s, gw_module_call(s, u->model, part.images), part));
        }
    }
    for (int i = 0; i < gw_module_parameter_count(u->model); i++) {
        gw_tensor *p = gw_module_parameter_at(s, u->model, i);
        gw_tensor *a = gw_grad(replicas[0], p), *b = gw_grad(replicas[1], p);
        gw_set_grad(s, p, gw_div(s, gw_add(s, a, b), REPLICAS));
    }
    for (int r = REPLICAS - 1; r >= 0; r--) gw_scope_close_up(replicas[r]);
    gw_optimizer_step(s, u->optimizer);
    gw_scope_close_up(s);
}

// Worker 0 receives the weights of all stages.
static void fetch(gw_scope *s, worker *w, unsplit *u) {
    gw_list *all = gw_gather_value_to(s, w->all, weights_of(s, w->model), 0);
    for (int i = 0; i < gw_list_count(all) && gw_ok(s); i++) {
        gw_module *here = u->stages[i / REPLICAS];
        gw_list *weights = gw_list_of(s, gw_list_get(s, all, i));
        for (int k = 0; check && k < gw_list_count(weights); k++)
            if (!gw_equal(s, gw_module_parameter_at(s, here, k),
                          gw_tensor_of(s, gw_list_get(s, weights, k))))
                gw_fail(s, GW_MISMATCH, "%s of worker %d differs from that of the unsplit model",
                        gw_module_parameter_name(s, here, k), i);
        weights_load(s, here, weights);
    }
}

// ---- Learning -----------------------------------------------------------------------------------

static void learn(gw_scope *root, worker *w, unsplit *u, digits_split d) {
    gw_data_loader *loader = digits_loader(root, d.train, size * micro_batches * REPLICAS);
    for (int64_t epoch = 1; epoch <= epochs && gw_ok(root); epoch++) {
        gw_scope *s = gw_scope_open(root);
        for (w->loss = 0; gw_data_loader_next(s, loader);) {
            train_step(s, w, digits_batch(s, loader));
            if (check && w->rank == 0) unsplit_step(s, u, digits_batch(s, loader));
        }
        w->loss /= (double)gw_data_loader_count(loader);
        curve_put(&progress, gw_item(s, gw_all_reduce(s, w->all, gw_from(s, &w->loss, 1), GW_SUM)));
        gw_scope_close_up(s);
    }
}

static void print_counts(gw_scope *s, worker *w, gw_ddp_stats t) {
    double own[] = { w->waited_s / w->steps_s * 100, w->sent_bytes / (double)t.reduced / 1e3,
                     (double)t.parameter_bytes / 1e3, w->steps_s / (double)t.reduced * 1e3 };
    gw_tensor *rows = gw_all_gather(s, w->all, gw_from(s, own, 1, 4));
    const double *at = gw_data(rows);
    for (int i = 0; gw_ok(s) && w->rank == 0 && i < WORKERS; i++, at += 4)
        printf(
            "worker %d: %.2f ms a step, %2.0f %% waiting; %.1f kB to worker %d, %.1f to replica\n",
            i, at[3], at[0], at[1], (i + REPLICAS) % WORKERS, at[2]);
}

static void work(gw_scope *root) {
    int rank = gw_rpc_self(root).rank;
    worker w = { .rank = rank, .stage = rank / REPLICAS, .replica = rank % REPLICAS };
    w.other = (rank + REPLICAS) % WORKERS;
    w.all = gw_group_world(root);
    w.model = open_stage(root, w.stage);
    w.optimizer = gw_sgd(root, gw_parameters(root, w.model), .lr = 0.1, .momentum = 0.9);
    gw_ddp *ddp = gw_ddp_open(root, w.model, .group = gw_group_blocks(root, w.all, REPLICAS));
    unsplit u = { .stages = { open_stage(root, 0), open_stage(root, 1) } };
    u.model = gw_nn_sequential_with(root, u.stages, STAGES);
    u.optimizer = gw_sgd(root, gw_parameters(root, u.model), .lr = 0.1, .momentum = 0.9);
    digits_split d = digits_load(root, NULL);
    learn(root, &w, &u, d);
    print_counts(root, &w, gw_ddp_get_stats(ddp));
    fetch(root, &w, &u);
    double accuracy = digits_accuracy(root, u.model, d.test) * 100;
    if (rank || !gw_ok(root)) return;
    printf("bubble of the schedule: %.0f %%; %.2f %% of the test digits%s\n",
           100.0 * (STAGES - 1) / (double)(micro_batches + STAGES - 1), accuracy,
           check ? "; the weights are those of the unsplit model" : "");
    if (accuracy < 95) program_miss("95 %% of the test digits");
}

int main(int argc, char **argv) {
    return program_main(
        argc, argv, work, &progress, .workers = WORKERS, .exactly = true,
        .roles = "two stages of two replicas",
        .about =
            "Learns handwritten digits with a model in two stages and two replicas of each stage.",
        .flags = {
            { "micro-batches", "N", "in a step", .integer = &micro_batches, .min = 1,
              .max = MICRO_MAX },
            { "size", "N", "digits in a micro-batch", .integer = &size, .min = 1, .max = 11 },
            { "epochs", "N", "passes over the digits", .integer = &epochs, .min = 1, .max = 1e6 },
            { "check", NULL, "also train the unsplit model, and compare", .is_set = &check } });
}
