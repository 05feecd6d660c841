// The implementation of the macros of gradwire/function.h.
#ifndef GRADWIRE_DETAIL_FUNCTION_H
#define GRADWIRE_DETAIL_FUNCTION_H

#include <gradwire/function.h>

#ifdef __cplusplus
#include <exception>
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gw_registration {
    const char *class_name;  // the class of a method; NULL for a function or class
    const char *name;
    const char *signature;  // NULL: any arguments
    gw_placement where;
    gw_function_body function;  // exactly one of function, method and size is set
    gw_method_body method;
    gw_class_options class_options;
    const char *callers;  // set by GW_CALLERS, with |name| and no other field
    struct gw_registration *next;
} gw_registration;

GW_API void gw_register(gw_registration *r);  // called before main; |r| must be static

// Sets the function that runs the bodies of a C++ program. |catcher| calls |run|. If |run| throws an exception,
// |catcher| makes |s| fail. NULL: the library calls bodies directly. Call gw_set_catcher before gw_rpc_init.
typedef void gw_catcher(gw_scope *s, void (*run)(void *context), void *context);
GW_API void gw_set_catcher(gw_catcher *catcher);

#define GW_PICK_4(a, b, c, d, ...) d
#define GW_UNUSED __attribute__((unused))
#define GW_STATIC_REGISTRATION(id, ...)                                                            \
    __attribute__((constructor)) static void id##_register(void) {                                 \
        static gw_registration r = { __VA_ARGS__ };                                                \
        GW_CATCH_EXCEPTIONS();                                                                     \
        gw_register(&r);                                                                           \
    }

#define GW_FUNCTION_FORM(...) GW_PICK_4(__VA_ARGS__, GW_FUNCTION_3, GW_FUNCTION_2, 0)(__VA_ARGS__)
#define GW_FUNCTION_2(id, where) GW_FUNCTION_3(id, where, NULL)
#define GW_FUNCTION_3(id, where, signature)                                                        \
    static gw_value id##_function(gw_scope *s, const gw_args *a);                                  \
    GW_STATIC_REGISTRATION(gw_function_##id, NULL, #id, signature, where, id##_function, NULL,     \
                           { 0, NULL, NULL, NULL }, NULL, NULL)                                    \
    static gw_value id##_function(gw_scope *s GW_UNUSED, const gw_args *a GW_UNUSED)

#define GW_PICK_5(a, b, c, d, e, ...) e
#define GW_CLASS_FORM(...)                                                                         \
    GW_PICK_5(__VA_ARGS__, GW_CLASS_4, GW_CLASS_3, GW_CLASS_2, 0)(__VA_ARGS__)
#define GW_CLASS_2(type, open) GW_CLASS_3(type, open, NULL)
#define GW_CLASS_3(type, open, signature)                                                          \
    static void open(gw_scope *own, type *self, const gw_args *a);                                 \
    static void type##_open_any(gw_scope *own, void *self, const gw_args *a) {                     \
        open(own, (type *)self, a);                                                                \
    }                                                                                              \
    GW_STATIC_REGISTRATION(gw_class_##type, NULL, #type, signature, GW_POOL, NULL, NULL,           \
                           { sizeof(type), type##_open_any, NULL, signature }, NULL, NULL)         \
    static void open(gw_scope *own, type *self, const gw_args *a)
#define GW_CLASS_4(type, open, close, signature)                                                   \
    static void open(gw_scope *own, type *self, const gw_args *a);                                 \
    static void close(type *self);                                                                 \
    static void type##_open_any(gw_scope *own, void *self, const gw_args *a) {                     \
        open(own, (type *)self, a);                                                                \
    }                                                                                              \
    static void type##_close_any(gw_scope *own, void *self) {                                      \
        (void)own;                                                                                 \
        close((type *)self);                                                                       \
    }                                                                                              \
    GW_STATIC_REGISTRATION(gw_class_##type, NULL, #type, signature, GW_POOL, NULL, NULL,           \
                           { sizeof(type), type##_open_any, type##_close_any, signature }, NULL,   \
                           NULL)                                                                   \
    static void open(gw_scope *own, type *self, const gw_args *a)

#define GW_METHOD_FORM(...) GW_PICK_5(__VA_ARGS__, GW_METHOD_4, GW_METHOD_3, 0, 0)(__VA_ARGS__)
#define GW_METHOD_3(type, id, where) GW_METHOD_4(type, id, where, NULL)
#define GW_METHOD_4(type, id, where, signature)                                                    \
    static gw_value type##_##id##_method(gw_scope *s, type *self, const gw_args *a);               \
    static gw_value type##_##id##_any(gw_scope *s, void *self, const gw_args *a) {                 \
        return type##_##id##_method(s, (type *)self, a);                                           \
    }                                                                                              \
    GW_STATIC_REGISTRATION(gw_method_##type##_##id, #type, #id, signature, where, NULL,            \
                           type##_##id##_any, { 0, NULL, NULL, NULL }, NULL, NULL)                 \
    static gw_value type##_##id##_method(gw_scope *s GW_UNUSED, type *self GW_UNUSED,              \
                                         const gw_args *a GW_UNUSED)

#define GW_CALLERS_FORM(id, names)                                                                 \
    GW_STATIC_REGISTRATION(gw_callers_##id, NULL, #id, NULL, GW_POOL, NULL, NULL,                  \
                           { 0, NULL, NULL, NULL }, names, NULL)                                   \
    struct gw_registration

#ifdef __cplusplus
}

#ifdef __cpp_exceptions
inline void gw_catch(gw_scope *s, void (*run)(void *context), void *context) {
    try {
        run(context);
    } catch (const std::exception &e) {
        gw_fail(s, GW_REMOTE, "a C++ exception: %s", e.what());
    } catch (...) {
        gw_fail(s, GW_REMOTE, "a C++ exception that is no std::exception");
    }
}
#define GW_CATCH_EXCEPTIONS() gw_set_catcher(gw_catch)
#endif
#endif
#ifndef GW_CATCH_EXCEPTIONS
#define GW_CATCH_EXCEPTIONS() ((void)0)
#endif
#endif
