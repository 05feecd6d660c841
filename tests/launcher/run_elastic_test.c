// gradwire run: elastic training whose ranks are killed, leave, and start again, as real processes.
#include "testing/testing.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../support/launched.h"

#define TRAINS GW_BUILD_DIR "/bin/case-elastic_trains"

static void note(const result *r) {
    testing_note("code %d\n%s%s", r->code, r->out, r->err);
}

// All that have finished have the same weights. Returns how many.
static int expect_same_weights(const char *out) {
    const char *first = strstr(out, "] weights ");
    int count = count_in(out, "] weights ");
    for (const char *at = first; at; at = strstr(at + 1, "] weights "))
        assert_memory_equal(at, first, strlen("] weights ") + 16);
    return count;
}

static void expect_success(const result *r, int members) {
    note(r);
    assert_int_equal(r->code, 0);
    assert_int_equal(expect_same_weights(r->out), members);
}

static int count_lines(const char *out, const char *before, int step) {
    char line[64];
    snprintf(line, sizeof line, "%s%d ", before, step);
    return count_in(out, line);
}

// ---- Losses ---------------------------------------------------------------------------------------

static void members_train_together(void **state) {
    (void)state;
    result r = RUN("run", "-n", "3", "--max-restarts=1", TRAINS, "8", "1");
    expect_success(&r, 3);
    for (int step = 0; step < 8; step++)
        assert_int_equal(count_lines(r.out, "made step ", step), 3);
    assert_int_equal(count_in(r.out, "] finished at step 8\n"), 3);
    forget(r);
}

// At each place of a step. The others continue with the same step, and .min makes them wait for the next attempt then.
static void a_member_is_killed_at_each_place(void **state) {
    (void)state;
    static const char *const events[] = { "1:begin:3", "0:pass:3", "2:step:3", "0:end:3" };
    for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
        result r = RUN("run", "-n", "3", "--max-restarts=1", TRAINS, "8", "3", events[i]);
        expect_success(&r, 3);
        assert_int_equal(count_in(r.err, "; it starts again, attempt 1 (0 restarts left)\n"), 1);
        assert_int_equal(count_in(r.out, "] opened at step "), 4);
        assert_int_equal(count_lines(r.out, "made step ", 7), 3);
        for (int step = 0; step < 8; step++)
            assert_true(count_lines(r.out, "made step ", step) >= 1);
        forget(r);
    }
}

static void two_members_are_killed_at_once(void **state) {
    (void)state;
    result r = RUN("run", "-n", "4", "--max-restarts=2", TRAINS, "8", "4", "0:pass:2", "3:step:2");
    expect_success(&r, 4);
    assert_int_equal(count_in(r.err, "; it starts again, attempt 1 "), 2);
    forget(r);
}

// The others need no replacement: they may finish before it has started.
static void survivors_do_not_wait_for_the_next_attempt(void **state) {
    (void)state;
    result r = RUN("run", "-n", "3", "--max-restarts=1", TRAINS, "8", "1", "0:pass:3");
    note(&r);
    assert_int_equal(r.code, 0);
    assert_true(expect_same_weights(r.out) >= 2);
    assert_true(count_in(r.out, "] finished at step ") == 3);
    forget(r);
}

static void a_member_killed_while_it_joins_is_started_again_with_all(void **state) {
    (void)state;
    result r = RUN("run", "-n", "3", "--max-restarts=1", TRAINS, "4", "1", "1:open:0");
    note(&r);
    // Before any worker has joined this ends the job, whichever is first.
    if (r.code) {
        assert_int_equal(r.code, 128 + SIGKILL);
        assert_non_null(strstr(r.err, "since no worker had joined\n"));
    } else {
        assert_int_equal(expect_same_weights(r.out), 3);
    }
    forget(r);
}

// The last one to be killed takes the state with it.
static void a_job_whose_members_are_all_lost_starts_again_from_its_checkpoint(void **state) {
    (void)state;
    path folder = make_folder();
    result r = RUN("run", "-n", "2", "--max-restarts=2", "--checkpoint-dir", folder.text, TRAINS,
                   "8", "2", "0:ask:2", "0:whole:5", "1:whole:5", "0:pass:5", "1:pass:5");
    expect_success(&r, 2);
    assert_non_null(strstr(r.err, "; all ranks start again, attempt "));
    assert_int_equal(count_in(r.out, "] opened at step 4 "), 2);
    forget(r);
    remove_folder(folder);
}

static void
without_a_checkpoint_a_job_whose_members_are_all_lost_starts_from_the_beginning(void **state) {
    (void)state;
    result r = RUN("run", "-n", "2", "--max-restarts=2", TRAINS, "8", "2", "0:pass:5", "1:pass:5");
    expect_success(&r, 2);
    assert_int_equal(count_in(r.out, "] opened at step 0 "), 4);
    forget(r);
}

// K4: members are killed again and again, by a signal of a timer at any place of their program. Those that remain, and
// those that start again, reach the same weights. .min decides whether they wait for each other.
static void members_killed_again_and_again_reach_the_same_weights(void **state) {
    (void)state;
    for (int seed = 1; seed <= 4; seed++) {
        char event[32];
        snprintf(event, sizeof event, "random:3:%d", seed);
        result r = RUN("run", "-n", "4", "--max-restarts=12", "--backoff=0", TRAINS, "300",
                       seed % 2 ? "1" : "4", event);
        note(&r);
        assert_int_equal(r.code, 0);
        assert_true(count_in(r.err, " was killed by signal ") >= 1);
        assert_true(expect_same_weights(r.out) >= 1);
        forget(r);
    }
}

// ---- The end --------------------------------------------------------------------------------------

// Its next attempt starts while the others end, or after that. A checkpoint has the result, which rank 0 writes.
static void a_rank_that_starts_while_the_job_ends_has_finished(void **state) {
    (void)state;
    static const char *const events[] = { "1:end:7", "1:close:0" };
    for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
        path folder = make_folder();
        result r = RUN("run", "-n", "3", "--max-restarts=1", "--checkpoint-dir", folder.text,
                       TRAINS, "8", "1", events[i]);
        note(&r);
        assert_int_equal(r.code, 0);
        assert_true(expect_same_weights(r.out) >= 2);
        assert_int_equal(count_in(r.out, "] finished at step "), 3);
        forget(r);
        remove_folder(folder);
    }
}

// The only rank: all that is left of its work is the checkpoint.
static void a_rank_that_is_killed_after_the_last_step_has_its_result(void **state) {
    (void)state;
    path folder = make_folder();
    result r = RUN("run", "-n", "1", "--max-restarts=1", "--checkpoint-dir", folder.text, TRAINS,
                   "8", "1", "0:close:0");
    expect_success(&r, 1);
    assert_int_equal(count_in(r.out, "] finished at step 8\n"), 1);
    assert_int_equal(count_in(r.err, "; it starts again, attempt 1 "), 1);
    forget(r);
    remove_folder(folder);
}

static void a_job_of_one_rank_starts_again(void **state) {
    (void)state;
    path folder = make_folder();
    result r = RUN("run", "-n", "1", "--max-restarts=1", "--checkpoint-dir", folder.text, TRAINS,
                   "8", "1", "0:ask:2", "0:whole:5", "0:pass:5");
    expect_success(&r, 1);
    assert_int_equal(count_in(r.out, "] opened at step 3 "), 1);
    forget(r);
    remove_folder(folder);
}

// ---- Leaving --------------------------------------------------------------------------------------

static void expect_left(const char *event) {
    result r = RUN("run", "-n", "3", "--max-restarts=1", TRAINS, "10", "1", event);
    expect_success(&r, 2);
    assert_int_equal(count_in(r.out, "] leaving at step "), 1);
    assert_int_equal(count_in(r.err, "again"), 0);
    // No step of the others has failed: each has made each step.
    for (int step = 0; step < 10; step++) assert_true(count_lines(r.out, "made step ", step) >= 2);
    assert_int_equal(count_in(r.out, "made step 9 of 2\n"), 2);
    forget(r);
}

static void a_member_that_leaves_fails_no_step(void **state) {
    (void)state;
    expect_left("1:leave:3");
    expect_left("0:leave:3");
}

static void sigterm_is_a_leave(void **state) {
    (void)state;
    expect_left("2:term:3");
}

// SIGTERM reaches all ranks: they leave, and what they have done is in a checkpoint.
static void members_that_leave_together_write_a_checkpoint(void **state) {
    (void)state;
    path folder = make_folder();
    result r = RUN("run", "-n", "2", "--max-restarts=1", "--checkpoint-dir", folder.text, TRAINS,
                   "10", "1", "0:term:4", "1:term:4");
    note(&r);
    assert_int_equal(r.code, 0);
    assert_int_equal(count_in(r.out, "] leaving at step 6\n"), 2);
    path file = in_folder(folder, "step-6/index.json");
    assert_int_equal(access(file.text, R_OK), 0);
    forget(r);
    r = RUN("run", "-n", "3", "--max-restarts=1", "--checkpoint-dir", folder.text, TRAINS, "10",
            "1");
    expect_success(&r, 3);
    assert_int_equal(count_in(r.out, "] opened at step 6 "), 3);
    forget(r);
    remove_folder(folder);
}

// A request to end the job: what has been learned is kept.
static void a_job_that_is_asked_to_end_writes_a_checkpoint(void **state) {
    (void)state;
    path folder = make_folder();
    launched l = LAUNCH("run", "-n", "2", "--max-restarts=1", "--grace=10000", "--checkpoint-dir",
                        folder.text, TRAINS, "1000000000", "1");
    read_line(l.out_fd, "[0] made step ");
    kill(l.pid, SIGTERM);
    result r = finish(l);
    testing_note("%s", r.err);
    assert_int_equal(r.code, 128 + SIGTERM);
    assert_int_equal(count_in(r.out, "] leaving at step "), 2);
    long long step =
        strtoll(strstr(r.out, "] leaving at step ") + strlen("] leaving at step "), NULL, 10);
    char name[64];
    snprintf(name, sizeof name, "step-%lld/index.json", step);
    path file = in_folder(folder, name);
    assert_int_equal(access(file.text, R_OK), 0);
    forget(r);
    remove_folder(folder);
}

// Fewer members than .min are left: this one waits in gw_elastic_begin, and leaves from there.
static void a_member_that_waits_for_others_leaves_when_it_is_asked_to(void **state) {
    (void)state;
    launched l =
        LAUNCH("run", "-n", "2", "--max-restarts=1", TRAINS, "1000000000", "2", "0:leave:3");
    const char *opened = read_line(l.out_fd, "[1] opened at step ");
    pid_t pid = (pid_t)strtol(strstr(opened, " pid ") + 5, NULL, 10);
    read_line(l.out_fd, "[0] leaving at step ");
    kill(pid, SIGTERM);
    result r = finish(l);
    note(&r);
    assert_int_equal(r.code, 0);
    assert_int_equal(count_in(r.out, "[1] leaving at step "), 1);
    forget(r);
}

// ---- Errors ---------------------------------------------------------------------------------------

static void an_error_of_a_step_ends_the_job_with_its_text(void **state) {
    (void)state;
    result r = RUN("run", "-n", "2", "--max-restarts=0", "--on-failure=stop", TRAINS, "10", "1",
                   "1:fail:3");
    note(&r);
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "there is no batch 3"));
    forget(r);
}

// The others repeat the step without it, and it joins them again.
static void an_error_of_a_step_costs_one_restart(void **state) {
    (void)state;
    for (int rank = 0; rank < 3; rank++) {
        char event[16];
        snprintf(event, sizeof event, "%d:fail:3", rank);
        result r = RUN("run", "-n", "3", "--max-restarts=3", TRAINS, "10", "3", event);
        expect_success(&r, 3);
        assert_int_equal(count_in(r.err, "; it starts again, attempt 1 (2 restarts left)\n"), 1);
        assert_int_equal(count_in(r.err, "; it starts again"), 1);
        assert_int_equal(count_in(r.out, "] opened at step "), 4);
        forget(r);
    }
}

// Never adds gradients of one step to those of another.
static void a_member_that_makes_a_pass_more_fails_all_with_the_step(void **state) {
    (void)state;
    result r = RUN("run", "-n", "3", "--on-failure=stop", TRAINS, "10", "1", "1:twice:3");
    note(&r);
    assert_int_equal(r.code, 1);
    assert_non_null(
        strstr(r.err, "members have made unequal numbers of backward passes in a step"));
    assert_non_null(strstr(r.err, "worker1 does all_reduce avg f32 24 (pass 2 in step 3, "));
    assert_non_null(strstr(r.err, "(pass 1 in step 4, "));
    assert_int_equal(count_in(r.out, "] made step 4"), 0);
    forget(r);
}

static void a_folder_that_cannot_be_written_is_refused(void **state) {
    (void)state;
    result r =
        RUN("run", "-n", "1", "--max-restarts=1", "--checkpoint-dir=/dev/null", TRAINS, "10", "1");
    note(&r);
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(
        r.err, "gw_elastic_open: checkpoints cannot be written in /dev/null: Not a directory"));
    forget(r);
}

GW_TESTS(run_elastic, members_train_together, a_member_is_killed_at_each_place,
         two_members_are_killed_at_once, survivors_do_not_wait_for_the_next_attempt,
         members_killed_again_and_again_reach_the_same_weights,
         a_member_killed_while_it_joins_is_started_again_with_all,
         a_job_whose_members_are_all_lost_starts_again_from_its_checkpoint,
         without_a_checkpoint_a_job_whose_members_are_all_lost_starts_from_the_beginning,
         a_rank_that_starts_while_the_job_ends_has_finished,
         a_rank_that_is_killed_after_the_last_step_has_its_result, a_job_of_one_rank_starts_again,
         a_member_that_leaves_fails_no_step, sigterm_is_a_leave,
         members_that_leave_together_write_a_checkpoint,
         a_member_that_waits_for_others_leaves_when_it_is_asked_to,
         a_job_that_is_asked_to_end_writes_a_checkpoint,
         an_error_of_a_step_ends_the_job_with_its_text, an_error_of_a_step_costs_one_restart,
         a_member_that_makes_a_pass_more_fails_all_with_the_step,
         a_folder_that_cannot_be_written_is_refused);
