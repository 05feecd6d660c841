// Functions and classes of this worker that other workers can call.
//
// Other workers can call only registered names. Code is never sent. A macro in front of the body of a function
// registers the function:
//
//     GW_FUNCTION(my_add, GW_INLINE, "tensor, tensor") {        // parameters: gw_scope *s, const gw_args *a
//         return gw_value_of(gw_add(s, gw_arg_tensor(s, a, 0), gw_arg_tensor(s, a, 1)));
//     }
//
//     typedef struct counter { int64_t n; } counter;
//     GW_CLASS(counter, counter_open, counter_close, "int");         // gw_remote(s, to, "counter", 3) makes an object
//     static void counter_open(gw_scope *own, counter *self, const gw_args *a) { self->n = gw_arg_int(own, a, 0); }
//     static void counter_close(counter *self) { printf("counted to %lld\n", (long long)self->n); }
//
//     GW_METHOD(counter, add, GW_INLINE, "int") {           // parameters: gw_scope *s, counter *self, const gw_args *a
//         return gw_value_of(self->n += gw_arg_int(s, a, 0));
//     }
//
// A signature is a list of kinds that are separated by commas: bool int float string bytes tensor list map rref worker
// error. The library checks the arguments before the body runs.
// * "?" after a kind makes the argument optional (see gw_arg_count).
// * "any" accepts every kind.
// * "..." at the end accepts any further arguments.
// * "" accepts no arguments.
// * A float accepts an int, and a bool accepts the ints 0 and 1.
//
// Without a signature, or with NULL, every call is accepted; the accessors check the arguments that they read.
//
// Bodies: each call of a body runs in a new scope, which has the deadline of the caller. If this scope fails, by
// gw_fail or by an operation, the call fails. When the body returns, all handles of the scope are released. A body may
// return a gw_future. Then the reply is sent when the future resolves, and no thread waits for the future. In C++ a
// body may throw an exception. The exception becomes the error of the body's scope: REMOTE with the text of what(). It
// must not pass through a function of the library, for example in a callback.
//
// GW_INLINE bodies run on the thread that receives the call. This may be any thread that waits in the library. A
// GW_INLINE body must be short, must not block (WOULD_BLOCK), and must not take a lock that another body holds while it
// blocks. If a GW_INLINE body takes more than 100 ms, it delays other calls, and the log names it. GW_POOL bodies run
// on a thread of the pool. They may make calls, wait and compute. The stack of a body has the same size as the stack of
// any other thread of the program: 8 MiB, unless ulimit -s sets another size. If a body overflows its stack, the worker
// ends.
//
// The methods of one object run one at a time, in order of arrival. While a method blocks, other methods of the object
// may run. If a method makes the object's own scope fail, the call of the method fails, but the object can still be
// used.
//
// Linking: a registration runs before main if its object file is part of the program. From a static library, the linker
// takes only the object files to which the program refers, and no code refers to a registration. So link a static
// library with -Wl,--whole-archive libmine.a -Wl,--no-whole-archive, or name one of its functions by -Wl,-u,name.
// Otherwise callers get the error "w1 has no function my_add; is its object linked?"
//
// Ownership: arguments are borrowed until the body returns. gw_keep(own, x) keeps an argument |x| as long as the object
// lives, if |own| is the object's own scope. Handles that belong to |own| live as long as the object. A method that
// replaces such a handle needs |own|, which the object can keep in a field: gw_set(self->own, &self->weights, updated).
// |self| is zeroed before |open| runs.
// Threads: no other thread uses the scope of a body. Objects need no locks. Variables that several functions share need
// a lock.
#ifndef GRADWIRE_FUNCTION_H
#define GRADWIRE_FUNCTION_H

#include <gradwire/args.h>
#include <gradwire/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/// The thread on which a body runs. GW_INLINE: the thread that receives the call. GW_POOL: a thread of the pool.
typedef enum gw_placement { GW_INLINE = 1, GW_POOL } gw_placement;

// ---- Registering in the process's registry ------------------------------------------------------
// If a registration is invalid, gw_rpc_init fails with the error of the registration.

/// Registers a function: GW_FUNCTION(name, where) or GW_FUNCTION(name, where, signature), followed by the body of the
/// function. The parameters of the body are gw_scope *s and const gw_args *a. The body returns a gw_value.
#define GW_FUNCTION(...) GW_FUNCTION_FORM(__VA_ARGS__)

/// Registers the struct |type| as a class: GW_CLASS(type, open), GW_CLASS(type, open, signature) or GW_CLASS(type,
/// open, close, signature), followed by a semicolon.
///
/// open: void open(gw_scope *own, type *self, const gw_args *a). If |open| fails, every use of the reference fails with
/// the error of |open|, and |close| does not run.
/// close: void close(type *self). It runs on the pool after the last reference to the object is released. After
/// |close|, the handles of |own| are released.
#define GW_CLASS(...) GW_CLASS_FORM(__VA_ARGS__)

/// Registers a method: GW_METHOD(type, name, where) or GW_METHOD(type, name, where, signature), followed by the body of
/// the method. The parameters of the body are gw_scope *s, type *self and const gw_args *a. The body returns a
/// gw_value.
#define GW_METHOD(...) GW_METHOD_FORM(__VA_ARGS__)

/// Limits the callers of the function or class |id|, as gw_registry_allow does: GW_CALLERS(id, "trainer%d"), followed
/// by a semicolon.
#define GW_CALLERS(id, names) GW_CALLERS_FORM(id, names)

// ---- Registries ---------------------------------------------------------------------------------
// Before main, the macros add functions and classes to the process's registry. All agents of the process serve this
// registry by default. A program with two agents that serve different functions opens a registry for each agent, adds
// functions to it, and passes it to gw_rpc_init. After gw_rpc_init a registry cannot change.

/// The functions, classes and methods that other workers can call by name, opened by gw_registry_open.
typedef struct gw_registry gw_registry;
/// The body of a function, for gw_registry_add_function.
/// Returns: its result.
typedef gw_value (*gw_function_body)(gw_scope *s, const gw_args *a);
/// The body of a method, for gw_registry_add_method.
/// Returns: its result.
typedef gw_value (*gw_method_body)(gw_scope *s, void *self, const gw_args *a);

/// A class for gw_registry_add_class.
typedef struct gw_class_options {
    size_t size;  ///< the size of the object in bytes; the object is zeroed before |open| runs
    void (*open)(gw_scope *own, void *self, const gw_args *a);
    void (*close)(gw_scope *own, void *self);
    const char *signature;  ///< the signature of the arguments of |open|
} gw_class_options;

/// Opens a registry that has the operators of the library. The registry closes with |s|.
/// Returns: the registry.
/// Errors: NO_MEMORY.
GW_API gw_registry *gw_registry_open(gw_scope *s);

/// Adds a function.
/// Errors: DUPLICATE if |r| has the name already; INVALID for a malformed name or signature; WRONG_STATE if an agent
/// uses |r|.
GW_API void gw_registry_add_function(gw_scope *s, gw_registry *r, const char *name,
                                     gw_placement where, const char *signature,
                                     gw_function_body body);

/// Adds a class.
/// Errors: as gw_registry_add_function.
GW_API void gw_registry_add_class(gw_scope *s, gw_registry *r, const char *name,
                                  gw_class_options options);

/// Adds a method to the class |class_name|.
/// Errors: as gw_registry_add_function; NOT_FOUND if |r| has no such class.
GW_API void gw_registry_add_method(gw_scope *s, gw_registry *r, const char *class_name,
                                   const char *name, gw_placement where, const char *signature,
                                   gw_method_body body);

/// Limits the callers of the function or class |name|. A call of a worker whose name does not match |callers| fails
/// with UNSUPPORTED and does not run. This also holds for calls of this worker to itself. A worker that has a reference
/// to an object can always call the methods of the object. If all workers share one key, each worker can choose any
/// name; with certificates, a worker can use only the name in its certificate (docs/SECURITY.md).
///
/// callers: a name, such as "ps", or a pattern, such as "trainer%d", in which %d stands for digits. A second call for
/// |name| replaces |callers|.
/// Errors: NOT_FOUND if |r| has no such function or class; INVALID for a malformed name in |callers|.
GW_API void gw_registry_allow(gw_scope *s, gw_registry *r, const char *name, const char *callers);

#ifdef __cplusplus
}
#endif
#include <gradwire/detail/function.h>
#endif
