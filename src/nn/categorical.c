// torch.distributions.Categorical.
#include <gradwire/nn.h>

#include "tensor/ops/op.h"

#include <float.h>
#include <math.h>
#include <string.h>

static gw_categorical check(gw_scope *s, gw_categorical c) {
    const gw_tensor *x = c.probs ? c.probs : c.logits;
    if (!gw_ok(s)) return (gw_categorical){ .probs = tensor_poison_of(s) };
    if (tensor_check(s, "gw_categorical", x) && x && x->dims > 0) return c;
    scope_fail(s, GW_INVALID, "gw_categorical: needs a tensor with at least one dimension");
    return (gw_categorical){ .probs = tensor_poison_of(s) };
}

gw_categorical gw_categorical_from_probs(gw_scope *s, gw_tensor *probs) {
    return check(s, (gw_categorical){ .probs = probs });
}
gw_categorical gw_categorical_from_logits(gw_scope *s, gw_tensor *logits) {
    return check(s, (gw_categorical){ .logits = logits });
}

// Probabilities that sum to 1.
static gw_tensor *probs_of(gw_scope *s, gw_categorical c) {
    if (!c.probs) return gw_softmax(s, c.logits, -1);
    return gw_div(s, c.probs, gw_sum(s, c.probs, .dim = -1, .keepdim = true));
}

// Logarithms of probabilities that sum to 1; those of 0 and 1 stay finite, as in PyTorch.
static gw_tensor *logits_of(gw_scope *s, gw_categorical c) {
    if (!c.probs) return gw_log_softmax(s, c.logits, -1);
    double eps = gw_dtype_of(c.probs) == GW_F64 ? DBL_EPSILON : FLT_EPSILON;
    return gw_log(s, gw_clamp(s, probs_of(s, c), eps, 1 - eps));
}

gw_tensor *(gw_categorical_sample)(gw_scope *s, gw_categorical c) {
    if (!gw_ok(s)) return tensor_poison_of(s);
    gw_scope *t = scope_open_unrecorded(s);
    gw_tensor *p = c.probs ? c.probs : probs_of(t, c);
    int64_t batch[GW_DIMS_MAX];
    int dims = gw_dims(p) - 1;
    for (int d = 0; d < dims; d++) batch[d] = gw_size(p, d);
    gw_tensor *rows = dims > 1 ? gw_reshape(t, p, -1, gw_size(p, dims)) : p;  // N C
    gw_tensor *drawn = gw_multinomial(t, rows, 1, .replacement = true);       // N 1
    drawn = gw_keep(s, gw_reshape_with(t, drawn, (gw_shape){ dims < 0 ? 0 : dims, batch }));
    gw_scope_close_up(t);
    return gw_ok(s) ? drawn : tensor_poison_of(s);
}

// The sizes that the batches of |a|, without its last dimension, and |b| broadcast to.
static int broadcast(const gw_tensor *a, const gw_tensor *b, int64_t out[GW_DIMS_MAX]) {
    int dims_a = gw_dims(a) - 1, dims_b = gw_dims(b), dims = dims_a > dims_b ? dims_a : dims_b;
    for (int d = 0; d < dims; d++) {
        int at_a = d - (dims - dims_a), at_b = d - (dims - dims_b);
        int64_t size_a = at_a < 0 ? 1 : gw_size(a, at_a), size_b = at_b < 0 ? 1 : gw_size(b, at_b);
        out[d] = size_a == 1 ? size_b : size_a;
    }
    return dims;
}

static bool is_batch_of(const gw_tensor *logits, const gw_tensor *value) {
    return logits->dims == value->dims + 1 &&
           memcmp(logits->sizes, value->sizes, value->dims * sizeof(int64_t)) == 0;
}

// Whether there are values, which fit to the distributions.
static bool check_value(gw_scope *s, const gw_tensor *logits, const gw_tensor *value) {
    if (!tensor_is_given(s, "gw_categorical_log_prob", value)) return false;
    if (value->dtype != GW_I64 && value->dtype != GW_I32)
        return scope_fail(s, GW_INVALID,
                          "gw_categorical_log_prob: values are %s, but must be i64 or i32",
                          gw_dtype_name((gw_dtype)value->dtype));
    for (int back = 1; back <= value->dims && back < logits->dims; back++) {
        int64_t a = logits->sizes[logits->dims - 1 - back], b = value->sizes[value->dims - back];
        if (a == b || a == 1 || b == 1) continue;
        return scope_fail(
            s, GW_INVALID,
            "gw_categorical_log_prob: values of shape %s do not fit distributions of shape %s",
            shape_text(value).text, shape_text(logits).text);
    }
    return true;
}

gw_tensor *gw_categorical_log_prob(gw_scope *s, gw_categorical c, gw_tensor *value) {
    gw_tensor *logits = gw_ok(s) ? logits_of(s, c) : tensor_poison_of(s);
    if (!gw_ok(s)) return tensor_poison_of(s);
    if (!check_value(s, logits, value)) return tensor_poison_of(s);
    if (!is_batch_of(logits, value)) {
        int64_t sizes[GW_DIMS_MAX + 1];
        int dims = broadcast(logits, value, sizes);
        value = gw_expand_with(s, value, (gw_shape){ dims, sizes });
        sizes[dims] = gw_size(logits, -1);
        logits = gw_expand_with(s, logits, (gw_shape){ dims + 1, sizes });
    }
    return gw_squeeze(s, gw_gather(s, logits, -1, gw_unsqueeze(s, value, -1)), -1);
}

gw_tensor *gw_categorical_entropy(gw_scope *s, gw_categorical c) {
    if (!gw_ok(s)) return tensor_poison_of(s);
    gw_tensor *p = probs_of(s, c), *logits = logits_of(s, c);
    // 0 log 0 is 0.
    gw_tensor *finite =
        gw_clamp(s, logits, gw_dtype_of(p) == GW_F64 ? -DBL_MAX : -FLT_MAX, INFINITY);
    return gw_neg(s, gw_sum(s, gw_mul(s, finite, p), .dim = -1));
}
