// Replicas that communicate seldom: local SGD, which averages weights every few steps, and PowerSGD, which exchanges
// gradients of low rank, compared with DistributedDataParallel. After PyTorch's algorithms.model_averaging and PowerSGD
// hook, whose example is an excerpt: examples/README.md compares this program with the one of PyTorch that trains
// replicas as DDP does here, with data, processes and all.
//
//     local_sgd                                   makes its own two processes
//     local_sgd --world-size 4 --period 8
//     gradwire run -n 4 -- local_sgd
//
// The lines that differ: 4 for local SGD (its hook, the averager, gw_optimizer_average, the last average), 1 for
// PowerSGD.
#include "../common/digits.h"
#include "../common/program.h"

enum { WIDTH = 128, BATCH = 64, PLAIN = 0, LOCAL, POWER, METHODS };
static const char *const names[] = { "DDP", "local SGD", "PowerSGD" };
static const double off_most = 0.01, bytes_most = 0.3;

// The command line, the same on all workers.
static int64_t epochs = 30, period = 4, rank = 2;
static curve progress = { .options = { .title = "test accuracy",
                                       .x_label = "epoch",
                                       .of = &epochs,
                                       .max = 1,
                                       .percent = true } };

typedef struct outcome {
    double accuracy, bytes, seconds;  // bytes: sent by this worker, a step
} outcome;

static double sent(gw_scope *s) {
    return (double)gw_rpc_get_stats(s).bytes_sent;
}

static void train_step(gw_scope *outer, gw_module *model, gw_optimizer *opt, digits batch) {
    gw_scope *s = gw_scope_open(outer);
    gw_backward(s, digits_loss(s, model, digits_own_share(s, batch)));
    gw_optimizer_step(s, opt);
    gw_scope_close_up(s);
}

static outcome train(gw_scope *root, int method, digits_split d) {
    gw_scope *s = gw_scope_open(root);
    gw_seed(s, 1);
    gw_module *model = digits_model(s, WIDTH);
    gw_ddp *ddp = gw_ddp_open(s, model);
    gw_optimizer *opt = gw_sgd(s, gw_parameters(s, model), .lr = 0.1, .momentum = 0.9);
    gw_data_loader *loader = digits_loader(s, d.train, BATCH);
    int64_t warmup = gw_data_loader_count(loader);  // the first pass over the digits
    gw_local_sgd local = { .start = warmup };
    gw_averager averager = { .levels = { { .period = period } }, .warmup = warmup };
    gw_power_sgd *power = gw_power_sgd_open(s, .rank = (int)rank, .start = warmup);
    if (method == LOCAL) gw_ddp_set_hook(s, ddp, gw_hook_local_sgd, &local);
    if (method == LOCAL) gw_optimizer_average(s, opt, &averager);
    if (method == POWER) gw_ddp_set_hook(s, ddp, gw_hook_power_sgd, power);
    outcome out = { .bytes = -sent(s), .seconds = -now_s() };
    curve_begin(&progress, names[method]);
    for (int64_t epoch = 1; epoch <= epochs && gw_ok(s); epoch++) {
        gw_scope *t = gw_scope_open(s);
        while (gw_data_loader_next(t, loader)) train_step(t, model, opt, digits_batch(t, loader));
        if (method == LOCAL && epoch == epochs)
            gw_average_parameters(t, gw_group_world(t), gw_parameters(t, model));
        curve_put(&progress, out.accuracy = digits_accuracy(t, model, d.test));
        gw_scope_close_up(t);
    }
    out.bytes = (out.bytes + sent(s)) / (double)(gw_optimizer_steps(opt) + !gw_ok(s));
    out.seconds += now_s();
    gw_scope_close_up(s);
    return out;
}

static void work(gw_scope *root) {
    digits_split d = digits_load(root, NULL);
    outcome all[METHODS];
    for (int method = 0; method < METHODS; method++) all[method] = train(root, method, d);
    if (gw_rpc_self(root).rank || !gw_ok(root)) return;
    printf("%-10s  test accuracy  bytes a step    seconds\n", "");
    for (int i = 0; i < METHODS; i++)
        printf("%-10s %12.2f %% %9.0f %3.0f %% %8.2f\n", names[i], all[i].accuracy * 100,
               all[i].bytes, 100 * all[i].bytes / all[PLAIN].bytes, all[i].seconds);
    if (all[LOCAL].accuracy < all[PLAIN].accuracy - off_most)
        program_miss("local SGD within %g %% of DDP", off_most * 100);
    if (all[LOCAL].bytes > all[PLAIN].bytes * bytes_most)
        program_miss("local SGD by at most %g %% of the bytes of DDP", bytes_most * 100);
}

int main(int argc, char **argv) {
    return program_main(
        argc, argv, work, &progress, .workers_min = 2,
        .about = "Learns handwritten digits by local SGD and by PowerSGD, compared with "
                 "DistributedDataParallel:\n"
                 "local SGD is to be within 1 % of that, and to send at most 30 % of its bytes.",
        .flags = {
            { "epochs", "N", "passes over the digits", .integer = &epochs, .min = 1, .max = 1e6 },
            { "period", "N", "steps from average to average", .integer = &period, .min = 1,
              .max = 1e6 },
            { "rank", "N", "of PowerSGD", .integer = &rank, .min = 1, .max = 64 } });
}
