// A device whose memory the CPU cannot read: its tensors in the rooms below the network.
#include "tensor/pack.h"
#include "tensor/ops/op.h"
#include "testing/hidden_device.h"
#include "testing/testing.h"

#include <gradwire/autograd.h>
#include <gradwire/ops.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static gw_tensor *hide(gw_scope *s, gw_tensor *x) {
    return tensor_to_device(s, x, hidden_device());
}

static void assert_fails(gw_scope *s, gw_status status, const char *text) {
    assert_string_equal(gw_scope_error(s)->text, text);
    assert_int_equal(gw_scope_error(s)->status, status);
    gw_scope_clear(s);
}

static void close_scope(gw_scope *s) {
    gw_error error = gw_scope_close(s);
    assert_string_equal(error.text, "");
    assert_int_equal(hidden_device_blocks(), 0);
}

// ---- Memory -------------------------------------------------------------------------------------
// In a process of its own, which a signal is to end.
static bool crashes(const uint8_t *at) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        volatile uint8_t byte = *at;
        (void)byte;
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

static void the_cpu_cannot_read_its_memory(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = hide(s, gw_ones(s, GW_F32, 3));
    assert_true(crashes(tensor_bytes(x)));
    gw_neg(s, x);
    assert_true(crashes(tensor_bytes(x)));
    close_scope(s);
}

static void values_round_trip_to_the_device(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_reshape(s, gw_arange(s, GW_F32, 0, 12, 1), 3, 4);
    gw_tensor *there = hide(s, x);
    assert_int_equal(gw_device_of(there), hidden_device());
    assert_ptr_equal(hide(s, there), there);
    gw_tensor *back = tensor_to_device(s, there, GW_CPU);
    assert_true(gw_equal(s, back, x));
    close_scope(s);
}

static void views_of_it_are_copied_with_their_layout(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_reshape(s, gw_arange(s, GW_I64, 0, 24, 1), 2, 3, 4), *there = hide(s, x);
    gw_tensor *views[][2] = {
        { gw_transpose(s, x, 0, 2), gw_transpose(s, there, 0, 2) },
        { gw_slice(s, x, 2, 1, 4, 2), gw_slice(s, there, 2, 1, 4, 2) },
        { gw_select(s, x, 1, 2), gw_select(s, there, 1, 2) },
        { gw_expand(s, gw_select(s, x, 0, 1), 5, 3, 4),
          gw_expand(s, gw_select(s, there, 0, 1), 5, 3, 4) },
        { gw_slice(s, x, 0, 1, 1, 1), gw_slice(s, there, 0, 1, 1, 1) },
    };
    for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
        testing_note("view %zu", i);
        assert_int_equal(gw_device_of(views[i][1]), hidden_device());
        assert_true(gw_equal(s, tensor_to_device(s, views[i][1], GW_CPU), views[i][0]));
        // And the other way, from such a layout.
        assert_true(gw_equal(s, tensor_to_device(s, hide(s, views[i][0]), GW_CPU), views[i][0]));
    }
    close_scope(s);
}

static void it_is_printed_and_read_one_by_one(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_requires_grad(s, hide(s, gw_arange(s, GW_F32, 0, 3, 1)));
    assert_string_equal(gw_to_text(s, x),
                        "tensor([0., 1., 2.], device=hidden, requires_grad=True)");
    assert_true(gw_item(s, gw_select(s, x, 0, 2)) == 2);
    assert_int_equal(gw_item_int(s, hide(s, gw_full(s, GW_I64, 7))), 7);
    close_scope(s);
}

static void the_user_gets_no_address_of_it(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = hide(s, gw_ones(s, GW_F32, 3));
    assert_null(gw_data(x));
    assert_null(gw_data_for_write(s, x));
    assert_fails(s, GW_INVALID,
                 "gw_data_for_write: x is on device hidden, which the CPU cannot write");
    close_scope(s);
}

static void copies_convert_and_broadcast_across_devices(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *row = gw_arange(s, GW_I64, 0, 3, 1), *here = gw_zeros(s, GW_F32, 2, 3);
    gw_tensor *there = hide(s, here), *saved = hide(s, here);
    gw_copy_(s, there, row);
    assert_string_equal(gw_to_text(s, there),
                        "tensor([[0., 1., 2.],\n        [0., 1., 2.]], device=hidden)");
    gw_copy_(s, here, there);
    assert_string_equal(gw_to_text(s, here), "tensor([[0., 1., 2.],\n        [0., 1., 2.]])");
    gw_copy_(s, gw_transpose(s, saved, 0, 1), hide(s, gw_full(s, GW_F32, 4.0)));
    gw_copy_(s, gw_select(s, saved, 1, 0), gw_select(s, there, 1, 2));
    assert_string_equal(gw_to_text(s, saved),
                        "tensor([[2., 4., 4.],\n        [2., 4., 4.]], device=hidden)");
    close_scope(s);
}

// ---- Operators ----------------------------------------------------------------------------------
typedef gw_tensor *formula(gw_scope *s, gw_tensor *a, gw_tensor *b);  // a: 3 4, b: 4

static gw_tensor *add(gw_scope *s, gw_tensor *a, gw_tensor *b) {
    return gw_add(s, a, b);
}
static gw_tensor *sub(gw_scope *s, gw_tensor *a, gw_tensor *b) {
    return gw_sub(s, 1.0, gw_sub(s, a, b));
}
static gw_tensor *mul(gw_scope *s, gw_tensor *a, gw_tensor *b) {
    return gw_mul(s, a, b);
}
static gw_tensor *divide(gw_scope *s, gw_tensor *a, gw_tensor *b) {
    return gw_div(s, a, b);
}
static gw_tensor *neg(gw_scope *s, gw_tensor *a, gw_tensor *b) {
    return gw_mul(s, gw_neg(s, a), b);
}
static gw_tensor *exponential(gw_scope *s, gw_tensor *a, gw_tensor *b) {
    return gw_exp(s, gw_mul(s, a, b));
}
static gw_tensor *logarithm(gw_scope *s, gw_tensor *a, gw_tensor *b) {
    return gw_log(s, gw_mul(s, a, b));
}
static gw_tensor *hyperbolic(gw_scope *s, gw_tensor *a, gw_tensor *b) {
    return gw_tanh(s, gw_mul(s, a, b));
}
static gw_tensor *sigmoid(gw_scope *s, gw_tensor *a, gw_tensor *b) {
    return gw_sigmoid(s, gw_mul(s, a, b));
}
static gw_tensor *relu(gw_scope *s, gw_tensor *a, gw_tensor *b) {
    return gw_relu(s, gw_sub(s, a, b));
}
static gw_tensor *matmul(gw_scope *s, gw_tensor *a, gw_tensor *b) {
    return gw_matmul(s, a, gw_mul(s, gw_transpose(s, a, 0, 1), gw_unsqueeze(s, b, 1)));
}
static gw_tensor *linear(gw_scope *s, gw_tensor *a, gw_tensor *b) {
    return gw_linear(s, gw_unsqueeze(s, b, 0), a, gw_select(s, a, 1, 0));
}
static gw_tensor *mean(gw_scope *s, gw_tensor *a, gw_tensor *b) {
    return gw_mul(s, gw_mean(s, a, .dim = 1, .keepdim = true), b);
}
static gw_tensor *sum(gw_scope *s, gw_tensor *a, gw_tensor *b) {
    return gw_mul(s, gw_sum(s, a, .dim = 0), b);
}
static gw_tensor *slices(gw_scope *s, gw_tensor *a, gw_tensor *b) {
    return gw_mul(s, gw_slice(s, a, 1, 1, 3, 1), gw_select(s, b, 0, 3));
}
static gw_tensor *joined(gw_scope *s, gw_tensor *a, gw_tensor *b) {
    return gw_cat(s, (gw_tensor *[]){ a, gw_unsqueeze(s, b, 0) }, 2, 0);
}
static gw_tensor *double_precision(gw_scope *s, gw_tensor *a, gw_tensor *b) {
    return gw_mul(s, gw_to_dtype(s, a, GW_F64), gw_clone(s, gw_reshape(s, b, 1, 4)));
}

static void assert_same(gw_scope *s, const char *what, gw_tensor *there, gw_tensor *here) {
    if (!gw_ok(s)) fail_msg("%s: %s", what, gw_scope_error(s)->text);
    assert_int_equal(gw_device_of(there), hidden_device());
    assert_int_equal(gw_device_of(here), GW_CPU);
    if (!gw_equal(s, tensor_to_device(s, there, GW_CPU), here)) fail_msg("%s differs", what);
}

// Forward and backward on both devices: the kernels are the same, and so are the bits.
static void compare(const char *name, formula *f) {
    testing_note("%s", name);
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *a = gw_add(s, gw_rand(s, GW_F32, 3, 4), 0.5);
    gw_tensor *b = gw_add(s, gw_rand(s, GW_F32, 4), 0.5);
    gw_tensor *x[] = { gw_requires_grad(s, a), gw_requires_grad(s, b) };
    gw_tensor *hidden_x[] = { gw_requires_grad(s, hide(s, gw_detach(s, a))),
                              gw_requires_grad(s, hide(s, gw_detach(s, b))) };
    gw_tensor *y = f(s, x[0], x[1]), *hidden_y = f(s, hidden_x[0], hidden_x[1]);
    int runs = hidden_device_kernel_runs();
    assert_same(s, "the result", hidden_y, y);
    gw_backward(s, gw_sum(s, gw_mul(s, y, y)));
    gw_backward(s, gw_sum(s, gw_mul(s, hidden_y, hidden_y)));
    assert_true(hidden_device_kernel_runs() > runs);
    for (int i = 0; i < 2; i++)
        assert_same(s, "a gradient", gw_grad(s, hidden_x[i]), gw_grad(s, x[i]));
    close_scope(s);
}

static void operators_and_their_derivatives_run_there(void **state) {
    (void)state;
    compare("add", add);
    compare("sub", sub);
    compare("mul", mul);
    compare("div", divide);
    compare("neg", neg);
    compare("exp", exponential);
    compare("log", logarithm);
    compare("tanh", hyperbolic);
    compare("sigmoid", sigmoid);
    compare("relu", relu);
    compare("matmul", matmul);
    compare("linear", linear);
    compare("mean", mean);
    compare("sum", sum);
    compare("slice and select", slices);
    compare("cat", joined);
    compare("to_dtype, reshape and clone", double_precision);
}

static void a_gradient_goes_back_to_the_device_it_is_of(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_requires_grad(s, gw_arange(s, GW_F32, 0, 3, 1));
    gw_tensor *there = hide(s, x), *back = tensor_to_device(s, gw_mul(s, there, there), GW_CPU);
    gw_backward(s, gw_sum(s, back));
    assert_string_equal(gw_to_text(s, gw_grad(s, x)), "tensor([0., 2., 4.])");
    close_scope(s);
}

static void saved_values_do_not_change(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_requires_grad(s, hide(s, gw_ones(s, GW_F32, 3)));
    gw_tensor *factor = hide(s, gw_full(s, GW_F32, 2.0, 3)), *y = gw_mul(s, x, factor);
    gw_copy_(s, factor, gw_zeros(s, GW_F32, 3));
    gw_backward(s, gw_sum(s, y));
    assert_string_equal(gw_to_text(s, gw_grad(s, x)), "tensor([2., 2., 2.], device=hidden)");
    close_scope(s);
}

static void it_is_written_in_place(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = hide(s, gw_ones(s, GW_F32, 2, 3)), *row = gw_select(s, x, 0, 1);
    gw_add_(s, x, 1);
    gw_mul_(s, row, hide(s, gw_arange(s, GW_F32, 0, 3, 1)));
    assert_string_equal(gw_to_text(s, x),
                        "tensor([[2., 2., 2.],\n        [0., 2., 4.]], device=hidden)");
    gw_fill_(s, row, 7);
    assert_string_equal(gw_to_text(s, row), "tensor([7., 7., 7.], device=hidden)");
    gw_zero_(s, x);
    assert_string_equal(gw_to_text(s, row), "tensor([0., 0., 0.], device=hidden)");
    gw_uniform_(s, row, 1, 2);
    assert_true(gw_item(s, gw_sum(s, row)) >= 3);
    assert_int_equal(gw_device_of(gw_ones_like(s, row)), hidden_device());
    close_scope(s);
}

static void a_copy_that_is_recorded_crosses_devices(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_requires_grad(s, gw_arange(s, GW_F32, 0, 3, 1));
    gw_tensor *there = hide(s, gw_zeros(s, GW_F32, 2, 3));
    gw_copy_(s, there, x);
    gw_backward(s, gw_sum(s, gw_mul(s, there, there)));
    assert_string_equal(gw_to_text(s, gw_grad(s, x)), "tensor([0., 4., 8.])");
    close_scope(s);
}

// ---- Errors -------------------------------------------------------------------------------------
static void operands_are_on_one_device(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *here = gw_ones(s, GW_F32, 2), *there = hide(s, here);
    gw_add(s, here, there);
    assert_fails(s, GW_INVALID, "gw.add: its operands are on the devices cpu and hidden");
    gw_cat(s, (gw_tensor *[]){ there, here }, 2, 0);
    assert_fails(s, GW_INVALID, "gw.cat: its operands are on the devices hidden and cpu");
    close_scope(s);
}

static void an_operator_without_a_kernel_is_an_error(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *there = hide(s, gw_ones(s, GW_F32, 2, 2));
    gw_softmax(s, there, 0);
    assert_fails(s, GW_UNSUPPORTED, "gw.softmax: no kernel for device hidden");
    gw_rows(s, gw_zeros(s, GW_I64, 2), there, 5);
    assert_fails(s, GW_UNSUPPORTED,
                 "gw.rows: indices and values must be on device cpu, not hidden");
    close_scope(s);
}

static void allocations_may_fail(void *context) {
    (void)context;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_requires_grad(s, hide(s, gw_ones(s, GW_F32, 3)));
    gw_tensor *y = gw_mul(s, x, x);
    gw_copy_(s, gw_detach(s, y), gw_ones(s, GW_F32, 3));
    gw_backward(s, gw_sum(s, y));
    gw_to_text(s, y);
    gw_error ignored = gw_scope_close(s);
    (void)ignored;
    assert_int_equal(hidden_device_blocks(), 0);
}

static void it_survives_without_memory(void **state) {
    (void)state;
    hidden_device();
    testing_alloc_failure_loop(allocations_may_fail, NULL);
}

GW_TESTS(tensor_device, the_cpu_cannot_read_its_memory, values_round_trip_to_the_device,
         views_of_it_are_copied_with_their_layout, it_is_printed_and_read_one_by_one,
         the_user_gets_no_address_of_it, copies_convert_and_broadcast_across_devices,
         operators_and_their_derivatives_run_there, a_gradient_goes_back_to_the_device_it_is_of,
         saved_values_do_not_change, it_is_written_in_place,
         a_copy_that_is_recorded_crosses_devices, operands_are_on_one_device,
         an_operator_without_a_kernel_is_an_error, it_survives_without_memory);
