#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const char help[] =
    "usage: rl_cartpole [options]\n"
    "\n"
    "Trains CartPole-v1 by REINFORCE: one agent process, and observer processes that play and ask "
    "it what to do.\n"
    "Started alone it makes its own workers; under `gradwire run -n N -- rl_cartpole` it is one of "
    "them.\n"
    "\n"
    "  --world-size N     processes, agent included (2)\n"
    "  --gamma G          how much to value future rewards (0.99)\n"
    "  --seed S           the same seed plays the same episodes (1)\n"
    "  --log-interval N   episodes between two lines (10)\n"
    "  --max-episodes N   give up after so many (5000)\n"
    "  --stats            print calls, messages and bytes per step at the end\n"
    "  --plot FILE.svg    draw the learning curve\n"
    "  --help             this text\n"
    "\n"
    "Exit code: 0 when solved, 3 when not, 1 after an error, 2 for a wrong option.\n";

static int wrong(const char *name, const char *text, const char *wanted) {
    fprintf(stderr, "rl_cartpole: --%s %s: expected %s\n", name, text, wanted);
    return 2;
}

static bool parse_integer(const char *text, long long min, long long max, long long *out) {
    char *end;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return errno == 0 && end != text && !*end && *out >= min && *out <= max;
}

int options_parse(int argc, char **argv, options *out) {
    static const struct option known[] = {
        { "world-size", required_argument, NULL, 'w' },
        { "gamma", required_argument, NULL, 'g' },
        { "seed", required_argument, NULL, 's' },
        { "log-interval", required_argument, NULL, 'l' },
        { "max-episodes", required_argument, NULL, 'm' },
        { "stats", no_argument, NULL, 't' },
        { "plot", required_argument, NULL, 'p' },
        { "help", no_argument, NULL, 'h' },
        { NULL, 0, NULL, 0 },
    };
    *out = (options){
        .world_size = 2, .log_interval = 10, .max_episodes = 5000, .gamma = 0.99, .seed = 1
    };
    int option, index = 0;
    long long n;
    char *end;
    while ((option = getopt_long(argc, argv, "h", known, &index)) != -1) {
        const char *name = known[index].name;
        switch (option) {
        case 'w':
            if (!parse_integer(optarg, 2, 1024, &n)) return wrong(name, optarg, "2 to 1024");
            out->world_size = (int)n;
            break;
        case 'l':
            if (!parse_integer(optarg, 1, 1000000, &n)) return wrong(name, optarg, "1 to 1000000");
            out->log_interval = (int)n;
            break;
        case 'm':
            if (!parse_integer(optarg, 1, 100000000, &n))
                return wrong(name, optarg, "1 to 100000000");
            out->max_episodes = (int)n;
            break;
        case 's':
            if (!parse_integer(optarg, 0, INT64_MAX, &n))
                return wrong(name, optarg, "a number from 0");
            out->seed = (uint64_t)n;
            break;
        case 'g':
            out->gamma = strtod(optarg, &end);
            if (end == optarg || *end || !(out->gamma >= 0 && out->gamma <= 1))
                return wrong(name, optarg, "0 to 1");
            break;
        case 't': out->stats = true; break;
        case 'p': out->plot = optarg; break;
        case 'h': fputs(help, stdout); return 0;
        default: return 2;  // getopt_long has said why
        }
    }
    if (optind < argc) {
        fprintf(stderr, "rl_cartpole: %s: takes no arguments, see --help\n", argv[optind]);
        return 2;
    }
    return -1;
}
