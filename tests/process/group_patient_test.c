// A collective wakes no receiver that is going to poll by itself (docs/protocol/rings.md, RING-13): between real
// processes whose programs do not wait when a message arrives.
#include "agent/state/agent.h"
#include "net/loop/loop.h"
#include "testing/testing.h"

#include <gradwire.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MEMBERS = 2, ROUNDS = 50, LIMIT_MS = 30000 };

typedef struct job {
    void (*program)(gw_scope *root, gw_group *g, int rank, int line);
    int lines[MEMBERS];  // pipes between the members, outside the library
} job;

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

// ---- Programs -----------------------------------------------------------------------------------
// |line| is a pipe to the other member, outside the library.

static void write_line(gw_scope *s, int line) {
    if (write(line, "", 1) != 1) gw_fail(s, GW_SYSTEM, "write: %s", strerror(errno));
}

static void read_line(gw_scope *s, int line) {
    char byte;
    if (read(line, &byte, 1) != 1) gw_fail(s, GW_SYSTEM, "read: %s", strerror(errno));
}

// Computes until |f| is done.
static void await(gw_scope *s, const gw_future *f) {
    double start = now_s();
    while (!gw_future_done(f) && gw_ok(s))
        if (1000 * (now_s() - start) > testing_patient_ms(LIMIT_MS))
            gw_fail(s, GW_TIMEOUT, "no thread has polled");
}

static void check_count_expected(gw_scope *s, int count) {
    agent *a = s->slots[SCOPE_AGENT].data;
    env_enter(a->env);
    int expected = ((os_env *)a->env)->expected;
    env_leave(a->env);
    if (gw_ok(s) && expected != count) gw_fail(s, GW_INVALID, "%d are expected", expected);
}

static void sum_without_waiting(gw_scope *root, gw_group *g, int rank, int line) {
    for (int i = 0; i < ROUNDS && gw_ok(root); i++) {
        gw_scope *s = gw_scope_open(root);
        gw_barrier(s, g);
        if (rank == i % 2) read_line(s, line);  // the other one has entered already
        gw_future *f = gw_all_reduce_async(s, g, gw_ones(s, GW_F32, 4), GW_SUM);
        if (rank != i % 2) {
            check_count_expected(root, 1);
            write_line(s, line);
        }
        await(s, f);
        check_count_expected(root, 0);
        if (gw_ok(s) && gw_item(s, gw_sum(s, gw_tensor_of(s, gw_wait(s, f)))) != 8)
            gw_fail(s, GW_INVALID, "another sum");
        gw_scope_close_up(s);
    }
}

static void broadcast_and_continue(gw_scope *root, gw_group *g, int rank, int line) {
    for (int i = 0; i < ROUNDS && gw_ok(root); i++) {
        gw_scope *s = gw_scope_open(root);
        gw_barrier(s, g);
        float numbers[1000];
        for (int k = 0; k < 1000; k++) numbers[k] = (float)i;
        gw_tensor *x = rank == 0 ? gw_from(s, numbers, 1000) : NULL;
        if (rank == 1) read_line(s, line);
        gw_future *f = gw_broadcast_async(s, g, x, 0);
        if (rank == 0) {
            write_line(s, line);
            read_line(s, line);  // and does not poll
        }
        gw_tensor *y = gw_tensor_of(s, gw_wait(s, f));
        if (gw_ok(s) && gw_item(s, gw_sum(s, y)) != 1000 * i)
            gw_fail(s, GW_INVALID, "another value");
        if (rank == 1) write_line(s, line);
        gw_scope_close_up(s);
    }
}

// The member has closed the group and reads its line when the other one enters.
static void enter_a_closed_group(gw_scope *root, gw_group *world, int rank, int line) {
    gw_worker all[MEMBERS] = { gw_group_worker(root, world, 0), gw_group_worker(root, world, 1) };
    gw_scope *s = gw_scope_open(root);
    gw_group *g = gw_group_open(s, all, MEMBERS, .name = "pair");
    gw_barrier(s, g);
    if (rank == 1) {
        gw_scope_close_up(s);
        write_line(root, line);
        read_line(root, line);
        return;
    }
    read_line(root, line);
    double start = now_s();
    gw_barrier(s, g);
    gw_error error = gw_scope_close(s);
    if (error.status != GW_DISCONNECTED || 1000 * (now_s() - start) > testing_patient_ms(LIMIT_MS))
        gw_fail(root, GW_INVALID, "after %g s: %s", now_s() - start, error.text);
    write_line(root, line);
}

// ---- Jobs ---------------------------------------------------------------------------------------

static void be_member(const job *j, int rank, const char *url) {
    int line = j->lines[rank];
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root, .name = gw_format(root, "w%d", rank), .rank = rank, .world_size = MEMBERS,
                .init_method = url);
    j->program(root, gw_group_world(root), rank, line);
    gw_rpc_shutdown(root);
    _exit(gw_exit_code(gw_scope_close(root)));
}

static void run(job *j) {
    char directory[] = "/tmp/gw-patient-XXXXXX", url[64];
    pid_t pids[MEMBERS];
    assert_non_null(mkdtemp(directory));
    snprintf(url, sizeof url, "file://%s/store", directory);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, j->lines), 0);
    for (int rank = 0; rank < MEMBERS; rank++) {
        pids[rank] = fork();
        assert_true(pids[rank] >= 0);
        if (pids[rank]) continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        be_member(j, rank, url);
    }
    for (int rank = 0; rank < MEMBERS; rank++) {
        int status = -1;
        while (waitpid(pids[rank], &status, 0) < 0) assert_int_equal(errno, EINTR);
        if (status) fail_msg("w%d ended with status %d", rank, status);
        close(j->lines[rank]);
    }
    unlink(url + strlen("file://"));
    assert_int_equal(rmdir(directory), 0);
}

static void a_sum_completes_for_members_that_do_not_wait(void **state) {
    (void)state;
    run(&(job){ .program = sum_without_waiting });
}

static void a_broadcast_completes_while_the_root_does_not_poll(void **state) {
    (void)state;
    run(&(job){ .program = broadcast_and_continue });
}

static void a_member_that_has_closed_the_group_is_not_waited_for(void **state) {
    (void)state;
    run(&(job){ .program = enter_a_closed_group });
}

GW_TESTS_WITH_LIMIT(group_patient, 120, a_sum_completes_for_members_that_do_not_wait,
                    a_broadcast_completes_while_the_root_does_not_poll,
                    a_member_that_has_closed_the_group_is_not_waited_for);
