// The implementation of the macros of gradwire/join.h.
#ifndef GRADWIRE_DETAIL_JOIN_H
#define GRADWIRE_DETAIL_JOIN_H

#include <gradwire/join.h>

#ifndef __cplusplus
#define gw_join_options_defaults .active_divisor = false, .off = false
#endif

#endif
