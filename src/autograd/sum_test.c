#include "testing/testing.h"

#include "autograd/sum.h"
#include <gradwire/ops.h>

#include <string.h>

enum { PARTS = 4 };

// The bits of the sum of four parts that arrive in the order |order|.
static uint32_t bits_of_sum(const int order[PARTS]) {
    static const float values[PARTS] = { 1e8f, 1, -1e8f, 0.3f };
    gw_scope *s = gw_scope_open(NULL);
    grad_sum g = { 0 };
    for (int i = 0; i < PARTS; i++) {
        gw_tensor *part = gw_from(s, &values[order[i]], 1);
        assert_true(grad_sum_add(s, &g, (uint32_t)order[i], part));
        gw_drop(s, part);
    }
    assert_int_equal(g.next, PARTS);
    assert_null(g.later);
    uint32_t bits;
    memcpy(&bits, gw_data(g.total), sizeof bits);
    grad_sum_fini(&g);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
    return bits;
}

static void it_adds_in_the_order_of_ordinals_not_of_arrival(void **state) {
    (void)state;
    uint32_t expected = bits_of_sum((int[]){ 0, 1, 2, 3 });
    for (int a = 0; a < PARTS; a++)
        for (int b = 0; b < PARTS; b++)
            for (int c = 0; c < PARTS; c++)
                if (a != b && a != c && b != c)
                    assert_int_equal(bits_of_sum((int[]){ a, b, c, 6 - a - b - c }), expected);
}

static void it_counts_parts_without_gradient(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    grad_sum g = { 0 };
    assert_true(grad_sum_add(s, &g, 1, NULL));
    assert_true(grad_sum_add(s, &g, 0, NULL));
    assert_int_equal(g.next, 2);
    assert_null(g.total);
    gw_tensor *part = gw_ones(s, GW_F32, 2);
    assert_true(grad_sum_add(s, &g, 2, part));
    assert_ptr_equal(g.total, part);
    grad_sum_fini(&g);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void it_gives_back_parts_that_wait_for_their_turn(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    grad_sum g = { 0 };
    gw_tensor *part = gw_ones(s, GW_F32, 2);
    assert_true(grad_sum_add(s, &g, 3, part));
    assert_false(handle_is_sole(&part->handle));
    grad_sum_fini(&g);
    assert_true(handle_is_sole(&part->handle));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

// Leaves one count on |x|, the caller's, as gradients under way have.
static gw_tensor *own(gw_scope *s, gw_tensor *x) {
    handle_retain(x);
    gw_drop(s, x);
    return x;
}

static void it_adds_in_place_only_into_its_own_sum(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *a = gw_ones(s, GW_F32, 2), *b = gw_ones(s, GW_F32, 2);
    gw_tensor *sum = grad_plus(s, handle_retain(a), b);  // the scope sees |a|, too
    gw_drop(s, sum);
    assert_ptr_not_equal(sum, a);
    assert_float_equal(((const float *)gw_data(a))[0], 1, 0);
    assert_ptr_equal(grad_plus(s, sum, b), sum);
    assert_float_equal(((const float *)gw_data(sum))[0], 3, 0);
    handle_release(sum);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void it_takes_views_and_other_dtypes(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    static const gw_dtype dtypes[] = { GW_F32, GW_F64, GW_F16, GW_BF16 };
    for (int i = 0; i < 4; i++) {
        gw_tensor *wide = gw_expand(s, gw_ones(s, dtypes[i], 1), 3);
        gw_tensor *sum = grad_plus(s, own(s, gw_ones(s, dtypes[i], 3)), wide);
        assert_non_null(sum);
        assert_true(gw_allclose(s, sum, gw_full(s, dtypes[i], 2.0, 3)));
        handle_release(sum);
    }
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

GW_TESTS(autograd_sum, it_adds_in_the_order_of_ordinals_not_of_arrival,
         it_counts_parts_without_gradient, it_gives_back_parts_that_wait_for_their_turn,
         it_adds_in_place_only_into_its_own_sum, it_takes_views_and_other_dtypes);
