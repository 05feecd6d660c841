// Between the parts of the harness; tests include testing.h alone.
#ifndef TESTING_RUNNER_H
#define TESTING_RUNNER_H

#include <stdio.h>
#include <sys/types.h>

#include "testing/testing.h"

// Clang has __has_feature for what gcc defines as a macro.
#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define TESTING_ADDRESS_SANITIZER 1
#else
#define TESTING_ADDRESS_SANITIZER 0
#endif
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#define TESTING_THREAD_SANITIZER 1
#else
#define TESTING_THREAD_SANITIZER 0
#endif

enum { TESTING_NOTE_MAX = 512, TESTING_NAME_MAX = 160 };

// How the process of a test ends. Not 0, so that a test which calls exit(0) has not passed.
enum { TESTING_EXIT_PASSED = 76, TESTING_EXIT_SKIPPED = 77 };

extern testing_group *testing_groups;

// The text of testing_note; shared with the parent, which prints it however the child ended.
extern char *testing_note_text;

// The longest time that testing_patient_ms has given to the test beyond what it asked for, shared as well: its limit is so
// much longer, as the machine may be quick again while the test waits.
extern _Atomic int *testing_patience_ms;

// The positive number in the environment variable |name|, or |otherwise| if it is not set.
int testing_environment_int(const char *name, int otherwise);

// Runs one test in this process, which is the test's own, and exits.
_Noreturn void testing_run_child(const char *name, void (*test)(void **state));

// Write the stacks of all threads of a process, or of every process of a group, to the file
// |output_fd|.
void testing_print_stacks_of_process(pid_t pid, int output_fd);
void testing_print_stacks_of_group(pid_t pgid, int output_fd);

#endif
