// LSTM, GRU and the simple recurrent network: torch.nn.LSTM, GRU and RNN.
//
// T time, N batch, E input's features, H hidden features, L layers, D directions.
#include "nn/init.h"

#include "tensor/ops/op.h"
#include "tensor/pack.h"
#include <gradwire/autograd.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef enum kind { LSTM, GRU, RNN } kind;

typedef struct recurrent {
    kind kind;
    int64_t in, hidden;
    int layers, directions;
    bool has_bias, batch_first, relu;
    double dropout;
} recurrent;

static const char *const makers[] = { "gw_nn_lstm", "gw_nn_gru", "gw_nn_rnn" };
static const int gate_counts[] = { 4, 3, 1 };

// ---- Making -------------------------------------------------------------------------------------
static void add_parameters(gw_scope *s, gw_module *m, const recurrent *r, gw_dtype dtype, int layer,
                           bool is_reverse) {
    const char *maker = makers[r->kind];
    int64_t rows = init_length(s, maker, gate_counts[r->kind], r->hidden);
    int64_t in = layer ? init_length(s, maker, r->directions, r->hidden) : r->in;
    double bound = 1 / sqrt((double)r->hidden);
    static const char *const names[] = { "weight_ih", "weight_hh", "bias_ih", "bias_hh" };
    for (int i = 0; i < (r->has_bias ? 4 : 2); i++) {
        char name[64];
        snprintf(name, sizeof name, "%s_l%d%s", names[i], layer, is_reverse ? "_reverse" : "");
        gw_shape shape = i == 0   ? GW_SHAPE(rows, in)
                         : i == 1 ? GW_SHAPE(rows, r->hidden)
                                  : GW_SHAPE(rows);
        init_uniform(s, m, name, dtype, shape, bound);
    }
}

static bool check_settings(gw_scope *s, const recurrent *r) {
    const char *name = makers[r->kind];
    if (!gw_ok(s)) return false;
    if (r->in < 1 || r->hidden < 1)
        scope_fail(s, GW_INVALID, "%s: from %lld to %lld features: both numbers must be 1 or more",
                   name, (long long)r->in, (long long)r->hidden);
    else if (r->layers < 1 || r->layers > 999)
        scope_fail(s, GW_INVALID, "%s: .layers is %d, but must be 1 to 999", name, r->layers);
    else if (!(r->dropout >= 0 && r->dropout <= 1))
        scope_fail(s, GW_INVALID, "%s: dropout is %g, but must be a probability: 0 to 1", name,
                   r->dropout);
    return gw_ok(s);
}

static const typed_call *const typed[] = { &typed_lstm, &typed_gru, &typed_rnn };

static gw_module *make(gw_scope *s, kind k, int64_t in, int64_t hidden,
                       gw_nn_recurrent_options options) {
    recurrent r = {
        .kind = k,
        .in = in,
        .hidden = hidden,
        .layers = options.layers,
        .directions = options.bidirectional ? 2 : 1,
        .has_bias = options.bias,
        .batch_first = options.batch_first,
        .relu = options.relu,
        .dropout = options.dropout,
    };
    if (!check_settings(s, &r)) return &module_poison;
    gw_module *m = module_new_typed(s, typed[k], &r, sizeof r);
    for (int layer = 0; layer < r.layers; layer++)
        for (int d = 0; d < r.directions; d++)
            add_parameters(s, m, &r, options.dtype, layer, d == 1);
    return gw_ok(s) ? m : &module_poison;
}

gw_module *gw_nn_lstm_with(gw_scope *s, int64_t in, int64_t hidden,
                           gw_nn_recurrent_options options) {
    return make(s, LSTM, in, hidden, options);
}
gw_module *gw_nn_gru_with(gw_scope *s, int64_t in, int64_t hidden,
                          gw_nn_recurrent_options options) {
    return make(s, GRU, in, hidden, options);
}
gw_module *gw_nn_rnn_with(gw_scope *s, int64_t in, int64_t hidden,
                          gw_nn_recurrent_options options) {
    return make(s, RNN, in, hidden, options);
}

static gw_lstm_result nothing(gw_scope *s) {
    gw_tensor *poison = tensor_poison_of(s);
    return (gw_lstm_result){ poison, poison, poison };
}

// ---- Inputs -------------------------------------------------------------------------------------

typedef struct inputs {
    gw_tensor *x;        // T N E
    gw_tensor *h0, *c0;  // L D by N by H
    gw_tensor *lengths;  // N, or NULL
    bool is_batched;
} inputs;

static bool check_input(gw_scope *s, const recurrent *r, const gw_tensor *x) {
    if ((gw_dims(x) == 2 || gw_dims(x) == 3) && gw_size(x, -1) == r->in) return true;
    return scope_fail(s, GW_INVALID, "%s: x has the shape %s, but must have %s %lld, or T %lld",
                      makers[r->kind], shape_text(x).text, r->batch_first ? "N T" : "T N",
                      (long long)r->in, (long long)r->in);
}

// The state to start from, zeros if none is given.
static gw_tensor *first_state(gw_scope *s, const recurrent *r, const inputs *in, const char *name,
                              gw_tensor *given) {
    int64_t sizes[] = { r->layers * r->directions, gw_size(in->x, 1), r->hidden };
    if (!given) {
        gw_tensor *zeros = gw_zeros_with(s, gw_dtype_of(in->x), (gw_shape){ 3, sizes });
        return tensor_to_device(s, zeros, gw_device_of(in->x));
    }
    gw_tensor *state = in->is_batched ? given : gw_unsqueeze(s, given, 1);
    if (!gw_ok(s)) return tensor_poison_of(s);
    if (gw_dims(state) == 3 && memcmp(state->sizes, sizes, sizeof sizes) == 0) return state;
    scope_fail(s, GW_INVALID, "%s: %s is %s, but must be %s", makers[r->kind], name,
               shape_text(given).text, shape_text_of(3, sizes).text);
    return tensor_poison_of(s);
}

static bool take_inputs(gw_scope *s, const recurrent *r, gw_tensor *x, gw_tensor *lengths,
                        gw_tensor *h0, gw_tensor *c0, inputs *in) {
    if (!tensor_check(s, makers[r->kind], x) || !check_input(s, r, x)) return false;
    in->is_batched = gw_dims(x) == 3;
    in->x = !in->is_batched ? gw_unsqueeze(s, x, 1) : r->batch_first ? gw_transpose(s, x, 0, 1) : x;
    if (!gw_ok(s)) return false;
    in->lengths = lengths;
    in->h0 = first_state(s, r, in, "h0", h0);
    in->c0 = r->kind == LSTM ? first_state(s, r, in, "c0", c0) : NULL;
    return gw_ok(s);
}

// ---- Running ------------------------------------------------------------------------------------
static gw_recurrent_weights weights_of(const gw_module *m, int run) {
    const recurrent *r = m->settings;
    const module_part *p = m->parameters.items + run * (r->has_bias ? 4 : 2);
    return (gw_recurrent_weights){
        .weight_ih = p[0].is.parameter,
        .weight_hh = p[1].is.parameter,
        .bias_ih = r->has_bias ? p[2].is.parameter : NULL,
        .bias_hh = r->has_bias ? p[3].is.parameter : NULL,
    };
}

// One layer in one direction, the |run|-th. |last|: its state after the last step.
static gw_tensor *run_once(gw_scope *s, const gw_module *m, const inputs *in, gw_tensor *x, int run,
                           gw_tensor **last_h, gw_tensor **last_c) {
    const recurrent *r = m->settings;
    bool reverse = run % r->directions == 1;
    gw_recurrent_weights w = weights_of(m, run);
    gw_tensor *h0 = gw_select(s, in->h0, 0, run), *c = NULL, *h;
    int64_t last = reverse ? 0 : gw_size(x, 0) - 1;
    if (r->kind == LSTM)
        h = gw_lstm(s, x, h0, gw_select(s, in->c0, 0, run), w, .lengths = in->lengths,
                    .reverse = reverse, .out_c = &c);
    else if (r->kind == GRU)
        h = gw_gru(s, x, h0, w, .lengths = in->lengths, .reverse = reverse);
    else
        h = gw_rnn(s, x, h0, w, .lengths = in->lengths, .reverse = reverse, .relu = r->relu);
    *last_h = gw_select(s, h, 0, last);
    *last_c = c ? gw_select(s, c, 0, last) : NULL;
    return h;
}

// 0 where a sequence is over: there the states stand still, but PyTorch's output is 0.
static gw_tensor *mask_of(gw_scope *s, const gw_tensor *x, gw_tensor *lengths) {
    gw_tensor *time = gw_arange(s, GW_I64, 0, (double)gw_size(x, 0), 1);
    time = tensor_to_device(s, time, gw_device_of(lengths));
    gw_tensor *is_on = gw_lt(s, gw_reshape(s, time, -1, 1, 1), gw_reshape(s, lengths, 1, -1, 1));
    return gw_to_dtype(s, is_on, gw_dtype_of(x));
}

static gw_tensor *finish_output(gw_scope *s, const recurrent *r, const inputs *in, gw_tensor *y) {
    if (in->lengths) y = gw_mul(s, y, mask_of(s, in->x, in->lengths));
    if (!in->is_batched) return gw_squeeze(s, y, 1);
    return r->batch_first ? gw_transpose(s, y, 0, 1) : y;
}

static gw_tensor *finish_states(gw_scope *s, const inputs *in, gw_tensor *const *states,
                                int count) {
    gw_tensor *all = gw_stack(s, states, count, 0);
    return in->is_batched ? all : gw_squeeze(s, all, 1);
}

static gw_lstm_result run_layers(gw_scope *s, gw_module *m, const inputs *in, gw_tensor **last_h,
                                 gw_tensor **last_c) {
    const recurrent *r = m->settings;
    gw_tensor *x = in->x;
    for (int layer = 0; layer < r->layers && gw_ok(s); layer++) {
        gw_tensor *both[2];
        for (int d = 0; d < r->directions; d++) {
            int run = layer * r->directions + d;
            both[d] = run_once(s, m, in, x, run, &last_h[run], &last_c[run]);
        }
        x = r->directions == 2 ? gw_cat(s, both, 2, 2) : both[0];
        if (layer + 1 < r->layers && r->dropout > 0)
            x = gw_dropout(s, x, .p = r->dropout, .training = m->training);
    }
    if (!gw_ok(s)) return nothing(s);
    int count = r->layers * r->directions;
    return (gw_lstm_result){
        .output = finish_output(s, r, in, x),
        .h = finish_states(s, in, last_h, count),
        .c = r->kind == LSTM ? finish_states(s, in, last_c, count) : NULL,
    };
}

static gw_lstm_result run(gw_scope *s, gw_module *m, gw_tensor *x, gw_tensor *lengths,
                          gw_tensor *h0, gw_tensor *c0) {
    const recurrent *r = m->settings;
    inputs in;
    if (!take_inputs(s, r, x, lengths, h0, c0, &in)) return nothing(s);
    size_t size = (size_t)(r->layers * r->directions) * sizeof(gw_tensor *);
    gw_tensor **last = gw_alloc(s, 2 * size);
    if (!last) return nothing(s);
    return run_layers(s, m, &in, last, last + r->layers * r->directions);
}

// ---- Calls --------------------------------------------------------------------------------------
// in: x, h0, c0 (of an LSTM), lengths, out: output, h, c (of an LSTM).
static gw_value forward(gw_scope *s, gw_module *m, const gw_args *a) {
    bool has_c = ((const recurrent *)m->settings)->kind == LSTM;
    gw_tensor *x = gw_arg_tensor(s, a, 0), *h0 = gw_arg_tensor_or_null(s, a, 1);
    gw_tensor *c0 = has_c ? gw_arg_tensor_or_null(s, a, 2) : NULL;
    gw_lstm_result r = run(s, m, x, gw_arg_tensor_or_null(s, a, 2 + has_c), h0, c0);
    gw_list *out = gw_list_open(s);
    gw_list_add(s, out, r.output);
    gw_list_add(s, out, r.h);
    if (has_c) gw_list_add(s, out, r.c);
    return gw_value_of(out);
}

const typed_call typed_lstm = { .name = "lstm", .inputs = 4, .outputs = 3, .forward = forward };
const typed_call typed_gru = { .name = "gru", .inputs = 3, .outputs = 2, .forward = forward };
const typed_call typed_rnn = { .name = "rnn", .inputs = 3, .outputs = 2, .forward = forward };

gw_lstm_result gw_nn_lstm_call_with(gw_scope *s, gw_module *m, gw_tensor *x,
                                    gw_lstm_call_options options) {
    gw_value in[] = { gw_value_of(x), gw_value_of(options.h0), gw_value_of(options.c0),
                      gw_value_of(options.lengths) };
    gw_tensor *out[3];
    module_call_typed(s, m, &typed_lstm, in, out);
    return (gw_lstm_result){ .output = out[0], .h = out[1], .c = out[2] };
}

static gw_rnn_result call_without_c(gw_scope *s, gw_module *m, const typed_call *c, gw_tensor *x,
                                    gw_rnn_call_options options) {
    gw_value in[] = { gw_value_of(x), gw_value_of(options.h0), gw_value_of(options.lengths) };
    gw_tensor *out[2];
    module_call_typed(s, m, c, in, out);
    return (gw_rnn_result){ .output = out[0], .h = out[1] };
}
gw_rnn_result gw_nn_gru_call_with(gw_scope *s, gw_module *m, gw_tensor *x,
                                  gw_rnn_call_options options) {
    return call_without_c(s, m, &typed_gru, x, options);
}
gw_rnn_result gw_nn_rnn_call_with(gw_scope *s, gw_module *m, gw_tensor *x,
                                  gw_rnn_call_options options) {
    return call_without_c(s, m, &typed_rnn, x, options);
}
