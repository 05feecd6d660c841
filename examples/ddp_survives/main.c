// Replicas that survive losses: members are killed while they learn; the others continue, and admit new ones.
//
//     ddp_survives                                  three members; two are killed, one after the other
//     ddp_survives --world-size 4 --losses 4
//     gradwire run -n 4 --max-restarts 3 -- ddp_survives --losses 3
//
// The launcher starts killed members again. The curve is state of the program: a member that joins gets it.
#include "../common/digits.h"
#include "../common/program.h"
#include "../common/weights.h"

#include <signal.h>
#include <stdio.h>

enum { WIDTH = 128, BATCH = 32 };

static int64_t epochs = 30, losses = 2;
static curve progress = { .options = { .title = "test accuracy",
                                       .x_label = "epoch",
                                       .of = &epochs,
                                       .max = 1,
                                       .percent = true,
                                       .goal = 0.97 } };

// The ranks are killed in turn, first the one that has created the job.
static void kill_if_due(int64_t step, int64_t steps) {
    gw_launch here = gw_rpc_launched();
    int64_t loss = (int64_t)here.attempt * here.world_size + here.rank;
    if (loss < losses && step == (loss + 1) * steps / (losses + 1)) raise(SIGKILL);
}

static void work(gw_scope *root) {
    digits_split d = digits_load(root, NULL);
    gw_module *model = digits_model(root, WIDTH);
    gw_optimizer *opt = gw_sgd(root, gw_parameters(root, model), .lr = 0.05, .momentum = 0.9);
    int64_t each = digits_steps(d.train, BATCH);
    gw_elastic *job = gw_elastic_open(root, model, opt, .steps = epochs * each, .save = curve_save,
                                      .load = curve_load, .context = &progress,
                                      .min = gw_rpc_launched().world_size);
    for (gw_scope *s; (s = gw_elastic_begin(root, job));) {
        int64_t step = gw_elastic_step(job);
        kill_if_due(step, epochs * each);
        gw_share part = gw_elastic_share(job, BATCH);
        digits batch = digits_at(s, d.train, step, BATCH, part);
        gw_backward(s, gw_mul(s, digits_loss(s, model, batch), part.weight));
        gw_optimizer_step(s, opt);
        if (gw_elastic_end(job, s) && (step + 1) % each == 0)
            curve_put(&progress, digits_accuracy(root, model, d.test));
    }
    if (gw_ok(root))
        printf("%d epochs, weights %016llx\n", progress.count,
               (unsigned long long)weights_hash(root, model));
    gw_elastic_close(root, job);
}

int main(int argc, char **argv) {
    return program_main(
        argc, argv, work, &progress, .restarts = 64, .workers = 3, .workers_min = 2,
        .about = "Learns digits with replicas, some of which are killed and started again.",
        .flags = {
            { "epochs", "N", "passes over the digits", .integer = &epochs, .min = 1, .max = 1e6 },
            { "losses", "N", "members that are killed", .integer = &losses, .max = 64 } });
}
