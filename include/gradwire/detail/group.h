// The short forms of gradwire/group.h.
#ifndef GRADWIRE_DETAIL_GROUP_H
#define GRADWIRE_DETAIL_GROUP_H

#include <gradwire/group.h>

#ifdef __cplusplus
inline gw_group *gw_group_world(gw_scope *s, gw_group_open_options options = {}) {
    return gw_group_world_with(s, options);
}
inline gw_group *gw_group_open(gw_scope *s, const gw_worker *workers, int count,
                               gw_group_open_options options = {}) {
    return gw_group_open_with(s, workers, count, options);
}
inline gw_group *gw_group_of(gw_scope *s, gw_group *g, const int *ranks, int count,
                             gw_group_open_options options = {}) {
    return gw_group_of_with(s, g, ranks, count, options);
}
inline gw_group *gw_group_blocks(gw_scope *s, gw_group *g, int size,
                                 gw_group_open_options options = {}) {
    return gw_group_blocks_with(s, g, size, options);
}
inline gw_group *gw_group_split(gw_scope *s, gw_group *g, int color, int key,
                                gw_group_open_options options = {}) {
    return gw_group_split_with(s, g, color, key, options);
}
inline gw_group *gw_group_reform(gw_scope *s, gw_group *g, gw_reform_options options = {}) {
    return gw_group_reform_with(s, g, options);
}
inline gw_group *gw_group_join(gw_scope *s, const char *name, gw_group_join_options options = {}) {
    return gw_group_join_with(s, name, options);
}
#else
// clang-format off
#define gw_reform_options_defaults .min = 1, .grow = false, .timeout_ms = 0
#define gw_group_join_options_defaults .timeout_ms = 300000, .collective_timeout_ms = 300000

#define gw_group_open_options_defaults .name = NULL, .timeout_ms = 300000, .backend = NULL, .any_order = false
#define gw_group_world(...)  GW_NAMED_1(gw_group_world_with, gw_group_open_options, __VA_ARGS__, )
#define gw_group_open(...)   GW_NAMED_3(gw_group_open_with, gw_group_open_options, __VA_ARGS__, )
#define gw_group_of(...)     GW_NAMED_4(gw_group_of_with, gw_group_open_options, __VA_ARGS__, )
#define gw_group_blocks(...) GW_NAMED_3(gw_group_blocks_with, gw_group_open_options, __VA_ARGS__, )
#define gw_group_split(...)  GW_NAMED_4(gw_group_split_with, gw_group_open_options, __VA_ARGS__, )
#define gw_group_reform(...) GW_NAMED_2(gw_group_reform_with, gw_reform_options, __VA_ARGS__, )
#define gw_group_join(...)  GW_NAMED_2(gw_group_join_with, gw_group_join_options, __VA_ARGS__, )
// clang-format on
#endif

#endif
