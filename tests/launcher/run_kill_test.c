// gradwire run: members of elastic training are killed from outside at any moment, KILLS of them in one job (12 by
// default, N by `make kill`), while the others learn. At the end all have the weights of one process that has learned
// alone, and no step was left out.
#include "testing/testing.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../support/launched.h"

enum {
    MEMBERS = 4,
    KILLS = 12,
    STEPS_BETWEEN = 40,
    STEPS_AHEAD = 5000,
    STEPS_MAX = 10000000,
    LINE_BYTES = 400
};

// What the job has printed so far.
typedef struct job {
    FILE *out, *log;
    pid_t pids[MEMBERS];  // 0: has made no step in this attempt
    pid_t started[MEMBERS];
    long long step;        // the newest that a member has made
    bool made[STEPS_MAX];  // by at least one member
    int restarts;          // of killed ranks, by the lines of the launcher
    int weights;           // members that have printed them
    char hash[17];
} job;

static int kills_wanted(void) {
    const char *text = getenv("KILLS");
    return text && *text ? (int)strtol(text, NULL, 10) : testing_scaled(KILLS);
}

// The lines of two members are in no order.
static void follow_step(job *j, int rank, long long step) {
    assert_true(step >= 0 && step < STEPS_MAX);
    if (step > j->step) j->step = step;
    j->made[step] = true;
    j->pids[rank] = j->started[rank];
}

static void follow_weights(job *j, const char *hash) {
    if (j->weights++ == 0) snprintf(j->hash, sizeof j->hash, "%.16s", hash);
    assert_memory_equal(hash, j->hash, 16);
}

// Reads a line; false at the end. |made|: whether a member has made a step.
static bool follow(job *j, bool *made) {
    char line[LINE_BYTES], hash[17];
    int rank, attempt, pid;
    long long step;
    *made = false;
    if (!fgets(line, sizeof line, j->out)) return false;
    if (!strstr(line, "made step")) fputs(line, j->log);
    if (sscanf(line, "[%d] rank %*d attempt %d pid %d", &rank, &attempt, &pid) == 3) {
        j->started[rank] = pid;
        j->pids[rank] = 0;
    } else if (sscanf(line, "[%d] made step %lld", &rank, &step) == 2) {
        follow_step(j, rank, step);
        *made = true;
    } else if (strstr(line, " was killed by signal 9 (Killed)") &&
               strstr(line, "; it starts again")) {
        j->restarts++;
    } else if (sscanf(line, "[%d] weights %16[0-9a-f]", &rank, hash) == 2) {
        follow_weights(j, hash);
    }
    return true;
}

static unsigned draw(unsigned *random, unsigned below) {
    *random = *random * 1664525U + 1013904223U;
    return (*random >> 8) % below;
}

// A member that has made a step in its attempt, if another one has, too, so that the state of the job is not lost.
static int find_victim(const job *j, unsigned *random) {
    unsigned count = 0;
    int at[MEMBERS];
    for (int i = 0; i < MEMBERS; i++)
        if (j->pids[i]) at[count++] = i;
    return count < 2 ? -1 : at[draw(random, count)];
}

static void kill_member(job *j, int rank) {
    assert_int_equal(kill(j->pids[rank], SIGKILL), 0);
    j->pids[rank] = j->started[rank] = 0;
}

static void kill_members(job *j, int wanted) {
    unsigned random = 1, wait = STEPS_BETWEEN;
    bool made;
    for (int killed = 0; killed < wanted;) {
        assert_true(follow(j, &made));
        int rank = made && --wait == 0 ? find_victim(j, &random) : -1;
        if (rank >= 0) {
            kill_member(j, rank);
            killed++;
        }
        if (wait == 0) wait = 1 + draw(&random, 2 * STEPS_BETWEEN);
    }
}

static bool is_complete(const job *j) {
    for (int i = 0; i < MEMBERS; i++)
        if (!j->pids[i]) return false;
    return true;
}

// All members leave after a step that is still ahead: what has been read is older than what they do.
static void end_job(job *j, path folder) {
    bool made;
    while (!is_complete(j)) assert_true(follow(j, &made));
    path next = in_folder(folder, "next"), last = in_folder(folder, "last");
    FILE *f = fopen(next.text, "w");
    assert_non_null(f);
    fprintf(f, "%lld\n", j->step + STEPS_AHEAD);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(rename(next.text, last.text), 0);
    while (follow(j, &made)) continue;
}

// The launcher's lines, in the same stream.
static void members_killed_at_any_moment_reach_the_same_weights(void **state) {
    (void)state;
    int wanted = kills_wanted();
    path folder = make_folder();
    launched l = launch_command("exec ./gradwire run -n %d --max-restarts=%d --backoff=0 "
                                "./case-elastic_trains 1000000000 1 after:%s/last 2>&1",
                                MEMBERS, wanted, folder.text);
    static job j;
    j = (job){ .out = fdopen(dup(l.out_fd), "r"), .step = -1 };
    j.log = fopen(in_folder(folder, "log").text, "w");
    testing_note("the lines that it has printed are in %s", folder.text);
    assert_true(j.out && j.log);
    kill_members(&j, wanted);
    end_job(&j, folder);
    fclose(j.out);
    fclose(j.log);
    result r = finish(l);
    assert_int_equal(r.code, 0);
    assert_int_equal(j.restarts, wanted);
    assert_int_equal(j.weights, MEMBERS);
    for (long long i = 0; i < j.step; i++) assert_true(j.made[i]);
    forget(r);
    remove_folder(folder);
}

GW_TESTS(run_kill, members_killed_at_any_moment_reach_the_same_weights);
