// Exchange of a bucket by the hooks of this library.
#include "base/scope.h"
#include "parallel/ddp/ddp.h"
#include "tensor/tensor.h"
#include <gradwire/comm_hook.h>
#include <gradwire/ops.h>

gw_future *gw_hook_all_reduce(gw_scope *s, gw_bucket *b, void *context) {
    (void)context;
    return bucket_start_part(s, b, gw_bucket_tensor(s, b));
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
static gw_future *exchange_as(gw_scope *s, gw_bucket *b, gw_dtype dtype, gw_comm_hook *hook,
                              void *context) {
    gw_tensor *x = gw_bucket_tensor(s, b);
    gw_dtype own = gw_ok(s) ? gw_dtype_of(x) : GW_F32;
    if (own != GW_F32 && own != GW_F64) return hook(s, b, context);
    gw_bucket narrow = *b;
    narrow.flat = gw_to_dtype(s, x, dtype);
    return gw_then(s, hook(s, &narrow, context), own == GW_F64 ? widen_f64 : widen_f32, NULL);
}

gw_future *gw_hook_f16(gw_scope *s, gw_bucket *b, void *context) {
    return exchange_as(s, b, GW_F16, gw_hook_all_reduce, context);
}

gw_future *gw_hook_bf16(gw_scope *s, gw_bucket *b, void *context) {
    return exchange_as(s, b, GW_BF16, gw_hook_all_reduce, context);
}

static gw_future *go_around(gw_scope *s, gw_bucket *b, const gw_hook_around *a, gw_dtype dtype) {
    if (gw_ok(s) && (!a || !a->hook))
        scope_fail(s, GW_INVALID, "the hook inside the compressing hook is NULL");
    if (!gw_ok(s)) return gw_hook_all_reduce(s, b, NULL);
    return exchange_as(s, b, dtype, a->hook, a->context);
}

gw_future *gw_hook_f16_around(gw_scope *s, gw_bucket *b, void *around) {
    return go_around(s, b, around, GW_F16);
}

gw_future *gw_hook_bf16_around(gw_scope *s, gw_bucket *b, void *around) {
    return go_around(s, b, around, GW_BF16);
}

gw_future *gw_hook_none(gw_scope *s, gw_bucket *b, void *context) {
    (void)context;
    gw_future *f = gw_future_open(s);
    gw_future_set_with(s, f, gw_value_of_tensor(gw_bucket_tensor(s, b)));
    return f;
}
