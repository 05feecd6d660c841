// Functions of gradwire/collective.h that return one tensor.
#include "collective/api/requests.h"

// The forms that wait: |...| starts the run with |rec|.
#define WAIT_FOR_TENSOR(what, ...)                                                                 \
    recording rec = { 0 };                                                                         \
    return request_may_wait(s, g, what, options.key) ? request_take(s, what, __VA_ARGS__, &rec)    \
                                                     : tensor_poison_of(s)

// ---- Sums ---------------------------------------------------------------------------------------

gw_future *gw_all_reduce_async_with(gw_scope *s, gw_group *g, gw_tensor *x, gw_reduce_op op,
                                    gw_collective_options options) {
    return request_reduce(s, g, "gw_all_reduce", OPERATION_ALL_REDUCE, x, op, -1, options, NULL);
}

gw_tensor *gw_all_reduce_with(gw_scope *s, gw_group *g, gw_tensor *x, gw_reduce_op op,
                              gw_collective_options options) {
    if (large_sum_is_one(s, g, x, op, &options) &&
        request_may_wait(s, g, "gw_all_reduce", options.key))
        return large_sum(s, g, x, op, options);
    WAIT_FOR_TENSOR("gw_all_reduce", request_reduce(s, g, "gw_all_reduce", OPERATION_ALL_REDUCE, x,
                                                    op, -1, options, &rec));
}

gw_future *gw_reduce_async_with(gw_scope *s, gw_group *g, gw_tensor *x, gw_reduce_op op, int root,
                                gw_collective_options options) {
    return request_reduce(s, g, "gw_reduce", OPERATION_REDUCE, x, op, root, options, NULL);
}

gw_tensor *gw_reduce_with(gw_scope *s, gw_group *g, gw_tensor *x, gw_reduce_op op, int root,
                          gw_collective_options options) {
    WAIT_FOR_TENSOR("gw_reduce", request_reduce(s, g, "gw_reduce", OPERATION_REDUCE, x, op, root,
                                                options, &rec));
}

gw_future *gw_reduce_scatter_async_with(gw_scope *s, gw_group *g, gw_tensor *x, gw_reduce_op op,
                                        gw_collective_options options) {
    return request_reduce(s, g, "gw_reduce_scatter", OPERATION_REDUCE_SCATTER, x, op, -1, options,
                          NULL);
}

gw_tensor *gw_reduce_scatter_with(gw_scope *s, gw_group *g, gw_tensor *x, gw_reduce_op op,
                                  gw_collective_options options) {
    WAIT_FOR_TENSOR("gw_reduce_scatter",
                    request_reduce(s, g, "gw_reduce_scatter", OPERATION_REDUCE_SCATTER, x, op, -1,
                                   options, &rec));
}

// ---- Copies -------------------------------------------------------------------------------------

gw_future *gw_broadcast_async_with(gw_scope *s, gw_group *g, gw_tensor *x, int root,
                                   gw_collective_options options) {
    return request_broadcast(s, g, "gw_broadcast", x, root, options, NULL);
}

gw_tensor *gw_broadcast_with(gw_scope *s, gw_group *g, gw_tensor *x, int root,
                             gw_collective_options options) {
    WAIT_FOR_TENSOR("gw_broadcast",
                    request_broadcast(s, g, "gw_broadcast", x, root, options, &rec));
}

gw_future *gw_all_gather_async_with(gw_scope *s, gw_group *g, gw_tensor *x,
                                    gw_collective_options options) {
    return request_gather(s, g, "gw_all_gather", OPERATION_ALL_GATHER, x, -1, options, NULL);
}

gw_tensor *gw_all_gather_with(gw_scope *s, gw_group *g, gw_tensor *x,
                              gw_collective_options options) {
    WAIT_FOR_TENSOR("gw_all_gather", request_gather(s, g, "gw_all_gather", OPERATION_ALL_GATHER, x,
                                                    -1, options, &rec));
}

gw_future *gw_gather_to_async_with(gw_scope *s, gw_group *g, gw_tensor *x, int root,
                                   gw_collective_options options) {
    return request_gather(s, g, "gw_gather_to", OPERATION_GATHER, x, root, options, NULL);
}

gw_tensor *gw_gather_to_with(gw_scope *s, gw_group *g, gw_tensor *x, int root,
                             gw_collective_options options) {
    WAIT_FOR_TENSOR("gw_gather_to",
                    request_gather(s, g, "gw_gather_to", OPERATION_GATHER, x, root, options, &rec));
}

gw_future *gw_all_to_all_async_with(gw_scope *s, gw_group *g, gw_tensor *x,
                                    gw_collective_options options) {
    return request_exchange(s, g, x, options, NULL);
}

gw_tensor *gw_all_to_all_with(gw_scope *s, gw_group *g, gw_tensor *x,
                              gw_collective_options options) {
    WAIT_FOR_TENSOR("gw_all_to_all", request_exchange(s, g, x, options, &rec));
}
