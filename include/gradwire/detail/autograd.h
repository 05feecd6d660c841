// The short forms of gradwire/autograd.h.
#ifndef GRADWIRE_DETAIL_AUTOGRAD_H
#define GRADWIRE_DETAIL_AUTOGRAD_H

#include <gradwire/autograd.h>

#ifdef __cplusplus
inline void gw_backward(gw_scope *s, gw_tensor *loss, gw_backward_options options = {}) {
    gw_backward_with(s, loss, options);
}
inline void gw_backward_roots(gw_scope *s, gw_tensor *const *roots, int count,
                              gw_backward_options options = {}) {
    gw_backward_roots_with(s, roots, count, options);
}
#else
#define gw_backward(...) GW_NAMED_2(gw_backward_with, gw_backward_options, __VA_ARGS__, )
#define gw_backward_roots(...)                                                                     \
    GW_NAMED_3(gw_backward_roots_with, gw_backward_options, __VA_ARGS__, )
#define gw_backward_options_defaults .gradient = NULL, .fast = false
#endif

#endif
