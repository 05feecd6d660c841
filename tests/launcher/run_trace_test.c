// gradwire run --trace: a job is traced from its start, whatever becomes of its ranks, its launcher, or the process that
// records.
#include "testing/testing.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../support/launched.h"
#include "../support/levels.h"
#include "../support/trace_lines.h"
#include "observe/dump.h"
#include "observe/find.h"
#include "system/proc.h"
#include "timeline/clocks.h"
#include "trace/kinds.h"

typedef struct job {
    launched l;
    path folder, file;
} job;

// With |options| behind the file of --trace; returns when all have done their work.
static job start_job(const char *options, const char *argument) {
    job j = { .folder = make_folder() };
    j.file = in_folder(j.folder, "t.json");
    j.l = launch_command("exec ./gradwire run -n2 --trace=%s%s -- ./case-traced %s", j.file.text,
                         options, argument);
    read_line(j.l.out_fd, "[0] ready ");
    return j;
}

static void end_job(job *j, int code, const char *message) {
    close_input(&j->l);
    result r = finish(j->l);
    testing_note("%s", r.err);
    assert_int_equal(r.code, code);
    if (!strstr(r.err, message)) fail_msg("no \"%s\"", message);
    forget(r);
}

static void remove_all(const job *j, trace_lines *t) {
    trace_lines_free(t);
    remove_folder(j->folder);
}

static found workers_of(const job *j) {
    char why[FIND_WHY_SIZE], pid[16];
    found f;
    snprintf(pid, sizeof pid, "%d", (int)j->l.pid);
    if (!find_job_tables(pid, &f, why, sizeof why)) fail_msg("%s", why);
    assert_int_equal(f.count, 2);
    return f;
}

// The process of the launcher with that name; 0: it has not set its name yet.
static pid_t look_for_recorder(const job *j) {
    proc *all;
    int count = proc_list(&all);
    pid_t found = 0;
    for (int i = 0; i < count; i++) {
        char path[64], name[32] = "";
        snprintf(path, sizeof path, "/proc/%d/comm", (int)all[i].pid);
        FILE *f = all[i].parent == j->l.pid ? fopen(path, "r") : NULL;
        if (f && fgets(name, sizeof name, f) && strcmp(name, "gradwire-trace\n") == 0)
            found = all[i].pid;
        if (f) fclose(f);
    }
    free(all);
    return found;
}

static pid_t find_recorder(const job *j) {
    pid_t found;
    while (!(found = look_for_recorder(j))) continue;
    return found;
}

static void a_job_is_traced_from_its_start(void **state) {
    (void)state;
    job j = start_job("", "");
    end_job(&j, 0, "gradwire: the trace of 2 worker processes is in ");
    trace_lines t = trace_lines_of_json(j.file.text);
    for (int i = 0; i < t.count; i++) testing_note("%s", t.lines[i]);
    assert_int_equal(COUNT(&t, "instant|", "joined the job: "), 2);
    assert_int_equal(COUNT(&t, "slice|worker1, host ", "|inner|span|"), 3);
    assert_int_equal(COUNT(&t, "slice|worker0", "calls to worker1|twice|call|"), 3);
    assert_int_equal(COUNT(&t, "slice|worker1", "|twice|body|"), 3);
    assert_int_equal(COUNT(&t, "slice|", "collectives of world|all_reduce|collective|"), 6);
    assert_int_equal(COUNT(&t, "instant|", "leaves the job: gw_rpc_shutdown"), 2);
    assert_int_equal(COUNT(&t, "missing"), 0);
    assert_int_equal(COUNT(&t, "lost"), 0);
    remove_all(&j, &t);
}

static void a_killed_rank_is_in_the_trace(void **state) {
    (void)state;
    job j = start_job("", "");
    found f = workers_of(&j);
    kill(f.images[1].pid, SIGKILL);
    find_free(&f);
    result r = finish(j.l);
    testing_note("%s", r.err);
    assert_int_equal(r.code, 137);
    assert_non_null(strstr(r.err, "gradwire: the trace of 2 worker processes is in "));
    forget(r);
    trace_lines t = trace_lines_of_json(j.file.text);
    assert_int_equal(COUNT(&t, "slice|worker1, host ", ", attempt 0, ended/", "|inner|span|"), 3);
    assert_int_equal(COUNT(&t, "slice|worker0, host ", "|inner|span|"), 3);
    remove_all(&j, &t);
}

static void each_attempt_of_a_rank_is_in_the_trace(void **state) {
    (void)state;
    job j = { .folder = make_folder() };
    j.file = in_folder(j.folder, "t.json");
    j.l = launch_command("exec ./gradwire run -n2 --max-restarts=1 --trace=%s -- ./case-traced",
                         j.file.text);
    read_line(j.l.out_fd, "[0] ready ");
    found f = workers_of(&j);
    kill(f.images[1].pid, SIGKILL);
    find_free(&f);
    read_line(j.l.out_fd, "[0] ready ");
    end_job(&j, 0, "gradwire: the trace of 4 worker processes is in ");
    trace_lines t = trace_lines_of_json(j.file.text);
    assert_int_equal(COUNT(&t, "slice|worker1, host ", ", attempt 0", "|inner|span|"), 3);
    assert_int_equal(COUNT(&t, "slice|worker1, host ", ", attempt 1", "|inner|span|"), 3);
    remove_all(&j, &t);
}

static void after_the_time_of_the_trace_levels_are_as_before(void **state) {
    (void)state;
    job j = start_job(",call,seconds=0.01", "calls");
    await_levels_of_job(j.l.pid, TRACE_DEFAULT);
    end_job(&j, 0, " is in ");  // the second worker may begin after that time
    trace_lines t = trace_lines_of_json(j.file.text);
    assert_int_equal(COUNT(&t, "instant|worker0", "leaves the job"), 0);
    remove_all(&j, &t);
}

static void a_launcher_that_is_killed_leaves_a_trace(void **state) {
    (void)state;
    job j = start_job("", "");
    char recorder[16];
    snprintf(recorder, sizeof recorder, "%d", (int)find_recorder(&j));
    int process_fd = open_process(recorder);
    kill(j.l.pid, SIGKILL);
    forget(finish(j.l));
    wait_for_end(process_fd);
    trace_lines t = trace_lines_of_json(j.file.text);
    assert_int_equal(COUNT(&t, "slice|worker0, host ", "|inner|span|"), 3);
    assert_int_equal(COUNT(&t, "slice|worker1, host ", "|inner|span|"), 3);
    remove_all(&j, &t);
}

static void a_process_that_records_and_is_killed_is_not_noticed_by_ranks(void **state) {
    (void)state;
    job j = start_job("", "calls");
    await_levels_of_job(j.l.pid, TRACE_USUAL);
    kill(find_recorder(&j), SIGKILL);
    read_line(j.l.err_fd,
              "gradwire: --trace: the process that records has ended; there is no trace");
    await_levels_of_job(j.l.pid, TRACE_DEFAULT);
    end_job(&j, 0, "");
    assert_int_equal(access(j.file.text, F_OK), -1);
    remove_folder(j.folder);
}

static void a_program_that_is_no_worker_has_no_trace(void **state) {
    (void)state;
    path folder = make_folder(), file = in_folder(folder, "t.pftrace");
    char option[300];
    snprintf(option, sizeof option, "--trace=%s", file.text);
    result r = RUN("run", "-n2", option, "--", "true");
    assert_int_equal(r.code, 0);
    assert_string_equal(r.err, "gradwire: there is no trace: no rank was a worker that records\n");
    forget(r);
    assert_int_equal(access(file.text, F_OK), -1);
    remove_folder(folder);
}

// ---- Two hosts ----------------------------------------------------------------------------------

// The launcher of a host, which has its own trace.
static launched start_host(int number, int port, const char *around, const char *levels,
                           path trace) {
    return launch_command("exec %s ./gradwire run -n1 --nnodes=2 --node-rank=%d "
                          "--rdzv-endpoint=127.0.0.1:%d --trace=%s%s -- ./case-traced",
                          around, number, port, trace.text, levels);
}

static int read_dump(path folder, const char *name, image *out, int count) {
    char why[IMAGE_WHY_SIZE];
    image *images;
    int more;
    path file = in_folder(folder, name);
    if (!dump_read(file.text, &images, &more, why, sizeof why)) fail_msg("%s: %s", file.text, why);
    assert_int_equal(more, 1);
    out[count] = images[0];
    free(images);
    return count + 1;
}

// Of the second host to the first, which is an hour behind.
static void expect_clocks(const clocks *c) {
    const int64_t hour_ns = INT64_C(3600000000000);
    assert_int_equal(c->host_count, 2);
    assert_int_equal(c->hosts[1].method, CLOCKS_BY_MESSAGES);
    assert_int_equal(c->back_count, 0);
    testing_note("offset %lld ns, uncertainty %lld ns", (long long)c->hosts[1].offset_ns,
                 (long long)c->hosts[1].uncertainty_ns);
    assert_true(llabs(c->hosts[1].offset_ns + hour_ns) <= c->hosts[1].uncertainty_ns);
}

static void clocks_an_hour_apart_are_aligned(void **state) {
    (void)state;
    static const char *const levels[] = { "", ",coll,pass" };
    // The other host has another name, and another CLOCK_MONOTONIC.
    const char *around = "unshare -u -T --monotonic 3600 -f --kill-child sh -c 'hostname other; "
                         "exec \"$@\"' -";
    result r = finish(launch_command("%s true", around));
    if (r.code) testing_skip("unshare cannot make a host with another clock: %s", r.err);
    forget(r);
    for (int i = 0; i < 2; i++) {
        path folder = make_folder(), trace = in_folder(folder, "t.gwt");
        int port = testing_free_port();
        launched other = start_host(1, port, around, levels[i], trace);
        launched first = start_host(0, port, "", levels[i], trace);
        close_input(&first);
        result results[] = { finish(first), finish(other) };
        for (int k = 0; k < 2; k++) {
            testing_note("%s", results[k].err);
            assert_int_equal(results[k].code, 0);
            forget(results[k]);
        }
        image images[2];
        clocks c;
        int count = read_dump(folder, "t.host0.gwt", images, 0);
        count = read_dump(folder, "t.host1.gwt", images, count);
        assert_true(clocks_align(images, count, &c));
        expect_clocks(&c);
        clocks_fini(&c);
        for (int k = 0; k < 2; k++) image_free(&images[k]);
        remove_folder(folder);
    }
}

static void expect_refused(const char *option, int code, const char *text) {
    result r = RUN("run", "-n1", option, "--", "true");
    testing_note("%s", r.err);
    assert_int_equal(r.code, code);
    assert_non_null(strstr(r.err, text));
    assert_int_equal(count_in(r.err, "\n"), 1);
    forget(r);
}

static void a_wrong_option_is_one_sentence(void **state) {
    (void)state;
    expect_refused("--trace=", 2, "--trace needs the path of a file");
    expect_refused("--trace=t,calm", 2, "--trace: calm is no level; there are job, coll, pass");
    expect_refused("--trace=t,steps=9-3", 2, "--trace: steps=9-3 is no range of steps");
    expect_refused("--trace=t,steps=0-3", 2, "steps=0-3 is no range");
    expect_refused("--trace=t,steps=1-3x", 2, "steps=1-3x is no range");
    expect_refused("--trace=t,seconds=0", 2, "seconds=0 is no time to trace");
    expect_refused("--trace=t,seconds=1000000000", 2, "--trace: seconds takes seconds from 0");
    expect_refused("--trace=t,seconds=1,steps=1-2", 2, "seconds and steps exclude each other");
    expect_refused("--trace=/no/such/folder/t", 125, "cannot start: --trace: No such file");
}

GW_TESTS(run_trace, a_job_is_traced_from_its_start, a_killed_rank_is_in_the_trace,
         each_attempt_of_a_rank_is_in_the_trace, after_the_time_of_the_trace_levels_are_as_before,
         a_launcher_that_is_killed_leaves_a_trace,
         a_process_that_records_and_is_killed_is_not_noticed_by_ranks,
         a_program_that_is_no_worker_has_no_trace, clocks_an_hour_apart_are_aligned,
         a_wrong_option_is_one_sentence);
