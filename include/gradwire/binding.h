// For bindings to other languages: a table of all operators, and reference counts of handles. A binding makes one
// function of its own language for each row of the table. An object of the binding holds a count on its handle. The
// count keeps the handle alive after the scope that made the handle has closed. A binding calls the functions whose
// names end in _with (docs/decisions/0013-names.md).
//
//     for (int i = 0; i < gw_operator_count(); i++) define_function(gw_operator_at(i));  // the binding's
//
//     const gw_operator *matmul = gw_operator_find("matmul");
//     gw_value args[] = { gw_value_of(a), gw_value_of(b) };
//     object->tensor = gw_retain(gw_tensor_of(s, gw_operator_call(s, matmul, args, 2)));
//
//     gw_release(object->tensor);                              // when the object is collected
//
// Ownership: the table is static. Results belong to the scope. The caller of gw_retain owns a count until it calls
// gw_release.
// Threads: any thread may read the table, and retain and release handles.
#ifndef GRADWIRE_BINDING_H
#define GRADWIRE_BINDING_H

#include <gradwire/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/// The kind of one parameter of an operator.
typedef enum gw_argument_kind {
    GW_ARGUMENT_TENSOR = 0,
    GW_ARGUMENT_OPERAND,  ///< a tensor or a number
    GW_ARGUMENT_NUMBER,   ///< a float, an int or a bool
    GW_ARGUMENT_INT,
    GW_ARGUMENT_FLOAT,  ///< a float or an int
    GW_ARGUMENT_BOOL,   ///< a bool, or the int 0 or 1
    /// Sizes or dimensions: a list of ints, one int, or an array of int64_t as bytes.
    GW_ARGUMENT_INTS,
    GW_ARGUMENT_TENSORS,  ///< a list of tensors
    GW_ARGUMENT_DTYPE,    ///< the name of a dtype, "f32", or a gw_dtype as an int
    GW_ARGUMENT_KIND_COUNT
} gw_argument_kind;

/// A parameter of an operator; gw_operator has an array of them.
typedef struct gw_operator_argument {
    const char *name;
    gw_argument_kind kind;
    bool optional;       ///< the argument may be none, and may be left out at the end
    gw_value otherwise;  ///< the default of an optional argument; none if it has no default
} gw_operator_argument;

/// GW_OPERATOR_ARGUMENTS_MAX: the largest number of arguments of an operator. GW_OPERATOR_LIST: the |result_count| of
/// an operator whose number of results depends on its arguments.
enum { GW_OPERATOR_ARGUMENTS_MAX = 8, GW_OPERATOR_LIST = -1 };

/// An operator, found by gw_operator_at or gw_operator_find.
typedef struct gw_operator {
    const char *name;  ///< "matmul"; other workers can call it as "gw.matmul"
    int argument_count;
    gw_operator_argument arguments[GW_OPERATOR_ARGUMENTS_MAX];
    int result_count;   ///< GW_OPERATOR_LIST: depends on the arguments
    bool has_gradient;  ///< the operator has a derivative
} gw_operator;

/// Returns the number of operators.
GW_API int gw_operator_count(void);
/// Returns operator |index|, in the order of gradwire/ops.h; NULL when out of range.
GW_API const gw_operator *gw_operator_at(int index);
/// Returns the operator with the name |name|, such as "matmul" or "gw.matmul"; NULL if there is no such operator.
GW_API const gw_operator *gw_operator_find(const char *name);

/// Calls |o| with |count| arguments.
///
/// Returns: a tensor if |o| has one result, otherwise a list of tensors.
/// Errors: those of the operator; INVALID for arguments of another kind, or another number of arguments.
GW_API gw_value gw_operator_call(gw_scope *s, const gw_operator *o, const gw_value *args,
                                 int count);

// ---- Counts of handles --------------------------------------------------------------------------
// The functions of this section accept NULL, and every handle that gw_keep accepts. A retained handle can also be
// passed to gw_keep.

/// Adds one to the reference count of |h|, so that |h| stays alive after its scope has closed: `Handle
/// *gw_retain(Handle *h)`.
///
/// Returns: |h|, with its type.
#define gw_retain(h) GW_RETAIN(h)
GW_API gw_handle *gw_retain_handle(gw_handle *h);

/// Subtracts one from the reference count of |h|, after gw_retain: `void gw_release(Handle *h)`.
#define gw_release(h) GW_RELEASE(h)
GW_API void gw_release_handle(gw_handle *h);

#ifdef __cplusplus
}
#endif
#include <gradwire/detail/binding.h>
#endif
