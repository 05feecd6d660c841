// Datasets: of a function, of tensors' rows, and of some items of another.
#include "data/dataset.h"

#include "base/mem.h"
#include "tensor/pack.h"

#include <stdio.h>
#include <string.h>

static void destroy(gw_handle *h) {
    gw_dataset *d = (gw_dataset *)h;
    for (int i = 0; i < d->tensor_count; i++) handle_release(d->tensors[i]);
    mem_free(d->tensors);
    mem_free(d->indices);
    mem_free(d->name);
    handle_release(d->whole);
    mem_give(d, sizeof *d);
}

static const handle_class dataset_class = { .name = "dataset", .destroy = destroy };

static gw_dataset poison = { .handle = { &dataset_class, HANDLE_IMMORTAL }, .name = (char[]){ 0 } };

bool dataset_check(gw_scope *s, const gw_dataset *d, const char *function) {
    if (gw_ok(s) && !d) scope_fail(s, GW_INVALID, "%s: no dataset", function);
    if (gw_ok(s) && d == &poison)
        scope_fail(s, GW_INVALID, "%s: the dataset could not be made", function);
    return gw_ok(s);
}

// ---- Making -------------------------------------------------------------------------------------
// Without items; one count, NULL with |s| failed.
static gw_dataset *new_dataset(gw_scope *s, const char *name, int64_t count) {
    gw_dataset *d = mem_take_zeros(sizeof *d);
    if (d) {
        handle_init(&d->handle, &dataset_class);
        d->count = count;
        d->name = mem_strdup(name);
        if (d->name) return d;
        handle_release(d);
    }
    scope_fail(s, GW_NO_MEMORY, "%s: no memory for a dataset", name);
    return NULL;
}

static gw_dataset *own(gw_scope *s, gw_dataset *d) {
    return d && scope_own(s, d) ? d : &poison;
}

static bool check_name(gw_scope *s, const char *function, const char *name) {
    if (gw_ok(s) && (!name || !*name)) scope_fail(s, GW_INVALID, "%s: no name", function);
    return gw_ok(s);
}

gw_dataset *gw_dataset_open(gw_scope *s, const char *name, int64_t count, gw_dataset_item *item,
                            void *state) {
    if (!check_name(s, "gw_dataset_open", name)) return &poison;
    if (count < 0 || !item) {
        scope_fail(s, GW_INVALID, "gw_dataset_open: %s: %s", name,
                   item ? "the count is negative" : "no function");
        return &poison;
    }
    gw_dataset *d = new_dataset(s, name, count);
    if (d) {
        d->item = item;
        d->state = state;
    }
    return own(s, d);
}

static bool check_rows(gw_scope *s, const char *name, gw_tensor *const *tensors, int count) {
    char what[160];
    for (int i = 0; i < count; i++) {
        snprintf(what, sizeof what, "gw_tensor_dataset: %.80s: tensor %d", name, i);
        if (!tensor_is_given(s, what, tensors[i])) return false;
        if (tensor_is_rows(tensors[i]))
            scope_fail(s, GW_INVALID, "%s is sparse by rows", what);
        else if (gw_dims(tensors[i]) < 1)
            scope_fail(s, GW_INVALID, "%s is a scalar, which has no rows", what);
        else if (gw_size(tensors[i], 0) != gw_size(tensors[0], 0))
            scope_fail(s, GW_INVALID, "%s has %lld rows, but the first has %lld", what,
                       (long long)gw_size(tensors[i], 0), (long long)gw_size(tensors[0], 0));
        if (!gw_ok(s)) return false;
    }
    return true;
}

gw_dataset *gw_tensor_dataset_with(gw_scope *s, const char *name, gw_tensor *const *tensors,
                                   int count) {
    if (!check_name(s, "gw_tensor_dataset", name)) return &poison;
    if (count < 1) scope_fail(s, GW_INVALID, "gw_tensor_dataset: %s: no tensors are given", name);
    if (!scope_check_array(s, "gw_tensor_dataset", tensors, count)) return &poison;
    if (count < 1 || !check_rows(s, name, tensors, count)) return &poison;
    gw_dataset *d = new_dataset(s, name, gw_size(tensors[0], 0));
    if (!d) return &poison;
    d->tensors = mem_alloc((size_t)count * sizeof *d->tensors);
    if (!d->tensors) {
        handle_release(d);
        scope_fail(s, GW_NO_MEMORY, "%s: no memory for a dataset", name);
        return &poison;
    }
    for (; d->tensor_count < count; d->tensor_count++)
        d->tensors[d->tensor_count] = handle_retain(tensors[d->tensor_count]);
    return own(s, d);
}

// ---- Subsets ------------------------------------------------------------------------------------
// The numbers of |indices| as those of items of |d->whole|. False with |s| failed.
static bool take_indices(gw_scope *s, gw_dataset *d, const gw_dataset *of,
                         const gw_tensor *indices) {
    packed p;
    d->indices = mem_alloc((size_t)(d->count + 1) * sizeof *d->indices);
    if (!d->indices || !tensor_pack(indices, &p))
        return scope_fail(s, GW_NO_MEMORY, "gw_subset: %s: no memory for %lld indices", of->name,
                          (long long)d->count);
    if (d->count) memcpy(d->indices, p.bytes, (size_t)d->count * sizeof *d->indices);
    packed_release(&p);
    for (int64_t i = 0; i < d->count; i++) {
        int64_t index = d->indices[i];
        if (index < 0 || index >= of->count)
            return scope_fail(s, GW_INVALID,
                              "gw_subset: %s: index %lld is out of range for %lld items", of->name,
                              (long long)index, (long long)of->count);
        if (of->whole) d->indices[i] = of->indices[index];
    }
    return true;
}

gw_dataset *gw_subset(gw_scope *s, gw_dataset *of, const gw_tensor *indices) {
    if (!dataset_check(s, of, "gw_subset") || !tensor_is_given(s, "gw_subset", indices))
        return &poison;
    if (tensor_is_rows(indices) || gw_dtype_of(indices) != GW_I64 || gw_dims(indices) != 1) {
        scope_fail(s, GW_INVALID,
                   "gw_subset: %s: the indices must be a tensor of one dimension and i64",
                   of->name);
        return &poison;
    }
    gw_dataset *d = new_dataset(s, of->name, gw_numel(indices));
    if (!d) return &poison;
    d->whole = handle_retain(of->whole ? of->whole : of);
    if (!take_indices(s, d, of, indices)) {
        handle_release(d);
        return &poison;
    }
    return own(s, d);
}

// ---- Reading ------------------------------------------------------------------------------------
int64_t gw_dataset_count(const gw_dataset *d) {
    return d ? d->count : 0;
}

const char *gw_dataset_name(const gw_dataset *d) {
    return d ? d->name : "";
}

static const gw_dataset *whole_of(const gw_dataset *d) {
    return d->whole ? d->whole : d;
}

static gw_value row_of(gw_scope *s, const gw_dataset *d, int64_t index) {
    gw_list *row = gw_list_open(s);
    for (int i = 0; i < d->tensor_count; i++)
        gw_list_add(s, row, gw_clone(s, gw_select(s, d->tensors[i], 0, index)));
    return gw_value_of(row);
}

typedef struct reading {
    gw_scope *s;
    const gw_dataset *dataset;
    int64_t index;
    gw_value item;
} reading;

static void run_item(void *context) {
    reading *r = context;
    r->item = r->dataset->item(r->s, r->dataset->state, r->index);
}

gw_value dataset_read(gw_scope *s, const gw_dataset *d, int64_t index) {
    if (d->whole) index = d->indices[index];
    d = whole_of(d);
    if (d->tensors) return row_of(s, d, index);
    reading r = { s, d, index, gw_none() };
    scope_run(s, run_item, &r);
    return r.item;
}

gw_value gw_dataset_get(gw_scope *s, gw_dataset *d, int64_t index) {
    if (!dataset_check(s, d, "gw_dataset_get")) return gw_none();
    if (index < 0 || index >= d->count) {
        scope_fail(s, GW_INVALID, "gw_dataset_get: %s: item %lld is out of range for %lld items",
                   d->name, (long long)index, (long long)d->count);
        return gw_none();
    }
    return dataset_read(s, d, index);
}

bool dataset_has_rows(const gw_dataset *d) {
    return whole_of(d)->tensors != NULL;
}

gw_value dataset_read_rows(gw_scope *s, const gw_dataset *d, const int64_t *indices,
                           int64_t count) {
    gw_tensor *which = gw_from_with(s, GW_I64, indices, GW_SHAPE(count));
    if (d->whole) {
        int64_t *at = gw_data_for_write(s, which);
        for (int64_t i = 0; at && i < count; i++) at[i] = d->indices[indices[i]];
    }
    d = whole_of(d);
    gw_list *rows = gw_list_open(s);
    for (int i = 0; i < d->tensor_count; i++) {
        gw_device device = gw_device_of(d->tensors[i]);
        gw_tensor *there = tensor_to_device(s, which, device);
        gw_list_add(s, rows, gw_index_select(s, d->tensors[i], 0, there));
    }
    return gw_value_of(rows);
}
