// The implementation of the macros of gradwire/ddp.h.
#ifndef GRADWIRE_DETAIL_DDP_H
#define GRADWIRE_DETAIL_DDP_H

#include <gradwire/ddp.h>

#ifndef __cplusplus
#define gw_ddp_options_defaults                                                                    \
    .bucket_bytes = 25 << 20, .first_bucket_bytes = 1 << 20, .origin = NULL
#endif

#endif
