// Every fuzz target on its corpus: each run of the tests repeats the recorded inputs.
#include "testing/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FUZZ_TARGET(name, corpus) int fuzz_##name(const uint8_t *data, size_t size);
#include <fuzz_targets.h>
#undef FUZZ_TARGET

typedef int fuzz_target(const uint8_t *data, size_t size);

static int digit(char c) {
    const char *digits = "0123456789abcdef", *found = strchr(digits, c);
    assert_true(c && found);
    return (int)(found - digits);
}

// The input is in memory of exactly its size, so that a sanitizer detects the first byte read behind it.
static void replay_line(fuzz_target *target, const char *line, size_t length) {
    assert_int_equal(length % 2, 0);
    size_t size = length / 2;
    uint8_t *data = malloc(size ? size : 1);
    assert_non_null(data);
    for (size_t i = 0; i < size; i++)
        data[i] = (uint8_t)(digit(line[2 * i]) << 4 | digit(line[2 * i + 1]));
    target(data, size);
    free(data);
}

static void replay(fuzz_target *target, const char *corpus) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", GW_SOURCE_DIR, corpus);
    FILE *in = fopen(path, "r");
    if (!in) fail_msg("%s: keep a corpus with scripts/fuzz", path);
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    int count = 0;
    for (; (length = getline(&line, &room, in)) >= 0; count++) {
        if (length && line[length - 1] == '\n') length--;
        testing_note("%s:%d", corpus, count + 1);
        replay_line(target, line, (size_t)length);
    }
    assert_true(count > 0);
    free(line);
    fclose(in);
}

#define FUZZ_TARGET(name, corpus)                                                                  \
    static void name##_corpus_finds_nothing(void **state) {                                        \
        (void)state;                                                                               \
        replay(fuzz_##name, corpus);                                                               \
    }
#include <fuzz_targets.h>
#undef FUZZ_TARGET

#define FUZZ_TARGET(name, corpus) name##_corpus_finds_nothing,
static void (*const tests[])(void **state) = {
#include <fuzz_targets.h>
};
#undef FUZZ_TARGET

#define FUZZ_TARGET(name, corpus) #name "_corpus_finds_nothing, "
static const char names[] =
#include <fuzz_targets.h>
    ;
#undef FUZZ_TARGET

static testing_group group = { .name = "corpus",
                               .test_names = names,
                               .tests = tests,
                               .test_count = sizeof tests / sizeof tests[0] };

__attribute__((constructor)) static void register_tests(void) {
    testing_register(&group);
}
