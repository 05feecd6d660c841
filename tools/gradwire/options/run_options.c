#include "options/run_options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options/binding.h"
#include "options/command.h"
#include "options/names.h"
#include "options/observe_options.h"
#include "options/option.h"
#include "options/parse.h"
#include "options/rendezvous.h"
#include "options/restart_options.h"
#include "options/roles.h"
#include "options/streams.h"
#include "options/torchrun.h"
#include "net/transport/address.h"
#include "net/tls/protection.h"

static const char help[] =
    "usage: gradwire run -n N [options] [--] program [argument...]\n"
    "\n"
    "Starts N processes (ranks 0 to N-1) of a program on this machine, shows what they print, and\n"
    "ends when they have ended. When one fails, the others are stopped. When gradwire run ends, "
    "no\n"
    "process of the job is left running.\n"
    "\n"
    "  -n, --nproc-per-node=N    the number of processes on this host, 1 to 1024; auto or cpu: one "
    "for\n"
    "                            each processor\n"
    "  --on-failure=stop|keep    stop: the first failure stops all (default); keep: wait for all\n"
    "  --on-failure=restart|restart-all|auto\n"
    "                            restart: the failed rank is started again, the others continue;\n"
    "                            restart-all: all ranks are ended and started again; auto: "
    "restart\n"
    "                            if the failed rank and the running ranks are workers of an "
    "elastic\n"
    "                            job, else restart-all. auto is the default with --max-restarts "
    "or\n"
    "                            MIN:MAX hosts\n"
    "  --max-restarts=N          the number of restarts of the job (default 0)\n"
    "  --restart-window=SECONDS  count only restarts of the last SECONDS (default: count all)\n"
    "  --backoff=SECONDS         the delay if a rank is restarted twice within a minute; the "
    "delay\n"
    "                            doubles with each such restart, up to 30 s (default 1)\n"
    "  --min-success=N           with keep: exit code 0 if N ranks exited with 0 (default: all)\n"
    "  --progress-timeout=SECONDS\n"
    "                            kill a rank that has made steps, and then none for SECONDS while "
    "other\n"
    "                            ranks wait for it; this counts as a failure (default 0: never)\n"
    "  --straggler=report|replace|ignore\n"
    "                            report: name a rank that the others wait for during more than 20 "
    "%\n"
    "                            of the time of 100 steps (default); replace: it also leaves, and "
    "starts\n"
    "                            again\n"
    "  --health-check=COMMAND    a command of the shell that runs before ranks start on this host, "
    "and\n"
    "                            before a failed rank starts again; if it does not exit with 0, "
    "no\n"
    "                            rank starts here for the cool-down\n"
    "  --host-cooldown=SECONDS   the cool-down; it doubles with each check that fails, up to 1 h\n"
    "                            (default 60)\n"
    "  --master-port=P           the MASTER_PORT of the job (default: a free port)\n"
    "  --grace=SECONDS           the time that a rank has to end before it is killed (default 10)\n"
    "  --bind                    each rank runs only on its own processors; if there are fewer\n"
    "                            processors than ranks, several ranks share a processor\n"
    "  --no-prefix               ranks write directly, without \"[rank] \" before each line\n"
    "  --log-dir=FOLDER          write the output of the ranks also into FOLDER, in files of each "
    "rank\n"
    "  -r, --redirects=V, -t, --tee=V\n"
    "                            -r: the streams that go to these files only; -t: the streams "
    "that\n"
    "                            go to these files, too: 0 none, 1 standard output, 2 standard "
    "error,\n"
    "                            3 both, or\n"
    "                            RANK:V,RANK:V... (default with --log-dir: -t 3)\n"
    "  --checkpoint-dir=FOLDER   GW_CHECKPOINT_DIR of the ranks, for gw_elastic_open\n"
    "  --local-ranks-filter=R,...\n"
    "                            show the output of these local ranks only (default: of all)\n"
    "  --role=NAME               the ROLE_NAME of the ranks (default \"default\")\n"
    "  --role=NAME:COUNT[:POLICY]\n"
    "                            once for each role, in place of -n: COUNT ranks with this "
    "ROLE_NAME,\n"
    "                            workers NAME0, NAME1 and so on, and a policy as of --on-failure\n"
    "  --hang-after=SECONDS      after SECONDS without progress, report which workers wait for "
    "which\n"
    "                            (default 60; 0: never)\n"
    "  --flight-dir=FOLDER       the folder of flight.gwt, the last records of the workers, which "
    "is\n"
    "                            written when a rank fails and at SIGUSR1 (default: the folder of\n"
    "                            --log-dir, else ~/.local/state/gradwire)\n"
    "  --trace=FILE[,LEVEL...][,seconds=S | ,steps=A-B]\n"
    "                            write what all ranks of this host did to FILE, for Perfetto;\n"
    "                            FILE.json: as JSON; FILE.gwt: the records themselves. Levels\n"
    "                            (default: all but ref, wire, ops): job, coll, pass, step, slow,\n"
    "                            call, user, ref, wire, ops. Only the first S seconds, or steps A "
    "to "
    "B\n"
    "  --on-signal=USR1:ACTION[,USR2:ACTION]\n"
    "                            what these signals do: dump writes flight.gwt, leave is the same "
    "as\n"
    "                            SIGTERM, forward passes the signal on to the ranks (default\n"
    "                            USR1:dump,USR2:forward)\n"
    "  --forward-signals=USR1    the same as --on-signal=USR1:forward\n"
    "  --monitor[=PORT]          serve a page about this job, for a browser on this host, and "
    "print its\n"
    "                            address (default: a free port)\n"
    "  --metrics-listen=ADDRESS:PORT\n"
    "                            serve the metrics of this host's ranks there, for Prometheus on "
    "any\n"
    "                            host\n"
    "  --metrics-token-file=FILE\n"
    "                            which has to send the token in this file\n"
    "  --dry-run                 say what would run, and run nothing\n"
    "  -h, --help                this text\n"
    "\n"
    "over several hosts, with one gradwire run on each:\n"
    "  --nnodes=M                the number of hosts\n"
    "  --nnodes=MIN:MAX          from MIN to MAX hosts, which may join and leave while the job\n"
    "                            runs; more hosts wait until a place is free\n"
    "  --node-rank=R             the number of this host, 0 to M-1; its ranks are R*N to R*N+N-1.\n"
    "                            Without --node-rank, hosts are numbered as they join\n"
    "  --rdzv-endpoint=HOST:PORT the address at which the hosts meet: an address or name of host "
    "0,\n"
    "                            the same on all hosts\n"
    "  --master-addr=HOST        the same with --master-port (default 29500), as with torchrun\n"
    "  --rdzv-id=NAME            distinguishes jobs that meet at the same address (default: none)\n"
    "  --rdzv-timeout=SECONDS    how long to wait for the other hosts (default 300)\n"
    "  --rescale=wait|now        of a job that is not elastic, with MIN:MAX: when a host joins, "
    "wait "
    "for\n"
    "                            the next restart of all ranks (default), or start all ranks again "
    "now;\n"
    "                            host 0 decides\n"
    "  --local-addr=ADDRESS      the GW_ADDRESS of the ranks and of this launcher\n"
    "  --key=FILE                the key of the job, which `gradwire key` makes. All connections "
    "are\n"
    "                            then encrypted, and peers without the key are refused\n"
    "  --insecure                no key: every host of the network can read and change the data\n"
    "\n"
    "Other options of torchrun that `gradwire run` takes: --standalone, --rdzv-backend, "
    "--rdzv-conf,\n"
    "--numa-binding, --no-python; without effect: --monitor-interval, --start-method,\n"
    "--event-log-handler, --logs-specs, --signals-to-handle. The default of an option can be set "
    "by a\n"
    "variable: PET_MAX_RESTARTS for --max-restarts, and so on. For options without a value the "
    "variable\n"
    "is 0 or 1.\n"
    "\n"
    "Each rank finds RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, GROUP_RANK, "
    "GROUP_WORLD_SIZE,\n"
    "MASTER_ADDR, MASTER_PORT and GRADWIRE_JOB in its environment, the variables of torchrun that\n"
    "begin with ROLE_ and TORCHELASTIC_, and the key, if there is one, in the descriptor "
    "GW_KEY_FD.\n"
    "Rank 0 reads standard input; the standard input of the other ranks is empty. Lines longer "
    "than\n"
    "64 KiB are cut. The lines of a single rank on a terminal have no prefix.\n"
    "\n"
    "Ctrl-C (SIGINT), SIGTERM, SIGHUP and SIGQUIT end the job on all hosts. The ranks get SIGINT,\n"
    "SIGTERM, SIGTERM or SIGQUIT, and SIGKILL after the grace time. A second signal kills the "
    "ranks at\n"
    "once. With --nnodes=MIN:MAX, SIGTERM to a host other than host 0 ends only the ranks of that "
    "host.\n"
    "Ctrl-Z, SIGCONT and SIGUSR2 are passed on to the ranks of this host. SIGUSR1 writes "
    "flight.gwt\n"
    "and does not affect the ranks. --on-signal changes what SIGUSR1 and SIGUSR2 do.\n"
    "\n"
    "Exit code, the same on all hosts: 0 if all ranks exited with 0, the last time that they ran; "
    "else\n"
    "the code of the rank that failed first, or 128 plus the signal that killed this rank; 128 "
    "plus the\n"
    "signal that ended the job; 127 if the program was not found; 126 if it cannot be run; 125 if\n"
    "gradwire itself failed, or a host was lost; 2 for a wrong command line.\n";

// ---- Keys -------------------------------------------------------------------------------------------

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
    if (!o->rdzv_endpoint[0] || o->key || o->insecure || host_is_loopback(o->rdzv_host))
        return true;
    if (host_check("the host of --rdzv-endpoint", o->rdzv_host, &error))
        return parse_complain("%s", error.text);
    if (!protection_allows_beyond(&(protection){ .insecure = o->insecure }, "--rdzv-endpoint",
                                  o->rdzv_endpoint, &error))
        return true;
    return parse_complain("%s", error.text);
}

int run_streams_to_files(const run_options *o, int rank) {
    if (!o->log_dir) return 0;
    if (!o->redirects && !o->tee) return STREAMS_ALL;
    return streams_of(o->redirects, rank) | streams_of(o->tee, rank);
}

int run_streams_to_output(const run_options *o, int rank) {
    if (!ranks_have(o->shown_ranks, rank - o->node_rank * o->rank_count)) return 0;
    return STREAMS_ALL & (~streams_of(o->redirects, rank) | streams_of(o->tee, rank));
}

// ---- All of it ----------------------------------------------------------------------------------

// "auto" and "cpu": a rank for each processor.
static bool parse_rank_count(const char *name, const char *text, run_options *out) {
    if (strcmp(text, "gpu") == 0)
        return parse_complain("%s=gpu: gradwire uses no GPUs; give a number, cpu or auto", name);
    if (strcmp(text, "auto") != 0 && strcmp(text, "cpu") != 0)
        return parse_int(name, text, 1, RANK_COUNT_MAX, &out->rank_count);
    int processors = binding_processors();
    out->rank_count = processors < RANK_COUNT_MAX ? processors : RANK_COUNT_MAX;
    return true;
}

// |name| is what the user has set: an option, or a variable.
static bool take_option(int option, const char *name, const char *text, run_options *out) {
    if (option >= OPTION_TORCHRUN) return torchrun_take(option, name, text, out);
    if (option >= OPTION_FLIGHT_DIR)
        return observe_options_take((run_option)option, name, text, out);
    if (option >= OPTION_NNODES) return rendezvous_take((run_option)option, name, text, out);
    if (option >= OPTION_ON_FAILURE)
        return restart_options_take((run_option)option, name, text, out);
    switch (option) {
    case 'n': return parse_rank_count(name, text, out);
    case 'p': return parse_int(name, text, 0, 65535, &out->master_port);
    case 'g': return parse_seconds(name, text, &out->grace_ms);
    case 'b': return out->bind = true;
    case 'x': return out->no_prefix = true;
    case 'd': return out->dry_run = true;
    case 'k': out->key = text; return true;
    default: return out->insecure = true;
    }
}

static bool check(run_options *out) {
    if (!roles_check(out)) return false;
    if (!out->rank_count)
        return parse_complain("-n is missing: the number of processes on this host, 1 to %d",
                              RANK_COUNT_MAX);
    if (!rendezvous_check(out) || !restart_options_check(out) || !check_protection(out) ||
        !monitor_options_check(&out->monitor, out->insecure))
        return false;
    return !(out->no_prefix && (out->log_dir || out->shown_ranks)) ||
           parse_complain("--no-prefix cannot be used with %s, which %s lines with a prefix",
                          out->log_dir ? "--log-dir" : "--local-ranks-filter",
                          out->log_dir ? "keeps only" : "selects");
}

// ---- The environment ------------------------------------------------------------------------------

// A variable of an option without a value is 1 or 0.
static bool take_flag(const struct option *o, const char *name, const char *text,
                      run_options *out) {
    if (strcmp(text, "0") == 0) return true;
    return strcmp(text, "1") == 0 ? take_option(o->val, name, NULL, out)
                                  : parse_complain("%s is 0 or 1, not \"%s\"", name, text);
}

static bool take_environment(run_options *out) {
    for (const struct option *o = names_all(); o->name; o++) {
        char name[NAME_BYTES];
        if (!names_write_variable(o, name)) continue;
        const char *text = getenv(name);
        if (!text || !*text) continue;
        if (!(o->has_arg ? take_option(o->val, name, text, out) : take_flag(o, name, text, out)))
            return false;
    }
    return true;
}

// ---- The command line -------------------------------------------------------------------------------

// torchrun has both forms of its options, "--nproc_per_node" and "--nproc-per-node".
static void replace_underscores(char *option) {
    if (strncmp(option, "--", 2) != 0) return;
    for (char *c = option; *c && *c != '='; c++)
        if (*c == '_') *c = '-';
}

bool run_options_parse(int argc, char **argv, run_options *out, int *out_code) {
    *out = (run_options){ .grace_ms = 10000,
                          .node_min = 1,
                          .node_max = 1,
                          .node_count = 1,
                          .node_rank = -1,
                          .role = "default",
                          .rdzv_id = "",
                          .rdzv_timeout_ms = 300000,
                          .last_call_ms = 5000,
                          .min_timeout_ms = 600000,
                          .backoff_ms = 1000,
                          .host_cooldown_ms = 60000,
                          .on_usr2 = SIGNAL_FORWARD,
                          .hang_after_ms = 60000 };
    *out_code = EXIT_USAGE;
    if (!take_environment(out)) return false;
    opterr = 0;  // own error texts, not getopt's
    for (;;) {
        if (optind < argc) replace_underscores(argv[optind]);
        const char *given = optind < argc ? argv[optind] : "";
        int option = getopt_long(argc, argv, names_short, names_all(), NULL);
        if (option == -1) break;
        if (option == 'h') {
            fputs(help, stdout);
            *out_code = 0;
            return false;
        }
        if (option == ':')
            return parse_complain("%s needs a value; see gradwire run --help", given);
        if (option == '?') return names_refuse(given);
        char name[NAME_BYTES];
        option = names_long_form(option);
        names_write(option, name);
        if (!take_option(option, name, optarg, out)) return false;
    }
    if (!check(out)) return false;
    if (optind == argc)
        return parse_complain("the program to run is missing; see gradwire run --help");
    out->program = argv + optind;
    return true;
}
