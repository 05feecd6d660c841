// The program that counts steps (tests/growth), which is linked with another form of the library.
#include "testing/testing.h"

#include <stdio.h>
#include <stdlib.h>

static void work_does_not_grow_as_the_square(void **state) {
    (void)state;
    char command[1024];
    snprintf(command, sizeof command, "%s/bin/gradwire-growth 2>&1", GW_BUILD_DIR);
    assert_int_equal(system(command), 0);
}

GW_TESTS(growth, work_does_not_grow_as_the_square);
