#include "tensor/kernels/window.h"

#include "testing/testing.h"

#include <string.h>

// A plane of 3 by 4 seen by 2 by 2, each second row, padded at the sides.
static const window seen = {
    .size = { 3, 4 },
    .kernel = { 2, 2 },
    .padding = { 0, 1 },
    .stride = { 2, 1 },
    .dilation = { 1, 2 },
    .out = { 1, 4 },
};

static void columns_hold_the_window_of_each_position(void **state) {
    (void)state;
    const double x[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 };
    const double expected[] = { 0, 1, 2, 3, 2, 3, 4, 0, 0, 5, 6, 7, 6, 7, 8, 0 };
    double columns[16];
    window_unfold(GW_F64, &seen, x, 1, 0, 1, columns);
    assert_memory_equal(columns, expected, sizeof expected);
}

static void folding_adds_each_value_to_its_source(void **state) {
    (void)state;
    float x[12] = { 0 }, columns[16];
    for (int i = 0; i < 16; i++) columns[i] = (float)(i + 1);
    window_fold(GW_F32, &seen, columns, 1, 0, 1, x);
    const float expected[] = { 2, 3 + 5, 4 + 6, 7, 10, 11 + 13, 12 + 14, 15, 0, 0, 0, 0 };
    assert_memory_equal(x, expected, sizeof expected);
}

// Rows in parts are rows of the whole, also where only some of them are in the plane.
static void parts_make_the_whole(void **state) {
    (void)state;
    const window w = {
        .size = { 4, 3 },
        .kernel = { 3, 2 },
        .padding = { 2, 1 },
        .stride = { 1, 2 },
        .dilation = { 1, 1 },
        .out = { 6, 2 },
    };
    float x[24], whole[2 * 6 * 12], part[2 * 6 * 2];
    for (int i = 0; i < 24; i++) x[i] = (float)(i + 1);
    window_unfold(GW_F32, &w, x, 2, 0, 6, whole);
    for (int row = 0; row < 6; row++) {
        window_unfold(GW_F32, &w, x, 2, row, 1, part);
        for (int k = 0; k < 12; k++)
            assert_memory_equal(part + k * 2, whole + k * 12 + row * 2, 2 * sizeof(float));
    }
}

static void spans_are_what_is_in_the_plane(void **state) {
    (void)state;
    const window w = { .size = { 5, 7 },
                       .kernel = { 3, 2 },
                       .padding = { 1, 1 },
                       .stride = { 2, 3 },
                       .dilation = { 1, 2 } };
    static const int64_t expected[2][3][2] = { { { 0, 2 }, { 1, 4 }, { 3, 5 } },
                                               { { 1, 2 }, { 2, 5 }, { 5, 7 } } };
    for (int d = 0; d < 2; d++)
        for (int o = 0; o < 3; o++) {
            window_span s = window_span_at(&w, d, o);
            assert_int_equal(s.first, expected[d][o][0]);
            assert_int_equal(s.end, expected[d][o][1]);
        }
}

GW_TESTS(tensor_window, columns_hold_the_window_of_each_position,
         folding_adds_each_value_to_its_source, parts_make_the_whole,
         spans_are_what_is_in_the_plane);
