// The implementation of the macros of gradwire/data.h.
#ifndef GRADWIRE_DETAIL_DATA_H
#define GRADWIRE_DETAIL_DATA_H

#include <gradwire/data.h>

#ifdef __cplusplus
template <class... Tensors>
gw_dataset *gw_tensor_dataset_of(gw_scope *s, const char *name, Tensors... tensors) {
    gw_tensor *const all[] = { tensors... };
    return gw_tensor_dataset_with(s, name, all, static_cast<int>(sizeof...(Tensors)));
}
#define GW_TENSOR_DATASET(s, name, ...) gw_tensor_dataset_of((s), (name), __VA_ARGS__)
#else
#define GW_TENSOR_DATASET(s, name, ...)                                                            \
    gw_tensor_dataset_with((s), (name), (gw_tensor *[]){ __VA_ARGS__ },                            \
                           (int)(sizeof((gw_tensor *[]){ __VA_ARGS__ }) / sizeof(gw_tensor *)))
#define gw_distributed_sampler_options_defaults                                                    \
    .num_replicas = GW_NOT_GIVEN, .rank = GW_NOT_GIVEN, .shuffle = true, .seed = 0
#define gw_data_loader_options_defaults .batch_size = 1, .prefetch_factor = 2, .seed = GW_NOT_GIVEN
#endif

#endif
