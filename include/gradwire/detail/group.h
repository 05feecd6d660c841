// The implementation of the macros of gradwire/group.h.
#ifndef GRADWIRE_DETAIL_GROUP_H
#define GRADWIRE_DETAIL_GROUP_H

#include <gradwire/group.h>

#ifndef __cplusplus
#define gw_reform_options_defaults .min = 1, .grow = false, .timeout_ms = 0
#define gw_group_join_options_defaults .timeout_ms = 300000, .collective_timeout_ms = 300000
#define gw_group_open_options_defaults                                                             \
    .name = NULL, .timeout_ms = 300000, .backend = NULL, .any_order = false
#endif

#endif
