#include "observe/follow.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>

#include "system/clock.h"

enum { FIND_AGAIN_MS = 1000 };

static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
enum { SIGNALS = sizeof signals / sizeof signals[0] };

static volatile sig_atomic_t signal_taken, is_ended;

static void note_signal(int number) {
    signal_taken = number;
}

static void note_end(int number) {
    is_ended = number;
}

int follow_signal(void) {
    return signal_taken;
}

// Without SA_RESTART, so that waits end.
static void handle_signals(void (*handler)(int)) {
    struct sigaction action = { .sa_handler = handler };
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < SIGNALS; i++) sigaction(signals[i], &action, NULL);
}

// Of a program that has started this process and ends its trace. It may arrive while the file is written, too.
static void handle_end(void (*handler)(int)) {
    struct sigaction action = { .sa_handler = handler };
    sigemptyset(&action.sa_mask);
    sigaction(SIGUSR1, &action, NULL);
}

static bool runs(const image *x) {
    return x->life == IMAGE_RUNS || x->life == IMAGE_STOPPED;
}

// False, with a sentence, if one cannot be traced.
static bool add_all(capture *c, const found *f, char *why, size_t why_size) {
    char reason[IMAGE_WHY_SIZE];
    for (int i = 0; i < f->count; i++) {
        int fd = runs(&f->images[i]) ? find_open(&f->images[i], O_RDWR) : -1;
        if (fd < 0 || capture_add(c, fd, reason, sizeof reason)) continue;
        snprintf(why, why_size, "process %d cannot be traced: %s", (int)f->images[i].pid, reason);
        return false;
    }
    return true;
}

// Adds processes that have started. Returns whether any runs.
static bool find_again(capture *c, const char *job) {
    char why[FIND_WHY_SIZE];
    found f;
    bool any = false;
    if (!find_tables(job, &f, why, sizeof why)) return false;
    add_all(c, &f, why, sizeof why);
    for (int i = 0; i < f.count; i++) any |= runs(&f.images[i]);
    find_free(&f);
    return any;
}

static void read_until(capture *c, const char *job, int64_t until_ms) {
    int64_t find_ms = clock_now_ms() + FIND_AGAIN_MS;
    while (!signal_taken && !is_ended && !capture_is_over(c)) {
        int wait_ms = capture_read(c);
        int64_t left_ms = until_ms - clock_now_ms();
        if (left_ms <= 0) return;
        poll(NULL, 0, left_ms < wait_ms ? (int)left_ms : wait_ms);
        if (clock_now_ms() < find_ms) continue;
        if (!find_again(c, job)) return;
        find_ms = clock_now_ms() + FIND_AGAIN_MS;
    }
}

bool follow_job(capture *c, const char *wanted, int64_t for_ms, void (*begun)(int process_count),
                char *why, size_t why_size) {
    found f;
    char job[FIND_KEY_SIZE];
    if (!find_job_tables(wanted, &f, why, why_size)) return false;
    find_key(&f.images[0], job);
    handle_signals(note_signal);
    handle_end(note_end);
    bool ok = add_all(c, &f, why, why_size);
    find_free(&f);
    if (ok && begun) begun(capture_count(c));
    if (ok) read_until(c, job, clock_now_ms() + for_ms);
    capture_stop(c);
    handle_signals(SIG_DFL);
    handle_end(SIG_IGN);
    return ok;
}
