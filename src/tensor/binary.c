#include "tensor/binary.h"

#include "tensor/lanes.h"

// Loops for two vectors, and for a vector and a number on either side. x and y are the operands in |value|.
#define KERNEL(name, type, type_name, out_type, value)                                             \
    LANES static void name##_##type_name(const ew_row *r) {                                        \
        out_type *restrict out = r->out;                                                           \
        const type *a = r->in[0], *b = r->in[1];                                                   \
        if (!r->step[0]) {                                                                         \
            type x = *a;                                                                           \
            for (int64_t i = 0; i < r->n; i++) {                                                   \
                type y = b[i];                                                                     \
                out[i] = (out_type)(value);                                                        \
            }                                                                                      \
        } else if (!r->step[1]) {                                                                  \
            type y = *b;                                                                           \
            for (int64_t i = 0; i < r->n; i++) {                                                   \
                type x = a[i];                                                                     \
                out[i] = (out_type)(value);                                                        \
            }                                                                                      \
        } else {                                                                                   \
            for (int64_t i = 0; i < r->n; i++) {                                                   \
                type x = a[i], y = b[i];                                                           \
                out[i] = (out_type)(value);                                                        \
            }                                                                                      \
        }                                                                                          \
    }

// Integers wrap around, which C only promises for unsigned ones.
#define ARITHMETIC(name, value)                                                                    \
    KERNEL(name, float, f32, float, value)                                                         \
    KERNEL(name, double, f64, double, value)                                                       \
    KERNEL(name, uint64_t, i64, uint64_t, value)                                                   \
    KERNEL(name, uint32_t, i32, uint32_t, value)                                                   \
    const ew_kernels kernels_##name = { name##_f32, name##_f64, name##_i64, name##_i32 };

ARITHMETIC(add, x + y)
ARITHMETIC(sub, x - y)
ARITHMETIC(mul, x *y)
