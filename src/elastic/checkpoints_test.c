#include "elastic/elastic.h"
#include "base/log.h"
#include "testing/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64], lines[4096];

static void note_line(const char *line) {
    size_t size = strlen(lines);
    snprintf(lines + size, sizeof lines - size, "%s\n", line);
}

static void make_folder(void) {
    snprintf(folder, sizeof folder, "/tmp/gradwire-checkpoints-XXXXXX");
    assert_non_null(mkdtemp(folder));
    lines[0] = '\0';
    log_hook = note_line;
}

static const char *path_of(const char *name) {
    static char path[160];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void remove_folder(void) {
    char command[96];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    log_hook = NULL;
    assert_int_equal(system(command), 0);
}

static bool exists(int step) {
    char name[64];
    snprintf(name, sizeof name, "step-%d.safetensors", step);
    return access(path_of(name), F_OK) == 0;
}

static void write_step(gw_scope *s, int step, int keep) {
    gw_map *values = gw_map_open(s);
    gw_map_put(s, values, "step", step);
    checkpoints_write(s, folder, step, keep, values);
}

static void expect_newest(gw_scope *s, int step) {
    gw_map *values = checkpoints_find(s, folder);
    assert_true(gw_ok(s));
    if (step < 0) {
        assert_null(values);
        return;
    }
    assert_non_null(values);
    assert_int_equal((int)gw_int_of(s, gw_map_get(s, values, "step")), step);
}

static void write_bytes(const char *name, const char *bytes, size_t size) {
    FILE *f = fopen(path_of(name), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, size, f), size);
    fclose(f);
}

// They count for nothing: otherwise the checkpoint that was just written would be deleted for them.
static void files_of_later_steps_displace_no_checkpoint(void **state) {
    (void)state;
    make_folder();
    gw_scope *s = gw_scope_open(NULL);
    for (int step = 97; step < 100; step++) {
        char name[64];
        snprintf(name, sizeof name, "step-%d.safetensors", step);
        write_bytes(name, "bad", 3);
    }
    for (int step = 10; step <= 40; step += 10) write_step(s, step, 2);
    assert_false(exists(20));
    assert_true(exists(30) && exists(40) && exists(97));
    expect_newest(s, 40);
    gw_scope_close_up(s);
    remove_folder();
}

static void the_newest_of_a_number_of_checkpoints_are_kept(void **state) {
    (void)state;
    make_folder();
    gw_scope *s = gw_scope_open(NULL);
    expect_newest(s, -1);
    for (int step = 9; step <= 12; step++) write_step(s, step, 3);
    assert_false(exists(9));
    for (int step = 10; step <= 12; step++) assert_true(exists(step));
    expect_newest(s, 12);  // not 9, the last by the order of texts
    assert_string_equal(lines, "");
    assert_string_equal(gw_scope_close(s).text, "");
    remove_folder();
}

static void other_files_are_left_alone(void **state) {
    (void)state;
    static const char *const others[] = { "step-7.safetensors.12-0.tmp",
                                          "step-.safetensors",
                                          "step-x.safetensors",
                                          "step--4.safetensors",
                                          "step-99.safetensor",
                                          "astep-9.safetensors",
                                          "step-99999999999999999999.safetensors" };
    make_folder();
    gw_scope *s = gw_scope_open(NULL);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) write_bytes(others[i], "x", 1);
    for (int step = 1; step <= 3; step++) write_step(s, step, 1);
    expect_newest(s, 3);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_int_equal(access(path_of(others[i]), F_OK), 0);
    assert_false(exists(2));
    assert_string_equal(gw_scope_close(s).text, "");
    remove_folder();
}

// K11: a file that ends early, one with a changed bit, and an empty one.
static void broken_checkpoints_are_named_and_skipped(void **state) {
    (void)state;
    char bytes[4096];
    make_folder();
    gw_scope *s = gw_scope_open(NULL);
    for (int step = 1; step <= 4; step++) write_step(s, step, 4);
    FILE *f = fopen(path_of("step-3.safetensors"), "rb");
    size_t size = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    assert_true(size > 16 && size < sizeof bytes);
    write_bytes("step-4.safetensors", bytes, size - 1);
    bytes[size - 1] ^= 1;
    write_bytes("step-3.safetensors", bytes, size);
    write_bytes("step-2.safetensors", "", 0);
    expect_newest(s, 1);
    testing_note("%s", lines);
    for (int step = 2; step <= 4; step++) {
        char text[64];
        snprintf(text, sizeof text, "the checkpoint of step %d in /tmp/", step);
        assert_non_null(strstr(lines, text));
    }
    assert_string_equal(gw_scope_close(s).text, "");
    remove_folder();
}

static void a_checkpoint_that_cannot_be_written_leaves_the_older_ones(void **state) {
    (void)state;
    make_folder();
    gw_scope *s = gw_scope_open(NULL);
    write_step(s, 1, 1);
    assert_int_equal(mkdir(path_of("step-2.safetensors"), 0777), 0);  // in the way of the name
    write_step(s, 2, 1);
    assert_non_null(strstr(lines, "the checkpoint of step 2 in "));
    assert_non_null(strstr(lines, " was not written: "));
    assert_true(exists(1));
    expect_newest(s, 1);
    assert_string_equal(gw_scope_close(s).text, "");
    remove_folder();
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
    make_folder();
    gw_scope *s = gw_scope_open(NULL);
    assert_true(checkpoints_check(s, path_of("new")));
    assert_true(checkpoints_check(s, path_of("new")));
    assert_string_equal(gw_scope_close(s).text, "");
    expect_refused(path_of("absent/new"), "cannot be made: No such file or directory");
    expect_refused("/dev/null", "checkpoints cannot be written in /dev/null: Not a directory");
    remove_folder();
}

GW_TESTS(elastic_checkpoints, the_newest_of_a_number_of_checkpoints_are_kept,
         files_of_later_steps_displace_no_checkpoint, other_files_are_left_alone,
         broken_checkpoints_are_named_and_skipped,
         a_checkpoint_that_cannot_be_written_leaves_the_older_ones, a_folder_is_made_or_refused);
