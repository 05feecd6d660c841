// Internals of lists and maps of values.
//
// A container owns the contents of its items: strings, bytes, workers and errors are copies,
// handles hold a count.
#ifndef BASE_VALUE_H
#define BASE_VALUE_H

#include "base/handle.h"
#include "base/map.h"
#include <gradwire/value.h>

struct gw_list {
    gw_handle handle;
    bool inside;  // was put into another container
    gw_value *items;
    int count;
    uint32_t capacity;
    struct gw_list *after;  // while it is destroyed: the next one in the queue
};

struct gw_map {
    gw_handle handle;
    gw_list values;  // in order of insertion; its handle is not used, |inside| is
    char **keys;     // in the same order
    uint32_t key_capacity;
    map index;  // by key: index + 1
};

extern const handle_class list_class, map_class;

// Returned by a failed scope: empty, and never written to.
extern gw_list list_poison;
extern gw_map map_poison;

// Owned by no scope, with one count; NULL without memory.
gw_list *list_open(void);

// False without memory; the container is then as before.
bool list_add(gw_list *list, gw_value v);
bool map_set(gw_map *map, const char *key, size_t key_size, gw_value v);  // replaces

// A copy of |v| that owns its contents, and its release. False without memory.
bool value_copy(gw_value *out, gw_value v);
void value_free(gw_value v);

// The handle in |v|, or NULL.
gw_handle *value_handle(gw_value v);

#endif
