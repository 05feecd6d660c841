// Sums of large tensors between real processes.
#include "../support/launched.h"
#include "base/mem.h"
#include "testing/testing.h"

// What they take is bounded by the result, in one piece and in memory that is used again.
static void a_large_sum_takes_little_beside_its_result(void **state) {
    (void)state;
    // The shadow memory of the thread sanitizer is four times as large as what it shadows.
    const char *times = MEM_CACHED ? "1" : "5";
    result r = finish(launch_command("./gradwire run -n 2 -- ./case-large_sum 256 %s", times));
    if (r.code != 0) fail_msg("%s%s", r.out, r.err);
    forget(r);
}

GW_TESTS_WITH_LIMIT(large_sum, 600, a_large_sum_takes_little_beside_its_result);
