// A program that joins a job that it cannot join gets an error at once, with the remedy.
#include "../support/launched.h"
#include "testing/testing.h"

#include <string.h>

static void a_program_without_a_launcher_gets_the_remedy_at_once(void **state) {
    (void)state;
    result r = finish(launch_command("exec env -i ./case-not_started"));
    testing_note("%d: %s%s", r.code, r.out, r.err);
    const char *error = strstr(r.err, "gw_rpc_init: "),
               *later = strstr(r.err, "the program continues");
    assert_int_equal(r.code, 1);
    assert_non_null(error);
    assert_non_null(strstr(error, "start it with: gradwire run -n 2 -- ./program"));
    assert_true(later && error < later);
    assert_null(strstr(later, "start it with"));  // once is enough
    forget(r);
}

static void an_unknown_name_is_followed_by_the_nearest(void **state) {
    (void)state;
    result r = RUN("run", "-n", "2", "--gracee=3", "true");
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "did you mean \"grace\"?"));
    forget(r);
    r = RUN("rum");
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(
        r.err, "there is no subcommand \"rum\"; see gradwire --help; did you mean \"run\"?"));
    forget(r);
}

GW_TESTS(not_started, a_program_without_a_launcher_gets_the_remedy_at_once,
         an_unknown_name_is_followed_by_the_nearest);
