// gradwire dump: what workers do and did, into a file or as text.
#include "observe/dump.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "observe/subject.h"
#include "observe/text.h"
#include "options/arguments.h"
#include "options/command.h"

enum { LAST_RECORDS = 50 };

static void print_usage(void) {
    printf(
        "usage: gradwire dump [-o FILE] [--last=N] [JOB | PID | FILE.gwt]\n"
        "\n"
        "Prints the records of the workers of this user on this host, of one job, or of a file. "
        "JOB is the\n"
        "id of a job, or the beginning of its mark; PID is the number of a process of a worker or "
        "launcher.\n"
        "The command reads the memory of the workers and sends them no request: workers may be "
        "stopped, or\n"
        "may have been killed while their launcher runs.\n"
        "\n"
        "  -o FILE    write the records into FILE, which gradwire dump and gradwire hang can read\n"
        "  --last=N   print the last N records of each thread (default %d)\n"
        "\n"
        "Exit code: 0; 1 if there is no such job or file.\n",
        LAST_RECORDS);
}

typedef struct wish {
    const char *wanted, *file;
    int last;
} wish;

static int read_arguments(int argc, char **argv, wish *w) {
    const argument options[] = {
        { "--last", ARGUMENT_NUMBER, .number = &w->last, .max = 1024 * 1024 },
        { "-o", ARGUMENT_NEXT, .text = &w->file },
        { 0 },
    };
    return arguments_read(
        &(arguments){ "dump", print_usage, options, .wanted = &w->wanted, .wanted_max = 1 }, argc,
        argv);
}

int dump_command(int argc, char **argv) {
    wish w = { .last = LAST_RECORDS };
    found f;
    int code = read_arguments(argc, argv, &w);
    if (code >= 0) return code;
    if (!subject_open("dump", w.wanted, false, &f)) return 1;
    code = 0;
    if (!w.file) {
        for (int i = 0; i < f.count; i++) text_write(&f.images[i], w.last, stdout);
        if (!f.count) printf("no worker of this user runs on this host\n");
    } else if (!dump_write(w.file, f.images, f.count)) {
        fprintf(stderr, "gradwire dump: %s: %s\n", w.file, strerror(errno));
        code = 1;
    }
    find_free(&f);
    return code;
}
