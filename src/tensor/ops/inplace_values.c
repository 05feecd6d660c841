// Operators that write what they compute into their first operand: add_, fill_, normal_ and their like.
// See Note [Writing in place].
#include "tensor/ops/inplace.h"

#include <gradwire/ops.h>

// ---- Arithmetic ---------------------------------------------------------------------------------
#define ARITHMETIC(verb)                                                                           \
    gw_tensor *gw_##verb##_with_(gw_scope *s, gw_tensor *x, gw_value other) {                      \
        if (!inplace_may_write(s, #verb "_", x)) return tensor_poison_of(s);                       \
        return inplace_put(s, #verb "_", x, gw_##verb##_with(s, gw_value_of(x), other));           \
    }
ARITHMETIC(add)
ARITHMETIC(sub)
ARITHMETIC(mul)
ARITHMETIC(div)

// ---- Constants ----------------------------------------------------------------------------------
static gw_tensor *fill(gw_scope *s, const char *name, gw_tensor *x, gw_value value) {
    if (!inplace_may_write(s, name, x)) return tensor_poison_of(s);
    return inplace_put(s, name, x, gw_full_like(s, x, value));
}

gw_tensor *gw_fill_with_(gw_scope *s, gw_tensor *x, gw_value value) {
    return fill(s, "fill_", x, value);
}
gw_tensor *gw_zero_(gw_scope *s, gw_tensor *x) {
    return fill(s, "zero_", x, gw_value_of(0));
}

// ---- Random numbers -----------------------------------------------------------------------------
gw_tensor *(gw_random_)(gw_scope *s, gw_tensor *x, int64_t from, int64_t to) {
    if (!inplace_may_write(s, "random_", x)) return tensor_poison_of(s);
    gw_shape shape = { x->dims, x->sizes };
    return inplace_put(s, "random_", x, gw_randint_with(s, (gw_dtype)x->dtype, from, to, shape));
}

// drawn * scale + shift, which is drawn new.
static gw_tensor *put_scaled(gw_scope *s, const char *name, gw_tensor *x, gw_tensor *drawn,
                             double scale, double shift) {
    if (s->error) return drawn;
    gw_scope *t = scope_open_unrecorded(s);
    gw_tensor *result = gw_add_(t, gw_mul_(t, drawn, scale), shift);
    gw_scope_close_up(t);
    return result == drawn ? inplace_put(s, name, x, drawn) : tensor_poison_of(s);
}

gw_tensor *(gw_uniform_)(gw_scope *s, gw_tensor *x, double from, double to) {
    if (!inplace_may_write(s, "uniform_", x)) return tensor_poison_of(s);
    if (!(from <= to && to - from < __builtin_inf())) {
        scope_fail_of(s, "gw.uniform_", GW_INVALID,
                      "there are no numbers from %g to %g: the range must be finite and ascending",
                      from, to);
        return tensor_poison_of(s);
    }
    return put_scaled(s, "uniform_", x, gw_rand_like(s, x), to - from, from);
}

gw_tensor *(gw_normal_)(gw_scope *s, gw_tensor *x, double mean, double std) {
    if (!inplace_may_write(s, "normal_", x)) return tensor_poison_of(s);
    if (!(std >= 0)) {
        scope_fail_of(s, "gw.normal_", GW_INVALID,
                      "the standard deviation is %g, but must be 0 or more", std);
        return tensor_poison_of(s);
    }
    return put_scaled(s, "normal_", x, gw_randn_like(s, x), std, mean);
}

gw_tensor *(gw_bernoulli_)(gw_scope *s, gw_tensor *x, double p) {
    if (!inplace_may_write(s, "bernoulli_", x)) return tensor_poison_of(s);
    gw_tensor *chances = gw_full_with(s, GW_F64, gw_value_of(p), (gw_shape){ x->dims, x->sizes });
    gw_tensor *drawn = gw_bernoulli(s, chances);
    gw_drop(s, chances);
    // 0 and 1 are in every dtype.
    gw_tensor *result = gw_to_dtype(s, drawn, (gw_dtype)x->dtype);
    if (result != drawn) gw_drop(s, drawn);
    return inplace_put(s, "bernoulli_", x, result);
}
