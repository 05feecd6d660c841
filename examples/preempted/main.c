// A training on machines that may be taken away at any time: SIGTERM is a request to leave, all members write a checkpoint
// together and end with code 0; the same command continues there. The weights are those of a training that nothing has
// interrupted, bit for bit.
//
//     while gradwire run -n 2 --max-restarts 1 --checkpoint-dir saved -- preempted --every 500; do ...; done
//
// With --every the program sends itself SIGTERM after so many steps.
#include "../common/digits.h"
#include "../common/flags.h"
#include "../common/weights.h"

#include <signal.h>
#include <stdio.h>

enum { WIDTH = 128, BATCH = 32 };

static int64_t epochs = 30, every;

static void learn(gw_scope *root, gw_module *model, digits all) {
    gw_optimizer *opt = gw_sgd(root, gw_parameters(root, model), .lr = 0.1, .momentum = 0.9);
    gw_elastic *job = gw_elastic_open(root, model, opt, .steps = epochs * digits_steps(all, BATCH));
    int64_t first = gw_elastic_step(job), step = first;
    for (gw_scope *s; (s = gw_elastic_begin(root, job));) {
        step = gw_elastic_step(job);
        if (every && step == first + every) raise(SIGTERM);
        gw_share part = gw_elastic_share(job, BATCH);
        digits batch = digits_at(s, all, step, BATCH, part);
        gw_backward(s, gw_mul(s, digits_loss(s, model, batch), part.weight));
        gw_optimizer_step(s, opt);
        gw_elastic_end(job, s);
    }
    if (gw_ok(root))
        printf("steps %lld to %lld: %s, weights %016llx\n", (long long)first,
               (long long)gw_elastic_step(job), gw_elastic_reason_name(gw_elastic_get_reason(job)),
               (unsigned long long)weights_hash(root, model));
    gw_elastic_close(root, job);
}

int main(int argc, char **argv) {
    const flag flags[] = {
        { "epochs", "N", "passes over the digits", .integer = &epochs, .min = 1, .max = 1e6 },
        { "every", "N", "SIGTERM after so many steps", .integer = &every, .max = 1e9 },
        { 0 },
    };
    int code = flags_parse("preempted",
                           "Learns handwritten digits, and continues where SIGTERM has ended it.",
                           flags, argc, argv);
    if (code >= 0) return code;
    gw_scope *root = gw_scope_open(NULL);
    digits_split d = digits_load(root, NULL);
    learn(root, digits_model(root, WIDTH), d.train);
    return gw_exit_code(gw_scope_close(root));
}
