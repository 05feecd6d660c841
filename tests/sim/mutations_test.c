// The mutations of src/base/mutation.h: each makes a simulated test fail on the seed that found it,
// and the same seed passes without it. tests/sim/mutation_seeds.txt lists them; `make mutations`
// searches for them again.
#include "testing/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

// A test that a mutation blocks for ever is stopped, and has failed: one seed takes about a second.
enum { SEEDS_IF_MOVED = 10000, STOPPED_S = 10, LIMIT_S = 120 };

typedef struct run {
    int code;
    char output[16 * 1024];  // its end
} run;

static void read_end(FILE *f, run *out) {
    char line[1024];
    size_t at = 0;
    while (fgets(line, sizeof line, f)) {
        size_t size = strlen(line);
        if (at + size >= sizeof out->output) at = 0;
        memcpy(out->output + at, line, size + 1);
        at += size;
    }
}

// |variable| is SEED, or SEEDS for all up to |seed|.
static run replay(const char *bug, const char *test, const char *variable, long seed, int limit_s) {
    run r = { 0 };
    char command[1024];
    snprintf(command, sizeof command,
             "GW_MUTATION=%s %s=%ld SCALE= GW_TEST_LIMIT_S=%d GW_TEST_STACKS=none "
             "%s/bin/gradwire-mutations %s 2>&1",
             bug, variable, seed, limit_s, GW_BUILD_DIR, test);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    read_end(f, &r);
    int status = pclose(f);
    r.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return r;
}

static bool has_failed(const run *r) {
    return r->code == 1 && strstr(r->output, "0 passed, 1 failed");
}

// The seed on which the test has failed, read from the harness's output; 0: it has not failed, or has not run.
static long failed_on(const run *r) {
    const char *note = strstr(r->output, "note: seed ");
    return has_failed(r) && note ? strtol(note + strlen("note: seed "), NULL, 10) : 0;
}

// Changes of the protocol or of the workload move seeds: then the test tries others, and prints a line about that.
static long find(const char *bug, const char *test, long seed) {
    testing_note("%s on seed %ld of %s", bug, seed, test);
    run r = replay(bug, test, "SEED", seed, STOPPED_S);
    if (has_failed(&r)) return seed;
    testing_note("%s on all seeds to %d of %s", bug, SEEDS_IF_MOVED, test);
    r = replay(bug, test, "SEEDS", SEEDS_IF_MOVED, LIMIT_S);
    if (!failed_on(&r)) fail_msg("%s is not found any more: %s", bug, r.output);
    printf("%s: not on seed %ld any more, but on %ld: make mutations\n", bug, seed, failed_on(&r));
    return failed_on(&r);
}

static void check_passes(const char *test, long seed) {
    testing_note("no bug on seed %ld of %s", seed, test);
    run clean = replay("", test, "SEED", seed, LIMIT_S);
    if (clean.code != 0 || !strstr(clean.output, "1 passed, 0 failed"))
        fail_msg("without a bug: exit code %d, %s", clean.code, clean.output);
}

static void every_mutation_is_found(void **state) {
    (void)state;
    char line[512], bug[64], test[256];
    long seed;
    int count = 0;
    FILE *f = fopen(GW_SOURCE_DIR "/tests/sim/mutation_seeds.txt", "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        if (line[0] == '#' || line[0] == '\n') continue;
        if (sscanf(line, "%63s %255s %ld", bug, test, &seed) != 3)
            fail_msg("tests/sim/mutation_seeds.txt: \"%s\" has no seed: make mutations", line);
        check_passes(test, find(bug, test, seed));
        count++;
    }
    fclose(f);
    printf("%d bugs found again\n", count);
}

GW_TESTS_WITH_LIMIT(mutation, 240, every_mutation_is_found);
