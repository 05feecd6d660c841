// The functions that tests call; the parent's side is in main.c.
#include "testing/testing.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "testing/pace.h"
#include "testing/runner.h"

char *testing_note_text;
_Atomic int *testing_patience_ms;
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

int testing_patient_ms(int ms) {
    int patient_ms = (int)(ms * pace_slowness_max()), more_ms = patient_ms - ms;
    if (testing_patience_ms && more_ms > *testing_patience_ms) *testing_patience_ms = more_ms;
    return patient_ms;
}

void testing_note(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(testing_note_text, TESTING_NOTE_MAX, format, arguments);
    va_end(arguments);
}

void testing_skip(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(testing_note_text, TESTING_NOTE_MAX, format, arguments);
    va_end(arguments);
    skip();
    abort();  // it does not return
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

bool testing_forbid(long call, int error) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { sizeof rules / sizeof *rules, rules };
    return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
           !syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
}
