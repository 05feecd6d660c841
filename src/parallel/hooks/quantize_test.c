// Gradients as bytes: how far the mean is off, and that it is the same on all.
#include "testing/cluster.h"
#include "testing/given_gradients.h"
#include "testing/testing.h"
#include <gradwire.h>

#include <math.h>
#include <string.h>

enum { MEMBERS = 3, COUNT = 1300 };

static const int64_t size = COUNT;
static const gw_shape shape = { 1, &size };

typedef struct job {
    gw_comm_hook *hook;
    gw_quantize_options *options;
    double most;  // that a mean may be off
    double spoilt;
} job;

static void run(cluster_main *main, void *context) {
    for (uint64_t seed = 1; seed <= (uint64_t)testing_scaled(3); seed++)
        cluster_run(seed, (cluster_options){ .world_size = MEMBERS }, main, context);
}

// The first 512 numbers are a hundredth of the others.
static gw_tensor *contribution(gw_scope *s, int rank) {
    gw_tensor *x = given_numbers(s, shape, (uint64_t)rank);
    gw_mul_(s, gw_slice(s, x, 0, 0, 512, 1), 0.01);
    return x;
}

static void begin(gw_scope *root, given_model *m, const job *j) {
    given_open(root, m, 1, &shape);
    gw_ddp_set_hook(root, gw_ddp_open(root, m->module), j->hook, j->options);
}

static void expect_equal(gw_scope *s, gw_tensor *x) {
    gw_list *all = gw_all_gather_list(s, gw_group_world(s), x);
    for (int r = 1; r < gw_list_count(all); r++)
        assert_true(gw_equal(s, gw_tensor_of(s, gw_list_get(s, all, 0)),
                             gw_tensor_of(s, gw_list_get(s, all, r))));
}

static void take_mean(gw_scope *root, int rank, void *context) {
    const job *j = context;
    given_model m;
    begin(root, &m, j);
    gw_tensor *own = contribution(root, rank);
    gw_backward(root, given_loss(root, &m, &own));
    gw_tensor *got = gw_grad(root, m.weights[0]);
    gw_tensor *mean = gw_all_reduce(root, gw_group_world(root), own, GW_AVG);
    given_compare(root, "a small number", gw_slice(root, got, 0, 0, 512, 1),
                  gw_slice(root, mean, 0, 0, 512, 1), j->most);
    given_compare(root, "a number", got, mean, 1.01 / 255);
    expect_equal(root, got);
}

static void each_number_is_off_by_half_a_step(void **state) {
    (void)state;
    job j = { gw_hook_quantize_tensor, NULL, 1.01 / 255, 0 };
    run(take_mean, &j);
    j = (job){ gw_hook_quantize_channel, NULL, 0.0101 / 255, 0 };
    run(take_mean, &j);
    gw_quantize_options narrow = GW_OPTIONS(gw_quantize_options, .channel = 100);
    j.options = &narrow;
    j.most = 1.01 / 255;  // the channel from 500 to 599 has large ones, too
    run(take_mean, &j);
}

static void keep_zeros(gw_scope *root, int rank, void *context) {
    given_model m;
    begin(root, &m, context);
    gw_tensor *own =
        gw_mul(root, contribution(root, rank), gw_ge(root, contribution(root, rank), 0.2));
    if (rank == 2) own = gw_zeros_like(root, own);
    gw_backward(root, given_loss(root, &m, &own));
    gw_tensor *is_zero = gw_eq(root, gw_all_reduce(root, gw_group_world(root), own, GW_MAX), 0);
    gw_tensor *there = gw_mul(root, gw_grad(root, m.weights[0]), is_zero);
    assert_true(gw_ok(root) && gw_item(root, gw_sum(root, gw_abs(root, there))) == 0);
}

static void zeros_stay_zeros(void **state) {
    (void)state;
    job j = { gw_hook_quantize_tensor, NULL, 0, 0 };
    run(keep_zeros, &j);
    j.hook = gw_hook_quantize_channel;
    run(keep_zeros, &j);
}

// The channel of number 700 has a number of member 1's that no byte represents.
static void spoil(gw_scope *root, int rank, void *context) {
    const job *j = context;
    given_model m;
    begin(root, &m, j);
    gw_tensor *own = contribution(root, rank);
    if (rank == 1) gw_fill_(root, gw_slice(root, own, 0, 700, 701, 1), j->spoilt);
    gw_backward(root, given_loss(root, &m, &own));
    gw_tensor *nan = gw_to_dtype(root, gw_isnan(root, gw_grad(root, m.weights[0])), GW_F32);
    double count = gw_item(root, gw_sum(root, nan));
    assert_true(gw_ok(root) && count == (j->hook == gw_hook_quantize_tensor ? COUNT : 512));
    assert_true(gw_item(root, gw_slice(root, nan, 0, 700, 701, 1)) == 1);
}

static void a_value_that_is_not_finite_is_nan_on_all(void **state) {
    (void)state;
    job j = { gw_hook_quantize_tensor, NULL, 0, (double)NAN };
    run(spoil, &j);
    j.hook = gw_hook_quantize_channel;
    run(spoil, &j);
    j.spoilt = -(double)INFINITY;
    run(spoil, &j);
}

static void refuse(gw_scope *root, int rank, void *context) {
    (void)rank;
    given_model m;
    begin(root, &m, context);
    gw_tensor *own = contribution(root, rank);
    gw_backward(root, given_loss(root, &m, &own));
    if (!strstr(gw_scope_error(root)->text, "a channel has 0 numbers"))
        fail_msg("%s", gw_scope_error(root)->text);
    gw_scope_clear(root);
}

static void a_channel_has_numbers(void **state) {
    (void)state;
    gw_quantize_options none = GW_OPTIONS(gw_quantize_options, .channel = 0);
    run(refuse, &(job){ gw_hook_quantize_channel, &none, 0, 0 });
}

GW_TESTS(parallel_quantize, each_number_is_off_by_half_a_step, zeros_stay_zeros,
         a_value_that_is_not_finite_is_nan_on_all, a_channel_has_numbers);
