#include <gradwire/version.h>

#include "testing/testing.h"

#include <stdio.h>

static void headers_and_library_have_the_same_version(void **state) {
    (void)state;
    assert_string_equal(gw_version(), GW_VERSION);
}

static void the_string_and_the_number_are_made_of_the_parts(void **state) {
    (void)state;
    int major, minor, patch, end = 0;
    assert_int_equal(sscanf(GW_VERSION, "%d.%d.%d%n", &major, &minor, &patch, &end), 3);
    assert_int_equal(end, sizeof GW_VERSION - 1);
    assert_int_equal(major, GW_VERSION_MAJOR);
    assert_int_equal(minor, GW_VERSION_MINOR);
    assert_int_equal(patch, GW_VERSION_PATCH);
    assert_int_equal(GW_VERSION_NUMBER, major * 10000 + minor * 100 + patch);
}

GW_TESTS(base_version, headers_and_library_have_the_same_version,
         the_string_and_the_number_are_made_of_the_parts);
