// Functions and classes that other workers may call here.
//
// Only registered names can be called; no code is ever sent. A registration stands in front of its body:
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
// A signature is a list of kinds separated by commas (bool int float string bytes tensor list map rref worker error),
// checked before anything runs. "?" behind a kind makes the argument optional (see gw_arg_count), "any" takes every
// kind, "..." at the end any further arguments; "" takes none. An int is accepted where a float is expected, and 0 or 1
// where a bool is. Without a signature, or with NULL, every call is accepted and the accessors check the arguments that
// they read.
//
// Bodies: a body runs in a scope of its own, with the caller's deadline. It fails by failing that scope (gw_fail, or any
// operation in it); everything made in it is released when it returns. A result may be a gw_future: the reply is sent
// when it resolves, and holds no thread. In C++ a body may also throw: the exception becomes the error of its scope,
// REMOTE with what(). It does not throw past a function of the library that it has called.
//
// GW_INLINE bodies run where the call arrives, on any thread that waits: short, never blocking (WOULD_BLOCK), and
// without locks that another body holds while it blocks. One that takes more than 100 ms delays other calls, and is
// named in the log. GW_POOL bodies run on a thread of the pool and may call, wait and compute; their stack is as large
// as that of any thread of the program (8 MiB, unless ulimit -s sets another size), and a body that overflows it ends the
// worker.
//
// Objects have turns: methods of one object run one at a time, in order of arrival; while one blocks, others may run. An
// error in the object's own scope is an error of the method that made it; the object continues.
//
// Linking: a registration runs before main if its object file is part of the program. Of a static library the linker
// takes only the object files that something refers to, which a registration is not: link it as -Wl,--whole-archive
// libmine.a -Wl,--no-whole-archive, or name one of its functions by -Wl,-u,name. Otherwise callers get "w1 has no
// function my_add; is its object linked?"
//
// Ownership: arguments are borrowed until the body returns; gw_keep(self_scope, x) keeps them. An object's fields made
// in its own scope |own| live as long as the object; |self| begins zeroed. Methods that replace such a field keep |own|
// in the struct, and use it during their turn: gw_set(self->own, &self->weights, updated).
// Threads: a body has its scope for itself. Objects need no locks; variables that functions share need one.
#ifndef GRADWIRE_FUNCTION_H
#define GRADWIRE_FUNCTION_H

#include <gradwire/args.h>
#include <gradwire/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Where a body runs: where the call arrives, or on a thread of the pool.
typedef enum gw_placement { GW_INLINE = 1, GW_POOL } gw_placement;

// ---- Registering in the process's registry ------------------------------------------------------
// gw_rpc_init fails with the errors of these.

/// Registers a function; its body follows: GW_FUNCTION(name, where) or GW_FUNCTION(name, where, signature). The body
/// has gw_scope *s and const gw_args *a, and returns a gw_value.
#define GW_FUNCTION(...) GW_FUNCTION_FORM(__VA_ARGS__)

/// Registers the struct |type| as a class, with a semicolon: GW_CLASS(type, open), GW_CLASS(type, open, signature) or
/// GW_CLASS(type, open, close, signature).
///
/// open: void open(gw_scope *own, type *self, const gw_args *a). If it fails, every use of the reference gets its error,
/// and |close| does not run.
/// close: void close(type *self), on the pool, once no reference to the object is left; the handles of |own| are
/// released after it.
#define GW_CLASS(...) GW_CLASS_FORM(__VA_ARGS__)

/// Registers a method; its body follows: GW_METHOD(type, name, where) or GW_METHOD(type, name, where, signature). The
/// body has gw_scope *s, type *self and const gw_args *a, and returns a gw_value.
#define GW_METHOD(...) GW_METHOD_FORM(__VA_ARGS__)

/// Limits the callers of the function or class |id|, with a semicolon: GW_CALLERS(id, "trainer%d"). See
/// gw_registry_allow.
#define GW_CALLERS(id, names) GW_CALLERS_FORM(id, names)

// ---- Registries ---------------------------------------------------------------------------------
// The macros fill the process's registry before main. With a registry of their own two agents of one process, or a
// test, serve different functions: a program fills it, then gives it to gw_rpc_init, which freezes it.

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
    const char *signature;  ///< of open's arguments
} gw_class_options;

/// Opens a registry with the library's operators; it closes with |s|.
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

/// Limits the callers of the function or class |name|: others get UNSUPPORTED, and nothing runs. Methods are allowed by
/// the reference itself. Names are as strong as their proof: with a key that all workers have each may take any name;
/// certificates bind them (docs/SECURITY.md).
///
/// callers: "trainer%d", where %d stands for digits, or one name; this worker among them if it calls.
/// Errors: NOT_FOUND without such a function or class; INVALID for a malformed name.
GW_API void gw_registry_allow(gw_scope *s, gw_registry *r, const char *name, const char *callers);

#ifdef __cplusplus
}
#endif
#include <gradwire/detail/function.h>
#endif
