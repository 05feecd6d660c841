// Values: what a call can carry.
//
// The kinds of values are fixed: none, bool, int, float, string, bytes, tensor, list, map, reference, future, worker,
// error. Code and other types cannot be sent.
//
//     gw_rpc_sync(s, "ps", "scale", x, 2.5, "fast");            // values of C become gw_values
//     gw_value v = gw_value_of(3);                              // or explicitly
//     int64_t n = gw_int_of(s, v);                              // and back, checked
//
// In the short form of a function, the argument for a gw_value parameter is a C value of any of these kinds, and the
// arguments for a gw_values parameter are several C values.
//
// Errors, of all functions: INVALID for a value of another kind than expected, naming both kinds, and for an index out
// of range; NO_MEMORY.
// Ownership: a value is small and copied freely; the object that a value points to belongs to the scope that made the
// object.
// Threads: the same as for the scope that made the value.
#ifndef GRADWIRE_VALUE_H
#define GRADWIRE_VALUE_H

#include <gradwire/detail/options.h>
#include <gradwire/scope.h>

#ifdef __cplusplus
extern "C" {
#endif

/// A tensor: gradwire/tensor.h.
typedef struct gw_tensor gw_tensor;
/// A list of values, opened by gw_list_open.
typedef struct gw_list gw_list;
/// A map of values by name, in the order of insertion, opened by gw_map_open.
typedef struct gw_map gw_map;
/// A reference to a value of a worker: gradwire/ref.h.
typedef struct gw_rref gw_rref;
/// A value that may not be available yet, such as the result of gw_rpc_async: gradwire/rpc.h.
typedef struct gw_future gw_future;

/// The kinds of values.
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
    GW_FUTURE,  ///< as an argument: the callee starts when the future has resolved
    GW_WORKER,
    GW_ERROR,
    GW_KIND_COUNT
} gw_kind;

/// A worker of the job. |rank| and |incarnation| identify the worker, even if a later worker has the same name.
typedef struct gw_worker {
    const char *name;  ///< lives as long as the agent
    int rank;
    uint64_t incarnation;
} gw_worker;

/// A value; made by gw_value_of.
typedef struct gw_value {
    gw_kind kind;
    int rank;  ///< of a worker
    union {
        bool boolean;
        int64_t integer;
        double real;
        const char *string;  ///< |size| bytes, followed by a NUL
        const void *bytes;   ///< |size| bytes
        gw_tensor *tensor;
        gw_list *list;
        gw_map *map;
        gw_rref *rref;
        gw_future *future;
        const char *worker;  ///< its name
        const gw_error *error;
    } as;
    union {
        size_t size;
        uint64_t incarnation;  ///< of a worker
    };
} gw_value;

/// Several values, such as the arguments of a call; made by GW_ARGS.
typedef struct gw_values {
    int count;
    const gw_value *items;
} gw_values;

/// Makes values of C values: `gw_values GW_ARGS(args...)`, 1 to 12 of them. The values live until the end of the C
/// block in which the macro is written.
///
/// Returns: the values.
#define GW_ARGS(...) GW_ARGS_OF(__VA_ARGS__)
/// No values.
#define GW_NO_ARGS GW_NO_VALUES

#ifndef __cplusplus
/// Makes a struct of options for a function that takes the struct: `type GW_OPTIONS(type, .name = value, ...)`. Options
/// that are left out have their defaults. For C only: in C++ the struct type itself has the defaults.
///
///     gw_call_options patient = GW_OPTIONS(gw_call_options, .timeout_ms = 500000);
///
/// Returns: the struct.
#define GW_OPTIONS(...) GW_OPTIONS_OF(__VA_ARGS__, )
#endif

/// Returns the name of |kind|, "tensor".
GW_API const char *gw_kind_name(gw_kind kind);

/// Makes a value of a C value: `gw_value gw_value_of(x)`. The macro calls one of the functions below, by the type of
/// |x|: bool, the integer types, float, double, char *, the handles named above, gw_worker, gw_worker *, gw_error * and
/// gw_value.
///
/// Returns: the value.
#define gw_value_of(x) GW_VALUE_OF(x)
/// Returns the value none.
GW_API gw_value gw_none(void);
/// Returns a bool.
GW_API gw_value gw_value_of_bool(bool x);
/// Returns an int.
GW_API gw_value gw_value_of_int(int64_t x);
/// Returns a float.
GW_API gw_value gw_value_of_float(double x);
/// Returns a string, which borrows |x|; none for NULL.
GW_API gw_value gw_value_of_string(const char *x);
/// Returns bytes, which borrow |bytes|; none if |bytes| is NULL and |size| is above 0.
GW_API gw_value gw_value_of_bytes(const void *bytes, size_t size);
/// Returns a tensor; none for NULL.
GW_API gw_value gw_value_of_tensor(const gw_tensor *x);
/// Returns a list; none for NULL.
GW_API gw_value gw_value_of_list(const gw_list *x);
/// Returns a map; none for NULL.
GW_API gw_value gw_value_of_map(const gw_map *x);
/// Returns a reference; none for NULL.
GW_API gw_value gw_value_of_rref(const gw_rref *x);
/// Returns a future; none for NULL.
GW_API gw_value gw_value_of_future(const gw_future *x);
/// Returns a worker.
GW_API gw_value gw_value_of_worker(gw_worker x);
/// Returns an error, which borrows |x|; none for NULL.
GW_API gw_value gw_value_of_error(const gw_error *x);

// ---- Back to C ----------------------------------------------------------------------------------
// On failure these functions return 0, "" or poison. gw_float_of also accepts an int. gw_bool_of also accepts the ints
// 0 and 1, because false and true of C are ints.

/// Returns the bool |v|.
GW_API bool gw_bool_of(gw_scope *s, gw_value v);
/// Returns the int |v|.
GW_API int64_t gw_int_of(gw_scope *s, gw_value v);
/// Returns the float |v|.
GW_API double gw_float_of(gw_scope *s, gw_value v);
/// Returns the string |v|.
GW_API const char *gw_string_of(gw_scope *s, gw_value v);
/// Returns the tensor |v|.
GW_API gw_tensor *gw_tensor_of(gw_scope *s, gw_value v);
/// Returns the list |v|.
GW_API gw_list *gw_list_of(gw_scope *s, gw_value v);
/// Returns the map |v|.
GW_API gw_map *gw_map_of(gw_scope *s, gw_value v);
/// Returns the reference |v|.
GW_API gw_rref *gw_rref_of(gw_scope *s, gw_value v);
/// Returns the worker |v|.
GW_API gw_worker gw_worker_of(gw_scope *s, gw_value v);

// ---- Lists and maps -----------------------------------------------------------------------------
// A list or map holds values. For each value that is a handle, it holds a count on the handle.

/// Opens an empty list.
/// Returns: the list.
GW_API gw_list *gw_list_open(gw_scope *s);

/// Adds |v| at the end of |list|.
///
/// v: any value.
/// Errors: INVALID if |v| is |list| itself or contains it; LIMIT if lists are nested too deep.
GW_API void gw_list_add(gw_scope *s, gw_list *list, gw_value v) GW_CALLS(gw_list_add_with);
#define gw_list_add(s, list, v) gw_list_add_with((s), (list), gw_value_of(v))
GW_API GW_TYPE_OF(gw_list_add) gw_list_add_with;

/// Returns the number of items of |list|.
GW_API int gw_list_count(const gw_list *list);

/// Returns item |index| of |list|.
GW_API gw_value gw_list_get(gw_scope *s, const gw_list *list, int index);

/// Opens an empty map.
/// Returns: the map.
GW_API gw_map *gw_map_open(gw_scope *s);

/// Puts |v| under |key|. If |key| has a value already, |v| replaces this value.
///
/// v: any value.
/// Errors: INVALID if |v| is |map| itself or contains it; LIMIT if maps are nested too deep.
GW_API void gw_map_put(gw_scope *s, gw_map *map, const char *key, gw_value v)
    GW_CALLS(gw_map_put_with);
#define gw_map_put(s, map, key, v) gw_map_put_with((s), (map), (key), gw_value_of(v))
GW_API GW_TYPE_OF(gw_map_put) gw_map_put_with;

/// Returns the number of keys of |map|.
GW_API int gw_map_count(const gw_map *map);

/// Returns key |index| of |map|, in the order of insertion.
GW_API const char *gw_map_key(gw_scope *s, const gw_map *map, int index);

/// Returns the value of |key|.
/// Errors: NOT_FOUND if |map| has no |key|.
GW_API gw_value gw_map_get(gw_scope *s, const gw_map *map, const char *key);

/// Returns the value of |key|; none if |map| has no |key|.
GW_API gw_value gw_map_find(const gw_map *map, const char *key);

#ifdef __cplusplus
}
#endif
#include <gradwire/detail/value.h>
#endif
