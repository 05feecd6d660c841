// A member whose process ends right after a collective that it has completed, among real processes: the others may
// still read large values from its memory.
#include "../support/launched.h"
#include "testing/testing.h"

#include <string.h>

static int count_ok(const char *text) {
    int count = 0;
    for (; (text = strstr(text, "ok")); text += 2) count++;
    return count;
}

static void leave_behind(int who, const char *what, int rows) {
    testing_note("w%d leaves behind %s of %d rows", who, what, rows);
    result r = finish(launch_command("./gradwire run --on-failure=keep -n 3 -- "
                                     "./case-leave_behind %d %s %d",
                                     who, what, rows));
    if (r.code != 0 || count_ok(r.out) != 3) fail_msg("%s%s", r.out, r.err);
    forget(r);
}

static void a_collective_completed_before_the_exit_succeeds_on_the_others(void **state) {
    static const char *const operations[] = { "all_reduce", "reduce",        "broadcast",
                                              "all_gather", "gather",        "scatter",
                                              "all_to_all", "reduce_scatter" };
    (void)state;
    for (int i = 0; i < 8; i++)
        for (int who = 0; who < 3; who++)
            leave_behind(who, operations[i], (i + who) % 2 ? 7 : 400000);
}

GW_TESTS_WITH_LIMIT(leave_behind, 600,
                    a_collective_completed_before_the_exit_succeeds_on_the_others);
