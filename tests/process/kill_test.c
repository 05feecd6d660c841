// Workers that are killed, ended or stopped at failpoints: every other worker gets an error that names them, and
// nothing is left. KILLS=1000 sets the number; `make kill` reports how long the others take to detect the loss.
#include "kill_job.h"
#include "testing/testing.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static const char *const points[] = {
    "before_send", "queued",   "running",        "before_reply",   "during_reply",
    "fork",        "delete",   "shutdown",       "join",           "fork_request",
    "fork_listed", "draining", "fork_confirmed", "join_published",
};

enum {
    POINTS = sizeof points / sizeof points[0],
    KILLS = 100,
    T_CLOSE_MS = 1000,
    T_DEAD_MS = 7000,
    SLACK = 10
};

static int count_entries(const char *folder) {
    int count = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) count++;
    if (d) closedir(d);
    return count;
}

// Each failpoint with each rank; then again at later passes of the same point.
static kill_case case_of(int i, int signal) {
    const char *point = points[i % POINTS];
    int n = i / POINTS;
    bool once =
        !strcmp(point, "shutdown") || !strcmp(point, "draining") || !strncmp(point, "join", 4);
    int world_size = 3 + n / 3 % 2;
    return (kill_case){ .point = point,
                        .pass = once ? 1 : 1 + i % 17 * 3,
                        .signal = signal,
                        .world_size = world_size,
                        .victim = (i + n) % world_size,
                        .tcp = (i + n) % 4 == 3,
                        .group = (i + n) % 4 == 1 && !once };
}

static int kills_in_all(void) {
    const char *text = getenv("KILLS");
    return text && *text ? (int)strtol(text, NULL, 10) : testing_scaled(KILLS);
}

static void kill_many(int count, int signal) {
    int descriptors = count_entries("/proc/self/fd"), shared = count_entries("/dev/shm");
    for (int i = 0; i < count; i++) {
        kill_case c = case_of(i, signal);
        testing_note("kill %d: signal %d at %s:%d of worker%d of %d%s", i, signal, c.point, c.pass,
                     c.victim, c.world_size, c.tcp ? " over tcp" : "");
        int64_t latency_ms = kill_run(&c) / 1000000;
        bool waits_for_the_bound = !strcmp(c.point, "join");
        if (!waits_for_the_bound)
            assert_in_range(latency_ms, 0, testing_patient_ms(SLACK * T_CLOSE_MS));
    }
    assert_int_equal(count_entries("/proc/self/fd"), descriptors);
    assert_int_equal(count_entries("/dev/shm"), shared);
}

static void all_get_an_error_when_a_worker_is_killed(void **state) {
    (void)state;
    kill_many(kills_in_all() * 46 / 100, SIGKILL);
}

static void all_get_an_error_when_a_worker_is_ended(void **state) {
    (void)state;
    kill_many(kills_in_all() * 46 / 100, SIGTERM);
}

// Runs several jobs at once, because each waits until its victim is declared dead.
static void *stop_one(void *arg) {
    kill_case *c = arg;
    int64_t latency_ms = kill_run(c) / 1000000;
    assert_in_range(latency_ms, 0, testing_patient_ms(SLACK * T_DEAD_MS));
    return NULL;
}

static void a_stopped_worker_finds_itself_fenced_and_joins_again(void **state) {
    (void)state;
    static const char *const stops[] = { "before_send",  "queued", "running",     "before_reply",
                                         "during_reply", "fork",   "fork_listed", "delete" };
    enum { STOPS = sizeof stops / sizeof stops[0] };
    int descriptors = count_entries("/proc/self/fd"), rounds = kills_in_all() / 100;
    for (int round = 0; round < (rounds ? rounds : 1); round++) {
        kill_case cases[STOPS];
        pthread_t threads[STOPS];
        testing_note("stopped in round %d", round);
        for (int i = 0; i < STOPS; i++) {
            cases[i] = (kill_case){ .point = stops[i],
                                    .pass = 10 + round,
                                    .signal = SIGSTOP,
                                    .world_size = 3,
                                    .victim = (i + round) % 3,
                                    .group = i % 2 };
            assert_int_equal(pthread_create(&threads[i], NULL, stop_one, &cases[i]), 0);
        }
        for (int i = 0; i < STOPS; i++) pthread_join(threads[i], NULL);
    }
    assert_int_equal(count_entries("/proc/self/fd"), descriptors);
}

// ---- While they train ---------------------------------------------------------------------------
// Failpoints that the trainer, worker0, passes, and failpoints of the other workers.
static const struct {
    const char *point;
    bool trainer;
} training_points[] = {
    { "pass_begun", true },       { "pass_part", false },     { "pass_done", false },
    { "step_prepare", false },    { "step_prepared", false }, { "step_commit", false },
    { "step_commit_sent", true }, { "step_decided", true },   { "step_committed", false },
};

enum { TRAINING_POINTS = sizeof training_points / sizeof training_points[0] };

static kill_case training_case(int i, int signal) {
    int n = i / TRAINING_POINTS, world_size = 3 + n % 2;
    bool trainer = training_points[i % TRAINING_POINTS].trainer;
    return (kill_case){ .point = training_points[i % TRAINING_POINTS].point,
                        .pass = 1 + i % 13 * 2,
                        .signal = signal,
                        .world_size = world_size,
                        .victim = trainer ? 0 : 1 + (i + n) % (world_size - 1),
                        .tcp = (i + n) % 4 == 3,
                        .trains = true };
}

static void all_get_an_error_when_a_worker_is_killed_in_training(void **state) {
    (void)state;
    int descriptors = count_entries("/proc/self/fd"), count = kills_in_all() * 18 / 100;
    for (int i = 0; i < count; i++) {
        kill_case c = training_case(i, SIGKILL);
        testing_note("kill %d at %s:%d of worker%d of %d", i, c.point, c.pass, c.victim,
                     c.world_size);
        assert_in_range(kill_run(&c) / 1000000, 0, testing_patient_ms(SLACK * T_CLOSE_MS));
    }
    assert_int_equal(count_entries("/proc/self/fd"), descriptors);
}

static void a_worker_stopped_in_training_is_fenced_and_the_others_continue(void **state) {
    (void)state;
    int descriptors = count_entries("/proc/self/fd"), rounds = kills_in_all() / 100;
    for (int round = 0; round < (rounds ? rounds : 1); round++) {
        kill_case cases[TRAINING_POINTS];
        pthread_t threads[TRAINING_POINTS];
        testing_note("stopped in round %d", round);
        for (int i = 0; i < TRAINING_POINTS; i++) {
            cases[i] = training_case(i + round * TRAINING_POINTS, SIGSTOP);
            assert_int_equal(pthread_create(&threads[i], NULL, stop_one, &cases[i]), 0);
        }
        for (int i = 0; i < TRAINING_POINTS; i++) pthread_join(threads[i], NULL);
    }
    assert_int_equal(count_entries("/proc/self/fd"), descriptors);
}

// ---- While they share memory --------------------------------------------------------------------
// Between any two steps of making a ring, writing to it, waking its other end, and lending.
static const char *const memory_points[] = {
    "ring_written",  "ring_published", "ring_bell",     "ring_armed",
    "ring_taken",    "ring_full",      "ring_grown",    "lend_offer",
    "lend_answer",   "lend_written",   "lend_borrowed", "lend_returning",
    "lend_returned", "segment_made",   "segment_sent",  "segment_mapped",
};

enum { MEMORY_POINTS = sizeof memory_points / sizeof memory_points[0] };

static bool is_of_segment(const char *point) {
    return !strncmp(point, "segment", 7);
}

// Of two workers whose connection has broken the one with the lower rank connects.
static int memory_victim(const char *point, int i, int world_size) {
    if (!is_of_segment(point)) return (i + i / MEMORY_POINTS) % world_size;
    return strcmp(point, "segment_mapped") ? 0 : world_size - 1;
}

static int memory_pass(const char *point, int i) {
    int n = i / MEMORY_POINTS;
    bool is_once = !strcmp(point, "lend_offer") || !strcmp(point, "lend_answer") ||
                   !strcmp(point, "ring_grown");
    if (is_once) return 1;
    bool is_rare = is_of_segment(point) || !strcmp(point, "ring_full");
    return is_rare ? 2 + n % 3 : 1 + i * 7 % 60;
}

static kill_case memory_case(int i) {
    const char *point = memory_points[i % MEMORY_POINTS];
    int n = i / MEMORY_POINTS, world_size = 2 + n % 2;
    return (kill_case){ .point = point,
                        .pass = memory_pass(point, i),
                        .signal = SIGKILL,
                        .world_size = world_size,
                        .victim = memory_victim(point, i, world_size),
                        .cuts = is_of_segment(point) || n % 4 == 3,
                        .lends = true };
}

static void kill_in_memory(int i, int pause_ms) {
    kill_case c = memory_case(i);
    c.pause_ms = pause_ms;
    testing_note("%s %d at %s:%d of worker%d of %d", pause_ms ? "stop" : "kill", i, c.point, c.pass,
                 c.victim, c.world_size);
    assert_in_range(kill_run(&c) / 1000000, 0, testing_patient_ms(SLACK * T_CLOSE_MS));
}

static void nothing_is_left_of_a_worker_killed_between_two_steps(void **state) {
    (void)state;
    int descriptors = count_entries("/proc/self/fd"), shared = count_entries("/dev/shm");
    for (int i = 0, count = kills_in_all(); i < count; i++) kill_in_memory(i, 0);
    assert_int_equal(count_entries("/proc/self/fd"), descriptors);
    assert_int_equal(count_entries("/dev/shm"), shared);
}

// A worker that is stopped there for a while is not lost, and its results afterwards are right.
static void a_worker_stopped_between_two_steps_continues(void **state) {
    (void)state;
    for (int i = 0, count = kills_in_all() * MEMORY_POINTS / 100; i < count; i++)
        kill_in_memory(i, 100);
}

GW_TESTS_WITH_LIMIT(kill, 120, all_get_an_error_when_a_worker_is_killed,
                    all_get_an_error_when_a_worker_is_ended,
                    a_stopped_worker_finds_itself_fenced_and_joins_again,
                    all_get_an_error_when_a_worker_is_killed_in_training,
                    a_worker_stopped_in_training_is_fenced_and_the_others_continue,
                    nothing_is_left_of_a_worker_killed_between_two_steps,
                    a_worker_stopped_between_two_steps_continues);
