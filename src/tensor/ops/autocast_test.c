// Casts by the scope: which operators, for which tensors, where. Values are compared with PyTorch's
// in autograd/recordings_test.c.
#include "testing/cluster.h"
#include "testing/testing.h"

#include "tensor/ops/op.h"
#include <gradwire/amp.h>
#include <gradwire/autograd.h>
#include <gradwire/ops.h>
#include <gradwire/rpc.h>

#include <string.h>

// The dtype of an operator on a tensor of |from| in |s|, with another tensor of f32 if it takes two.
static gw_dtype result_of(gw_scope *s, const char *name, gw_dtype from) {
    gw_tensor *x = gw_to_dtype(s, gw_full(s, GW_F32, 0.5, 2, 2), from);
    gw_tensor *y = gw_full(s, GW_F32, 0.25, 2, 2), *classes = gw_zeros(s, GW_I64, 2);
    gw_value second = gw_none();
    const int64_t row[] = { 2 };
    int count = 1;
    if (!strcmp(name, "nll") || !strcmp(name, "cross_entropy"))
        second = gw_value_of(classes), count = 2;
    else if (!strcmp(name, "softmax") || !strcmp(name, "log_softmax") || !strcmp(name, "cumsum"))
        second = gw_value_of(1), count = 2;
    else if (!strcmp(name, "layer_norm"))
        second = value_of_ints((gw_shape){ 1, row }), count = 2;
    else if (strstr(op_find(name)->params, "target") || strstr(op_find(name)->params, " b:") ||
             !strcmp(name, "linear"))
        second = gw_value_of(y), count = 2;
    gw_value v = op_run_value(s, op_find(name), (gw_value[]){ gw_value_of(x), second }, count);
    if (!gw_ok(s)) fail_msg("%s: %s", name, gw_scope_error(s)->text);
    return gw_dtype_of(gw_tensor_of(s, v));
}

// torch.autocast("cuda")'s lists, of the operators that there are.
static void f16_goes_by_pytorch_s_list(void **state) {
    (void)state;
    static const char *const to_f32[] = { "exp",     "log",           "pow",        "rsqrt",
                                          "softmax", "log_softmax",   "sum",        "logsumexp",
                                          "norm",    "cumsum",        "layer_norm", "prod",
                                          "nll",     "cross_entropy", "mse",        "l1",
                                          "add" };
    static const char *const as_given[] = { "tanh", "relu", "sqrt", "mean", "sigmoid", "gelu" };
    enum { COUNT = sizeof to_f32 / sizeof *to_f32, GIVEN = sizeof as_given / sizeof *as_given };
    gw_scope *s = gw_scope_open(NULL);
    gw_autocast(s, GW_F16);
    for (int i = 0; i < COUNT; i++) assert_int_equal(result_of(s, to_f32[i], GW_F16), GW_F32);
    for (int i = 0; i < GIVEN; i++) assert_int_equal(result_of(s, as_given[i], GW_F16), GW_F16);
    for (int i = 0; i < COUNT; i++) assert_int_equal(result_of(s, to_f32[i], GW_F32), GW_F32);
    for (int i = 0; i < COUNT; i++) assert_int_equal(result_of(s, to_f32[i], GW_F64), GW_F64);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void products_are_cast_down(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        gw_scope *s = gw_scope_open(NULL);
        gw_dtype dtype = i ? GW_F16 : GW_BF16;
        gw_autocast(s, dtype);
        assert_int_equal(gw_autocast_dtype(s), dtype);
        assert_int_equal(result_of(s, "matmul", GW_F32), dtype);
        assert_int_equal(result_of(s, "linear", GW_BF16), dtype);
        gw_tensor *image = gw_ones(s, GW_F32, 1, 1, 4, 4), *window = gw_ones(s, GW_F32, 1, 1, 2, 2);
        assert_int_equal(gw_dtype_of(gw_conv2d(s, image, window, NULL)), dtype);
        assert_int_equal(gw_scope_close(s).status, GW_OK);
    }
}

// The same bits as by hand.
static void a_product_is_that_of_the_converted(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL), *t = gw_scope_open(s);
    gw_tensor *a = gw_randn(s, GW_F32, 5, 7), *b = gw_randn(s, GW_F32, 7, 3);
    gw_autocast(t, GW_BF16);
    gw_tensor *by_hand = gw_matmul(s, gw_to_dtype(s, a, GW_BF16), gw_to_dtype(s, b, GW_BF16));
    assert_true(gw_equal(s, gw_matmul(t, a, b), by_hand));
    assert_int_equal(gw_dtype_of(gw_matmul(s, a, b)), GW_F32);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void scopes_inside_inherit_it_and_may_end_it(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_scope *before = gw_scope_open(s);
    gw_autocast(s, GW_BF16);
    gw_scope *inner = gw_scope_open(s), *off = gw_scope_open(inner);
    gw_autocast_off(off);
    gw_scope *again = gw_scope_open(off), *other = gw_scope_open(inner);
    gw_autocast(again, GW_BF16);
    gw_autocast(other, GW_F16);
    assert_int_equal(result_of(before, "matmul", GW_F32), GW_F32);
    assert_int_equal(result_of(inner, "matmul", GW_F32), GW_BF16);
    assert_int_equal(result_of(off, "matmul", GW_F32), GW_F32);
    assert_int_equal(result_of(again, "matmul", GW_F32), GW_BF16);
    assert_int_equal(result_of(other, "matmul", GW_F32), GW_F16);
    gw_autocast(s, GW_F16);
    assert_int_equal(result_of(s, "matmul", GW_F32), GW_F16);
    assert_int_equal(result_of(inner, "matmul", GW_F32), GW_BF16);
    assert_int_equal(gw_autocast_dtype(off), GW_F32);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void other_types_are_refused(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_autocast(s, GW_F32);
    gw_error e = gw_scope_close(s);
    assert_int_equal(e.status, GW_INVALID);
    assert_non_null(strstr(e.text, "gw_autocast: the dtype is f32, but must be f16 or bf16"));
}

static void call(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_autocast(root, GW_BF16);
    gw_tensor *x = gw_ones(root, GW_F32, 2, 2);
    gw_tensor *there = gw_tensor_of(root, gw_rpc_sync(root, "w1", "gw.matmul", x, x));
    assert_int_equal(gw_dtype_of(there), GW_F32);
    assert_int_equal(gw_dtype_of(gw_matmul(root, x, x)), GW_BF16);
}

static void calls_do_not_carry_it(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 2 }, call, NULL);
}

static void compute(void *context) {
    (void)context;
    gw_scope *s = gw_scope_open(NULL);
    gw_autocast(s, GW_BF16);
    gw_tensor *w = gw_requires_grad(s, gw_ones(s, GW_F32, 2, 2));
    gw_tensor *y = gw_matmul(s, gw_matmul(s, w, w), w);
    gw_backward(s, gw_mse(s, y, gw_ones(s, GW_F32, 2, 2)));
    bool same = gw_ok(s) && gw_item(s, gw_sum(s, gw_grad(s, w))) == 4 * 18;
    gw_error e = gw_scope_close(s);
    assert_true(e.status == GW_NO_MEMORY || (e.status == GW_OK && same));
}

static void it_survives_the_lack_of_memory(void **state) {
    (void)state;
    testing_alloc_failure_loop(compute, NULL);
}

GW_TESTS(tensor_autocast, f16_goes_by_pytorch_s_list, products_are_cast_down,
         a_product_is_that_of_the_converted, scopes_inside_inherit_it_and_may_end_it,
         other_types_are_refused, calls_do_not_carry_it, it_survives_the_lack_of_memory);
