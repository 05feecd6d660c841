// The short forms of gradwire/ddp.h.
#ifndef GRADWIRE_DETAIL_DDP_H
#define GRADWIRE_DETAIL_DDP_H

#include <gradwire/ddp.h>

#ifdef __cplusplus
inline gw_ddp *gw_ddp_open(gw_scope *s, gw_module *model, gw_ddp_options options = {}) {
    return gw_ddp_open_with(s, model, options);
}
#else
#define gw_ddp_open(...)                                                                           \
    GW_NAMED_2(gw_ddp_open_with, gw_ddp_options, __VA_ARGS__, .origin = GW_ORIGIN, )
#define gw_ddp_options_defaults                                                                    \
    .bucket_bytes = 25 << 20, .first_bucket_bytes = 1 << 20, .origin = NULL
#endif

#endif
