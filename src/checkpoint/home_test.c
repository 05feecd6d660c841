#include "checkpoint/home.h"
#include "base/log.h"
#include "testing/testing.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static char home[64], lines[4096];

static void note_line(const char *line) {
    size_t size = strlen(lines);
    snprintf(lines + size, sizeof lines - size, "%s\n", line);
}

static gw_scope *make_home(void) {
    snprintf(home, sizeof home, "/tmp/gradwire-home-XXXXXX");
    assert_non_null(mkdtemp(home));
    lines[0] = '\0';
    log_hook = note_line;
    return gw_scope_open(NULL);
}

static void remove_home(gw_scope *s) {
    char command[96];
    snprintf(command, sizeof command, "rm -rf %s", home);
    log_hook = NULL;
    assert_int_equal(system(command), 0);
    assert_string_equal(gw_scope_close(s).text, "");
}

static const char *path_of(const char *name, const char *file) {
    static char path[256];
    snprintf(path, sizeof path, "%s/%s%s%s", home, name, file ? "/" : "", file ? file : "");
    return path;
}

static bool exists(const char *name, const char *file) {
    return access(path_of(name, file), F_OK) == 0;
}

static void make_file(const char *name, const char *file) {
    int fd = open(path_of(name, file), O_WRONLY | O_CREAT, 0666);
    assert_true(fd >= 0);
    close(fd);
}

// A checkpoint that is whole as far as the home looks.
static void make_whole(const char *name) {
    assert_int_equal(mkdir(path_of(name, NULL), 0777), 0);
    make_file(name, "part-1-of-1.safetensors");
    make_file(name, "index.json");
}

static void expect_newest(home_name before, int64_t step, int64_t again) {
    home_name name = home_find_newest(home, before);
    assert_int_equal(name.step, step);
    if (step >= 0) assert_int_equal(name.again, again);
}

static const home_name any = { .step = -1 };

static void the_newest_has_the_highest_step_and_of_these_the_last_try(void **state) {
    (void)state;
    gw_scope *s = make_home();
    expect_newest(any, -1, 0);
    static const char *const names[] = { "step-9", "step-10", "step-10.1", "step-10.2", "step-0" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) make_whole(names[i]);
    expect_newest(any, 10, 2);
    expect_newest((home_name){ 10, 2 }, 10, 1);
    expect_newest((home_name){ 10, 1 }, 10, 0);
    expect_newest((home_name){ 10, 0 }, 9, 0);
    expect_newest((home_name){ 9, 0 }, 0, 0);
    expect_newest((home_name){ 0, 0 }, -1, 0);
    remove_home(s);
}

static void folders_of_other_names_and_without_an_index_are_none(void **state) {
    (void)state;
    static const char *const others[] = { "step-",     "step-x",     "step--4",
                                          "step-07",   "step-3.",    "step-3.a",
                                          "step-3.01", "step-+3",    "a-step-3",
                                          "step-3 ",   "step-3.1.1", "step-99999999999999999999" };
    gw_scope *s = make_home();
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) make_whole(others[i]);
    assert_int_equal(mkdir(path_of("step-5", NULL), 0777), 0);
    make_file("step-8", NULL);
    expect_newest(any, -1, 0);
    remove_home(s);
}

static void a_draft_is_new_and_marked(void **state) {
    (void)state;
    gw_scope *s = make_home();
    home_draft first, second;
    assert_true(home_make(s, home, 4, 17, &first));
    assert_true(exists("step-4", "writing"));
    assert_true(home_has_mark(s, path_of("step-4", NULL), 17));
    assert_false(home_has_mark(s, path_of("step-4", NULL), 18));
    assert_false(home_has_mark(s, path_of("step-5", NULL), 17));
    assert_true(home_make(s, home, 4, 18, &second));  // two writers at once
    assert_int_equal(second.name.again, 1);
    assert_true(exists("step-4", "writing") && exists("step-4.1", "writing"));
    home_unmark(s, path_of("step-4", NULL), &first);
    home_unmark(s, path_of("step-4.1", NULL), &second);
    assert_false(exists("step-4", "writing") || exists("step-4.1", "writing"));
    remove_home(s);
}

static void without_a_step_a_draft_follows_the_newest(void **state) {
    (void)state;
    gw_scope *s = make_home();
    home_draft d;
    assert_true(home_make(s, home, -1, 1, &d));
    assert_int_equal(d.name.step, 0);
    home_unmark(s, path_of("step-0", NULL), &d);
    make_whole("step-41");
    assert_true(home_make(s, home, -1, 1, &d));
    assert_int_equal(d.name.step, 42);
    home_unmark(s, path_of("step-42", NULL), &d);
    remove_home(s);
}

static void what_lost_writers_have_left_is_removed(void **state) {
    (void)state;
    gw_scope *s = make_home();
    home_draft d;
    static const char *const left[] = { "step-1", "step-2", "step-3.7" };
    for (size_t i = 0; i < 3; i++) assert_int_equal(mkdir(path_of(left[i], NULL), 0777), 0);
    make_file("step-1", "writing");
    make_file("step-1", "part-2-of-3.safetensors");
    make_file("step-1", "own-2-of-3.safetensors");
    make_file("step-1", "index.json.tmp");
    make_whole("step-4");
    make_file("step-4", "writing");  // killed before it was removed
    assert_true(home_make(s, home, 9, 1, &d));
    for (size_t i = 0; i < 3; i++) assert_false(exists(left[i], NULL));
    assert_true(exists("step-4", "index.json"));
    home_unmark(s, path_of("step-9", NULL), &d);
    assert_string_equal(lines, "");
    remove_home(s);
}

static void what_another_writer_writes_is_left_alone(void **state) {
    (void)state;
    gw_scope *s = make_home();
    home_draft mine, other;
    assert_int_equal(mkdir(path_of("step-1", NULL), 0777), 0);
    make_file("step-1", "writing");
    int fd = open(path_of("step-1", "writing"), O_RDWR);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_true(home_make(s, home, 1, 1, &mine));
    assert_int_equal(mine.name.again, 1);
    assert_true(home_make(s, home, 2, 1, &other));
    assert_true(exists("step-1", "writing") && exists("step-1.1", "writing"));
    home_unmark(s, path_of("step-1.1", NULL), &mine);
    home_unmark(s, path_of("step-2", NULL), &other);
    close(fd);
    remove_home(s);
}

static void files_of_others_are_left_alone(void **state) {
    (void)state;
    gw_scope *s = make_home();
    home_draft d;
    static const char *const others[] = { "notes.txt", "part-1-of-2.safetensors.bak",
                                          "part-a-of-2.safetensors", "index.json.old" };
    assert_int_equal(mkdir(path_of("step-1", NULL), 0777), 0);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) make_file("step-1", others[i]);
    make_file("step-1", "part-1-of-2.safetensors");
    assert_true(home_make(s, home, 2, 1, &d));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_true(exists("step-1", others[i]));
    assert_false(exists("step-1", "part-1-of-2.safetensors"));
    assert_non_null(strstr(lines, "step-1, which is no longer a checkpoint, cannot be removed"));
    home_unmark(s, path_of("step-2", NULL), &d);
    remove_home(s);
}

static void the_newest_of_a_number_of_checkpoints_are_kept(void **state) {
    (void)state;
    gw_scope *s = make_home();
    static const char *const names[] = { "step-8", "step-9", "step-9.1", "step-10", "step-97" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) make_whole(names[i]);
    home_remove_older(s, home, 10, 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) assert_true(exists(names[i], NULL));
    home_remove_older(s, home, 10, 2);
    assert_true(exists("step-97", NULL) && exists("step-10", NULL) && exists("step-9.1", NULL));
    assert_false(exists("step-9", NULL) || exists("step-8", NULL));
    home_remove_older(s, home, 10, 1);
    assert_true(exists("step-97", NULL) && exists("step-10", NULL));
    assert_false(exists("step-9.1", NULL));
    remove_home(s);
}

static void a_home_that_cannot_be_made_is_an_error(void **state) {
    (void)state;
    gw_scope *s = make_home();
    home_draft d;
    assert_false(home_make(s, "/dev/null", 1, 1, &d));
    assert_string_equal(gw_scope_error(s)->text, "mkdir: Not a directory");
    gw_scope_clear(s);
    assert_false(home_make(s, path_of("a", "b"), 1, 1, &d));
    assert_int_equal(gw_scope_error(s)->status, GW_NOT_FOUND);
    gw_scope_clear(s);
    remove_home(s);
}

GW_TESTS(checkpoint_home, the_newest_has_the_highest_step_and_of_these_the_last_try,
         folders_of_other_names_and_without_an_index_are_none, a_draft_is_new_and_marked,
         without_a_step_a_draft_follows_the_newest, what_lost_writers_have_left_is_removed,
         what_another_writer_writes_is_left_alone, files_of_others_are_left_alone,
         the_newest_of_a_number_of_checkpoints_are_kept, a_home_that_cannot_be_made_is_an_error);
