// Groups that grow, between real processes: joining members that are killed while their request is pending, and
// collectives over connections that break all the time.
#include "testing/testing.h"

#include <gradwire.h>

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FOUNDERS = 2, WORKERS = 3, VALUES = 60, LARGE = 1 << 16 };

// The reports of workers, in memory shared with the test.
typedef struct reports {
    atomic_bool is_founded, is_pending, may_reform;
    gw_error errors[WORKERS];
    uint64_t reconnects[WORKERS];
} reports;

typedef struct job {
    char directory[32], url[64];
    pid_t pids[WORKERS];
    reports *reports;
} job;

typedef void worker_main(gw_scope *root, int rank, reports *r);

static void be_worker(const job *j, int rank, int world_size, worker_main *main) {
    gw_scope *root = gw_scope_open(NULL);
    const char *name = gw_format(root, "w%d", rank);
    if (world_size)
        gw_rpc_init(root, .name = name, .rank = rank, .world_size = world_size,
                    .init_method = j->url);
    else
        gw_rpc_init(root, .name = name, .init_method = j->url,
                    .job = rank == 0 ? GW_JOB_CREATE : GW_JOB_JOIN);
    if (gw_ok(root)) main(root, rank, j->reports);
    if (gw_ok(root)) j->reports->reconnects[rank] = gw_rpc_get_stats(root).reconnects;
    if (gw_ok(root)) gw_rpc_shutdown(root);
    j->reports->errors[rank] = gw_scope_close(root);
}

// |world_size| 0: workers join and leave.
static void open_job(job *j, int count, int world_size, worker_main *main) {
    *j = (job){ .directory = "/tmp/gw-join-XXXXXX" };
    assert_non_null(mkdtemp(j->directory));
    snprintf(j->url, sizeof j->url, "file://%s/store", j->directory);
    j->reports =
        mmap(NULL, sizeof(reports), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(j->reports != MAP_FAILED);
    for (int rank = 0; rank < count; rank++) {
        j->pids[rank] = fork();
        assert_true(j->pids[rank] >= 0);
        if (j->pids[rank]) continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        be_worker(j, rank, world_size, main);
        _exit(0);
    }
}

static void await_all(const job *j, int count) {
    for (int rank = 0; rank < count; rank++) {
        int status = 0;
        while (waitpid(j->pids[rank], &status, 0) < 0) assert_int_equal(errno, EINTR);
        bool is_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
        if (status && !is_killed) fail_msg("w%d ended with status %d", rank, status);
        const gw_error *e = &j->reports->errors[rank];
        if (e->status) fail_msg("w%d: %s", rank, e->text);
    }
}

static void close_job(job *j) {
    munmap(j->reports, sizeof(reports));
    unlink(j->url + strlen("file://"));
    assert_int_equal(rmdir(j->directory), 0);
}

// ---- Joining members ----------------------------------------------------------------------------

static gw_group *found(gw_scope *root, int rank) {
    gw_worker self = gw_rpc_self(root);
    if (rank > 0) return gw_group_join(root, "team");
    gw_group *alone = gw_group_open(root, &self, 1, .name = "team");
    return gw_group_reform(root, alone, .min = FOUNDERS, .grow = true);
}

// Re-forms until the two live members are the group; the dying one may be a member for a while.
static void reform_with_pending(gw_scope *root, gw_group *g) {
    bool is_done = false;
    while (!is_done && gw_ok(root)) {
        g = gw_group_reform(root, g, .grow = true);
        gw_tensor *sum = gw_all_reduce(root, g, gw_ones(root, GW_F32), GW_SUM);
        is_done = gw_ok(root) && gw_item(root, sum) == FOUNDERS;
        const gw_error *e = gw_scope_error(root);
        if (e && e->status == GW_DISCONNECTED && strstr(e->text, "w2")) gw_scope_clear(root);
    }
}

static void wait_a_moment(gw_scope *root) {
    gw_scope *s = gw_scope_open(root);
    gw_scope_set_timeout(s, 1);
    gw_wait(s, gw_future_open(s));
    gw_scope_clear(s);
    gw_scope_close_up(s);
}

static void lose_a_joining_member(gw_scope *root, int rank, reports *r) {
    while (rank == 2 && gw_ok(root) && !atomic_load(&r->is_founded)) wait_a_moment(root);
    gw_group *g = found(root, rank);
    while (rank == 2 && gw_ok(root)) wait_a_moment(root);  // if it is admitted
    atomic_store(&r->is_founded, true);
    while (rank == 0 && gw_ok(root) && !gw_group_pending(g)) wait_a_moment(root);
    if (rank == 0) atomic_store(&r->is_pending, true);
    while (gw_ok(root) && !atomic_load(&r->may_reform)) wait_a_moment(root);
    reform_with_pending(root, g);
}

static void await(atomic_bool *flag) {
    while (!atomic_load(flag)) poll(NULL, 0, 1);
}

// The request ends before the others re-form, or while they do.
static void a_member_killed_while_joining_blocks_no_other_member(void **state) {
    (void)state;
    for (int i = 0; i < testing_scaled(10); i++) {
        job j;
        testing_note("joining member %d", i);
        open_job(&j, WORKERS, 0, lose_a_joining_member);
        await(&j.reports->is_pending);
        if (i % 2) atomic_store(&j.reports->may_reform, true);
        for (int k = 0; k < i / 2; k++) sched_yield();
        assert_int_equal(kill(j.pids[2], SIGKILL), 0);
        atomic_store(&j.reports->may_reform, true);
        await_all(&j, WORKERS);
        close_job(&j);
    }
}

// ---- Cuts ---------------------------------------------------------------------------------------

static void check_all(gw_scope *s, gw_tensor *x, double value, int64_t count) {
    if (gw_ok(s) && (gw_numel(x) != count || gw_item(s, gw_min(s, x)) != value ||
                     gw_item(s, gw_max(s, x)) != value))
        gw_fail(s, GW_INVALID, "%g to %g of %d numbers where %g was expected",
                gw_item(s, gw_min(s, x)), gw_item(s, gw_max(s, x)), (int)gw_numel(x), value);
}

static void collect_over_cuts(gw_scope *root, int rank, reports *r) {
    (void)r;
    gw_group *g = gw_group_world(root);
    for (int i = 0; i < VALUES && gw_ok(root); i++) {
        gw_scope *s = gw_scope_open(root);
        int64_t count = i % 4 == 0 ? LARGE : 3 + i;
        gw_tensor *x = gw_full(s, GW_F32, i + rank, count);
        check_all(s, gw_all_reduce(s, g, x, GW_SUM), WORKERS * i + 3, count);
        check_all(s, gw_broadcast(s, g, x, i % WORKERS), i + i % WORKERS, count);
        gw_tensor *all = gw_all_gather(s, g, x);
        check_all(s, gw_slice(s, all, 0, 2 * count, 3 * count, 1), i + 2, count);
        gw_barrier(s, g);
        gw_scope_close_up(s);
    }
}

static void connections_may_break_under_collectives(void **state) {
    (void)state;
    assert_int_equal(setenv("GW_TEST_CUT_EVERY", "15", 1), 0);
    assert_int_equal(setenv("GW_TRANSPORT", "tcp", 1), 0);
    job j;
    open_job(&j, WORKERS, WORKERS, collect_over_cuts);
    uint64_t reconnects = 0;
    reports *r = j.reports;
    await_all(&j, WORKERS);
    for (int i = 0; i < WORKERS; i++) reconnects += r->reconnects[i];
    close_job(&j);
    assert_true(reconnects >= 5);  // they were cut repeatedly
}

GW_TESTS_WITH_LIMIT(group_joiners, 120, a_member_killed_while_joining_blocks_no_other_member,
                    connections_may_break_under_collectives);
