// Loops that re-form a group, or open one, as often as in a long job, between real processes.
#include "../support/launched.h"
#include "testing/testing.h"

#include <stdlib.h>
#include <string.h>

// More often than the limit of groups that are open at once.
static void loop(const char *what) {
    result r = finish(launch_command("./gradwire run -n 2 -- ./case-reform_often 4300 %s", what));
    if (r.code != 0) fail_msg("%s%s", r.out, r.err);
    assert_string_equal(strstr(r.out, "ok") ? "" : r.out, "");
    forget(r);
}

static void a_group_is_re_formed_again_and_again(void **state) {
    (void)state;
    loop("group");
}

static void replicas_continue_in_it_again_and_again(void **state) {
    (void)state;
    loop("ddp");
}

static void a_sharded_optimizer_continues_in_it_again_and_again(void **state) {
    (void)state;
    loop("shard");
}

static void a_name_is_free_again_when_its_group_is_closed(void **state) {
    (void)state;
    loop("open");
}

GW_TESTS_WITH_LIMIT(reform_often, 600, a_group_is_re_formed_again_and_again,
                    replicas_continue_in_it_again_and_again,
                    a_sharded_optimizer_continues_in_it_again_and_again,
                    a_name_is_free_again_when_its_group_is_closed);
