#include "elastic/elastic.h"
#include "testing/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char folder[64];

static const char *path_of(const char *name) {
    static char path[160];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void expect_refused(const char *path, const char *text) {
    gw_scope *s = gw_scope_open(NULL);
    assert_false(checkpoints_check(s, path));
    gw_error e = gw_scope_close(s);
    assert_int_equal(e.status, GW_SYSTEM);
    if (!strstr(e.text, text)) fail_msg("\"%s\" instead of \"%s\"", e.text, text);
}

static void a_folder_is_made_or_refused(void **state) {
    (void)state;
    char command[96];
    snprintf(folder, sizeof folder, "/tmp/gradwire-checkpoints-XXXXXX");
    assert_non_null(mkdtemp(folder));
    gw_scope *s = gw_scope_open(NULL);
    assert_true(checkpoints_check(s, path_of("new")));
    assert_true(checkpoints_check(s, path_of("new")));
    assert_null(checkpoints_find(s, path_of("new")));
    assert_string_equal(gw_scope_close(s).text, "");
    expect_refused(path_of("absent/new"), "cannot be made: No such file or directory");
    expect_refused("/dev/null", "checkpoints cannot be written in /dev/null: Not a directory");
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
}

GW_TESTS(elastic_checkpoints, a_folder_is_made_or_refused);
