// Sums of tensors that are sparse by rows.
#include "base/mem.h"
#include "tensor/copy.h"
#include "tensor/dtype.h"
#include "tensor/kernels/gradients.h"
#include "tensor/rows.h"
#include <gradwire/ops.h>

static void *writable(gw_tensor *x) {
    return (void *)(uintptr_t)tensor_bytes(x);  // of tensors without another holder
}

// |x| (dense) contiguous and as |dtype|; with |own|, without another holder, for writing. One count.
static gw_tensor *converted(gw_scope *s, gw_tensor *x, gw_dtype dtype, bool own) {
    if (!own && x->dtype == dtype && x->contiguous) return handle_retain(x);
    gw_tensor *y = tensor_new(s, dtype, x->dims, x->sizes);
    if (y) copy_into_new(y, x);
    return y;
}

// Gives |x| back for itself as |dtype|.
static gw_tensor *rounded(gw_scope *s, gw_tensor *x, gw_dtype dtype) {
    if (!x || x->dtype == dtype) return x;
    gw_tensor *y = converted(s, x, dtype, true);
    handle_release(x);
    return y;
}

// ---- Adding rows --------------------------------------------------------------------------------
// Adds values[n] to row index[n] of |to| for all n.
static void add_rows(gw_dtype dtype, void *to, const int64_t *index, const void *values, int64_t n,
                     int64_t length) {
    size_t size = (size_t)length * gw_dtype_size(dtype);
    const uint8_t *from = values;
    for (int64_t i = 0; i < n; i++, from += size)
        numbers_add(dtype, (uint8_t *)to + (size_t)index[i] * size, from, length);
}

bool rows_add_into(gw_tensor *to, const gw_tensor *x) {
    uint8_t *bytes = to->device == GW_CPU ? storage_writable(to->storage) : NULL;
    if (!bytes) return false;
    add_rows((gw_dtype)x->dtype, bytes + tensor_offset(to), rows_index(x), tensor_bytes(x->values),
             rows_count(x), rows_length(x));
    return true;
}

gw_tensor *rows_to_dense(gw_scope *s, gw_tensor *x) {
    gw_dtype work = dtype_compute((gw_dtype)x->dtype);
    gw_tensor *values = converted(s, x->values, work, false);
    if (!values) return NULL;
    gw_tensor *out = tensor_new(s, work, x->dims, x->sizes);
    if (out) {
        memset(writable(out), 0, (size_t)out->numel * gw_dtype_size(work));
        add_rows(work, writable(out), rows_index(x), tensor_bytes(values), rows_count(x),
                 rows_length(x));
    }
    handle_release(values);
    return rounded(s, out, (gw_dtype)x->dtype);
}

// ---- Each index once ----------------------------------------------------------------------------
enum { DIGIT_BITS = 10, DIGITS = 1 << DIGIT_BITS };

// One pass of a radix sort: positions by one digit of their index, those with the same digit in their
// previous order.
static void sort_by_digit(const int64_t *index, int64_t n, int shift, const int64_t *from,
                          int64_t *to) {
    int64_t starts[DIGITS] = { 0 }, start = 0;
    for (int64_t i = 0; i < n; i++) starts[index[i] >> shift & (DIGITS - 1)]++;
    for (int d = 0; d < DIGITS; d++) {
        int64_t count = starts[d];
        starts[d] = start;
        start += count;
    }
    for (int64_t i = 0; i < n; i++) to[starts[index[from[i]] >> shift & (DIGITS - 1)]++] = from[i];
}

// The positions 0 to |n| - 1 in ascending order of their index, equal ones in their own order.
// |places| has room for twice as many; the half with the result is returned.
static int64_t *sort_places(const int64_t *index, int64_t n, int64_t row_count, int64_t *places) {
    int64_t *from = places, *to = places + n;
    for (int64_t i = 0; i < n; i++) from[i] = i;
    for (int shift = 0; shift < 63 && (row_count - 1) >> shift; shift += DIGIT_BITS) {
        sort_by_digit(index, n, shift, from, to);
        int64_t *sorted = to;
        to = from;
        from = sorted;
    }
    return from;
}

static int64_t count_once(const int64_t *index, int64_t n, const int64_t *places) {
    int64_t count = n > 0;
    for (int64_t i = 1; i < n; i++) count += index[places[i]] != index[places[i - 1]];
    return count;
}

static void sum_groups(const gw_tensor *x, const gw_tensor *values, const int64_t *places,
                       gw_tensor *out_indices, gw_tensor *out_values) {
    const int64_t *index = rows_index(x);
    int64_t *to = writable(out_indices), n = rows_count(x), length = rows_length(x), at = -1;
    gw_dtype dtype = (gw_dtype)values->dtype;
    size_t size = (size_t)length * gw_dtype_size(dtype);
    for (int64_t i = 0; i < n; i++) {
        const uint8_t *row = tensor_bytes(values) + (size_t)places[i] * size;
        uint8_t *sums = writable(out_values);
        if (i == 0 || index[places[i]] != to[at]) {
            to[++at] = index[places[i]];
            memcpy(sums + (size_t)at * size, row, size);
        } else {
            add_rows(dtype, sums, &at, row, 1, length);
        }
    }
}

// |x| with its positions sorted. |values|: its own, in a dtype that can be added.
static gw_tensor *gather_once(gw_scope *s, gw_tensor *x, const gw_tensor *values,
                              const int64_t *places) {
    int64_t sizes[GW_DIMS_MAX], count = count_once(rows_index(x), rows_count(x), places);
    memcpy(sizes, values->sizes, values->dims * sizeof *sizes);
    sizes[0] = count;
    gw_tensor *indices = tensor_new(s, GW_I64, 1, &count), *sums = NULL;
    if (indices) sums = tensor_new(s, (gw_dtype)values->dtype, values->dims, sizes);
    if (sums) {
        sum_groups(x, values, places, indices, sums);
        sums = rounded(s, sums, (gw_dtype)x->dtype);
    }
    if (sums) return tensor_of_rows(s, x->sizes[0], indices, sums, true);
    handle_release(indices);
    return NULL;
}

gw_tensor *rows_coalesce(gw_scope *s, gw_tensor *x) {
    if (x->coalesced) return handle_retain(x);
    int64_t n = rows_count(x);
    gw_tensor *values = converted(s, x->values, dtype_compute((gw_dtype)x->dtype), false);
    int64_t *places = values ? mem_alloc(2 * (size_t)n * sizeof *places) : NULL;
    gw_tensor *once = NULL;
    if (places)
        once = gather_once(s, x, values, sort_places(rows_index(x), n, x->sizes[0], places));
    else if (values)
        scope_fail_of(s, "gw.coalesce", GW_NO_MEMORY, "no memory to sort %lld indices",
                      (long long)n);
    mem_free(places);
    handle_release(values);
    return once;
}

// ---- Sums of two --------------------------------------------------------------------------------
static gw_tensor *dense_plus(gw_scope *s, gw_tensor *dense, gw_tensor *rows) {
    gw_dtype work = dtype_compute((gw_dtype)dense->dtype);
    gw_tensor *sum = converted(s, dense, work, true);
    gw_tensor *values = sum ? converted(s, rows->values, work, false) : NULL;
    if (values)
        add_rows(work, writable(sum), rows_index(rows), tensor_bytes(values), rows_count(rows),
                 rows_length(rows));
    bool ok = values != NULL;
    handle_release(values);
    if (ok) return rounded(s, sum, (gw_dtype)dense->dtype);
    handle_release(sum);
    return NULL;
}

// Those of |a| and then those of |b|, which then are sorted.
static gw_tensor *joined(gw_scope *s, const gw_tensor *a, const gw_tensor *b) {
    gw_scope *work = gw_scope_open(s);
    gw_tensor *indices = gw_cat(work, (gw_tensor *[]){ a->indices, b->indices }, 2, 0);
    gw_tensor *values = gw_cat(work, (gw_tensor *[]){ a->values, b->values }, 2, 0);
    gw_tensor *both = NULL;
    if (gw_ok(work))
        both =
            tensor_of_rows(work, a->sizes[0], handle_retain(indices), handle_retain(values), false);
    gw_tensor *sum = both ? rows_coalesce(work, both) : NULL;
    handle_release(both);
    gw_scope_close_up(work);
    return sum;
}

gw_tensor *rows_plus(gw_scope *s, gw_tensor *a, gw_tensor *b) {
    gw_tensor *x = tensor_is_rows(a) ? rows_coalesce(s, a) : handle_retain(a);
    gw_tensor *y = !x ? NULL : tensor_is_rows(b) ? rows_coalesce(s, b) : handle_retain(b);
    gw_tensor *sum = NULL;
    if (y && tensor_is_rows(x) && tensor_is_rows(y))
        sum = joined(s, x, y);
    else if (y)
        sum = tensor_is_rows(x) ? dense_plus(s, y, x) : dense_plus(s, x, y);
    handle_release(x);
    handle_release(y);
    return sum;
}
