// DistributedDataParallel inside RPC: a sparse part on a server, a dense part with a replica on each
// trainer, one backward pass and one optimizer over both. After the tutorial "Combining Distributed
// DataParallel with Distributed RPC Framework" of PyTorch, with its four roles, sizes and loop.
//
//     ddp_rpc                                     makes its own four processes
//     gradwire run -n 4 -- ddp_rpc
//
// The master makes an embedding table on the server and has the trainers train it. A trainer looks
// rows up there, puts them through its replica of a linear layer, and steps over both. Labels are
// planted: indices of a bag are those of its class; --random takes any, as the tutorial does.
//
// The lines that communicate: 8 (init, the table, "train" on both trainers, the group and the
// replicas, the look-up, the optimizer, the end). Backward and step are written like without them.
#include "../common/curve.h"
#include "../common/flags.h"
#include "../common/workers.h"

#include <gradwire.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { EMBEDDINGS = 100, FEATURES = 16, CLASSES = 8, BATCHES = 10, TRAINERS = 2, NOT_LEARNED = 3 };
static const double goal = 0.7;
static const char *const names[] = { "trainer0", "trainer1", "master", "ps" };

// The command line, the same on all workers.
static int64_t epochs = 100;
static bool is_random;
static const char *plot;

// ---- Trainers -----------------------------------------------------------------------------------

typedef struct batch {
    gw_tensor *indices, *offsets, *target;
} batch;

static int64_t draw(gw_scope *s, int64_t low, int64_t high) {
    return gw_item_int(s, gw_randint(s, GW_I64, low, high, 1));
}

// 20 to 50 indices in bags of 1 to 10.
static batch next_batch(gw_scope *s) {
    int64_t indices[50], offsets[50], labels[50], bags = 0, end = 0, count = draw(s, 20, 51);
    for (int64_t i = 0; i < count; i++) {
        if (i == end) {
            offsets[bags] = i;
            labels[bags++] = draw(s, 0, CLASSES);
            end += draw(s, 1, 11);
        }
        indices[i] = draw(s, 0, EMBEDDINGS);
        if (!is_random)
            indices[i] = indices[i] % (EMBEDDINGS / CLASSES) * CLASSES + labels[bags - 1];
    }
    return (batch){ gw_from(s, indices, count), gw_from(s, offsets, bags),
                    gw_from(s, labels, bags) };
}

static double train_step(gw_scope *outer, gw_module *emb, gw_module *fc, gw_optimizer *opt) {
    gw_scope *s = gw_scope_open(outer);
    batch b = next_batch(s);
    gw_tensor *rows = gw_nn_embedding_bag_call(s, emb, b.indices, .offsets = b.offsets);
    gw_tensor *loss = gw_cross_entropy(s, gw_module_call(s, fc, rows), b.target);
    gw_backward(s, loss);
    gw_optimizer_step(s, opt);
    double value = gw_item(s, loss);
    gw_scope_close_up(s);
    return value;
}

// Gives the weights of its replica, and the mean loss of each epoch.
GW_FUNCTION(train, GW_POOL, "rref") {
    gw_worker trainers[] = { gw_rpc_worker(s, "trainer0"), gw_rpc_worker(s, "trainer1") };
    gw_module *emb = gw_module_from_rref(s, gw_arg_rref(s, a, 0));
    gw_module *fc = gw_nn_linear(s, FEATURES, CLASSES);
    gw_ddp_open(s, fc, .group = gw_group_open(s, trainers, TRAINERS));
    gw_optimizer *opt = gw_sgd(s, gw_parameters(s, emb, fc), .lr = 0.05, .concurrent = true);
    gw_list *result = gw_list_open(s);
    gw_list_add(s, result, gw_detach(s, gw_module_parameter_get(s, fc, "weight")));
    for (int64_t epoch = 1; epoch <= epochs && gw_ok(s); epoch++) {
        double sum = 0;
        for (int i = 0; i < BATCHES; i++) sum += train_step(s, emb, fc, opt);
        gw_list_add(s, result, sum / BATCHES);
        if (gw_rpc_self(s).rank == 0 && epoch % 10 == 0)
            printf("epoch %3lld  loss %.3f\n", (long long)epoch, sum / BATCHES);
    }
    return gw_value_of(result);
}

// ---- The program --------------------------------------------------------------------------------

static int finish(gw_scope *s, gw_list *results) {
    gw_list *first = gw_list_of(s, gw_list_get(s, results, 0));
    gw_list *second = gw_list_of(s, gw_list_get(s, results, 1));
    bool same = gw_equal(s, gw_tensor_of(s, gw_list_get(s, first, 0)),
                         gw_tensor_of(s, gw_list_get(s, second, 0)));
    double loss = 0;
    curve c;
    curve_open(&c, stdout, (curve_options){ .title = "loss", .x_label = "epoch", .goal = goal });
    for (int i = 1; gw_ok(s) && i < gw_list_count(first); i++)
        curve_add(&c, loss = gw_float_of(s, gw_list_get(s, first, i)), "");
    if (gw_ok(s))
        printf("loss %.3f; the replicas %s\n", loss, same ? "have the same bits" : "DIFFER");
    if (plot && !curve_plot(&c, plot)) gw_fail(s, GW_SYSTEM, "%s: %s", plot, strerror(errno));
    curve_close(&c);
    return same && (is_random || loss <= goal) ? 0 : NOT_LEARNED;
}

static int run_master(gw_scope *s) {
    gw_worker trainers[] = { gw_rpc_worker(s, "trainer0"), gw_rpc_worker(s, "trainer1") };
    gw_map *sum = gw_map_open(s);
    gw_map_put(s, sum, "mode", "sum");
    gw_module *emb = gw_module_remote(s, "ps", "gw.nn.embedding_bag", EMBEDDINGS, FEATURES, sum);
    gw_call_options call = GW_OPTIONS(gw_call_options, .timeout_ms = GW_NO_TIMEOUT);
    return finish(s, gw_rpc_sync_all_with(s, gw_to_workers(trainers, TRAINERS), "train",
                                          GW_ARGS(gw_module_rref(s, emb)), call));
}

static int run_worker(const char *init_method, void *context) {
    (void)context;
    int rank = gw_rpc_launched().rank;
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root, .name = names[rank % 4], .init_method = init_method);
    if (gw_ok(root) && gw_rpc_world_size(root) != 4)
        gw_fail(root, GW_INVALID, "two trainers, a master and a server: gradwire run -n 4 -- ...");
    int outcome = rank == 2 && gw_ok(root) ? run_master(root) : 0;
    gw_barrier(root, gw_group_world(root, .timeout_ms = GW_NO_TIMEOUT));  // they serve until then
    gw_rpc_shutdown(root);
    int failed = gw_exit_code(gw_scope_close(root));
    return failed ? failed : outcome;
}

int main(int argc, char **argv) {
    const flag flags[] = {
        { "epochs", "N", "of 10 batches on each trainer", .integer = &epochs, .min = 1,
          .max = 1e6 },
        { "random", NULL, "labels without a rule, as in the tutorial", .is_set = &is_random },
        { "plot", "FILE.svg", "draw the loss", .text = &plot },
        { 0 },
    };
    int code = flags_parse(
        "ddp_rpc",
        "Trains an embedding table on a server and replicas of a layer on two trainers.\n"
        "Exit code: 0 once the loss is 0.7, 3 if not, 1 after an error.",
        flags, argc, argv);
    if (code >= 0) return code;
    setvbuf(stdout, NULL, _IOLBF, 0);
    return gw_rpc_launched().rank >= 0 ? run_worker(NULL, NULL) : workers_run(4, run_worker, NULL);
}
