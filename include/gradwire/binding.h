// For bindings to other languages: a table of the operators, and counts on handles. A binding makes a function of its
// own language for each row of the table. The objects of a binding hold a count on handles, which keeps these handles
// alive when the scope that made them has closed. A binding calls the functions whose names end in _with
// (docs/decisions/0013-names.md).
//
//     for (int i = 0; i < gw_operator_count(); i++) define_function(gw_operator_at(i));     // the binding's own
//
//     const gw_operator *matmul = gw_operator_find("matmul");
//     gw_value args[] = { gw_value_of(a), gw_value_of(b) };
//     object->tensor = gw_retain(gw_tensor_of(s, gw_operator_call(s, matmul, args, 2)));
//
//     gw_release(object->tensor);                              // when the object is collected
//
// Ownership: the table is static. Results belong to the scope, as everywhere; the caller of gw_retain owns a count
// until it calls gw_release.
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

/// An argument of an operator, a part of gw_operator.
typedef struct gw_operator_argument {
    const char *name;
    gw_argument_kind kind;
    bool optional;       ///< may be none, or left out at the end
    gw_value otherwise;  ///< the default; none: the operator needs no value
} gw_operator_argument;

/// The most arguments of an operator; and the result_count of an operator whose number of results depends on its
/// arguments.
enum { GW_OPERATOR_ARGUMENTS_MAX = 8, GW_OPERATOR_LIST = -1 };

/// An operator, found by gw_operator_at or gw_operator_find.
typedef struct gw_operator {
    const char *name;  ///< "matmul"; every worker serves it as "gw.matmul"
    int argument_count;
    gw_operator_argument arguments[GW_OPERATOR_ARGUMENTS_MAX];
    int result_count;   ///< GW_OPERATOR_LIST: depends on the arguments
    bool has_gradient;  ///< gradients flow from results to arguments
} gw_operator;

/// Returns the number of operators.
GW_API int gw_operator_count(void);
/// Returns operator |index|, in the order of gradwire/ops.h; NULL when out of range.
GW_API const gw_operator *gw_operator_at(int index);
/// Returns the operator |name|, "matmul" or "gw.matmul"; NULL if there is none.
GW_API const gw_operator *gw_operator_find(const char *name);

/// Calls |o| with |count| arguments.
///
/// Returns: a tensor if |o| has one result, else a list of tensors.
/// Errors: those of the operator; INVALID for arguments of another kind or number.
GW_API gw_value gw_operator_call(gw_scope *s, const gw_operator *o, const gw_value *args,
                                 int count);

// ---- Counts of handles --------------------------------------------------------------------------
// Both functions of this section take every handle that gw_keep takes, and NULL. gw_keep takes a count for a scope on a
// retained handle, too.

/// Takes a count on |h|, which keeps |h| alive after its scope has closed: `Handle *gw_retain(Handle *h)`.
///
/// Returns: |h|, with its type.
#define gw_retain(h) GW_RETAIN(h)
GW_API gw_handle *gw_retain_handle(gw_handle *h);

/// Releases a count of gw_retain: `void gw_release(Handle *h)`.
#define gw_release(h) GW_RELEASE(h)
GW_API void gw_release_handle(gw_handle *h);

#ifdef __cplusplus
}
#endif
#include <gradwire/detail/binding.h>
#endif
