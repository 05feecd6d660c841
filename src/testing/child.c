// The process of one test: runs it under cmocka and sees to it that a failure anywhere leaves
// evidence.
#include "testing/runner.h"

#include <execinfo.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/mem.h"

static const int fatal_signals[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGSYS, SIGABRT };
enum { FATAL_SIGNAL_COUNT = sizeof fatal_signals / sizeof fatal_signals[0] };

static struct sigaction fatal_actions[FATAL_SIGNAL_COUNT];
static void (*the_test)(void **state);
static bool returned;

static void print_own_stack(int signal_number) {
    (void)signal_number;
    void *frames[64];
    backtrace_symbols_fd(frames, backtrace(frames, 64), STDERR_FILENO);
}

static void die_with_stacks(int signal_number) {
    static atomic_flag dying = ATOMIC_FLAG_INIT;
    while (atomic_flag_test_and_set(&dying))
        pause();  // another thread was first and reports for all
    const char text[] = "\ndied by a signal:\n";
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0) _exit(1);
    testing_print_stacks_of_process(getpid(), STDERR_FILENO);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

// cmocka installs its own handlers, which turn a crash into one line. Ours, or the
// sanitizer's, print the position.
static void restore_fatal_actions(void) {
    for (int i = 0; i < FATAL_SIGNAL_COUNT; i++)
        sigaction(fatal_signals[i], &fatal_actions[i], NULL);
}

static void run_under_cmocka(void **state) {
    restore_fatal_actions();
    *state = NULL;
    the_test(state);
    returned = true;
}

_Noreturn void testing_run_child(const char *name, void (*test)(void **state)) {
    the_test = test;
    mem_account();
    // The first call of backtrace() loads a library, which must not happen inside a signal handler.
    void *frame;
    backtrace(&frame, 1);
    signal(SIGQUIT, print_own_stack);
    // The address sanitizer reports more about a bad access than a debugger.
    for (int i = 0; i < FATAL_SIGNAL_COUNT; i++) {
        bool is_theirs = TESTING_ADDRESS_SANITIZER && fatal_signals[i] != SIGABRT;
        if (!is_theirs) signal(fatal_signals[i], die_with_stacks);
        sigaction(fatal_signals[i], NULL, &fatal_actions[i]);
    }
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);

    // A failed assertion aborts the process, instead of a longjmp that would be wrong in any thread
    // but the first.
    setenv("CMOCKA_TEST_ABORT", "1", 1);
    const struct CMUnitTest unit = { .name = name, .test_func = run_under_cmocka };
    int failed_count = _cmocka_run_group_tests(name, &unit, 1, NULL, NULL);
    if (failed_count) exit(1);
    exit(returned ? TESTING_EXIT_PASSED : TESTING_EXIT_SKIPPED);
}
