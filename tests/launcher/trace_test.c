// gradwire trace and gradwire top, with a job that runs, and with files.
#include "testing/testing.h"

#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <termios.h>
#include <unistd.h>

#include "../support/images.h"
#include "../support/launched.h"
#include "../support/trace_lines.h"
#include "observe/dump.h"
#include "trace/kinds.h"

// ---- A job --------------------------------------------------------------------------------------

typedef struct job {
    launched l;
    char pid[16], worker_pid[16];  // of the launcher, of rank 0
} job;

// Returns when it has done its work.
static job start_job(const char *argument) {
    job j = { .l = launch_command("GW_FLIGHT=all exec ./gradwire run -n2 -- ./case-traced %s",
                                  argument) };
    snprintf(j.worker_pid, sizeof j.worker_pid, "%s", read_line(j.l.out_fd, "[0] ready "));
    snprintf(j.pid, sizeof j.pid, "%d", (int)j.l.pid);
    return j;
}

static void end_job(job *j) {
    close_input(&j->l);
    result r = finish(j->l);
    assert_int_equal(r.code, 0);
    forget(r);
}

static void expect_done(result r) {
    testing_note("%s", r.err);
    assert_int_equal(r.code, 0);
    assert_string_equal(r.err, "");
    forget(r);
}

// ---- gradwire trace -----------------------------------------------------------------------------

static void expect_trace_of_job(const trace_lines *t) {
    assert_int_equal(COUNT(t, "slice|worker0, host ", "|outer <script>\"|span|"), 1);
    assert_int_equal(COUNT(t, "slice|worker1, host ", "|inner|span|"), 3);
    assert_int_equal(
        COUNT(t, "slice|", "collectives of world", "|all_reduce|collective|", "bytes=4000;"), 6);
    assert_int_equal(COUNT(t, "slice|worker0", "calls to worker1", "|twice|call|"), 3);
    assert_int_equal(COUNT(t, "slice|worker1", "|twice|body|"), 3);
    // A pass that overlaps a part for the other worker is in a row of its own, "backward passes (2)".
    assert_int_equal(COUNT(t, "slice|", "backward passes", "|backward|backward|"), 6);
    assert_int_equal(COUNT(t, "counter|worker1", "/step|"), 3);
    assert_int_equal(COUNT(t, "instant|", "/|broken is nan||"), 2);
    assert_int_equal(COUNT(t, "instant|", "|half?way|mark|"), 2);
    // A call and its reply, the last that enters a collective -> its end on the other, a pass -> a part elsewhere.
    assert_int_equal(COUNT(t, "target|", "calls to "), 6);
    assert_int_equal(COUNT(t, "target|", "collectives of world|"), 4);
    assert_true(COUNT(t, "target|", "backward passes") >= 6);
    assert_int_equal(COUNT(t, "missing"), 0);
}

static void a_running_job_and_its_dump_have_the_same_trace(void **state) {
    (void)state;
    path folder = make_folder(), json = in_folder(folder, "t.json"),
         protobuf = in_folder(folder, "t.pftrace");
    path dump = in_folder(folder, "d.gwt");
    job j = start_job("");
    expect_done(RUN("trace", "--json", "-o", json.text, j.pid));
    expect_done(RUN("trace", "-o", protobuf.text, j.worker_pid));
    expect_done(RUN("dump", "-o", dump.text, j.pid));
    end_job(&j);
    trace_lines t = trace_lines_of_json(json.text);
    for (int i = 0; i < t.count; i++) testing_note("%s", t.lines[i]);
    expect_trace_of_job(&t);
    trace_lines_free(&t);
    if (has_program("protoc")) {
        t = trace_lines_of_protobuf(protobuf.text);
        expect_trace_of_job(&t);
        trace_lines_free(&t);
    }
    expect_done(RUN("trace", "-o", json.text, "--json", dump.text));
    t = trace_lines_of_json(json.text);
    expect_trace_of_job(&t);
    trace_lines_free(&t);
    // The processes of both files are in the trace.
    expect_done(RUN("trace", "-o", json.text, "--json", dump.text, dump.text));
    t = trace_lines_of_json(json.text);
    assert_int_equal(COUNT(&t, "|outer <script>\"|span|"), 4);
    trace_lines_free(&t);
    result report = RUN("trace", "--report", dump.text);
    assert_int_equal(report.code, 0);
    assert_non_null(strstr(report.out, "  all_reduce of world: 3, mean "));
    assert_non_null(strstr(report.out, "  world: all 2 members have ended all, the last is 4\n"));
    forget(report);
    remove_folder(folder);
}

static void expect_refused(result r, int code, const char *text) {
    testing_note("%s", r.err);
    assert_int_equal(r.code, code);
    assert_non_null(strstr(r.err, text));
    assert_int_equal(count_in(r.err, "\n"), 1);
    assert_string_equal(r.out, "");
    forget(r);
}

static void what_is_wrong_is_one_sentence(void **state) {
    (void)state;
    path folder = make_folder(), file = in_folder(folder, "x.gwt"), out = in_folder(folder, "out");
    FILE *f = fopen(file.text, "w");
    assert_non_null(f);
    fputs("gwtdump1 is not all", f);
    fclose(f);
    expect_refused(RUN("trace"), 2, "-o FILE is missing");
    expect_refused(RUN("trace", "--report", "--json"), 2, "leave out -o and --json");
    expect_refused(RUN("trace", "-o", out.text, "job", "other"), 2, "only files can be several");
    expect_refused(RUN("trace", "-o", out.text, "--jsom"), 2, "--jsom");
    expect_refused(RUN("trace", "-o", out.text, "--last=x"), 2, "--last takes seconds");
    expect_refused(RUN("trace", "-o", out.text, file.text), 1, "x.gwt: ");
    expect_refused(RUN("trace", "-o", out.text, "no-such-job"), 1, "there is no job no-such-job");
    expect_refused(RUN("top", "--json"), 2, "--json is for --once");
    expect_refused(RUN("top", "--once", "no-such-job"), 1, "there is no job no-such-job");
    expect_refused(RUN("top", "--once", "a", "b"), 2, "b");
    remove_folder(folder);
}

static void a_trace_that_cannot_be_written_leaves_the_old_file(void **state) {
    (void)state;
    path folder = make_folder(), dump = in_folder(folder, "d.gwt"),
         none = in_folder(folder, "none/t");
    job j = start_job("");
    expect_done(RUN("dump", "-o", dump.text, j.pid));
    expect_refused(RUN("trace", "-o", none.text, j.pid), 1, "none/t: No such file or directory");
    expect_refused(RUN("trace", "-o", folder.text, dump.text), 1, ": Is a directory");
    end_job(&j);
    remove_folder(folder);  // which has nothing else
}

// ---- gradwire top -------------------------------------------------------------------------------

static json_t *top_of(const char *pid, const char *interval) {
    result r = RUN("top", "--once", "--json", "--peers", interval, pid);
    testing_note("%s%s", r.out, r.err);
    assert_int_equal(r.code, 0);
    json_t *all = json_loads(r.out, 0, NULL);
    assert_non_null(all);
    forget(r);
    return all;
}

static json_t *worker_of(const json_t *all, size_t rank) {
    assert_int_equal(json_array_size(json_object_get(all, "workers")), 2);
    return json_array_get(json_object_get(all, "workers"), rank);
}

static double number_of(const json_t *worker, const char *key) {
    const json_t *x = json_object_get(worker, key);
    assert_true(json_is_number(x));
    return json_number_value(x);
}

static const char *text_of(const json_t *worker, const char *key) {
    const char *x = json_string_value(json_object_get(worker, key));
    assert_non_null(x);
    return x;
}

static void top_has_rates_and_waits(void **state) {
    (void)state;
    job j = start_job("calls");
    json_t *all = top_of(j.pid, "--interval=0");
    assert_true(number_of(worker_of(all, 0), "calls_per_s") == 0);
    json_decref(all);
    // Each worker writes its table when it gets to it.
    for (bool is_seen = false; !is_seen; json_decref(all)) {
        all = top_of(j.pid, "--interval=1");
        const json_t *a = worker_of(all, 0), *b = worker_of(all, 1);
        is_seen = number_of(a, "calls_per_s") > 0 && number_of(b, "served_per_s") > 0 &&
                  number_of(a, "sent_bytes_per_s") > 0 &&
                  number_of(b, "received_bytes_per_s") > 0 && number_of(a, "processors") > 0;
        assert_string_equal(text_of(a, "worker"), "worker0");
        assert_string_equal(text_of(a, "state"), "runs");
        assert_int_equal((int)number_of(a, "pid"), (int)strtol(j.worker_pid, NULL, 10));
        assert_true(number_of(a, "resident_bytes") > 100000);
        is_seen &= strcmp(text_of(b, "phase"), "leaving") == 0 &&
                   strstr(text_of(b, "waits_for"), "gw_rpc_shutdown") != NULL;
    }
    kill((int)strtol(j.worker_pid, NULL, 10), SIGSTOP);
    for (bool is_seen = false; !is_seen; json_decref(all)) {
        all = top_of(j.pid, "--interval=0");
        is_seen = strcmp(text_of(worker_of(all, 0), "state"), "stopped") == 0;
    }
    kill((int)strtol(j.worker_pid, NULL, 10), SIGCONT);
    end_job(&j);
}

static void top_has_peers_and_memory(void **state) {
    (void)state;
    job j = start_job("calls");
    for (bool is_seen = false; !is_seen;) {
        json_t *all = top_of(j.pid, "--interval=1");
        const json_t *a = worker_of(all, 0), *peers = json_object_get(a, "peers");
        const json_t *memory = json_object_get(a, "memory"), *one = json_array_get(peers, 0);
        is_seen = one && memory && number_of(one, "sent_bytes_per_s") > 0 &&
                  number_of(one, "calls_per_s") > 0;
        if (is_seen) {
            assert_int_equal(json_array_size(peers), 1);
            assert_int_equal((int)number_of(one, "rank"), 1);
            assert_int_equal((int)number_of(one, "workers"), 1);
            assert_true(number_of(one, "calls_made") > 0);
            assert_true(number_of(one, "bytes_sent") >= number_of(one, "messages_sent"));
            assert_true(number_of(memory, "records") > 0);
            assert_true(number_of(memory, "gradients") >= 0);
            const json_t *sums = json_object_get(a, "sums");
            const json_t *made = json_array_get(json_object_get(sums, "made"), 0);
            const json_t *ended = json_array_get(json_object_get(sums, "collectives"), 0);
            assert_string_equal(text_of(made, "function"), "twice");
            assert_true(number_of(made, "count") > 0);
            assert_int_equal((int)number_of(made, "failed"), 0);
            assert_string_equal(text_of(ended, "group"), "world");
            assert_true(number_of(ended, "seconds") > 0);
        }
        json_decref(all);
    }
    result r = RUN("top", "--once", "--peers", "--interval=0", j.pid);
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "RANK  WORKER"));
    assert_non_null(strstr(r.out, "  rank 1 "));
    assert_non_null(strstr(r.out, "  rank 0 "));
    forget(r);
    r = RUN("dump", j.pid);
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "    memory: "));
    assert_non_null(strstr(r.out, "    calls of twice: "));
    assert_non_null(strstr(r.out, "    collective all_reduce of world: 3, "));
    assert_non_null(strstr(r.out, "    with rank 1 ("));
    forget(r);
    r = RUN("ps", "--json");
    assert_non_null(strstr(r.out, "\"queued_bytes_max\""));
    assert_non_null(strstr(r.out, "\"saved_for_backward\""));
    forget(r);
    end_job(&j);
}

static void top_prints_lines_into_a_pipe_until_the_job_ends(void **state) {
    (void)state;
    job j = start_job("");
    launched top = LAUNCH("top", "--interval=0.1", j.pid);
    read_line(top.out_fd, "RANK  WORKER");
    read_line(top.out_fd, "   0  worker0 ");
    end_job(&j);
    result r = finish(top);
    assert_int_equal(r.code, 0);
    assert_null(strstr(r.out, "\033"));
    assert_non_null(strstr(r.out, "0 processes run"));
    forget(r);
}

// A terminal of 120 columns and 20 lines; |*out_fd|: its other side.
static int open_terminal(int *out_fd) {
    *out_fd = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(*out_fd >= 0);
    assert_int_equal(grantpt(*out_fd), 0);
    assert_int_equal(unlockpt(*out_fd), 0);
    assert_int_equal(ioctl(*out_fd, TIOCSWINSZ, &(struct winsize){ .ws_row = 20, .ws_col = 120 }),
                     0);
    int fd = open(ptsname(*out_fd), O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

// Reads until the text.
static void await_text(int fd, const char *text) {
    char seen[1 << 16];
    size_t size = 0;
    for (;;) {
        ssize_t n = read(fd, seen + size, 1);
        if (n != 1) fail_msg("no \"%s\"", text);
        seen[++size] = '\0';
        if (size >= strlen(text) && strcmp(seen + size - strlen(text), text) == 0) return;
        if (size == sizeof seen - 1) size = 0;
    }
}

static void expect_restored(int terminal_fd) {
    struct termios now;
    assert_int_equal(tcgetattr(terminal_fd, &now), 0);
    assert_true(now.c_lflag & ECHO);
    assert_true(now.c_lflag & ICANON);
}

static void top_gives_the_terminal_back(void **state) {
    (void)state;
    job j = start_job("");
    for (int way = 0; way < 3; way++) {
        int other_fd, terminal_fd = open_terminal(&other_fd);
        launched top =
            launch_with((const char *const[]){ "gradwire", "top", "--interval=0.1", j.pid, NULL },
                        dup(terminal_fd), dup(terminal_fd), -1);
        await_text(other_fd, "; by rank");
        assert_int_equal(write(other_fd, "s", 1), 1);
        await_text(other_fd, "; by calls");
        if (way == 0) assert_int_equal(write(other_fd, "q", 1), 1);
        if (way == 1) kill(top.pid, SIGINT);
        if (way == 2) kill(top.pid, SIGTERM);
        await_text(other_fd, "\033[?25h\033[?1049l");
        result r = finish(top);
        assert_int_equal(r.code, 0);
        expect_restored(terminal_fd);
        close(terminal_fd);
        close(other_fd);
        forget(r);
    }
    end_job(&j);
}

static void files_of_two_hosts_are_aligned_with_a_warning(void **state) {
    (void)state;
    path folder = make_folder(), a = in_folder(folder, "a.gwt"), b = in_folder(folder, "b.gwt");
    path out = in_folder(folder, "t.json");
    images x;
    images_open(&x, 2);
    snprintf(x.of[1].host, sizeof x.of[1].host, "b");
    for (int i = 0; i < 2; i++) {
        x.of[i].opened.wall_ns = 1000;
        images_record(&x, i, TRACE_MARK, 5000 + i, "here");
    }
    assert_true(dump_write(a.text, &x.of[0], 1));
    assert_true(dump_write(b.text, &x.of[1], 1));
    result r = RUN("trace", "--json", "-o", out.text, a.text, b.text);
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.err, "the clock of host b is aligned by wall time, as there are no "
                                  "messages in both directions; the order of events is not "
                                  "certain\n"));
    assert_int_equal(count_in(r.err, "\n"), 1);
    trace_lines t = trace_lines_of_json(out.text);
    assert_int_equal(COUNT(&t, "instant|worker1, host b, attempt 0/main|here|mark|5001|"), 1);
    assert_int_equal(COUNT(&t, "|clock of the host|"), 2);
    trace_lines_free(&t);
    forget(r);
    images_close(&x);
    remove_folder(folder);
}

// The launcher has its memory open.
static void a_killed_worker_is_in_the_trace(void **state) {
    (void)state;
    path folder = make_folder(), file = in_folder(folder, "t.json");
    launched l =
        launch_command("GW_FLIGHT=all exec ./gradwire run -n2 --on-failure=keep -- ./case-traced");
    char pid[16];
    snprintf(pid, sizeof pid, "%d", (int)l.pid);
    read_line(l.out_fd, "[0] ready ");
    json_t *all = top_of(pid, "--interval=0");
    kill((pid_t)number_of(worker_of(all, 1), "pid"), SIGKILL);
    json_decref(all);
    for (bool is_seen = false; !is_seen; json_decref(all)) {
        all = top_of(pid, "--interval=0");
        is_seen = strcmp(text_of(worker_of(all, 1), "state"), "ended") == 0;
    }
    expect_done(RUN("trace", "--json", "-o", file.text, pid));
    trace_lines t = trace_lines_of_json(file.text);
    assert_int_equal(COUNT(&t, "slice|worker1, host ", ", attempt 0, ended/", "|inner|span|"), 3);
    assert_int_equal(COUNT(&t, "slice|worker0, host ", ", attempt 0/", "|inner|span|"), 3);
    trace_lines_free(&t);
    close_input(&l);
    forget(finish(l));
    remove_folder(folder);
}

GW_TESTS(trace, files_of_two_hosts_are_aligned_with_a_warning, a_killed_worker_is_in_the_trace,
         a_running_job_and_its_dump_have_the_same_trace, what_is_wrong_is_one_sentence,
         a_trace_that_cannot_be_written_leaves_the_old_file, top_has_rates_and_waits,
         top_has_peers_and_memory, top_prints_lines_into_a_pipe_until_the_job_ends,
         top_gives_the_terminal_back);
