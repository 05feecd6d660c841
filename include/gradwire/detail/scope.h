// The machinery of gradwire/scope.h: handles of any type, and the mark of calls that draw random numbers.
#ifndef GRADWIRE_DETAIL_SCOPE_H
#define GRADWIRE_DETAIL_SCOPE_H

#include <gradwire/scope.h>

// If two arguments of one call draw random numbers, the compiler chooses the order of the draws, and two compilers may
// give different numbers. The macros of functions that draw begin with GW_DRAWS, an expression that seems to write a
// variable. If two arguments of one call have this expression, compilers warn that the variable is written twice in an
// unspecified order. The variable is never written: it is always 0.
#ifdef __cplusplus
extern "C" {
#endif
GW_API extern int gw_draws_in_unspecified_order;
#ifdef __cplusplus
}
#endif
#define GW_DRAWS (void)(gw_draws_in_unspecified_order && (gw_draws_in_unspecified_order = 1))

#ifdef __cplusplus
template <class Handle> Handle *gw_keep_of(gw_scope *s, Handle *h) {
    return reinterpret_cast<Handle *>(gw_keep_handle(s, reinterpret_cast<gw_handle *>(h)));
}
template <class Handle> void gw_set_of(gw_scope *s, Handle **slot, Handle *h) {
    *slot = reinterpret_cast<Handle *>(
        gw_set_handle(s, reinterpret_cast<gw_handle *>(*slot), reinterpret_cast<gw_handle *>(h)));
}
template <class Handle> void gw_drop_of(gw_scope *s, Handle *h) {
    gw_drop_handle(s, reinterpret_cast<gw_handle *>(h));
}
// The empty handle: gw_set(s, &slot, nullptr).
template <class Handle> void gw_set_of(gw_scope *s, Handle **slot, decltype(nullptr)) {
    gw_set_of(s, slot, static_cast<Handle *>(nullptr));
}
#define GW_KEEP(s, h) gw_keep_of((s), (h))
#define GW_SET(s, slot, h) gw_set_of((s), (slot), (h))
#define GW_DROP(s, h) gw_drop_of((s), (h))
#else
#define GW_KEEP(s, h) ((__typeof__(h))gw_keep_handle((s), (gw_handle *)(h)))
#define GW_SET(s, slot, h)                                                                         \
    (*(slot) = (__typeof__(*(slot)))gw_set_handle((s), (gw_handle *)*(slot),                       \
                                                  (gw_handle *)(1 ? (h) : *(slot))))
#define GW_DROP(s, h) gw_drop_handle((s), (gw_handle *)(h))
#endif

#endif
