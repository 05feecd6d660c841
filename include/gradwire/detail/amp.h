// The short forms of gradwire/amp.h.
#ifndef GRADWIRE_DETAIL_AMP_H
#define GRADWIRE_DETAIL_AMP_H

#include <gradwire/amp.h>

#ifdef __cplusplus
inline gw_scaler *gw_scaler_open(gw_scope *s, gw_scaler_options options = {}) {
    return gw_scaler_open_with(s, options);
}
#else
#define gw_scaler_open(...) GW_NAMED_1(gw_scaler_open_with, gw_scaler_options, __VA_ARGS__, )
#define gw_scaler_options_defaults                                                                 \
    .init_scale = 65536, .growth_factor = 2, .backoff_factor = 0.5, .growth_interval = 2000,       \
    .enabled = true
#endif

#endif
