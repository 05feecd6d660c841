// Groups that the library opens for replicas, sharded optimizers and joins, in simulated jobs: a member opens alone,
// with different arguments, or after an error.
#include "testing/cluster.h"
#include "testing/testing.h"
#include <gradwire.h>

#include <stdio.h>
#include <string.h>

enum { MEMBERS = 3, SEEDS = 12, PATIENCE_MS = 40000 };

static void expect_error(gw_scope *s, gw_status status, const char *text) {
    const gw_error *e = gw_scope_error(s);
    if (e->status != status || !strstr(e->text, text))
        fail_msg("%s: %s, not %s", gw_status_name(e->status), e->text, text);
    gw_scope_clear(s);
}

static void expect_ok(gw_scope *s) {
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
}

static void meet(gw_scope *s, gw_group *g) {
    gw_barrier(s, g);
    expect_ok(s);
}

static gw_module *open_model(gw_scope *s) {
    return gw_nn_linear(s, 4, 3);
}

static void step(gw_scope *outer, gw_module *m, gw_optimizer *opt) {
    gw_scope *s = gw_scope_open(outer);
    gw_backward(s, gw_mean(s, gw_module_call(s, m, gw_ones(s, GW_F32, 2, 4))));
    if (opt) gw_optimizer_step(s, opt);
    gw_scope_close_up(s);
    expect_ok(outer);
}

static void open_alone(gw_scope *root, int rank, void *context);

static void run_one(uint64_t seed, void *context) {
    cluster_main *const *main = context;
    sim_options network = sim_varied(seed, 0);
    // Over the slowest networks, of some hundred bytes a second, aborts miss the time of GRP-10.
    if (*main == open_alone && network.delay_max_us > 20000) network.delay_max_us = 20000;
    cluster_run(seed, (cluster_options){ .world_size = MEMBERS, .network = network }, *main, &seed);
}

static void run(cluster_main *main) {
    testing_for_seeds(SEEDS, run_one, &main);
}

// ---- One member opens alone ---------------------------------------------------------------------

typedef enum what { A_MODEL, A_SHARDED_OPTIMIZER, A_JOIN, WHAT_COUNT } what;

static const char *const functions[] = { "gw_ddp_open of linear", "gw_optimizer_shard of sgd",
                                         "gw_join_open" };

static gw_optimizer *open_optimizer(gw_scope *s, gw_module *m) {
    return gw_sgd(s, gw_parameters(s, m), .lr = 0.1);
}

static void open_one(gw_scope *s, what x, gw_group *g) {
    gw_module *m = open_model(s);
    if (x == A_MODEL) gw_ddp_open(s, m, .group = g);
    if (x == A_SHARDED_OPTIMIZER) gw_optimizer_shard(s, open_optimizer(s, m), .group = g);
    if (x != A_JOIN) return;
    gw_joinable part = { .group = g };
    gw_join *join = gw_join_open(s, &part, 1);
    if (gw_ok(s)) gw_join_close(s, join);
}

// Called by all members: opens each kind, and takes a step.
static void open_all(gw_scope *s, gw_group *g) {
    gw_scope *t = gw_scope_open(s);
    gw_module *m = open_model(t);
    gw_ddp_open(t, m, .group = g);
    gw_optimizer *opt = open_optimizer(t, m);
    gw_optimizer_shard(t, opt, .group = g);
    step(t, m, opt);
    meet(t, g);
    gw_scope_close_up(t);
    expect_ok(s);
}

// The member that opens alone gets an error with the function that no other member has called. Then all members open.
static void open_alone(gw_scope *root, int rank, void *context) {
    uint64_t seed = *(const uint64_t *)context;
    gw_group *sync = gw_group_world(root, .name = "sync", .timeout_ms = GW_NO_TIMEOUT);
    gw_group *g = seed % 2 ? gw_group_world(root, .name = "g", .timeout_ms = PATIENCE_MS) : NULL;
    for (what x = A_MODEL; x < WHAT_COUNT; x++) {
        gw_scope *s = gw_scope_open(root);
        if (!g && x == A_JOIN) {
            gw_scope_close_up(s);
            continue;
        }
        if (rank == (int)(seed % MEMBERS)) {
            open_one(s, x, g);
            const char *text = gw_scope_error(s)->text;
            if (!strstr(text, "have not entered") && seed == 1) fail_msg("%s", text);
            expect_error(s, GW_TIMEOUT, functions[x]);
        }
        gw_scope_close_up(s);
        meet(root, sync);
        open_all(root, g ? g : sync);
        if (!g) {
            gw_module *m = open_model(root);
            gw_ddp_open(root, m);
            step(root, m, NULL);
        }
    }
}

static void a_member_that_opens_alone_gets_an_error_and_the_next_opening_succeeds(void **state) {
    (void)state;
    run(open_alone);
}

// ---- One member has failed before ---------------------------------------------------------------

// The others get its error at once.
static void fail_before(gw_scope *root, int rank, void *context) {
    uint64_t seed = *(const uint64_t *)context;
    gw_group *g = seed % 2 ? gw_group_world(root, .name = "g") : NULL;
    int victim = (int)(seed / 2 % MEMBERS);
    for (int way = 0; way < 4; way++) {
        gw_scope *s = gw_scope_open(root);
        const char *text = way == 0 ? "no such file" : way == 1 ? "no module" : ".shards is 3, ";
        if (way == 3) text = "has already made a step";
        gw_module *m = open_model(s);
        gw_optimizer *opt = open_optimizer(s, m);
        if (rank == victim && way == 0) gw_fail(s, GW_INVALID, "no such file");
        if (rank == victim && way == 3) step(s, m, opt);
        if (way == 3)
            gw_optimizer_shard(s, opt, .group = g);
        else
            gw_ddp_open(s, way == 1 && rank == victim ? NULL : m, .group = g,
                        .shards = way == 2 && rank == victim ? 3 : 0);
        gw_status status = way == 3 ? GW_WRONG_STATE : GW_INVALID;
        expect_error(s, status, text);
        gw_scope_close_up(s);
        m = open_model(root);
        gw_ddp_open(root, m, .group = g);
        expect_ok(root);
        step(root, m, NULL);
    }
}

static void an_earlier_error_of_one_member_fails_all_at_once(void **state) {
    (void)state;
    run(fail_before);
}

// ---- Members open with different arguments ------------------------------------------------------

typedef void opens(gw_scope *s, gw_group *g, bool other);

static void other_function(gw_scope *s, gw_group *g, bool other) {
    gw_module *m = open_model(s);
    if (other)
        gw_optimizer_shard(s, open_optimizer(s, m), .group = g);
    else
        gw_ddp_open(s, m, .group = g);
}

static void other_shards(gw_scope *s, gw_group *g, bool other) {
    gw_ddp_open(s, open_model(s), .group = g, .shards = other ? 0 : MEMBERS + 1);
}

static void other_bucket(gw_scope *s, gw_group *g, bool other) {
    gw_ddp_open(s, open_model(s), .group = g, .bucket_bytes = other ? 16 : 1 << 20);
}

static void other_first_bucket(gw_scope *s, gw_group *g, bool other) {
    gw_ddp_open(s, open_model(s), .group = g, .first_bucket_bytes = other ? 16 : 1 << 20);
}

static void other_buffers(gw_scope *s, gw_group *g, bool other) {
    gw_ddp_open(s, open_model(s), .group = g,
                .buffers = other ? GW_BUFFERS_LEFT : GW_BUFFERS_AVERAGE);
}

static void other_graph(gw_scope *s, gw_group *g, bool other) {
    gw_ddp_open(s, open_model(s), .group = g, .static_graph = other);
}

static void other_checks(gw_scope *s, gw_group *g, bool other) {
    gw_ddp_open(s, open_model(s), .group = g, .check_every = other ? 10 : 0);
}

static void other_ranges(gw_scope *s, gw_group *g, bool other) {
    gw_optimizer_shard(s, open_optimizer(s, open_model(s)), .group = g, .flat = other);
}

static void other_gradients(gw_scope *s, gw_group *g, bool other) {
    gw_module *m = open_model(s);
    gw_ddp_open(s, m, .group = g);
    gw_optimizer_shard(s, open_optimizer(s, m), .group = g,
                       .gradients = other ? GW_SHARDED : GW_WHOLE);
}

static void other_overlap(gw_scope *s, gw_group *g, bool other) {
    gw_module *m = open_model(s);
    gw_ddp_open(s, m, .group = g);
    gw_optimizer_shard(s, open_optimizer(s, m), .group = g, .overlap = other);
}

static void other_joinables(gw_scope *s, gw_group *g, bool other) {
    gw_module *m = open_model(s);
    gw_joinable parts[] = { { .ddp = gw_ddp_open(s, m, .group = g) },
                            { .optimizer = open_optimizer(s, m) } };
    gw_join_open(s, parts, other ? 2 : 1);
}

static void other_divisor(gw_scope *s, gw_group *g, bool other) {
    gw_joinable part = { .ddp = gw_ddp_open(s, open_model(s), .group = g) };
    gw_join_open(s, &part, 1, .active_divisor = other);
}

// The part of the text behind "and" is the call of member 1.
static const struct difference {
    opens *open;
    const char *text;
} differences[] = {
    { other_function, "), and w1 calls gw_optimizer_shard of sgd" },
    { other_shards, "): .shards = 4 on w0, and .shards = 0 on w1" },
    { other_bucket, ".bucket_bytes = 1048576 on w0, and .bucket_bytes = 16 on w1" },
    { other_first_bucket,
      ".first_bucket_bytes = 1048576 on w0, and .first_bucket_bytes = 16 on w1" },
    { other_buffers, ".buffers = GW_BUFFERS_AVERAGE on w0, and .buffers = GW_BUFFERS_LEFT on w1" },
    { other_graph, ".static_graph = false on w0, and .static_graph = true on w1" },
    { other_checks, ".check_every = 0 on w0, and .check_every = 10 on w1" },
    { other_ranges, "gw_optimizer_shard of sgd: .flat = false on w0, and .flat = true on w1" },
    { other_gradients, ".gradients = GW_WHOLE on w0, and .gradients = GW_SHARDED on w1" },
    { other_overlap, ".overlap = false on w0, and .overlap = true on w1" },
    { other_joinables, "gw_join_open: nothing on w0, and joinable 1 = an optimizer on w1" },
    { other_divisor, ".active_divisor = false on w0, and .active_divisor = true on w1" },
};

static void differ(gw_scope *root, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(root, .name = "g");
    for (size_t i = 0; i < sizeof differences / sizeof *differences; i++) {
        gw_scope *s = gw_scope_open(root);
        differences[i].open(s, g, rank == 1);
        expect_error(s, GW_MISMATCH, differences[i].text);
        gw_scope_close_up(s);
    }
    open_all(root, g);
}

static void differences_are_reported_on_all_members(void **state) {
    (void)state;
    run(differ);
}

static void join_one_twice(gw_scope *root, int rank, void *context) {
    (void)rank, (void)context;
    gw_ddp *ddp = gw_ddp_open(root, open_model(root));
    gw_joinable parts[] = { { .ddp = ddp }, { .ddp = ddp } };
    gw_join_open(root, parts, 2);
    expect_error(root, GW_DUPLICATE, "gw_join_open: joinables 0 and 1 are the same gw_ddp");
}

static void a_joinable_is_in_a_join_once(void **state) {
    (void)state;
    run(join_one_twice);
}

GW_TESTS(opening_sim, a_member_that_opens_alone_gets_an_error_and_the_next_opening_succeeds,
         an_earlier_error_of_one_member_fails_all_at_once, differences_are_reported_on_all_members,
         a_joinable_is_in_a_join_once);
