#include "tensor/pack.h"

#include "base/mem.h"
#include "testing/testing.h"
#include <gradwire/ops.h>

#include <string.h>

static void a_packed_tensor_is_not_copied(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_slice(s, gw_arange(s, GW_F32, 0, 12, 1), 0, 4, 8, 1);
    packed p;
    assert_true(tensor_pack(x, &p));
    assert_ptr_equal(p.bytes, gw_data(x));
    assert_ptr_equal(p.holder, x->storage->block);
    assert_int_equal(p.offset, 4 * sizeof(float));
    packed_release(&p);
    assert_null(p.holder);
    gw_scope_close_up(s);
}

static void a_strided_tensor_is_copied_in_order(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_transpose(s, gw_reshape(s, gw_arange(s, GW_I16, 0, 6, 1), 2, 3), 0, 1);
    const int16_t columns[] = { 0, 3, 1, 4, 2, 5 };
    packed p;
    assert_true(tensor_pack(x, &p));
    assert_memory_equal(p.bytes, columns, sizeof columns);
    packed_release(&p);
    int16_t out[6];
    tensor_pack_into((uint8_t *)out, x);
    assert_memory_equal(out, columns, sizeof columns);
    gw_scope_close_up(s);
}

// The numbers of a message may begin at any byte.
static void a_tensor_is_packed_at_any_address(void **state) {
    (void)state;
    static const gw_dtype dtypes[] = { GW_U8, GW_F16, GW_F32, GW_F64 };
    gw_scope *s = gw_scope_open(NULL);
    for (int i = 0; i < 4; i++) {
        gw_tensor *x =
            gw_to_dtype(s, gw_reshape(s, gw_arange(s, GW_F32, 0, 120, 1), 40, 3), dtypes[i]);
        gw_tensor *views[] = { gw_transpose(s, x, 0, 1), gw_slice(s, x, 0, 0, 40, 2),
                               gw_slice(s, x, 1, 1, 3, 1) };
        for (int k = 0; k < 3; k++) {
            uint8_t out[120 * 8 + 8];
            size_t size = (size_t)gw_numel(views[k]) * gw_dtype_size(dtypes[i]);
            const void *want = gw_data(gw_contiguous(s, views[k]));
            for (int at = 0; at < 8; at++) {
                tensor_pack_into(out + at, views[k]);
                assert_memory_equal(out + at, want, size);
            }
        }
    }
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void numbers_are_assigned_between_layouts(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *from = gw_reshape(s, gw_arange(s, GW_F64, 0, 24, 1), 2, 3, 4);
    gw_tensor *layouts[] = {
        gw_zeros(s, GW_F64, 2, 3, 4),
        gw_transpose(s, gw_zeros(s, GW_F64, 4, 3, 2), 0, 2),
        gw_transpose(s, gw_zeros(s, GW_F64, 3, 2, 4), 0, 1),
        gw_slice(s, gw_zeros(s, GW_F64, 2, 3, 9), 2, 1, 9, 2),
    };
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        testing_note("layout %zu", i);
        tensor_assign(layouts[i], from);
        assert_true(gw_equal(s, layouts[i], from));
    }
    tensor_assign(gw_zeros(s, GW_F64, 0, 3), gw_zeros(s, GW_F64, 0, 3));
    gw_tensor *scalar = gw_zeros(s, GW_F64);
    tensor_assign(scalar, gw_full(s, GW_F64, 3.0));
    assert_true(gw_item(s, scalar) == 3);
    gw_scope_close_up(s);
}

static void on_its_device_a_tensor_stays_itself(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_ones(s, GW_F32, 2);
    assert_ptr_equal(tensor_to_device(s, x, GW_CPU), x);
    gw_fail(s, GW_INVALID, "no");
    assert_true(tensor_is_poison(tensor_to_device(s, x, GW_CPU)));
    gw_scope_clear(s);
    gw_scope_close_up(s);
}

GW_TESTS(tensor_pack, a_packed_tensor_is_not_copied, a_strided_tensor_is_copied_in_order,
         a_tensor_is_packed_at_any_address, numbers_are_assigned_between_layouts,
         on_its_device_a_tensor_stays_itself);
