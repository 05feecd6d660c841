// gradwire <subcommand>: the one command of gradwire. Each subcommand is a row of the table and a
// file of its name.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <gradwire/version.h>

#include "base/nearest.h"
#include "options/command.h"
#include "options/parse.h"

static const command commands[] = {
    { "ca", "make the CA of a job, for gradwire key --ca", ca_command },
    { "doctor", "show how workers on this host send messages, and why no faster way is used",
      doctor_command },
    { "dump", "write or show the last records of workers, also of workers that have ended",
      dump_command },
    { "hang", "show what a running job waits for", hang_command },
    { "key", "make the key of a job or worker, for --key and GW_KEY_FILE", key_command },
    { "monitor", "serve a page about a running job, and its metrics", monitor_command },
    { "ps", "list the workers of this user on this host", ps_command },
    { "run", "start the ranks of a job, on this host or several, and stop all when one fails",
      run_command },
    { "stop", "end a job on all of its hosts", stop_command },
    { "top", "show each second what the workers of a job do", top_command },
    { "trace", "write what all workers of a job did into one trace, or report on it",
      trace_command },
};
enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

static void print_help(void) {
    printf("usage: gradwire <subcommand> [options]\n\n");
    for (int i = 0; i < COMMAND_COUNT; i++)
        printf("  %-8s %s\n", commands[i].name, commands[i].summary);
    printf("\ngradwire <subcommand> --help shows the options; gradwire --version prints the "
           "version.\n");
}

// A pipe must not get the number of a standard stream, which a rank then takes for its own.
static void open_missing_streams(void) {
    int fd;
    do fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0) close(fd);
}

static int exit_code_after_printing(int code) {
    if (fflush(stdout) == 0 && !ferror(stdout)) return code;
    fprintf(stderr, "gradwire: cannot write standard output: %s\n", strerror(errno));
    return EXIT_OUTPUT_LOST;
}

int main(int argc, char **argv) {
    open_missing_streams();
    const char *name = argc > 1 ? argv[1] : "";
    for (int i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(name, commands[i].name) != 0) continue;
        parse_command = commands[i].name;
        return exit_code_after_printing(commands[i].run(argc - 1, argv + 1));
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        print_help();
        return exit_code_after_printing(0);
    }
    if (strcmp(name, "--version") == 0) {
        printf("gradwire %s\n", gw_version());
        return exit_code_after_printing(0);
    }
    if (argc < 2) {
        fprintf(stderr, "gradwire: the subcommand is missing; see gradwire --help\n");
    } else {
        nearest n = nearest_to(name);
        for (int i = 0; i < COMMAND_COUNT; i++) nearest_offer(&n, commands[i].name);
        fprintf(stderr, "gradwire: there is no subcommand \"%s\"; see gradwire --help%s\n", name,
                nearest_words(&n));
    }
    return EXIT_USAGE;
}
