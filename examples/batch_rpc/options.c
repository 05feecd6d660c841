#include "options.h"

#include "../common/flags.h"

#include <string.h>

static const char about[] =
    "Answers the calls of many workers together, through futures, so that no thread waits.\n"
    "  server: a parameter server averages the gradients of all trainers, takes one step, and\n"
    "          answers all of them with the new weights (handwritten digits)\n"
    "  agent:  an agent runs its policy once for the states of all observers (CartPole-v1)\n"
    "Started alone it makes its own workers; under `gradwire run -n N -- batch_rpc` it is one of\n"
    "them. Exit code: 0 when it has learned (95 % of the test digits, a reward of 400), 3 when\n"
    "not, 1 after an error, 2 for a wrong option.";

int options_parse(int argc, char **argv, options *out) {
    options o = { .form = "server",
                  .world_size = 5,
                  .batch = 16,
                  .epochs = 40,
                  .steps = 500,
                  .episodes = 300,
                  .seed = 1,
                  .gamma = 0.99 };
    static const char *const forms[] = { "server", "agent", NULL };
    const flag flags[] = {
        { "form", "server|agent", "what is batched", .text = &o.form, .words = forms },
        { "world-size", "N", "processes, server or agent included", .integer = &o.world_size,
          .min = 2, .max = 1024 },
        { "no-batch", NULL, "answer each call by itself, to compare", .is_set = &o.no_batch },
        { "lr", "X", "learning rate; 0: 0.4 of the server's SGD, 0.01 of the agent's Adam",
          .real = &o.lr, .max = 1000 },
        { "epochs", "N", "server: passes of each trainer over its digits", .integer = &o.epochs,
          .min = 1, .max = 1e6 },
        { "batch", "N", "server: digits in a trainer's gradient", .integer = &o.batch, .min = 1,
          .max = 300 },
        { "steps", "N", "agent: steps of each observer between two lessons", .integer = &o.steps,
          .min = 1, .max = 10000 },
        { "episodes", "N", "agent: give up after so many lessons", .integer = &o.episodes, .min = 1,
          .max = 1e6 },
        { "gamma", "G", "agent: how much to value future rewards", .real = &o.gamma, .max = 1 },
        { "seed", "N", "of weights, orders and starts", .integer = &o.seed, .max = 1e15 },
        { "data", "FILE", "server: digits instead of the repository's", .text = &o.data },
        { "plot", "FILE.svg", "draw accuracy or reward", .file = &o.plot },
        { 0 },
    };
    int code = flags_parse("batch_rpc", about, flags, argc, argv);
    if (o.lr == 0) o.lr = strcmp(o.form, "agent") == 0 ? 0.01 : 0.4;
    *out = o;
    return code;
}
