// gradwire top: what the workers of a job do now, each second.
#include <stdio.h>
#include <string.h>

#include "live/live.h"
#include "live/screen.h"
#include "live/view.h"
#include "options/command.h"
#include "options/parse.h"
#include "options/usage.h"
#include "system/clock.h"

enum { INTERVAL_MS = 1000, MORE_MS = 600, STEP_MS = 100 };

static void print_usage(void) {
    printf("usage: gradwire top [--once] [--json] [--interval=SECONDS] [JOB | PID]\n"
           "\n"
           "Shows once a second what the workers of this user on this host do, or those of one "
           "job. JOB is the\n"
           "id of a job, or the beginning of its mark; PID is the number of a process of a worker "
           "or launcher.\n"
           "The command reads the memory of the workers and sends them no request. A worker that "
           "is not idle\n"
           "writes once a second what it waits for and what it has done. 100 %% is one processor "
           "that is always\n"
           "in use. Keys: s sorts by rank, calls, bytes, processor or memory; q ends.\n"
           "\n"
           "  --once               print one table, and end\n"
           "  --json               with --once: as JSON\n"
           "  --interval=SECONDS   the time between two tables, and the time over which --once "
           "counts. The\n"
           "                       default is 1; with --once it is 0, and the table has no rates\n"
           "\n"
           "Exit code: 0; 1 if there is no such job.\n");
}

typedef struct wish {
    const char *wanted;
    bool once, json;
    int64_t interval_ms;
} wish;

// Returns -1, or the exit code.
static int read_arguments(int argc, char **argv, wish *w) {
    static const char *const options[] = { "--once", "--json", "--interval", "--help", NULL };
    for (int i = 1; i < argc; i++) {
        const char *x = argv[i];
        if (strcmp(x, "--help") == 0) {
            print_usage();
            return 0;
        }
        if (strcmp(x, "--once") == 0) {
            w->once = true;
        } else if (strcmp(x, "--json") == 0) {
            w->json = true;
        } else if (strncmp(x, "--interval=", 11) == 0) {
            if (!parse_seconds("--interval", x + 11, &w->interval_ms)) return EXIT_USAGE;
        } else if (x[0] == '-' || w->wanted) {
            return usage_refuse("top", x, options);
        } else {
            w->wanted = x;
        }
    }
    if (w->json && !w->once) {
        fprintf(stderr, "gradwire top: --json is for --once; see gradwire top --help\n");
        return EXIT_USAGE;
    }
    if (!w->once && w->interval_ms < STEP_MS) w->interval_ms = STEP_MS;
    return -1;
}

// A worker writes its table once a second: it may need a moment more until each has a second one.
static void wait_for_rates(const wish *w, live *l) {
    int64_t until_ms = clock_now_ms() + w->interval_ms + MORE_MS;
    if (!w->interval_ms) return;
    screen_key(w->interval_ms);
    live_update(l);
    while (!screen_is_ended() && live_is_incomplete(l) && clock_now_ms() < until_ms) {
        screen_key(STEP_MS);
        live_update(l);
    }
}

static void show_once(const wish *w, live *l) {
    wait_for_rates(w, l);
    if (w->json)
        view_write_json(l, stdout);
    else if (l->count)
        view_write(l, &(view_options){ .line_end = "\n" }, stdout);
    else
        printf("no worker of this user runs on this host\n");
}

// Each line ends with what clears its rest, and the last with what clears the lines below.
static void show_page(const live *l, view_order order) {
    view_options o = { .order = order, .line_end = "\033[K\n" };
    screen_size(&o.width, &o.height);
    fputs("\033[H", stdout);
    view_write(l, &o, stdout);
    fputs("\033[J", stdout);
    fflush(stdout);
}

static void show_in_terminal(const wish *w, live *l) {
    view_order order = VIEW_BY_RANK;
    int64_t next_ms = clock_now_ms();
    while (!screen_is_ended()) {
        show_page(l, order);
        int64_t wait_ms = next_ms - clock_now_ms();
        int key = screen_key(wait_ms > 0 ? wait_ms : 0);
        if (key == 'q') return;
        if (key == 's') order = (order + 1) % VIEW_ORDERS;
        if (key || clock_now_ms() < next_ms) continue;
        live_update(l);
        next_ms = clock_now_ms() + w->interval_ms;
    }
}

// For files and pipes: until no process runs.
static void show_lines(const wish *w, live *l) {
    bool any_runs = true;
    while (any_runs && !screen_is_ended() && !ferror(stdout)) {
        screen_key(w->interval_ms);
        live_update(l);
        any_runs = live_any_runs(l);
        view_write(l, &(view_options){ .line_end = "\n" }, stdout);
        printf("\n");
        fflush(stdout);
    }
}

int top_command(int argc, char **argv) {
    wish w = { .interval_ms = INTERVAL_MS };
    live l;
    char why[FIND_WHY_SIZE];
    int code = read_arguments(argc, argv, &w);
    if (code >= 0) return code;
    if (!live_open(w.wanted, &l, why, sizeof why)) {
        fprintf(stderr, "gradwire top: %s\n", why);
        return 1;
    }
    if (w.once) {
        show_once(&w, &l);
    } else if (screen_open()) {
        show_in_terminal(&w, &l);
        screen_close();
    } else {
        show_lines(&w, &l);
    }
    live_close(&l);
    return 0;
}
