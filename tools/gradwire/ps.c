// gradwire ps: the workers of this user on this host.
#include <stdio.h>
#include <string.h>

#include "observe/find.h"
#include "observe/subject.h"
#include "observe/workers.h"
#include "options/command.h"
#include "options/usage.h"

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
    static const char *const options[] = { "--json", "--help", NULL };
    const char *wanted = NULL;
    bool json = false;
    found f;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            print_usage();
            return 0;
        }
        if (strcmp(argv[i], "--json") == 0)
            json = true;
        else if (argv[i][0] == '-' || wanted)
            return usage_refuse("ps", argv[i], options);
        else
            wanted = argv[i];
    }
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
