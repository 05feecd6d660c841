#include "options.h"

#include "../common/flags.h"

#include <stdio.h>

static const char about[] =
    "Learns handwritten digits with replicas of a model, members of which are killed while they\n"
    "learn: the others continue without them, and admit new ones.\n"
    "Exit code: 0 if 97 % of the test digits are recognised, 3 if not, 1 after an error.";

static int wrong(const char *problem) {
    fprintf(stderr, "ddp_survives: %s\n", problem);
    return 2;
}

int options_parse(int argc, char **argv, options *out) {
    options o = { .world_size = 3, .epochs = 30, .losses = 2, .patience = 5, .number = 1 };
    const flag flags[] = {
        { "world-size", "N", "members", .integer = &o.world_size, .min = 2, .max = 32 },
        { "epochs", "N", "passes over the digits", .integer = &o.epochs, .min = 1, .max = 1e6 },
        { "losses", "N", "members that are killed", .integer = &o.losses, .max = 64 },
        { "patience", "N", "every so many epochs, all that are lacking are waited for",
          .integer = &o.patience, .min = 1, .max = 1e6 },
        { "plot", "FILE.svg", "draw the test accuracy", .file = &o.plot },
        { "join", "URL", "be a member of the job there", .text = &o.join },
        { "number", "N", "of a member: which it is", .integer = &o.number, .min = 1,
          .max = WORKERS_MAX },
        { 0 },
    };
    int code = flags_parse("ddp_survives", about, flags, argc, argv);
    *out = o;
    if (code >= 0) return code;
    if (o.losses && (o.patience + 1) * (o.losses + 1) > o.epochs)
        return wrong("--losses: expected at most one in --patience + 1 of the --epochs, and one "
                     "less, so that new members join in time");
    return -1;
}
