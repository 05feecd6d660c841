// What the page of a job knows of its workers: starts, ends, limits, and what a job without progress waits for.
#include "testing/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/images.h"
#include "../support/rows.h"
#include "monitor/site.h"

static const char *event(const model *m, int index) {
    const model_event *e = model_event_at(m, index);
    return e ? e->text : "";
}

static const char *state_of(const model *m, int index) {
    assert_true(index < m->count);
    return model_worker_state(m->workers[index]);
}

static void workers_start_stop_and_end(void **state) {
    (void)state;
    model *m = model_open(NULL);
    assert_int_equal(model_state_of(m), MODEL_AWAITS_WORKERS);
    assert_int_equal(site_health(m), 503);
    live_row rows[] = { rows_make(1), rows_make(0) };
    rows_update(m, rows, 2, 1);
    assert_string_equal(m->job, "job");
    assert_int_equal(model_state_of(m), MODEL_RUNS);
    assert_string_equal(m->workers[0]->row.worker, "worker0");  // by rank
    assert_string_equal(event(m, 0), "worker0 runs, pid 1000");
    assert_string_equal(event(m, 1), "worker1 runs, pid 1001");
    rows[0].life = IMAGE_STOPPED;
    rows_update(m, rows, 2, 2);
    assert_string_equal(state_of(m, 1), "stopped");
    assert_string_equal(event(m, 0), "worker1 is stopped (SIGSTOP)");
    rows[0].life = IMAGE_RUNS;
    rows[1].phase = "left";
    rows_update(m, rows, 2, 3);
    assert_string_equal(state_of(m, 0), "left");
    assert_string_equal(state_of(m, 1), "serving");
    rows_update(m, rows, 1, 4);  // the process of worker0 has ended, and its memory is gone
    assert_int_equal(m->count, 2);
    assert_string_equal(event(m, 0), "the process of worker0, pid 1000, has ended");
    assert_false(model_event_at(m, 0)->is_bad);
    rows[0].life = IMAGE_HAS_ENDED;  // that of worker1 has ended, and a launcher has its memory
    rows_update(m, rows, 1, 5);
    rows_update(m, rows, 1, 6);
    assert_string_equal(state_of(m, 1), "ended");
    assert_string_equal(event(m, 0),
                        "the process of worker1, pid 1001, has ended before its worker had left "
                        "the job");
    assert_true(model_event_at(m, 0)->is_bad);
    assert_int_equal(model_state_of(m), MODEL_HAS_ENDED);
    assert_int_equal(site_health(m), 503);
    model_counts c = model_count(m);
    assert_int_equal(c.workers, 2);
    assert_int_equal(c.left, 1);
    assert_int_equal(c.ended, 1);
    assert_int_equal(c.running + c.stopped, 0);
    model_close(m);
}

// The process is seen before its worker has opened, and stays one row.
static void a_worker_that_opens_late_is_the_row_of_its_process(void **state) {
    (void)state;
    model *m = model_open("job");
    live_row row = rows_make(0), bare = row;
    bare.worker[0] = '\0';
    bare.rank = bare.agent = -1;
    bare.phase = "-";
    rows_update(m, &bare, 1, 1);
    assert_string_equal(state_of(m, 0), "runs");
    assert_string_equal(model_worker_name(m->workers[0]), "train");
    assert_int_equal(m->event_count, 0);
    rows_update(m, &row, 1, 2);
    assert_int_equal(m->count, 1);
    assert_string_equal(event(m, 0), "worker0 runs, pid 1000");
    model_close(m);
}

static void the_next_attempt_is_before_the_last_one(void **state) {
    (void)state;
    model *m = model_open("job");
    live_row row = rows_make(0);
    rows_update(m, &row, 1, 1);
    row.pid = 2000;
    row.attempt = 1;
    rows_update(m, &row, 1, 2);
    assert_int_equal(m->count, 2);
    assert_string_equal(state_of(m, 0), "serving");
    assert_string_equal(state_of(m, 1), "ended");
    assert_string_equal(event(m, 1), "worker0 runs, pid 2000, attempt 1");
    model_counts c = model_count(m);
    assert_int_equal(c.workers, 1);
    assert_int_equal(c.running, 1);
    assert_int_equal(c.ended, 0);
    model_close(m);
}

// A day of virtual time in which each worker lives for ten seconds: the oldest ended ones make room.
static void the_memory_is_bounded_for_a_day(void **state) {
    (void)state;
    enum { WORKERS = 16, DAY = 86400 };
    model *m = model_open("job");
    live_row rows[WORKERS];
    for (int i = 0; i < WORKERS; i++) rows[i] = rows_make(i);
    for (int64_t t = 1; t <= testing_scaled(DAY); t++) {
        for (int i = 0; i < WORKERS && t % 10 == 0; i++) {
            rows[i].pid += WORKERS;
            rows[i].attempt++;
        }
        rows_update(m, rows, WORKERS, t);
        assert_true(m->count <= MODEL_WORKERS_MAX);
        assert_int_equal(m->left_out, 0);
    }
    int running = model_count(m).running, events = 0;
    while (model_event_at(m, events)) events++;
    assert_int_equal(running, WORKERS);
    assert_int_equal(events, MODEL_EVENTS_MAX);
    if (testing_scaled(DAY) == DAY) assert_int_equal(m->count, MODEL_WORKERS_MAX);
    model_close(m);
}

static void workers_beyond_the_limit_are_counted(void **state) {
    (void)state;
    enum { COUNT = MODEL_WORKERS_MAX + 3 };
    model *m = model_open("job");
    live_row *rows = calloc(COUNT, sizeof *rows);
    assert_non_null(rows);
    for (int i = 0; i < COUNT; i++) rows[i] = rows_make(i);
    rows_update(m, rows, COUNT, 1);
    assert_int_equal(m->count, MODEL_WORKERS_MAX);
    assert_int_equal(m->left_out, 3);
    rows_update(m, rows + 1, COUNT - 1, 2);  // one has ended
    rows_update(m, rows + 1, COUNT - 1, 3);  // and makes room
    assert_int_equal(m->left_out, 2);
    assert_int_equal(model_count(m).running, MODEL_WORKERS_MAX);
    free(rows);
    model_close(m);
}

static void sums_count_each_process_once(void **state) {
    (void)state;
    model *m = model_open("job");
    live_row rows[] = { rows_make(0), rows_make(1), rows_make(2) };
    rows[1].pid = rows[0].pid;  // a second worker of the first process
    rows[1].agent = 1;
    rows_update(m, rows, 3, 1);
    int64_t now = m->now_ms / 1000;
    assert_int_equal(m->count, 3);
    assert_true(history_value(&m->total, HISTORY_BY_SECOND, HISTORY_CALLS_MADE, now, 0) == 30);
    assert_true(history_value(&m->total, HISTORY_BY_SECOND, HISTORY_MEMORY, now, 0) == 2000000);
    model_close(m);
}

// ---- Progress -----------------------------------------------------------------------------------

typedef struct job {
    images images;
    live_row rows[2];
    model *model;
} job;

static void look(job *j, int64_t second) {
    int64_t now_ns = IMAGES_NOW_NS + second * INT64_C(1000000000);
    for (int i = 0; i < 2; i++) {
        j->images.of[i].taken.monotonic_ns = now_ns;
        images_table(&j->images, i)->now_ns = now_ns;
    }
    model_update(j->model, j->rows, 2, j->images.of, 2, now_ns / 1000000, second);
}

static job open_job(void) {
    job j = { .rows = { rows_make(0), rows_make(1) }, .model = model_open("job") };
    images_open(&j.images, 2);
    return j;
}

static void close_job(job *j) {
    images_close(&j->images);
    model_close(j->model);
}

static void a_job_without_progress_has_roots_and_continues(void **state) {
    (void)state;
    job j = open_job();
    trace_activity *a = images_add(&j.images, 0, TRACE_WAITS_COLLECTIVE, "all_reduce", 0);
    IMAGES_SET(a->in, "world");
    images_wait_for(a, 1);
    look(&j, 0);
    for (int64_t t = 1; t < 10; t++) {
        look(&j, t);
        assert_int_equal(model_state_of(j.model), MODEL_RUNS);
        assert_int_equal(j.model->finding_count, 0);
    }
    look(&j, 10);
    assert_int_equal(model_state_of(j.model), MODEL_IS_STUCK);
    assert_int_equal(site_health(j.model), 200);
    assert_int_equal(j.model->finding_count, 2);
    assert_non_null(strstr(j.model->findings[0].text, "worker1 (pid 1001) computes"));
    assert_int_equal(j.model->findings[0].depth, 0);
    assert_non_null(strstr(j.model->findings[1].text, "worker0 waits in all_reduce"));
    assert_int_equal(j.model->findings[1].depth, 1);
    look(&j, 59);
    assert_null(strstr(event(j.model, 0), "has ended for 60 s"));
    look(&j, 60);
    look(&j, 61);
    assert_int_equal(site_health(j.model), 503);
    assert_non_null(strstr(event(j.model, 0), "has ended for 60 s"));
    assert_null(strstr(event(j.model, 1), "has ended for 60 s"));
    images_table(&j.images, 0)->activity_count = 0;
    images_table(&j.images, 0)->counters[TRACE_COLLECTIVES]++;
    look(&j, 62);
    assert_int_equal(model_state_of(j.model), MODEL_RUNS);
    assert_int_equal(site_health(j.model), 200);
    assert_int_equal(j.model->finding_count, 0);
    assert_string_equal(event(j.model, 0), "calls and collectives end again");
    close_job(&j);
}

// Programs that compute, a wait of a process that has ended, and a pending shutdown are no hang.
static void a_job_in_which_nothing_waits_is_not_stuck(void **state) {
    (void)state;
    job j = open_job();
    images_add(&j.images, 0, TRACE_RUNS, "slow", 0);
    images_add(&j.images, 0, TRACE_WAITS_SHUTDOWN, "gw_rpc_shutdown", 0);
    images_add(&j.images, 1, TRACE_WAITS_OTHER, "a future", 0);
    j.images.of[1].life = IMAGE_HAS_ENDED;
    for (int64_t t = 0; t < 200; t += 10) {
        look(&j, t);
        assert_int_equal(model_state_of(j.model), MODEL_RUNS);
    }
    assert_int_equal(j.model->finding_count, 0);
    close_job(&j);
}

GW_TESTS(monitor_model, workers_start_stop_and_end,
         a_worker_that_opens_late_is_the_row_of_its_process,
         the_next_attempt_is_before_the_last_one, the_memory_is_bounded_for_a_day,
         workers_beyond_the_limit_are_counted, sums_count_each_process_once,
         a_job_without_progress_has_roots_and_continues, a_job_in_which_nothing_waits_is_not_stuck);
