// Sums of large tensors between real processes.
#include "../support/launched.h"
#include "base/mem.h"
#include "testing/testing.h"

#include <stdlib.h>
#include <string.h>

// The memory is bounded by the result, in one piece and in memory that is used again.
static void a_large_sum_takes_little_more_memory_than_its_result(void **state) {
    (void)state;
    // The shadow memory of the thread sanitizer is four times as large as the memory itself.
    const char *times = MEM_CACHED ? "1" : "5";
    result r = finish(launch_command("./gradwire run -n 2 -- ./case-large_sum 256 %s", times));
    if (r.code != 0) fail_msg("%s%s", r.out, r.err);
    forget(r);
}

// 2^31 + 5 and 2^32 + 1 bytes take up to 9 GiB: with GW_LIMITS=all, as `make limits` sets. Otherwise the tensors are
// small.
static const char *const operations[] = { "all_reduce", "broadcast", "all_gather", "send", "rpc" };

static void run_huge(const char *operation, int64_t count, const char *error) {
    testing_note("%s of %lld", operation, (long long)count);
    result r = finish(
        launch_command("./gradwire run -n 2 -- ./case-huge %s %lld", operation, (long long)count));
    bool is_right = error ? r.code && strstr(r.err, error) : r.code == 0;
    if (!is_right) fail_msg("%s of %lld: %s%s", operation, (long long)count, r.out, r.err);
    forget(r);
}

static bool is_whole(void) {
    const char *how = getenv("GW_LIMITS");
    return how && strcmp(how, "all") == 0;
}

static void counts_may_need_more_than_32_bits(void **state) {
    (void)state;
    for (int i = 0; i < 5; i++)
        run_huge(operations[i], is_whole() ? (INT64_C(1) << 31) + 6 : 1 << 20, NULL);
    if (!is_whole()) return;
    run_huge("all_reduce", (INT64_C(1) << 32) + 1, NULL);
    const char *const messages[] = { "broadcast", "send", "rpc" };
    for (int i = 0; i < 3; i++)
        run_huge(messages[i], (INT64_C(1) << 32) + 1, "at most 4 GiB can be sent");
}

GW_TESTS_WITH_LIMIT(large_sum, 600, a_large_sum_takes_little_more_memory_than_its_result,
                    counts_may_need_more_than_32_bits);
