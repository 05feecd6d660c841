// The implementation of the macros of gradwire/trace.h.
#ifndef GRADWIRE_DETAIL_TRACE_H
#define GRADWIRE_DETAIL_TRACE_H

#include <gradwire/trace.h>

#ifndef __cplusplus
#define gw_trace_options_defaults .levels = NULL, .seconds = 0
#endif

#endif
