// Hash maps from 64-bit keys or strings to pointers. Open addressing, so iteration order is by
// hash: never let it decide what a peer or a user sees.
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct map_entry {
    uint64_t key;  // of a string map: the hash
    char *name;    // of a string map: the key, owned; else NULL
    void *value;   // NULL: free slot
} map_entry;

typedef struct map {
    map_entry *entries;
    size_t count, capacity;  // capacity is 0 or a power of two
} map;

// Leaves an empty map, which is all zero. The values are the caller's.
void map_fini(map *m);

void *map_find(const map *m, uint64_t key);
bool map_put(map *m, uint64_t key,
             void *value);             // replaces; false without memory. |value| is not NULL
void *map_take(map *m, uint64_t key);  // removes and returns; NULL if absent

void *map_find_name(const map *m, const char *name);
bool map_put_name(map *m, const char *name, void *value);
void *map_take_name(map *m, const char *name);

// An entry of a map, and where the next one is searched.
typedef struct map_cursor {
    size_t index;
    uint64_t key;
    char *name;
    void *value;
} map_cursor;

// for (map_cursor e = { 0 }; map_next(m, &e);)  -- no put meanwhile; after map_take of the current
// entry, e.index--
bool map_next(const map *m, map_cursor *e);

uint64_t hash_u64(uint64_t x);
uint64_t hash_bytes(const void *bytes, size_t size);

#endif
