// Checks of results for tests of operators. For tests only.
#ifndef TESTING_OP_EXPECT_H
#define TESTING_OP_EXPECT_H

#include <math.h>

#include "tensor/copy.h"
#include "tensor/dtype.h"
#include "tensor/ops/op.h"
#include "testing/testing.h"
#include <gradwire/autograd.h>
#include <gradwire/ops.h>

// Shape and values, as gw_print writes them, and the dtype.
static inline void expect_text(gw_scope *s, gw_tensor *x, gw_dtype dtype, const char *text) {
    assert_string_equal(scope_error(s)->text, "");
    assert_string_equal(gw_to_text(s, x), text);
    assert_string_equal(gw_dtype_name(gw_dtype_of(x)), gw_dtype_name(dtype));
}

static inline void expect_shape(gw_scope *s, const gw_tensor *x, const char *shape) {
    assert_string_equal(scope_error(s)->text, "");
    assert_string_equal(shape_text(x).text, shape);
}

// Expects this error text; the scope is fine again afterwards.
static inline void expect_fails(gw_scope *s, const char *text) {
    assert_string_equal(scope_error(s)->text, text);
    assert_int_equal(scope_error(s)->status, GW_INVALID);
    gw_scope_clear(s);
}

// Element |i| in order.
static inline double element(const gw_tensor *x, int64_t i) {
    int64_t at = 0;
    for (int d = x->dims - 1; d >= 0; d--) {
        at += i % x->sizes[d] * x->strides[d];
        i /= x->sizes[d];
    }
    size_t size = gw_dtype_size((gw_dtype)x->dtype);
    return dtype_read((gw_dtype)x->dtype, tensor_bytes(x) + at * (int64_t)size);
}

static inline void expect_near(double x, double expected, double tolerance) {
    bool same = x == expected || (isnan(x) && isnan(expected));
    if (!same && !(fabs(x - expected) <= tolerance * (1 + fabs(expected))))
        fail_msg("%.9g, not %.9g", x, expected);
}

static inline void expect_values(gw_scope *s, const gw_tensor *x, const double *values,
                                 double tolerance) {
    assert_string_equal(scope_error(s)->text, "");
    for (int64_t i = 0; i < x->numel; i++) expect_near(element(x, i), values[i], tolerance);
}

static inline bool same_bits(const gw_tensor *x, const gw_tensor *y) {
    return x->numel == y->numel && x->dtype == y->dtype && x->contiguous && y->contiguous &&
           memcmp(tensor_bytes(x), tensor_bytes(y),
                  (size_t)x->numel * gw_dtype_size((gw_dtype)x->dtype)) == 0;
}

#endif
