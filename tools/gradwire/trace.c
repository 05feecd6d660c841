// gradwire trace: the records of a job as one timeline, or as a report.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "observe/subject.h"
#include "options/command.h"
#include "options/parse.h"
#include "options/usage.h"
#include "timeline/chrome.h"
#include "timeline/perfetto.h"
#include "timeline/prepare.h"
#include "timeline/report.h"
#include "timeline/timeline.h"

static void print_usage(void) {
    printf("usage: gradwire trace -o FILE [--json] [--last=SECONDS] [JOB | PID | FILE.gwt...]\n"
           "       gradwire trace --report [--last=SECONDS] [JOB | PID | FILE.gwt...]\n"
           "\n"
           "Writes the records of all workers of a job into one trace: a job on this host, or "
           "files that\n"
           "gradwire dump has written. JOB is the id of a job, or the beginning of its mark; PID "
           "is the number\n"
           "of a process of a worker or launcher. If there are several jobs, one must be given. "
           "The command\n"
           "reads the memory of the workers and sends them no request. Open the trace with\n"
           "https://ui.perfetto.dev.\n"
           "\n"
           "  -o FILE          the trace, for Perfetto\n"
           "  --json           as JSON, for chrome://tracing and speedscope\n"
           "  --report         print instead the times of workers, collectives and calls, and, for "
           "each group,\n"
           "                   the collective that some members have not ended\n"
           "  --last=SECONDS   only the records of the last SECONDS\n"
           "\n"
           "Exit code: 0; 1 if there is no such job or file, or the trace cannot be written.\n");
}

typedef struct wish {
    const char **wanted;  // of a list that ends with NULL
    int count;
    const char *file;
    bool json, report;
    int64_t last_ms;
} wish;

static int refuse(const char *what) {
    fprintf(stderr, "gradwire trace: %s; see gradwire trace --help\n", what);
    return EXIT_USAGE;
}

static int check(const wish *w) {
    if (!w->file && !w->report) return refuse("-o FILE is missing");
    if (w->report && (w->file || w->json))
        return refuse("--report writes no trace: leave out -o and --json");
    for (int i = 0; w->count > 1 && i < w->count; i++)
        if (!subject_is_file(w->wanted[i])) return refuse("only files can be several");
    return -1;
}

// Returns -1, or the exit code.
static int read_arguments(int argc, char **argv, wish *w) {
    static const char *const options[] = { "--json", "--report", "--last", "-o", "--help", NULL };
    for (int i = 1; i < argc; i++) {
        const char *x = argv[i];
        if (strcmp(x, "--help") == 0) {
            print_usage();
            return 0;
        }
        if (strcmp(x, "-o") == 0 && i + 1 < argc) {
            w->file = argv[++i];
        } else if (strcmp(x, "--json") == 0) {
            w->json = true;
        } else if (strcmp(x, "--report") == 0) {
            w->report = true;
        } else if (strncmp(x, "--last=", 7) == 0) {
            if (!parse_seconds("--last", x + 7, &w->last_ms)) return EXIT_USAGE;
        } else if (x[0] == '-') {
            return usage_refuse("trace", x, options);
        } else {
            w->wanted[w->count++] = x;
        }
    }
    return check(w);
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

// ---- Writing ------------------------------------------------------------------------------------

static bool write_trace(const found *f, int hosts, bool json, FILE *to) {
    perfetto *p = json ? NULL : perfetto_open(to);
    chrome *c = json ? chrome_open(to) : NULL;
    visitor v = { 0 };
    if (p) v = perfetto_visitor(p);
    if (c) v = chrome_visitor(c);
    bool has_memory = (p || c) && timeline_visit(f->images, f->count, hosts, &v);
    bool ok = true;
    if (p) ok = perfetto_close(p);
    if (c) ok = chrome_close(c);
    if (!has_memory) errno = ENOMEM;
    return ok && has_memory;
}

// Into a new file in the same folder, which then gets its name.
static bool write_file(const found *f, int hosts, const wish *w) {
    char *path = NULL;
    if (asprintf(&path, "%s.XXXXXX", w->file) < 0) return false;
    int fd = mkostemp(path, O_CLOEXEC);
    FILE *to = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (fd >= 0 && !to) close(fd);
    bool ok = to && write_trace(f, hosts, w->json, to);
    int error = errno;
    if (to && fclose(to) != 0 && ok) {
        ok = false;
        error = errno;
    }
    if (ok && rename(path, w->file) != 0) {
        ok = false;
        error = errno;
    }
    if (!ok && fd >= 0) unlink(path);
    free(path);
    errno = error;
    return ok;
}

static int print_report(const found *f, int hosts) {
    report *r = report_open(f->images, f->count);
    visitor v = { 0 };
    if (r) v = report_visitor(r);
    bool ok = r && timeline_visit(f->images, f->count, hosts, &v) && report_write(r, stdout);
    if (r) report_close(r);
    if (!ok) fprintf(stderr, "gradwire trace: no memory\n");
    return ok ? 0 : 1;
}

static int run(const wish *w, found *f) {
    int hosts = prepare_images(f->images, f->count, w->last_ms * 1000000);
    if (hosts > 1)
        fprintf(stderr,
                "gradwire trace: the clocks of %d hosts are aligned by their wall time; the order "
                "of events of "
                "different hosts is not certain\n",
                hosts);
    if (w->report) return print_report(f, hosts);
    if (write_file(f, hosts, w)) return 0;
    fprintf(stderr, "gradwire trace: %s: %s\n", w->file, strerror(errno));
    return 1;
}

int trace_command(int argc, char **argv) {
    wish w = { .wanted = calloc((size_t)argc + 1, sizeof *w.wanted) };
    found f;
    if (!w.wanted) return EXIT_OWN_FAILURE;
    int code = read_arguments(argc, argv, &w);
    if (code < 0) code = open_all(&w, &f) ? -1 : 1;
    if (code < 0) {
        code = run(&w, &f);
        find_free(&f);
    }
    free(w.wanted);
    return code;
}
