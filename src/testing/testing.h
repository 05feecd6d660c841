// The test harness: cmocka's assertions, one process per test, a hard limit on each.
// Limits are counted on a clock that is slower while the machine is busy (pace.h).
//
//     static void it_adds(void **state) {
//         (void)state;
//         assert_int_equal(1 + 1, 2);
//     }
//
//     GW_TESTS(base_list, it_adds, it_grows);
//
// A test fails by a failed assertion (in any thread), a crash, a leak reported by a sanitizer, an
// exit, or by running longer than its limit; then all stacks are printed. The output of a test is
// shown only if it fails.
#ifndef TESTING_TESTING_H
#define TESTING_TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

typedef struct testing_group {
    const char *name;
    const char *test_names;  // "it_adds, it_grows", as written
    void (*const *tests)(void **state);
    size_t test_count;
    unsigned limit_s;  // 0: the usual limit
    struct testing_group *next;
} testing_group;

// Registers the tests of a file, once per file, under a name that begins with the room's.
#define GW_TESTS(group, ...) GW_TESTS_WITH_LIMIT(group, 0, __VA_ARGS__)

// The same for tests that may take |limit_s| seconds each.
#define GW_TESTS_WITH_LIMIT(group, limit, ...)                                                     \
    static void (*const gw_tests_##group##_functions[])(void **state) = { __VA_ARGS__ };           \
    static testing_group gw_tests_##group##_group = {                                              \
        .name = #group,                                                                            \
        .test_names = #__VA_ARGS__,                                                                \
        .tests = gw_tests_##group##_functions,                                                     \
        .test_count =                                                                              \
            sizeof gw_tests_##group##_functions / sizeof gw_tests_##group##_functions[0],          \
        .limit_s = (limit),                                                                        \
    };                                                                                             \
    __attribute__((constructor)) static void gw_tests_##group##_register(void) {                   \
        testing_register(&gw_tests_##group##_group);                                               \
    }                                                                                              \
    struct testing_group

void testing_register(testing_group *group);

// Returns |count| divided by the environment variable SCALE, at least 1: repetitions where a
// sanitizer makes them slow.
int testing_scaled(int count);

// Returns |ms| as long as it may take on this machine, on which other programs run: times the largest slowdown
// since the tests began. For each limit that a test sets on a wait.
int testing_patient_ms(int ms);

// Returns a TCP port that no process uses, and that neither another test nor a socket without a named port gets.
int testing_free_port(void);

// Sets the text that is printed if this test fails from here on, however it fails: "seed 17".
void testing_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Ends this test without a result: it cannot be run here. The reason is printed behind all tests, so it
// names the missing part: "redis-server is not installed".
_Noreturn void testing_skip(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Runs |scenario| for the seeds 1 to |count| (scaled). The environment variable SEEDS sets another
// last one, FROM another first, SEED picks a single seed. A failure names the seed.
void testing_for_seeds(int count, void (*scenario)(uint64_t seed, void *context), void *context);

// Runs |scenario| with its first allocation failing, then its second, and so on until none is left
// to fail; first with one failure, then with every allocation failing from there on. The scenario
// must survive each run and give all its memory back; its errors are its own
// business.
void testing_alloc_failure_loop(void (*scenario)(void *context), void *context);

// From here on the system call |call| (SYS_...) fails with |error| in all threads of this process, as
// in a container. False: the kernel does not support it.
bool testing_forbid(long call, int error);

#endif
