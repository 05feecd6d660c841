// PowerSGD: its results for gradients with a known answer, its memory, its errors.
#include "parallel/hooks/power_sgd.h"

#include "testing/cluster.h"
#include "testing/given_gradients.h"
#include "testing/testing.h"
#include <gradwire.h>

#include <string.h>

enum { MEMBERS = 2, ROWS = 24, COLUMNS = 16, WEIGHTS = 3 };

static const int64_t wide[] = { ROWS, COLUMNS }, odd[] = { 9, 5, 4 }, bias[] = { ROWS };
static const gw_shape shapes[] = { { 2, wide }, { 3, odd }, { 1, bias } };

static void run(int world_size, cluster_main *main, void *context) {
    for (uint64_t seed = 1; seed <= (uint64_t)testing_scaled(3); seed++)
        cluster_run(
            seed, (cluster_options){ .world_size = world_size, .network = given_network(seed, 0) },
            main, context);
}

// The contribution of member |rank| for weight |i| in |step|: matrices of rank 1, columns by rows.
static gw_tensor *contribution(gw_scope *s, int rank, int step, int i) {
    uint64_t seed = (uint64_t)(1000 * step + 10 * i + rank);
    if (shapes[i].count == 1) return given_numbers(s, shapes[i], seed);
    int64_t rows = shapes[i].sizes[0], columns = i ? 20 : COLUMNS;
    gw_tensor *m = gw_mul(s, given_numbers(s, (gw_shape){ 2, (int64_t[]){ rows, 1 } }, seed),
                          given_numbers(s, (gw_shape){ 2, (int64_t[]){ 1, columns } }, seed + 5));
    return gw_reshape_with(s, m, shapes[i]);
}

static gw_tensor *mean_contribution(gw_scope *s, int members, int step, int i) {
    gw_tensor *sum = contribution(s, 0, step, i);
    for (int r = 1; r < members; r++) sum = gw_add(s, sum, contribution(s, r, step, i));
    return gw_div(s, sum, members);
}

static void walk(gw_scope *s, const given_model *m, int rank, int step) {
    gw_tensor *g[WEIGHTS];
    for (int i = 0; i < WEIGHTS; i++) g[i] = contribution(s, rank, step, i);
    gw_backward(s, given_loss(s, m, g));
    if (!gw_ok(s)) fail_msg("step %d: %s", step, gw_scope_error(s)->text);
}

// The same bits on all.
static void expect_equal(gw_scope *s, const given_model *m) {
    gw_group *g = gw_group_world(s);
    for (int i = 0; i < m->count; i++) {
        gw_list *all = gw_all_gather_list(s, g, gw_grad(s, m->weights[i]));
        for (int r = 1; r < gw_list_count(all); r++)
            assert_true(gw_equal(s, gw_tensor_of(s, gw_list_get(s, all, 0)),
                                 gw_tensor_of(s, gw_list_get(s, all, r))));
    }
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
}

typedef struct job {
    gw_comm_hook *hook;
    gw_power_sgd_options options;
    int64_t bucket_bytes;
} job;

static gw_power_sgd *begin(gw_scope *root, given_model *m, const job *j) {
    given_open(root, m, WEIGHTS, shapes);
    gw_ddp *d = gw_ddp_open(root, m->module, .first_bucket_bytes = j->bucket_bytes,
                            .bucket_bytes = j->bucket_bytes);
    gw_power_sgd *p = gw_power_sgd_open_with(root, j->options);
    gw_ddp_set_hook(root, d, j->hook, p);
    return p;
}

// ---- Results ------------------------------------------------------------------------------

// Each leaves the mean, up to |off|.
static void take_steps(gw_scope *root, given_model *m, int rank, int steps, double off) {
    for (int step = 0; step < steps; step++) {
        gw_scope *s = gw_scope_open(root);
        walk(s, m, rank, step);
        for (int i = 0; i < WEIGHTS; i++)
            given_compare(s, "a mean", gw_grad(s, m->weights[i]),
                          mean_contribution(s, MEMBERS, step, i), off);
        expect_equal(s, m);
        gw_scope_close_up(s);
    }
}

// The mean of two matrices of rank 1 has rank 2: nothing is left out.
static void step_exactly(gw_scope *root, int rank, void *context) {
    given_model m;
    gw_power_sgd *p = begin(root, &m, context);
    take_steps(root, &m, rank, 5, 2e-4);
    gw_power_sgd_stats t = gw_power_sgd_get_stats(p);
    int64_t each = ROWS * COLUMNS + 9 * 20 + ROWS;
    int64_t sent = 2 * (ROWS + COLUMNS) + 2 * (9 + 20) + ROWS;
    assert_true(t.passes == 5 && t.numel_before == 3 * each && t.numel_after == 3 * sent);
}

static void a_gradient_of_low_rank_is_exact(void **state) {
    (void)state;
    job j = { gw_hook_power_sgd, GW_OPTIONS(gw_power_sgd_options, .rank = 2, .start = 2), 1 << 20 };
    run(MEMBERS, step_exactly, &j);
    j.bucket_bytes = 1;  // each alone, and their second rounds in any order
    run(MEMBERS, step_exactly, &j);
    j.options.warm_start = j.options.feedback = false;
    run(MEMBERS, step_exactly, &j);
}

// With feedback nothing is lost: the contributions are the results plus the kept errors.
static void lose_nothing(gw_scope *root, int rank, void *context) {
    given_model m;
    const job *j = context;
    gw_power_sgd *p = begin(root, &m, j);
    bool is_square = j->hook == gw_hook_batched_power_sgd;
    gw_tensor *owed[WEIGHTS];
    for (int i = 0; i < WEIGHTS; i++) owed[i] = gw_zeros_with(root, GW_F32, shapes[i]);
    for (int step = 0; step < 12; step++) {
        gw_scope *s = gw_scope_open(root);
        walk(s, &m, rank, step);
        expect_equal(s, &m);
        for (int i = 0; step >= 2 && i < WEIGHTS; i++) {
            gw_add_(s, owed[i], contribution(s, rank, step, i));
            gw_sub_(s, owed[i], gw_grad(s, m.weights[i]));
        }
        gw_scope_close_up(s);
    }
    gw_map *map = gw_power_sgd_state_dict(root, p);
    for (int i = 0; i < 2 && !is_square; i++) {
        gw_tensor *error = gw_tensor_of(root, gw_map_get(root, map, i ? "1.error" : "0.error"));
        given_compare(root, "an error", gw_reshape_with(root, error, shapes[i]), owed[i], 1e-5);
        assert_true(gw_item(root, gw_sum(root, gw_abs(root, error))) > 0.1);
    }
    if (is_square) {  // w2, w1, w0, and zeros
        gw_tensor *flat[] = { gw_reshape(root, owed[2], -1), gw_reshape(root, owed[1], -1),
                              gw_reshape(root, owed[0], -1) };
        gw_tensor *error = gw_tensor_of(root, gw_map_get(root, map, "2.error"));
        gw_tensor *all = gw_cat(root, flat, WEIGHTS, 0);
        given_compare(root, "the error", gw_slice(root, error, 0, 0, gw_numel(all), 1), all, 1e-5);
    }
}

static void feedback_returns_the_error_later(void **state) {
    (void)state;
    job j = { gw_hook_power_sgd, GW_OPTIONS(gw_power_sgd_options, .start = 2), 1 << 20 };
    run(MEMBERS, lose_nothing, &j);
    run(3, lose_nothing, &j);
    j.bucket_bytes = 1;
    run(3, lose_nothing, &j);
    j = (job){ gw_hook_batched_power_sgd, j.options, 1 << 20 };
    run(MEMBERS, lose_nothing, &j);
}

static void stay_equal_in_halves(gw_scope *root, int rank, void *context) {
    (void)context;
    given_model m;
    given_open(root, &m, WEIGHTS, shapes);
    gw_ddp *d = gw_ddp_open(root, m.module);
    gw_hook_around around = { gw_hook_power_sgd, gw_power_sgd_open(root, .rank = 2, .start = 2) };
    gw_ddp_set_hook(root, d, gw_hook_f16_around, &around);
    take_steps(root, &m, rank, 4, 4e-3);
}

static void it_works_with_f16(void **state) {
    (void)state;
    run(MEMBERS, stay_equal_in_halves, NULL);
}

// ---- Memory -------------------------------------------------------------------------

// Eight steps, or five and three of a job that continues with the map of the first.
static void continue_job(gw_scope *root, int rank, void *context) {
    const job *j = context;
    gw_tensor *last[2][WEIGHTS];
    for (int cut = 0; cut < 2; cut++) {
        given_model m;
        gw_scope *t = gw_scope_open(root);
        gw_power_sgd *p = begin(t, &m, j);
        for (int step = 0; step < 8; step++) {
            if (cut && step == 5) {
                gw_map *map = gw_keep(root, gw_power_sgd_state_dict(t, p));
                gw_scope_close_up(t);
                t = gw_scope_open(root);
                p = begin(t, &m, j);
                gw_power_sgd_load_state_dict(t, p, map);
            }
            gw_scope *s = gw_scope_open(t);
            walk(s, &m, rank, step);
            for (int i = 0; step == 7 && i < WEIGHTS; i++)
                last[cut][i] = gw_keep(root, gw_grad(s, m.weights[i]));
            gw_scope_close_up(s);
        }
        assert_true(gw_power_sgd_get_stats(p).passes == 8);
        gw_scope_close_up(t);
    }
    for (int i = 0; i < WEIGHTS; i++) assert_true(gw_equal(root, last[0][i], last[1][i]));
}

static void a_loaded_state_continues_with_the_same_bits(void **state) {
    (void)state;
    job j = { gw_hook_power_sgd, GW_OPTIONS(gw_power_sgd_options, .start = 2), 1 << 20 };
    run(MEMBERS, continue_job, &j);
    j.hook = gw_hook_batched_power_sgd;
    run(MEMBERS, continue_job, &j);
}

// ---- Failing ------------------------------------------------------------------------------------

static gw_tensor *fail_here(gw_scope *s, gw_tensor *grad, void *context) {
    (void)grad, (void)context;
    gw_fail(s, GW_INVALID, "no such gradient");
    return NULL;
}

static void fail_once(gw_scope *root, int rank, void *context) {
    given_model m;
    begin(root, &m, context);
    for (int step = 0; step < 8; step++) {
        gw_scope *s = gw_scope_open(root);
        bool fails = step == 4;
        int hook = fails && rank ? gw_register_hook(s, m.weights[1], fail_here, NULL) : 0;
        if (!fails) {
            walk(s, &m, rank, step);
            expect_equal(s, &m);
        } else {
            gw_tensor *g[WEIGHTS];
            for (int i = 0; i < WEIGHTS; i++) g[i] = contribution(s, rank, step, i);
            gw_backward(s, given_loss(s, &m, g));
            if (gw_ok(s) || !strstr(gw_scope_error(s)->text, "no such gradient"))
                fail_msg("%d: %s", rank, gw_scope_error(s)->text);
            gw_scope_clear(s);
        }
        if (hook) gw_remove_hook(s, m.weights[1], hook);
        gw_scope_close_up(s);
    }
}

static void fail_by_seed(uint64_t seed, void *context) {
    job j = *(job *)context;
    j.bucket_bytes = seed % 2 ? 1 : 1 << 20;
    cluster_run(seed, (cluster_options){ .world_size = 3, .network = given_network(seed, 300) },
                fail_once, &j);
}

static void after_a_failure_replicas_are_equal_again(void **state) {
    (void)state;
    job j = { gw_hook_power_sgd, GW_OPTIONS(gw_power_sgd_options, .start = 2), 0 };
    testing_for_seeds(20, fail_by_seed, &j);
}

static void expect_error(gw_scope *s, gw_status status, const char *text) {
    if (gw_scope_error(s)->status != status || !strstr(gw_scope_error(s)->text, text))
        fail_msg("%s: %s", gw_status_name(gw_scope_error(s)->status), gw_scope_error(s)->text);
    gw_scope_clear(s);
}

static void refuse(gw_scope *root, int rank, void *context) {
    (void)rank, (void)context;
    gw_power_sgd_open(root, .rank = 0);
    expect_error(root, GW_INVALID, ".rank is 0");
    gw_power_sgd_open(root, .start = 1);
    expect_error(root, GW_INVALID, "start is 1");
    gw_power_sgd_open(root, .min_rate = 0);
    expect_error(root, GW_INVALID, ".min_rate is 0");
    gw_power_sgd_open(root, .epsilon = -1);
    expect_error(root, GW_INVALID, ".epsilon is -1");
    gw_power_sgd *p = gw_power_sgd_open(root);
    gw_map *map = gw_map_open(root);
    gw_power_sgd_load_state_dict(root, p, map);
    expect_error(root, GW_INVALID, "the state has no \"passes\"");
    gw_map_put(root, map, "passes", 3);
    gw_map_put(root, map, "0.mistake", gw_zeros(root, GW_F32, 3));
    gw_power_sgd_load_state_dict(root, p, map);
    expect_error(root, GW_INVALID, "\"0.mistake\" is not a name of its state");
    given_model m, other;
    given_open(root, &other, WEIGHTS, shapes);
    gw_ddp *first = gw_ddp_open(root, gw_nn_linear(root, 3, 2));
    gw_hook_around around = { gw_hook_power_sgd, p };
    gw_ddp_set_hook(root, first, gw_hook_power_sgd, p);
    gw_ddp_set_hook(root, gw_ddp_open(root, other.module), gw_hook_f16_around, &around);
    expect_error(root, GW_WRONG_STATE,
                 "gw_ddp_set_hook: the gw_power_sgd is used by another gw_ddp");
    given_open(root, &m, WEIGHTS, shapes);
    gw_ddp_set_hook(root, gw_ddp_open(root, m.module), gw_hook_power_sgd, NULL);
    gw_tensor *g[WEIGHTS];
    for (int i = 0; i < WEIGHTS; i++) g[i] = contribution(root, 0, 0, i);
    gw_backward(root, given_loss(root, &m, g));
    expect_error(root, GW_INVALID, "the gw_power_sgd is NULL");
}

static void invalid_arguments_are_errors(void **state) {
    (void)state;
    run(MEMBERS, refuse, NULL);
}

GW_TESTS(parallel_power_sgd, a_gradient_of_low_rank_is_exact, feedback_returns_the_error_later,
         it_works_with_f16, a_loaded_state_continues_with_the_same_bits,
         after_a_failure_replicas_are_equal_again, invalid_arguments_are_errors);
