#include "base/log.h"

#include "testing/testing.h"

#include <stdio.h>
#include <string.h>

static char last[2048];

static void keep(const char *line) {
    snprintf(last, sizeof last, "%s", line);
}

static void it_formats_a_line(void **state) {
    (void)state;
    log_hook = keep;
    log_line("%s (rank %d) is lost", "ps", 3);
    assert_string_equal(last, "ps (rank 3) is lost");
}

static void it_hides_control_characters(void **state) {
    (void)state;
    log_hook = keep;
    log_line("%s", "a\x1b[31mb\nc\x7f");
    assert_string_equal(last, "a?[31mb?c?");
}

static void it_cuts_what_is_too_long(void **state) {
    (void)state;
    log_hook = keep;
    log_line("%2000d", 1);
    assert_int_equal(strlen(last), 1023);
}

GW_TESTS(base_log, it_formats_a_line, it_hides_control_characters, it_cuts_what_is_too_long);
