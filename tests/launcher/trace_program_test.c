// Traces that a program starts: gw_trace_start, gw_trace_stop, and the variable GW_TRACE.
#include "testing/testing.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../support/launched.h"
#include "../support/levels.h"
#include "../support/trace_lines.h"
#include "trace/kinds.h"

static result expect_code(launched l, int code) {
    result r = finish(l);
    testing_note("%s%s", r.out, r.err);
    assert_int_equal(r.code, code);
    return r;
}

// What the work of case-traced leaves in a trace.
static void expect_work(const trace_lines *t) {
    for (int i = 0; i < t->count; i++) testing_note("%s", t->lines[i]);
    assert_int_equal(COUNT(t, "slice|worker0", "calls to worker1|twice|call|"), 3);
    assert_int_equal(COUNT(t, "slice|worker1", "calls to worker0|twice|call|"), 3);
    assert_int_equal(COUNT(t, "slice|worker1", "|twice|body|"), 3);
    assert_int_equal(COUNT(t, "slice|", "collectives of world|all_reduce|collective|"), 6);
    assert_int_equal(COUNT(t, "slice|", "|inner|span|"), 6);
}

// Files of records are removed.
static void expect_no_records(path folder) {
    glob_t found;
    path pattern = in_folder(folder, "gradwire-trace-*");
    assert_int_equal(glob(pattern.text, 0, NULL, &found), GLOB_NOMATCH);
}

static void a_program_traces_its_job(void **state) {
    (void)state;
    path folder = make_folder(), json = in_folder(folder, "t.json");
    forget(expect_code(
        launch_command(
            "TMPDIR=%s exec ./gradwire run -n2 -- ./case-traced itself %s call,coll,user",
            folder.text, json.text),
        0));
    trace_lines t = trace_lines_of_json(json.text);
    expect_work(&t);
    assert_int_equal(COUNT(&t, "instant|worker0", "before"), 0);
    assert_int_equal(COUNT(&t, "leaves the job"), 0);
    assert_int_equal(COUNT(&t, "instant|", "joined the job"), 0);
    expect_no_records(folder);
    trace_lines_free(&t);
    remove_folder(folder);
}

static void references_messages_and_operators_have_levels(void **state) {
    (void)state;
    path folder = make_folder(), json = in_folder(folder, "t.json");
    forget(expect_code(launch_command("exec ./gradwire run -n2 -- ./case-traced itself %s "
                                      "ref,wire,ops",
                                      json.text),
                       0));
    trace_lines t = trace_lines_of_json(json.text);
    for (int i = 0; i < t.count; i++) testing_note("%s", t.lines[i]);
    assert_int_equal(COUNT(&t, "slice|worker0", "|fetch|fetch|", "rank=1;"), 1);
    assert_int_equal(COUNT(&t, "instant|worker1", "reference made", "rank=1;"), 1);
    assert_int_equal(COUNT(&t, "instant|worker1", "reference forked", "rank=0;"), 1);
    assert_int_equal(COUNT(&t, "instant|worker1", "reference released", "rank=0;"), 1);
    assert_true(COUNT(&t, "instant|worker0", "message sent: ", "rank=1;") > 0);
    assert_true(COUNT(&t, "instant|worker0", "message received: ", "rank=1;") > 0);
    assert_int_equal(COUNT(&t, "slice|worker0", "|linear|module|"), 1);
    // 2x5 times 5x3, of 4 bytes.
    assert_int_equal(COUNT(&t, "slice|worker0", "|linear|operator|", "bytes=24;"), 1);
    // Other levels are as before.
    assert_int_equal(COUNT(&t, "|call|"), 0);
    trace_lines_free(&t);
    remove_folder(folder);
}

static void workers_of_other_hosts_are_traced_there(void **state) {
    (void)state;
    // A worker whose processes the first one does not see is on another host.
    launched probe = launch_command("unshare -p --fork --mount-proc true 2>/dev/null");
    result r = finish(probe);
    bool may = r.code == 0;
    forget(r);
    if (!may) testing_skip("this user may not make a namespace of processes");
    path folder = make_folder(), json = in_folder(folder, "t.json");
    forget(expect_code(
        launch_command(
            "TMPDIR=%s exec ./gradwire run -n2 -- sh -c 'if [ $RANK = 1 ]; then exec "
            "unshare -p --fork --mount-proc ./case-traced itself %s call,coll,user; fi; exec "
            "./case-traced itself %s call,coll,user'",
            folder.text, json.text, json.text),
        0));
    trace_lines t = trace_lines_of_json(json.text);
    expect_work(&t);
    expect_no_records(folder);
    trace_lines_free(&t);
    remove_folder(folder);
}

static void expect_line(const char *text, const char *line) {
    if (!strstr(text, line)) fail_msg("no \"%s\" in\n%s", line, text);
}

static void errors_name_their_cause(void **state) {
    (void)state;
    path folder = make_folder(), json = in_folder(folder, "t.json");
    result r =
        expect_code(launch_command("TMPDIR=%s exec ./gradwire run -n1 -- ./case-trace_errors %s",
                                   folder.text, json.text),
                    0);
    expect_line(r.out, "no agent: wrong state: the scope has no agent");
    expect_line(r.out, "level: invalid: gw_trace_start: \"calm\" is no level; there are job, coll");
    expect_line(r.out, "seconds: invalid: gw_trace_start: -1 seconds");
    expect_line(r.out, "not started: wrong state: gw_trace_stop: no trace has been started");
    expect_line(r.out, "first: ok: ");
    expect_line(r.out, "second: wrong state: gw_trace_start: this process has a trace already");
    expect_line(r.out, "folder: system: gw_trace_stop: /no/such/folder/t.json: No such file");
    expect_line(r.out, "failed scope: invalid: the program fails");
    forget(r);
    trace_lines t = trace_lines_of_json(json.text);
    assert_int_equal(COUNT(&t, "instant|", "failed"), 1);
    trace_lines_free(&t);
    expect_no_records(folder);
    remove_folder(folder);
}

static void without_the_command_there_is_no_trace(void **state) {
    (void)state;
    result r = expect_code(launch_command("GW_TOOL=/no/such/program exec ./gradwire run -n1 -- "
                                          "./case-trace_errors t.json"),
                           1);
    expect_line(r.out, "first: not found: gw_trace_start: the program \"/no/such/program\"");
    forget(r);
    r = expect_code(launch_command("GW_TRACE=call:t.json GW_TOOL=/no/such/program exec ./gradwire "
                                   "run -n1 -- ./case-steps"),
                    0);
    expect_line(r.err, "GW_TRACE: there is no trace: the program \"/no/such/program\"");
    forget(r);
}

// ---- GW_TRACE -----------------------------------------------------------------------------------

static void a_variable_traces_a_job_from_its_start(void **state) {
    (void)state;
    path folder = make_folder(), json = in_folder(folder, "t.json");
    launched l =
        launch_command("GW_TRACE=all:%s exec ./gradwire run -n2 -- ./case-traced", json.text);
    read_line(l.out_fd, "[0] ready ");
    close_input(&l);
    forget(expect_code(l, 0));
    trace_lines t = trace_lines_of_json(json.text);
    expect_work(&t);
    assert_int_equal(COUNT(&t, "instant|", "joined the job: "), 2);
    assert_int_equal(COUNT(&t, "instant|worker0", "leaves the job: gw_rpc_shutdown"), 1);
    trace_lines_free(&t);
    remove_folder(folder);
}

static void a_variable_without_a_file_switches_levels_on(void **state) {
    (void)state;
    launched l = launch_command("GW_TRACE=call exec ./gradwire run -n2 -- ./case-traced");
    read_line(l.out_fd, "[0] ready ");
    assert_int_equal(levels_of_job(l.pid), TRACE_DEFAULT | TRACE_CALL);
    close_input(&l);
    forget(expect_code(l, 0));
}

static void only_wanted_steps_are_traced(void **state) {
    (void)state;
    path folder = make_folder(), json = in_folder(folder, "t.json");
    forget(
        expect_code(launch_command("GW_TRACE=step,user:%s GW_TRACE_STEPS=2-3 exec ./gradwire run "
                                   "-n1 -- ./case-steps",
                                   json.text),
                    0));
    trace_lines t = trace_lines_of_json(json.text);
    for (int i = 0; i < t.count; i++) testing_note("%s", t.lines[i]);
    assert_int_equal(COUNT(&t, "slice|", "|optimizer step|"), 2);
    assert_int_equal(COUNT(&t, "step 1"), 0);
    assert_int_equal(COUNT(&t, "step 2"), 1);
    assert_int_equal(COUNT(&t, "step 3"), 1);
    assert_int_equal(COUNT(&t, "step 4"), 0);
    trace_lines_free(&t);
    remove_folder(folder);
}

static void a_wrong_variable_is_one_line(void **state) {
    (void)state;
    result r = expect_code(
        launch_command("GW_TRACE=calm:t.json exec ./gradwire run -n1 -- ./case-steps"), 0);
    expect_line(r.err, "GW_TRACE=calm:t.json: \"calm\" is no level; there are job, coll");
    assert_int_equal(count_in(r.err, "GW_TRACE"), 1);
    forget(r);
    r = expect_code(
        launch_command("GW_TRACE=call:t.json GW_TRACE_STEPS=9-3 exec ./gradwire run -n1 "
                       "-- ./case-steps"),
        0);
    expect_line(r.err, "GW_TRACE: there is no trace: --steps=9-3 is no range of steps");
    forget(r);
}

GW_TESTS(trace_program, a_program_traces_its_job, references_messages_and_operators_have_levels,
         workers_of_other_hosts_are_traced_there, errors_name_their_cause,
         without_the_command_there_is_no_trace, a_variable_traces_a_job_from_its_start,
         a_variable_without_a_file_switches_levels_on, only_wanted_steps_are_traced,
         a_wrong_variable_is_one_line);
