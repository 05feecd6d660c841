// One layer of a transformer's encoder (Vaswani et al. 2017): torch.nn.TransformerEncoderLayer.
#include "nn/init.h"

#include "tensor/tensor.h"

typedef struct encoder_layer {
    bool norm_first, is_gelu;
} encoder_layer;

// The parts, in PyTorch's order.
enum { SELF_ATTN, LINEAR1, DROPOUT, LINEAR2, NORM1, NORM2, DROPOUT1, DROPOUT2 };

static gw_tensor *call(gw_scope *s, const gw_module *m, int part, gw_tensor *x) {
    return gw_module_call(s, m->children.items[part].is.child, x);
}

static gw_tensor *attend(gw_scope *s, const gw_module *m, gw_tensor *x,
                         gw_attention_options options) {
    gw_module *attention = m->children.items[SELF_ATTN].is.child;
    x = gw_nn_multihead_attention_call_with(s, attention, x, x, x, options).output;
    return call(s, m, DROPOUT1, x);
}

static gw_tensor *feed_forward(gw_scope *s, const gw_module *m, gw_tensor *x) {
    const encoder_layer *e = m->settings;
    x = call(s, m, LINEAR1, x);
    x = e->is_gelu ? gw_gelu(s, x) : gw_relu(s, x);
    return call(s, m, DROPOUT2, call(s, m, LINEAR2, call(s, m, DROPOUT, x)));
}

static gw_tensor *encode(gw_scope *s, const gw_module *m, gw_tensor *x,
                         gw_attention_options options) {
    options.need_weights = false;
    if (((const encoder_layer *)m->settings)->norm_first) {
        x = gw_add(s, x, attend(s, m, call(s, m, NORM1, x), options));
        return gw_add(s, x, feed_forward(s, m, call(s, m, NORM2, x)));
    }
    x = call(s, m, NORM1, gw_add(s, x, attend(s, m, x, options)));
    return call(s, m, NORM2, gw_add(s, x, feed_forward(s, m, x)));
}

// in: x, key_padding_mask, attn_mask.
static gw_value forward(gw_scope *s, gw_module *m, const gw_args *a) {
    gw_attention_options options =
        GW_OPTIONS(gw_attention_options, .key_padding_mask = gw_arg_tensor_or_null(s, a, 1),
                   .attn_mask = gw_arg_tensor_or_null(s, a, 2));
    return gw_value_of(encode(s, m, gw_arg_tensor(s, a, 0), options));
}

const typed_call typed_encoder_layer = {
    .name = "transformer_encoder_layer", .inputs = 3, .outputs = 1, .forward = forward
};

gw_tensor *gw_nn_transformer_encoder_layer_call_with(gw_scope *s, gw_module *m, gw_tensor *x,
                                                     gw_attention_options options) {
    gw_value in[] = { gw_value_of(x), gw_value_of(options.key_padding_mask),
                      gw_value_of(options.attn_mask) };
    gw_tensor *out[1];
    module_call_typed(s, m, &typed_encoder_layer, in, out);
    return out[0];
}

static void add_parts(gw_scope *s, gw_module *m, int64_t features, int64_t heads, double dropout,
                      gw_nn_encoder_layer_options o) {
    int64_t hidden = o.feedforward;
    gw_nn_attention_options attention = GW_OPTIONS(gw_nn_attention_options, .dropout = dropout,
                                                   .batch_first = o.batch_first, .dtype = o.dtype);
    gw_nn_linear_options linear = GW_OPTIONS(gw_nn_linear_options, .dtype = o.dtype);
    gw_nn_layer_norm_options norm =
        GW_OPTIONS(gw_nn_layer_norm_options, .eps = o.layer_norm_eps, .dtype = o.dtype);
    gw_shape shape = { 1, &features };
    gw_module_register_module(s, m, "self_attn",
                              gw_nn_multihead_attention_with(s, features, heads, attention));
    gw_module_register_module(s, m, "linear1", gw_nn_linear_with(s, features, hidden, linear));
    gw_module_register_module(s, m, "dropout", gw_nn_dropout(s, dropout));
    gw_module_register_module(s, m, "linear2", gw_nn_linear_with(s, hidden, features, linear));
    gw_module_register_module(s, m, "norm1", gw_nn_layer_norm_with(s, shape, norm));
    gw_module_register_module(s, m, "norm2", gw_nn_layer_norm_with(s, shape, norm));
    gw_module_register_module(s, m, "dropout1", gw_nn_dropout(s, dropout));
    gw_module_register_module(s, m, "dropout2", gw_nn_dropout(s, dropout));
}

gw_module *gw_nn_transformer_encoder_layer_with(gw_scope *s, int64_t features, int64_t heads,
                                                gw_nn_encoder_layer_options options) {
    encoder_layer e = { .norm_first = options.norm_first, .is_gelu = options.gelu };
    gw_module *m = module_new_typed(s, &typed_encoder_layer, &e, sizeof e);
    add_parts(s, m, features, heads, options.dropout, options);
    return gw_ok(s) ? m : &module_poison;
}
