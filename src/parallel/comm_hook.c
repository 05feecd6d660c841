// Exchange of a bucket by the hooks of this library.
#include "base/scope.h"
#include "parallel/power_sgd.h"
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
    if (gw_ok(s) && (!a || !a->hook)) scope_fail(s, GW_INVALID, "a hook around none");
    if (!gw_ok(s)) return gw_hook_all_reduce(s, b, NULL);
    return exchange_as(s, b, dtype, a->hook, a->context);
}

gw_future *gw_hook_f16_around(gw_scope *s, gw_bucket *b, void *around) {
    return go_around(s, b, around, GW_F16);
}

gw_future *gw_hook_bf16_around(gw_scope *s, gw_bucket *b, void *around) {
    return go_around(s, b, around, GW_BF16);
}

const char *hook_keeps_whole(gw_comm_hook *hook, const void *context) {
    const gw_hook_around *around = context;
    if (hook == gw_hook_power_sgd || hook == gw_hook_batched_power_sgd)
        return "PowerSGD remembers on each member what all gradients have lost";
    if (hook == gw_hook_local_sgd) return "those of local SGD are each member's own";
    bool is_around = hook == gw_hook_f16_around || hook == gw_hook_bf16_around;
    return is_around && around ? hook_keeps_whole(around->hook, around->context) : NULL;
}

bool hook_claim(gw_comm_hook *hook, void *context, const gw_ddp *d) {
    gw_hook_around *around = context;
    if (!context) return true;
    if (hook == gw_hook_power_sgd || hook == gw_hook_batched_power_sgd)
        return power_sgd_claim(context, d);
    bool is_around = hook == gw_hook_f16_around || hook == gw_hook_bf16_around;
    return !is_around || hook_claim(around->hook, around->context, d);
}

hook_state hook_state_of(gw_comm_hook *hook, void *context) {
    if (hook == gw_hook_power_sgd || hook == gw_hook_batched_power_sgd)
        return (hook_state){ power_sgd_save, power_sgd_load, context };
    const gw_hook_around *around = context;
    if ((hook == gw_hook_f16_around || hook == gw_hook_bf16_around) && around)
        return hook_state_of(around->hook, around->context);
    return (hook_state){ 0 };
}

gw_future *gw_hook_none(gw_scope *s, gw_bucket *b, void *context) {
    (void)context;
    gw_future *f = gw_future_open(s);
    gw_future_set_with(s, f, gw_value_of_tensor(gw_bucket_tensor(s, b)));
    return f;
}
