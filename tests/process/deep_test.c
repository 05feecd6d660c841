// A program's own structures of any depth, and threads with small stacks.
#include "testing/testing.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

#include "../support/launched.h"

// Stack of a thread, in KiB. Frames that a sanitizer has instrumented are several times as large.
#define STACK (MEM_CACHED ? "64" : "512")

static void expect_fine(result r, const char *what) {
    const char *first = strstr(r.out, "all fine"),
               *second = first ? strstr(first + 1, "all fine") : NULL;
    if (r.code || !second) fail_msg("%s: code %d\n%s%s", what, r.code, r.out, r.err);
    forget(r);
}

static path program(const char *name) {
    path p;
    snprintf(p.text, sizeof p.text, "%s/bin/case-%s", GW_BUILD_DIR, name);
    return p;
}

// Each call is an attempt that begins the next one, as a retry loop does.
static void a_loop_of_continuations_has_any_length(void **state) {
    (void)state;
    expect_fine(
        RUN("run", "-n", "2", "--", program("deep_structures").text, "retry", "20000", STACK),
        "retry");
}

static void structures_may_have_any_depth(void **state) {
    (void)state;
    expect_fine(RUN("run", "-n", "2", "--", program("deep_structures").text, "all", "20000", STACK),
                "all");
}

static void a_stack_of_64_kib_is_enough(void **state) {
    (void)state;
    expect_fine(RUN("run", "-n", "2", "--", program("small_stack").text, STACK), "small stack");
}

GW_TESTS(deep, a_loop_of_continuations_has_any_length, structures_may_have_any_depth,
         a_stack_of_64_kib_is_enough);
