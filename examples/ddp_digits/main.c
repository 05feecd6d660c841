// DistributedDataParallel: replicas of one model, each of which reads its own share of the digits.
//
//     ddp_digits                                  makes its own two processes
//     ddp_digits --world-size 4 --hook bf16       half the bytes between members
//     ddp_digits --shards 4                       the same weights, bit for bit, with 1, 2 or 4 members
//     gradwire run -n 4 -- ddp_digits
//     gradwire run -n 4 --max-restarts 3 -- ddp_digits --elastic        survives kill -9, SIGTERM and new members
//
// The lines that communicate: 2 (the replicas, the hook). The rest is the training loop of a program with one process.
#include "../common/digits.h"
#include "../common/program.h"
#include "../common/weights.h"

#include <string.h>

enum { WIDTH = 128, BATCH = 32 };

// The command line, the same on all workers.
static int64_t epochs = 30, shards, bucket_kb = 1024;
static bool amp, elastic;
static const char *hook = "none", *const hooks[] = { "none", "f16", "bf16", NULL };

static curve progress = { .options = { .title = "test accuracy",
                                       .x_label = "epoch",
                                       .of = &epochs,
                                       .max = 1,
                                       .percent = true,
                                       .goal = 0.97 } };

// One step: a pass for each of this member's shards of the batch.
static void train_step(gw_scope *s, gw_module *model, gw_optimizer *opt, digits batch, int rank,
                       int n) {
    int count = shards ? (int)shards : n, each = count / n;
    if (amp) gw_autocast(s, GW_BF16);
    for (int i = rank * each, end = i + each; i < end; i++) {
        gw_span *forward = gw_span_open(s, "forward");  // for gradwire trace
        gw_tensor *loss = digits_loss(s, model, digits_share(s, batch, i, count));
        gw_span_close(forward);
        gw_backward(s, loss);
    }
    gw_optimizer_step(s, opt);
}

static gw_scope *begin(gw_scope *root, int64_t step, int64_t steps) {
    return gw_ok(root) && step < steps ? gw_scope_open(root) : NULL;
}

static double train(gw_scope *root, gw_module *model, digits_split d) {
    gw_optimizer *opt = gw_sgd(root, gw_parameters(root, model), .lr = 0.1, .momentum = 0.9);
    int64_t step = 0, steps_of_epoch = digits_steps(d.train, BATCH),
            steps = epochs * steps_of_epoch;
    double accuracy = 0;
    gw_elastic *job = elastic ? gw_elastic_open(root, model, opt, .steps = steps) : NULL;
    for (gw_scope *s; (s = elastic ? gw_elastic_begin(root, job) : begin(root, step, steps));) {
        int rank = elastic ? gw_elastic_rank(job) : gw_rpc_self(s).rank;
        int n = elastic ? gw_elastic_size(job) : gw_rpc_world_size(s);
        step = gw_optimizer_steps(opt);
        train_step(s, model, opt, digits_at(s, d.train, step, BATCH, (gw_share){ 0, BATCH, 1 }),
                   rank, n);
        bool counts = elastic ? gw_elastic_end(job, s) : (gw_scope_close_up(s), gw_ok(root));
        if (counts && ++step % steps_of_epoch == 0)
            curve_put(&progress, accuracy = digits_accuracy(root, model, d.test));
    }
    if (elastic) gw_elastic_close(root, job);
    return accuracy;
}

static void work(gw_scope *root) {
    digits_split d = digits_load(root, NULL);
    gw_module *model = digits_model(root, WIDTH);
    gw_ddp *ddp = elastic ? NULL
                          : gw_ddp_open(root, model, .shards = (int)shards,
                                        .first_bucket_bytes = bucket_kb << 10,
                                        .bucket_bytes = bucket_kb << 10);
    if (strcmp(hook, "none") != 0)
        gw_ddp_set_hook(root, ddp, strcmp(hook, "f16") ? gw_hook_bf16 : gw_hook_f16, NULL);
    double began_s = now_s(), accuracy = train(root, model, d) * 100;
    gw_ddp_stats t = gw_ddp_get_stats(ddp);
    const char *line = gw_format(
        root,
        "%d members, %.0f steps/s, %.0f of %.0f us of communication overlap the pass: "
        "%.2f %% of the test digits, weights %016llx",
        t.world_size, (double)t.passes / (now_s() - began_s), t.communication_us - t.waited_us,
        t.communication_us, accuracy, (unsigned long long)weights_hash(root, model));
    if (gw_ok(root) && !elastic) curve_print(&progress, line);
}

int main(int argc, char **argv) {
    return program_main(
        argc, argv, work, &progress,
        .about = "Learns handwritten digits with replicas of a model, one on each worker.",
        .flags = {
            { "epochs", "N", "passes over the digits", .integer = &epochs, .min = 1, .max = 1e6 },
            { "shards", "N", "cut each batch into so many", .integer = &shards, .max = 1024 },
            { "hook", "none|f16|bf16", "round gradients on the way", .text = &hook,
              .words = hooks },
            { "amp", NULL, "products in bf16", .is_set = &amp },
            { "elastic", NULL, "members may be lost, leave and join", .is_set = &elastic },
            { "bucket-kb", "N", "gradients that travel together", .integer = &bucket_kb, .min = 1,
              .max = 1e6 } });
}
