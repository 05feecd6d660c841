// Shared by the files of this room: datasets.
#ifndef DATA_DATASET_H
#define DATA_DATASET_H

#include "base/scope.h"
#include <gradwire/data.h>

struct gw_dataset {
    gw_handle handle;
    char *name;
    int64_t count;

    // Items are results of a function, or rows of tensors,
    gw_dataset_item *item;
    void *state;
    gw_tensor **tensors;  // a count on each
    int tensor_count;

    // or items of another one, which is no subset itself.
    gw_dataset *whole;  // counted; NULL: this is no subset
    int64_t *indices;
};

// Whether |s| has no error and |d| is a dataset; fails |s| if not.
bool dataset_check(gw_scope *s, const gw_dataset *d, const char *function);

// Item |index| of |d|, which has it.
gw_value dataset_read(gw_scope *s, const gw_dataset *d, int64_t index);

// Whether batches are better made by dataset_read_rows than from items.
bool dataset_has_rows(const gw_dataset *d);

// Of a dataset of tensors: a list of the rows |indices| of each, as if its items had been stacked.
gw_value dataset_read_rows(gw_scope *s, const gw_dataset *d, const int64_t *indices, int64_t count);

#endif
