// The short forms of gradwire/join.h.
#ifndef GRADWIRE_DETAIL_JOIN_H
#define GRADWIRE_DETAIL_JOIN_H

#include <gradwire/join.h>

#ifdef __cplusplus
inline gw_join *gw_join_open(gw_scope *s, const gw_joinable *joinables, int count,
                             gw_join_options options = {}) {
    return gw_join_open_with(s, joinables, count, options);
}
#else
#define gw_join_open(...) GW_NAMED_3(gw_join_open_with, gw_join_options, __VA_ARGS__, )
#define gw_join_options_defaults .active_divisor = false, .off = false
#endif

#endif
