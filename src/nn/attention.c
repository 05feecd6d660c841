// Multi-head attention (Vaswani et al. 2017): torch.nn.MultiheadAttention.
//
// N batch, T length of the query, S of key and value, E features, H heads, D = E/H, O keys and
// values of the layer's own.
#include "nn/init.h"

#include "tensor/ops/op.h"

#include <math.h>

typedef struct attention {
    int64_t features, heads, kdim, vdim;
    double dropout;
    bool batch_first, bias, add_bias_kv, add_zero_attn;
} attention;

// The parts: one weight for all three projections, or one for each, then their bias, then bias_k and
// bias_v.
static bool has_three(const attention *a) {
    return a->kdim != a->features || a->vdim != a->features;
}

static int first_bias(const attention *a) {
    return has_three(a) ? 3 : 1;
}

static gw_tensor *part(const gw_module *m, int index) {
    return m->parameters.items[index].is.parameter;
}

// ---- Inputs -------------------------------------------------------------------------------------
// Query, key and value with dimension N first, each different tensor once.
typedef struct inputs {
    gw_tensor *query, *key, *value;
    int64_t n, t, s;
    bool is_batched;
} inputs;

static bool check_features(gw_scope *s, const char *name, const gw_tensor *x, int dims,
                           int64_t features) {
    if ((gw_dims(x) == 2 || gw_dims(x) == 3) && gw_dims(x) == dims && gw_size(x, -1) == features)
        return true;
    return scope_fail(s, GW_INVALID,
                      "gw_nn_multihead_attention: %s %s, but must be %s of %lld features", name,
                      shape_text(x).text, dims == 2 ? "T E" : "a batch", (long long)features);
}

static gw_tensor *batch_first(gw_scope *s, const attention *a, gw_tensor *x) {
    if (gw_dims(x) == 2) return gw_unsqueeze(s, x, 0);
    return a->batch_first ? x : gw_transpose(s, x, 0, 1);
}

static bool take_inputs(gw_scope *s, const attention *a, gw_tensor *query, gw_tensor *key,
                        gw_tensor *value, inputs *in) {
    int dims = gw_dims(query) == 2 ? 2 : 3;
    if (!check_features(s, "query", query, dims, a->features) ||
        !check_features(s, "key", key, dims, a->kdim) ||
        !check_features(s, "value", value, dims, a->vdim))
        return false;
    // A tensor that is several inputs stays one, and is projected by one product.
    in->query = batch_first(s, a, query);
    in->key = key == query ? in->query : batch_first(s, a, key);
    in->value = value == key ? in->key : batch_first(s, a, value);
    in->is_batched = dims == 3;
    in->n = gw_size(in->query, 0);
    in->t = gw_size(in->query, 1);
    in->s = gw_size(in->key, 1);
    if (!gw_ok(s)) return false;
    if (gw_size(in->key, 0) == in->n && gw_size(in->value, 0) == in->n &&
        gw_size(in->value, 1) == in->s)
        return true;
    return scope_fail(s, GW_INVALID,
                      "gw_nn_multihead_attention: query %s, key %s and value %s do not fit",
                      shape_text(query).text, shape_text(key).text, shape_text(value).text);
}

// ---- Projections --------------------------------------------------------------------------------
// x: N L F, result: N L and |count| times E, by the parts of weight and bias from |first| on.
static gw_tensor *project(gw_scope *s, const gw_module *m, gw_tensor *x, int first, int count) {
    const attention *a = m->settings;
    int64_t from = first * a->features, to = from + count * a->features;
    bool three = has_three(a);
    gw_tensor *weight = part(m, three ? first : 0);
    gw_tensor *bias = a->bias ? part(m, first_bias(a)) : NULL;
    if (!three && count < 3) weight = gw_slice(s, weight, 0, from, to, 1);
    if (bias && count < 3) bias = gw_slice(s, bias, 0, from, to, 1);
    return gw_linear(s, x, weight, bias);
}

// Of N L count*E the part |i|, as N H L D.
static gw_tensor *heads_of(gw_scope *s, const attention *a, gw_tensor *x, int i, int count) {
    int64_t d = a->features / a->heads;
    gw_tensor *parts = gw_reshape(s, x, gw_size(x, 0), gw_size(x, 1), count, a->heads, d);
    return gw_transpose(s, gw_select(s, parts, 2, i), 1, 2);
}

static void project_all(gw_scope *s, const gw_module *m, const inputs *in, gw_tensor *out[3]) {
    const attention *a = m->settings;
    gw_tensor *const x[] = { in->query, in->key, in->value };
    for (int i = 0; i < 3;) {
        int count = 1;
        while (!has_three(a) && i + count < 3 && x[i + count] == x[i]) count++;
        gw_tensor *parts = project(s, m, x[i], i, count);
        for (int k = 0; k < count; k++) out[i + k] = heads_of(s, a, parts, k, count);
        i += count;
    }
}

// ---- Keys and values of the layer's own ---------------------------------------------------------
static int own_count(const attention *a) {
    return a->add_bias_kv + a->add_zero_attn;
}

// |x|: the keys or the values, N H S D; |bias|: 1 1 E, or NULL. Result: N H S+O D.
static gw_tensor *append_own(gw_scope *s, const attention *a, gw_tensor *x, gw_tensor *bias) {
    int64_t n = gw_size(x, 0), d = gw_size(x, 3);
    gw_tensor *all[3] = { x };
    int count = 1;
    if (bias) all[count++] = gw_expand(s, gw_view(s, bias, 1, a->heads, 1, d), n, a->heads, 1, d);
    if (a->add_zero_attn) all[count++] = gw_zeros(s, gw_dtype_of(x), n, a->heads, 1, d);
    return count > 1 ? gw_cat(s, all, count, 2) : x;
}

// |mask|: T S, N*H T S, N S or S. Result: with S+O, where O are seen.
static gw_tensor *show_own(gw_scope *s, const attention *a, gw_tensor *mask) {
    if (!own_count(a)) return mask;
    int64_t sizes[3];
    int dims = gw_dims(mask);
    for (int i = 0; i < dims - 1; i++) sizes[i] = gw_size(mask, i);
    sizes[dims - 1] = own_count(a);
    gw_tensor *all[] = { mask, gw_zeros_with(s, gw_dtype_of(mask), (gw_shape){ dims, sizes }) };
    return gw_cat(s, all, 2, -1);
}

// ---- Masks --------------------------------------------------------------------------------------
static bool has_shape(const gw_tensor *x, gw_shape shape) {
    return tensor_has_sizes(x, shape.count, shape.sizes);
}

// Where |mask| is true nothing is seen; one of floats is added.
static gw_tensor *apply_mask(gw_scope *s, gw_tensor *scores, const char *name, gw_tensor *mask) {
    if (gw_dtype_of(mask) == GW_BOOL8) return gw_where(s, mask, -INFINITY, scores);
    if (gw_dtype_of(mask) == gw_dtype_of(scores)) return gw_add(s, scores, mask);
    if (gw_ok(s))
        scope_fail(s, GW_INVALID, "gw_nn_multihead_attention: %s of %s, but must be of bool or %s",
                   name, gw_dtype_name(gw_dtype_of(mask)), gw_dtype_name(gw_dtype_of(scores)));
    return tensor_poison_of(s);
}

static gw_tensor *apply_masks(gw_scope *s, const attention *a, const inputs *in, gw_tensor *scores,
                              gw_attention_options options) {
    gw_tensor *padding = options.key_padding_mask, *mask = options.attn_mask;
    int64_t n = in->n, t = in->t, length = in->s;
    if (mask) {
        bool by_head = gw_dims(mask) == 3;
        if (!has_shape(mask, by_head ? GW_SHAPE(n * a->heads, t, length) : GW_SHAPE(t, length))) {
            scope_fail(s, GW_INVALID,
                       "gw_nn_multihead_attention: attn_mask %s, but must be %lldx%lld or "
                       "%lldx%lldx%lld",
                       shape_text(mask).text, (long long)t, (long long)length,
                       (long long)(n * a->heads), (long long)t, (long long)length);
            return tensor_poison_of(s);
        }
        mask = show_own(s, a, mask);
        if (by_head) mask = gw_reshape(s, mask, n, a->heads, t, length + own_count(a));
        scores = apply_mask(s, scores, "attn_mask", mask);
    }
    if (!padding || !gw_ok(s)) return scores;
    if (!has_shape(padding, in->is_batched ? GW_SHAPE(n, length) : GW_SHAPE(length))) {
        scope_fail(
            s, GW_INVALID, "gw_nn_multihead_attention: key_padding_mask %s, but must be %s",
            shape_text(padding).text,
            shape_text_of(in->is_batched ? 2 : 1, (int64_t[]){ n, length } + !in->is_batched).text);
        return tensor_poison_of(s);
    }
    padding = gw_reshape(s, show_own(s, a, padding), n, 1, 1, length + own_count(a));
    return apply_mask(s, scores, "key_padding_mask", padding);
}

// ---- Calls --------------------------------------------------------------------------------------
// N T x back to how the caller has it.
static gw_tensor *as_given(gw_scope *s, const attention *a, const inputs *in, gw_tensor *x) {
    if (!in->is_batched) return gw_squeeze(s, x, 0);
    return a->batch_first ? x : gw_transpose(s, x, 0, 1);
}

static gw_attention_result attend(gw_scope *s, gw_module *m, const inputs *in,
                                  gw_attention_options options) {
    const attention *a = m->settings;
    gw_attention_result result = { NULL, NULL };
    gw_tensor *parts[3];
    project_all(s, m, in, parts);
    int own = a->bias ? first_bias(a) + 1 : first_bias(a);
    gw_tensor *key = append_own(s, a, parts[1], a->add_bias_kv ? part(m, own) : NULL);
    gw_tensor *value = append_own(s, a, parts[2], a->add_bias_kv ? part(m, own + 1) : NULL);
    double scale = 1 / sqrt((double)(a->features / a->heads));
    gw_tensor *query = gw_mul(s, parts[0], scale);
    gw_tensor *scores = gw_matmul(s, query, gw_transpose(s, key, 2, 3));  // N H T S+O
    scores = apply_masks(s, a, in, scores, options);
    gw_tensor *weights = gw_softmax(s, scores, -1);
    if (a->dropout > 0) weights = gw_dropout(s, weights, .p = a->dropout, .training = m->training);
    gw_tensor *seen = gw_transpose(s, gw_matmul(s, weights, value), 1, 2);  // N T H D
    gw_tensor *out = gw_reshape(s, seen, in->n, in->t, a->features);
    out = gw_module_call(s, m->children.items[0].is.child, out);
    result.output = as_given(s, a, in, out);
    if (!options.need_weights) return result;
    result.weights = options.average_attn_weights ? gw_mean(s, weights, .dim = 1) : weights;
    if (!in->is_batched) result.weights = gw_squeeze(s, result.weights, 0);
    return result;
}

static gw_attention_result nothing(gw_scope *s, gw_attention_options options) {
    gw_tensor *poison = tensor_poison_of(s);
    return (gw_attention_result){ poison, options.need_weights ? poison : NULL };
}

static gw_attention_result run(gw_scope *s, gw_module *m, gw_tensor *query, gw_tensor *key,
                               gw_tensor *value, gw_attention_options options) {
    inputs in;
    if (!tensor_check(s, "gw_nn_multihead_attention", query) ||
        !take_inputs(s, m->settings, query, key, value, &in))
        return nothing(s, options);
    return attend(s, m, &in, options);
}

static gw_tensor *forward_attention(gw_scope *s, gw_module *m, gw_tensor *x) {
    return run(s, m, x, x, x, GW_OPTIONS(gw_attention_options, .need_weights = false)).output;
}

static bool flag(gw_scope *s, const gw_args *a, int index) {
    bool is_given = index < gw_arg_count(a) && gw_arg(s, a, index).kind != GW_NONE;
    return is_given ? gw_arg_bool(s, a, index) : true;
}

// in: query, key, value, key_padding_mask, attn_mask, need_weights, average_attn_weights, out:
// output, weights.
static gw_value forward_values(gw_scope *s, gw_module *m, const gw_args *a) {
    gw_attention_options options =
        GW_OPTIONS(gw_attention_options, .key_padding_mask = gw_arg_tensor_or_null(s, a, 3),
                   .attn_mask = gw_arg_tensor_or_null(s, a, 4), .need_weights = flag(s, a, 5),
                   .average_attn_weights = flag(s, a, 6));
    gw_tensor *query = gw_arg_tensor(s, a, 0), *key = gw_arg_tensor_or_null(s, a, 1),
              *value = gw_arg_tensor_or_null(s, a, 2);
    if (gw_ok(s) && (!key || !value))
        scope_fail(s, GW_INVALID, "gw_nn_multihead_attention_call: the %s is missing",
                   key ? "value" : "key");
    if (!gw_ok(s)) return gw_none();
    gw_attention_result r = run(s, m, query, key, value, options);
    gw_list *out = gw_list_open(s);
    gw_list_add(s, out, r.output);
    gw_list_add(s, out, r.weights);
    return gw_value_of(out);
}

const typed_call typed_multihead_attention = {
    .name = "multihead_attention", .inputs = 7, .outputs = 2, .forward = forward_values
};

gw_attention_result gw_nn_multihead_attention_call_with(gw_scope *s, gw_module *m, gw_tensor *query,
                                                        gw_tensor *key, gw_tensor *value,
                                                        gw_attention_options options) {
    gw_value in[] = { gw_value_of(query),
                      gw_value_of(key),
                      gw_value_of(value),
                      gw_value_of(options.key_padding_mask),
                      gw_value_of(options.attn_mask),
                      gw_value_of(options.need_weights),
                      gw_value_of(options.average_attn_weights) };
    gw_tensor *out[2];
    module_call_typed(s, m, &typed_multihead_attention, in, out);
    return (gw_attention_result){ out[0], !options.need_weights ? NULL : out[1] };
}

// ---- Opening ------------------------------------------------------------------------------------
// Uniform in +-sqrt(6 / (fan in + fan out)) (Glorot, Bengio 2010).
static void add_projection(gw_scope *s, gw_module *m, const char *name, gw_dtype dtype, int64_t out,
                           int64_t in) {
    init_uniform(s, m, name, dtype, GW_SHAPE(out, in), sqrt(6 / ((double)in + (double)out)));
}

// Normal, by the mean of fan in and fan out, which both are E (Glorot, Bengio 2010).
static void add_bias_kv(gw_scope *s, gw_module *m, int64_t features, gw_dtype dtype) {
    gw_scope *t = gw_scope_open(s);
    static const char *const names[] = { "bias_k", "bias_v" };
    for (int i = 0; i < 2; i++) {
        gw_tensor *x = gw_zeros(t, dtype, 1, 1, features);
        gw_module_register_parameter(t, m, names[i], gw_init_xavier_normal(t, x, 1));
    }
    gw_scope_close_up(t);
}

// A linear layer that starts with its bias at 0.
static gw_module *open_output(gw_scope *s, int64_t features, gw_nn_attention_options options) {
    gw_module *m =
        gw_nn_linear(s, features, features, .bias = options.bias, .dtype = options.dtype);
    if (!gw_ok(s) || !options.bias) return m;
    gw_scope *t = scope_open_unrecorded(s);
    gw_copy_(t, m->parameters.items[1].is.parameter, gw_zeros(t, options.dtype));
    gw_scope_close_up(t);
    return m;
}

static bool check_sizes(gw_scope *s, const attention *a) {
    if (!gw_ok(s)) return false;
    if (a->features < 1 || a->heads < 1 || a->features % a->heads)
        scope_fail(
            s, GW_INVALID,
            "gw_nn_multihead_attention: %lld features cannot be divided equally among %lld heads",
            (long long)a->features, (long long)a->heads);
    else if (a->kdim < 1 || a->vdim < 1)
        scope_fail(s, GW_INVALID,
                   "gw_nn_multihead_attention: keys have %lld features and values %lld, but each "
                   "must have 1 or more",
                   (long long)a->kdim, (long long)a->vdim);
    else if (!(a->dropout >= 0 && a->dropout <= 1))
        scope_fail(s, GW_INVALID,
                   "gw_nn_multihead_attention: dropout is %g, but must be a probability: 0 to 1",
                   a->dropout);
    return gw_ok(s);
}

gw_module *gw_nn_multihead_attention_with(gw_scope *s, int64_t features, int64_t heads,
                                          gw_nn_attention_options options) {
    attention a = {
        .features = features,
        .heads = heads,
        .kdim = options.kdim == GW_NOT_GIVEN ? features : options.kdim,
        .vdim = options.vdim == GW_NOT_GIVEN ? features : options.vdim,
        .dropout = options.dropout,
        .batch_first = options.batch_first,
        .bias = options.bias,
        .add_bias_kv = options.add_bias_kv,
        .add_zero_attn = options.add_zero_attn,
    };
    if (!check_sizes(s, &a)) return &module_poison;
    gw_module *m = module_new_typed(s, &typed_multihead_attention, &a, sizeof a);
    if (m != &module_poison) m->forward = forward_attention;
    int64_t three = init_length(s, "gw_nn_multihead_attention", 3, features);
    if (has_three(&a)) {
        add_projection(s, m, "q_proj_weight", options.dtype, features, features);
        add_projection(s, m, "k_proj_weight", options.dtype, features, a.kdim);
        add_projection(s, m, "v_proj_weight", options.dtype, features, a.vdim);
    } else {
        add_projection(s, m, "in_proj_weight", options.dtype, three, features);
    }
    if (options.bias) init_full(s, m, "in_proj_bias", options.dtype, GW_SHAPE(three), 0);
    if (options.add_bias_kv) add_bias_kv(s, m, features, options.dtype);
    gw_module_register_module(s, m, "out_proj", open_output(s, features, options));
    return gw_ok(s) ? m : &module_poison;
}
