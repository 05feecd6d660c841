// gradwire run --role=NAME:COUNT[:POLICY]: several roles in one job.
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

static void each_rank_has_its_role(void **state) {
    (void)state;
    result r = RUN("run", "--role=ps:1", "--role=trainer:2", "sh", "-c",
                   "echo $RANK of $WORLD_SIZE is $ROLE_NAME $ROLE_RANK of $ROLE_WORLD_SIZE, "
                   "named $GW_NAME");
    note(&r);
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "[0] 0 of 3 is ps 0 of 1, named ps0\n"));
    assert_non_null(strstr(r.out, "[1] 1 of 3 is trainer 0 of 2, named trainer0\n"));
    assert_non_null(strstr(r.out, "[2] 2 of 3 is trainer 1 of 2, named trainer1\n"));
    forget(r);
}

// The failure of one role ends the job, that of the other does not.
static void a_role_has_its_policy(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        result r = RUN("run", "--role=a:1:stop", "--role=b:1:keep", "sh", "-c",
                       i ? "[ $ROLE_NAME = b ] && exit 7; echo done"
                         : "[ $ROLE_NAME = a ] && exit 7; exec sleep 10000");
        note(&r);
        assert_int_equal(r.code, 7);
        assert_int_equal(count_in(r.out, "[0] done\n"), i);
        forget(r);
    }
}

// Rank 0 is the learner, whose failure ends the job; a killed actor starts again.
static void actors_start_again_and_the_learner_does_not(void **state) {
    (void)state;
    path folder = make_folder();
    setenv("XDG_STATE_HOME", folder.text, 1);
    launched l =
        LAUNCH("run", "--role=learner:1:stop", "--role=actor:2:restart", "--max-restarts=3", "sh",
               "-c", "echo rank $RANK is $$; exec " ACTORS " --updates=1000000");
    pid_t learner = (pid_t)strtol(read_line(l.out_fd, "[0] rank 0 is "), NULL, 10);
    kill((pid_t)strtol(read_line(l.out_fd, "[2] actor 2 plays, pid "), NULL, 10), SIGKILL);
    read_line(l.out_fd, "[2] actor 2 plays, pid ");
    kill(learner, SIGKILL);
    result r = finish(l);
    note(&r);
    assert_int_equal(r.code, 128 + SIGKILL);
    assert_int_equal(count_in(r.err, "; it starts again, attempt 1 (2 restarts left)\n"), 1);
    assert_int_equal(count_in(r.err, "starts again"), 1);
    forget(r);
    remove_folder(folder);
}

static void wrong_roles_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *arguments[3], *text;
    } rows[] = {
        { { "--role=a:0" }, "--role: the count of a takes a number from 1 to 1024, not \"0\"" },
        { { "--role=a:" }, "--role: the count of a takes a number from 1 to 1024, not \"\"" },
        { { "--role=:1" }, "--role takes a name of at most 127 of A-Z a-z 0-9 _ . -, not \"\"" },
        { { "--role=a:1:some" }, "--role is stop, keep, restart, restart-all or auto, not" },
        { { "--role=a:1", "--role=a:2" }, "--role: there are two roles a" },
        { { "--role=a:1", "-n2" }, "-n is 2, but the roles have 1 processes" },
        { { "--role=a:1:restart" }, "--role=a:1:restart needs --max-restarts=N" },
        { { "--role=a:1", "--nnodes=2", "--rdzv-endpoint=127.0.0.1:1" },
          "--role=NAME:COUNT is for jobs on one host" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *arguments[8] = { "gradwire", "run", "--insecure" };
        int n = 3;
        for (int k = 0; k < 3 && rows[i].arguments[k]; k++) arguments[n++] = rows[i].arguments[k];
        arguments[n] = "true";
        result r = finish(launch(arguments));
        note(&r);
        assert_int_equal(r.code, 2);
        assert_non_null(strstr(r.err, rows[i].text));
        assert_int_equal(count_in(r.err, "\n"), 1);
        forget(r);
    }
}

GW_TESTS_WITH_LIMIT(run_roles, 120, each_rank_has_its_role, a_role_has_its_policy,
                    actors_start_again_and_the_learner_does_not, wrong_roles_are_refused);
