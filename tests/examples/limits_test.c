// Examples under each limit of the system, from too low to enough: each run works, or ends, or waits for no longer than
// its deadlines and names the limit. GW_LIMITS=all tests every value, else a selection.
#include "base/mem.h"
#include "example_run.h"
#include "testing/testing.h"

#include <stdlib.h>
#include <string.h>

enum { NOT_SOLVED = 3, SAMPLE = 7 };

typedef struct limit {
    const char *flag;  // of ulimit
    int first, last, step;
    const char *names[4];  // the names of the limit in errors, any of them
} limit;

static const limit descriptors = { "-n", 3, 64, 1, { "Too many open files" } };
// KiB. Under 12,000 the program is not loaded.
static const limit address_space = { "-v",
                                     12000,
                                     500000,
                                     4000,
                                     { "Resource temporarily unavailable", "Cannot allocate memory",
                                       "no memory", "ulimit -v" } };
static const limit locked = { "-l", 0, 64, 16, { "no memory" } };

static const char *const examples[] = {
    "./gradwire run -n 3 --no-prefix -- sh -c 'ulimit $LIMIT; exec ./rl_cartpole --max-episodes 2'",
    "./gradwire run -n 2 --no-prefix -- sh -c 'ulimit $LIMIT; exec ./ddp_digits --epochs 1'",
    "sh -c 'ulimit $LIMIT; exec ./fedavg --clients 2 --rounds 2 --timeout 5'",
};

static bool is_named(const limit *l, const char *output) {
    for (int i = 0; i < 4 && l->names[i]; i++)
        if (strstr(output, l->names[i])) return true;
    // The shell, or the loader of programs, has reported it.
    return strstr(output, "error while loading shared libraries") || strstr(output, "Cannot fork");
}

static void try_one(const char *example, const limit *l, int value) {
    result *r = run("exec env LIMIT='%s %d' %s 2>&1", l->flag, value, example);
    bool works = r->exit_code == 0 || r->exit_code == NOT_SOLVED;
    if (!works && !is_named(l, r->output))
        fail_msg("%s %d: exit code %d: %s", l->flag, value, r->exit_code, r->output);
    test_free(r);
}

static void sweep(const limit *l) {
    const char *how = getenv("GW_LIMITS");
    int step = how && strcmp(how, "all") == 0 ? l->step : l->step * SAMPLE;
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++)
        for (int value = l->first; value <= l->last; value += step) {
            testing_note("example %d, ulimit %s %d", (int)i, l->flag, value);
            try_one(examples[i], l, value);
        }
}

static void few_descriptors_are_named(void **state) {
    (void)state;
    sweep(&descriptors);
}

static void little_address_space_is_named(void **state) {
    (void)state;
    if (!MEM_CACHED) testing_skip("a sanitizer needs more addresses than such limits leave");
    sweep(&address_space);
}

static void little_locked_memory_is_no_hindrance(void **state) {
    (void)state;
    sweep(&locked);
}

GW_TESTS_WITH_LIMIT(limits, 900, few_descriptors_are_named, little_address_space_is_named,
                    little_locked_memory_is_no_hindrance);
