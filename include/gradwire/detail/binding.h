// The implementation of the macros of gradwire/binding.h, for handles of any type.
#ifndef GRADWIRE_DETAIL_BINDING_H
#define GRADWIRE_DETAIL_BINDING_H

#include <gradwire/binding.h>

#ifdef __cplusplus
template <class Handle> Handle *gw_retain_of(Handle *h) {
    return reinterpret_cast<Handle *>(gw_retain_handle(reinterpret_cast<gw_handle *>(h)));
}
template <class Handle> void gw_release_of(Handle *h) {
    gw_release_handle(reinterpret_cast<gw_handle *>(h));
}
#define GW_RETAIN(h) gw_retain_of(h)
#define GW_RELEASE(h) gw_release_of(h)
#else
#define GW_RETAIN(h) ((__typeof__(h))gw_retain_handle((gw_handle *)(h)))
#define GW_RELEASE(h) gw_release_handle((gw_handle *)(h))
#endif

#endif
