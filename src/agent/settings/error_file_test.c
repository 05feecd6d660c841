#include "agent/settings/error_file.h"

#include "testing/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Returns the path of a file that does not exist.
static const char *name_file(void) {
    static char path[] = "/tmp/gradwire-error-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    unlink(path);
    assert_int_equal(setenv("TORCHELASTIC_ERROR_FILE", path, 1), 0);
    return path;
}

static void the_last_error_of_a_process_stays(void **state) {
    (void)state;
    char text[64] = "";
    const char *path = name_file();
    error_file_report("w1", &(gw_error){ .status = GW_DISCONNECTED, .text = "first" });
    error_file_report("w1", &(gw_error){ .status = GW_TIMEOUT, .text = "second" });
    assert_true(error_file_read(path, text, sizeof text));
    assert_string_equal(text, "second");
    unlink(path);
}

// As of an attempt to join that another one follows.
static void an_error_that_has_ended_nothing_is_withdrawn(void **state) {
    (void)state;
    const char *path = name_file();
    error_file_report("w1", &(gw_error){ .status = GW_DISCONNECTED, .text = "lost" });
    assert_int_equal(access(path, F_OK), 0);
    error_file_withdraw();
    assert_int_equal(access(path, F_OK), -1);
}

static void the_file_of_another_process_is_not_withdrawn(void **state) {
    (void)state;
    const char *path = name_file();
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fclose(f);
    error_file_withdraw();
    assert_int_equal(access(path, F_OK), 0);
    unlink(path);
}

GW_TESTS(agent_error_file, the_last_error_of_a_process_stays,
         an_error_that_has_ended_nothing_is_withdrawn,
         the_file_of_another_process_is_not_withdrawn);
