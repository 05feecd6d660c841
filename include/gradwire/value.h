// Values: what a call can carry.
//
// A closed set, so that no code and no foreign type ever travels: none, bool, int, float, string,
// bytes, tensor, list, map, reference, future, worker, error.
//
//     gw_rpc_sync(s, "ps", "scale", x, 2.5, "fast");            // C values become gw_values by themselves
//     gw_value v = gw_value_of(3);                              // or by hand
//     int64_t n = gw_int_of(s, v);                              // and back, checked
//
// Ownership: a value is small and copied freely; what it points to belongs to the scope it came
// from.
// Threads: as the scope it came from.
#ifndef GRADWIRE_VALUE_H
#define GRADWIRE_VALUE_H

#include <gradwire/detail/options.h>
#include <gradwire/scope.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gw_tensor gw_tensor;
typedef struct gw_list gw_list;
typedef struct gw_map gw_map;
typedef struct gw_rref gw_rref;
typedef struct gw_future gw_future;

typedef enum gw_kind {
    GW_NONE = 0,
    GW_BOOL,
    GW_INT,
    GW_FLOAT,
    GW_STRING,
    GW_BYTES,
    GW_TENSOR,
    GW_LIST,
    GW_MAP,
    GW_RREF,
    GW_FUTURE,  // travels as a promise: the callee starts when it has resolved
    GW_WORKER,
    GW_ERROR,
    GW_KIND_COUNT
} gw_kind;

// A named member of the job. |rank| and |incarnation| are what its name meant when it was looked
// up.
typedef struct gw_worker {
    const char *name;  // lives as long as the agent
    int rank;
    uint64_t incarnation;
} gw_worker;

typedef struct gw_value {
    gw_kind kind;
    int rank;  // of a worker
    union {
        bool boolean;
        int64_t integer;
        double real;
        const char *string;  // |size| bytes and a NUL behind them
        const void *bytes;   // |size| bytes
        gw_tensor *tensor;
        gw_list *list;
        gw_map *map;
        gw_rref *rref;
        gw_future *future;
        const char *worker;  // its name
        const gw_error *error;
    } as;
    union {
        size_t size;
        uint64_t incarnation;  // of a worker
    };
} gw_value;

// Several, as the arguments of a call: GW_ARGS(x, 2.5, "fast"), or GW_NO_ARGS. They live as long as
// the block they stand in.
typedef struct gw_values {
    int count;
    const gw_value *items;
} gw_values;

// The name of |kind|, "tensor".
GW_API const char *gw_kind_name(gw_kind kind);

// gw_value_of(x) makes a value of any C type that a call can carry; it is one of these:
#define gw_value_of(x) GW_VALUE_OF(x)
#define GW_ARGS(...) GW_ARGS_OF(__VA_ARGS__)
#define GW_NO_ARGS GW_NO_VALUES
#ifndef __cplusplus
#define GW_OPTIONS(...) GW_OPTIONS_OF(__VA_ARGS__, )
#endif
GW_API gw_value gw_none(void);
GW_API gw_value gw_value_of_bool(bool x);
GW_API gw_value gw_value_of_int(int64_t x);
GW_API gw_value gw_value_of_float(double x);
GW_API gw_value gw_value_of_string(const char *x);                  // borrowed; NULL is none
GW_API gw_value gw_value_of_bytes(const void *bytes, size_t size);  // NULL with a size is none
GW_API gw_value gw_value_of_tensor(const gw_tensor *x);
GW_API gw_value gw_value_of_list(const gw_list *x);
GW_API gw_value gw_value_of_map(const gw_map *x);
GW_API gw_value gw_value_of_rref(const gw_rref *x);
GW_API gw_value gw_value_of_future(const gw_future *x);
GW_API gw_value gw_value_of_worker(gw_worker x);  // gw_value_of takes a gw_worker *, too
GW_API gw_value gw_value_of_error(const gw_error *x);

// Back to C. Each fails |s| with INVALID naming both kinds if |v| is something else; then returns
// 0, "" or poison.
// An int is accepted where a float is wanted, and 0 or 1 where a bool is: C's false and true are
// ints.
GW_API bool gw_bool_of(gw_scope *s, gw_value v);
GW_API int64_t gw_int_of(gw_scope *s, gw_value v);
GW_API double gw_float_of(gw_scope *s, gw_value v);
GW_API const char *gw_string_of(gw_scope *s, gw_value v);
GW_API gw_tensor *gw_tensor_of(gw_scope *s, gw_value v);
GW_API gw_list *gw_list_of(gw_scope *s, gw_value v);
GW_API gw_map *gw_map_of(gw_scope *s, gw_value v);
GW_API gw_rref *gw_rref_of(gw_scope *s, gw_value v);
GW_API gw_worker gw_worker_of(gw_scope *s, gw_value v);

// Lists and maps hold values and a count on what these point to. Both are made empty and then
// filled; a map is ordered by insertion, its keys are strings. gw_list_add(s, list, x) and
// gw_map_put(s, map, key, x) take any C value.
GW_API gw_list *gw_list_open(gw_scope *s);
GW_API void gw_list_add(gw_scope *s, gw_list *list, gw_value v) GW_CALLS(gw_list_add_with);
#define gw_list_add(s, list, v) gw_list_add_with((s), (list), gw_value_of(v))
GW_API GW_TYPE_OF(gw_list_add) gw_list_add_with;
GW_API int gw_list_count(const gw_list *list);
GW_API gw_value gw_list_get(gw_scope *s, const gw_list *list,
                            int index);  // fails |s| when out of range

GW_API gw_map *gw_map_open(gw_scope *s);
GW_API void gw_map_put(gw_scope *s, gw_map *map, const char *key, gw_value v)
    GW_CALLS(gw_map_put_with);
#define gw_map_put(s, map, key, v) gw_map_put_with((s), (map), (key), gw_value_of(v))
GW_API GW_TYPE_OF(gw_map_put) gw_map_put_with;
GW_API int gw_map_count(const gw_map *map);
GW_API const char *gw_map_key(gw_scope *s, const gw_map *map, int index);
GW_API gw_value gw_map_get(gw_scope *s, const gw_map *map,
                           const char *key);                      // fails |s| when absent
GW_API gw_value gw_map_find(const gw_map *map, const char *key);  // none when absent

#ifdef __cplusplus
}
#endif
#include <gradwire/detail/value.h>
#endif
