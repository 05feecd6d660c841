// Tensors: n-dimensional views of numbers.
//
// A tensor is a view (sizes, strides, offset) of a storage. Several views may share a storage. The rules for shapes,
// dtypes, broadcasting, promotion and errors are those of PyTorch. Tensors are on the CPU.
//
//     float row[] = {1, 2, 3, 4};
//     gw_tensor *x = gw_randn(s, GW_F32, 3, 4);     // sizes follow the dtype, none for a scalar
//     gw_tensor *y = gw_from(s, row, 4);            // copies an array of C
//     gw_print(s, gw_add(s, x, y));
//
// Macros take a |shape| as numbers: gw_zeros(s, GW_F32, 2, 3). The functions that these macros call take a gw_shape:
// gw_zeros_with(s, GW_F32, GW_SHAPE(2, 3)).
//
// Errors, of all functions: INVALID for a dtype, size or argument out of range; NO_MEMORY.
// Ownership: a tensor belongs to the scope that made it; gw_keep gives another scope a count on it.
// Threads: the same as for its scope. Only one thread at a time may use tensors that share a storage.
#ifndef GRADWIRE_TENSOR_H
#define GRADWIRE_TENSOR_H

#include <gradwire/value.h>

#ifdef __cplusplus
extern "C" {
#endif

/// The type of the elements of a tensor.
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
    GW_BOOL8,  ///< one byte, 0 or 1: torch.bool
    GW_DTYPE_COUNT
} gw_dtype;

/// The device on which the elements of a tensor are stored.
typedef enum gw_device { GW_CPU = 0 } gw_device;

/// How the elements of a tensor are stored: all of them, or some rows (gw_rows).
typedef enum gw_layout { GW_STRIDED = 0, GW_ROWS } gw_layout;

/// The most dimensions of a tensor.
enum { GW_DIMS_MAX = 32 };

/// Sizes of a tensor.
typedef struct gw_shape {
    int count;
    const int64_t *sizes;
} gw_shape;

/// Makes a shape of numbers: `gw_shape GW_SHAPE(sizes...)`. GW_SHAPE() is the shape of a scalar. The shape lives until
/// the end of the C block in which the macro is written.
///
/// Returns: the shape.
#define GW_SHAPE(...) GW_SHAPE_OF(__VA_ARGS__)

/// Returns the name of |dtype|, "f32".
GW_API const char *gw_dtype_name(gw_dtype dtype);

/// Returns the size of an element of |dtype| in bytes.
GW_API size_t gw_dtype_size(gw_dtype dtype);

// ---- Making -------------------------------------------------------------------------------------

/// Makes a tensor of zeros.
///
/// Returns: a tensor of |shape|.
/// Source: torch.zeros.
GW_API gw_tensor *gw_zeros(gw_scope *s, gw_dtype dtype, gw_shape shape) GW_CALLS(gw_zeros_with);
#define gw_zeros(...) GW_SIZED_2(gw_zeros, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_zeros) gw_zeros_with;

/// Makes a tensor of ones.
///
/// Returns: a tensor of |shape|.
/// Source: torch.ones.
GW_API gw_tensor *gw_ones(gw_scope *s, gw_dtype dtype, gw_shape shape) GW_CALLS(gw_ones_with);
#define gw_ones(...) GW_SIZED_2(gw_ones, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_ones) gw_ones_with;

/// Makes a tensor of zeros: as torch.empty, but initialised.
///
/// Returns: a tensor of |shape|.
GW_API gw_tensor *gw_empty(gw_scope *s, gw_dtype dtype, gw_shape shape) GW_CALLS(gw_zeros_with);
#define gw_empty(...) GW_SIZED_2(gw_zeros, __VA_ARGS__)

/// Draws numbers uniform in [0, 1) from the generator of |s| (gw_seed).
///
/// dtype: floating.
/// Returns: a tensor of |shape|.
/// Source: torch.rand.
GW_API gw_tensor *gw_rand(gw_scope *s, gw_dtype dtype, gw_shape shape) GW_CALLS(gw_rand_with);
#define gw_rand(...) (GW_DRAWS, GW_SIZED_2(gw_rand, __VA_ARGS__))
GW_API GW_TYPE_OF(gw_rand) gw_rand_with;

/// Draws normal numbers of mean 0 and deviation 1 from the generator of |s|.
///
/// dtype: floating.
/// Returns: a tensor of |shape|.
/// Source: torch.randn.
GW_API gw_tensor *gw_randn(gw_scope *s, gw_dtype dtype, gw_shape shape) GW_CALLS(gw_randn_with);
#define gw_randn(...) (GW_DRAWS, GW_SIZED_2(gw_randn, __VA_ARGS__))
GW_API GW_TYPE_OF(gw_randn) gw_randn_with;

/// Makes a tensor whose elements are all |value|.
///
/// value: a number.
/// Returns: a tensor of |shape|.
/// Source: torch.full.
GW_API gw_tensor *gw_full(gw_scope *s, gw_dtype dtype, gw_value value, gw_shape shape)
    GW_CALLS(gw_full_with);
#define gw_full(...) GW_SIZED_3(gw_full, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_full) gw_full_with;

/// Copies an array of C: `gw_tensor *gw_from(gw_scope *s, const T *data, sizes...)`.
///
/// data: an array of float, double, int64_t, int32_t, int16_t, int8_t, uint8_t or bool; the element type determines the
/// dtype. The array is a variable, or in C also a literal: gw_from(s, (float[]){ 1, 2 }, 2). If |data| begins with a
/// parenthesis, the type inside the parentheses determines the dtype.
/// sizes: the sizes of the tensor; their product is the number of elements that are read.
/// Returns: a contiguous tensor.
/// Source: torch.tensor.
#define gw_from(...) GW_FROM(__VA_ARGS__)
/// Copies an array of C whose elements have the type |dtype|.
///
/// Returns: a contiguous tensor of |shape|.
GW_API gw_tensor *gw_from_with(gw_scope *s, gw_dtype dtype, const void *data, gw_shape shape);

/// Draws integers n, with |low| <= n < |high|, from the generator of |s|.
///
/// dtype: a dtype that can hold all of these integers.
/// Returns: a tensor of |shape|.
/// Source: torch.randint.
GW_API gw_tensor *gw_randint(gw_scope *s, gw_dtype dtype, int64_t low, int64_t high, gw_shape shape)
    GW_CALLS(gw_randint_with);
#define gw_randint(...) (GW_DRAWS, GW_SIZED_4(gw_randint, __VA_ARGS__))
GW_API GW_TYPE_OF(gw_randint) gw_randint_with;

/// Draws a permutation of the numbers 0 to |n| - 1 from the generator of |s|.
///
/// Returns: a tensor of |n| i64.
/// Source: torch.randperm.
GW_API gw_tensor *gw_randperm(gw_scope *s, int64_t n);

/// Makes a tensor of zeros.
///
/// Returns: a tensor of the shape and dtype of |x|.
GW_API gw_tensor *gw_zeros_like(gw_scope *s, const gw_tensor *x);

/// Makes a tensor of ones.
///
/// Returns: a tensor of the shape and dtype of |x|.
GW_API gw_tensor *gw_ones_like(gw_scope *s, const gw_tensor *x);

/// Makes a tensor of zeros: as torch.empty_like, but initialised.
///
/// Returns: a tensor of the shape and dtype of |x|.
GW_API gw_tensor *gw_empty_like(gw_scope *s, const gw_tensor *x);

/// Makes a tensor whose elements are all |value|.
///
/// value: a number.
/// Returns: a tensor of the shape and dtype of |x|.
GW_API gw_tensor *gw_full_like(gw_scope *s, const gw_tensor *x, gw_value value)
    GW_CALLS(gw_full_like_with);
#define gw_full_like(s, x, value) gw_full_like_with((s), (x), gw_value_of(value))
GW_API GW_TYPE_OF(gw_full_like) gw_full_like_with;

/// Draws numbers uniform in [0, 1).
///
/// Returns: a tensor of the shape and dtype of |x|.
GW_API gw_tensor *gw_rand_like(gw_scope *s, const gw_tensor *x);

/// Draws normal numbers of mean 0 and deviation 1.
///
/// Returns: a tensor of the shape and dtype of |x|.
GW_API gw_tensor *gw_randn_like(gw_scope *s, const gw_tensor *x);

/// Makes a tensor of the numbers start, start + step, start + 2 step and so on, up to the last number before |end|.
///
/// Returns: a tensor of one dimension.
/// Errors: INVALID if |step| is 0 or leads away from |end|.
/// Source: torch.arange.
GW_API gw_tensor *gw_arange(gw_scope *s, gw_dtype dtype, double start, double end, double step);

/// Makes a contiguous tensor in memory of the caller, without a copy.
///
/// bytes: the memory of the tensor. If the caller writes to these bytes, a message or a backward pass that needs the
/// old values may get the new values. The library does not detect this.
/// deleter: called once with |context| when no tensor, graph or message needs the bytes, also if gw_from_blob fails.
/// The library may call it on any thread, while the thread holds no lock of the library. NULL: no function is called.
/// Returns: a tensor of |shape|.
/// Source: torch::from_blob.
GW_API gw_tensor *gw_from_blob(gw_scope *s, gw_dtype dtype, void *bytes, gw_shape shape,
                               void (*deleter)(void *context), void *context);

// ---- Reading ------------------------------------------------------------------------------------
// For these functions, NULL is a scalar. In a scope that has failed, the result of an operator has no elements and no
// bytes. So a program that divides by a size calls gw_ok first.

/// Returns the dtype of |x|.
GW_API gw_dtype gw_dtype_of(const gw_tensor *x);
/// Returns the device of |x|.
GW_API gw_device gw_device_of(const gw_tensor *x);
/// Returns the layout of |x|.
GW_API gw_layout gw_layout_of(const gw_tensor *x);
/// Returns the number of dimensions of |x|.
GW_API int gw_dims(const gw_tensor *x);
/// Returns the size of dimension |dim|; a negative |dim| counts from the end. 0 when out of range.
GW_API int64_t gw_size(const gw_tensor *x, int dim);
/// Returns the stride of dimension |dim| in elements; 0 when |dim| is out of range or |x| is sparse by rows.
GW_API int64_t gw_stride(const gw_tensor *x, int dim);
/// Returns the number of elements of |x|.
GW_API int64_t gw_numel(const gw_tensor *x);
/// Returns whether the elements of |x| are stored in order without gaps.
GW_API bool gw_is_contiguous(const gw_tensor *x);

/// Returns the address of the first element, for reading; gw_stride returns the distances between elements. Valid until
/// the tensor is written or released. NULL if |x| is sparse by rows, or on a device whose memory the CPU cannot read.
GW_API const void *gw_data(const gw_tensor *x);

/// Prepares |x| for writing by the program. Backward passes and messages that need the old values keep the old values.
///
/// Returns: the address of the first element; NULL if the call fails.
/// Errors: NO_MEMORY; INVALID if |x| is sparse by rows.
GW_API void *gw_data_for_write(gw_scope *s, gw_tensor *x);

/// Reads the one element of |x|.
///
/// Returns: the element; 0 in a scope that has failed.
/// Errors: INVALID unless |x| has exactly one element.
/// Source: torch.Tensor.item.
GW_API double gw_item(gw_scope *s, const gw_tensor *x);

/// Reads the one element of |x| as an integer.
///
/// Returns: the element; 0 in a scope that has failed.
/// Errors: INVALID unless |x| has exactly one element.
GW_API int64_t gw_item_int(gw_scope *s, const gw_tensor *x);

/// Formats |x| as PyTorch does: tensor([[1., 2.]]).
///
/// Returns: text that lives as long as |s|.
GW_API const char *gw_to_text(gw_scope *s, const gw_tensor *x);

/// Prints gw_to_text and a line end to stdout.
GW_API void gw_print(gw_scope *s, const gw_tensor *x);

// ---- Sparse by rows -----------------------------------------------------------------------------
// A tensor that is sparse by rows stores only some rows; the other rows are 0. The gradient of an embedding can be
// sparse by rows.
//
//     gw_tensor *g = gw_rows(s, gw_from(s, ((int64_t[]){ 2, 0, 2 }), 3), values, 5);      // values: 3 F, g: 5 F
//     gw_tensor *once = gw_coalesce(s, g);              // rows 0 and 2, the latter the sum of two
//
// The values of a sparse tensor never change, even if |indices| or |values| are written later. No gradient flows
// through the tensor. gw_add adds two sparse tensors (the result is sparse), or a sparse tensor and a dense tensor (the
// result is dense). gw_mul multiplies a sparse tensor by a number; gw_div divides a sparse tensor by a number. Every
// other operator fails with INVALID for a sparse tensor. A sparse tensor can be sent and printed, and can be a
// gradient.

/// Makes a tensor that is sparse by rows: row indices[n] is values[n]. If |indices| has an index several times, the row
/// is the sum of its values.
///
/// indices: N, i64 or i32, each at least 0 and below |row_count|.
/// values: N F..., floating.
/// Returns: a tensor of sizes |row_count| F....
/// Errors: INVALID for an index out of range.
GW_API gw_tensor *gw_rows(gw_scope *s, gw_tensor *indices, gw_tensor *values, int64_t row_count);

/// Reads the indices of a tensor that is sparse by rows.
///
/// Returns: N i64.
/// Errors: INVALID if |x| is dense.
GW_API gw_tensor *gw_rows_indices(gw_scope *s, const gw_tensor *x);

/// Reads the values of a tensor that is sparse by rows.
///
/// Returns: N F....
/// Errors: INVALID if |x| is dense.
GW_API gw_tensor *gw_rows_values(gw_scope *s, const gw_tensor *x);

/// Sorts the rows by index, and adds rows with the same index. Rows are added in the order in which |x| stores them.
///
/// Returns: a tensor with ascending indices, each once.
/// Errors: INVALID if |x| is dense.
/// Source: torch.Tensor.coalesce.
GW_API gw_tensor *gw_coalesce(gw_scope *s, gw_tensor *x);

/// Makes a dense tensor of |x|.
///
/// Returns: the tensor; |x| itself if it is dense.
/// Source: torch.Tensor.to_dense.
GW_API gw_tensor *gw_to_dense(gw_scope *s, gw_tensor *x);

#ifdef __cplusplus
}
#endif
#include <gradwire/detail/tensor.h>
#endif
