// The machinery of gradwire/value.h: it makes values of C values, in C and in C++.
#ifndef GRADWIRE_DETAIL_VALUE_H
#define GRADWIRE_DETAIL_VALUE_H

#include <gradwire/value.h>

#ifdef __cplusplus
inline gw_value gw_value_from(gw_value v) { return v; }
inline gw_value gw_value_from(bool x) { return gw_value_of_bool(x); }
inline gw_value gw_value_from(char x) { return gw_value_of_int(x); }
inline gw_value gw_value_from(signed char x) { return gw_value_of_int(x); }
inline gw_value gw_value_from(unsigned char x) { return gw_value_of_int(x); }
inline gw_value gw_value_from(short x) { return gw_value_of_int(x); }
inline gw_value gw_value_from(unsigned short x) { return gw_value_of_int(x); }
inline gw_value gw_value_from(int x) { return gw_value_of_int(x); }
inline gw_value gw_value_from(unsigned x) { return gw_value_of_int(x); }
inline gw_value gw_value_from(long x) { return gw_value_of_int(x); }
inline gw_value gw_value_from(unsigned long x) { return gw_value_of_int(static_cast<int64_t>(x)); }
inline gw_value gw_value_from(long long x) { return gw_value_of_int(x); }
inline gw_value gw_value_from(unsigned long long x) {
    return gw_value_of_int(static_cast<int64_t>(x));
}
inline gw_value gw_value_from(float x) { return gw_value_of_float(static_cast<double>(x)); }
inline gw_value gw_value_from(double x) { return gw_value_of_float(x); }
inline gw_value gw_value_from(const char *x) { return gw_value_of_string(x); }
inline gw_value gw_value_from(const gw_tensor *x) { return gw_value_of_tensor(x); }
inline gw_value gw_value_from(const gw_list *x) { return gw_value_of_list(x); }
inline gw_value gw_value_from(const gw_map *x) { return gw_value_of_map(x); }
inline gw_value gw_value_from(const gw_rref *x) { return gw_value_of_rref(x); }
inline gw_value gw_value_from(const gw_future *x) { return gw_value_of_future(x); }
inline gw_value gw_value_from(gw_worker x) { return gw_value_of_worker(x); }
inline gw_value gw_value_from(const gw_worker *x) { return x ? gw_value_of_worker(*x) : gw_none(); }
inline gw_value gw_value_from(const gw_error *x) { return gw_value_of_error(x); }
#define GW_VALUE_OF(x) gw_value_from(x)

// The values are in a temporary object, which lives until the call that takes them has returned.
template <int count> struct gw_args_of {
    gw_value items[count + 1];
    operator gw_values() const { return gw_values{ count, items }; }
};
template <class... Args> gw_args_of<static_cast<int>(sizeof...(Args))> gw_args_from(Args... args) {
    return { { gw_value_of(args)..., gw_none() } };
}
#define GW_ARGS_OF(...) gw_args_from(__VA_ARGS__)
#define GW_NO_VALUES gw_args_from()
#else
static inline gw_value gw_value_of_value(gw_value v) { return v; }
static inline gw_value gw_value_of_worker_at(const gw_worker *x) {
    return x ? gw_value_of_worker(*x) : gw_none();
}
// Makes a value of a C value, of any C type that a call can carry.
// clang-format off
#define GW_VALUE_OF(x)                                                                                                 \
    _Generic((x),                                                                                                      \
        gw_value: gw_value_of_value,                                                                                   \
        bool: gw_value_of_bool,                                                                                        \
        char: gw_value_of_int, signed char: gw_value_of_int, unsigned char: gw_value_of_int,                           \
        short: gw_value_of_int, unsigned short: gw_value_of_int,                                                       \
        int: gw_value_of_int, unsigned: gw_value_of_int,                                                               \
        long: gw_value_of_int, unsigned long: gw_value_of_int,                                                         \
        long long: gw_value_of_int, unsigned long long: gw_value_of_int,                                               \
        float: gw_value_of_float, double: gw_value_of_float,                                                           \
        char *: gw_value_of_string, const char *: gw_value_of_string,                                                  \
        gw_tensor *: gw_value_of_tensor, const gw_tensor *: gw_value_of_tensor,                                        \
        gw_list *: gw_value_of_list, const gw_list *: gw_value_of_list,                                                \
        gw_map *: gw_value_of_map, const gw_map *: gw_value_of_map,                                                    \
        gw_rref *: gw_value_of_rref, const gw_rref *: gw_value_of_rref,                                                \
        gw_future *: gw_value_of_future, const gw_future *: gw_value_of_future,                                        \
        gw_worker: gw_value_of_worker,                                                                                 \
        gw_worker *: gw_value_of_worker_at, const gw_worker *: gw_value_of_worker_at,                                  \
        gw_error *: gw_value_of_error, const gw_error *: gw_value_of_error)(x)
// clang-format on

#define GW_ARGS_OF(...) GW_VALUES(__VA_ARGS__, )
#define GW_NO_VALUES ((gw_values){ 0, (const gw_value *)0 })

// GW_VALUES(a, b, ) makes 0 to 12 values; the last argument is empty. For 13 to 24 values the compiler reports that
// there are too many.
// clang-format off
#define GW_VALUES(...)                                                                                                 \
    GW_PICK_26(__VA_ARGS__, GW_TOO_MANY, GW_TOO_MANY, GW_TOO_MANY, GW_TOO_MANY, GW_TOO_MANY, GW_TOO_MANY, GW_TOO_MANY, \
               GW_TOO_MANY, GW_TOO_MANY, GW_TOO_MANY, GW_TOO_MANY, GW_TOO_MANY,                                        \
               GW_VALUES_12, GW_VALUES_11, GW_VALUES_10, GW_VALUES_9, GW_VALUES_8, GW_VALUES_7,                        \
               GW_VALUES_6, GW_VALUES_5, GW_VALUES_4, GW_VALUES_3, GW_VALUES_2, GW_VALUES_1, GW_VALUES_0, 0)(__VA_ARGS__)
#define GW_PICK_26(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y, z, ...) z
#define GW_TOO_MANY(...)                                                                                               \
    ((gw_values){ sizeof(struct { _Static_assert(0, "at most 12 arguments: put more into a gw_list"); int i; }), NULL })
#define GW_VALUES_OF(count, ...) ((gw_values){ count, (const gw_value[]){ __VA_ARGS__ } })
#define GW_V(x) gw_value_of(x)
#define GW_VALUES_0(z) GW_NO_VALUES
#define GW_VALUES_1(a, z) GW_VALUES_OF(1, GW_V(a))
#define GW_VALUES_2(a, b, z) GW_VALUES_OF(2, GW_V(a), GW_V(b))
#define GW_VALUES_3(a, b, c, z) GW_VALUES_OF(3, GW_V(a), GW_V(b), GW_V(c))
#define GW_VALUES_4(a, b, c, d, z) GW_VALUES_OF(4, GW_V(a), GW_V(b), GW_V(c), GW_V(d))
#define GW_VALUES_5(a, b, c, d, e, z) GW_VALUES_OF(5, GW_V(a), GW_V(b), GW_V(c), GW_V(d), GW_V(e))
#define GW_VALUES_6(a, b, c, d, e, f, z) GW_VALUES_OF(6, GW_V(a), GW_V(b), GW_V(c), GW_V(d), GW_V(e), GW_V(f))
#define GW_VALUES_7(a, b, c, d, e, f, g, z) GW_VALUES_OF(7, GW_V(a), GW_V(b), GW_V(c), GW_V(d), GW_V(e), GW_V(f), GW_V(g))
#define GW_VALUES_8(a, b, c, d, e, f, g, h, z) GW_VALUES_OF(8, GW_V(a), GW_V(b), GW_V(c), GW_V(d), GW_V(e), GW_V(f), GW_V(g), GW_V(h))
#define GW_VALUES_9(a, b, c, d, e, f, g, h, i, z) GW_VALUES_OF(9, GW_V(a), GW_V(b), GW_V(c), GW_V(d), GW_V(e), GW_V(f), GW_V(g), GW_V(h), GW_V(i))
#define GW_VALUES_10(a, b, c, d, e, f, g, h, i, j, z) GW_VALUES_OF(10, GW_V(a), GW_V(b), GW_V(c), GW_V(d), GW_V(e), GW_V(f), GW_V(g), GW_V(h), GW_V(i), GW_V(j))
#define GW_VALUES_11(a, b, c, d, e, f, g, h, i, j, k, z) GW_VALUES_OF(11, GW_V(a), GW_V(b), GW_V(c), GW_V(d), GW_V(e), GW_V(f), GW_V(g), GW_V(h), GW_V(i), GW_V(j), GW_V(k))
#define GW_VALUES_12(a, b, c, d, e, f, g, h, i, j, k, l, z) GW_VALUES_OF(12, GW_V(a), GW_V(b), GW_V(c), GW_V(d), GW_V(e), GW_V(f), GW_V(g), GW_V(h), GW_V(i), GW_V(j), GW_V(k), GW_V(l))
// clang-format on
#endif

#endif
