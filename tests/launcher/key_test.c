// gradwire key: what it prints is a key that workers take, in a file that is its owner's alone.
#include "net/secret.h"
#include "testing/testing.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../support/launched.h"

static void each_is_a_new_one(void **state) {
    (void)state;
    gw_error error;
    secret *a, *b;
    result first = RUN("key"), second = RUN("key");
    assert_int_equal(first.code, 0);
    assert_string_equal(first.err, "");
    assert_int_equal(secret_open_text(first.out, "it", &a, &error), GW_OK);
    assert_int_equal(secret_open_text(second.out, "it", &b, &error), GW_OK);
    assert_memory_not_equal(a->keys[0].bytes, b->keys[0].bytes, SECRET_KEY_BYTES);
    secret_close(a);
    secret_close(b);
    forget(first);
    forget(second);
}

static void the_file_that_a_shell_has_made_is_closed_to_others(void **state) {
    (void)state;
    gw_error error;
    secret *s;
    path folder = make_folder(), file = in_folder(folder, "job.key");
    int fd = open(file.text, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    result r = finish(launch_with((const char *const[]){ "gradwire", "key", NULL }, -1, fd, -1));
    assert_int_equal(r.code, 0);
    struct stat st;
    assert_int_equal(stat(file.text, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(secret_open_file(file.text, &s, &error), GW_OK);
    secret_close(s);
    forget(r);
    remove_folder(folder);
}

static void a_wrong_command_line_is_one_sentence(void **state) {
    (void)state;
    result r = RUN("key", "job.key"), help = RUN("key", "--help");
    assert_int_equal(r.code, 2);
    assert_string_equal(r.err, "gradwire key: it takes no \"job.key\"; see gradwire key --help\n");
    assert_string_equal(r.out, "");
    assert_int_equal(help.code, 0);
    assert_non_null(strstr(help.out, "usage: gradwire key > FILE"));
    forget(r);
    forget(help);
}

GW_TESTS(launcher_key, each_is_a_new_one, the_file_that_a_shell_has_made_is_closed_to_others,
         a_wrong_command_line_is_one_sentence);
