#include "options.h"

#include "../common/flags.h"

#include <stddef.h>

static const char about[] =
    "Trains CartPole-v1 by REINFORCE: observer processes play with actions of one agent process.\n"
    "Started alone it makes its own workers; under `gradwire run -n N -- rl_cartpole` it is one "
    "of\n"
    "them. Exit code: 0 when solved, 3 when not, 1 after an error, 2 for a wrong option.";

int options_parse(int argc, char **argv, options *out) {
    options o = {
        .world_size = 2, .log_interval = 10, .max_episodes = 5000, .gamma = 0.99, .seed = 1
    };
    const flag flags[] = {
        { "world-size", "N", "processes, agent included", .integer = &o.world_size, .min = 2,
          .max = 1024 },
        { "gamma", "X", "how much to value future rewards", .real = &o.gamma, .max = 1 },
        { "seed", "N", "the same seed plays the same episodes", .integer = &o.seed, .max = 1e15 },
        { "log-interval", "N", "episodes between two lines", .integer = &o.log_interval, .min = 1,
          .max = 1e6 },
        { "max-episodes", "N", "give up after so many", .integer = &o.max_episodes, .min = 1,
          .max = 1e8 },
        { "stats", NULL, "print calls, messages and bytes per step at the end",
          .is_set = &o.stats },
        { "plot", "FILE.svg", "draw the learning curve", .file = &o.plot },
        { 0 },
    };
    int code = flags_parse("rl_cartpole", about, flags, argc, argv);
    *out = o;
    return code;
}
