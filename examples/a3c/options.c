#include "options.h"

#include "../common/flags.h"

#include <math.h>
#include <stddef.h>

static const char about[] =
    "Learns CartPole-v1, or the Pendulum-v1 swing-up, by asynchronous advantage actor-critic "
    "(Mnih\n"
    "et al. 2016): workers play, compute gradients, push them to the server, and continue\n"
    "with the weights it then has. Without other options each task has those that suit it.";

int options_parse(int argc, char **argv, options *out) {
    static const char *const names[] = { "cartpole", "pendulum", NULL };
    const char *name = names[0];
    options o = { .workers = 3, .runs = 1, .seed = 1, .evaluate = 100 };
    task given = { .gamma = NAN, .lambda = NAN, .lr = NAN, .entropy = NAN, .goal = NAN };
    const double many = 1e12;
    const flag flags[] = {
        { "task", "cartpole|pendulum", "what to learn", .text = &name, .words = names },
        { "workers", "N", "processes that play, besides the server", .integer = &o.workers,
          .min = 1, .max = 256 },
        { "steps", "N", "of all environments together; 0: the task's", .integer = &given.steps,
          .max = many },
        { "environments", "N", "side by side in each worker; 0: the task's",
          .integer = &given.environments, .max = 4096 },
        { "rollout", "N", "steps between two updates; 0: the task's", .integer = &given.rollout,
          .max = 100000 },
        { "lr", "X", "learning rate at the beginning; it falls to 0", .real = &given.lr,
          .max = 10 },
        { "gamma", "X", "how much to value future rewards", .real = &given.gamma, .max = 1 },
        { "lambda", "X", "how far advantages look ahead", .real = &given.lambda, .max = 1 },
        { "entropy", "X", "how much to value chance", .real = &given.entropy, .max = 10 },
        { "goal", "X", "end when the mean of the last 100 scores is as good", .real = &given.goal,
          .min = -1e9, .max = 1e9 },
        { "runs", "N", "so many times, with seeds one after the other", .integer = &o.runs,
          .min = 1, .max = 1000 },
        { "seed", "N", "of weights, beginnings and chance", .integer = &o.seed, .max = 1e15 },
        { "evaluate", "N", "episodes in the end, with the likeliest actions",
          .integer = &o.evaluate, .min = 1, .max = 100000 },
        { "stats", NULL, "print messages and bytes of an update", .is_set = &o.stats },
        { "plot", "FILE.svg", "draw the scores", .file = &o.plot },
        { 0 },
    };
    int code = flags_parse("a3c", about, flags, argc, argv);
    task t = *task_find(name);
    if (given.steps) t.steps = given.steps;
    if (given.environments) t.environments = given.environments;
    if (given.rollout) t.rollout = given.rollout;
    if (!isnan(given.lr)) t.lr = given.lr;
    if (!isnan(given.gamma)) t.gamma = given.gamma;
    if (!isnan(given.lambda)) t.lambda = given.lambda;
    if (!isnan(given.entropy)) t.entropy = given.entropy;
    o.goal_ends = !isnan(given.goal);
    if (o.goal_ends) t.goal = given.goal;
    o.task = t;
    *out = o;
    return code;
}
