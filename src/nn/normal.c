// torch.distributions.Normal.
#include <gradwire/nn.h>

#include "tensor/dtype.h"

#include <math.h>

static gw_normal poison_of(gw_scope *s) {
    return (gw_normal){ tensor_poison_of(s), tensor_poison_of(s) };
}

static bool is_positive(gw_scope *s, gw_tensor *x) {
    gw_scope *t = gw_scope_open(s);
    bool yes = gw_item_int(t, gw_all(t, gw_gt(t, x, 0))) != 0;
    gw_scope_close_up(t);
    return yes;
}

static bool is_float(gw_scope *s, const char *what, const gw_tensor *x) {
    if (dtype_is_float((gw_dtype)x->dtype)) return true;
    return scope_fail(s, GW_INVALID, "gw_normal: the %s is %s, but must be a float", what,
                      gw_dtype_name((gw_dtype)x->dtype));
}

gw_normal gw_normal_from(gw_scope *s, gw_tensor *loc, gw_tensor *scale) {
    if (!tensor_is_given(s, "gw_normal: the loc", loc) ||
        !tensor_is_given(s, "gw_normal: the scale", scale))
        return poison_of(s);
    if (!is_float(s, "loc", loc) || !is_float(s, "scale", scale)) return poison_of(s);
    bool positive = is_positive(s, scale);
    if (!gw_ok(s)) return poison_of(s);
    if (!positive) {
        scope_fail(s, GW_INVALID, "gw_normal: a scale is not above 0, but all must be above 0");
        return poison_of(s);
    }
    return (gw_normal){ loc, scale };
}

// Standard normal numbers in the shape and dtype of the result.
static gw_tensor *draw(gw_scope *s, gw_normal n) {
    gw_scope *t = scope_open_unrecorded(s);
    gw_tensor *noise = gw_keep(s, gw_randn_like(t, gw_add(t, n.loc, n.scale)));
    gw_scope_close_up(t);
    return gw_ok(s) ? noise : tensor_poison_of(s);
}

gw_tensor *(gw_normal_rsample)(gw_scope *s, gw_normal n) {
    if (!gw_ok(s)) return tensor_poison_of(s);
    return gw_add(s, n.loc, gw_mul(s, n.scale, draw(s, n)));
}

gw_tensor *(gw_normal_sample)(gw_scope *s, gw_normal n) {
    if (!gw_ok(s)) return tensor_poison_of(s);
    gw_scope *t = scope_open_unrecorded(s);
    gw_tensor *drawn = gw_keep(s, gw_normal_rsample(t, n));
    gw_scope_close_up(t);
    return gw_ok(s) ? drawn : tensor_poison_of(s);
}

gw_tensor *gw_normal_log_prob(gw_scope *s, gw_normal n, gw_tensor *value) {
    const double half_log_2pi = 0.91893853320467274178;
    gw_tensor *z = gw_div(s, gw_sub(s, value, n.loc), n.scale);
    gw_tensor *rest = gw_add(s, gw_log(s, n.scale), half_log_2pi);
    return gw_sub(s, gw_mul(s, gw_pow(s, z, 2), -0.5), rest);
}

gw_tensor *gw_normal_entropy(gw_scope *s, gw_normal n) {
    const double of_one = 1.41893853320467274178;  // (1 + ln 2 pi) / 2
    gw_tensor *each = gw_add(s, gw_log(s, n.scale), of_one);
    return gw_add(s, each, gw_zeros_like(s, n.loc));
}
