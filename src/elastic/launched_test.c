#include "elastic/launched.h"
#include "testing/testing.h"

#include <string.h>

static const char *range, *creates;

static char *variable(const char *name) {
    if (!strcmp(name, "GW_ELASTIC")) return (char *)(uintptr_t)range;
    if (!strcmp(name, "GW_ELASTIC_CREATE")) return (char *)(uintptr_t)creates;
    return NULL;
}

static launched read_with(const char *given_range, const char *given_creates,
                          const char *expected) {
    launched at;
    gw_scope *s = gw_scope_open(NULL);
    range = given_range;
    creates = given_creates;
    launched_read(s, variable, &at);
    gw_error e = gw_scope_close(s);
    if (!strstr(e.text, expected))
        fail_msg("%s: \"%s\" instead of \"%s\"", given_range, e.text, expected);
    assert_int_equal(e.status, *expected ? GW_INVALID : GW_OK);
    return at;
}

static void the_launcher_says_how_many_members_a_job_has(void **state) {
    (void)state;
    assert_false(read_with(NULL, NULL, "").is_elastic);
    assert_false(read_with("", NULL, "").is_elastic);
    launched at = read_with("1:4", "1", "");
    assert_true(at.is_elastic && at.creates);
    assert_int_equal(at.min, 1);
    assert_int_equal(at.max, 4);
    assert_false(read_with("2:2", "0", "").creates);
    assert_false(read_with("2:2", NULL, "").creates);
}

static void a_malformed_range_is_refused(void **state) {
    (void)state;
    static const char *const wrong[] = { "4",     "2:",   ":3",   "a:b",        "0:3", "3:2",
                                         "1:4:5", "-1:3", " 1:3", "1:99999999", "1-4", "+1:3" };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        read_with(wrong[i], "1", "not MIN:MAX with 1 <= MIN <= MAX <= ");
}

static void each_attempt_has_a_name_of_its_own(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    assert_null(launched_name(s, &(launched){ .slot = -1 }));
    assert_string_equal(launched_name(s, &(launched){ .slot = 3 }), "worker3");
    assert_string_equal(launched_name(s, &(launched){ .slot = 3, .attempt = 2 }), "worker3.2");
    assert_string_equal(gw_scope_close(s).text, "");
}

static void expect_numbers(launched at, int world_size, int min, int size, int then_min,
                           int then_size) {
    gw_scope *s = gw_scope_open(NULL);
    gw_elastic_options o = { .min = min, .size = size };
    bool is_settled = launched_settle(s, &at, world_size, &o);
    gw_error e = gw_scope_close(s);
    assert_int_equal(is_settled, then_min > 0);
    if (then_min) {
        assert_int_equal(o.min, then_min);
        assert_int_equal(o.size, then_size);
    } else {
        assert_int_equal(e.status, GW_INVALID);
        assert_non_null(strstr(e.text, ".min is 5, but the job begins with "));
    }
}

static void numbers_of_members_have_defaults(void **state) {
    (void)state;
    launched at = { .is_elastic = true, .min = 2, .max = 4 }, none = { .slot = -1 };
    expect_numbers(at, 0, 0, 0, 2, 4);
    expect_numbers(at, 0, 3, 0, 3, 4);
    expect_numbers(at, 0, 3, 3, 3, 3);
    expect_numbers(at, 0, 5, 0, 0, 0);
    expect_numbers(none, 0, 0, 0, 1, 1);
    expect_numbers(none, 0, 2, 0, 2, 2);
    expect_numbers(none, 0, 5, 3, 0, 0);
    expect_numbers(none, 3, 0, 0, 1, 3);  // of a fixed world size, whatever .size is
    expect_numbers(none, 3, 2, 9, 2, 3);
    expect_numbers(none, 3, 5, 9, 0, 0);
}

GW_TESTS(elastic_launched, the_launcher_says_how_many_members_a_job_has,
         a_malformed_range_is_refused, each_attempt_has_a_name_of_its_own,
         numbers_of_members_have_defaults);
