// The machinery of gradwire/tensor.h: shapes written as numbers, and arrays of C, in C and in C++.
#ifndef GRADWIRE_DETAIL_TENSOR_H
#define GRADWIRE_DETAIL_TENSOR_H

#include <gradwire/tensor.h>
#include <string.h>

#ifdef __cplusplus

// The sizes are in a temporary object, which lives until the call that takes the shape has returned.
template <int count> struct gw_sizes {
    int64_t sizes[count + 1];
    operator gw_shape() const { return gw_shape{ count, sizes }; }
};
template <class... Sizes> gw_sizes<static_cast<int>(sizeof...(Sizes))> gw_sizes_of(Sizes... sizes) {
    return { { static_cast<int64_t>(sizes)..., 0 } };
}
#define GW_SHAPE_OF(...) gw_sizes_of(__VA_ARGS__)

template <class... Sizes>
gw_tensor *gw_sized(gw_tensor *(*f)(gw_scope *, gw_dtype, gw_shape), gw_scope *s, gw_dtype d,
                    Sizes... sizes) {
    return f(s, d, gw_sizes_of(sizes...));
}
template <class Value, class... Sizes>
gw_tensor *gw_sized_value(gw_tensor *(*f)(gw_scope *, gw_dtype, gw_value, gw_shape), gw_scope *s,
                          gw_dtype d, Value value, Sizes... sizes) {
    return f(s, d, gw_value_of(value), gw_sizes_of(sizes...));
}
template <class... Sizes>
gw_tensor *gw_sized_range(gw_tensor *(*f)(gw_scope *, gw_dtype, int64_t, int64_t, gw_shape),
                          gw_scope *s, gw_dtype d, int64_t low, int64_t high, Sizes... sizes) {
    return f(s, d, low, high, gw_sizes_of(sizes...));
}
#define GW_SIZED_2(name, ...) gw_sized(name##_with, __VA_ARGS__)
#define GW_SIZED_3(name, ...) gw_sized_value(name##_with, __VA_ARGS__)
#define GW_SIZED_4(name, ...) gw_sized_range(name##_with, __VA_ARGS__)

inline gw_dtype gw_dtype_of_c(const float *) { return GW_F32; }
inline gw_dtype gw_dtype_of_c(const double *) { return GW_F64; }
inline gw_dtype gw_dtype_of_c(const int64_t *) { return GW_I64; }
inline gw_dtype gw_dtype_of_c(const int32_t *) { return GW_I32; }
inline gw_dtype gw_dtype_of_c(const int16_t *) { return GW_I16; }
inline gw_dtype gw_dtype_of_c(const int8_t *) { return GW_I8; }
inline gw_dtype gw_dtype_of_c(const uint8_t *) { return GW_U8; }
inline gw_dtype gw_dtype_of_c(const bool *) { return GW_BOOL8; }
template <class Number, class... Sizes>
gw_tensor *gw_from_array(gw_scope *s, const Number *data, Sizes... sizes) {
    return gw_from_with(s, gw_dtype_of_c(data), data, gw_sizes_of(sizes...));
}
#define GW_FROM(...) gw_from_array(__VA_ARGS__)
#else
// In C enumerators are ints, but these macros have the type gw_dtype. GW_DTYPE accepts only this type: gw_ones(s, 3,
// 4), with a size in place of the dtype, does not compile.
#define GW_F32 ((gw_dtype)GW_F32)
#define GW_F64 ((gw_dtype)GW_F64)
#define GW_F16 ((gw_dtype)GW_F16)
#define GW_BF16 ((gw_dtype)GW_BF16)
#define GW_I64 ((gw_dtype)GW_I64)
#define GW_I32 ((gw_dtype)GW_I32)
#define GW_I16 ((gw_dtype)GW_I16)
#define GW_I8 ((gw_dtype)GW_I8)
#define GW_U8 ((gw_dtype)GW_U8)
#define GW_BOOL8 ((gw_dtype)GW_BOOL8)
#define GW_DTYPE(dtype) _Generic((dtype), gw_dtype : (dtype))

// The leading 0 allows an empty shape: the comma after the 0 is then the last token in the braces.
#define GW_SHAPE_OF(...)                                                                           \
    ((gw_shape){ .count = (int)(sizeof((int64_t[]){ 0, __VA_ARGS__ }) / sizeof(int64_t)) - 1,      \
                 .sizes = (const int64_t[]){ 0, __VA_ARGS__ } + 1 })

// A form passes __VA_ARGS__ and then an empty argument, so that a call may have no sizes.
#define GW_SIZED_2(name, ...) GW_WITH_SIZES_2(name##_with, __VA_ARGS__, )
#define GW_SIZED_3(name, ...) GW_WITH_SIZES_3(name##_with, __VA_ARGS__, )
#define GW_SIZED_4(name, ...) GW_WITH_SIZES_4(name##_with, __VA_ARGS__, )
#define GW_WITH_SIZES_2(f, s, dtype, ...) f((s), GW_DTYPE(dtype), GW_SHAPE(__VA_ARGS__))
#define GW_WITH_SIZES_3(f, s, dtype, value, ...)                                                   \
    f((s), GW_DTYPE(dtype), gw_value_of(value), GW_SHAPE(__VA_ARGS__))
#define GW_WITH_SIZES_4(f, s, dtype, low, high, ...)                                               \
    f((s), GW_DTYPE(dtype), (low), (high), GW_SHAPE(__VA_ARGS__))
// Data that begins with a parenthesis may be a literal, (float[]){ 1, 2 }. The commas of a literal split it into
// several macro arguments. The type of the literal is in the first parentheses. GW_FROM_1 joins the parts of the
// literal again in the braces of a gw_literal; the sizes follow the parts.
#define GW_FROM(...) GW_SIZED_FROM(__VA_ARGS__, )
#define GW_SIZED_FROM(s, x, ...) GW_FROM_FORM(GW_PARENTHESIS x, 0, )(s, x, __VA_ARGS__)
#define GW_PARENTHESIS(...) ~, 1,
#define GW_FROM_FORM(...) GW_FROM_FORM_OF(__VA_ARGS__)
#define GW_FROM_FORM_OF(first, form, ...) GW_FROM_##form
// clang-format off
#define GW_DTYPE_OF_C(pointer)                                                                                         \
    _Generic((pointer),                                                                                                \
        float *: GW_F32, const float *: GW_F32, double *: GW_F64, const double *: GW_F64,                              \
        int64_t *: GW_I64, const int64_t *: GW_I64, int32_t *: GW_I32, const int32_t *: GW_I32,                        \
        int16_t *: GW_I16, const int16_t *: GW_I16, int8_t *: GW_I8, const int8_t *: GW_I8,                            \
        uint8_t *: GW_U8, const uint8_t *: GW_U8, bool *: GW_BOOL8, const bool *: GW_BOOL8)
#define GW_FROM_0(s, x, ...) gw_from_with((s), GW_DTYPE_OF_C(x), (x), GW_SHAPE(__VA_ARGS__))
#define GW_FROM_1(s, x, ...)                                                                                           \
    GW_QUIET(gw_from_literal((s), GW_DTYPE_OF_C(&(*(GW_FIRST(GW_TYPE_IN x, ) *)0)[0]),                                 \
                             (gw_literal){ GW_LITERAL_EMPTY, .data = x, __VA_ARGS__ }))
#define GW_TYPE_IN(...) __typeof__(__VA_ARGS__),
#define GW_FIRST(...) GW_FIRST_OF(__VA_ARGS__)
#define GW_FIRST_OF(first, ...) first
// clang-format on
// The struct has one member for each size instead of an array, because gcc warns if the list of an
// array has no braces. INT64_MIN follows the last size.
#define GW_LITERAL_EMPTY NULL, GW_NO_SIZES, GW_NO_SIZES, GW_NO_SIZES, GW_NO_SIZES, INT64_MIN
#define GW_NO_SIZES                                                                                \
    INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN
typedef struct gw_literal {
    const void *data;
    int64_t a0, a1, a2, a3, a4, a5, a6, a7, b0, b1, b2, b3, b4, b5, b6, b7;
    int64_t c0, c1, c2, c3, c4, c5, c6, c7, d0, d1, d2, d3, d4, d5, d6, d7, end;
} gw_literal;
static inline gw_tensor *gw_from_literal(gw_scope *s, gw_dtype dtype, gw_literal from) {
    int64_t sizes[GW_DIMS_MAX + 1];
    _Static_assert(sizeof from == offsetof(gw_literal, a0) + sizeof sizes, "a size per dimension");
    memcpy(sizes, (const char *)&from + offsetof(gw_literal, a0), sizeof sizes);
    int count = 0;
    while (count <= GW_DIMS_MAX && sizes[count] != INT64_MIN) count++;
    return gw_from_with(s, dtype, from.data, (gw_shape){ .count = count, .sizes = sizes });
}
#endif
#define gw_randperm(s, n) (GW_DRAWS, gw_randperm((s), (n)))
#define gw_rand_like(s, x) (GW_DRAWS, gw_rand_like((s), (x)))
#define gw_randn_like(s, x) (GW_DRAWS, gw_randn_like((s), (x)))

#endif
