// Values: what a call can carry.
//
// A closed set, so that no code and no foreign type ever travels: none, bool, int, float, string, bytes, tensor, list,
// map, reference, future, worker, error.
//
//     gw_rpc_sync(s, "ps", "scale", x, 2.5, "fast");            // C values become gw_values by themselves
//     gw_value v = gw_value_of(3);                              // or by hand
//     int64_t n = gw_int_of(s, v);                              // and back, checked
//
// Ownership: a value is small and copied freely; what it points to belongs to the scope it came from.
// Threads: as the scope it came from.
#ifndef GRADWIRE_VALUE_H
#define GRADWIRE_VALUE_H

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

// A named member of the job. |rank| and |incarnation| are what its name meant when it was looked up.
typedef struct gw_worker {
    const char *name;  // lives as long as the agent
    int rank;
    uint64_t incarnation;
} gw_worker;

typedef struct gw_value {
    gw_kind kind;
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
        const gw_worker *worker;
        const gw_error *error;
    } as;
    size_t size;
} gw_value;

// The name of |kind|, "tensor".
GW_API const char *gw_kind_name(gw_kind kind);

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
GW_API gw_value gw_value_of_worker(const gw_worker *x);
GW_API gw_value gw_value_of_error(const gw_error *x);

// Back to C. Each fails |s| with INVALID naming both kinds if |v| is something else; then returns 0, "" or poison.
// An int is accepted where a float is wanted, and 0 or 1 where a bool is: C's false and true are ints.
GW_API bool gw_bool_of(gw_scope *s, gw_value v);
GW_API int64_t gw_int_of(gw_scope *s, gw_value v);
GW_API double gw_float_of(gw_scope *s, gw_value v);
GW_API const char *gw_string_of(gw_scope *s, gw_value v);
GW_API gw_tensor *gw_tensor_of(gw_scope *s, gw_value v);
GW_API gw_list *gw_list_of(gw_scope *s, gw_value v);
GW_API gw_map *gw_map_of(gw_scope *s, gw_value v);
GW_API gw_rref *gw_rref_of(gw_scope *s, gw_value v);
GW_API gw_worker gw_worker_of(gw_scope *s, gw_value v);

// Lists and maps hold values and a count on what these point to. Both are made empty and then filled; a map is ordered
// by insertion, its keys are strings.
GW_API gw_list *gw_list_open(gw_scope *s);
GW_API void gw_list_add_with(gw_scope *s, gw_list *list, gw_value v);
GW_API int gw_list_count(const gw_list *list);
GW_API gw_value gw_list_get(gw_scope *s, const gw_list *list,
                            int index);  // fails |s| when out of range

GW_API gw_map *gw_map_open(gw_scope *s);
GW_API void gw_map_put_with(gw_scope *s, gw_map *map, const char *key, gw_value v);
GW_API int gw_map_count(const gw_map *map);
GW_API const char *gw_map_key(gw_scope *s, const gw_map *map, int index);
GW_API gw_value gw_map_get(gw_scope *s, const gw_map *map,
                           const char *key);                      // fails |s| when absent
GW_API gw_value gw_map_find(const gw_map *map, const char *key);  // none when absent

#ifdef __cplusplus
}
inline gw_value gw_value_of(gw_value v) { return v; }
inline gw_value gw_value_of(bool x) { return gw_value_of_bool(x); }
inline gw_value gw_value_of(char x) { return gw_value_of_int(x); }
inline gw_value gw_value_of(signed char x) { return gw_value_of_int(x); }
inline gw_value gw_value_of(unsigned char x) { return gw_value_of_int(x); }
inline gw_value gw_value_of(short x) { return gw_value_of_int(x); }
inline gw_value gw_value_of(unsigned short x) { return gw_value_of_int(x); }
inline gw_value gw_value_of(int x) { return gw_value_of_int(x); }
inline gw_value gw_value_of(unsigned x) { return gw_value_of_int(x); }
inline gw_value gw_value_of(long x) { return gw_value_of_int(x); }
inline gw_value gw_value_of(unsigned long x) { return gw_value_of_int(static_cast<int64_t>(x)); }
inline gw_value gw_value_of(long long x) { return gw_value_of_int(x); }
inline gw_value gw_value_of(unsigned long long x) {
    return gw_value_of_int(static_cast<int64_t>(x));
}
inline gw_value gw_value_of(float x) { return gw_value_of_float(static_cast<double>(x)); }
inline gw_value gw_value_of(double x) { return gw_value_of_float(x); }
inline gw_value gw_value_of(const char *x) { return gw_value_of_string(x); }
inline gw_value gw_value_of(const gw_tensor *x) { return gw_value_of_tensor(x); }
inline gw_value gw_value_of(const gw_list *x) { return gw_value_of_list(x); }
inline gw_value gw_value_of(const gw_map *x) { return gw_value_of_map(x); }
inline gw_value gw_value_of(const gw_rref *x) { return gw_value_of_rref(x); }
inline gw_value gw_value_of(const gw_future *x) { return gw_value_of_future(x); }
inline gw_value gw_value_of(const gw_worker *x) { return gw_value_of_worker(x); }
inline gw_value gw_value_of(const gw_error *x) { return gw_value_of_error(x); }
template <class Type> void gw_list_add(gw_scope *s, gw_list *list, Type x) {
    gw_list_add_with(s, list, gw_value_of(x));
}
template <class Type> void gw_map_put(gw_scope *s, gw_map *map, const char *key, Type x) {
    gw_map_put_with(s, map, key, gw_value_of(x));
}
#else
static inline gw_value gw_value_of_value(gw_value v) { return v; }
// A value of any C type a call can carry.
// clang-format off
#define gw_value_of(x)                                                                                                 \
    _Generic((x),                                                                                                      \
        gw_value: gw_value_of_value,                                                                                   \
        bool: gw_value_of_bool,                                                                                        \
        char: gw_value_of_int, signed char: gw_value_of_int, unsigned char: gw_value_of_int,                           \
        short: gw_value_of_int, unsigned short: gw_value_of_int,                                                       \
        int: gw_value_of_int, unsigned: gw_value_of_int,                                                               \
        long: gw_value_of_int, unsigned long: gw_value_of_int,                                                         \
        long long: gw_value_of_int, unsigned long long: gw_value_of_int,                                               \
        float: gw_value_of_float, double: gw_value_of_float,                                                           \
        char *: gw_value_of_string, const char *: gw_value_of_string,                                                  \
        gw_tensor *: gw_value_of_tensor, const gw_tensor *: gw_value_of_tensor,                                        \
        gw_list *: gw_value_of_list, const gw_list *: gw_value_of_list,                                                \
        gw_map *: gw_value_of_map, const gw_map *: gw_value_of_map,                                                    \
        gw_rref *: gw_value_of_rref, const gw_rref *: gw_value_of_rref,                                                \
        gw_future *: gw_value_of_future, const gw_future *: gw_value_of_future,                                        \
        gw_worker *: gw_value_of_worker, const gw_worker *: gw_value_of_worker,                                        \
        gw_error *: gw_value_of_error, const gw_error *: gw_value_of_error)(x)
// clang-format on
#define gw_list_add(s, list, x) gw_list_add_with((s), (list), gw_value_of(x))
#define gw_map_put(s, map, key, x) gw_map_put_with((s), (map), (key), gw_value_of(x))
#endif

#endif
