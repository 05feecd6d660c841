// gradwire trace: the records of a job as one timeline, or as a report.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "observe/follow.h"
#include "observe/subject.h"
#include "options/arguments.h"
#include "options/command.h"
#include "options/parse.h"
#include "options/trace_option.h"
#include "system/clock.h"
#include "timeline/file.h"
#include "timeline/prepare.h"
#include "timeline/report.h"
#include "trace/kinds.h"

static void print_usage(void) {
    printf(
        "usage: gradwire trace -o FILE [--json] [--last=S] [JOB | PID | FILE.gwt...]\n"
        "       gradwire trace -o FILE [--json] --seconds=S [--levels=L] [--steps=A-B] "
        "[--from-start] [JOB | PID]\n"
        "       gradwire trace --report [--last=S | --seconds=S [--levels=L]] [JOB | PID | "
        "FILE.gwt...]\n"
        "\n"
        "Writes the records of all workers of a job into one trace: a job on this host, or "
        "files. JOB is the\n"
        "id of a job, or the beginning of its mark; PID is the number of a process of a worker "
        "or launcher. If\n"
        "there are several jobs, one must be given. The command reads the memory of the workers "
        "and sends them\n"
        "no request. Open the trace with https://ui.perfetto.dev.\n"
        "\n"
        "  -o FILE        the trace, for Perfetto; FILE.json: as JSON; FILE.gwt: the records "
        "themselves\n"
        "  --json         as JSON, for chrome://tracing and speedscope\n"
        "  --report       print instead the times of workers, collectives and calls, and, for "
        "each group, the\n"
        "                 collective that some members have not ended\n"
        "  --last=S       only the records of the last S seconds that the workers have kept\n"
        "  --seconds=S    switch records on, and take all records of the next S seconds; SIGINT "
        "ends that earlier\n"
        "  --levels=L     with --seconds, the levels that are switched on (default: all but ref, "
        "wire, ops):\n"
        "                 a list of %s\n"
        "  --from-start   with --seconds, also the records that the workers have kept from before\n"
        "  --steps=A-B    with --seconds, only these steps of each process; ends when all have "
        "done B. Steps of an\n"
        "                 elastic job have numbers; else the optimizer steps of each process "
        "count, from 1\n"
        "\n"
        "Exit code: 0; 1 if there is no such job or file, or the trace cannot be written.\n",
        trace_level_names());
}

typedef struct wish {
    const char **wanted;  // of a list that ends with NULL
    int count;
    const char *file, *level_names, *steps;
    bool json, report, from_start;
    int64_t last_ms, seconds_ms;
    uint32_t levels;
    int first_step, last_step;
} wish;

static int refuse(const char *what) {
    fprintf(stderr, "gradwire trace: %s; see gradwire trace --help\n", what);
    return EXIT_USAGE;
}

static int check_levels(wish *w) {
    const char *wrong;
    size_t size;
    w->levels = TRACE_USUAL;
    if (!w->level_names || trace_levels_parse(w->level_names, &w->levels, &wrong, &size)) return -1;
    fprintf(stderr, "gradwire trace: --levels: %.*s is no level; there are %s\n", (int)size, wrong,
            trace_level_names());
    return EXIT_USAGE;
}

static int check(wish *w) {
    if (!w->file && !w->report) return refuse("-o FILE is missing");
    if (w->report && (w->file || w->json))
        return refuse("--report writes no trace: leave out -o and --json");
    for (int i = 0; w->count > 1 && i < w->count; i++)
        if (!subject_is_file(w->wanted[i])) return refuse("only files can be several");
    if (w->level_names && w->seconds_ms < 0) return refuse("--levels is for --seconds");
    if (w->steps && w->seconds_ms < 0) return refuse("--steps is for --seconds");
    if (w->from_start && w->seconds_ms < 0) return refuse("--from-start is for --seconds");
    if (w->seconds_ms == 0) return refuse("--seconds takes a time, not 0");
    if (w->seconds_ms > 0 && w->last_ms) return refuse("--last and --seconds exclude each other");
    if (w->seconds_ms > 0 && w->count && subject_is_file(w->wanted[0]))
        return refuse("--seconds is for a job that runs, not for a file");
    if (w->steps && !parse_steps("--steps", w->steps, &w->first_step, &w->last_step))
        return EXIT_USAGE;
    return check_levels(w);
}

// Returns -1, or the exit code.
static int read_arguments(int argc, char **argv, wish *w) {
    const argument options[] = {
        { "-o", ARGUMENT_NEXT, .text = &w->file },
        { "--json", ARGUMENT_FLAG, .flag = &w->json },
        { "--report", ARGUMENT_FLAG, .flag = &w->report },
        { "--last", ARGUMENT_SECONDS, .ms = &w->last_ms },
        { "--seconds", ARGUMENT_SECONDS, .ms = &w->seconds_ms },
        { "--levels", ARGUMENT_TEXT, .text = &w->level_names },
        { "--steps", ARGUMENT_TEXT, .text = &w->steps },
        { "--from-start", ARGUMENT_FLAG, .flag = &w->from_start },
        { 0 },
    };
    arguments x = { "trace", print_usage, options, .wanted = w->wanted, .wanted_max = argc };
    int code = arguments_read(&x, argc, argv);
    w->count = x.wanted_count;
    return code >= 0 ? code : check(w);
}

// ---- Images -------------------------------------------------------------------------------------

// Moves the images of |more| behind those of |all|.
static bool append(found *all, found *more) {
    image *larger = realloc(all->images, (size_t)(all->count + more->count + 1) * sizeof *larger);
    if (!larger) return false;
    all->images = larger;
    memcpy(all->images + all->count, more->images, (size_t)more->count * sizeof *larger);
    all->count += more->count;
    more->count = 0;
    return true;
}

static bool open_all(const wish *w, found *out) {
    if (w->count < 2) return subject_open("trace", w->count ? w->wanted[0] : NULL, true, out);
    *out = (found){ 0 };
    bool ok = true;
    for (int i = 0; ok && i < w->count; i++) {
        found one;
        ok = subject_open("trace", w->wanted[i], true, &one);
        if (!ok) break;
        ok = append(out, &one);
        if (!ok) fprintf(stderr, "gradwire trace: no memory\n");
        find_free(&one);
    }
    if (!ok) find_free(out);
    return ok;
}

// ---- A job that runs ------------------------------------------------------------------------------

static void print_lost(const capture *c, const found *f) {
    uint64_t overtaken = 0, left_out = 0;
    for (int i = 0; i < f->count; i++)
        for (int k = 0; k < f->images[i].thread_count; k++) {
            overtaken += f->images[i].threads[k].overtaken;
            left_out += f->images[i].threads[k].left_out;
        }
    if (overtaken)
        fprintf(stderr,
                "gradwire trace: %" PRIu64 " records were overwritten before they were read; "
                "GW_FLIGHT=%d keeps more of each thread\n",
                overtaken, TRACE_RECORDS * 8);
    if (left_out)
        fprintf(stderr, "gradwire trace: %" PRIu64 " records are left out, behind the first %d\n",
                left_out, CAPTURE_RECORDS_MAX);
    if (capture_refused(c))
        fprintf(stderr, "gradwire trace: the memory of %d processes cannot be read any more: %s\n",
                capture_refused(c), capture_why(c));
}

// The line that programs wait for: all levels are on. The standard output of --report is the report.
static void print_begin(int process_count) {
    printf("tracing %d process%s\n", process_count, process_count == 1 ? "" : "es");
    fflush(stdout);
}

// Takes what the workers of the job do in the next seconds.
static bool capture_all(const wish *w, found *out) {
    char why[FIND_WHY_SIZE] = "no memory";
    int64_t begun_ms = clock_now_ms();
    capture *c = capture_open(&(capture_options){ .levels = w->levels,
                                                  .from_start = w->from_start || w->steps,
                                                  .first_step = w->first_step,
                                                  .last_step = w->last_step });
    bool ok = c && follow_job(c, w->wanted[0], w->seconds_ms, w->file ? print_begin : NULL, why,
                              sizeof why);
    if (ok && follow_signal())
        fprintf(stderr, "gradwire trace: %s after %.1f s\n", strsignal(follow_signal()),
                (double)(clock_now_ms() - begun_ms) * 1e-3);
    *out = (found){ 0 };
    ok = ok && capture_finish(c, &out->images, &out->count);
    if (ok)
        print_lost(c, out);
    else
        fprintf(stderr, "gradwire trace: %s\n", why);
    if (c) capture_close(c);
    return ok;
}

// ---- Writing ------------------------------------------------------------------------------------

static int print_report(const found *f, const clocks *c) {
    bool ok = report_print(f->images, f->count, c, stdout);
    if (!ok) fprintf(stderr, "gradwire trace: no memory\n");
    return ok ? 0 : 1;
}

// A line for each host but the first.
static void print_clocks(const clocks *c) {
    for (int i = 1; i < c->host_count; i++) {
        const clocks_host *h = &c->hosts[i];
        fprintf(stderr, "gradwire trace: the clock of host %s is aligned by %s", h->name,
                clocks_words(h));
        if (!h->reason)
            fprintf(stderr, ", and is exact to %.1f us", (double)h->uncertainty_ns * 1e-3);
        fprintf(stderr, "\n");
    }
}

static int refuse_file(const wish *w) {
    fprintf(stderr, "gradwire trace: %s: %s\n", w->file, strerror(errno));
    return 1;
}

static int write_all(const wish *w, found *f, trace_file *file) {
    clocks c = { 0 };
    bool has_times = w->report || file->format != TRACE_RECORDS_THEMSELVES;
    if (has_times && !prepare_images(f->images, f->count, w->last_ms * 1000000, &c)) {
        fprintf(stderr, "gradwire trace: no memory\n");
        return 1;
    }
    print_clocks(&c);
    int code = w->report                                         ? print_report(f, &c)
               : trace_file_write(file, f->images, f->count, &c) ? 0
                                                                 : refuse_file(w);
    clocks_fini(&c);
    return code;
}

static int run(const wish *w) {
    found f = { 0 };
    trace_file file = { 0 };
    bool takes_time = w->seconds_ms > 0;
    // What cannot be written is an error before the time of a capture.
    if (w->file && !trace_file_open(&file, w->file, w->json)) return refuse_file(w);
    int code = (takes_time ? capture_all(w, &f) : open_all(w, &f)) ? write_all(w, &f, &file) : 1;
    find_free(&f);
    if (w->file) trace_file_close(&file);
    return code;
}

int trace_command(int argc, char **argv) {
    wish w = { .wanted = calloc((size_t)argc + 1, sizeof *w.wanted), .seconds_ms = -1 };
    if (!w.wanted) return EXIT_OWN_FAILURE;
    int code = read_arguments(argc, argv, &w);
    if (code < 0) code = run(&w);
    free(w.wanted);
    return code;
}
