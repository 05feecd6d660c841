// The implementation of the macros of gradwire/elastic.h.
#ifndef GRADWIRE_DETAIL_ELASTIC_H
#define GRADWIRE_DETAIL_ELASTIC_H

#include <gradwire/elastic.h>

#ifndef __cplusplus
#define gw_elastic_options_defaults                                                                \
    .every_ms = 600000, .keep = 3, .meet_every = 100, .timeout_ms = 300000
#define gw_elastic_join_options_defaults .timeout_ms = 300000
#endif

#endif
