// Replicas whose processes may be killed, stopped and started again while they learn: the loop of a program that survives
// all that is the loop of any other program, between gw_elastic_begin and gw_elastic_end.
//
//     gradwire run -n 4 --max-restarts 3 -- ddp_elastic
//     gradwire run -n 4 --max-restarts 3 --checkpoint-dir saved -- ddp_elastic --kills 2
//
// With --kills the first attempts of some ranks kill themselves, one after the other. The others continue, and the
// launcher starts the killed ranks again. In the end all members have the same weights.
#include "../common/digits.h"
#include "../common/flags.h"
#include "../common/weights.h"

#include <signal.h>
#include <stdio.h>

enum { WIDTH = 128, BATCH = 32, NOT_LEARNED = 3 };

static int64_t epochs = 30, kills;

static void kill_if_due(int64_t step, int64_t steps) {
    gw_launch place = gw_rpc_launched();
    bool is_victim = place.attempt == 0 && place.rank < kills;
    if (is_victim && step == (place.rank + 1) * steps / (kills + 1)) raise(SIGKILL);
}

// Returns whether all steps are made, and the model has their weights.
static bool learn(gw_scope *root, gw_module *model, digits all) {
    gw_optimizer *opt = gw_sgd(root, gw_parameters(root, model), .lr = 0.1, .momentum = 0.9);
    int64_t steps = epochs * digits_steps(all, BATCH);
    gw_elastic *job = gw_elastic_open(root, model, opt, .steps = steps);
    for (gw_scope *s; (s = gw_elastic_begin(root, job));) {
        kill_if_due(gw_elastic_step(job), steps);
        gw_share part = gw_elastic_share(job, BATCH);
        digits batch = digits_at(s, all, gw_elastic_step(job), BATCH, part);
        gw_backward(s, gw_mul(s, digits_loss(s, model, batch), part.weight));
        gw_optimizer_step(s, opt);
        gw_elastic_end(job, s);
    }
    int64_t made = gw_elastic_step(job);
    if (gw_ok(root))
        printf("%s after %lld of %lld steps\n", gw_elastic_reason_name(gw_elastic_get_reason(job)),
               (long long)made, (long long)steps);
    gw_elastic_close(root, job);
    return gw_ok(root) && made == steps;
}

int main(int argc, char **argv) {
    const flag flags[] = {
        { "epochs", "N", "passes over the digits", .integer = &epochs, .min = 1, .max = 1e6 },
        { "kills", "N", "ranks that kill themselves once", .integer = &kills, .max = 64 },
        { 0 },
    };
    int code =
        flags_parse("ddp_elastic",
                    "Learns handwritten digits with replicas that may be lost and started again.",
                    flags, argc, argv);
    if (code >= 0) return code;
    gw_scope *root = gw_scope_open(NULL);
    digits_split d = digits_load(root, NULL);
    gw_module *model = digits_model(root, WIDTH);
    bool is_whole = learn(root, model, d.train);
    double accuracy = is_whole ? digits_accuracy(root, model, d.test) : 1;
    if (is_whole && gw_ok(root))
        printf("%.2f %% of the test digits, weights %016llx\n", accuracy * 100,
               (unsigned long long)weights_hash(root, model));
    code = gw_exit_code(gw_scope_close(root));
    return code || accuracy >= 0.97 || epochs < 20 ? code : NOT_LEARNED;
}
