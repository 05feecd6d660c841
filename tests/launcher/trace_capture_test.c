// Records that are read while they are written, and levels that are switched on meanwhile.
#include "testing/testing.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../support/launched.h"
#include "../support/levels.h"
#include "../support/memories.h"
#include "../support/trace_lines.h"
#include "observe/capture.h"
#include "observe/dump.h"
#include "observe/find.h"
#include "observe/levels.h"
#include "recorder/recorder.h"
#include "recorder/recorder_main.h"

// ---- A memory made by hand ----------------------------------------------------------------------

// Another description of the file, as another process has it.
static int open_again(const memory *m, int flags) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", m->fd);
    int fd = open(path, flags | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static capture *open_capture(const memory *m, capture_options o) {
    char why[IMAGE_WHY_SIZE] = "";
    capture *c = capture_open(&o);
    assert_non_null(c);
    if (!capture_add(c, open_again(m, O_RDWR), why, sizeof why)) fail_msg("%s", why);
    return c;
}

// Records |from| to |until| - 1 of the first thread.
static void write_kind(const memory *m, uint64_t from, uint64_t until, trace_kind kind) {
    for (uint64_t i = from; i < until; i++) memory_write_record(m, 0, i, kind, 0);
    memory_thread_row(m, 0)->head = until;
}

static void write_marks(const memory *m, uint64_t from, uint64_t until) {
    write_kind(m, from, until, TRACE_MARK);
}

static image finish_capture(capture *c) {
    image *images;
    int count;
    assert_true(capture_finish(c, &images, &count));
    assert_int_equal(count, 1);
    image x = images[0];
    free(images);
    capture_close(c);
    return x;
}

// The records are those with ids |from| to |until| - 1.
static void expect_ids(const image *x, uint64_t from, uint64_t until) {
    assert_int_equal(x->thread_count, 1);
    assert_int_equal(x->threads[0].record_count, until - from);
    for (uint64_t i = from; i < until; i++) assert_int_equal(x->threads[0].records[i - from].id, i);
}

static void more_records_are_kept_than_a_ring_has(void **state) {
    (void)state;
    enum { EACH = 700, READS = 10 };
    memory m = memory_open(100);
    capture *c = open_capture(&m, (capture_options){ .levels = TRACE_ALL });
    for (uint64_t i = 0; i < READS; i++) {
        write_marks(&m, 100 + i * EACH, 100 + (i + 1) * EACH);
        assert_in_range(capture_read(c), CAPTURE_READ_MIN_MS, CAPTURE_READ_MAX_MS);
    }
    write_marks(&m, 100 + READS * EACH, 105 + READS * EACH);  // since the last read
    image x = finish_capture(c);
    // Those that were there before are not of the time of the capture.
    expect_ids(&x, 100, 105 + READS * EACH);
    assert_int_equal(x.threads[0].lost, 0);
    assert_int_equal(x.threads[0].overtaken, 0);
    assert_string_equal(x.agents[0].name, "ps");
    for (uint32_t i = 1; i < x.threads[0].record_count; i++)
        assert_true(x.threads[0].records[i].at_ns > x.threads[0].records[i - 1].at_ns);
    image_free(&x);
    memory_close(&m);
}

static void full_rings_are_read_more_often(void **state) {
    (void)state;
    memory m = memory_open(0);
    capture *c = open_capture(&m, (capture_options){ .levels = TRACE_ALL });
    assert_int_equal(capture_read(c), CAPTURE_READ_MAX_MS);
    write_marks(&m, 0, MEMORIES_RECORDS / 2);
    assert_int_equal(capture_read(c), CAPTURE_READ_MAX_MS / 2);
    write_marks(&m, MEMORIES_RECORDS / 2, MEMORIES_RECORDS);
    assert_int_equal(capture_read(c), CAPTURE_READ_MAX_MS / 4);
    assert_int_equal(capture_read(c), CAPTURE_READ_MAX_MS);
    capture_close(c);
    memory_close(&m);
}

static void records_that_are_overwritten_first_are_counted(void **state) {
    (void)state;
    memory m = memory_open(0);
    capture *c = open_capture(&m, (capture_options){ .levels = TRACE_ALL });
    write_marks(&m, 0, 10);
    capture_read(c);
    write_marks(&m, 10, 10 + 3 * MEMORIES_RECORDS);
    image x = finish_capture(c);
    // The oldest of the ring may be one that is being written.
    assert_int_equal(x.threads[0].record_count, 10 + 1 + MEMORIES_RECORDS - 1);
    assert_int_equal(x.threads[0].records[10].kind, TRACE_OVERTAKEN);
    assert_int_equal(x.threads[0].records[10].value, 2 * MEMORIES_RECORDS + 1);
    assert_true(x.threads[0].records[10].at_ns == x.threads[0].records[11].at_ns);
    assert_int_equal(x.threads[0].overtaken, 2 * MEMORIES_RECORDS + 1);
    assert_int_equal(x.threads[0].lost, 2 * MEMORIES_RECORDS + 1);
    image_free(&x);
    memory_close(&m);
}

static void later_records_are_left_out_when_there_is_no_room(void **state) {
    (void)state;
    memory m = memory_open(0);
    capture *c = open_capture(&m, (capture_options){ .levels = TRACE_ALL, .records_max = 100 });
    write_marks(&m, 0, 70);
    capture_read(c);
    write_marks(&m, 70, 150);
    capture_read(c);
    image x = finish_capture(c);
    expect_ids(&x, 0, 100);
    assert_int_equal(x.threads[0].left_out, 50);
    assert_int_equal(x.threads[0].lost, 0);
    image_free(&x);
    memory_close(&m);
}

static void a_head_that_goes_back_does_no_harm(void **state) {
    (void)state;
    memory m = memory_open(0);
    capture *c = open_capture(&m, (capture_options){ .levels = TRACE_ALL });
    write_marks(&m, 0, 50);
    capture_read(c);
    memory_thread_row(&m, 0)->head = 3;
    capture_read(c);
    memory_thread_row(&m, 0)->head = UINT64_MAX;
    capture_read(c);
    memory_thread_row(&m, 0)->head = 0;
    image x = finish_capture(c);
    assert_int_equal(x.threads[0].record_count, 51);
    assert_int_equal(x.threads[0].records[50].kind, TRACE_OVERTAKEN);
    x.threads[0].record_count = 50;
    expect_ids(&x, 0, 50);
    image_free(&x);
    memory_close(&m);
}

// ---- Steps --------------------------------------------------------------------------------------

// Records |at| to |at| + 2 are a mark, the begin and the end of a step.
static uint64_t write_step(const memory *m, uint64_t at) {
    memory_write_record(m, 0, at, TRACE_MARK, 0);
    memory_write_record(m, 0, at + 1, TRACE_STEP_BEGUN, 0);
    memory_write_record(m, 0, at + 2, TRACE_STEP_ENDED, 0);
    memory_thread_row(m, 0)->head = at + 3;
    return at + 3;
}

static void only_the_wanted_steps_are_kept(void **state) {
    (void)state;
    for (int per_read = 1; per_read < 20; per_read++) {
        memory m = memory_open(0);
        capture *c = open_capture(
            &m, (capture_options){ .levels = TRACE_ALL, .first_step = 4, .last_step = 6 });
        uint64_t at = 0;
        for (int step = 1; step <= 20; step++) {
            assert_true(step > 6 || !capture_is_over(c));
            at = write_step(&m, at);
            if (step % per_read == 0) capture_read(c);
        }
        capture_read(c);
        assert_true(capture_is_over(c));
        // Nothing is recorded for it any more.
        assert_int_equal(memory_header(&m)->levels, TRACE_DEFAULT);
        image x = finish_capture(c);
        // From the end of step 3 on, without it, to that of step 6.
        expect_ids(&x, 9, 18);
        image_free(&x);
        memory_close(&m);
    }
}

static void steps_of_an_elastic_job_have_numbers(void **state) {
    (void)state;
    memory m = memory_open(0);
    capture *c = open_capture(
        &m, (capture_options){ .levels = TRACE_ALL, .first_step = 102, .last_step = 102 });
    for (uint64_t i = 0; i < 200; i++)
        memory_write_record(&m, 0, i, i % 2 ? TRACE_ELASTIC_STEP : TRACE_STEP_ENDED, 0);
    memory_thread_row(&m, 0)->head = 200;
    capture_read(c);
    assert_true(capture_is_over(c));
    image x = finish_capture(c);
    expect_ids(&x, 102, 104);  // 103 is the first record whose number is not before the range
    image_free(&x);
    memory_close(&m);
}

// ---- The recorder of gradwire run ---------------------------------------------------------------

// A memory that another tool traces is not in the trace, and the launcher prints why.
static void a_recorder_says_which_memories_are_left_out(void **state) {
    (void)state;
    path folder = make_folder(), file = in_folder(folder, "t.json");
    trace_option o = { .levels = TRACE_CALL };
    snprintf(o.file, sizeof o.file, "%s", file.text);
    for (int readable = 0; readable < 2; readable++) {
        recorder r;
        memory m[2] = { memory_open(3), memory_open(3) };
        char text[RECORDER_TEXT_SIZE], why[IMAGE_WHY_SIZE];
        int locked = open_again(&m[0], O_RDWR);
        assert_true(levels_switch_on(locked, TRACE_PASS, why, sizeof why));
        assert_true(recorder_open(&r, &o));
        for (int i = 0; i <= readable; i++) assert_true(recorder_add(&r, m[i].fd));
        recorder_finish(&r, file.text, text, sizeof text);
        testing_note("%s", text);
        snprintf(why, sizeof why, "process %d traces it at the moment", (int)getpid());
        assert_non_null(strstr(text, why));
        assert_non_null(
            strstr(text, readable ? "the trace of 1 worker process is in " : "there is no trace"));
        close(locked);
        for (int i = 0; i < 2; i++) memory_close(&m[i]);
    }
    remove_folder(folder);
}

// ---- Levels -------------------------------------------------------------------------------------

static void levels_are_as_before_when_a_capture_ends(void **state) {
    (void)state;
    memory m = memory_open(0);
    memory_header(&m)->own_levels = memory_header(&m)->levels = TRACE_COLL;
    capture *c = open_capture(&m, (capture_options){ .levels = TRACE_CALL });
    assert_int_equal(memory_header(&m)->levels, TRACE_COLL | TRACE_CALL);
    assert_int_equal(memory_header(&m)->tracer, getpid());
    capture_stop(c);
    assert_int_equal(memory_header(&m)->levels, TRACE_COLL);
    assert_int_equal(memory_header(&m)->tracer, 0);
    atomic_store(&memory_header(&m)->levels, TRACE_JOB);  // now they are another one's
    capture_close(c);
    assert_int_equal(memory_header(&m)->levels, TRACE_JOB);
    memory_close(&m);
}

// As of a rank that starts after the time of the trace.
static void a_memory_that_is_taken_after_the_end_has_its_levels(void **state) {
    (void)state;
    memory m[3];
    char why[IMAGE_WHY_SIZE];
    capture *c = capture_open(&(capture_options){ .levels = TRACE_CALL, .from_start = true });
    for (int i = 0; i < 3; i++) {
        m[i] = memory_open(0);
        if (i) memory_header(&m[i])->magic[0] = '\0';  // not taken yet
        if (i) memory_header(&m[i])->own_levels = memory_header(&m[i])->levels = 0;
        if (i) levels_request(m[i].fd, TRACE_CALL);
        if (i < 2) assert_true(capture_add(c, open_again(&m[i], O_RDWR), why, sizeof why));
    }
    capture_read(c);
    capture_end(c);
    assert_int_equal(memory_header(&m[0])->levels, TRACE_DEFAULT);
    assert_true(capture_is_pending(c));
    assert_true(capture_add(c, open_again(&m[2], O_RDWR), why, sizeof why));
    for (int i = 1; i < 3; i++) {
        assert_int_equal(memory_header(&m[i])->levels, TRACE_CALL);
        // As a process does that takes it.
        memory_header(&m[i])->own_levels = TRACE_JOB;
        memory_header(&m[i])->magic[0] = TRACE_MAGIC[0];
        memory_header(&m[i])->levels = TRACE_JOB | TRACE_CALL;
    }
    capture_read(c);
    for (int i = 1; i < 3; i++) assert_int_equal(memory_header(&m[i])->levels, TRACE_JOB);
    assert_false(capture_is_pending(c));
    image x = finish_capture(c);  // of the first one
    assert_int_equal(x.pid, 77);
    image_free(&x);
    for (int i = 0; i < 3; i++) memory_close(&m[i]);
}

static void a_second_capture_is_refused(void **state) {
    (void)state;
    memory m = memory_open(0);
    char why[IMAGE_WHY_SIZE], expected[64];
    capture *c = open_capture(&m, (capture_options){ .levels = TRACE_CALL });
    capture *other = capture_open(&(capture_options){ .levels = TRACE_ALL });
    assert_false(capture_add(other, open_again(&m, O_RDWR), why, sizeof why));
    snprintf(expected, sizeof expected, "process %d traces it at the moment", (int)getpid());
    assert_string_equal(why, expected);
    assert_int_equal(memory_header(&m)->levels, TRACE_DEFAULT | TRACE_CALL);
    // The same memory again is no error.
    assert_true(capture_add(c, open_again(&m, O_RDWR), why, sizeof why));
    capture_close(c);
    assert_true(capture_add(other, open_again(&m, O_RDWR), why, sizeof why));
    capture_close(other);
    assert_int_equal(memory_header(&m)->levels, TRACE_DEFAULT);
    memory_close(&m);
}

static void levels_that_a_killed_tool_has_left_are_switched_back_by_the_next(void **state) {
    (void)state;
    memory m = memory_open(0);
    char why[IMAGE_WHY_SIZE];
    int fd = open_again(&m, O_RDWR);
    assert_true(levels_switch_on(fd, TRACE_ALL, why, sizeof why));
    close(fd);  // as the kernel does
    assert_int_equal(memory_header(&m)->levels, TRACE_ALL);
    capture_close(open_capture(&m, (capture_options){ .levels = TRACE_CALL }));
    assert_int_equal(memory_header(&m)->levels, TRACE_DEFAULT);
    memory_close(&m);
}

typedef struct taker {
    memory m;
    _Atomic bool begins;
} taker;

// As region.c does.
static void *take_memory(void *context) {
    taker *t = context;
    trace_header *h = memory_header(&t->m);
    while (!t->begins) sched_yield();
    atomic_exchange(&h->own_levels, TRACE_JOB);
    h->magic[0] = TRACE_MAGIC[0];
    atomic_fetch_or(&h->levels, TRACE_JOB);
    return NULL;
}

// A tool that switches levels on while a process takes the memory loses none of both.
static void levels_are_added_while_a_process_takes_the_memory(void **state) {
    (void)state;
    char why[IMAGE_WHY_SIZE];
    for (int i = 0; i < 100; i++) {
        taker t = { .m = memory_open(0) };
        pthread_t thread;
        trace_header *h = memory_header(&t.m);
        h->magic[0] = '\0';
        h->own_levels = h->levels = 0;
        assert_int_equal(pthread_create(&thread, NULL, take_memory, &t), 0);
        int fd = open_again(&t.m, O_RDWR);
        t.begins = true;
        assert_true(levels_switch_on(fd, TRACE_CALL, why, sizeof why));
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(h->levels, TRACE_JOB | TRACE_CALL);
        levels_switch_back(fd);
        assert_int_equal(h->levels, TRACE_JOB);
        close(fd);
        memory_close(&t.m);
    }
}

static void a_memory_that_cannot_be_written_is_refused(void **state) {
    (void)state;
    memory m = memory_open(0);
    char why[IMAGE_WHY_SIZE];
    capture *c = capture_open(&(capture_options){ .levels = TRACE_ALL });
    assert_false(capture_add(c, open_again(&m, O_RDONLY), why, sizeof why));
    assert_non_null(strstr(why, "its levels cannot be written"));
    assert_int_equal(memory_header(&m)->levels, TRACE_DEFAULT);
    capture_close(c);
    memory_close(&m);
}

// ---- A job that runs ----------------------------------------------------------------------------

typedef struct job {
    launched l;
    char pid[16];  // of the launcher
} job;

// Rank 0 calls rank 1 without end.
static job start_job(void) {
    job j = { .l = launch_command("exec ./gradwire run -n2 -- ./case-traced calls") };
    read_line(j.l.out_fd, "[0] ready ");
    snprintf(j.pid, sizeof j.pid, "%d", (int)j.l.pid);
    return j;
}

static void end_job(job *j) {
    close_input(&j->l);
    result r = finish(j->l);
    assert_int_equal(r.code, 0);
    forget(r);
}

static void a_running_job_is_traced_for_a_time(void **state) {
    (void)state;
    path folder = make_folder(), json = in_folder(folder, "t.json");
    job j = start_job();
    int calls = 0;
    while (!calls) {
        result r = RUN("trace", "--seconds=0.3", "-o", json.text, j.pid);
        testing_note("%s", r.err);
        assert_int_equal(r.code, 0);
        forget(r);
        assert_int_equal(levels_of_job(j.l.pid), TRACE_DEFAULT);
        trace_lines t = trace_lines_of_json(json.text);
        calls = COUNT(&t, "slice|worker0", "calls to worker1|twice|call|");
        // The work of before is not of that time.
        assert_int_equal(COUNT(&t, "|inner|span|"), 0);
        trace_lines_free(&t);
    }
    end_job(&j);
    remove_folder(folder);
}

static void a_signal_ends_a_trace_and_the_levels_are_as_before(void **state) {
    (void)state;
    static const int signals[] = { SIGINT, SIGTERM };
    path folder = make_folder(), records = in_folder(folder, "t.gwt");
    job j = start_job();
    for (int i = 0; i < 2; i++) {
        launched l =
            LAUNCH("trace", "--seconds=3600", "--levels=call,pass", "-o", records.text, j.pid);
        await_levels_of_job(j.l.pid, TRACE_DEFAULT | TRACE_CALL);
        kill(l.pid, signals[i]);
        result r = finish(l);
        assert_int_equal(r.code, 0);
        assert_non_null(strstr(r.err, i ? "Terminated after " : "Interrupt after "));
        forget(r);
        assert_int_equal(levels_of_job(j.l.pid), TRACE_DEFAULT);
        image *images;
        int count;
        char why[IMAGE_WHY_SIZE];
        assert_true(dump_read(records.text, &images, &count, why, sizeof why));
        assert_int_equal(count, 2);
        image_free_all(images, count);
    }
    end_job(&j);
    remove_folder(folder);
}

static void a_killed_trace_leaves_levels_that_the_next_switches_back(void **state) {
    (void)state;
    path folder = make_folder(), file = in_folder(folder, "t.json");
    job j = start_job();
    launched l = LAUNCH("trace", "--seconds=3600", "-o", file.text, j.pid);
    await_levels_of_job(j.l.pid, TRACE_USUAL);
    char text[128];
    result second = RUN("trace", "--seconds=1", "-o", file.text, j.pid);
    snprintf(text, sizeof text, "cannot be traced: process %d traces it at the moment\n",
             (int)l.pid);
    assert_int_equal(second.code, 1);
    assert_non_null(strstr(second.err, text));
    forget(second);
    kill(l.pid, SIGKILL);
    forget(finish(l));
    assert_int_equal(levels_of_job(j.l.pid), TRACE_USUAL);
    result r = RUN("trace", "--seconds=0.01", "-o", file.text, j.pid);
    assert_int_equal(r.code, 0);
    forget(r);
    assert_int_equal(levels_of_job(j.l.pid), TRACE_DEFAULT);
    end_job(&j);
    remove_folder(folder);
}

static void the_end_of_the_job_ends_a_trace(void **state) {
    (void)state;
    path folder = make_folder(), file = in_folder(folder, "t.json");
    job j = start_job();
    launched l = LAUNCH("trace", "--seconds=3600", "-o", file.text, j.pid);
    await_levels_of_job(j.l.pid, TRACE_USUAL);
    end_job(&j);
    result r = finish(l);
    assert_int_equal(r.code, 0);
    assert_string_equal(r.err, "");
    forget(r);
    trace_lines t = trace_lines_of_json(file.text);
    assert_true(COUNT(&t, "instant|worker0", "leaves the job") > 0);
    trace_lines_free(&t);
    remove_folder(folder);
}

static void expect_refused(result r, const char *text) {
    testing_note("%s", r.err);
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, text));
    assert_int_equal(count_in(r.err, "\n"), 1);
    forget(r);
}

static void what_is_wrong_is_one_sentence(void **state) {
    (void)state;
    expect_refused(RUN("trace", "-o", "t", "--seconds=0"), "--seconds takes a time, not 0");
    expect_refused(RUN("trace", "-o", "t", "--seconds=1000000000"), "--seconds takes seconds");
    expect_refused(RUN("trace", "-o", "t", "--seconds=1", "x.gwt"), "not for a file");
    expect_refused(RUN("trace", "-o", "t", "--levels=call"), "--levels is for --seconds");
    expect_refused(RUN("trace", "-o", "t", "--seconds=1", "--levels=call,calm"),
                   "calm is no level; there are job, coll, pass");
    expect_refused(RUN("trace", "-o", "t", "--seconds=1", "--last=1"), "exclude each other");
}

GW_TESTS(trace_capture, more_records_are_kept_than_a_ring_has, full_rings_are_read_more_often,
         records_that_are_overwritten_first_are_counted,
         later_records_are_left_out_when_there_is_no_room, a_head_that_goes_back_does_no_harm,
         only_the_wanted_steps_are_kept, steps_of_an_elastic_job_have_numbers,
         a_recorder_says_which_memories_are_left_out, levels_are_as_before_when_a_capture_ends,
         a_memory_that_is_taken_after_the_end_has_its_levels, a_second_capture_is_refused,
         levels_that_a_killed_tool_has_left_are_switched_back_by_the_next,
         levels_are_added_while_a_process_takes_the_memory,
         a_memory_that_cannot_be_written_is_refused, a_running_job_is_traced_for_a_time,
         a_signal_ends_a_trace_and_the_levels_are_as_before,
         a_killed_trace_leaves_levels_that_the_next_switches_back, the_end_of_the_job_ends_a_trace,
         what_is_wrong_is_one_sentence);
