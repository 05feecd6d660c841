// gradwire run --log-dir: the files of each attempt, and why it has failed.
#include "testing/testing.h"

#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../support/launched.h"

#define ELASTIC GW_BUILD_DIR "/bin/case-restarts_elastic"
#define FIXED GW_BUILD_DIR "/bin/case-restarts_fixed"

static bool exists(path folder, const char *name) {
    return access(in_folder(folder, name).text, F_OK) == 0;
}

static void expect_file(path folder, const char *name, const char *text) {
    char found[4096];
    testing_note("%s", name);
    FILE *f = fopen(in_folder(folder, name).text, "re");
    assert_non_null(f);
    size_t size = fread(found, 1, sizeof found - 1, f);
    found[size] = '\0';
    fclose(f);
    assert_string_equal(found, text);
}

static void expect_link(path folder, const char *name, const char *end) {
    char to[512];
    testing_note("%s", name);
    ssize_t size = readlink(in_folder(folder, name).text, to, sizeof to - 1);
    assert_in_range(size, (int)strlen(end), sizeof to - 1);
    to[size] = '\0';
    assert_string_equal(to + size - strlen(end), end);
}

static const char *text_at(const json_t *object, const char *name) {
    const char *text = json_string_value(json_object_get(object, name));
    testing_note("%s: %s", name, text ? text : "nothing");
    assert_non_null(text);
    return text;
}

static int number_at(const json_t *object, const char *name) {
    const json_t *number = json_object_get(object, name);
    assert_true(json_is_integer(number));
    return (int)json_integer_value(number);
}

// error.json, with the fields that torchelastic reads.
static json_t *load_error(path logs, const char *name) {
    json_t *report = json_load_file(in_folder(logs, name).text, 0, NULL);
    assert_non_null(report);
    const json_t *message = json_object_get(report, "message");
    const json_t *extra = json_object_get(message, "extraInfo");
    assert_true(text_at(message, "message")[0]);
    assert_true(strtol(text_at(extra, "timestamp"), NULL, 10) > 0);
    text_at(extra, "py_callstack");
    return report;
}

// The events of the job, in order, as "started 1 0, " (slot and attempt).
static void list_events(path logs, char *out, size_t size) {
    char line[4096];
    FILE *f = fopen(in_folder(logs, "latest/events.jsonl").text, "re");
    assert_non_null(f);
    for (size_t at = 0; fgets(line, sizeof line, f);) {
        json_t *e = json_loads(line, 0, NULL);
        assert_non_null(e);
        assert_true(json_is_real(json_object_get(e, "time")));
        at += (size_t)snprintf(out + at, size - at, "%s %d %d, ", text_at(e, "event"),
                               (int)json_integer_value(json_object_get(e, "slot")),
                               (int)json_integer_value(json_object_get(e, "attempt")));
        assert_true(at < size);
        json_decref(e);
    }
    fclose(f);
}

// The guard of a killed launcher ends all processes with the mark in their environment. A folder gets into that of others.
static void no_name_has_the_mark_of_the_job(void **state) {
    (void)state;
    path folder = make_folder(), logs = in_folder(folder, "logs");
    result r =
        RUN("run", "-n", "1", "--log-dir", logs.text, "sh", "-c",
            "case $TORCHELASTIC_ERROR_FILE.$TORCHELASTIC_RUN_ID in *$GRADWIRE_JOB*) exit 9;; "
            "*/slot0/attempt0/error.json.?*) exit 0;; esac; exit 8");
    assert_int_equal(r.code, 0);
    forget(r);
    remove_folder(folder);
}

static void each_attempt_has_files_of_its_own(void **state) {
    (void)state;
    path folder = make_folder(), logs = in_folder(folder, "logs");
    result r = RUN("run", "-n", "3", "--max-restarts=1", "--log-dir", logs.text, ELASTIC, "1",
                   "kill", "1");
    testing_note("%s%s", r.out, r.err);
    assert_int_equal(r.code, 0);
    expect_link(logs, "rank0.log", "/slot0/attempt0/output.log");
    expect_link(logs, "rank1.log", "/slot1/attempt1/output.log");
    await_in_file(in_folder(logs, "latest/slot1/attempt0/stdout.log").text,
                  "rank 1 attempt 0 pid ");
    await_in_file(in_folder(logs, "rank1.log").text, "rank 1 attempt 1 pid ");
    assert_true(exists(logs, "latest/slot1/attempt0/error.json"));
    assert_false(exists(logs, "latest/slot1/attempt1/error.json"));
    assert_false(exists(logs, "latest/slot0/attempt0/error.json"));
    static char events[16 * 1024];
    list_events(logs, events, sizeof events);
    static const char *const in_order[] = { "started 1 0, ", "joined 1 0, ",  "exited 1 0, ",
                                            "restart 1 1, ", "started 1 1, ", "joined 1 1, ",
                                            "left 1 1, ",    "exited 1 1, ",  "ended 0 0, " };
    const char *at = events;
    for (size_t i = 0; i < sizeof in_order / sizeof in_order[0]; i++) {
        testing_note("%s", in_order[i]);
        at = strstr(at, in_order[i]);
        assert_non_null(at);
    }
    forget(r);
    remove_folder(folder);
}

// The disk may be full when a rank starts again: that costs its log, not the rank.
static void an_attempt_without_a_log_runs(void **state) {
    (void)state;
    path folder = make_folder(), logs = in_folder(folder, "logs");
    char script[600];
    snprintf(script, sizeof script, "[ $RANK = 1 ] && rm -rf %s; exec " ELASTIC " 1 kill 1",
             logs.text);
    result r =
        RUN("run", "-n", "3", "--max-restarts=1", "--log-dir", logs.text, "sh", "-c", script);
    testing_note("%s%s", r.out, r.err);
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.err, "gradwire: attempt 1 of rank 1 has no log: "));
    assert_non_null(strstr(r.out, "[1] rank 1 is done as one of 3\n"));
    forget(r);
    remove_folder(folder);
}

static void a_death_by_a_signal_is_described(void **state) {
    (void)state;
    path folder = make_folder(), logs = in_folder(folder, "logs");
    result r = RUN("run", "-n", "1", "--log-dir", logs.text, "sh", "-c", "kill -SEGV $$");
    assert_int_equal(r.code, 128 + SIGSEGV);
    json_t *report = load_error(logs, "latest/slot0/attempt0/error.json");
    assert_non_null(strstr(text_at(json_object_get(report, "message"), "message"),
                           " was killed by signal 11 "));
    const json_t *gradwire = json_object_get(report, "gradwire");
    assert_string_equal(text_at(gradwire, "status"), "signal 11");
    assert_non_null(strstr(r.err, "gradwire: the first failure: rank 0 (pid "));
    assert_null(strstr(r.err, "  error: "));
    assert_int_equal(number_at(gradwire, "slot"), 0);
    assert_int_equal(number_at(gradwire, "attempt"), 0);
    json_decref(report);
    forget(r);
    remove_folder(folder);
}

// The first failure is that of rank 1; the others fail because of it. The launcher prints one block about it.
static void the_error_of_a_worker_is_kept_and_printed(void **state) {
    (void)state;
    path folder = make_folder(), logs = in_folder(folder, "logs");
    result r = RUN("run", "-n", "3", "--log-dir", logs.text, FIXED, folder.text, "fail",
                   "train.csv: there is no \"\xe9\" in it");
    testing_note("%s%s", r.out, r.err);
    assert_int_equal(r.code, 1);
    json_t *report = load_error(logs, "latest/slot1/attempt0/error.json");
    const char *text = text_at(json_object_get(report, "message"), "message");
    assert_non_null(strstr(text, "train.csv: there is no \"?\" in it"));
    const json_t *gradwire = json_object_get(report, "gradwire");
    assert_string_equal(text_at(gradwire, "status"), "not found");
    assert_string_equal(text_at(gradwire, "worker"), "worker1");
    assert_int_equal(number_at(gradwire, "slot"), 1);
    assert_int_equal(number_at(gradwire, "attempt"), 0);
    assert_string_equal(text_at(gradwire, "made_by"), "worker1");
    assert_string_equal(text_at(gradwire, "function"), "");
    const char *block = strstr(r.err, "gradwire: the first failure: rank 1 (pid ");
    assert_non_null(block);
    assert_non_null(strstr(block, ") exited with code 1\n"));
    assert_non_null(strstr(block, "  role default, slot 1, attempt 0, host "));
    assert_non_null(strstr(block, "  error: "));
    assert_non_null(strstr(block, "/slot1/attempt0/error.json\n"));
    assert_non_null(strstr(block, "\n[1] rank 1 begins at step 0\n"));
    json_decref(report);
    forget(r);
    remove_folder(folder);
}

// A worker that cannot join has no scope with an agent, and an error all the same.
static void the_error_of_a_worker_that_cannot_join_is_kept(void **state) {
    (void)state;
    path folder = make_folder(), logs = in_folder(folder, "logs");
    setenv("GW_JOB", "neither", 1);
    result r = RUN("run", "-n", "1", "--log-dir", logs.text, FIXED, folder.text, "kill");
    assert_int_equal(r.code, 1);
    json_t *report = load_error(logs, "latest/slot0/attempt0/error.json");
    assert_non_null(strstr(text_at(json_object_get(report, "message"), "message"), "GW_JOB"));
    json_decref(report);
    forget(r);
    remove_folder(folder);
}

static void streams_go_where_the_user_wants(void **state) {
    (void)state;
    path folder = make_folder(), logs = in_folder(folder, "logs");
    static const char script[] = "echo out $RANK; sleep 0; echo err $RANK >&2";
    result r = RUN("run", "-n", "3", "-r", "0:3,1:1", "-t", "1:2", "--log-dir", logs.text, "sh",
                   "-c", script);
    testing_note("%s%s", r.out, r.err);
    assert_int_equal(r.code, 0);
    assert_string_equal(r.out, "[2] out 2\n");
    assert_null(strstr(r.err, "err 0"));
    assert_non_null(strstr(r.err, "[1] err 1\n"));
    assert_non_null(strstr(r.err, "[2] err 2\n"));
    expect_file(logs, "latest/slot0/attempt0/stdout.log", "out 0\n");
    expect_file(logs, "latest/slot0/attempt0/stderr.log", "err 0\n");
    expect_file(logs, "latest/slot1/attempt0/stdout.log", "out 1\n");
    expect_file(logs, "latest/slot1/attempt0/stderr.log", "err 1\n");
    assert_false(exists(logs, "latest/slot2/attempt0/stdout.log"));
    assert_false(exists(logs, "rank2.log"));
    forget(r);
    r = RUN("run", "-n", "2", "--redirects=2", "--log-dir", logs.text, "sh", "-c", script);
    assert_non_null(strstr(r.out, "[0] out 0\n"));
    assert_null(strstr(r.err, "err"));
    expect_file(logs, "rank1.log", "err 1\n");
    forget(r);
    remove_folder(folder);
}

// A program that cannot write the file, or that is given none, ends as it would otherwise.
static void a_file_that_cannot_be_written_changes_nothing(void **state) {
    (void)state;
    path folder = make_folder();
    setenv("TORCHELASTIC_ERROR_FILE", "/nonexistent/folder/error.json", 1);
    result r = RUN("run", "-n", "2", FIXED, folder.text, "fail", "a reason");
    testing_note("%s%s", r.out, r.err);
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "a reason"));
    assert_null(strstr(r.err, "error.json"));
    forget(r);
    remove_folder(folder);
}

GW_TESTS(run_logs, no_name_has_the_mark_of_the_job, each_attempt_has_files_of_its_own,
         an_attempt_without_a_log_runs, a_death_by_a_signal_is_described,
         the_error_of_a_worker_is_kept_and_printed, the_error_of_a_worker_that_cannot_join_is_kept,
         streams_go_where_the_user_wants, a_file_that_cannot_be_written_changes_nothing);
