#include "run_options.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"

static const char help[] =
    "usage: gradwire run -n N [options] [--] program [argument...]\n"
    "\n"
    "Starts N processes (ranks 0 to N-1) of a program on this machine, shows what they print, and\n"
    "ends when they have ended. When one fails, the others are stopped. Nothing is left running.\n"
    "\n"
    "  -n N                      how many processes, 1 to 1024\n"
    "  --on-failure=stop|keep    stop: the first failure stops all (default); keep: wait for all\n"
    "  --master-port=P           the MASTER_PORT of the job (default: a free port)\n"
    "  --grace=SECONDS           how long a rank may take to end before it is killed (default 10)\n"
    "  --no-prefix               ranks write directly, not line by line with \"[rank] \" in front\n"
    "  -h, --help                this text\n"
    "\n"
    "Each rank finds RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR (127.0.0.1),\n"
    "MASTER_PORT and GRADWIRE_JOB in its environment. Rank 0 reads standard input; for the others\n"
    "it is empty. Lines longer than 64 KiB are cut. A single rank on a terminal has no prefix.\n"
    "\n"
    "Ctrl-C (SIGINT), SIGTERM, SIGHUP and SIGQUIT end the job: ranks get SIGINT, SIGTERM, "
    "SIGTERM,\n"
    "SIGQUIT, and after the grace time SIGKILL. A second one kills at once. Ctrl-Z, SIGCONT,\n"
    "SIGUSR1 and SIGUSR2 are passed on.\n"
    "\n"
    "exit code: 0 if all ranks exited with 0; the code of the rank that failed first, or 128 plus\n"
    "the signal that killed it; 128 plus the signal that ended the job; 127 if the program was "
    "not\n"
    "found, 126 if it cannot be run; 125 if gradwire itself failed; 2 for a wrong command line.\n";

__attribute__((format(printf, 1, 2))) static bool complain(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "gradwire run: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    return false;
}

static bool parse_int(const char *option, const char *text, int min, int max, int *out) {
    char *end;
    errno = 0;
    long n = strtol(text, &end, 10);
    if (end == text || *end || errno || n < min || n > max)
        return complain("%s takes a number from %d to %d, not \"%s\"", option, min, max, text);
    *out = (int)n;
    return true;
}

static bool parse_grace(const char *text, int64_t *out_ms) {
    enum { SECONDS_MAX = 86400 };
    char *end;
    double seconds = strtod(text, &end);
    if (end == text || *end || !(seconds >= 0 && seconds <= SECONDS_MAX))
        return complain("--grace takes seconds from 0 to %d, not \"%s\"", SECONDS_MAX, text);
    *out_ms = (int64_t)(seconds * 1000 + 0.999);  // rounded up
    return true;
}

static bool parse_on_failure(const char *text, bool *out_keep) {
    *out_keep = strcmp(text, "keep") == 0;
    return *out_keep || strcmp(text, "stop") == 0 ||
           complain("--on-failure is stop or keep, not \"%s\"", text);
}

bool run_options_parse(int argc, char **argv, run_options *out, int *out_code) {
    static const struct option names[] = {
        { "on-failure", required_argument, NULL, 'f' },
        { "master-port", required_argument, NULL, 'p' },
        { "grace", required_argument, NULL, 'g' },
        { "no-prefix", no_argument, NULL, 'x' },
        { "help", no_argument, NULL, 'h' },
        { 0 },
    };
    *out = (run_options){ .grace_ms = 10000 };
    *out_code = EXIT_USAGE;
    opterr = 0;  // our sentences, not getopt's
    for (;;) {
        const char *given = optind < argc ? argv[optind] : "";
        int option = getopt_long(argc, argv, "+:n:h", names, NULL);
        if (option == -1) break;
        bool ok = true;
        switch (option) {
        case 'n': ok = parse_int("-n", optarg, 1, RANK_COUNT_MAX, &out->rank_count); break;
        case 'f': ok = parse_on_failure(optarg, &out->keep); break;
        case 'p': ok = parse_int("--master-port", optarg, 0, 65535, &out->master_port); break;
        case 'g': ok = parse_grace(optarg, &out->grace_ms); break;
        case 'x': out->no_prefix = true; break;
        case 'h':
            fputs(help, stdout);
            *out_code = 0;
            return false;
        case ':': return complain("%s needs a value; see gradwire run --help", given);
        default: return complain("\"%s\" is not an option; see gradwire run --help", given);
        }
        if (!ok) return false;
    }
    if (!out->rank_count)
        return complain("-n is missing: how many processes, 1 to %d", RANK_COUNT_MAX);
    if (optind == argc) return complain("the program to run is missing; see gradwire run --help");
    out->program = argv + optind;
    return true;
}
