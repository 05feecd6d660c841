// gradwire top: what the workers of a job do now, each second.
#include <stdio.h>

#include "live/live.h"
#include "live/screen.h"
#include "live/view.h"
#include "options/arguments.h"
#include "options/command.h"
#include "system/clock.h"

enum { INTERVAL_MS = 1000, MORE_MS = 600, STEP_MS = 100 };

static void print_usage(void) {
    printf(
        "usage: gradwire top [--once] [--json] [--peers] [--interval=SECONDS] [JOB | PID]\n"
        "\n"
        "Shows once a second what the workers of this user on this host do, or those of one "
        "job. JOB is the\n"
        "id of a job, or the beginning of its mark; PID is the number of a process of a worker "
        "or launcher.\n"
        "The command reads the memory of the workers and sends them no request. A worker that "
        "is not idle\n"
        "writes once a second what it waits for and what it has done. 100 %% is one processor "
        "that is always\n"
        "in use. Keys: s sorts by rank, calls, bytes, processor or memory; p switches between "
        "workers and\n"
        "pairs of workers; q ends.\n"
        "\n"
        "  --once               print one table, and end\n"
        "  --json               with --once: as JSON\n"
        "  --peers              show the messages and bytes of each pair of workers; with --json, "
        "print them, too\n"
        "  --interval=SECONDS   the time between two tables, and the time over which --once "
        "counts (default 1);\n"
        "                       with --once and 0, the table has no rates\n"
        "\n"
        "Exit code: 0; 1 if there is no such job.\n");
}

typedef struct wish {
    const char *wanted;
    bool once, json, peers;
    int64_t interval_ms;
} wish;

static int read_arguments(int argc, char **argv, wish *w) {
    const argument options[] = {
        { "--once", ARGUMENT_FLAG, .flag = &w->once },
        { "--json", ARGUMENT_FLAG, .flag = &w->json },
        { "--peers", ARGUMENT_FLAG, .flag = &w->peers },
        { "--interval", ARGUMENT_SECONDS, .ms = &w->interval_ms },
        { 0 },
    };
    int code = arguments_read(
        &(arguments){ "top", print_usage, options, .wanted = &w->wanted, .wanted_max = 1 }, argc,
        argv);
    if (code >= 0) return code;
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
        view_write_json(l, w->peers, stdout);
    else if (l->count)
        view_write(l, &(view_options){ .peers = w->peers, .line_end = "\n" }, stdout);
    else
        printf("no worker of this user runs on this host\n");
}

// Each line ends with what clears its rest, and the last with what clears the lines below.
static void show_page(const live *l, view_order order, bool peers) {
    view_options o = { .order = order, .peers = peers, .line_end = "\033[K\n" };
    screen_size(&o.width, &o.height);
    fputs("\033[H", stdout);
    view_write(l, &o, stdout);
    fputs("\033[J", stdout);
    fflush(stdout);
}

static void show_in_terminal(const wish *w, live *l) {
    view_order order = VIEW_BY_RANK;
    bool peers = w->peers;
    int64_t next_ms = clock_now_ms();
    while (!screen_is_ended()) {
        show_page(l, order, peers);
        int64_t wait_ms = next_ms - clock_now_ms();
        int key = screen_key(wait_ms > 0 ? wait_ms : 0);
        if (key == 'q') return;
        if (key == 'p') peers = !peers;
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
        view_write(l, &(view_options){ .peers = w->peers, .line_end = "\n" }, stdout);
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
