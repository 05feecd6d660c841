#include "tensor/tensor.h"
#include "testing/testing.h"

#include <gradwire/autograd.h>
#include <gradwire/nn.h>
#include <gradwire/ops.h>
#include <string.h>

static const char mismatch[] =
    "gw.matmul: 2x3 times 2x3: the 3 columns of a must be the 2 rows of b";

static gw_tensor *mismatch_in(gw_scope *s) {
    gw_tensor *x = gw_ones(s, GW_F32, 2, 3);
    return gw_matmul(s, x, x);
}

static void it_has_no_elements(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = mismatch_in(s);
    assert_int_equal(gw_dims(x), 0);
    assert_int_equal(gw_numel(x), 0);
    assert_null(gw_data(x));
    assert_null(gw_data_for_write(s, x));
    assert_true(gw_item(s, x) == 0);
    gw_scope_clear(s);
    assert_null(gw_data(x));
    assert_null(gw_data_for_write(s, x));
    assert_non_null(strstr(gw_scope_close(s).text, mismatch));
}

static void add(gw_scope *s, gw_tensor *x) {
    gw_add(s, x, 1);
}
static void add_to(gw_scope *s, gw_tensor *x) {
    gw_add_(s, x, 1);
}
static void copy(gw_scope *s, gw_tensor *x) {
    gw_copy_(s, gw_ones(s, GW_F32), x);
}
static void cat(gw_scope *s, gw_tensor *x) {
    gw_cat(s, (gw_tensor *[]){ gw_ones(s, GW_F32, 1), x }, 2, 0);
}
static void read(gw_scope *s, gw_tensor *x) {
    gw_item(s, x);
}
static void print(gw_scope *s, gw_tensor *x) {
    gw_to_text(s, x);
}
static void like(gw_scope *s, gw_tensor *x) {
    gw_zeros_like(s, x);
}
static void mark(gw_scope *s, gw_tensor *x) {
    gw_requires_grad(s, x);
}
static void pass(gw_scope *s, gw_tensor *x) {
    gw_backward(s, x);
}
static void run_query(gw_scope *s, gw_tensor *x) {
    gw_grad(s, x);
}
static void layer(gw_scope *s, gw_tensor *x) {
    gw_module_call(s, gw_nn_sequential(s, gw_nn_flatten(s), gw_nn_linear(s, 2, 2)), x);
}
static void nothing(gw_scope *s, gw_tensor *x) {
    gw_module_call(s, gw_nn_sequential_with(s, NULL, 0), x);
}
static void attention(gw_scope *s, gw_tensor *x) {
    gw_tensor *q = gw_ones(s, GW_F32, 2, 4);
    gw_nn_multihead_attention_call(s, gw_nn_multihead_attention(s, 4, 2), q, q, x);
}
static void recurrent(gw_scope *s, gw_tensor *x) {
    gw_nn_gru_call(s, gw_nn_gru(s, 2, 3), gw_ones(s, GW_F32, 4, 2), .h0 = x);
}
static void normalize(gw_scope *s, gw_tensor *x) {
    gw_module_call(s, gw_nn_batch_norm1d(s, 2), x);
}
static void start(gw_scope *s, gw_tensor *x) {
    gw_init_uniform(s, x, 0, 1);
}
static void sample(gw_scope *s, gw_tensor *x) {
    gw_categorical_sample(s, gw_categorical_from_logits(s, x));
}
static void draw(gw_scope *s, gw_tensor *x) {
    gw_normal_sample(s, gw_normal_from(s, gw_ones(s, GW_F32), x));
}
static void rows(gw_scope *s, gw_tensor *x) {
    gw_to_dense(s, x);
}

typedef void use(gw_scope *s, gw_tensor *x);

static void a_scope_without_error_refuses_it_with_its_error_text(void **state) {
    (void)state;
    static use *const uses[] = { add,  add_to, copy,      cat,    read,     print,     like,
                                 mark, pass,   run_query, layer,  nothing,  attention, recurrent,
                                 rows, start,  draw,      sample, normalize };
    gw_scope *outer = gw_scope_open(NULL), *failed = gw_scope_open(outer);
    gw_tensor *x = gw_keep(outer, mismatch_in(failed));
    gw_error first = gw_scope_close(failed);
    assert_string_equal(first.text, mismatch);
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++) {
        gw_scope *s = gw_scope_open(outer);
        uses[i](s, x);
        gw_error e = gw_scope_close(s);
        testing_note("use %zu: %s", i, e.text);
        assert_int_equal(e.status, GW_INVALID);
        assert_non_null(strstr(e.text, mismatch));
    }
    gw_scope_close_up(outer);
}

static void each_error_of_a_scope_has_its_own(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL), *other = gw_scope_open(NULL);
    gw_tensor *first = mismatch_in(s);
    gw_scope_clear(s);
    gw_tensor *second = gw_reshape(s, gw_ones(s, GW_F32, 4), 3);
    gw_add(other, first, 1);
    assert_non_null(strstr(gw_scope_error(other)->text, mismatch));
    gw_scope_clear(other);
    gw_add(other, second, 1);
    assert_non_null(strstr(gw_scope_error(other)->text, gw_scope_error(s)->text));
    assert_int_equal(gw_scope_close(s).status, GW_INVALID);
    assert_int_equal(gw_scope_close(other).status, GW_INVALID);
}

static void it_can_be_held_as_any_other(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_list *list = gw_list_open(s);
    gw_tensor *x = mismatch_in(s), *slot = NULL;
    gw_keep(s, x);
    gw_drop(s, x);
    gw_set(s, &slot, x);
    gw_scope_clear(s);
    gw_list_add(s, list, x);
    gw_drop(s, x);
    assert_ptr_equal(gw_tensor_of(s, gw_list_get(s, list, 0)), x);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void use_it(void *context) {
    (void)context;
    gw_scope *s = gw_scope_open(NULL), *failed = gw_scope_open(s);
    gw_tensor *x = mismatch_in(failed);
    assert_null(gw_data(x));
    gw_add(s, x, 1);
    gw_error e = gw_scope_close(s);
    assert_true(e.status == GW_INVALID || e.status == GW_NO_MEMORY);
}

static void it_needs_no_memory_to_be_refused(void **state) {
    (void)state;
    testing_alloc_failure_loop(use_it, NULL);
}

GW_TESTS(tensor_poison, it_has_no_elements, a_scope_without_error_refuses_it_with_its_error_text,
         each_error_of_a_scope_has_its_own, it_can_be_held_as_any_other,
         it_needs_no_memory_to_be_refused);
