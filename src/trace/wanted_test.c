#include "trace/wanted.h"

#include "testing/testing.h"
#include "trace/kinds.h"

#include <string.h>

static void it_has_levels_and_perhaps_a_file(void **state) {
    (void)state;
    trace_wanted w;
    char why[256];
    assert_true(trace_wanted_parse("call,pass", &w, why));
    assert_int_equal(w.levels, TRACE_CALL | TRACE_PASS);
    assert_string_equal(w.level_names, "call,pass");
    assert_null(w.file);
    assert_true(trace_wanted_parse("all:/tmp/a:b.pftrace", &w, why));
    assert_int_equal(w.levels, TRACE_ALL);
    assert_string_equal(w.level_names, "all");
    assert_string_equal(w.file, "/tmp/a:b.pftrace");
}

static void what_is_not_set_is_no_error(void **state) {
    (void)state;
    trace_wanted w;
    char why[256] = "x";
    assert_false(trace_wanted_parse(NULL, &w, why));
    assert_string_equal(why, "");
    assert_false(trace_wanted_parse("", &w, why));
    assert_string_equal(why, "");
}

static void what_is_wrong_is_one_sentence(void **state) {
    (void)state;
    static const char *const wrong[] = {
        "calm", "calm:t", "call,", ":t", "call:", "call,,pass", "1"
    };
    trace_wanted w;
    char why[256];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        testing_note("%s", wrong[i]);
        assert_false(trace_wanted_parse(wrong[i], &w, why));
        assert_non_null(strstr(why, i == 4 ? "the path of a file is missing" : "is no level"));
    }
    char long_text[4096];
    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = '\0';
    assert_false(trace_wanted_parse(long_text, &w, why));
    assert_true(strlen(why) < sizeof why);
}

GW_TESTS(trace_wanted, it_has_levels_and_perhaps_a_file, what_is_not_set_is_no_error,
         what_is_wrong_is_one_sentence);
