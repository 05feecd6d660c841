#include "tensor/tensor.h"

#include "base/args.h"
#include "base/limits.h"
#include "base/mem.h"
#include "tensor/device.h"
#include "tensor/dtype.h"
#include "tensor/ops/op.h"  // tape

#include <stdio.h>
#include <string.h>

_Static_assert((int)LIMIT_DIMS == (int)GW_DIMS_MAX, "one limit under two names");

static void destroy(gw_handle *h) {
    gw_tensor *x = (gw_tensor *)h;
    if (x->node || x->hooks) x->tape->forget(x);
    storage_release(x->storage);
    handle_release(x->indices);
    handle_release(x->values);
    mem_give(x, sizeof *x + 2 * x->dims * sizeof(int64_t));
}

static const handle_class tensor_class = { .name = "tensor", .destroy = destroy };

// Fails |s| on behalf of the operator |op|, if it is one that wants the tensor.
static void fail(gw_scope *s, const char *op, gw_status status, const char *format, ...)
    GW_PRINTF(4, 5);
static void fail(gw_scope *s, const char *op, gw_status status, const char *format, ...) {
    char text[GW_ERROR_TEXT_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    scope_fail(s, status, "%s%s%s%s", op ? "gw." : "", op ? op : "", op ? ": " : "", text);
}

static gw_tensor *no_memory_for(gw_scope *s, const char *op, gw_dtype dtype, int dims,
                                const int64_t *sizes) {
    fail(s, op, GW_NO_MEMORY, "no memory for a tensor of %s %s", gw_dtype_name(dtype),
         shape_text_of(dims, sizes).text);
    return NULL;
}

static gw_tensor *no_memory(gw_scope *s, gw_dtype dtype, int dims, const int64_t *sizes) {
    return no_memory_for(s, NULL, dtype, dims, sizes);
}

// Sets the strides of a contiguous tensor and its count of elements. False if they are more than
// can be counted. The product of all sizes but those of 0 counts, also of a tensor without
// elements: so whatever is computed from the sizes of one tensor does not overflow.
static bool lay_out(gw_tensor *x) {
    int64_t stride = 1;
    bool empty = false;
    for (int i = x->dims - 1; i >= 0; i--) {
        x->strides[i] = stride;
        if (x->sizes[i] == 0) {
            empty = true;
        } else if (__builtin_mul_overflow(stride, x->sizes[i], &stride)) {
            return false;
        }
    }
    x->numel = empty ? 0 : stride;
    x->contiguous = true;
    return stride <= INT64_MAX / 16;
}

static bool is_contiguous(const gw_tensor *x) {
    int64_t stride = 1;
    for (int i = x->dims - 1; i >= 0; i--) {
        if (x->sizes[i] != 1 && x->strides[i] != stride) return x->numel == 0;
        stride *= x->sizes[i];
    }
    return true;
}

static bool is_shape(gw_scope *s, const char *op, int dims, const int64_t *sizes) {
    if (dims < 0 || dims > GW_DIMS_MAX) {
        fail(s, op, GW_LIMIT, "a tensor has at most %d dimensions, not %d", GW_DIMS_MAX, dims);
        return false;
    }
    for (int i = 0; i < dims; i++) {
        if (sizes[i] >= 0) continue;
        fail(s, op, GW_INVALID, "%lld is a size in the shape %s, but all sizes must be 0 or more",
             (long long)sizes[i], shape_text_of(dims, sizes).text);
        return false;
    }
    return true;
}

// A tensor without storage, strides and numel.
static gw_tensor *take(int dims, const int64_t *sizes, gw_dtype dtype) {
    gw_tensor *x = mem_take(sizeof *x + 2 * (size_t)dims * sizeof(int64_t));
    if (!x) return NULL;
    memset(x, 0, sizeof *x);
    handle_init(&x->handle, &tensor_class);
    x->dtype = (uint8_t)dtype;
    x->dims = (uint8_t)dims;
    x->strides = x->sizes + dims;
    for (int i = 0; i < dims; i++) x->sizes[i] = sizes[i];
    return x;
}

static void give(gw_tensor *x) {
    mem_give(x, sizeof *x + 2 * x->dims * sizeof(int64_t));
}

static bool may_be_so_large(gw_scope *s, const char *op, size_t bytes) {
    if (!s->tensor_bytes_max || bytes <= s->tensor_bytes_max) return true;
    fail(s, op, GW_LIMIT, "a received tensor would have %zu bytes, at most %llu are allowed", bytes,
         (unsigned long long)s->tensor_bytes_max);
    return false;
}

gw_tensor *tensor_new_for(gw_scope *s, const char *op, uint8_t device, gw_dtype dtype, int dims,
                          const int64_t *sizes) {
    if (!is_shape(s, op, dims, sizes)) return NULL;
    gw_tensor *x = take(dims, sizes, dtype);
    if (!x) return no_memory_for(s, op, dtype, dims, sizes);
    block *b = NULL;
    if (lay_out(x)) {
        size_t bytes = tensor_size(x);
        if (may_be_so_large(s, op, bytes)) b = block_take_on(device, bytes);
    }
    if (b) x->storage = storage_open(b);
    x->device = device;
    if (x->storage) return x;
    give(x);
    return s->error ? NULL : no_memory_for(s, op, dtype, dims, sizes);
}

gw_tensor *tensor_new_on(gw_scope *s, uint8_t device, gw_dtype dtype, int dims,
                         const int64_t *sizes) {
    return tensor_new_for(s, NULL, device, dtype, dims, sizes);
}

gw_tensor *tensor_new(gw_scope *s, gw_dtype dtype, int dims, const int64_t *sizes) {
    return tensor_new_on(s, GW_CPU, dtype, dims, sizes);
}

gw_tensor *tensor_over(gw_scope *s, gw_dtype dtype, int dims, const int64_t *sizes, block *b) {
    gw_tensor *x = is_shape(s, NULL, dims, sizes) ? take(dims, sizes, dtype) : NULL;
    if (!x) goto release_block;
    if (!lay_out(x) || (size_t)x->numel * gw_dtype_size(dtype) > b->size) {
        scope_fail(s, GW_INVALID, "%zu bytes are too few for a tensor of %s %s", b->size,
                   gw_dtype_name(dtype), shape_text_of(dims, sizes).text);
        goto give_tensor;
    }
    x->device = b->device;
    x->storage = storage_open(b);
    if (x->storage) return x;
    give(x);
    return no_memory(s, dtype, dims, sizes);

give_tensor:
    give(x);
release_block:
    block_release(b);
    if (!s->error) no_memory(s, dtype, dims, sizes);
    return NULL;
}

gw_tensor *tensor_view(gw_scope *s, const gw_tensor *base, int dims, const int64_t *sizes,
                       const int64_t *strides, int64_t offset) {
    return tensor_view_for(s, NULL, base, dims, sizes, strides, offset);
}

gw_tensor *tensor_view_for(gw_scope *s, const char *op, const gw_tensor *base, int dims,
                           const int64_t *sizes, const int64_t *strides, int64_t offset) {
    gw_tensor *x = take(dims, sizes, (gw_dtype)base->dtype);
    if (!x) return no_memory_for(s, op, (gw_dtype)base->dtype, dims, sizes);
    if (!lay_out(x)) {
        give(x);
        fail(s, op, GW_LIMIT, "the sizes of %s give more elements than an int64_t can count",
             shape_text_of(dims, sizes).text);
        return NULL;
    }
    x->device = base->device;
    x->layout = base->layout;
    x->offset = offset;
    for (int i = 0; i < dims; i++) x->strides[i] = strides[i];
    x->contiguous = is_contiguous(x);
    if (base->storage) x->storage = storage_retain(base->storage);
    return x;
}

gw_tensor *tensor_full_like(gw_scope *s, const gw_tensor *x, double number) {
    if (s->error) return tensor_poison_of(s);
    gw_dtype dtype = (gw_dtype)x->dtype;
    gw_tensor *full = scope_own(s, tensor_new_on(s, x->device, dtype, x->dims, x->sizes));
    if (!full) return tensor_poison_of(s);
    block_fill(full->storage->block, dtype, full->numel, gw_value_of(number));
    return full;
}

gw_tensor *tensor_saved(gw_scope *s, const gw_tensor *x) {
    gw_tensor *saved = take(x->dims, x->sizes, (gw_dtype)x->dtype);
    if (!saved) return no_memory(s, (gw_dtype)x->dtype, x->dims, x->sizes);
    saved->storage = storage_open(block_retain(x->storage->block));
    if (!saved->storage) {
        give(saved);
        return no_memory(s, (gw_dtype)x->dtype, x->dims, x->sizes);
    }
    saved->storage->version = x->storage->version;
    saved->storage->pins = true;
    block_add_pin(x->storage->block);
    saved->device = x->device;
    saved->layout = x->layout;
    saved->offset = x->offset;
    saved->numel = x->numel;
    saved->contiguous = x->contiguous;
    for (int i = 0; i < x->dims; i++) saved->strides[i] = x->strides[i];
    return saved;
}

// Other users of the block of |st|, which has no other holder, copy before writing from now on.
static void pin(storage *st) {
    if (st->pins) return;
    st->pins = true;
    block_add_pin(st->block);
}

gw_tensor *tensor_of_rows(gw_scope *s, int64_t row_count, gw_tensor *indices, gw_tensor *values,
                          bool coalesced) {
    gw_dtype dtype = (gw_dtype)values->dtype;
    int dims = values->dims;
    int64_t sizes[GW_DIMS_MAX];
    memcpy(sizes, values->sizes, (size_t)dims * sizeof *sizes);
    sizes[0] = row_count;
    gw_tensor *x = take(dims, sizes, dtype);
    bool countable = x && lay_out(x);
    if (!countable) {
        if (x) give(x);
        handle_release(indices);
        handle_release(values);
        return no_memory(s, dtype, dims, sizes);
    }
    memset(x->strides, 0, x->dims * sizeof *x->strides);
    x->contiguous = false;
    x->layout = GW_ROWS;
    pin(indices->storage);
    pin(values->storage);
    x->indices = indices;
    x->values = values;
    x->coalesced = coalesced;
    return x;
}

// ---- Reading ------------------------------------------------------------------------------------
// Functions that cannot fail read NULL as poison.
static const gw_tensor *seen(const gw_tensor *x) {
    return x ? x : &tensor_poison;
}

gw_dtype gw_dtype_of(const gw_tensor *x) {
    return (gw_dtype)seen(x)->dtype;
}
gw_device gw_device_of(const gw_tensor *x) {
    return (gw_device)seen(x)->device;
}
gw_layout gw_layout_of(const gw_tensor *x) {
    return (gw_layout)seen(x)->layout;
}
int gw_dims(const gw_tensor *x) {
    return seen(x)->dims;
}
int64_t gw_numel(const gw_tensor *x) {
    return seen(x)->numel;
}
bool gw_is_contiguous(const gw_tensor *x) {
    return seen(x)->contiguous;
}

static int64_t at(const int64_t *values, int dims, int dim) {
    if (dim < 0) dim += dims;
    return dim >= 0 && dim < dims ? values[dim] : 0;
}

int64_t gw_size(const gw_tensor *x, int dim) {
    x = seen(x);
    return at(x->sizes, x->dims, dim);
}
int64_t gw_stride(const gw_tensor *x, int dim) {
    x = seen(x);
    return at(x->strides, x->dims, dim);
}

const void *gw_data(const gw_tensor *x) {
    bool readable = x && !tensor_is_rows(x) && x->device == GW_CPU && !tensor_is_poison(x);
    return readable ? tensor_bytes(x) : NULL;
}

static bool is_dense(gw_scope *s, const char *what, const gw_tensor *x) {
    if (!tensor_is_given(s, what, x)) return false;
    if (!tensor_is_rows(x)) return true;
    scope_fail(s, GW_INVALID, "%s: x is sparse by rows; gw_to_dense makes it dense", what);
    return false;
}

void *gw_data_for_write(gw_scope *s, gw_tensor *x) {
    if (!is_dense(s, "gw_data_for_write", x)) return NULL;
    if (x->device != GW_CPU) {
        scope_fail(s, GW_INVALID,
                   "gw_data_for_write: x is on device %s, which the CPU cannot write",
                   device_name(x->device));
        return NULL;
    }
    uint8_t *bytes = storage_writable(x->storage);
    if (!bytes) {
        no_memory(s, (gw_dtype)x->dtype, x->dims, x->sizes);
        return NULL;
    }
    block_mark_as(x->storage->block, BLOCK_HANDED_OUT);
    return bytes + tensor_offset(x);
}

static bool has_one_item(gw_scope *s, const char *what, const gw_tensor *x) {
    if (!is_dense(s, what, x)) return false;
    if (x->numel == 1) return true;
    scope_fail(s, GW_INVALID, "%s: a tensor of %s has %lld elements, not one", what,
               shape_text(x).text, (long long)x->numel);
    return false;
}

// The one element of |x|, from whatever device it is on.
typedef struct element {
    _Alignas(8) uint8_t bytes[8];
} element;
static element element_of(const gw_tensor *x) {
    element e;
    block_read(e.bytes, x->storage->block, tensor_offset(x), gw_dtype_size((gw_dtype)x->dtype));
    return e;
}

double gw_item(gw_scope *s, const gw_tensor *x) {
    return has_one_item(s, "gw.item", x) ? dtype_read((gw_dtype)x->dtype, element_of(x).bytes) : 0;
}

int64_t gw_item_int(gw_scope *s, const gw_tensor *x) {
    return has_one_item(s, "gw.item_int", x)
               ? dtype_read_int((gw_dtype)x->dtype, element_of(x).bytes)
               : 0;
}

gw_tensor *gw_tensor_of(gw_scope *s, gw_value v) {
    if (s->error) return tensor_poison_of(s);
    if (v.kind == GW_TENSOR) return v.as.tensor;
    scope_fail(s, GW_INVALID, "gw_tensor_of: expected tensor, got %s", gw_kind_name(v.kind));
    return tensor_poison_of(s);
}

gw_tensor *gw_arg_tensor(gw_scope *s, const gw_args *a, int index) {
    return gw_tensor_of(s, arg_of(s, a, index, GW_TENSOR));
}
gw_tensor *gw_arg_tensor_or_null(gw_scope *s, const gw_args *a, int index) {
    if (index >= a->count || (index >= 0 && a->values[index].kind == GW_NONE)) return NULL;
    return gw_arg_tensor(s, a, index);
}

// ---- Text ---------------------------------------------------------------------------------------
shape_words shape_text_of(int dims, const int64_t *sizes) {
    shape_words w = { "scalar" };
    size_t used = 0;
    for (int i = 0; i < dims && used < sizeof w.text; i++)
        used += (size_t)snprintf(w.text + used, sizeof w.text - used, i ? "x%lld" : "%lld",
                                 (long long)sizes[i]);
    return w;
}

shape_words shape_text(const gw_tensor *x) {
    return shape_text_of(x->dims, x->sizes);
}
