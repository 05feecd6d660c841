// Functions and classes of this worker that other workers may call.
//
// Other workers can call only registered names; no code is ever sent. A macro in front of the body of a function
// registers the function:
//
//     GW_FUNCTION(my_add, GW_INLINE, "tensor, tensor") {                    // gw_scope *s, const gw_args *a
//         return gw_value_of(gw_add(s, gw_arg_tensor(s, a, 0), gw_arg_tensor(s, a, 1)));
//     }
//
//     typedef struct counter { int64_t n; } counter;
//     GW_CLASS(counter, counter_open, counter_close, "int");               // gw_remote(s, to, "counter", 3) makes one
//     static void counter_open(gw_scope *own, counter *self, const gw_args *a) { self->n = gw_arg_int(own, a, 0); }
//     static void counter_close(counter *self) { printf("counted to %lld\n", (long long)self->n); }
//
//     GW_METHOD(counter, add, GW_INLINE, "int") {                            // gw_scope *s, counter *self, const gw_args *a
//         return gw_value_of(self->n += gw_arg_int(s, a, 0));
//     }
//
// A signature is a list of kinds separated by commas (bool int float string bytes tensor list map rref worker error);
// the arguments are checked before the body runs. "?" after a kind makes the argument optional (see gw_arg_count);
// "any" stands for every kind; "..." at the end stands for any further arguments; "" means no arguments. An int is
// accepted where a float is expected, and 0 or 1 where a bool is expected. Without a signature, or with NULL, every
// call is accepted and the accessors check the arguments that they read.
//
// Bodies: each call of a body runs in a new scope, with the caller's deadline. If that scope fails (by gw_fail, or any
// operation in it), the call fails. All handles made in the scope are released when the body returns. A body may return
// a gw_future: the reply is sent when the future resolves, and no thread waits for the future. In C++ a body may also
// throw an exception, which becomes the error of the body's scope: REMOTE with the text of what(). The exception must
// not pass through a function of the library, for example in a callback.
//
// GW_INLINE bodies run on the thread that receives the call, which may be any thread that waits. GW_INLINE bodies are
// short, never block (WOULD_BLOCK), and take no lock that another body holds while it blocks. A GW_INLINE body that
// takes more than 100 ms delays other calls, and the log names it. GW_POOL bodies run on a thread of the pool and may
// call, wait and compute. The stack of a body is as large as that of any thread of the program (8 MiB, unless ulimit -s
// sets another size); a body that overflows its stack ends the worker.
//
// Objects have turns: methods of one object run one at a time, in order of arrival; while a method blocks, other
// methods may run. If a method makes the object's own scope fail, the call of the method fails; the object can still be
// used.
//
// Linking: a registration runs before main if its object file is part of the program. From a static library the linker
// takes only object files to which the program refers, and no code refers to a registration. So link the library as
// -Wl,--whole-archive libmine.a -Wl,--no-whole-archive, or name one of its functions by -Wl,-u,name. Otherwise callers
// get "w1 has no function my_add; is its object linked?"
//
// Ownership: arguments are borrowed until the body returns; gw_keep(self_scope, x) keeps an argument |x| longer.
// Handles that an object makes in its own scope |own| live as long as the object; |self| is zeroed before |open| runs.
// A method that replaces such a handle needs the scope |own|, which the object keeps in a field: gw_set(self->own,
// &self->weights, updated).
// Threads: no other thread uses the scope of a body. Objects need no locks; variables that several functions share need
// a lock.
#ifndef GRADWIRE_FUNCTION_H
#define GRADWIRE_FUNCTION_H

#include <gradwire/args.h>
#include <gradwire/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/// The thread on which a body runs: the thread that receives the call, or a thread of the pool.
typedef enum gw_placement { GW_INLINE = 1, GW_POOL } gw_placement;

// ---- Registering in the process's registry ------------------------------------------------------
// If one of these registrations is invalid, gw_rpc_init fails with its error.

/// Registers a function; its body follows: GW_FUNCTION(name, where) or GW_FUNCTION(name, where, signature). The
/// parameters of the body are gw_scope *s and const gw_args *a; the body returns a gw_value.
#define GW_FUNCTION(...) GW_FUNCTION_FORM(__VA_ARGS__)

/// Registers the struct |type| as a class; a semicolon follows: GW_CLASS(type, open), GW_CLASS(type, open, signature)
/// or GW_CLASS(type, open, close, signature).
///
/// open: void open(gw_scope *own, type *self, const gw_args *a). If |open| fails, every use of the reference fails with
/// the error of |open|, and |close| does not run.
/// close: void close(type *self), runs on the pool when the last reference to the object is released; then the handles
/// of |own| are released.
#define GW_CLASS(...) GW_CLASS_FORM(__VA_ARGS__)

/// Registers a method; its body follows: GW_METHOD(type, name, where) or GW_METHOD(type, name, where, signature). The
/// parameters of the body are gw_scope *s, type *self and const gw_args *a; the body returns a gw_value.
#define GW_METHOD(...) GW_METHOD_FORM(__VA_ARGS__)

/// Limits the callers of the function or class |id|; a semicolon follows: GW_CALLERS(id, "trainer%d"). See
/// gw_registry_allow.
#define GW_CALLERS(id, names) GW_CALLERS_FORM(id, names)

// ---- Registries ---------------------------------------------------------------------------------
// The macros fill the process's registry before main. If two agents of one process serve different functions, as in
// tests, each agent has its own registry: the program fills the registry and passes it to gw_rpc_init; afterwards the
// registry cannot change.

/// What a worker serves: functions, classes and methods by name, opened by gw_registry_open.
typedef struct gw_registry gw_registry;
/// The body of a function, for gw_registry_add_function.
/// Returns: its result.
typedef gw_value (*gw_function_body)(gw_scope *s, const gw_args *a);
/// The body of a method, for gw_registry_add_method.
/// Returns: its result.
typedef gw_value (*gw_method_body)(gw_scope *s, void *self, const gw_args *a);

/// A class for gw_registry_add_class.
typedef struct gw_class_options {
    size_t size;  ///< bytes of the object, zeroed before open
    void (*open)(gw_scope *own, void *self, const gw_args *a);
    void (*close)(gw_scope *own, void *self);
    const char *signature;  ///< the signature of the arguments of |open|
} gw_class_options;

/// Opens a registry that has the library's operators; the registry is closed with |s|.
/// Returns: the registry.
/// Errors: NO_MEMORY.
GW_API gw_registry *gw_registry_open(gw_scope *s);

/// Adds a function.
/// Errors: DUPLICATE if the name is taken; INVALID for a malformed name or signature; WRONG_STATE if |r| is in use.
GW_API void gw_registry_add_function(gw_scope *s, gw_registry *r, const char *name,
                                     gw_placement where, const char *signature,
                                     gw_function_body body);

/// Adds a class.
/// Errors: as gw_registry_add_function.
GW_API void gw_registry_add_class(gw_scope *s, gw_registry *r, const char *name,
                                  gw_class_options options);

/// Adds a method to the class |class_name|.
/// Errors: as gw_registry_add_function; NOT_FOUND without such a class.
GW_API void gw_registry_add_method(gw_scope *s, gw_registry *r, const char *class_name,
                                   const char *name, gw_placement where, const char *signature,
                                   gw_method_body body);

/// Limits the callers of the function or class |name|: calls of workers that |callers| does not include fail with
/// UNSUPPORTED and do not run. A worker that has a reference to an object may call its methods. With one key for all
/// workers, each worker can use any name; a certificate proves the name of its worker (docs/SECURITY.md).
///
/// callers: a name, "ps", or a pattern, "trainer%d", where %d stands for digits; a second call for |name| replaces it. If
/// this worker calls |name| on itself, its own name must fit, too.
/// Errors: NOT_FOUND without such a function or class; INVALID for a malformed name in |callers|.
GW_API void gw_registry_allow(gw_scope *s, gw_registry *r, const char *name, const char *callers);

#ifdef __cplusplus
}
#endif
#include <gradwire/detail/function.h>
#endif
