// The short forms of gradwire/data.h.
#ifndef GRADWIRE_DETAIL_DATA_H
#define GRADWIRE_DETAIL_DATA_H

#include <gradwire/data.h>

#ifdef __cplusplus
template <class... Tensors>
gw_dataset *gw_tensor_dataset(gw_scope *s, const char *name, Tensors... tensors) {
    gw_tensor *const all[] = { tensors... };
    return gw_tensor_dataset_with(s, name, all, static_cast<int>(sizeof...(Tensors)));
}
inline gw_sampler *gw_distributed_sampler(gw_scope *s, gw_dataset *d,
                                          gw_distributed_sampler_options options = {}) {
    return gw_distributed_sampler_with(s, d, options);
}
inline gw_data_loader *gw_data_loader_open(gw_scope *s, gw_dataset *d,
                                           gw_data_loader_options options = {}) {
    return gw_data_loader_open_with(s, d, options);
}
#else
#define gw_tensor_dataset(s, name, ...)                                                            \
    gw_tensor_dataset_with((s), (name), (gw_tensor *[]){ __VA_ARGS__ },                            \
                           (int)(sizeof((gw_tensor *[]){ __VA_ARGS__ }) / sizeof(gw_tensor *)))
#define gw_distributed_sampler(...)                                                                \
    GW_NAMED_2(gw_distributed_sampler_with, gw_distributed_sampler_options, __VA_ARGS__, )
#define gw_data_loader_open(...)                                                                   \
    GW_NAMED_2(gw_data_loader_open_with, gw_data_loader_options, __VA_ARGS__, )

#define gw_distributed_sampler_options_defaults                                                    \
    .num_replicas = GW_NOT_GIVEN, .rank = GW_NOT_GIVEN, .shuffle = true, .seed = 0
#define gw_data_loader_options_defaults .batch_size = 1, .prefetch_factor = 2, .seed = GW_NOT_GIVEN
#endif

#endif
