// Hang reports of jobs whose tables are made by hand: each rule of tools/gradwire/observe/graph.c.
#include "testing/testing.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "../support/images.h"
#include "observe/hang.h"
#include "trace/kinds.h"

// The report with |o|; the text is to be freed.
static char *report_with(const images *x, const hang_options *o, int *out_count) {
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    assert_non_null(f);
    *out_count = hang_report(x->of, x->count, o, f);
    assert_int_equal(fclose(f), 0);
    return text;
}

// Checks the report as text: the count of roots and cycles, and what it contains.
static void expect(const images *x, int count, const char *const *parts) {
    int found;
    char *text = report_with(x, &(hang_options){ .job = "job" }, &found);
    testing_note("%s", text);
    assert_int_equal(found, count);
    for (; *parts; parts++)
        if (!strstr(text, *parts)) fail_msg("no \"%s\" in\n%s", *parts, text);
    free(text);
}
#define EXPECT(x, count, ...) expect(x, count, (const char *const[]){ __VA_ARGS__, NULL })

static trace_activity *add_reply(images *x, int rank, int callee, uint64_t number,
                                 const char *function) {
    trace_activity *a = images_add(x, rank, TRACE_WAITS_REPLY, function, 61);
    a->number = number;
    images_wait_for(a, callee);
    return a;
}

static trace_activity *add_barrier(images *x, int rank, int missing) {
    trace_activity *a = images_add(x, rank, TRACE_WAITS_COLLECTIVE, "barrier", 60);
    a->number = 1;
    IMAGES_SET(a->in, "world");
    images_wait_for(a, missing);
    return a;
}

static void an_empty_job_has_neither_roots_nor_cycles(void **state) {
    (void)state;
    images x;
    images_open(&x, 3);
    EXPECT(&x, 0, "job job, 3 workers\n", "no worker waits\n");
    images_close(&x);
    images_open(&x, 0);
    EXPECT(&x, 0, "job job, 0 workers\n", "no worker waits\n");
}

static void a_body_that_computes_is_the_root_of_its_callers(void **state) {
    (void)state;
    images x;
    images_open(&x, 3);
    IMAGES_SET(add_reply(&x, 1, 2, 14, "slow")->site, "hang.c:11");
    images_add_of(&x, 2, TRACE_RUNS, "slow", 61, 1, 14);
    images_add_of(&x, 2, TRACE_RUNS, "other", 5, 1, 15);
    add_barrier(&x, 0, 1);
    EXPECT(&x, 1, "root   worker2 (pid 1002) runs slow, called by worker1, for 61 s\n",
           "  worker1 waits for call 14 of slow at worker2 (hang.c:11), for 61 s\n",
           "    worker0 waits in barrier 1 of group \"world\" for worker1, for 60 s\n");
    images_close(&x);
}

static void a_body_that_waits_is_followed(void **state) {
    (void)state;
    images x;
    images_open(&x, 3);
    add_reply(&x, 0, 1, 3, "f");
    images_add_of(&x, 1, TRACE_RUNS, "f", 61, 0, 3);
    trace_activity *inner = images_add_of(&x, 1, TRACE_WAITS_REPLY, "g", 60, 0, 3);
    inner->number = 8;
    images_wait_for(inner, 2);
    images_add_of(&x, 2, TRACE_RUNS, "g", 60, 1, 8);
    EXPECT(&x, 1, "root   worker2 (pid 1002) runs g, called by worker1, for 60 s\n",
           "  worker1, in a call of worker0, waits for call 8 of g at worker2, for 60 s\n",
           "    worker1 runs f, called by worker0, for 61 s\n",
           "      worker0 waits for call 3 of f at worker1, for 61 s\n");
    images_close(&x);
}

static void a_program_that_waits_nowhere_computes(void **state) {
    (void)state;
    images x;
    images_open(&x, 2);
    add_barrier(&x, 0, 1);
    EXPECT(&x, 1, "root   worker1 (pid 1001) computes in its program\n");
    images_close(&x);
}

static void a_worker_that_cannot_continue_is_a_root(void **state) {
    (void)state;
    static const struct {
        image_life life;
        bool is_open, has_table;
        const char *text;
    } rows[] = {
        { IMAGE_STOPPED, true, true, "root   worker1 (pid 1001) is stopped (SIGSTOP)\n" },
        { IMAGE_HAS_ENDED, true, true,
          "root   worker1 (pid 1001) was killed, or has ended without leaving" },
        { IMAGE_RUNS, false, true, "root   worker1 (pid 1001) has left the job\n" },
        { IMAGE_RUNS, true, false, "root   worker1 (pid 1001) has not published what it does\n" },
        { IMAGE_RUNS, true, true, "root   worker1 (pid 1001) does not have the call" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        images x;
        images_open(&x, 2);
        add_reply(&x, 0, 1, 3, "f");
        x.of[1].life = rows[i].life;
        x.of[1].agents[0].is_open = rows[i].is_open;
        if (!rows[i].has_table) {
            free(x.of[1].agents[0].table);
            x.of[1].agents[0].table = NULL;
        }
        EXPECT(&x, 1, rows[i].text, "  worker0 waits for call 3 of f at worker1, for 61 s\n");
        images_close(&x);
    }
}

static void a_worker_of_another_host_is_a_root(void **state) {
    (void)state;
    images x;
    images_open(&x, 1);
    add_barrier(&x, 0, 5);
    EXPECT(&x, 1, "root   rank 5 cannot be seen from this host\n", "  worker0 waits in barrier 1");
    images_close(&x);
    // What a caller there waits for is a root as well.
    images_open(&x, 1);
    images_add_of(&x, 0, TRACE_RUNS, "f", 7, 4, 1);
    EXPECT(&x, 1, "root   worker0 (pid 1000) runs f, called by rank 4, for 7.0 s\n");
    images_close(&x);
}

static void of_two_attempts_of_a_rank_the_one_that_lives_counts(void **state) {
    (void)state;
    images x;
    images_open(&x, 3);
    add_barrier(&x, 0, 1);
    x.of[2].agents[0].rank = 1;
    x.of[1].life = IMAGE_HAS_ENDED;
    EXPECT(&x, 1, "job job, 2 workers\n", "root   worker2 (pid 1002) computes in its program\n");
    images_close(&x);
}

// Nothing depends on the text.
static void add_queued(images *x, const char *function, uint64_t call, trace_queued queued) {
    trace_activity *a = images_add_of(x, 1, TRACE_QUEUED, function, 61, 0, call);
    a->queued = queued;
    IMAGES_SET(a->in, "anything");
}

static void a_queued_call_waits_for_the_holder_of_the_turn(void **state) {
    (void)state;
    images x;
    images_open(&x, 3);
    add_reply(&x, 0, 1, 3, "f");
    trace_activity *a = images_add_of(&x, 1, TRACE_QUEUED, "f", 61, 0, 3);
    a->queued = TRACE_QUEUED_TURN;
    IMAGES_SET(a->in, "the turn of an object of class \"c\"");
    a->number = trace_call_id(2, 9);
    images_add_of(&x, 1, TRACE_RUNS, "other", 99, 0, 2);
    images_add_of(&x, 1, TRACE_RUNS, "g", 70, 2, 9);
    EXPECT(&x, 1, "root   worker1 (pid 1001) runs g, called by worker2, for 70 s\n",
           "  worker1 has queued f, called by worker0, which waits for the turn of an object of "
           "class \"c\", for 61 s\n",
           "    worker0 waits for call 3 of f at worker1");
    images_close(&x);
}

static void a_queued_call_waits_for_the_bodies_that_run(void **state) {
    (void)state;
    images x;
    images_open(&x, 2);
    add_reply(&x, 0, 1, 3, "f");
    add_queued(&x, "f", 3, TRACE_QUEUED_THREAD);
    images_add_of(&x, 1, TRACE_RUNS, "g", 70, 0, 2);
    EXPECT(&x, 1, "root   worker1 (pid 1001) runs g, called by worker0, for 70 s\n");
    images_table(&x, 1)->activity_count = 1;
    EXPECT(&x, 1,
           "root   worker1 (pid 1001) has queued f, called by worker0, which waits for anything");
    images_close(&x);
}

static void a_queued_call_waits_for_earlier_ones_and_for_its_caller(void **state) {
    (void)state;
    images x;
    images_open(&x, 2);
    add_reply(&x, 0, 1, 3, "f");
    add_queued(&x, "f", 3, TRACE_QUEUED_ORDER);
    add_queued(&x, "e", 2, TRACE_QUEUED_ARGUMENTS);
    EXPECT(&x, 1,
           "root   worker1 (pid 1001) has queued e, called by worker0, which waits for anything");
    images_close(&x);
    images_open(&x, 3);
    add_reply(&x, 0, 1, 3, "f");
    add_queued(&x, "f", 3, TRACE_QUEUED_FLOW);
    EXPECT(&x, 1, "cycle  of 2", "worker0 waits for call 3", "worker1 has queued f");
    images_close(&x);
}

// The launcher is about to kill it; the waits of the others have failed already.
static void a_process_that_is_asked_for_is_a_root_without_waits(void **state) {
    (void)state;
    images x;
    int found;
    images_open(&x, 3);
    x.of[1].life = IMAGE_STOPPED;
    EXPECT(&x, 0, "no worker waits\n");
    char *text = report_with(&x, &(hang_options){ .pid = x.of[1].pid }, &found);
    testing_note("%s", text);
    assert_int_equal(found, 1);
    assert_non_null(strstr(text, "root   worker1 (pid 1001) is stopped (SIGSTOP)\n"));
    free(text);
    add_reply(&x, 2, 0, 3, "f");
    text = report_with(&x, &(hang_options){ .pid = x.of[2].pid }, &found);
    assert_int_equal(found, 1);  // it waits
    assert_non_null(strstr(text, "root   worker0 "));
    free(text);
    images_close(&x);
}

static void a_body_in_its_own_turn_is_a_cycle(void **state) {
    (void)state;
    images x;
    images_open(&x, 2);
    add_reply(&x, 0, 1, 3, "f");
    images_add_of(&x, 1, TRACE_RUNS, "f", 61, 0, 3);
    trace_activity *a = images_add_of(&x, 1, TRACE_WAITS_TURN, "a turn", 61, 0, 3);
    IMAGES_SET(a->in, "the turn of an object of class \"c\"");
    a->number = trace_call_id(0, 3);
    EXPECT(&x, 1, "cycle  of 2", "worker1 runs f",
           "worker1, in a call of worker0, waits for the turn of an object",
           "  worker0 waits for call 3 of f at worker1");
    // Of an unknown holder: the body of another call.
    a->number = 0;
    images_add_of(&x, 1, TRACE_RUNS, "g", 99, 0, 1);
    EXPECT(&x, 1, "root   worker1 (pid 1001) runs g, called by worker0, for 99 s\n");
    images_close(&x);
}

static void passes_and_other_waits_lead_to_the_programs_of_their_workers(void **state) {
    (void)state;
    static const trace_activity_kind kinds[] = { TRACE_WAITS_PASS, TRACE_WAITS_OTHER };
    for (int i = 0; i < 2; i++) {
        images x;
        images_open(&x, 3);
        trace_activity *a = images_add(&x, 0, kinds[i], "something", 20);
        images_wait_for(a, 1);
        images_wait_for(a, 2);
        add_barrier(&x, 1, 2);
        EXPECT(&x, 1, "root   worker2 (pid 1002) computes in its program\n",
               "worker0 waits for something: worker1, worker2, for 20 s\n",
               "  worker1 waits in barrier 1 of group \"world\" for worker2, for 60 s\n");
        images_close(&x);
    }
}

static void a_wait_for_nothing_known_is_a_root(void **state) {
    (void)state;
    images x;
    images_open(&x, 2);
    images_add(&x, 1, TRACE_WAITS_OTHER, "a future", 20);
    add_barrier(&x, 0, 1);
    EXPECT(&x, 1, "root   worker1 (pid 1001) waits for a future, for 20 s\n",
           "  worker0 waits in barrier 1");
    images_close(&x);
}

static void calls_in_both_directions_are_a_cycle(void **state) {
    (void)state;
    images x;
    images_open(&x, 3);
    for (int i = 0; i < 2; i++) {
        images_add_of(&x, i, TRACE_RUNS, "f", 61, 1 - i, 5);
        trace_activity *inner = images_add_of(&x, i, TRACE_WAITS_REPLY, "f", 61, 1 - i, 5);
        inner->number = 5;
        images_wait_for(inner, 1 - i);
    }
    add_barrier(&x, 2, 0);
    EXPECT(&x, 1, "cycle  of 4: each waits for the next one, and the last for the first\n",
           "       worker0 runs f, called by worker1", "       worker1 runs f, called by worker0",
           "  worker2 waits in barrier 1 of group \"world\" for worker0, for 60 s\n");
    images_close(&x);
}

// worker0 waits for a call, worker1 in a collective, worker2 in gw_rpc_shutdown.
static void a_cycle_over_several_kinds_is_found(void **state) {
    (void)state;
    images x;
    images_open(&x, 3);
    add_reply(&x, 0, 1, 3, "f");
    images_add_of(&x, 1, TRACE_RUNS, "f", 61, 0, 3);
    trace_activity *a = images_add_of(&x, 1, TRACE_WAITS_COLLECTIVE, "all_reduce", 61, 0, 3);
    images_wait_for(a, 2);
    images_add(&x, 2, TRACE_WAITS_SHUTDOWN, "gw_rpc_shutdown", 50);
    images_table(&x, 2)->phase = TRACE_LEAVING;
    EXPECT(&x, 1, "cycle  of 4", "worker0 waits for call 3 of f at worker1",
           "worker1 runs f, called by worker0",
           "worker1, in a call of worker0, waits in all_reduce 0 of group \"\" for worker2",
           "worker2 is in gw_rpc_shutdown, for 50 s\n");
    images_close(&x);
}

static void a_program_in_shutdown_is_followed_to_its_bodies(void **state) {
    (void)state;
    images x;
    images_open(&x, 2);
    add_barrier(&x, 0, 1);
    images_add(&x, 1, TRACE_WAITS_SHUTDOWN, "gw_rpc_shutdown", 50);
    images_table(&x, 1)->phase = TRACE_LEAVING;
    images_add_of(&x, 1, TRACE_RUNS, "train", 61, 0, 3);
    EXPECT(&x, 1, "root   worker1 (pid 1001) runs train, called by worker0, for 61 s\n",
           "  worker0 waits in barrier 1", "    worker1 is in gw_rpc_shutdown, for 50 s\n");
    images_close(&x);
}

static void members_of_one_collective_do_not_wait_for_each_other(void **state) {
    (void)state;
    images x;
    images_open(&x, 3);
    for (int i = 0; i < 2; i++) images_wait_for(add_barrier(&x, i, 1 - i), 2);
    EXPECT(&x, 1, "root   worker2 (pid 1002) computes in its program\n");
    images_close(&x);
}

static void young_waits_do_not_count(void **state) {
    (void)state;
    images x;
    int found;
    images_open(&x, 3);
    add_barrier(&x, 0, 1);
    add_reply(&x, 1, 2, 3, "f")->since_ns = IMAGES_NOW_NS - 1;
    char *text = report_with(&x, &(hang_options){ .min_ns = INT64_C(70000000000) }, &found);
    assert_int_equal(found, 0);
    assert_non_null(strstr(text, "no worker waits that long\n"));
    free(text);
    text = report_with(&x, &(hang_options){ .min_ns = INT64_C(30000000000) }, &found);
    assert_int_equal(found, 1);
    assert_non_null(strstr(
        text,
        "root   worker1 (pid 1001) computes in its program, or waits only for short times\n"));
    free(text);
    images_close(&x);
}

static void an_old_table_is_named_with_its_age(void **state) {
    (void)state;
    images x;
    images_open(&x, 2);
    add_reply(&x, 0, 1, 3, "f");
    images_add_of(&x, 1, TRACE_RUNS, "f", 61, 0, 3);
    images_table(&x, 1)->now_ns -= INT64_C(5000000000);
    EXPECT(&x, 1, "runs f, called by worker0, for 61 s; its table is 5.0 s old\n");
    images_close(&x);
}

static void the_last_records_of_roots_are_listed(void **state) {
    (void)state;
    images x;
    images_open(&x, 2);
    add_barrier(&x, 0, 1);
    images_record(&x, 0, TRACE_MARK, IMAGES_NOW_NS - 5, "of no root");
    for (int i = 0; i < 12; i++)
        images_record(&x, 1, TRACE_MARK, IMAGES_NOW_NS - 120000000 + i * 10000000,
                      i == 3   ? "old"
                      : i == 4 ? "first"
                               : "m");
    int found;
    char *text = report_with(&x, &(hang_options){ 0 }, &found);
    assert_non_null(strstr(
        text,
        "last records of worker1, seconds before this report\n      0.080000  mark: first\n"));
    assert_null(strstr(text, "old"));
    assert_null(strstr(text, "of no root"));
    free(text);
    images_close(&x);
}

static void a_report_has_at_most_200_lines(void **state) {
    (void)state;
    images x;
    int found, lines = 0;
    images_open(&x, 8);
    for (int i = 1; i < 8; i++)
        for (int k = 0; k < 100; k++)
            images_wait_for(images_add_of(&x, i, TRACE_WAITS_OTHER, "x", 60, 0, (uint64_t)k), 0);
    char *text = report_with(&x, &(hang_options){ .cause = "nothing has ended for 60 s" }, &found);
    assert_int_equal(found, 1);
    assert_non_null(strstr(text, "job ?, 8 workers: nothing has ended for 60 s\n"));
    for (const char *at = text; *at; at++) lines += *at == '\n';
    assert_int_equal(lines, HANG_LINES_MAX);
    assert_non_null(strstr(text, "and 503 more lines\n"));
    free(text);
    images_close(&x);
}

static json_t *get(json_t *of, const char *list, size_t index, const char *key) {
    json_t *found = json_object_get(json_array_get(json_object_get(of, list), index), key);
    assert_non_null(found);
    return found;
}

static void the_report_as_json_has_the_same(void **state) {
    (void)state;
    images x;
    int found;
    images_open(&x, 2);
    add_reply(&x, 0, 1, 3, "f\x80");
    images_add_of(&x, 1, TRACE_RUNS, "f", 61, 0, 3);
    images_record(&x, 1, TRACE_MARK, IMAGES_NOW_NS - 5, "here");
    IMAGES_SET(images_table(&x, 0)->activities[0].what, "f");
    char *text = report_with(&x, &(hang_options){ .json = true, .job = "job" }, &found);
    json_t *all = json_loads(text, 0, NULL);
    assert_non_null(all);
    assert_string_equal(json_string_value(json_object_get(all, "job")), "job");
    assert_true(json_is_null(json_object_get(all, "cause")));
    assert_string_equal(json_string_value(get(all, "roots", 0, "kind")), "runs");
    assert_string_equal(json_string_value(get(all, "roots", 0, "worker")), "worker1");
    assert_int_equal(json_integer_value(get(all, "roots", 0, "pid")), 1001);
    json_t *root = json_array_get(json_object_get(all, "roots"), 0);
    assert_string_equal(json_string_value(get(root, "waiters", 0, "worker")), "worker0");
    assert_string_equal(json_string_value(get(root, "records", 0, "name")), "here");
    assert_int_equal(json_array_size(json_object_get(all, "cycles")), 0);
    json_decref(all);
    free(text);
    images_close(&x);
}

GW_TESTS(observe_hang, a_process_that_is_asked_for_is_a_root_without_waits,
         an_empty_job_has_neither_roots_nor_cycles, a_body_that_computes_is_the_root_of_its_callers,
         a_body_that_waits_is_followed, a_program_that_waits_nowhere_computes,
         a_worker_that_cannot_continue_is_a_root, a_worker_of_another_host_is_a_root,
         of_two_attempts_of_a_rank_the_one_that_lives_counts,
         a_queued_call_waits_for_the_holder_of_the_turn,
         a_queued_call_waits_for_the_bodies_that_run,
         a_queued_call_waits_for_earlier_ones_and_for_its_caller, a_body_in_its_own_turn_is_a_cycle,
         passes_and_other_waits_lead_to_the_programs_of_their_workers,
         a_wait_for_nothing_known_is_a_root, calls_in_both_directions_are_a_cycle,
         a_cycle_over_several_kinds_is_found, a_program_in_shutdown_is_followed_to_its_bodies,
         members_of_one_collective_do_not_wait_for_each_other, young_waits_do_not_count,
         an_old_table_is_named_with_its_age, the_last_records_of_roots_are_listed,
         a_report_has_at_most_200_lines, the_report_as_json_has_the_same);
