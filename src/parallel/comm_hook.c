// What the hooks of this library exchange for a bucket.
#include "parallel/ddp.h"
#include "tensor/tensor.h"
#include <gradwire/ops.h>

gw_future *gw_hook_all_reduce(gw_scope *s, gw_bucket *b, void *context) {
    (void)context;
    return gw_all_reduce_async(s, b->ddp->group, gw_bucket_tensor(s, b), GW_AVG,
                               .origin = "gw_backward");
}

static gw_value widen_f32(gw_scope *s, gw_value v, void *context) {
    (void)context;
    return gw_value_of_tensor(gw_to_dtype(s, gw_tensor_of(s, v), GW_F32));
}

static gw_value widen_f64(gw_scope *s, gw_value v, void *context) {
    (void)context;
    return gw_value_of_tensor(gw_to_dtype(s, gw_tensor_of(s, v), GW_F64));
}

// Buckets of narrow numbers go as they are.
static gw_future *exchange_as(gw_scope *s, gw_bucket *b, gw_dtype dtype) {
    gw_tensor *x = gw_bucket_tensor(s, b);
    gw_dtype own = gw_ok(s) ? gw_dtype_of(x) : GW_F32;
    if (own != GW_F32 && own != GW_F64) return gw_hook_all_reduce(s, b, NULL);
    gw_future *f = gw_all_reduce_async(s, b->ddp->group, gw_to_dtype(s, x, dtype), GW_AVG,
                                       .origin = "gw_backward");
    return gw_then(s, f, own == GW_F64 ? widen_f64 : widen_f32, NULL);
}

gw_future *gw_hook_f16(gw_scope *s, gw_bucket *b, void *context) {
    (void)context;
    return exchange_as(s, b, GW_F16);
}

gw_future *gw_hook_bf16(gw_scope *s, gw_bucket *b, void *context) {
    (void)context;
    return exchange_as(s, b, GW_BF16);
}

gw_future *gw_hook_none(gw_scope *s, gw_bucket *b, void *context) {
    (void)context;
    gw_future *f = gw_future_open(s);
    gw_future_set_with(s, f, gw_value_of_tensor(gw_bucket_tensor(s, b)));
    return f;
}
