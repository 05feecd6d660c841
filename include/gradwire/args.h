// Arguments: the values that are passed to a function, a method, the open function of a class, or the forward of a
// module.
//
//     GW_FUNCTION(scaled, GW_INLINE, "tensor, float?") {        // parameters: gw_scope *s, const gw_args *a
//         double by = gw_arg_count(a) > 1 ? gw_arg_float(s, a, 1) : 2;
//         return gw_value_of(gw_mul(s, gw_arg_tensor(s, a, 0), by));
//     }
//
// Errors, of all accessors: INVALID if the argument is missing or of another kind; the error names the body and the
// argument.
// Ownership: arguments are borrowed until the body returns.
// Threads: only the thread that runs the body reads its arguments.
#ifndef GRADWIRE_ARGS_H
#define GRADWIRE_ARGS_H

#include <gradwire/value.h>

#ifdef __cplusplus
extern "C" {
#endif

/// The arguments of one call of a body, read by functions such as gw_arg_tensor.
typedef struct gw_args gw_args;

/// Returns the number of arguments.
GW_API int gw_arg_count(const gw_args *a);

/// Returns argument |index|, of any kind.
GW_API gw_value gw_arg(gw_scope *s, const gw_args *a, int index);
/// Returns argument |index|, a bool; the ints 0 and 1 are accepted, too.
GW_API bool gw_arg_bool(gw_scope *s, const gw_args *a, int index);
/// Returns argument |index|, an int.
GW_API int64_t gw_arg_int(gw_scope *s, const gw_args *a, int index);
/// Returns argument |index|, a float; an int is accepted, too.
GW_API double gw_arg_float(gw_scope *s, const gw_args *a, int index);
/// Returns argument |index|, a string.
GW_API const char *gw_arg_string(gw_scope *s, const gw_args *a, int index);
/// Returns argument |index|, a tensor.
GW_API gw_tensor *gw_arg_tensor(gw_scope *s, const gw_args *a, int index);
/// Returns argument |index|, a list.
GW_API gw_list *gw_arg_list(gw_scope *s, const gw_args *a, int index);
/// Returns argument |index|, a map.
GW_API gw_map *gw_arg_map(gw_scope *s, const gw_args *a, int index);
/// Returns argument |index|, a reference.
GW_API gw_rref *gw_arg_rref(gw_scope *s, const gw_args *a, int index);
/// Returns argument |index|, a tensor; NULL if the argument is left out or is none.
GW_API gw_tensor *gw_arg_tensor_or_null(gw_scope *s, const gw_args *a, int index);

/// Returns the worker that made the call. In the forward of a module there is no caller: the result has the name "" and
/// the rank -1.
GW_API gw_worker gw_arg_caller(const gw_args *a);

/// Returns the name of the called function or class, "scale", or of the method with its class, "counter.add". For
/// bindings, whose functions share one body. Valid until the body returns.
GW_API const char *gw_arg_function(const gw_args *a);

#ifdef __cplusplus
}
#endif
#endif
