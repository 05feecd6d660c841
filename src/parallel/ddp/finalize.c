// What the first passes agree on: an order for the buckets of later ones, and with static_graph the leaves that some
// member uses. REPL-2.
//
// A pass may succeed on some members and fail on others, which are not notified. So no member uses what a pass has
// exchanged before the next pass has exchanged whether each member has received it. A pass that fails on some members
// leaves all with the same passes.
#include "parallel/ddp/ddp.h"
#include <gradwire/collective.h>
#include <gradwire/ops.h>

#include <string.h>

bool finalize_open(gw_ddp *d) {
    d->agreed.order = gw_alloc(d->own, (size_t)d->gate.leaf_count * sizeof *d->agreed.order);
    return d->agreed.order;
}

layout *finalize_layout_on_loop(const gw_ddp *d) {
    return d->agreed.is_final && d->agreed.ordered ? d->agreed.ordered : d->layout;
}

static void finalize(gw_ddp *d) {
    d->agreed.is_final = true;
    d->stats.rebuilt = d->agreed.ordered != NULL;
    d->stats.buckets = finalize_layout_on_loop(d)->bucket_count;
    static_finalize_on_loop(d);
}

void finalize_reset_on_loop(gw_ddp *d) {
    layout_release(d->agreed.ordered);
    d->agreed = (ddp_agreed){ .order = d->agreed.order };
    d->stats.rebuilt = false;
    d->stats.buckets = d->layout->bucket_count;
    static_forget_on_loop(d);
}

static bool has_order(const gw_ddp *d) {
    return d->stats.world_size > 1 && d->layout->bucket_count > 1;
}

void finalize_begin_on_loop(ddp_pass *r) {
    const gw_ddp *d = r->ddp;
    r->finalizes = !d->agreed.is_final && (has_order(d) || d->options.static_graph);
    r->exchanges = r->finalizes && d->stats.world_size > 1;
    r->had_received = d->agreed.is_known;
}

// ---- Exchange ------------------------------------------------------------------------------------
// A member sends whether it had received, and rank 0 the order behind that.

// Others may have an order that rank 0 has sent in a pass that has failed here.
static void keep_order(const ddp_pass *r) {
    ddp_agreed *a = &r->ddp->agreed;
    env_enter(r->ddp->agent->env);
    if (!a->has_order)
        memcpy(a->order, r->order, (size_t)r->ddp->gate.leaf_count * sizeof *a->order);
    a->has_order = true;
    env_leave(r->ddp->agent->env);
}

gw_future *finalize_start(gw_scope *s, const ddp_pass *r) {
    const gw_ddp *d = r->ddp;
    bool sends_order = !d->stats.rank && has_order(d);
    int64_t count = 1 + (sends_order ? d->gate.leaf_count : 0);
    int32_t *numbers = gw_alloc(s, (size_t)count * sizeof *numbers);
    if (!numbers) return NULL;
    numbers[0] = r->had_received;
    if (sends_order) keep_order(r);
    for (int64_t i = 1; i < count; i++) numbers[i] = d->agreed.order[i - 1];
    gw_tensor *own = gw_from_with(s, GW_I32, numbers, (gw_shape){ 1, &count });
    return gw_ok(s) ? gw_all_gather_async_with(
                          s, d->group, own,
                          GW_OPTIONS(gw_collective_options, .origin = bucket_origin(s, r)))
                    : NULL;
}

static layout *layout_of_order(gw_scope *s, const gw_ddp *d, const int32_t *order) {
    int count = d->gate.leaf_count, *numbers = gw_alloc(s, 2 * (size_t)count * sizeof *numbers);
    if (!numbers) return NULL;
    int *seen = numbers + count;
    memset(seen, 0, (size_t)count * sizeof *seen);
    for (int i = 0; i < count; i++) {
        numbers[i] = order[i];
        if (order[i] < 0 || order[i] >= count || seen[order[i]]++) return NULL;
    }
    return layout_open(d, numbers);
}

bool finalize_read(gw_scope *s, const ddp_pass *r, gw_value contributed, layout **out_ordered) {
    const gw_ddp *d = r->ddp;
    gw_tensor *all = gw_tensor_of(s, contributed);
    int64_t order_count = has_order(d) ? d->gate.leaf_count : 0;
    *out_ordered = NULL;
    if (!gw_ok(s) || gw_dtype_of(all) != GW_I32 ||
        gw_numel(all) != d->stats.world_size + order_count)
        return false;
    const int32_t *numbers = gw_data(all);
    bool all_had_received = numbers[0];
    for (int m = 1; m < d->stats.world_size; m++) all_had_received &= numbers[order_count + m] != 0;
    if (order_count) *out_ordered = layout_of_order(s, d, numbers + 1);
    return all_had_received;
}

// ---- The end of a pass --------------------------------------------------------------------------

void finalize_done_on_loop(ddp_pass *r) {
    gw_ddp *d = r->ddp;
    ddp_agreed *a = &d->agreed;
    if (!r->finalizes || a->is_final) return;
    if (!a->ordered) {  // it is the same in each
        a->ordered = r->ordered;
        r->ordered = NULL;
    }
    if (has_order(d) && !a->ordered) return;
    a->is_known = true;
    static_learn_on_loop(r);
    if (r->all_had_received || !r->exchanges) finalize(d);
}

// Members on which it has succeeded have received whether all had. The others assume that all had.
void finalize_failed_on_loop(ddp_pass *r, const gw_error *error) {
    gw_ddp *d = r->ddp;
    if (error->status == GW_MISMATCH)
        finalize_reset_on_loop(d);
    else if (r->finalizes && r->had_received)
        finalize(d);
    else if (r->finalizes)
        static_forget_on_loop(d);
}
