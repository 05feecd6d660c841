// The short forms of gradwire/collective.h.
#ifndef GRADWIRE_DETAIL_COLLECTIVE_H
#define GRADWIRE_DETAIL_COLLECTIVE_H

#include <gradwire/collective.h>

#ifdef __cplusplus
#define GW_COLLECTIVE_FORM(result, name, parameters, ...)                                          \
    inline result name parameters { return name##_with(__VA_ARGS__, options); }
GW_COLLECTIVE_FORM(gw_tensor *, gw_all_reduce,
                   (gw_scope * s, gw_group *g, gw_tensor *x, gw_reduce_op op,
                    gw_collective_options options = {}),
                   s, g, x, op)
GW_COLLECTIVE_FORM(gw_future *, gw_all_reduce_async,
                   (gw_scope * s, gw_group *g, gw_tensor *x, gw_reduce_op op,
                    gw_collective_options options = {}),
                   s, g, x, op)
GW_COLLECTIVE_FORM(gw_tensor *, gw_reduce,
                   (gw_scope * s, gw_group *g, gw_tensor *x, gw_reduce_op op, int root,
                    gw_collective_options options = {}),
                   s, g, x, op, root)
GW_COLLECTIVE_FORM(gw_future *, gw_reduce_async,
                   (gw_scope * s, gw_group *g, gw_tensor *x, gw_reduce_op op, int root,
                    gw_collective_options options = {}),
                   s, g, x, op, root)
GW_COLLECTIVE_FORM(gw_tensor *, gw_broadcast,
                   (gw_scope * s, gw_group *g, gw_tensor *x, int root,
                    gw_collective_options options = {}),
                   s, g, x, root)
GW_COLLECTIVE_FORM(gw_future *, gw_broadcast_async,
                   (gw_scope * s, gw_group *g, gw_tensor *x, int root,
                    gw_collective_options options = {}),
                   s, g, x, root)
GW_COLLECTIVE_FORM(gw_tensor *, gw_all_gather,
                   (gw_scope * s, gw_group *g, gw_tensor *x, gw_collective_options options = {}), s,
                   g, x)
GW_COLLECTIVE_FORM(gw_future *, gw_all_gather_async,
                   (gw_scope * s, gw_group *g, gw_tensor *x, gw_collective_options options = {}), s,
                   g, x)
GW_COLLECTIVE_FORM(gw_list *, gw_all_gather_list,
                   (gw_scope * s, gw_group *g, gw_tensor *x, gw_collective_options options = {}), s,
                   g, x)
GW_COLLECTIVE_FORM(gw_future *, gw_all_gather_list_async,
                   (gw_scope * s, gw_group *g, gw_tensor *x, gw_collective_options options = {}), s,
                   g, x)
GW_COLLECTIVE_FORM(gw_tensor *, gw_gather_to,
                   (gw_scope * s, gw_group *g, gw_tensor *x, int root,
                    gw_collective_options options = {}),
                   s, g, x, root)
GW_COLLECTIVE_FORM(gw_future *, gw_gather_to_async,
                   (gw_scope * s, gw_group *g, gw_tensor *x, int root,
                    gw_collective_options options = {}),
                   s, g, x, root)
GW_COLLECTIVE_FORM(gw_tensor *, gw_scatter_from,
                   (gw_scope * s, gw_group *g, const gw_list *list, int root,
                    gw_collective_options options = {}),
                   s, g, list, root)
GW_COLLECTIVE_FORM(gw_future *, gw_scatter_from_async,
                   (gw_scope * s, gw_group *g, const gw_list *list, int root,
                    gw_collective_options options = {}),
                   s, g, list, root)
GW_COLLECTIVE_FORM(gw_tensor *, gw_reduce_scatter,
                   (gw_scope * s, gw_group *g, gw_tensor *x, gw_reduce_op op,
                    gw_collective_options options = {}),
                   s, g, x, op)
GW_COLLECTIVE_FORM(gw_future *, gw_reduce_scatter_async,
                   (gw_scope * s, gw_group *g, gw_tensor *x, gw_reduce_op op,
                    gw_collective_options options = {}),
                   s, g, x, op)
GW_COLLECTIVE_FORM(gw_tensor *, gw_all_to_all,
                   (gw_scope * s, gw_group *g, gw_tensor *x, gw_collective_options options = {}), s,
                   g, x)
GW_COLLECTIVE_FORM(gw_future *, gw_all_to_all_async,
                   (gw_scope * s, gw_group *g, gw_tensor *x, gw_collective_options options = {}), s,
                   g, x)
GW_COLLECTIVE_FORM(void, gw_barrier,
                   (gw_scope * s, gw_group *g, gw_collective_options options = {}), s, g)
GW_COLLECTIVE_FORM(gw_future *, gw_barrier_async,
                   (gw_scope * s, gw_group *g, gw_collective_options options = {}), s, g)
template <class Type>
gw_list *gw_all_gather_value(gw_scope *s, gw_group *g, Type x, gw_collective_options options = {}) {
    return gw_all_gather_value_with(s, g, gw_value_of(x), options);
}
template <class Type>
gw_future *gw_all_gather_value_async(gw_scope *s, gw_group *g, Type x,
                                     gw_collective_options options = {}) {
    return gw_all_gather_value_async_with(s, g, gw_value_of(x), options);
}
template <class Type>
gw_future *gw_gather_value_to_async(gw_scope *s, gw_group *g, Type x, int root,
                                    gw_collective_options options = {}) {
    return gw_gather_value_to_async_with(s, g, gw_value_of(x), root, options);
}
template <class Type>
gw_future *gw_broadcast_value_async(gw_scope *s, gw_group *g, Type x, int root,
                                    gw_collective_options options = {}) {
    return gw_broadcast_value_async_with(s, g, gw_value_of(x), root, options);
}
template <class Type>
gw_list *gw_gather_value_to(gw_scope *s, gw_group *g, Type x, int root,
                            gw_collective_options options = {}) {
    return gw_gather_value_to_with(s, g, gw_value_of(x), root, options);
}
template <class Type>
gw_value gw_broadcast_value(gw_scope *s, gw_group *g, Type x, int root,
                            gw_collective_options options = {}) {
    return gw_broadcast_value_with(s, g, gw_value_of(x), root, options);
}
GW_COLLECTIVE_FORM(gw_value, gw_scatter_value_from,
                   (gw_scope * s, gw_group *g, const gw_list *list, int root,
                    gw_collective_options options = {}),
                   s, g, list, root)
GW_COLLECTIVE_FORM(gw_future *, gw_scatter_value_from_async,
                   (gw_scope * s, gw_group *g, const gw_list *list, int root,
                    gw_collective_options options = {}),
                   s, g, list, root)
GW_COLLECTIVE_FORM(void, gw_monitored_barrier,
                   (gw_scope * s, gw_group *g, gw_collective_options options = {}), s, g)
GW_COLLECTIVE_FORM(gw_future *, gw_monitored_barrier_async,
                   (gw_scope * s, gw_group *g, gw_collective_options options = {}), s, g)
GW_COLLECTIVE_FORM(gw_list *, gw_all_reduce_coalesced,
                   (gw_scope * s, gw_group *g, gw_tensor *const *xs, int count, gw_reduce_op op,
                    gw_collective_options options = {}),
                   s, g, xs, count, op)
GW_COLLECTIVE_FORM(gw_future *, gw_all_reduce_coalesced_async,
                   (gw_scope * s, gw_group *g, gw_tensor *const *xs, int count, gw_reduce_op op,
                    gw_collective_options options = {}),
                   s, g, xs, count, op)
GW_COLLECTIVE_FORM(gw_list *, gw_broadcast_coalesced,
                   (gw_scope * s, gw_group *g, gw_tensor *const *xs, int count, int root,
                    gw_collective_options options = {}),
                   s, g, xs, count, root)
GW_COLLECTIVE_FORM(gw_future *, gw_broadcast_coalesced_async,
                   (gw_scope * s, gw_group *g, gw_tensor *const *xs, int count, int root,
                    gw_collective_options options = {}),
                   s, g, xs, count, root)
GW_COLLECTIVE_FORM(gw_list *, gw_all_gather_coalesced,
                   (gw_scope * s, gw_group *g, gw_tensor *const *xs, int count,
                    gw_collective_options options = {}),
                   s, g, xs, count)
GW_COLLECTIVE_FORM(gw_future *, gw_all_gather_coalesced_async,
                   (gw_scope * s, gw_group *g, gw_tensor *const *xs, int count,
                    gw_collective_options options = {}),
                   s, g, xs, count)
GW_COLLECTIVE_FORM(gw_list *, gw_gather_to_coalesced,
                   (gw_scope * s, gw_group *g, gw_tensor *const *xs, int count, int root,
                    gw_collective_options options = {}),
                   s, g, xs, count, root)
GW_COLLECTIVE_FORM(gw_future *, gw_gather_to_coalesced_async,
                   (gw_scope * s, gw_group *g, gw_tensor *const *xs, int count, int root,
                    gw_collective_options options = {}),
                   s, g, xs, count, root)
GW_COLLECTIVE_FORM(gw_list *, gw_reduce_scatter_coalesced,
                   (gw_scope * s, gw_group *g, gw_tensor *const *xs, int count, gw_reduce_op op,
                    gw_collective_options options = {}),
                   s, g, xs, count, op)
GW_COLLECTIVE_FORM(gw_future *, gw_reduce_scatter_coalesced_async,
                   (gw_scope * s, gw_group *g, gw_tensor *const *xs, int count, gw_reduce_op op,
                    gw_collective_options options = {}),
                   s, g, xs, count, op)
GW_COLLECTIVE_FORM(void, gw_send,
                   (gw_scope * s, gw_group *g, gw_tensor *x, int to,
                    gw_message_options options = {}),
                   s, g, x, to)
GW_COLLECTIVE_FORM(gw_future *, gw_isend,
                   (gw_scope * s, gw_group *g, gw_tensor *x, int to,
                    gw_message_options options = {}),
                   s, g, x, to)
GW_COLLECTIVE_FORM(gw_tensor *, gw_recv,
                   (gw_scope * s, gw_group *g, int from, gw_message_options options = {}), s, g,
                   from)
GW_COLLECTIVE_FORM(gw_future *, gw_irecv,
                   (gw_scope * s, gw_group *g, int from, gw_message_options options = {}), s, g,
                   from)
GW_COLLECTIVE_FORM(gw_tensor *, gw_recv_any,
                   (gw_scope * s, gw_group *g, int *out_from, gw_message_options options = {}), s,
                   g, out_from)
GW_COLLECTIVE_FORM(gw_future *, gw_irecv_any,
                   (gw_scope * s, gw_group *g, gw_message_options options = {}), s, g)
GW_COLLECTIVE_FORM(gw_list *, gw_batch,
                   (gw_scope * s, gw_group *g, const gw_message *letters, int count,
                    gw_message_options options = {}),
                   s, g, letters, count)
GW_COLLECTIVE_FORM(gw_future *, gw_batch_async,
                   (gw_scope * s, gw_group *g, const gw_message *letters, int count,
                    gw_message_options options = {}),
                   s, g, letters, count)
#undef GW_COLLECTIVE_FORM
#else
// clang-format off
#define gw_collective_options_defaults .key = 0, .timeout_ms = GW_GROUP_TIMEOUT, .factor = 1, .sizes = NULL, .into = NULL, .origin = NULL
#define gw_all_reduce(...) GW_NAMED_4(gw_all_reduce_with, gw_collective_options, __VA_ARGS__, .origin = GW_ORIGIN, )
#define gw_all_reduce_async(...) GW_NAMED_4(gw_all_reduce_async_with, gw_collective_options, __VA_ARGS__, .origin = GW_ORIGIN, )
#define gw_reduce(...) GW_NAMED_5(gw_reduce_with, gw_collective_options, __VA_ARGS__, .origin = GW_ORIGIN, )
#define gw_reduce_async(...) GW_NAMED_5(gw_reduce_async_with, gw_collective_options, __VA_ARGS__, .origin = GW_ORIGIN, )
#define gw_broadcast(...) GW_NAMED_4(gw_broadcast_with, gw_collective_options, __VA_ARGS__, .origin = GW_ORIGIN, )
#define gw_broadcast_async(...) GW_NAMED_4(gw_broadcast_async_with, gw_collective_options, __VA_ARGS__, .origin = GW_ORIGIN, )
#define gw_all_gather(...) GW_NAMED_3(gw_all_gather_with, gw_collective_options, __VA_ARGS__, .origin = GW_ORIGIN, )
#define gw_all_gather_async(...) GW_NAMED_3(gw_all_gather_async_with, gw_collective_options, __VA_ARGS__, .origin = GW_ORIGIN, )
#define gw_all_gather_list(...) GW_NAMED_3(gw_all_gather_list_with, gw_collective_options, __VA_ARGS__, .origin = GW_ORIGIN, )
#define gw_all_gather_list_async(...) GW_NAMED_3(gw_all_gather_list_async_with, gw_collective_options, __VA_ARGS__, .origin = GW_ORIGIN, )
#define gw_gather_to(...) GW_NAMED_4(gw_gather_to_with, gw_collective_options, __VA_ARGS__, .origin = GW_ORIGIN, )
#define gw_gather_to_async(...) GW_NAMED_4(gw_gather_to_async_with, gw_collective_options, __VA_ARGS__, .origin = GW_ORIGIN, )
#define gw_scatter_from(...) GW_NAMED_4(gw_scatter_from_with, gw_collective_options, __VA_ARGS__, .origin = GW_ORIGIN, )
#define gw_scatter_from_async(...) GW_NAMED_4(gw_scatter_from_async_with, gw_collective_options, __VA_ARGS__, .origin = GW_ORIGIN, )
#define gw_reduce_scatter(...) GW_NAMED_4(gw_reduce_scatter_with, gw_collective_options, __VA_ARGS__, .origin = GW_ORIGIN, )
#define gw_reduce_scatter_async(...) GW_NAMED_4(gw_reduce_scatter_async_with, gw_collective_options, __VA_ARGS__, .origin = GW_ORIGIN, )
#define gw_all_to_all(...) GW_NAMED_3(gw_all_to_all_with, gw_collective_options, __VA_ARGS__, .origin = GW_ORIGIN, )
#define gw_all_to_all_async(...) GW_NAMED_3(gw_all_to_all_async_with, gw_collective_options, __VA_ARGS__, .origin = GW_ORIGIN, )
#define gw_barrier(...) GW_NAMED_2(gw_barrier_with, gw_collective_options, __VA_ARGS__, .origin = GW_ORIGIN, )
#define gw_barrier_async(...) GW_NAMED_2(gw_barrier_async_with, gw_collective_options, __VA_ARGS__, .origin = GW_ORIGIN, )
#define gw_scatter_value_from(...) GW_NAMED_4(gw_scatter_value_from_with, gw_collective_options, __VA_ARGS__, .origin = GW_ORIGIN, )
#define gw_scatter_value_from_async(...) GW_NAMED_4(gw_scatter_value_from_async_with, gw_collective_options, __VA_ARGS__, .origin = GW_ORIGIN, )
#define gw_all_gather_value(...) GW_COLLECTIVE_VALUE_3(gw_all_gather_value_with, __VA_ARGS__, .origin = GW_ORIGIN, )
#define gw_all_gather_value_async(...) GW_COLLECTIVE_VALUE_3(gw_all_gather_value_async_with, __VA_ARGS__, .origin = GW_ORIGIN, )
#define gw_gather_value_to(...) GW_COLLECTIVE_VALUE_4(gw_gather_value_to_with, __VA_ARGS__, .origin = GW_ORIGIN, )
#define gw_gather_value_to_async(...) GW_COLLECTIVE_VALUE_4(gw_gather_value_to_async_with, __VA_ARGS__, .origin = GW_ORIGIN, )
#define gw_broadcast_value(...) GW_COLLECTIVE_VALUE_4(gw_broadcast_value_with, __VA_ARGS__, .origin = GW_ORIGIN, )
#define gw_broadcast_value_async(...) GW_COLLECTIVE_VALUE_4(gw_broadcast_value_async_with, __VA_ARGS__, .origin = GW_ORIGIN, )
#define GW_COLLECTIVE_VALUE_3(f, s, g, x, ...) \
    GW_NAMED_3(f, gw_collective_options, s, g, gw_value_of(x), __VA_ARGS__)
#define GW_COLLECTIVE_VALUE_4(f, s, g, x, root, ...) \
    GW_NAMED_4(f, gw_collective_options, s, g, gw_value_of(x), root, __VA_ARGS__)
#define gw_monitored_barrier(...) GW_NAMED_2(gw_monitored_barrier_with, gw_collective_options, __VA_ARGS__, .origin = GW_ORIGIN, )
#define gw_monitored_barrier_async(...) GW_NAMED_2(gw_monitored_barrier_async_with, gw_collective_options, __VA_ARGS__, .origin = GW_ORIGIN, )
#define gw_all_reduce_coalesced(...) GW_NAMED_5(gw_all_reduce_coalesced_with, gw_collective_options, __VA_ARGS__, .origin = GW_ORIGIN, )
#define gw_all_reduce_coalesced_async(...) GW_NAMED_5(gw_all_reduce_coalesced_async_with, gw_collective_options, __VA_ARGS__, .origin = GW_ORIGIN, )
#define gw_broadcast_coalesced(...) GW_NAMED_5(gw_broadcast_coalesced_with, gw_collective_options, __VA_ARGS__, .origin = GW_ORIGIN, )
#define gw_broadcast_coalesced_async(...) GW_NAMED_5(gw_broadcast_coalesced_async_with, gw_collective_options, __VA_ARGS__, .origin = GW_ORIGIN, )
#define gw_all_gather_coalesced(...) GW_NAMED_4(gw_all_gather_coalesced_with, gw_collective_options, __VA_ARGS__, .origin = GW_ORIGIN, )
#define gw_all_gather_coalesced_async(...) GW_NAMED_4(gw_all_gather_coalesced_async_with, gw_collective_options, __VA_ARGS__, .origin = GW_ORIGIN, )
#define gw_gather_to_coalesced(...) GW_NAMED_5(gw_gather_to_coalesced_with, gw_collective_options, __VA_ARGS__, .origin = GW_ORIGIN, )
#define gw_gather_to_coalesced_async(...) GW_NAMED_5(gw_gather_to_coalesced_async_with, gw_collective_options, __VA_ARGS__, .origin = GW_ORIGIN, )
#define gw_reduce_scatter_coalesced(...) GW_NAMED_5(gw_reduce_scatter_coalesced_with, gw_collective_options, __VA_ARGS__, .origin = GW_ORIGIN, )
#define gw_reduce_scatter_coalesced_async(...) GW_NAMED_5(gw_reduce_scatter_coalesced_async_with, gw_collective_options, __VA_ARGS__, .origin = GW_ORIGIN, )
#define gw_message_options_defaults .tag = 0, .timeout_ms = GW_GROUP_TIMEOUT, .origin = NULL
#define gw_send(...) GW_NAMED_4(gw_send_with, gw_message_options, __VA_ARGS__, .origin = GW_ORIGIN, )
#define gw_isend(...) GW_NAMED_4(gw_isend_with, gw_message_options, __VA_ARGS__, .origin = GW_ORIGIN, )
#define gw_recv(...) GW_NAMED_3(gw_recv_with, gw_message_options, __VA_ARGS__, .origin = GW_ORIGIN, )
#define gw_irecv(...) GW_NAMED_3(gw_irecv_with, gw_message_options, __VA_ARGS__, .origin = GW_ORIGIN, )
#define gw_recv_any(...) GW_NAMED_3(gw_recv_any_with, gw_message_options, __VA_ARGS__, .origin = GW_ORIGIN, )
#define gw_irecv_any(...) GW_NAMED_2(gw_irecv_any_with, gw_message_options, __VA_ARGS__, .origin = GW_ORIGIN, )
#define gw_batch(...) GW_NAMED_4(gw_batch_with, gw_message_options, __VA_ARGS__, .origin = GW_ORIGIN, )
#define gw_batch_async(...) GW_NAMED_4(gw_batch_async_with, gw_message_options, __VA_ARGS__, .origin = GW_ORIGIN, )
// clang-format on
#endif

#endif
