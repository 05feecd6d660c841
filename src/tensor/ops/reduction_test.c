#include "tensor/ops/reduction.h"
#include "testing/op_expect.h"

// Sums over each set of dimensions of a tensor compared with one dimension after the other.
static void several_dims_are_one_after_the_other(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_reshape(s, gw_arange(s, GW_F64, 0, 120, 1), 2, 3, 4, 5);
    gw_tensor *turned = gw_permute(s, x, 3, 1, 0, 2);
    for (int which = 0; which < 2; which++) {
        gw_tensor *given = which ? turned : x;
        for (unsigned set = 1; set < 16; set++) {
            gw_tensor *expected = given;
            int64_t dims[4];
            int count = 0;
            for (int d = 3; d >= 0; d--) {
                if (!(set >> d & 1)) continue;
                dims[count++] = d;
                expected = gw_sum(s, expected, .dim = d);
            }
            gw_shape over = { count, dims };
            assert_true(gw_equal(s, gw_sum(s, given, .dims = over), expected));
            gw_tensor *kept = gw_sum(s, given, .dims = over, .keepdim = true);
            for (int d = 0; d < 4; d++)
                assert_int_equal(gw_size(kept, d), set >> d & 1 ? 1 : gw_size(given, d));
        }
    }
    gw_scope_close_up(s);
}

static void no_dims_are_all(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_ones(s, GW_F32, 2, 3);
    expect_text(s, gw_sum(s, x, .dims = GW_SHAPE()), GW_F32, "tensor(6.)");
    expect_text(s, gw_sum(s, gw_ones(s, GW_F32), .dims = GW_SHAPE(-1)), GW_F32, "tensor(1.)");
    gw_scope_close_up(s);
}

static void a_dim_must_exist_and_be_given_once(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_ones(s, GW_F32, 2, 3);
    gw_mean(s, x, .dims = GW_SHAPE(0, 2));
    expect_fails(s, "gw.mean: dimension 2 was given for 2x3, but it must be -2 to 1");
    gw_mean(s, x, .dims = GW_SHAPE(1, -1));
    expect_fails(s, "gw.mean: dimension -1 is given twice, but each must be given once");
    gw_scope_close_up(s);
}

static void a_call_by_name_takes_one_dim_or_a_list(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_ones(s, GW_F32, 2, 3);
    gw_list *dims = gw_list_open(s);
    gw_list_add(s, dims, 0);
    gw_list_add(s, dims, 1);
    const op *sum = op_find("sum");
    const gw_value one[] = { gw_value_of(x), gw_value_of(1) };
    const gw_value both[] = { gw_value_of(x), gw_value_of(dims) };
    expect_text(s, op_run(s, sum, one, 2, NULL), GW_F32, "tensor([3., 3.])");
    expect_text(s, op_run(s, sum, both, 2, NULL), GW_F32, "tensor(6.)");
    gw_scope_close_up(s);
}

// ---- Of nothing, and of numbers that are not finite ------------------------------------------------------
static void nothing_has_the_value_that_changes_nothing(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_zeros(s, GW_F32, 0, 2);
    expect_text(s, gw_prod(s, x, .dims = GW_SHAPE(0)), GW_F32, "tensor([1., 1.])");
    expect_text(s, gw_norm(s, x, 2, .dims = GW_SHAPE(0)), GW_F32, "tensor([0., 0.])");
    expect_text(s, gw_logsumexp(s, x, .dims = GW_SHAPE(0)), GW_F32, "tensor([-inf, -inf])");
    expect_text(s, gw_any(s, x), GW_BOOL8, "tensor(False)");
    expect_text(s, gw_all(s, x), GW_BOOL8, "tensor(True)");
    gw_amax(s, x, .dims = GW_SHAPE(0));
    expect_fails(
        s, "gw.amax: 0x2 has no elements along the reduced dimensions: there must be at least one");
    gw_norm(s, x, INFINITY, .dims = GW_SHAPE(0));
    expect_fails(
        s,
        "gw.norm: p is inf and 0x2 has no elements: there must be one if p is infinite or below 0");
    gw_scope_close_up(s);
}

static void nan_and_infinities_stay(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x =
        gw_from(s, ((float[]){ 1, NAN, 2, 1, INFINITY, 2, -INFINITY, -INFINITY, -INFINITY }), 3, 3);
    gw_shape rows = GW_SHAPE(1);
    expect_values(s, gw_logsumexp(s, x, .dims = rows), (const double[]){ NAN, INFINITY, -INFINITY },
                  0);
    expect_values(s, gw_norm(s, x, INFINITY, .dims = rows),
                  (const double[]){ NAN, INFINITY, INFINITY }, 0);
    expect_values(s, gw_norm(s, x, -INFINITY, .dims = rows), (const double[]){ NAN, 1, INFINITY },
                  0);
    expect_values(s, gw_amin(s, x, .dims = rows), (const double[]){ NAN, 1, -INFINITY }, 0);
    gw_scope_close_up(s);
}

static void floats_only(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_norm(s, gw_ones(s, GW_I64, 2), 2);
    expect_fails(s, "gw.norm: i64 is not a float dtype, but must be one; gw_to_dtype converts it");
    gw_norm(s, gw_ones(s, GW_F32, 2), NAN);
    expect_fails(
        s,
        "gw.norm: p is nan and 2 has no elements: there must be one if p is infinite or below 0");
    gw_logsumexp(s, gw_ones(s, GW_I64, 2));
    expect_fails(
        s, "gw.logsumexp: i64 is not a float dtype, but must be one; gw_to_dtype converts it");
    gw_scope_close_up(s);
}

static void dim_and_dims_exclude_each_other(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_ones(s, GW_F32, 2, 3, 4);
    assert_int_equal(gw_dims(gw_sum(s, x)), 0);
    assert_int_equal(gw_dims(gw_sum(s, x, .keepdim = true)), 3);
    assert_int_equal(gw_numel(gw_sum(s, x, .dim = -1)), 6);
    assert_int_equal(gw_numel(gw_sum(s, x, .dims = GW_SHAPE(0, -1))), 3);
    assert_true(gw_ok(s));
    gw_sum(s, x, .dim = 0, .dims = GW_SHAPE(1));
    assert_string_equal(gw_scope_error(s)->text, "gw.sum: both dim and dims are given");
    gw_scope_clear(s);
    gw_scope_close_up(s);
}

GW_TESTS(tensor_reduction, dim_and_dims_exclude_each_other, several_dims_are_one_after_the_other,
         no_dims_are_all, a_dim_must_exist_and_be_given_once,
         a_call_by_name_takes_one_dim_or_a_list, nothing_has_the_value_that_changes_nothing,
         nan_and_infinities_stay, floats_only);
