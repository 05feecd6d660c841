// Examples under each limit of the system, from too low to enough: each run works, or ends, or waits for no longer than
// its deadlines and names the limit. GW_LIMITS=all tests every value, else a selection.
#include "base/mem.h"
#include "example_run.h"
#include "testing/testing.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NOT_SOLVED = 3, SAMPLE = 7, FIRST_USER = 1000000 };

typedef struct limit {
    const char *flag;  // of ulimit
    int first, last, step;
    int sample;            // of how many steps one is tried
    const char *names[4];  // the names of the limit in errors, any of them
    const char *as;        // the command that runs an example under it; NULL: it needs none
} limit;

static const limit descriptors = { "-n", 3, 64, 1, SAMPLE, { "Too many open files" }, NULL };
// KiB. Under 12,000 the program is not loaded.
static const limit address_space = {
    "-v",
    12000,
    500000,
    4000,
    SAMPLE,
    { "Resource temporarily unavailable", "Cannot allocate memory", "no memory", "ulimit -v" },
    NULL
};
// KiB of private memory.
static const limit private_memory = {
    "-d",
    2000,
    200000,
    6000,
    SAMPLE,
    { "Resource temporarily unavailable", "Cannot allocate memory", "no memory", "ulimit -d" },
    NULL
};
static const limit locked = { "-l", 0, 64, 16, SAMPLE, { "no memory" }, NULL };

// Processes and threads of a user who has no others. The number is for each example and value another one, as the end of a
// process is counted a moment after it is waited for.
#define USER "exec setpriv --reuid=$USER_ID --regid=$USER_ID --clear-groups"
static const limit processes = { "-u", 1, 20, 1, 1, { "Resource temporarily unavailable" }, USER };

// A shell with every flag: dash has no -u.
#define LIMITED "bash -c 'ulimit $LIMIT; exec"

static const char *const examples[] = {
    "./gradwire run -n 3 --no-prefix -- " LIMITED " ./rl_cartpole --max-episodes 2'",
    "./gradwire run -n 2 --no-prefix -- " LIMITED " ./ddp_digits --epochs 1'",
    LIMITED " ./fedavg --clients 2 --rounds 2 --timeout $SECONDS_EACH'",
    LIMITED " ./gradwire run -n 2 --no-prefix -- ./hello'",
};

static bool is_named(const limit *l, const char *output) {
    for (int i = 0; i < 4 && l->names[i]; i++)
        if (strstr(output, l->names[i])) return true;
    // The shell, or the loader of programs, has reported it.
    return strstr(output, "error while loading shared libraries") ||
           strstr(output, "cannot allocate TLS data structures") || strstr(output, "Cannot fork");
}

// A deadline of a call, which a busy machine does not let pass.
static int call_seconds(void) {
    return testing_patient_ms(5000) / 1000;
}

static bool works(const result *r) {
    return r->exit_code == 0 || r->exit_code == NOT_SOLVED;
}

static void try_one(const char *example, const limit *l, int value) {
    static int user = FIRST_USER;
    result *r = run("export LIMIT='%s %d' SECONDS_EACH=%d USER_ID=%d HOME=/; %s %s 2>&1", l->flag,
                    value, call_seconds(), user++, l->as ? l->as : "exec", example);
    if (!works(r) && !is_named(l, r->output))
        fail_msg("%s %d: exit code %d: %s", l->flag, value, r->exit_code, r->output);
    test_free(r);
}

static void sweep(const limit *l) {
    const char *how = getenv("GW_LIMITS");
    int step = how && strcmp(how, "all") == 0 ? l->step : l->step * l->sample;
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

static void little_private_memory_is_named(void **state) {
    (void)state;
    if (!MEM_CACHED) testing_skip("a sanitizer needs more memory than such limits leave");
    sweep(&private_memory);
}

static void little_locked_memory_is_no_hindrance(void **state) {
    (void)state;
    sweep(&locked);
}

static void few_processes_are_named(void **state) {
    (void)state;
    if (system("command -v setpriv >/dev/null") || geteuid() != 0)
        testing_skip("a limit of processes needs a user without others: root, and setpriv");
    result *r = run("export USER_ID=%d; " USER " ./gradwire run -n 1 true", FIRST_USER - 1);
    if (r->exit_code) testing_skip("other users cannot run the programs of this build");
    test_free(r);
    sweep(&processes);
}

// ---- /dev/shm ---------------------------------------------------------------------------------------

// Of its own size, seen by this command alone; tmpfs counts whole pages, and one is taken: of 4 KiB nothing is left.
static void shared_memory_of(const char *size) {
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        testing_note("example %d, /dev/shm of %s", (int)i, size);
        result *r = run("export SIZE=%s LIMIT='-c 0' SECONDS_EACH=%d; export EXAMPLE=\"%s\"; exec "
                        "unshare --mount "
                        "--map-root-user sh -c 'mount -t tmpfs -o size=$SIZE none /dev/shm && "
                        "head -c 4096 /dev/zero >/dev/shm/taken && eval \"$EXAMPLE\"' 2>&1",
                        size, call_seconds(), examples[i]);
        assert_true(works(r));
        test_free(r);
    }
}

static void little_shared_memory_is_no_hindrance(void **state) {
    (void)state;
    result *r = run("unshare --mount --map-root-user mount -t tmpfs -o size=4k none /dev/shm");
    if (r->exit_code) testing_skip("/dev/shm cannot be mounted in a namespace of its own");
    test_free(r);
    shared_memory_of("4k");
    shared_memory_of("1m");
}

GW_TESTS_WITH_LIMIT(limits, 900, few_descriptors_are_named, little_address_space_is_named,
                    little_private_memory_is_named, little_locked_memory_is_no_hindrance,
                    few_processes_are_named, little_shared_memory_is_no_hindrance);
