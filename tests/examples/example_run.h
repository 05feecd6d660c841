// The examples as a user runs them, for tests: one shell command, what it printed and how it ended.
#ifndef EXAMPLE_RUN_H
#define EXAMPLE_RUN_H

enum { OUTPUT_MAX = 1 << 16 };

typedef struct result {
    int exit_code;
    char output[OUTPUT_MAX];  // both its outputs in one
} result;

// Runs a shell command in the folder of our programs. The result is for test_free, or for one of
// those below.
result *run(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Takes the line with "7 reconnects" out of |r|. Fails the test if there is none, or if no
// connection was cut: then the run has shown nothing.
void assert_was_cut(result *r);

// Both give their results back.
void assert_says(result *r, int exit_code, const char *text);
void assert_same_output(result *a, result *b, int exit_code);

// Runs |command|, however it ends, with --plot: there is a picture with at least two points.
void assert_draws(const char *command);

#endif
