// What tests use while they run; the parent's side is in main.c.
#include "testing/testing.h"

#include <stdio.h>
#include <stdlib.h>

#include "testing/runner.h"

char *testing_note_text;
testing_group *testing_groups;

void testing_register(testing_group *group) {
    group->next = testing_groups;
    testing_groups = group;
}

int testing_environment_int(const char *name, int otherwise) {
    const char *text = getenv(name);
    if (!text || !*text) return otherwise;
    char *end;
    long n = strtol(text, &end, 10);
    if (*end || n < 1 || n > 1000000000) {
        fprintf(stderr, "%s must be a positive number, not \"%s\"\n", name, text);
        exit(2);
    }
    return (int)n;
}

int testing_scaled(int count) {
    int scaled = count / testing_environment_int("SCALE", 1);
    return scaled > 0 ? scaled : 1;
}

void testing_note(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(testing_note_text, TESTING_NOTE_MAX, format, arguments);
    va_end(arguments);
}

void testing_for_seeds(int count, void (*scenario)(uint64_t seed, void *context), void *context) {
    int only = testing_environment_int("SEED", 0);
    int first = only ? only : testing_environment_int("FROM", 1);
    int last = only ? only : testing_environment_int("SEEDS", testing_scaled(count));
    for (int seed = first; seed <= last; seed++) {
        testing_note("seed %d; SEED=%d repeats it", seed, seed);
        scenario((uint64_t)seed, context);
    }
}
