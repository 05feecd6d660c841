// The machinery of gradwire/scope.h: handles of any type, and what marks a draw.
#ifndef GRADWIRE_DETAIL_SCOPE_H
#define GRADWIRE_DETAIL_SCOPE_H

#include <gradwire/scope.h>

// The compiler chooses the order of two draws in the arguments of one call, so that they give other
// numbers with another compiler. GW_DRAWS stands before what draws, and compilers warn, as they see
// one variable that may be written twice in no order. It is always 0, and never written.
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
