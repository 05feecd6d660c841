// Common parts of the tests of this room.
#ifndef DATA_DATA_TEST_H
#define DATA_DATA_TEST_H

#include "testing/testing.h"

#include <gradwire/data.h>

#include <string.h>

static inline void assert_fails(gw_scope *s, gw_status status, const char *words) {
    gw_error e = gw_scope_close(s);
    assert_int_equal(e.status, status);
    if (!strstr(e.text, words)) fail_msg("\"%s\" does not contain \"%s\"", e.text, words);
}

static inline void assert_ints(gw_scope *s, gw_tensor *x, int count, const int64_t *expected) {
    assert_int_equal(gw_numel(x), count);
    assert_int_equal(gw_dtype_of(x), GW_I64);
    const int64_t *at = gw_data(gw_contiguous(s, x));
    for (int i = 0; i < count; i++) assert_int_equal(at[i], expected[i]);
}
#define assert_numbers(s, x, ...)                                                                  \
    assert_ints(s, x, (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)),                 \
                (int64_t[]){ __VA_ARGS__ })

// Items 0, 10, 20 and so on.
static inline gw_value ten_times(gw_scope *s, void *state, int64_t index) {
    (void)s, (void)state;
    return gw_value_of(10 * index);
}

#endif
