#include "testing/pace.h"

#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum {
    PIECE_ROUNDS =
        10000000,  // some 10 ms: longer than a scheduler's slice, so that it has to take turns
    PIECES_FIRST = 3,
    PAUSE_MS = 1000,
};

// Written by the process that measures, whole clocks in turns, of which |current| is the last one.
typedef struct shared_clock {
    pace_clock clocks[64];
    atomic_uint current;
} shared_clock;

static shared_clock *the_clock;

// ---- The arithmetic -----------------------------------------------------------------------------

void pace_clock_feed(pace_clock *c, int64_t at_ms, int64_t took_ns, int64_t computed_ns) {
    if (!c->least_ns || computed_ns < c->least_ns) c->least_ns = computed_ns;
    double slowness = (double)took_ns / (double)c->least_ns;
    if (slowness < 1) slowness = 1;
    if (slowness > PACE_MAX) slowness = PACE_MAX;
    // The time between two pieces was as slow as the slower of them: a limit that is too long finds the same hangs.
    if (slowness > c->slowness) c->slowness = slowness;
    c->pace_ms = pace_clock_read(c, at_ms);
    c->at_ms = at_ms;
    c->slowness = slowness;
    if (slowness > c->slowness_max) c->slowness_max = slowness;
}

int64_t pace_clock_read(const pace_clock *c, int64_t at_ms) {
    return c->pace_ms + (int64_t)((double)(at_ms - c->at_ms) / c->slowness);
}

// ---- The process that measures ------------------------------------------------------------------

static int64_t read_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static int64_t wall_ms(void) {
    return read_ns(CLOCK_MONOTONIC) / 1000000;
}

static void do_piece(void) {
    static volatile uint32_t sink;
    uint32_t x = sink | 1;
    for (int i = 0; i < PIECE_ROUNDS; i++) x ^= x << 13, x ^= x >> 17, x ^= x << 5;
    sink = x;
}

static void measure(void) {
    unsigned current = atomic_load(&the_clock->current);
    pace_clock next = the_clock->clocks[current % 64];
    int64_t began_ns = read_ns(CLOCK_MONOTONIC), before_ns = read_ns(CLOCK_PROCESS_CPUTIME_ID);
    do_piece();
    int64_t computed_ns = read_ns(CLOCK_PROCESS_CPUTIME_ID) - before_ns;
    int64_t ended_ns = read_ns(CLOCK_MONOTONIC);
    pace_clock_feed(&next, ended_ns / 1000000, ended_ns - began_ns, computed_ns);
    the_clock->clocks[(current + 1) % 64] = next;
    atomic_store(&the_clock->current, current + 1);
}

static _Noreturn void keep_measuring(pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
        if (getppid() != parent) _exit(0);
        poll(NULL, 0, PAUSE_MS);
        measure();
    }
}

void pace_open(void) {
    the_clock =
        mmap(NULL, sizeof *the_clock, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t parent = getpid();
    if (the_clock == MAP_FAILED) {
        perror("mmap");
        exit(2);
    }
    the_clock->clocks[0] = (pace_clock){ .at_ms = wall_ms(), .slowness = 1, .slowness_max = 1 };
    for (int i = 0; i < PIECES_FIRST; i++) measure();
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) keep_measuring(parent);
    if (pid < 0) perror("fork");  // then it stays as slow as it is
}

static const pace_clock *current_clock(void) {
    return &the_clock->clocks[atomic_load(&the_clock->current) % 64];
}

int64_t pace_now_ms(void) {
    return pace_clock_read(current_clock(), wall_ms());
}

double pace_slowness(void) {
    return current_clock()->slowness;
}

double pace_slowness_max(void) {
    return current_clock()->slowness_max;
}
