#include "base/scope.h"
#include "testing/testing.h"

#include <gradwire/function.h>
#include <setjmp.h>

static void note(void *context) {
    ++*(int *)context;
}

static jmp_buf back;

static void jump(void *context) {
    (void)context;
    longjmp(back, 1);
}

// In place of C++: an exception from |run| ends here.
static void catch_all(gw_scope *s, void (*run)(void *context), void *context) {
    if (setjmp(back)) {
        gw_fail(s, GW_REMOTE, "thrown");
    } else {
        run(context);
    }
}

static void a_body_runs_inside_the_catcher_of_its_program(void **state) {
    (void)state;
    int count = 0;
    gw_scope *s = gw_scope_open(NULL);
    scope_run(s, note, &count);
    gw_set_catcher(catch_all);
    scope_run(s, note, &count);
    assert_int_equal(count, 2);
    assert_true(gw_ok(s));
    scope_run(s, jump, NULL);
    assert_string_equal(gw_scope_close(s).text, "thrown");
}

GW_TESTS(base_catcher, a_body_runs_inside_the_catcher_of_its_program);
