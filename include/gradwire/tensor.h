// Tensors: n-dimensional views of numbers.
//
// A tensor is a view (sizes, strides, offset) of a storage, which may be shared by several views.
// Shapes, dtypes, broadcasting, promotion and error rules are PyTorch's.
//
//     float row[] = {1, 2, 3, 4};
//     gw_tensor *x = gw_randn(s, GW_F32, 3, 4);     // sizes follow the dtype, none for a scalar
//     gw_tensor *y = gw_from(s, row, 4);            // copies from C
//     gw_print(s, gw_add(s, x, y));
//
// Ownership: a tensor belongs to the scope that made it; gw_keep hands it outward.
// Threads: as its scope. Two tensors that share a storage are used by one thread at a time.
#ifndef GRADWIRE_TENSOR_H
#define GRADWIRE_TENSOR_H

#include <gradwire/value.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum gw_dtype {
    GW_F32 = 0,
    GW_F64,
    GW_F16,
    GW_BF16,
    GW_I64,
    GW_I32,
    GW_I16,
    GW_I8,
    GW_U8,
    GW_BOOL8,  // one byte, 0 or 1: torch.bool
    GW_DTYPE_COUNT
} gw_dtype;

typedef enum gw_device { GW_CPU = 0 } gw_device;
typedef enum gw_layout { GW_STRIDED = 0, GW_ROWS } gw_layout;  // GW_ROWS: see below

enum { GW_DIMS_MAX = 32 };

// Sizes of a tensor. GW_SHAPE(2, 3) makes one; GW_SHAPE() is that of a scalar.
typedef struct gw_shape {
    int count;
    const int64_t *sizes;
} gw_shape;

#define GW_SHAPE(...) GW_SHAPE_OF(__VA_ARGS__)

GW_API const char *gw_dtype_name(gw_dtype dtype);  // "f32"
GW_API size_t gw_dtype_size(gw_dtype dtype);       // in bytes

// ---- Making -------------------------------------------------------------------------------------
// gw_zeros(s, dtype, sizes...), gw_ones, gw_empty (zeroed too), gw_rand (uniform in [0, 1)),
// gw_randn (normal). gw_full(s, dtype, value, sizes...). gw_from(s, data, sizes...) copies a C
// array of float, double, int64_t, int32_t, int16_t, int8_t, uint8_t or bool: a variable, or in C a
// literal, gw_from(s, (float[]){ 1, 2 }, 2). What begins with a parenthesis has the type in it.
GW_API gw_tensor *gw_zeros(gw_scope *s, gw_dtype dtype, gw_shape shape) GW_CALLS(gw_zeros_with);
#define gw_zeros(...) GW_SIZED_2(gw_zeros, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_zeros) gw_zeros_with;
GW_API gw_tensor *gw_ones(gw_scope *s, gw_dtype dtype, gw_shape shape) GW_CALLS(gw_ones_with);
#define gw_ones(...) GW_SIZED_2(gw_ones, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_ones) gw_ones_with;
GW_API gw_tensor *gw_rand(gw_scope *s, gw_dtype dtype, gw_shape shape) GW_CALLS(gw_rand_with);
#define gw_rand(...) (GW_DRAWS, GW_SIZED_2(gw_rand, __VA_ARGS__))
GW_API GW_TYPE_OF(gw_rand) gw_rand_with;
GW_API gw_tensor *gw_randn(gw_scope *s, gw_dtype dtype, gw_shape shape) GW_CALLS(gw_randn_with);
#define gw_randn(...) (GW_DRAWS, GW_SIZED_2(gw_randn, __VA_ARGS__))
GW_API GW_TYPE_OF(gw_randn) gw_randn_with;
GW_API gw_tensor *gw_full(gw_scope *s, gw_dtype dtype, gw_value value, gw_shape shape)
    GW_CALLS(gw_full_with);
#define gw_full(...) GW_SIZED_3(gw_full, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_full) gw_full_with;
GW_API gw_tensor *gw_empty(gw_scope *s, gw_dtype dtype, gw_shape shape) GW_CALLS(gw_zeros_with);
#define gw_empty(...) GW_SIZED_2(gw_zeros, __VA_ARGS__)
#define gw_from(...) GW_FROM(__VA_ARGS__)
GW_API gw_tensor *gw_from_with(gw_scope *s, gw_dtype dtype, const void *data, gw_shape shape);

// Random integers from |low| to below |high|, all of which the dtype must hold: gw_randint(s,
// dtype, low, high, sizes...).
// The numbers from 0 to below |n| in random order, i64.
GW_API gw_tensor *gw_randint(gw_scope *s, gw_dtype dtype, int64_t low, int64_t high, gw_shape shape)
    GW_CALLS(gw_randint_with);
#define gw_randint(...) (GW_DRAWS, GW_SIZED_4(gw_randint, __VA_ARGS__))
GW_API GW_TYPE_OF(gw_randint) gw_randint_with;
GW_API gw_tensor *gw_randperm(gw_scope *s, int64_t n);

// In the shape and dtype of |x|. gw_full_like(s, x, value). gw_empty_like is zeroed too.
GW_API gw_tensor *gw_zeros_like(gw_scope *s, const gw_tensor *x);
GW_API gw_tensor *gw_ones_like(gw_scope *s, const gw_tensor *x);
GW_API gw_tensor *gw_empty_like(gw_scope *s, const gw_tensor *x);
GW_API gw_tensor *gw_full_like(gw_scope *s, const gw_tensor *x, gw_value value)
    GW_CALLS(gw_full_like_with);
#define gw_full_like(s, x, value) gw_full_like_with((s), (x), gw_value_of(value))
GW_API GW_TYPE_OF(gw_full_like) gw_full_like_with;
GW_API gw_tensor *gw_rand_like(gw_scope *s, const gw_tensor *x);
GW_API gw_tensor *gw_randn_like(gw_scope *s, const gw_tensor *x);

// Values start, start + step, ... below |end|: torch.arange. INVALID if the bounds run against the
// step.
GW_API gw_tensor *gw_arange(gw_scope *s, gw_dtype dtype, double start, double end, double step);

// A view of the caller's memory, contiguous, without a copy. |deleter| (may be NULL) is called once
// with |context| when no tensor, graph or message needs the bytes any more, on any thread, which holds
// no lock of the library's. Also called if making the tensor fails.
// What the caller writes to |bytes| itself is not seen by the library: a message or a backward pass that
// relies on the old values may get the new ones.
GW_API gw_tensor *gw_from_blob(gw_scope *s, gw_dtype dtype, void *bytes, gw_shape shape,
                               void (*deleter)(void *context), void *context);

// ---- Looking ------------------------------------------------------------------------------------
// These look at NULL as at a scalar. What an operator returns in a scope that has failed has no elements and no bytes: a
// program that divides by a size asks gw_ok first.
GW_API gw_dtype gw_dtype_of(const gw_tensor *x);
GW_API gw_device gw_device_of(const gw_tensor *x);
GW_API gw_layout gw_layout_of(const gw_tensor *x);
GW_API int gw_dims(const gw_tensor *x);  // number of dimensions
GW_API int64_t gw_size(const gw_tensor *x,
                       int dim);  // negative |dim| counts from the end; 0 when out of range
GW_API int64_t gw_stride(const gw_tensor *x, int dim);  // in elements; 0 if sparse by rows
GW_API int64_t gw_numel(const gw_tensor *x);
GW_API bool gw_is_contiguous(const gw_tensor *x);

// The first element's address, for reading. Strided as gw_stride says. Valid until the tensor is
// written or gone. NULL if |x| is sparse by rows, or on a device whose memory the CPU cannot read.
GW_API const void *gw_data(const gw_tensor *x);

// The same for writing: what relies on the old values (a backward pass, a message being sent)
// keeps them. NULL without memory.
GW_API void *gw_data_for_write(gw_scope *s, gw_tensor *x);

// The one element. INVALID if there are more.
GW_API double gw_item(gw_scope *s, const gw_tensor *x);
GW_API int64_t gw_item_int(gw_scope *s, const gw_tensor *x);

// Text like PyTorch's: tensor([[1., 2.]]). gw_print writes it and a line end to stdout.
GW_API const char *gw_to_text(gw_scope *s, const gw_tensor *x);
GW_API void gw_print(gw_scope *s, const gw_tensor *x);

// ---- Sparse by rows -----------------------------------------------------------------------------
// A tensor of which only some rows are not 0 and only these are kept: what the gradient of an
// embedding is.
//
//     gw_tensor *g = gw_rows(s, gw_from(s, ((int64_t[]){ 2, 0, 2 }), 3), values, 5);      // values: 3 F, g: 5 F
//     gw_tensor *once = gw_coalesce(s, g);              // rows 0 and 2, the latter the sum of two
//
// Its values never change: what is done to |indices| or |values| later does not touch it, and no
// gradient flows through it. gw_add takes one with another, or with a dense tensor of its shape,
// which makes it dense; gw_mul and gw_div take it with a number. Every other operator is INVALID
// and says so; it can be sent, printed, and be a gradient.

// Of sizes |row_count| F...: row indices[n] is values[n], or the sum of all that have its index.
// indices: N, i64 or i32, each at least 0 and below |row_count|; values: N F..., floating.
GW_API gw_tensor *gw_rows(gw_scope *s, gw_tensor *indices, gw_tensor *values, int64_t row_count);

// Its two parts; INVALID if |x| is dense.
GW_API gw_tensor *gw_rows_indices(gw_scope *s, const gw_tensor *x);  // N, i64
GW_API gw_tensor *gw_rows_values(gw_scope *s, const gw_tensor *x);   // N F...

// The same with ascending indices, each once. Rows are added in the order in which they stand in
// |x|.
GW_API gw_tensor *gw_coalesce(gw_scope *s, gw_tensor *x);

// The same with all rows; |x| itself if it is dense.
GW_API gw_tensor *gw_to_dense(gw_scope *s, gw_tensor *x);

#ifdef __cplusplus
}
#endif
#include <gradwire/detail/tensor.h>
#endif
