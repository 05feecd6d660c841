// The examples as a user runs them, for tests: one shell command, its output and its exit code.
//
// No command has its own time limit ("timeout 100 ..."): the limit of the test ends hangs, adapts to the load of the
// machine, and prints all stacks.
#ifndef EXAMPLE_RUN_H
#define EXAMPLE_RUN_H

#include <stdbool.h>

enum { OUTPUT_MAX = 1 << 16 };

typedef struct result {
    int exit_code;
    char output[OUTPUT_MAX];  // standard output: the results of the program
    char log
        [OUTPUT_MAX];  // standard error: errors, and the library's log, which depends on the load of the machine
} result;

// Runs a shell command in the folder of our programs. The caller passes the result to test_free, or to one of the
// functions below.
result *run(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Whether |text| is in the output or the log.
bool prints(const result *r, const char *text);

// Removes the line with "7 reconnects" from |r|. Fails the test if there is none, or if no connection was cut: then the
// run has tested nothing.
void assert_was_cut(result *r);

// Both free their results. The outputs are compared, not the logs.
void assert_prints(result *r, int exit_code, const char *text);
void assert_same_output(result *a, result *b, int exit_code);

// Runs |command|, however it ends, with --plot: the picture has at least two points.
void assert_draws(const char *command);

#endif
