// The implementation of the macros of gradwire/amp.h.
#ifndef GRADWIRE_DETAIL_AMP_H
#define GRADWIRE_DETAIL_AMP_H

#include <gradwire/amp.h>

#ifndef __cplusplus
#define gw_scaler_options_defaults                                                                 \
    .init_scale = 65536, .growth_factor = 2, .backoff_factor = 0.5, .growth_interval = 2000,       \
    .enabled = true
#endif

#endif
