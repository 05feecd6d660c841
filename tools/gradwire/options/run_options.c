#include "options/run_options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/nearest.h"
#include "options/command.h"
#include "options/parse.h"
#include "options/restart_options.h"
#include "options/streams.h"
#include "net/transport/address.h"
#include "net/tls/protection.h"

static const char id_characters[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";

static const char help[] =
    "usage: gradwire run -n N [options] [--] program [argument...]\n"
    "\n"
    "Starts N processes (ranks 0 to N-1) of a program on this machine, shows what they print, and\n"
    "ends when they have ended. When one fails, the others are stopped. Nothing is left running.\n"
    "\n"
    "  -n, --nproc-per-node=N    how many processes on this host, 1 to 1024\n"
    "  --on-failure=stop|keep    stop: the first failure stops all (default); keep: wait for all\n"
    "  --on-failure=restart|restart-all|auto\n"
    "                            restart: the failed rank starts again, the others run on;\n"
    "                            restart-all: all ranks end and start again; auto (the default\n"
    "                            with --max-restarts): restart if the failed rank and those that\n"
    "                            run are workers of an elastic job, else restart-all\n"
    "  --max-restarts=N          how often ranks of the job are started again (default 0)\n"
    "  --restart-window=SECONDS  restarts longer ago do not count (default: all count)\n"
    "  --backoff=SECONDS         before a rank starts again twice within a minute, doubled up to\n"
    "                            30 s (default 1)\n"
    "  --min-success=N           with keep: exit code 0 if N ranks exited with 0 (default: all)\n"
    "  --master-port=P           the MASTER_PORT of the job (default: a free port)\n"
    "  --grace=SECONDS           how long a rank may take to end before it is killed (default 10)\n"
    "  --bind                    each rank runs on its share of the processors alone; where there "
    "are\n"
    "                            fewer than ranks, these take turns at them\n"
    "  --no-prefix               ranks write directly, not line by line with \"[rank] \" in front\n"
    "  --log-dir=FOLDER          what ranks print is also kept there, in files for each\n"
    "  -r, --redirects=V, -t, --tee=V\n"
    "                            which streams go to these files only, and which there as well:\n"
    "                            0 none, 1 standard output, 2 standard error, 3 both, or\n"
    "                            RANK:V,RANK:V... (default with --log-dir: -t 3)\n"
    "  --checkpoint-dir=FOLDER   GW_CHECKPOINT_DIR of the ranks, for gw_elastic_open\n"
    "  --dry-run                 say what would run, and run nothing\n"
    "  -h, --help                this text\n"
    "\n"
    "over several hosts, with one gradwire run on each:\n"
    "  --nnodes=M                how many hosts\n"
    "  --node-rank=R             which of them this one is, 0 to M-1; its ranks are R*N to "
    "R*N+N-1\n"
    "  --rdzv-endpoint=HOST:PORT where they meet: an address or name of host 0, the same for all\n"
    "  --rdzv-id=NAME            distinguishes jobs that meet there (default: none)\n"
    "  --rdzv-timeout=SECONDS    how long the others are waited for (default 300)\n"
    "  --key=FILE                the key of the job, which `gradwire key` makes: with it all\n"
    "                            connections are encrypted, and peers without it are refused\n"
    "  --insecure                without a key, over a network whose hosts may all read and "
    "change\n"
    "                            the data\n"
    "\n"
    "Each rank finds RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, GROUP_RANK, "
    "GROUP_WORLD_SIZE,\n"
    "MASTER_ADDR, MASTER_PORT and GRADWIRE_JOB in its environment, the variables of torchrun that\n"
    "begin with ROLE_ and TORCHELASTIC_, and the key, if there is one, in the descriptor "
    "GW_KEY_FD.\n"
    "Rank 0 reads standard input; for the others it is empty. Lines longer than 64 KiB are cut. A\n"
    "single rank on a terminal has no prefix.\n"
    "\n"
    "Ctrl-C (SIGINT), SIGTERM, SIGHUP and SIGQUIT end the job, on all hosts: ranks get SIGINT,\n"
    "SIGTERM, SIGTERM, SIGQUIT, and after the grace time SIGKILL. A second one kills at once.\n"
    "Ctrl-Z, SIGCONT, SIGUSR1 and SIGUSR2 are passed on to the ranks of this host.\n"
    "\n"
    "exit code: 0 if all ranks exited with 0, the last time that they ran; the code of the rank\n"
    "that failed first, or 128 plus the signal that killed it; 128 plus the signal that ended the\n"
    "job; 127 if the program was not found, 126 if it cannot be run; 125 if gradwire itself "
    "failed,\n"
    "or a host was lost; 2 for a wrong command line. It is the same on all hosts.\n";

// ---- Several hosts ------------------------------------------------------------------------------

static bool parse_endpoint(const char *text, run_options *out) {
    gw_error error;
    if (address_check(text, &error)) return parse_complain("--rdzv-endpoint: %s", error.text);
    size_t size = (size_t)(strrchr(text, ':') - text);
    bool is_v6 = text[0] == '[';  // brackets are for before a port
    snprintf(out->rdzv_host, sizeof out->rdzv_host, "%.*s", (int)(size - 2 * is_v6), text + is_v6);
    if (strcmp(text + size, ":0") == 0)
        return parse_complain(
            "--rdzv-endpoint has port 0, but must have a port that all hosts know");
    out->rdzv_endpoint = text;
    return true;
}

static bool parse_id(const char *text, run_options *out) {
    if (strlen(text) > RDZV_ID_MAX || strspn(text, id_characters) != strlen(text))
        return parse_complain("--rdzv-id takes at most %d of A-Z a-z 0-9 _ . -, not \"%.80s\"",
                              RDZV_ID_MAX, text);
    out->rdzv_id = text;
    return true;
}

// The environment's variables for protection apply to the launchers, too.
static bool check_protection(run_options *o) {
    const char *file = getenv("GW_KEY_FILE"), *insecure = getenv("GW_INSECURE");
    gw_error error;
    secret *s = NULL;
    if (!o->key && file && *file) o->key = file;
    if (insecure && strcmp(insecure, "1") == 0) o->insecure = true;
    if (o->key && o->insecure)
        return parse_complain("--key and --insecure cannot be used together");
    if (o->key && secret_open_file(o->key, &s, &error))
        return parse_complain("--key: %s", error.text);
    secret_close(s);
    if (!o->rdzv_endpoint || o->key || o->insecure || host_is_loopback(o->rdzv_host)) return true;
    if (host_check("the host of --rdzv-endpoint", o->rdzv_host, &error))
        return parse_complain("%s", error.text);
    if (!protection_allows_beyond(&(protection){ .insecure = o->insecure }, "--rdzv-endpoint",
                                  o->rdzv_endpoint, &error))
        return true;
    return parse_complain("%s", error.text);
}

static bool check_nodes(const run_options *o, bool has_rank) {
    if (o->node_count > 1 && !has_rank) return parse_complain("--nnodes needs --node-rank");
    if (o->node_count > 1 && !o->rdzv_endpoint)
        return parse_complain(
            "--nnodes needs --rdzv-endpoint=HOST:PORT, the address at which the hosts meet");
    if (o->node_rank >= o->node_count)
        return parse_complain("--node-rank=%d is out of range for --nnodes=%d: it must be 0 to %d",
                              o->node_rank, o->node_count, o->node_count - 1);
    if (run_world_size(o) > LIMIT_WORKERS)
        return parse_complain(
            "%d hosts with %d processes each are more than the limit of %d processes",
            o->node_count, o->rank_count, LIMIT_WORKERS);
    return true;
}

int run_world_size(const run_options *o) {
    return o->node_count * o->rank_count;
}

int run_rank(const run_options *o, int index) {
    return o->node_rank * o->rank_count + index;
}

bool run_restarts(const run_options *o) {
    return o->on_failure >= FAILURE_RESTART;
}

int run_streams_to_files(const run_options *o, int rank) {
    if (!o->log_dir) return 0;
    if (!o->redirects && !o->tee) return STREAMS_ALL;
    return streams_of(o->redirects, rank) | streams_of(o->tee, rank);
}

int run_streams_to_output(const run_options *o, int rank) {
    return STREAMS_ALL & (~streams_of(o->redirects, rank) | streams_of(o->tee, rank));
}

// ---- All of it ----------------------------------------------------------------------------------

static const struct option names[] = {
    { "nproc-per-node", required_argument, NULL, 'n' },
    { "on-failure", required_argument, NULL, OPTION_ON_FAILURE },
    { "max-restarts", required_argument, NULL, OPTION_MAX_RESTARTS },
    { "restart-window", required_argument, NULL, OPTION_RESTART_WINDOW },
    { "backoff", required_argument, NULL, OPTION_BACKOFF },
    { "min-success", required_argument, NULL, OPTION_MIN_SUCCESS },
    { "master-port", required_argument, NULL, 'p' },
    { "grace", required_argument, NULL, 'g' },
    { "bind", no_argument, NULL, 'b' },
    { "no-prefix", no_argument, NULL, 'x' },
    { "log-dir", required_argument, NULL, OPTION_LOG_DIR },
    { "checkpoint-dir", required_argument, NULL, OPTION_CHECKPOINT_DIR },
    { "redirects", required_argument, NULL, 'r' },
    { "tee", required_argument, NULL, 't' },
    { "dry-run", no_argument, NULL, 'd' },
    { "nnodes", required_argument, NULL, 'N' },
    { "node-rank", required_argument, NULL, 'R' },
    { "rdzv-endpoint", required_argument, NULL, 'e' },
    { "rdzv-id", required_argument, NULL, 'i' },
    { "rdzv-timeout", required_argument, NULL, 'w' },
    { "key", required_argument, NULL, 'k' },
    { "insecure", no_argument, NULL, 'I' },
    { "help", no_argument, NULL, 'h' },
    { 0 },
};

// "--max-restarts", as it is given without its value.
static bool take_restart_option(int option, const char *text, run_options *out) {
    char name[32];
    const struct option *o = names;
    while (o->val != option) o++;
    snprintf(name, sizeof name, "--%s", o->name);
    return restart_options_take((restart_option)option, name, text, out);
}

static bool take_option(int option, const char *text, run_options *out) {
    if (option >= OPTION_ON_FAILURE) return take_restart_option(option, text, out);
    switch (option) {
    case 'n': return parse_int("-n", text, 1, RANK_COUNT_MAX, &out->rank_count);
    case 'p': return parse_int("--master-port", text, 0, 65535, &out->master_port);
    case 'g': return parse_seconds("--grace", text, &out->grace_ms);
    case 'b': return out->bind = true;
    case 'x': return out->no_prefix = true;
    case 'r': return restart_options_take(OPTION_REDIRECTS, "-r", text, out);
    case 't': return restart_options_take(OPTION_TEE, "-t", text, out);
    case 'd': return out->dry_run = true;
    case 'N': return parse_int("--nnodes", text, 1, NODE_COUNT_MAX, &out->node_count);
    case 'R': return parse_int("--node-rank", text, 0, NODE_COUNT_MAX - 1, &out->node_rank);
    case 'e': return parse_endpoint(text, out);
    case 'i': return parse_id(text, out);
    case 'w': return parse_seconds("--rdzv-timeout", text, &out->rdzv_timeout_ms);
    case 'k': out->key = text; return true;
    default: return out->insecure = true;
    }
}

static bool check(run_options *out, bool has_node_rank) {
    if (!out->rank_count)
        return parse_complain("-n is missing: the number of processes on this host, 1 to %d",
                              RANK_COUNT_MAX);
    if (!check_nodes(out, has_node_rank) || !restart_options_check(out) || !check_protection(out))
        return false;
    return !(out->no_prefix && out->log_dir) ||
           parse_complain(
               "--no-prefix cannot be used with --log-dir, which keeps only lines with a prefix");
}

// torchrun has both forms of its options, "--nproc_per_node" and "--nproc-per-node".
static void replace_underscores(char *option) {
    if (strncmp(option, "--", 2) != 0) return;
    for (char *c = option; *c && *c != '='; c++)
        if (*c == '_') *c = '-';
}

static bool refuse_option(const char *given) {
    char name[64];
    const char *bare = given + strspn(given, "-");
    snprintf(name, sizeof name, "%.*s", (int)strcspn(bare, "="), bare);
    nearest n = nearest_to(name);
    for (const struct option *o = names; o->name; o++) nearest_offer(&n, o->name);
    return parse_complain("\"%s\" is not an option; see gradwire run --help%s", given,
                          nearest_words(&n));
}

bool run_options_parse(int argc, char **argv, run_options *out, int *out_code) {
    *out = (run_options){ .grace_ms = 10000,
                          .node_count = 1,
                          .rdzv_id = "",
                          .rdzv_timeout_ms = 300000,
                          .backoff_ms = 1000 };
    *out_code = EXIT_USAGE;
    if (!restart_options_take_environment(out)) return false;
    bool has_node_rank = false;
    opterr = 0;  // own error texts, not getopt's
    for (;;) {
        if (optind < argc) replace_underscores(argv[optind]);
        const char *given = optind < argc ? argv[optind] : "";
        int option = getopt_long(argc, argv, "+:n:r:t:h", names, NULL);
        if (option == -1) break;
        if (option == 'h') {
            fputs(help, stdout);
            *out_code = 0;
            return false;
        }
        if (option == ':')
            return parse_complain("%s needs a value; see gradwire run --help", given);
        if (option == '?') return refuse_option(given);
        if (!take_option(option, optarg, out)) return false;
        has_node_rank |= option == 'R';
    }
    if (!check(out, has_node_rank)) return false;
    if (optind == argc)
        return parse_complain("the program to run is missing; see gradwire run --help");
    out->program = argv + optind;
    return true;
}
