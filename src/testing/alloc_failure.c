#include "testing/testing.h"

#include <stdatomic.h>

#include "base/mem.h"

// The hook may be called from any thread of the scenario.
static atomic_long allocations_until_failure;
static atomic_bool failed;
static bool fail_all_later;

static int fail_when_due(size_t size_bytes) {
    (void)size_bytes;
    long left = atomic_fetch_sub(&allocations_until_failure, 1);
    if (left > 1 || (left < 1 && !fail_all_later)) return 0;
    atomic_store(&failed, true);
    return 1;
}

// Returns whether an allocation was made to fail.
static bool run_with_failure(long n, void (*scenario)(void *context), void *context) {
    size_t live_before = mem_live_count();
    atomic_store(&allocations_until_failure, n);
    atomic_store(&failed, false);
    mem_fail_hook = fail_when_due;
    scenario(context);
    mem_fail_hook = NULL;
    assert_int_equal(mem_live_count(), live_before);
    return atomic_load(&failed);
}

void testing_alloc_failure_loop(void (*scenario)(void *context), void *context) {
    // Objects that are made once per process, such as tables and pools, are made here and are no leaks.
    scenario(context);
    for (int mode = 0; mode < 2; mode++) {
        fail_all_later = mode == 1;
        for (long n = 1;; n++) {
            testing_note("allocation %ld %s fails", n,
                         fail_all_later ? "and every later one" : "alone");
            if (!run_with_failure(n, scenario, context)) break;
        }
    }
    testing_note("no allocation fails");
}
