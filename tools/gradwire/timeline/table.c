#include "timeline/table.h"

#include <stdlib.h>

static size_t place_of(const table *t, uint64_t a, uint64_t b) {
    uint64_t mixed = (a ^ b * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xff51afd7ed558ccd);
    return (size_t)(mixed >> 29) & (t->size - 1);
}

void table_fini(table *t) {
    free(t->entries);
    *t = (table){ 0 };
}

// The entry of (a, b), or the free one where it belongs.
static table_entry *entry_of(const table *t, uint64_t a, uint64_t b) {
    for (size_t i = place_of(t, a, b);; i = (i + 1) & (t->size - 1)) {
        table_entry *e = &t->entries[i];
        if (!e->is_used || (e->a == a && e->b == b)) return e;
    }
}

uint32_t *table_find(const table *t, uint64_t a, uint64_t b) {
    if (!t->size) return NULL;
    table_entry *e = entry_of(t, a, b);
    return e->is_used ? &e->value : NULL;
}

static bool grow(table *t) {
    table larger = { .size = t->size ? 2 * t->size : 64, .used = t->used };
    larger.entries = calloc(larger.size, sizeof *larger.entries);
    if (!larger.entries) return false;
    for (size_t i = 0; i < t->size; i++)
        if (t->entries[i].is_used)
            *entry_of(&larger, t->entries[i].a, t->entries[i].b) = t->entries[i];
    free(t->entries);
    *t = larger;
    return true;
}

uint32_t *table_put(table *t, uint64_t a, uint64_t b, uint32_t first) {
    if (2 * (t->used + 1) > t->size && !grow(t)) {
        t->failed = true;
        return NULL;
    }
    table_entry *e = entry_of(t, a, b);
    if (!e->is_used) {
        *e = (table_entry){ .a = a, .b = b, .value = first, .is_used = true };
        t->used++;
    }
    return &e->value;
}

// Moves those behind it that the free entry would hide.
void table_remove(table *t, uint64_t a, uint64_t b) {
    table_entry *e = t->size ? entry_of(t, a, b) : NULL;
    if (!e || !e->is_used) return;
    size_t mask = t->size - 1, hole = (size_t)(e - t->entries);
    for (size_t i = (hole + 1) & mask; t->entries[i].is_used; i = (i + 1) & mask) {
        size_t home = place_of(t, t->entries[i].a, t->entries[i].b);
        if (((i - home) & mask) < ((i - hole) & mask)) continue;
        t->entries[hole] = t->entries[i];
        hole = i;
    }
    t->entries[hole] = (table_entry){ 0 };
    t->used--;
}
