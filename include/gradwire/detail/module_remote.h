// What GW_MODULE makes, and the short forms of gradwire/module_remote.h.
#ifndef GRADWIRE_DETAIL_MODULE_REMOTE_H
#define GRADWIRE_DETAIL_MODULE_REMOTE_H

#include <gradwire/detail/function.h>
#include <gradwire/module_remote.h>
#include <gradwire/rpc.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gw_module_registration {
    const char *name, *signature;
    void (*open)(gw_scope *own, void *self, const gw_args *a);
    gw_registration parts[8];
} gw_module_registration;

GW_API void gw_module_register(gw_module_registration *r);
GW_API void gw_module_object_open(gw_scope *own, gw_module_object *self, gw_module *m);

#define GW_MODULE(...) GW_PICK_4(__VA_ARGS__, GW_MODULE_3, GW_MODULE_2, 0)(__VA_ARGS__)
#define GW_MODULE_2(type, open) GW_MODULE_3(type, open, NULL)
#define GW_MODULE_3(type, open_module, signature_text)                                             \
    typedef gw_module_object type;                                                                 \
    static gw_module *open_module(gw_scope *own, const gw_args *a);                                \
    static void type##_open_any(gw_scope *own, void *self, const gw_args *a) {                     \
        gw_module_object_open(own, (gw_module_object *)self, open_module(own, a));                 \
    }                                                                                              \
    __attribute__((constructor)) static void gw_module_##type##_register(void) {                   \
        static gw_module_registration r;                                                           \
        r.name = #type;                                                                            \
        r.signature = signature_text;                                                              \
        r.open = type##_open_any;                                                                  \
        gw_module_register(&r);                                                                    \
    }                                                                                              \
    typedef gw_module_object type

#ifdef __cplusplus
}
#endif

#ifdef __cplusplus
template <class Target, class... Args>
gw_module *gw_module_remote(gw_scope *s, Target to, const char *class_name, Args... args) {
    return gw_module_remote_with(s, gw_to(to), class_name, GW_ARGS(args...), gw_call_options());
}
template <class... Values>
gw_future *gw_module_call_value_async(gw_scope *s, gw_module *m, Values... in) {
    return gw_module_call_value_async_with(s, m, GW_ARGS(in...));
}
#else
#define gw_module_remote(s, to, ...)                                                               \
    GW_CALL(gw_module_remote_with, s, gw_to(to), GW_ORIGIN, __VA_ARGS__, )
#define gw_module_call_value_async(s, ...)                                                         \
    GW_MODULE_VALUES(gw_module_call_value_async_with, s, __VA_ARGS__, )
#endif

#endif
