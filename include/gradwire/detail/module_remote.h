// The implementation of the macros of gradwire/module_remote.h.
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

#define GW_MODULE_FORM(...) GW_PICK_4(__VA_ARGS__, GW_MODULE_3, GW_MODULE_2, 0)(__VA_ARGS__)
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

#endif
