// The machinery of gradwire/parallel.h.
#ifndef GRADWIRE_DETAIL_PARALLEL_H
#define GRADWIRE_DETAIL_PARALLEL_H

#include <gradwire/parallel.h>

#ifndef __cplusplus
#define gw_shard_options_defaults .group = NULL, .gradients = GW_WHOLE
#define gw_optimizer_reform_options_defaults .saved = NULL
#endif

#endif
