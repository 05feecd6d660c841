// The implementation of the macros of gradwire/comm_hook.h.
#ifndef GRADWIRE_DETAIL_COMM_HOOK_H
#define GRADWIRE_DETAIL_COMM_HOOK_H

#include <gradwire/comm_hook.h>

#ifndef __cplusplus
#define gw_power_sgd_options_defaults                                                              \
    .rank = 1, .start = 1000, .min_rate = 2, .feedback = true, .warm_start = true, .seed = 0
#define gw_quantize_options_defaults .channel = 512
#endif

#endif
