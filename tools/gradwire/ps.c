// gradwire ps: the workers of this user on this host.
#include <stdio.h>

#include "observe/find.h"
#include "observe/subject.h"
#include "observe/workers.h"
#include "options/arguments.h"
#include "options/command.h"

static void print_usage(void) {
    printf(
        "usage: gradwire ps [--json] [JOB | PID | FILE.gwt]\n"
        "\n"
        "Lists the workers of this user on this host, or those of one job. JOB is the id of a job, "
        "or the\n"
        "beginning of its mark; PID is the number of a process of a worker or launcher. The "
        "command reads\n"
        "the memory of the workers and sends them no request. A worker that is not idle writes "
        "once a\n"
        "second what it waits for. M/S: the numbers of calls that the worker has made and served.\n"
        "\n"
        "  --json   the same and more, as JSON\n"
        "\n"
        "Exit code: 0; 1 if there is no such job.\n");
}

int ps_command(int argc, char **argv) {
    const char *wanted = NULL;
    bool json = false;
    found f;
    const argument options[] = { { "--json", ARGUMENT_FLAG, .flag = &json }, { 0 } };
    int code = arguments_read(
        &(arguments){ "ps", print_usage, options, .wanted = &wanted, .wanted_max = 1 }, argc, argv);
    if (code >= 0) return code;
    if (!subject_open("ps", wanted, false, &f)) return 1;
    if (json)
        workers_write_json(f.images, f.count, stdout);
    else if (f.count)
        workers_write(f.images, f.count, stdout);
    else
        printf("no worker of this user runs on this host\n");
    find_free(&f);
    return 0;
}
