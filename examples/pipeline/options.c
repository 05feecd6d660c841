#include "options.h"

#include "../common/flags.h"

#include <stdio.h>

static const char about[] =
    "Learns handwritten digits with a model that is split over three workers. Every batch goes\n"
    "through them in micro-batches, so that all three have something to do.";

int options_parse(int argc, char **argv, options *out) {
    options o = { .schedule = "1f1b",
                  .micro_batches = 8,
                  .batch = 96,
                  .epochs = 20,
                  .width = 64,
                  .seed = 1,
                  .lr = 0.05 };
    static const char *const schedules[] = { "fill-drain", "1f1b", "autograd", NULL };
    const double many = 1e6;
    const flag flags[] = {
        { "schedule", "fill-drain|1f1b|autograd",
          "all forward and then all backward, in turns, or by distributed autograd",
          .text = &o.schedule, .words = schedules },
        { "micro-batches", "N", "a batch is cut into so many", .integer = &o.micro_batches,
          .min = 1, .max = 1024 },
        { "batch", "N", "digits in a step", .integer = &o.batch, .min = 1, .max = 1437 },
        { "epochs", "N", "passes over the digits", .integer = &o.epochs, .min = 1, .max = many },
        { "width", "N", "of the hidden layers", .integer = &o.width, .min = 1, .max = many },
        { "lr", "X", "learning rate", .real = &o.lr, .max = 1000 },
        { "seed", "N", "of weights and orders", .integer = &o.seed, .max = 1e15 },
        { "check", NULL, "also train the unsplit model, and compare all weights bit for bit",
          .is_set = &o.check },
        { "stats", NULL, "print what was in flight, and messages of a step", .is_set = &o.stats },
        { "data", "FILE", "digits instead of the repository's", .text = &o.data },
        { "plot", "FILE.svg", "draw the loss", .file = &o.plot },
        { 0 },
    };
    int code = flags_parse("pipeline", about, flags, argc, argv);
    if (code < 0 && o.batch % o.micro_batches != 0) {
        fprintf(stderr, "pipeline: --batch %lld: expected a multiple of --micro-batches %lld\n",
                (long long)o.batch, (long long)o.micro_batches);
        code = 2;
    }
    *out = o;
    return code;
}
