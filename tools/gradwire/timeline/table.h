// A map from pairs of numbers to a number.
#ifndef GRADWIRE_TIMELINE_TABLE_H
#define GRADWIRE_TIMELINE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct table_entry {
    uint64_t a, b;
    uint32_t value;
    bool is_used;
} table_entry;

// All zero: empty.
typedef struct table {
    table_entry *entries;
    size_t size, used;  // |size|: a power of two
    bool failed;        // without memory: what was put since is not there
} table;

void table_fini(table *t);

// The value of (a, b); NULL: it has none. Until the next change.
uint32_t *table_find(const table *t, uint64_t a, uint64_t b);

// The same, which is added with the value |first| if it is not there; NULL without memory.
uint32_t *table_put(table *t, uint64_t a, uint64_t b, uint32_t first);

void table_remove(table *t, uint64_t a, uint64_t b);

#endif
