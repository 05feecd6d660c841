// gradwire run: a job without replicas (gw_elastic_join), whose workers are killed, leave and start again.
#include "testing/testing.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/launched.h"

#define ACTORS GW_BUILD_DIR "/bin/elastic_actors"

static void note(const result *r) {
    testing_note("code %d\n%s%s", r->code, r->out, r->err);
}

static pid_t read_actor(launched *l, int rank) {
    char beginning[64];
    snprintf(beginning, sizeof beginning, "[%d] actor %d plays, pid ", rank, rank);
    return (pid_t)strtol(read_line(l->out_fd, beginning), NULL, 10);
}

// The learner makes updates meanwhile, and afterwards with one actor.
static void actors_are_killed_and_leave(void **state) {
    (void)state;
    path folder = make_folder();
    setenv("XDG_STATE_HOME", folder.text, 1);
    launched l = LAUNCH("run", "-n", "3", "--max-restarts=4", ACTORS, "--updates=1000000");
    for (int i = 0; i < 2; i++) kill(read_actor(&l, 1), SIGKILL);
    kill(read_actor(&l, 1), SIGTERM);
    read_line(l.out_fd, "[1] actor 1 leaves");
    read_line(l.out_fd, "[0] update ");
    read_line(l.out_fd, "[0] update ");
    kill(l.pid, SIGINT);
    result r = finish(l);
    note(&r);
    assert_int_equal(r.code, 128 + SIGINT);
    // Alone, or with all others if one of them had not joined at that time.
    assert_int_equal(count_in(r.err, "; it starts again") + count_in(r.err, " start again"), 2);
    forget(r);
    remove_folder(folder);
}

// Its name is free again once the actors have noticed that it is dead.
static void the_learner_is_killed_and_the_actors_continue_with_the_next_one(void **state) {
    (void)state;
    path folder = make_folder();
    setenv("XDG_STATE_HOME", folder.text, 1);
    launched l = LAUNCH("run", "-n", "3", "--max-restarts=4", "sh", "-c",
                        "echo rank $RANK is $$; exec " ACTORS " --updates=200 --goal=40");
    pid_t learner = (pid_t)strtol(read_line(l.out_fd, "[0] rank 0 is "), NULL, 10);
    read_line(l.out_fd, "[0] update 50: ");
    kill(learner, SIGKILL);
    result r = finish(l);
    note(&r);
    assert_int_equal(r.code, 0);
    assert_int_equal(count_in(r.err, "; it starts again, attempt 1 "), 1);
    assert_non_null(strstr(r.out, "[0] 200 updates, score "));
    forget(r);
    remove_folder(folder);
}

GW_TESTS_WITH_LIMIT(run_actors, 180, actors_are_killed_and_leave,
                    the_learner_is_killed_and_the_actors_continue_with_the_next_one);
