// The implementation of the macros of gradwire/checkpoint.h.
#ifndef GRADWIRE_DETAIL_CHECKPOINT_H
#define GRADWIRE_DETAIL_CHECKPOINT_H

#include <gradwire/checkpoint.h>

#ifndef __cplusplus
#define gw_checkpoint_options_defaults .step = -1, .keep = 0, .bytes_per_second = 0, .own = NULL
#define gw_checkpoint_restore_options_defaults .own = NULL
#endif

#endif
