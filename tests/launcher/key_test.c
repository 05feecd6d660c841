// gradwire key: it prints a key that workers accept, into a file that only its owner can read.
#include "net/connection.h"
#include "testing/testing.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../support/launched.h"

static void each_key_is_new(void **state) {
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

// Writes the output of a gradwire command into a file.
static path print_to(path folder, const char *name, const char *const arguments[]) {
    path file = in_folder(folder, name);
    int fd = open(file.text, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    result r = finish(launch_with(arguments, -1, fd, -1));
    testing_note("%s", r.err);
    assert_int_equal(r.code, 0);
    forget(r);
    return file;
}

#define PRINT(folder, name, ...)                                                                   \
    print_to(folder, name, (const char *const[]){ "gradwire", __VA_ARGS__, NULL })

static void a_ca_makes_certificates_of_workers(void **state) {
    (void)state;
    gw_error error;
    secret *s;
    path folder = make_folder(), ca = PRINT(folder, "ca.pem", "ca"),
         file =
             PRINT(folder, "w.pem", "key", "--ca", ca.text, "--job=night", "ps=0", "trainer%d=1-3");
    assert_int_equal(secret_open_file(ca.text, &s, &error), GW_INVALID);
    assert_non_null(strstr(error.text, "is the file of the CA"));
    assert_int_equal(secret_open_file(file.text, &s, &error), GW_OK);
    protection self = { .secret = s, .job = "night", .self = { .name = "ps", .rank = 0 } };
    assert_int_equal(connection_check_own(&self, &error), GW_OK);
    self.self = (party){ .name = "trainer3", .rank = 3 };
    assert_int_equal(connection_check_own(&self, &error), GW_OK);
    self.self.rank = 2;
    assert_int_equal(connection_check_own(&self, &error), GW_MISMATCH);
    snprintf(self.job, sizeof self.job, "day");
    self.self = (party){ .name = "ps", .rank = 0 };
    assert_int_equal(connection_check_own(&self, &error), GW_MISMATCH);
    secret_close(s);
    assert_int_equal(chmod(ca.text, 0644), 0);
    result open = RUN("key", "--ca", ca.text, "ps=0");
    assert_int_equal(open.code, 125);
    assert_non_null(strstr(open.err, "can be read by other users (mode"));
    forget(open);
    remove_folder(folder);
}

static void say(const char *words, result r) {
    testing_note("%s", r.err);
    assert_int_equal(r.code, 2);
    assert_string_equal(r.err, words);
    forget(r);
}

static void a_certificate_that_cannot_be_made_prints_one_line(void **state) {
    (void)state;
    say("gradwire key: --ca x makes certificates of workers, but no worker is named\n",
        RUN("key", "--ca", "x"));
    say("gradwire key: \"ps=x\" is not of the form NAME=RANKS, such as ps=0 or trainer%d=1-7\n",
        RUN("key", "--ca", "x", "ps=x"));
    say("gradwire key: --days is not \"0\"\n", RUN("key", "--ca", "x", "--days=0", "ps=0"));
    say("gradwire ca: unknown argument \"--days=x\"; see gradwire ca --help\n",
        RUN("ca", "--days=x"));
}

static void a_wrong_command_line_prints_one_line(void **state) {
    (void)state;
    result r = RUN("key", "job.key"), help = RUN("key", "--help");
    assert_int_equal(r.code, 2);
    assert_string_equal(r.err,
                        "gradwire key: unknown argument \"job.key\"; see gradwire key --help\n");
    assert_string_equal(r.out, "");
    say("gradwire key: unknown argument \"--jbo=x\"; see gradwire key --help; did you mean "
        "\"--job\"?\n",
        RUN("key", "--jbo=x"));
    say("gradwire ca: unknown argument \"--dyas=3\"; see gradwire ca --help; did you mean "
        "\"--days\"?\n",
        RUN("ca", "--dyas=3"));
    say("gradwire doctor: unknown argument \"--hlep\"; see gradwire doctor --help; did you mean "
        "\"--help\"?\n",
        RUN("doctor", "--hlep"));
    assert_int_equal(help.code, 0);
    assert_non_null(strstr(help.out, "usage: gradwire key > FILE"));
    forget(r);
    forget(help);
}

GW_TESTS(launcher_key, each_key_is_new, the_file_that_a_shell_has_made_is_closed_to_others,
         a_ca_makes_certificates_of_workers, a_certificate_that_cannot_be_made_prints_one_line,
         a_wrong_command_line_prints_one_line);
