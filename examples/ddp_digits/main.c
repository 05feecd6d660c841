// DistributedDataParallel: replicas of one model, each of which reads its own share of the digits.
//
//     ddp_digits                                  makes its own two processes
//     ddp_digits --world-size 4 --hook bf16       half the bytes between members
//     ddp_digits --shards 4                       the same weights, bit for bit, with 1, 2 or 4 members
//     gradwire run -n 4 -- ddp_digits
//
// The lines that communicate: 4 (init, the replicas, the hook, shutdown). What is between them is
// the loop of a program that runs alone.
#include "../common/curve.h"
#include "../common/digits.h"
#include "../common/flags.h"
#include "../common/workers.h"

#include <gradwire.h>

#include <stdio.h>
#include <string.h>

enum { WIDTH = 128, NOT_LEARNED = 3 };
static const double goal = 0.97;

// The command line, the same on all workers.
static int64_t world_size = 2, epochs = 30, shards;
static bool amp;
static const char *hook = "none", *plot, *const hooks[] = { "none", "f16", "bf16", NULL };

// One step: a pass for each of this member's shards of the batch.
static void train_step(gw_scope *outer, gw_module *model, gw_optimizer *opt, digits batch) {
    gw_scope *s = gw_scope_open(outer);
    int n = gw_rpc_world_size(s), count = shards ? (int)shards : n, each = count / n;
    if (amp) gw_autocast(s, GW_BF16);
    for (int i = gw_rpc_self(s).rank * each, end = i + each; i < end; i++)
        gw_backward(s, digits_loss(s, model, digits_share(s, batch, i, count)));
    gw_optimizer_step(s, opt);
    gw_scope_close_up(s);
}

// One number for all bits of the weights.
static unsigned long long hash_of(gw_scope *s, gw_module *model) {
    unsigned long long hash = 14695981039346656037ULL;
    for (int i = 0; i < gw_module_parameter_count(model); i++) {
        gw_tensor *w = gw_module_parameter_at(s, model, i);
        const unsigned char *at = gw_data(w), *end = at + gw_numel(w) * 4;
        while (at < end) hash = (hash ^ *at++) * 1099511628211ULL;
    }
    return hash;
}

static double train(gw_scope *root, gw_module *model, curve *c) {
    digits_split d = digits_load(root, NULL);
    gw_optimizer *opt = gw_sgd(root, gw_parameters(root, model), .lr = 0.1, .momentum = 0.9);
    gw_data_loader *loader =  // one order on all members
        gw_data_loader_open(root, digits_dataset(root, d.train), .batch_size = 32, .shuffle = true,
                            .drop_last = true, .seed = 1);
    double accuracy = 0;
    for (int64_t epoch = 1; epoch <= epochs && gw_ok(root); epoch++) {
        gw_scope *s = gw_scope_open(root);
        while (gw_data_loader_next(s, loader)) train_step(s, model, opt, digits_batch(s, loader));
        accuracy = digits_accuracy(s, model, d.test);
        curve_add(c, accuracy, "");
        if (gw_rpc_self(s).rank == 0 && epoch % 5 == 0)
            printf("epoch %3lld  test accuracy %.2f %%\n", (long long)epoch, accuracy * 100);
        gw_scope_close_up(s);
    }
    return accuracy;
}

static int run_worker(const char *init_method, void *context) {
    (void)context;
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root, .name = "worker%d", .init_method = init_method);
    gw_module *model = digits_model(root, WIDTH);
    gw_ddp *ddp = gw_ddp_open(root, model, .shards = (int)shards);
    if (strcmp(hook, "none") != 0)
        gw_ddp_set_hook(root, ddp, strcmp(hook, "f16") ? gw_hook_bf16 : gw_hook_f16, NULL);
    curve c;
    curve_open(&c, stdout, (curve_options){ .title = "test accuracy", .max = 1, .goal = goal });
    double began_s = now_s(), accuracy = gw_ok(root) ? train(root, model, &c) : 0;
    gw_ddp_stats t = gw_ddp_get_stats(ddp);
    if (t.rank == 0 && gw_ok(root))
        printf("%d members, %.0f steps/s, %.0f of %.0f us of communication beside the pass: "
               "%.2f %% of the test digits, weights %016llx\n",
               t.world_size, (double)t.passes / (now_s() - began_s),
               t.communication_us - t.waited_us, t.communication_us, accuracy * 100,
               hash_of(root, model));
    if (t.rank == 0 && plot && !curve_plot(&c, plot)) gw_fail(root, GW_SYSTEM, "%s", plot);
    curve_close(&c);
    gw_rpc_shutdown(root);
    int failed = gw_exit_code(gw_scope_close(root));
    return failed || accuracy >= goal ? failed : NOT_LEARNED;
}

int main(int argc, char **argv) {
    const flag flags[] = {
        { "world-size", "N", "processes", .integer = &world_size, .min = 1, .max = 1024 },
        { "epochs", "N", "passes over the digits", .integer = &epochs, .min = 1, .max = 1e6 },
        { "shards", "N", "cut each batch into so many", .integer = &shards, .max = 1024 },
        { "hook", "none|f16|bf16", "round gradients on the way", .text = &hook, .words = hooks },
        { "amp", NULL, "products in bf16", .is_set = &amp },
        { "plot", "FILE.svg", "draw the test accuracy", .text = &plot },
        { 0 },
    };
    static const char about[] =
        "Learns handwritten digits with replicas of a model, one on each worker.\n"
        "Exit code: 0 if 97 % of the test digits are recognised, 3 if not, 1 after an error.";
    int code = flags_parse("ddp_digits", about, flags, argc, argv);
    if (code >= 0) return code;
    setvbuf(stdout, NULL, _IOLBF, 0);
    return gw_rpc_launched().rank >= 0 ? run_worker(NULL, NULL)
                                       : workers_run((int)world_size, run_worker, NULL);
}
