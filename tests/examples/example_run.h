// The examples as a user runs them, for tests: one shell command, what it printed and how it ended.
//
// No command has a time of its own ("timeout 100 ..."): the limit of the test ends what hangs, knows how busy the machine is,
// and prints all stacks.
#ifndef EXAMPLE_RUN_H
#define EXAMPLE_RUN_H

#include <stdbool.h>

enum { OUTPUT_MAX = 1 << 16 };

typedef struct result {
    int exit_code;
    char output[OUTPUT_MAX];  // standard output: what the program computes
    char log
        [OUTPUT_MAX];  // standard error: errors, and what the library logs, which depends on how busy the machine is
} result;

// Runs a shell command in the folder of our programs. The result is for test_free, or for one of
// those below.
result *run(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Whether |text| is in the output or the log.
bool says(const result *r, const char *text);

// Takes the line with "7 reconnects" out of |r|. Fails the test if there is none, or if no
// connection was cut: then the run has shown nothing.
void assert_was_cut(result *r);

// Both give their results back. The same output: the log is not compared.
void assert_says(result *r, int exit_code, const char *text);
void assert_same_output(result *a, result *b, int exit_code);

// Runs |command|, however it ends, with --plot: there is a picture with at least two points.
void assert_draws(const char *command);

#endif
