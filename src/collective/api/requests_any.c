// Functions of gradwire/collective.h that return lists and values, and barriers.
#include "collective/api/requests.h"

#include "base/value.h"

// ---- Lists --------------------------------------------------------------------------------------

static gw_future *gather_list(gw_scope *s, gw_group *g, gw_tensor *x, gw_collective_options options,
                              bool waits) {
    const char *what = "gw_all_gather_list";
    if (!request_is_usable(s, g, what, options.key)) return &future_poison;
    if (request_check_tensor(s, what, x) && waits && request_is_recorded(s, x))
        scope_fail(
            s, GW_INVALID,
            "%s: the tensor needs a gradient, which this collective does not support: gw_detach it",
            what);
    if (!gw_ok(s)) return request_refuse(s, g, options.key);
    run_request r = request_of(OPERATION_ALL_GATHER, CONTENT_TENSORS, -1, options);
    r.own = x;
    r.as_list = true;
    r.is_awaited = waits;
    return request_start(s, g, what, r, NULL);
}

gw_future *gw_all_gather_list_async_with(gw_scope *s, gw_group *g, gw_tensor *x,
                                         gw_collective_options options) {
    return gather_list(s, g, x, options, false);
}

gw_list *gw_all_gather_list_with(gw_scope *s, gw_group *g, gw_tensor *x,
                                 gw_collective_options options) {
    if (!request_may_wait(s, g, "gw_all_gather_list", options.key)) return gw_list_open(s);
    return gw_list_of(s, request_wait(s, gather_list(s, g, x, options, true)));
}

gw_future *gw_scatter_from_async_with(gw_scope *s, gw_group *g, const gw_list *list, int root,
                                      gw_collective_options options) {
    return request_scatter(s, g, "gw_scatter_from", CONTENT_TENSORS, list, root, options, NULL);
}

gw_tensor *gw_scatter_from_with(gw_scope *s, gw_group *g, const gw_list *list, int root,
                                gw_collective_options options) {
    const char *what = "gw_scatter_from";
    recording rec = { 0 };
    if (!request_may_wait(s, g, what, options.key)) return tensor_poison_of(s);
    return request_take(
        s, what, request_scatter(s, g, what, CONTENT_TENSORS, list, root, options, &rec), &rec);
}

// ---- Barriers -----------------------------------------------------------------------------------

static gw_future *barrier(gw_scope *s, gw_group *g, const char *what, gw_collective_options options,
                          bool waits) {
    if (!request_is_usable(s, g, what, options.key)) return &future_poison;
    run_request r = request_of(OPERATION_BARRIER, CONTENT_VALUES, -1, options);
    r.is_awaited = waits;
    return request_start(s, g, what, r, NULL);
}

gw_future *gw_barrier_async_with(gw_scope *s, gw_group *g, gw_collective_options options) {
    return barrier(s, g, "gw_barrier", options, false);
}

void gw_barrier_with(gw_scope *s, gw_group *g, gw_collective_options options) {
    if (request_may_wait(s, g, "gw_barrier", options.key))
        request_wait(s, barrier(s, g, "gw_barrier", options, true));
}

gw_future *gw_monitored_barrier_async_with(gw_scope *s, gw_group *g,
                                           gw_collective_options options) {
    return barrier(s, g, "gw_monitored_barrier", options, false);
}

void gw_monitored_barrier_with(gw_scope *s, gw_group *g, gw_collective_options options) {
    const char *what = "gw_monitored_barrier";
    if (request_may_wait(s, g, what, options.key))
        request_wait(s, barrier(s, g, what, options, true));
}

void request_compare(gw_scope *s, gw_group *g, const char *what, uint64_t shapes,
                     const char *detail, gw_collective_options options) {
    if (!request_may_wait(s, g, what, options.key) || !request_is_usable(s, g, what, options.key))
        return;
    run_request r = request_of(OPERATION_BARRIER, CONTENT_VALUES, -1, options);
    r.is_awaited = true;
    r.signature.shares = shapes;
    r.detail = detail;
    request_wait(s, request_start(s, g, what, r, NULL));
}

// ---- Values -------------------------------------------------------------------------------------

static gw_value collect_values(gw_scope *s, gw_group *g, const char *what, operation o, gw_value x,
                               int root, gw_collective_options options) {
    if (!request_may_wait(s, g, what, options.key)) return gw_none();
    return request_wait(s, request_values(s, g, what, o, x, root, options, true));
}

gw_list *gw_all_gather_value_with(gw_scope *s, gw_group *g, gw_value x,
                                  gw_collective_options options) {
    gw_value v = collect_values(s, g, "gw_all_gather_value", OPERATION_ALL_GATHER, x, -1, options);
    return s->error ? gw_list_open(s) : gw_list_of(s, v);
}

gw_future *gw_all_gather_value_async_with(gw_scope *s, gw_group *g, gw_value x,
                                          gw_collective_options options) {
    return request_values(s, g, "gw_all_gather_value", OPERATION_ALL_GATHER, x, -1, options, false);
}

gw_list *gw_gather_value_to_with(gw_scope *s, gw_group *g, gw_value x, int root,
                                 gw_collective_options options) {
    gw_value v = collect_values(s, g, "gw_gather_value_to", OPERATION_GATHER, x, root, options);
    return s->error ? gw_list_open(s) : gw_list_of(s, v);
}

gw_future *gw_gather_value_to_async_with(gw_scope *s, gw_group *g, gw_value x, int root,
                                         gw_collective_options options) {
    return request_values(s, g, "gw_gather_value_to", OPERATION_GATHER, x, root, options, false);
}

gw_value gw_broadcast_value_with(gw_scope *s, gw_group *g, gw_value x, int root,
                                 gw_collective_options options) {
    return collect_values(s, g, "gw_broadcast_value", OPERATION_BROADCAST, x, root, options);
}

gw_future *gw_broadcast_value_async_with(gw_scope *s, gw_group *g, gw_value x, int root,
                                         gw_collective_options options) {
    return request_values(s, g, "gw_broadcast_value", OPERATION_BROADCAST, x, root, options, false);
}

gw_value gw_scatter_value_from_with(gw_scope *s, gw_group *g, const gw_list *list, int root,
                                    gw_collective_options options) {
    const char *what = "gw_scatter_value_from";
    if (!request_may_wait(s, g, what, options.key)) return gw_none();
    return request_wait(s, request_scatter(s, g, what, CONTENT_VALUES, list, root, options, NULL));
}

gw_future *gw_scatter_value_from_async_with(gw_scope *s, gw_group *g, const gw_list *list, int root,
                                            gw_collective_options options) {
    return request_scatter(s, g, "gw_scatter_value_from", CONTENT_VALUES, list, root, options,
                           NULL);
}
