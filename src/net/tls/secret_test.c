#include "net/tls/secret.h"

#include "testing/testing.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// A file with |text|, which the caller unlinks.
static char *write_file(const char *text, mode_t mode) {
    static char path[64];
    snprintf(path, sizeof path, "/tmp/gw-secret-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
    return path;
}

static void make_line(char line[SECRET_LINE_MAX]) {
    gw_error error;
    assert_int_equal(secret_make_line(line, &error), GW_OK);
}

static secret *open_text(const char *text) {
    secret *s = NULL;
    gw_error error;
    gw_status status = secret_open_text(text, "the file k", &s, &error);
    if (status) print_message("%s\n", error.text);
    assert_int_equal(status, GW_OK);
    return s;
}

// The error contains |words|, and nothing of the text.
static void refuse_text(const char *text, const char *words) {
    secret *s = NULL;
    gw_error error;
    assert_int_equal(secret_open_text(text, "the file k", &s, &error), GW_INVALID);
    testing_note("\"%s\" should contain \"%s\"", error.text, words);
    assert_non_null(strstr(error.text, words));
    assert_null(s);
}

static void refuse_file(const char *path, gw_status wanted, const char *words) {
    secret *s = NULL;
    gw_error error;
    assert_int_equal(secret_open_file(path, &s, &error), wanted);
    testing_note("\"%s\" should contain \"%s\"", error.text, words);
    assert_non_null(strstr(error.text, words));
    assert_null(s);
}

static void it_reads_the_keys_that_it_makes(void **state) {
    (void)state;
    char old[SECRET_LINE_MAX], new[SECRET_LINE_MAX], both[3 * SECRET_LINE_MAX];
    make_line(old);
    make_line(new);
    secret *a = open_text(old), *b = open_text(new);
    snprintf(both, sizeof both, "# the new one first\n%s\n%s", new, old);
    secret *s = open_text(both);
    assert_int_equal(s->key_count, 2);
    assert_memory_equal(&s->keys[0], &b->keys[0], sizeof(secret_key));
    assert_memory_equal(&s->keys[1], &a->keys[0], sizeof(secret_key));
    assert_memory_not_equal(a->keys[0].bytes, b->keys[0].bytes, SECRET_KEY_BYTES);
    assert_ptr_equal(secret_find(s, a->keys[0].id), &s->keys[1]);
    assert_null(secret_find(a, b->keys[0].id));
    secret_close(a);
    secret_close(b);
    secret_close(s);
}

static void a_damaged_line_is_noticed(void **state) {
    (void)state;
    char line[SECRET_LINE_MAX], damaged[SECRET_LINE_MAX];
    make_line(line);
    for (size_t i = 0; i + 1 < strlen(line); i++) {
        memcpy(damaged, line, sizeof damaged);
        damaged[i] = damaged[i] == '5' ? '6' : '5';
        refuse_text(damaged, "line 1 of the file k is not a key");
    }
    memcpy(damaged, line, sizeof damaged);
    damaged[strlen(line) - 3] = '\0';  // short
    refuse_text(damaged, "line 1 of the file k is not a key");
}

static void a_file_without_a_key_or_with_too_many_is_refused(void **state) {
    (void)state;
    char lines[3][SECRET_LINE_MAX], text[3 * SECRET_LINE_MAX];
    for (int i = 0; i < 3; i++) make_line(lines[i]);
    refuse_text("", "the file k contains no key: make one with `gradwire key`");
    refuse_text("# nothing\n\n", "contains no key");
    refuse_text("password\n", "line 1 of the file k is not a key");
    snprintf(text, sizeof text, "%s%s", lines[0], lines[0]);
    refuse_text(text, "the same key twice");
    snprintf(text, sizeof text, "%s%s%s", lines[0], lines[1], lines[2]);
    refuse_text(text, "more than 2 keys");
}

static void errors_contain_nothing_of_the_key(void **state) {
    (void)state;
    char line[SECRET_LINE_MAX];
    gw_error error;
    secret *s = NULL;
    make_line(line);
    line[40] = 'x';
    assert_int_equal(secret_open_text(line, "the file k", &s, &error), GW_INVALID);
    for (size_t i = 15; i + 8 < strlen(line); i++) {
        char part[9] = "";
        memcpy(part, line + i, 8);
        assert_null(strstr(error.text, part));
    }
    // Nor if a key is given instead of the path of its file.
    refuse_file(line, GW_INVALID, "the option .key is a key, but must be the path of the key file");
    assert_int_equal(secret_open_file(line, &s, &error), GW_INVALID);
    assert_null(strstr(error.text, "gradwire-key"));
}

static void a_file_that_others_may_read_is_refused(void **state) {
    (void)state;
    char line[SECRET_LINE_MAX];
    secret *s;
    gw_error error;
    make_line(line);
    const mode_t open[] = { 0640, 0604, 0660, 0602, 0610 };
    for (size_t i = 0; i < sizeof open / sizeof *open; i++) {
        char *path = write_file(line, open[i]);
        refuse_file(path, GW_INVALID, "can be read by other users (mode");
        refuse_file(path, GW_INVALID, "chmod 600");
        unlink(path);
    }
    char *path = write_file(line, 0600);
    assert_int_equal(secret_open_file(path, &s, &error), GW_OK);
    secret_close(s);
    assert_int_equal(chmod(path, 0400), 0);
    assert_int_equal(secret_open_file(path, &s, &error), GW_OK);
    secret_close(s);
    unlink(path);
    refuse_file(path, GW_NOT_FOUND, path);
    refuse_file("/tmp", GW_INVALID, "is not a file");
    refuse_file("/dev/null", GW_INVALID, "is not a file");
}

static void a_file_of_another_user_is_refused(void **state) {
    (void)state;
    if (geteuid() != 0) testing_skip("only root can be another user");  // chown needs root
    char line[SECRET_LINE_MAX];
    make_line(line);
    char *path = write_file(line, 0600);
    assert_int_equal(chown(path, 12345, (gid_t)-1), 0);
    refuse_file(path, GW_INVALID, "belongs to another user (12345, not 0)");
    unlink(path);
}

static void a_large_file_is_refused(void **state) {
    (void)state;
    char text[SECRET_TEXT_MAX + 2];
    memset(text, '\n', sizeof text);
    text[sizeof text - 1] = '\0';
    char *path = write_file(text, 0600);
    refuse_file(path, GW_INVALID, "is too large");
    unlink(path);
}

static void it_takes_a_key_from_a_descriptor_and_closes_it(void **state) {
    (void)state;
    char line[SECRET_LINE_MAX];
    int ends[2];
    gw_error error;
    secret *s, *again, *wanted;
    make_line(line);
    wanted = open_text(line);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], line, strlen(line)), strlen(line));
    close(ends[1]);
    assert_int_equal(secret_open_descriptor(ends[0], &s, &error), GW_OK);
    assert_int_equal(fcntl(ends[0], F_GETFD), -1);
    // A program that joins a second time gets the same key.
    assert_int_equal(secret_open_descriptor(ends[0], &again, &error), GW_OK);
    assert_memory_equal(s, wanted, sizeof *s);
    assert_memory_equal(again, wanted, sizeof *s);
    secret_close(s);
    secret_close(again);
    secret_close(wanted);
}

static void a_closed_descriptor_is_an_error(void **state) {
    (void)state;
    gw_error error;
    secret *s = NULL;
    assert_int_equal(secret_open_descriptor(987, &s, &error), GW_SYSTEM);
    assert_non_null(strstr(error.text, "descriptor 987 of the key"));
    assert_null(s);
}

static void keys_for_different_purposes_differ(void **state) {
    (void)state;
    char line[SECRET_LINE_MAX];
    uint8_t a[32], b[32], c[32], d[32];
    make_line(line);
    secret *s = open_text(line);
    const secret_info none = { "", 0 }, salt = { "salt", 4 };
    assert_true(secret_derive(&s->keys[0], none, (secret_info){ "a", 1 }, a, sizeof a));
    assert_true(secret_derive(&s->keys[0], none, (secret_info){ "b", 1 }, b, sizeof b));
    assert_true(secret_derive(&s->keys[0], salt, (secret_info){ "a", 1 }, c, sizeof c));
    assert_true(secret_derive(&s->keys[0], none, (secret_info){ "a", 1 }, d, sizeof d));
    assert_memory_not_equal(a, b, sizeof a);
    assert_memory_not_equal(a, c, sizeof a);
    assert_memory_equal(a, d, sizeof a);
    secret_close(s);
}

GW_TESTS(net_secret, it_reads_the_keys_that_it_makes, a_damaged_line_is_noticed,
         a_file_without_a_key_or_with_too_many_is_refused, errors_contain_nothing_of_the_key,
         a_file_that_others_may_read_is_refused, a_file_of_another_user_is_refused,
         a_large_file_is_refused, it_takes_a_key_from_a_descriptor_and_closes_it,
         a_closed_descriptor_is_an_error, keys_for_different_purposes_differ);
