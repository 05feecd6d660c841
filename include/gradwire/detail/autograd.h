// The implementation of the macros of gradwire/autograd.h.
#ifndef GRADWIRE_DETAIL_AUTOGRAD_H
#define GRADWIRE_DETAIL_AUTOGRAD_H

#include <gradwire/autograd.h>

#ifndef __cplusplus
#define gw_backward_options_defaults .gradient = NULL, .fast = false
#endif

#endif
