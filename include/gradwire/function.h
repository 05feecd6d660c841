// Functions and classes: what other workers may call here.
//
// Only registered names can be called; no code ever travels. A registration stands in front of its
// body:
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
// The last argument is the signature: kinds separated by commas (bool int float string bytes tensor
// list map rref worker error), checked before anything runs. "?" behind a kind makes the argument
// optional, "any" takes every kind, "..." at the end takes any further arguments; an int is
// accepted where a float is wanted, and 0 or 1 where a bool is, since C's false and true are ints
// (a bool variable travels as a bool); "" takes none. gw_arg_count tells whether an optional one is
// there. Without a signature every call is accepted and the accessors check what they read.
//
// In C++ a body may also throw: the exception becomes the error of its scope, REMOTE with what(). It
// must not throw past a function of the library that it has called, as from a module's forward.
//
// A body runs in a scope of its own, with the caller's deadline: it fails by failing that scope
// (gw_fail, or any operation in it), and everything made in it is given back when it returns. A
// result may be a gw_future: the reply goes out when it resolves, and no thread is held.
//
// GW_INLINE bodies run where the call arrives, which may be any thread that is waiting for
// something just then: short, never waiting (WOULD_BLOCK), and without locks that another
// body holds while it waits. One that takes more than 100 ms keeps other calls waiting, and is named in the log;
// the worker stays alive to the others meanwhile, as it does whatever user code does. GW_POOL bodies run on a thread of the pool and may call, wait and compute; its
// stack is as large as that of any thread of the program (8 MiB, if ulimit -s says nothing else),
// and a body that overflows it ends the worker.
//
// Objects have turns: methods of one object run one at a time, in order of arrival; while one
// waits, others may run. An error in the object's own scope is an error of the method that made it,
// and the object goes on. |close| runs on the pool once no reference to the object is left; if
// |open| fails, every use of the reference gets its error, and |close| does not run.
//
// A registration runs before main if its object is part of the program. Of a static library the
// linker takes only the objects that something else refers to, which a registration is not: link it
// as -Wl,--whole-archive libmine.a -Wl,--no-whole-archive, or name one of its functions by -Wl,-u,name.
// Callers hear otherwise: "w1 has no function my_add; is its object linked?"
//
// Ownership: arguments are borrowed until the body returns; keep what shall stay
// (gw_keep(self_scope, x)). An object's fields made in its own scope |own| live as long as the
// object; |self| starts zeroed. Methods that replace such a field keep |own| in the struct, and use
// it during their turn: gw_set(self->own, &self->weights, updated).
// Threads: a body has its scope for itself. Objects need no locks; what functions share does.
#ifndef GRADWIRE_FUNCTION_H
#define GRADWIRE_FUNCTION_H

#include <gradwire/args.h>
#include <gradwire/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum gw_placement { GW_INLINE = 1, GW_POOL } gw_placement;

// ---- Registries ---------------------------------------------------------------------------------
// The macros fill the process's registry before main. A registry of one's own makes two agents of
// one process, or a test, serve different functions: fill it, then give it to gw_rpc_init. Frozen
// from then on.
typedef struct gw_registry gw_registry;
typedef gw_value (*gw_function_body)(gw_scope *s, const gw_args *a);
typedef gw_value (*gw_method_body)(gw_scope *s, void *self, const gw_args *a);

typedef struct gw_class_options {
    size_t size;  // of the object, zeroed before open
    void (*open)(gw_scope *own, void *self, const gw_args *a);
    void (*close)(gw_scope *own, void *self);
    const char *signature;  // of open's arguments
} gw_class_options;

GW_API gw_registry *gw_registry_open(gw_scope *s);  // with the library's operators; closed with |s|
GW_API void gw_registry_add_function(gw_scope *s, gw_registry *r, const char *name,
                                     gw_placement where, const char *signature,
                                     gw_function_body body);
GW_API void gw_registry_add_class(gw_scope *s, gw_registry *r, const char *name,
                                  gw_class_options options);
GW_API void gw_registry_add_method(gw_scope *s, gw_registry *r, const char *class_name,
                                   const char *name, gw_placement where, const char *signature,
                                   gw_method_body body);

// The function or class |name| of |r| may be called, or made objects of, by workers alone whose names
// fit |callers|, "trainer%d" or one name, this worker among them: others get UNSUPPORTED, and nothing
// runs. Of an object the reference itself is what allows its methods. Names are as good as what
// proves them: with a key that all have each may take any; certificates bind them (docs/SECURITY.md).
// NOT_FOUND without such a function; INVALID for what is no name.
GW_API void gw_registry_allow(gw_scope *s, gw_registry *r, const char *name, const char *callers);

// ---- Registering in the process's registry ------------------------------------------------------
// GW_FUNCTION(name, where) or GW_FUNCTION(name, where, signature), and the body behind it.
//
// GW_CLASS(type, open), GW_CLASS(type, open, signature) or GW_CLASS(type, open, close, signature),
// and a semicolon: registers the struct |type| under its name. A signature of NULL is none.
// |open| is void open(gw_scope *own, type *self, const gw_args *a), |close| is void close(type
// *self): the last chance before the memory goes; what |own| holds goes by itself.
//
// GW_METHOD(type, name, where) or GW_METHOD(type, name, where, signature), and the body behind it.
//
// GW_CALLERS(name, "trainer%d"), and a semicolon: who may call the function or class, as
// gw_registry_allow says. gw_rpc_init fails with its errors.

#define GW_FUNCTION(...) GW_FUNCTION_FORM(__VA_ARGS__)
#define GW_CLASS(...) GW_CLASS_FORM(__VA_ARGS__)
#define GW_METHOD(...) GW_METHOD_FORM(__VA_ARGS__)
#define GW_CALLERS(id, names) GW_CALLERS_FORM(id, names)

#ifdef __cplusplus
}
#endif
#include <gradwire/detail/function.h>
#endif
