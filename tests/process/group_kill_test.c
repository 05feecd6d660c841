// Members of a group that are killed or stopped amid collectives, passes of replicas, sharded steps, agreements,
// re-forming and joins, between real processes: the others get an error that names them, the failed operation has
// changed nothing on them, and they continue together.
#include "testing/testing.h"

#include <gradwire.h>

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    MEMBERS = 3,
    LARGE = 1 << 18,
    STEPS_BEFORE = 20,
    T_CLOSE_MS = 1000,
    T_DEAD_MS = 7000,
    SLACK = 10
};

typedef enum work {
    SMALL_SUMS,
    LARGE_SUMS,
    BROADCASTS,
    BARRIERS,
    REPLICAS,
    SHARED_STEPS,
    AGREEMENTS,
    RE_FORMING,
    JOINS,  // the victim has inputs left, the others have none
    WORKS
} work;

// The report of a member, in memory shared with the test.
typedef struct report {
    atomic_int steps;
    int64_t failed_ns;
    gw_error error, afterwards;
    bool has_changed;
} report;

typedef struct job {
    work work;
    int victim, signal;
    char directory[32], url[64];
    pid_t pids[MEMBERS];
    report *reports;
    int64_t hit_ns;
} job;

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

// ---- Members ------------------------------------------------------------------------------------

typedef struct member {
    bool is_victim;
    gw_scope *root;
    gw_group *group;
    gw_ddp *ddp;
    gw_module *model;
    gw_tensor *weight;
    gw_optimizer *opt;
} member;

static void open_member(gw_scope *root, member *m, work what) {
    m->group = gw_group_world(root);
    m->model = gw_nn_linear(root, 64, 64);
    if (what == REPLICAS || what == JOINS)
        m->ddp = gw_ddp_open(root, m->model, .first_bucket_bytes = 1, .bucket_bytes = 1);
    m->weight = gw_module_parameter_get(root, m->model, "weight");
    m->opt = gw_adam(root, gw_parameters(root, m->model), .lr = 0.01);
    if (what == SHARED_STEPS) gw_optimizer_shard(root, m->opt);
}

static void learn(gw_scope *s, member *m) {
    gw_backward(s, gw_sum(s, gw_module_call(s, m->model, gw_ones(s, GW_F32, 2, 64))));
    gw_optimizer_step(s, m->opt);
}

static void miss(gw_scope *s, int rank) {
    gw_fail(s, GW_DISCONNECTED, "w%d is gone", rank);
}

static void agree(gw_scope *s, member *m) {
    gw_agreement all = gw_group_agree(s, m->group, 1);
    if (all.missing_count) miss(s, all.missing[0]);
}

static void re_form(gw_scope *s, member *m, int victim) {
    gw_group *next = gw_group_reform(s, m->group);
    if (!gw_ok(s)) return;
    if (gw_group_size(next) < MEMBERS) miss(s, victim);
    gw_set(m->root, &m->group, next);
}

static void join(gw_scope *s, member *m, atomic_int *steps) {
    gw_join *j = gw_join_open(s, &(gw_joinable){ .ddp = m->ddp }, 1);
    while (m->is_victim && gw_ok(s)) {
        gw_scope *t = gw_scope_open(s);
        learn(t, m);
        gw_scope_close_up(t);
        atomic_fetch_add(steps, 1);
    }
    gw_join_close(s, j);
}

static void step(gw_scope *s, member *m, work what, int victim, atomic_int *steps) {
    switch (what) {
    case SMALL_SUMS: gw_all_reduce(s, m->group, gw_ones(s, GW_F32, 8), GW_SUM); break;
    case LARGE_SUMS: gw_all_reduce(s, m->group, gw_ones(s, GW_F32, LARGE), GW_SUM); break;
    case BROADCASTS: gw_broadcast(s, m->group, gw_ones(s, GW_F32, LARGE), 1); break;
    case BARRIERS: gw_barrier(s, m->group); break;
    case AGREEMENTS: agree(s, m); break;
    case RE_FORMING: re_form(s, m, victim); break;
    case JOINS: join(s, m, steps); break;
    default: learn(s, m);
    }
}

// Steps until one fails; the failed step must have changed nothing.
static void run_steps(gw_scope *root, member *m, const job *j, report *r) {
    while (!r->error.status && gw_ok(root)) {
        gw_scope *s = gw_scope_open(root), *t = gw_scope_open(s);
        gw_tensor *before = gw_clone(t, gw_detach(t, m->weight));
        gw_scope *own = gw_scope_open(s);
        step(own, m, j->work, j->victim, &r->steps);
        r->error = gw_scope_close(own);
        r->failed_ns = now_ns();
        if (r->error.status) r->has_changed = !gw_equal(t, before, gw_detach(t, m->weight));
        gw_scope_close_up(t);
        gw_scope_close_up(s);
        atomic_fetch_add(&r->steps, 1);
    }
}

static void expect_rest(gw_scope *root, gw_group *g) {
    double sum = gw_item(root, gw_all_reduce(root, g, gw_ones(root, GW_F32), GW_SUM));
    if (gw_ok(root) && sum != MEMBERS - 1) gw_fail(root, GW_INVALID, "%g of the rest", sum);
}

// Continues in a new group, and in the old one without the lost member.
static void continue_without(gw_scope *root, const member *m) {
    gw_group *g = gw_group_reform(root, m->group);
    expect_rest(root, g);
    gw_worker rest[MEMBERS];
    for (int i = 0; i < MEMBERS - 1; i++) rest[i] = gw_group_worker(root, g, i);
    expect_rest(root, gw_group_open(root, rest, MEMBERS - 1));
}

static void be_member(const job *j, int rank) {
    report *r = &j->reports[rank];
    gw_scope *root = gw_scope_open(NULL);
    member m = { .is_victim = rank == j->victim, .root = root };
    gw_rpc_init(root, .name = gw_format(root, "w%d", rank), .rank = rank, .world_size = MEMBERS,
                .init_method = j->url);
    open_member(root, &m, j->work);
    run_steps(root, &m, j, r);
    if (m.is_victim) return;  // this member was stopped, and the others have left
    continue_without(root, &m);
    gw_rpc_shutdown(root);
    r->afterwards = gw_scope_close(root);
}

// ---- A job --------------------------------------------------------------------------------------

static void open_job(job *j) {
    snprintf(j->directory, sizeof j->directory, "/tmp/gw-group-XXXXXX");
    assert_non_null(mkdtemp(j->directory));
    snprintf(j->url, sizeof j->url, "file://%s/store", j->directory);
    j->reports = mmap(NULL, MEMBERS * sizeof(report), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(j->reports != MAP_FAILED);
    for (int rank = 0; rank < MEMBERS; rank++) {
        j->pids[rank] = fork();
        assert_true(j->pids[rank] >= 0);
        if (j->pids[rank]) continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        be_member(j, rank);
        _exit(0);
    }
}

static void hit(job *j) {
    while (atomic_load(&j->reports[j->victim].steps) < STEPS_BEFORE) poll(NULL, 0, 1);
    j->hit_ns = now_ns();
    assert_int_equal(kill(j->pids[j->victim], j->signal), 0);
}

static void reap(pid_t pid, int *status) {
    while (waitpid(pid, status, 0) < 0) assert_int_equal(errno, EINTR);
}

static void check_member(const job *j, int rank) {
    const report *r = &j->reports[rank];
    const char name[] = { 'w', (char)('0' + j->victim), '\0' };
    int64_t took_ms = (r->failed_ns - j->hit_ns) / 1000000;
    if (r->error.status != GW_DISCONNECTED || !strstr(r->error.text, name))
        fail_msg("work %d, w%d: %s", j->work, rank, r->error.text);
    int bound_ms = j->signal == SIGKILL ? T_CLOSE_MS : T_DEAD_MS;
    assert_in_range(took_ms, 0, testing_patient_ms(SLACK * bound_ms));
    assert_false(r->has_changed);
    assert_string_equal(r->afterwards.text, "");
}

static void close_job(job *j) {
    int status;
    for (int rank = 0; rank < MEMBERS; rank++) {
        if (rank == j->victim) continue;
        reap(j->pids[rank], &status);
        if (status) fail_msg("work %d, w%d ended with status %d", j->work, rank, status);
        check_member(j, rank);
    }
    if (j->signal == SIGSTOP) {
        assert_int_equal(kill(j->pids[j->victim], SIGCONT), 0);
        reap(j->pids[j->victim], &status);
        gw_status its = j->reports[j->victim].error.status;  // the others have left by then
        assert_true(its == GW_FENCED || its == GW_DISCONNECTED);
    } else {
        reap(j->pids[j->victim], &status);
    }
    munmap(j->reports, MEMBERS * sizeof(report));
    unlink(j->url + strlen("file://"));
    assert_int_equal(rmdir(j->directory), 0);
}

static void all_get_an_error_when_a_member_is_killed(void **state) {
    (void)state;
    for (int i = 0; i < WORKS * MEMBERS; i++) {
        job j = { .work = (work)(i % WORKS), .victim = i / WORKS, .signal = SIGKILL };
        testing_note("w%d is killed, work %d", j.victim, j.work);
        open_job(&j);
        hit(&j);
        close_job(&j);
    }
}

// Runs several jobs at once, because each waits until its victim is declared dead.
static void all_get_an_error_when_a_member_is_stopped(void **state) {
    (void)state;
    static const work works[] = {
        SMALL_SUMS, LARGE_SUMS, REPLICAS, SHARED_STEPS, RE_FORMING, JOINS
    };
    enum { JOBS = sizeof works / sizeof *works };
    job jobs[JOBS];
    for (int i = 0; i < JOBS; i++) {
        jobs[i] = (job){ .work = works[i], .victim = i % MEMBERS, .signal = SIGSTOP };
        open_job(&jobs[i]);
    }
    for (int i = 0; i < JOBS; i++) hit(&jobs[i]);
    for (int i = 0; i < JOBS; i++) {
        testing_note("w%d is stopped, work %d", jobs[i].victim, jobs[i].work);
        close_job(&jobs[i]);
    }
}

GW_TESTS_WITH_LIMIT(group_kill, 120, all_get_an_error_when_a_member_is_killed,
                    all_get_an_error_when_a_member_is_stopped);
