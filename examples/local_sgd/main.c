// Replicas that seldom talk: local SGD, which averages weights every few steps, and PowerSGD, which
// exchanges gradients of low rank, beside DistributedDataParallel. After PyTorch's
// algorithms.model_averaging and PowerSGD hook.
//
//     local_sgd                                   makes its own two processes
//     local_sgd --world-size 4 --period 8
//     gradwire run -n 4 -- local_sgd
//
// The lines that make the difference: 3 for local SGD (its hook, the averager, gw_optimizer_average), 2
// for PowerSGD.
#include "../common/curve.h"
#include "../common/digits.h"
#include "../common/workers.h"

#include <stdio.h>

enum { WIDTH = 128, BATCH = 64, TOO_FAR = 3 };
enum { PLAIN, LOCAL, POWER, METHODS };
static const char *const names[] = { "DDP", "local SGD", "PowerSGD" };
static const double off_most = 0.01, bytes_most = 0.3;

// The command line, the same on all workers.
static int64_t world_size = 2, epochs = 30, period = 4, rank = 2;
static const char *plot;

typedef struct outcome {
    double accuracy, bytes, seconds;  // bytes: sent by this worker, a step
} outcome;

static void train_step(gw_scope *outer, gw_module *model, gw_optimizer *opt, digits batch) {
    gw_scope *s = gw_scope_open(outer);
    int self = gw_rpc_self(s).rank, n = gw_rpc_world_size(s);
    gw_backward(s, digits_loss(s, model, digits_share(s, batch, self, n)));
    gw_optimizer_step(s, opt);
    gw_scope_close_up(s);
}

static double sent(gw_scope *s) {
    return (double)gw_rpc_get_stats(s).bytes_sent;
}

// The steps of one pass over the digits; their bytes and time are counted.
static int train_epoch(gw_scope *s, gw_module *model, gw_optimizer *opt, gw_data_loader *loader,
                       outcome *out) {
    double bytes = sent(s), began_s = now_s();
    int steps = 0;
    for (; gw_data_loader_next(s, loader); steps++)
        train_step(s, model, opt, digits_batch(s, loader));
    out->bytes += sent(s) - bytes;
    out->seconds += now_s() - began_s;
    return steps;
}

static outcome train(gw_scope *root, int method, digits_split d, curve *c) {
    outcome out = { 0 };
    gw_scope *s = gw_scope_open(root);
    gw_seed(s, 1);
    gw_module *model = digits_model(s, WIDTH);
    gw_ddp *ddp = gw_ddp_open(s, model);
    gw_optimizer *opt = gw_sgd(s, gw_parameters(s, model), .lr = 0.1, .momentum = 0.9);
    gw_data_loader *loader = gw_data_loader_open(s, digits_dataset(s, d.train), .batch_size = BATCH,
                                                 .shuffle = true, .drop_last = true, .seed = 1);
    int64_t warmup = d.train.count / BATCH;  // the first pass over the digits
    gw_local_sgd local = { .start = warmup };
    gw_averager averager = { .levels = { { .period = period } }, .warmup = warmup };
    if (method == LOCAL) gw_ddp_set_hook(s, ddp, gw_hook_local_sgd, &local);
    if (method == LOCAL) gw_optimizer_average(s, opt, &averager);
    gw_power_sgd *power = gw_power_sgd_open(s, .rank = (int)rank, .start = warmup);
    if (method == POWER) gw_ddp_set_hook(s, ddp, gw_hook_power_sgd, power);
    int steps = 0;
    for (int64_t epoch = 1; epoch <= epochs && gw_ok(s); epoch++) {
        gw_scope *t = gw_scope_open(s);
        steps += train_epoch(t, model, opt, loader, &out);
        if (method == LOCAL && epoch == epochs)
            gw_average_parameters(t, gw_group_world(t), gw_parameters(t, model));
        out.accuracy = digits_accuracy(t, model, d.test);
        char line[80];
        snprintf(line, sizeof line, "%-10s epoch %3lld  test accuracy %.2f %%", names[method],
                 (long long)epoch, out.accuracy * 100);
        curve_add(c, out.accuracy, line);
        if (epoch % 10 == 0) curve_say(c, line);
        gw_scope_close_up(t);
    }
    out.bytes /= steps ? steps : 1;
    gw_scope_close_up(s);
    return out;
}

// Whether local SGD is as good as it is said to be.
static bool report(const outcome *all) {
    printf("%-10s  test accuracy  bytes a step    seconds\n", "");
    for (int i = 0; i < METHODS; i++)
        printf("%-10s %12.2f %% %9.0f %3.0f %% %8.2f\n", names[i], all[i].accuracy * 100,
               all[i].bytes, 100 * all[i].bytes / all[PLAIN].bytes, all[i].seconds);
    return all[LOCAL].accuracy >= all[PLAIN].accuracy - off_most &&
           all[LOCAL].bytes <= all[PLAIN].bytes * bytes_most;
}

static int work(gw_scope *root) {
    digits_split d = digits_load(root, NULL);
    outcome all[METHODS] = { 0 };
    bool first = gw_rpc_self(root).rank == 0;
    FILE *out = first ? stdout : fopen("/dev/null", "w");
    for (int method = 0; method < METHODS && gw_ok(root); method++) {
        curve c;
        curve_open(&c, out ? out : stdout, (curve_options){ .title = "test accuracy", .max = 1 });
        all[method] = train(root, method, d, &c);
        if (first && plot && method == LOCAL && !curve_plot(&c, plot))
            gw_fail(root, GW_SYSTEM, "%s", plot);
        curve_close(&c);
    }
    if (out && !first) fclose(out);
    return !first || !gw_ok(root) || report(all) ? 0 : TOO_FAR;
}

int main(int argc, char **argv) {
    const flag flags[] = {
        { "world-size", "N", "processes", .integer = &world_size, .min = 2, .max = 1024 },
        { "epochs", "N", "passes over the digits", .integer = &epochs, .min = 1, .max = 1e6 },
        { "period", "N", "steps from average to average", .integer = &period, .min = 1,
          .max = 1e6 },
        { "rank", "N", "of PowerSGD", .integer = &rank, .min = 1, .max = 64 },
        { "plot", "FILE.svg", "draw the test accuracy of local SGD", .text = &plot },
        { 0 },
    };
    static const char about[] =
        "Learns handwritten digits by local SGD and by PowerSGD, beside DistributedDataParallel.\n"
        "Exit code: 0 if local SGD is within 1 % of that and sends at most 30 % of its bytes, 3 "
        "if\n"
        "not, 1 after an error.";
    return workers_main("local_sgd", about, flags, argc, argv, &world_size, work);
}
