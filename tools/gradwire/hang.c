// gradwire hang: what a job waits for.
#include "observe/hang.h"

#include <stdio.h>

#include "observe/subject.h"
#include "options/arguments.h"
#include "options/command.h"

enum { STACKS_MS = 10000 };

static void print_usage(void) {
    printf("usage: gradwire hang [--json] [--min-seconds=S] [JOB | PID | FILE.gwt]\n"
           "\n"
           "Shows what the workers of a job on this host wait for. It prints the roots first: a "
           "root waits for\n"
           "nothing, because it computes, is stopped, or has ended. It also prints cycles of "
           "workers that wait\n"
           "for each other. Below each root and each cycle it prints what waits for it. If "
           "eu-stack (package\n"
           "elfutils) is installed, the stacks of the roots are printed.\n"
           "\n"
           "JOB is the id of a job, or the beginning of its mark; PID is the number of a process "
           "of a worker\n"
           "or launcher. If there are several jobs, one must be given. The command reads the "
           "memory of the\n"
           "workers and sends them no request.\n"
           "\n"
           "  --json            the report as JSON\n"
           "  --min-seconds=S   show only waits of at least S seconds\n"
           "\n"
           "Exit code: 0; 1 if there is no such job or file.\n");
}

static int read_arguments(int argc, char **argv, hang_options *o, const char **wanted) {
    int64_t min_ms = 0;
    const argument options[] = {
        { "--json", ARGUMENT_FLAG, .flag = &o->json },
        { "--min-seconds", ARGUMENT_SECONDS, .ms = &min_ms },
        { 0 },
    };
    int code = arguments_read(
        &(arguments){ "hang", print_usage, options, .wanted = wanted, .wanted_max = 1 }, argc,
        argv);
    o->min_ns = min_ms * 1000000;
    return code;
}

int hang_command(int argc, char **argv) {
    hang_options o = { 0 };
    const char *wanted = NULL;
    char job[FIND_KEY_SIZE] = "";
    found f;
    int code = read_arguments(argc, argv, &o, &wanted);
    if (code >= 0) return code;
    if (!subject_open("hang", wanted, true, &f)) return 1;
    o.stacks_ms = subject_is_file(wanted) ? 0 : STACKS_MS;
    if (f.count) find_key(&f.images[0], job);
    o.job = job[0] ? job : NULL;
    int count = hang_report(f.images, f.count, &o, stdout);
    find_free(&f);
    if (count >= 0) return 0;
    fprintf(stderr, "gradwire hang: no memory\n");
    return 1;
}
