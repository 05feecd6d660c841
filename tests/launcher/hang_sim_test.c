// `gradwire hang` on jobs in the simulator: the tables of all workers at one moment name the worker that the others wait
// for, or the cycle, and nothing while the job makes progress.
#include "agent/bodies/observe.h"
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "observe/hang.h"

// A wait is as old as the first table that has it.
enum { FIRST_TABLE_S = 20, LOOKS_AT_S = 30, SCENE_TIMEOUT_MS = 60000 };

typedef struct scene {
    int workers;
    cluster_main *play;
    const char *expected[3];  // are in the report, in this order
    int root_count;           // and cycles
    // while it runs
    gw_scope *roots[CLUSTER_WORKERS_MAX];
    sim *sim;
    bool has_looked;
    char report[1 << 14];
    int found;
} scene;

// ---- The tables as a tool reads them -------------------------------------------------------------

// Of a worker as its process would have published it. Nothing else runs in the simulator meanwhile.
static void make_image(const agent *a, image *out) {
    observation o;
    observe_on_loop(a, &o);
    assert_false(o.table.failed);
    *out = (image){ .pid = 100 + a->rank,
                    .life = IMAGE_RUNS,
                    .taken.monotonic_ns = o.now_ns,
                    .agent_count = 1,
                    .agents = calloc(1, sizeof *out->agents),
                    .strings = calloc(1, 1),
                    .string_bytes = 1 };
    image_agent *row = out->agents;
    *row = (image_agent){ .is_open = true,
                          .rank = a->rank,
                          .world_size = a->world_size,
                          .incarnation = a->incarnation,
                          .table = calloc(1, sizeof *row->table) };
    snprintf(row->name, sizeof row->name, "%s", a->name);
    assert_true(trace_table_read(o.table.data, o.table.size, row->table));
    bytes_fini(&o.table);
}

static void look(sim *s, void *arg) {
    scene *x = arg;
    image *images = calloc((size_t)x->workers, sizeof *images);
    (void)s;
    for (int i = 0; i < x->workers; i++) make_image(x->roots[i]->agent, &images[i]);
    FILE *out = fmemopen(x->report, sizeof x->report, "w");
    const hang_options o = { .job = "j", .min_ns = INT64_C(5000000000) };
    x->found = hang_report(images, x->workers, &o, out);
    fclose(out);
    image_free_all(images, x->workers);
    x->has_looked = true;
}

// ---- Scenes -------------------------------------------------------------------------------------

// Time passes while no thread waits in the library.
static void compute_s(gw_scope *s, int seconds) {
    waiter w = { .what = "computing" };
    env_enter(s->env);
    env_wait(s->env, &w, env_now_ns(s->env) + seconds * SIM_SECOND);
    env_leave(s->env);
}

GW_FUNCTION(hang_compute, GW_POOL) {
    compute_s(s, (int)gw_arg_int(s, a, 0));
    return gw_none();
}

GW_FUNCTION(hang_call_on, GW_POOL) {
    gw_rpc_sync(s, 2, "hang_compute", 50);
    return gw_none();
}

GW_FUNCTION(hang_receive, GW_POOL) {
    gw_recv(s, gw_group_world(s), gw_arg_int(s, a, 0), .timeout_ms = SCENE_TIMEOUT_MS);
    return gw_none();
}

static void a_body_computes(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank == 0) gw_rpc_sync(s, 1, "hang_call_on");
    gw_barrier(s, gw_group_world(s), .timeout_ms = SCENE_TIMEOUT_MS);
}

static void a_member_is_missing(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank == 2) compute_s(s, 50);
    gw_all_reduce(s, gw_group_world(s), gw_ones(s, GW_F32, 10), GW_SUM,
                  .timeout_ms = SCENE_TIMEOUT_MS);
}

static void two_groups_wait_in_a_circle(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *a = cluster_open_group(s, 0, 2, "a", SCENE_TIMEOUT_MS);
    gw_group *b = cluster_open_group(s, 0, 2, "b", SCENE_TIMEOUT_MS);
    gw_barrier(s, rank ? b : a);
    gw_scope_clear(s);
    gw_barrier(s, rank ? a : b);
    gw_scope_clear(s);
}

static void calls_wait_for_messages_of_each_other(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_rpc_sync(s, 1 - rank, "hang_receive", rank);
    gw_scope_clear(s);
}

static void a_message_is_not_sent(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank == 1) compute_s(s, 50);
    if (rank == 0) gw_recv(s, gw_group_world(s), 1, .timeout_ms = SCENE_TIMEOUT_MS);
    gw_scope_clear(s);
}

static void a_member_does_not_agree(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank == 2) compute_s(s, 50);
    gw_group_agree(s, gw_group_world(s), 1);
    gw_scope_clear(s);
}

// The second call waits for the turn of the object.

typedef struct hang_counter {
    int unused;
} hang_counter;

static void open_hang_counter(gw_scope *own, hang_counter *self, const gw_args *a) {
    (void)own, (void)self, (void)a;
}

GW_CLASS(hang_counter, open_hang_counter);

GW_METHOD(hang_counter, work, GW_POOL) {
    (void)self, (void)a;
    compute_s(s, 50);
    return gw_none();
}

static void an_object_is_in_use(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank == 0) {
        gw_rref *r = gw_remote(s, 1, "hang_counter");
        gw_future *first = gw_rpc_async(s, r, "work");
        compute_s(s, 1);
        gw_rpc_sync(s, r, "work");
        gw_wait(s, first);
    }
    gw_scope_clear(s);
}

// Waits are young at each moment.
static void the_job_makes_progress(gw_scope *s, int rank, void *context) {
    (void)context;
    for (int i = 0; i < 50; i++) {
        gw_scope *t = gw_scope_open(s);
        gw_rpc_sync(t, (rank + 1) % 3, "hang_compute", 1);
        gw_all_reduce(t, gw_group_world(t), gw_ones(t, GW_F32, 10), GW_SUM);
        gw_scope_close_up(t);
    }
}

// ---- Tests --------------------------------------------------------------------------------------

static void play(gw_scope *root, int rank, void *context) {
    scene *x = context;
    x->roots[rank] = root;
    x->play(root, rank, context);
    gw_scope_clear(root);
}

static void direct(sim *s, void *context) {
    assert_true(sim_at(s, FIRST_TABLE_S * SIM_SECOND, look, context));
    assert_true(sim_at(s, LOOKS_AT_S * SIM_SECOND, look, context));
}

static void check(const scene *x) {
    const char *at = x->report;
    assert_true(x->has_looked);
    testing_note("%s", x->report);
    for (int i = 0; i < 3 && x->expected[i]; i++) {
        at = strstr(at, x->expected[i]);
        if (!at) fail_msg("\"%s\" is missing", x->expected[i]);
    }
    assert_int_equal(x->found, x->root_count);
}

static void run(scene x) {
    for (uint64_t seed = 1; seed <= 20; seed++) {
        scene now = x;
        cluster_run(seed,
                    (cluster_options){ .world_size = x.workers,
                                       .timeout_ms = SCENE_TIMEOUT_MS,
                                       .fails = true,
                                       .direct = direct },
                    play, &now);
        check(&now);
    }
}

static void a_body_that_computes_is_the_root(void **state) {
    (void)state;
    run((scene){ .workers = 3,
                 .play = a_body_computes,
                 .root_count = 1,
                 .expected = { "root   w2 (pid 102) runs hang_compute, called by w1",
                               "  w1 runs hang_call_on", "w0 waits for call" } });
}

static void a_member_that_computes_is_the_root(void **state) {
    (void)state;
    run((scene){ .workers = 3,
                 .play = a_member_is_missing,
                 .root_count = 1,
                 .expected = { "root   w2 (pid 102) computes in its program" } });
}

static void groups_in_a_circle_are_a_cycle(void **state) {
    (void)state;
    run((scene){ .workers = 2,
                 .play = two_groups_wait_in_a_circle,
                 .root_count = 1,
                 .expected = { "cycle", "barrier 1 of group" } });
}

static void calls_and_messages_in_a_circle_are_a_cycle(void **state) {
    (void)state;
    run((scene){ .workers = 2,
                 .play = calls_wait_for_messages_of_each_other,
                 .root_count = 2,
                 .expected = { "cycle", "hang_receive" } });
}

static void a_sender_that_computes_is_the_root(void **state) {
    (void)state;
    run((scene){ .workers = 2,
                 .play = a_message_is_not_sent,
                 .root_count = 1,
                 .expected = { "root   w1 (pid 101) computes", "gw_recv" } });
}

static void a_member_that_does_not_agree_is_the_root(void **state) {
    (void)state;
    run((scene){ .workers = 3,
                 .play = a_member_does_not_agree,
                 .root_count = 1,
                 .expected = { "root   w2 (pid 102) computes" } });
}

static void the_body_that_has_the_turn_is_the_root(void **state) {
    (void)state;
    run((scene){ .workers = 2,
                 .play = an_object_is_in_use,
                 .root_count = 1,
                 .expected = { "root   w1 (pid 101) runs work, called by w0" } });
}

static void nothing_is_named_while_the_job_makes_progress(void **state) {
    (void)state;
    run((scene){ .workers = 3, .play = the_job_makes_progress, .root_count = 0 });
}

GW_TESTS(hang_sim, a_body_that_computes_is_the_root, a_member_that_computes_is_the_root,
         groups_in_a_circle_are_a_cycle, calls_and_messages_in_a_circle_are_a_cycle,
         a_sender_that_computes_is_the_root, a_member_that_does_not_agree_is_the_root,
         the_body_that_has_the_turn_is_the_root, nothing_is_named_while_the_job_makes_progress);
