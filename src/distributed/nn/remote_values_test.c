// Calls of several tensors of remote modules give the same bits as those of local modules.
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire/autograd.h>
#include <gradwire/dist.h>
#include <gradwire/module_remote.h>
#include <gradwire/optim.h>

#include <string.h>

// ---- Comparing ----------------------------------------------------------------------------------
static void assert_ok(gw_scope *s) {
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
}

static void assert_failed(gw_scope *s, gw_status status, const char *words) {
    const gw_error *e = gw_scope_error(s);
    if (!e || e->status != status || !strstr(e->text, words)) fail_msg("%s", e ? e->text : "ok");
    gw_scope_clear(s);
}

static void assert_same(gw_scope *s, gw_tensor *a, gw_tensor *b) {
    assert_ok(s);
    assert_true((a == NULL) == (b == NULL));
    if (!a) return;
    a = gw_contiguous(s, gw_detach(s, a));
    b = gw_contiguous(s, gw_detach(s, b));
    assert_ok(s);
    assert_int_equal(gw_numel(a), gw_numel(b));
    assert_memory_equal(gw_data(a), gw_data(b),
                        (size_t)gw_numel(a) * gw_dtype_size(gw_dtype_of(a)));
}

static void assert_same_state(gw_scope *s, gw_module *here, gw_module *there) {
    gw_map *a = gw_module_state_dict(s, here), *b = gw_module_state_dict(s, there);
    assert_ok(s);
    for (int i = 0; i < gw_map_count(a); i++) {
        const char *name = gw_map_key(s, a, i);
        assert_same(s, gw_tensor_of(s, gw_map_get(s, a, name)),
                    gw_tensor_of(s, gw_map_get(s, b, name)));
    }
}

static void run(cluster_main *main) {
    cluster_outcome o = cluster_run(1, (cluster_options){ .world_size = 2 }, main, NULL);
    assert_int_equal(o.owned[0] + o.owned[1], 0);
}

// ---- Samples ------------------------------------------------------------------------------------
enum { INPUTS = 5, OUTPUTS = 3, STEPS = 3 };

typedef struct outputs {
    gw_tensor *of[OUTPUTS];
} outputs;

typedef struct sample {
    gw_module *here, *there;
    outputs (*call)(gw_scope *s, gw_module *m, gw_tensor *const *in);
    gw_tensor *in[INPUTS];  // those of floats are leaves
} sample;

static outputs call_lstm(gw_scope *s, gw_module *m, gw_tensor *const *in) {
    gw_lstm_result r = gw_nn_lstm_call(s, m, in[0], .h0 = in[1], .c0 = in[2]);
    return (outputs){ { r.output, r.h, r.c } };
}
static outputs call_lstm_padded(gw_scope *s, gw_module *m, gw_tensor *const *in) {
    gw_lstm_result r = gw_nn_lstm_call(s, m, in[0], .lengths = in[3], .h0 = in[1], .c0 = in[2]);
    return (outputs){ { r.output, r.h, r.c } };
}
static outputs call_gru(gw_scope *s, gw_module *m, gw_tensor *const *in) {
    gw_rnn_result r = gw_nn_gru_call(s, m, in[0], .h0 = in[1]);
    return (outputs){ { r.output, r.h } };
}
static outputs call_gru_padded(gw_scope *s, gw_module *m, gw_tensor *const *in) {
    gw_rnn_result r = gw_nn_gru_call(s, m, in[0], .lengths = in[3], .h0 = in[1]);
    return (outputs){ { r.output, r.h } };
}
static outputs call_rnn(gw_scope *s, gw_module *m, gw_tensor *const *in) {
    gw_rnn_result r = gw_nn_rnn_call(s, m, in[0], .h0 = in[1]);
    return (outputs){ { r.output, r.h } };
}
static outputs call_rnn_padded(gw_scope *s, gw_module *m, gw_tensor *const *in) {
    gw_rnn_result r = gw_nn_rnn_call(s, m, in[0], .lengths = in[3], .h0 = in[1]);
    return (outputs){ { r.output, r.h } };
}
static outputs call_bag(gw_scope *s, gw_module *m, gw_tensor *const *in) {
    return (outputs){ { gw_nn_embedding_bag_call(s, m, in[0], .offsets = in[1],
                                                 .per_sample_weights = in[2]) } };
}
static outputs call_attention(gw_scope *s, gw_module *m, gw_tensor *const *in) {
    gw_attention_options o =
        GW_OPTIONS(gw_attention_options, .key_padding_mask = in[3], .attn_mask = in[4]);
    gw_attention_result r = gw_nn_multihead_attention_call_with(s, m, in[0], in[1], in[2], o);
    return (outputs){ { r.output, r.weights } };
}
static outputs call_attention_only(gw_scope *s, gw_module *m, gw_tensor *const *in) {
    gw_attention_result r =
        gw_nn_multihead_attention_call(s, m, in[0], in[1], in[2], .need_weights = false);
    return (outputs){ { r.output, r.weights } };
}
static outputs call_encoder(gw_scope *s, gw_module *m, gw_tensor *const *in) {
    return (outputs){ { gw_nn_transformer_encoder_layer_call(s, m, in[0], .attn_mask = in[1]) } };
}

// ---- Training them ------------------------------------------------------------------------------
// Every output counts, each with another factor.
static gw_tensor *loss_of(gw_scope *s, outputs y) {
    gw_tensor *loss = gw_zeros(s, GW_F32);
    for (int i = 0; i < OUTPUTS && y.of[i]; i++)
        loss = gw_add(s, loss, gw_mul(s, gw_sum(s, gw_mul(s, y.of[i], y.of[i])), 0.5 + i));
    return loss;
}

static bool is_leaf(const sample *a, int i) {
    for (int k = 0; k < i; k++)
        if (a->in[k] == a->in[i]) return false;
    return a->in[i] && gw_needs_grad(a->in[i]);
}

static void step_both(gw_scope *root, const sample *a, gw_optimizer *near, gw_optimizer *remote) {
    gw_scope *s = gw_scope_open(root), *t = gw_scope_open(root);
    outputs x = a->call(s, a->here, a->in), y = a->call(t, a->there, a->in);
    assert_ok(s);
    assert_ok(t);
    for (int i = 0; i < OUTPUTS; i++) assert_same(root, x.of[i], y.of[i]);
    gw_backward(s, loss_of(s, x));
    gw_backward(t, loss_of(t, y));
    assert_ok(s);
    assert_ok(t);
    for (int i = 0; i < INPUTS; i++)
        if (is_leaf(a, i)) assert_same(root, gw_grad(s, a->in[i]), gw_grad(t, a->in[i]));
    gw_optimizer_step(s, near);
    gw_optimizer_step(t, remote);
    gw_scope_close_up(s);
    gw_scope_close_up(t);
    assert_ok(root);
}

static void train_both(gw_scope *s, const sample *a) {
    gw_module_load_state_dict(s, a->there, gw_module_state_dict(s, a->here));
    gw_optimizer *near = gw_sgd(s, gw_parameters(s, a->here), .lr = 0.05);
    gw_optimizer *remote = gw_sgd(s, gw_parameters(s, a->there), .lr = 0.05);
    assert_ok(s);
    for (int i = 0; i < STEPS; i++) step_both(s, a, near, remote);
    assert_same_state(s, a->here, a->there);
}

static gw_tensor *leaf(gw_scope *s, gw_tensor *x) {
    return gw_requires_grad(s, x);
}

// ---- Recurrent layers ---------------------------------------------------------------------------
// T 5, N 3, E 4, H 6, two layers in two directions.
static void train_recurrent(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_nn_recurrent_options o =
        GW_OPTIONS(gw_nn_recurrent_options, .layers = 2, .bidirectional = true);
    gw_map *options = gw_map_open(s);
    gw_map_put(s, options, "layers", 2);
    gw_map_put(s, options, "bidirectional", 1);
    gw_tensor *x = leaf(s, gw_randn(s, GW_F32, 5, 3, 4)),
              *h = leaf(s, gw_randn(s, GW_F32, 4, 3, 6)),
              *c = leaf(s, gw_randn(s, GW_F32, 4, 3, 6)),
              *lengths = gw_from(s, ((int64_t[]){ 5, 2, 1 }), 3);
    gw_module *lstm = gw_nn_lstm_with(s, 4, 6, o), *gru = gw_nn_gru_with(s, 4, 6, o),
              *rnn = gw_nn_rnn_with(s, 4, 6, o),
              *remote_lstm = gw_module_remote(s, 1, "gw.nn.lstm", 4, 6, options),
              *remote_gru = gw_module_remote(s, 1, "gw.nn.gru", 4, 6, options),
              *remote_rnn = gw_module_remote(s, 1, "gw.nn.rnn", 4, 6, options);
    const sample all[] = {
        { lstm, remote_lstm, call_lstm, { x, h, c } },
        { lstm, remote_lstm, call_lstm, { x, NULL, c } },
        { lstm, remote_lstm, call_lstm_padded, { x, h, c, lengths } },
        { gru, remote_gru, call_gru, { x, h } },
        { gru, remote_gru, call_gru_padded, { x, h, NULL, lengths } },
        { rnn, remote_rnn, call_rnn, { x, h } },
        { rnn, remote_rnn, call_rnn_padded, { x, NULL, NULL, lengths } },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) train_both(s, &all[i]);
}

static void recurrent_layers_take_and_give_states(void **state) {
    (void)state;
    run(train_recurrent);
}

// The states of one call go into the next, and the gradient back through both.
static void train_in_parts(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_module *here = gw_nn_lstm(root, 4, 6),
              *there = gw_module_remote(root, 1, "gw.nn.lstm", 4, 6);
    gw_module_load_state_dict(root, there, gw_module_state_dict(root, here));
    gw_tensor *x = leaf(root, gw_randn(root, GW_F32, 5, 3, 4)), *grads[2];
    for (int i = 0; i < 2; i++) {
        gw_scope *s = gw_scope_open(root);
        gw_module *m = i ? there : here;
        gw_lstm_result a = gw_nn_lstm_call(s, m, x);
        gw_lstm_result b = gw_nn_lstm_call(s, m, x, .h0 = a.h, .c0 = a.c);
        gw_backward(s, gw_sum(s, gw_mul(s, b.output, b.output)));
        grads[i] = gw_keep(root, gw_grad(s, x));
        gw_scope_close_up(s);
    }
    assert_same(root, grads[0], grads[1]);
}

static void states_carry_gradients_from_call_to_call(void **state) {
    (void)state;
    run(train_in_parts);
}

// ---- Bags ---------------------------------------------------------------------------------------
static void train_bags(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_map *options = gw_map_open(s), *sparse = gw_map_open(s);
    gw_map_put(s, options, "mode", "sum");
    gw_map_put(s, sparse, "sparse", 1);
    gw_module *sum = gw_nn_embedding_bag(s, 9, 3, .mode = GW_BAG_SUM);
    gw_module *mean = gw_nn_embedding_bag(s, 9, 3, .sparse = true);
    gw_module *remote_sum = gw_module_remote(s, 1, "gw.nn.embedding_bag", 9, 3, options),
              *remote_mean = gw_module_remote(s, 1, "gw.nn.embedding_bag", 9, 3, sparse);
    gw_tensor *index = gw_from(s, ((int64_t[]){ 8, 0, 3, 3, 1 }), 5),
              *offsets = gw_from(s, ((int64_t[]){ 0, 2, 2 }), 3),
              *weights = leaf(s, gw_randn(s, GW_F32, 5)),
              *square = gw_from(s, ((int64_t[]){ 8, 0, 3, 3 }), 2, 2);
    const sample all[] = {
        { sum, remote_sum, call_bag, { index, offsets, weights } },
        { mean, remote_mean, call_bag, { index, offsets } },
        { mean, remote_mean, call_bag, { square } },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) train_both(s, &all[i]);
    assert_same(s, gw_module_call(s, mean, square), gw_module_call(s, remote_mean, square));
    gw_map_put(s, options, "mode", "least");
    gw_module_call(s, gw_module_remote(s, 1, "gw.nn.embedding_bag", 9, 3, options), square);
    assert_failed(s, GW_INVALID, "w1: gw.nn.embedding_bag: \"least\" is not a mode");
}

static void bags_take_offsets_and_weights(void **state) {
    (void)state;
    run(train_bags);
}

// ---- Attention ----------------------------------------------------------------------------------
// T 3, S 5, N 2, E 8.
static void train_attention(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_map *other = gw_map_open(s), *own = gw_map_open(s), *feedforward = gw_map_open(s);
    gw_map_put(s, other, "vdim", 4);
    gw_map_put(s, own, "add_bias_kv", true);
    gw_map_put(s, own, "add_zero_attn", true);
    gw_map_put(s, feedforward, "feedforward", 8);
    gw_map_put(s, feedforward, "dropout", 0);
    gw_module *one = gw_nn_multihead_attention(s, 8, 2),
              *two = gw_nn_multihead_attention(s, 8, 2, .vdim = 4),
              *three =
                  gw_nn_multihead_attention(s, 8, 2, .add_bias_kv = true, .add_zero_attn = true),
              *encoder = gw_nn_transformer_encoder_layer(s, 8, 2, .feedforward = 8, .dropout = 0);
    gw_module *remote_one = gw_module_remote(s, 1, "gw.nn.multihead_attention", 8, 2),
              *remote_two = gw_module_remote(s, 1, "gw.nn.multihead_attention", 8, 2, other),
              *remote_three = gw_module_remote(s, 1, "gw.nn.multihead_attention", 8, 2, own),
              *remote_encoder =
                  gw_module_remote(s, 1, "gw.nn.transformer_encoder_layer", 8, 2, feedforward);
    gw_tensor *q = leaf(s, gw_randn(s, GW_F32, 3, 2, 8)),
              *k = leaf(s, gw_randn(s, GW_F32, 5, 2, 8)),
              *v = leaf(s, gw_randn(s, GW_F32, 5, 2, 4)),
              *padding = gw_from(s, ((bool[]){ 0, 0, 0, 0, 1, 0, 0, 0, 1, 1 }), 2, 5),
              *mask = gw_randn(s, GW_F32, 3, 5), *square = gw_randn(s, GW_F32, 3, 3);
    const sample all[] = {
        { one, remote_one, call_attention, { q, k, k, padding, mask } },
        { one, remote_one, call_attention, { q, q, q, NULL, square } },
        { one, remote_one, call_attention_only, { q, k, k } },
        { two, remote_two, call_attention, { q, k, v, padding } },
        { three, remote_three, call_attention, { q, k, k, padding, mask } },
        { encoder, remote_encoder, call_encoder, { q, square } },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) train_both(s, &all[i]);
}

static void attention_takes_query_key_and_value(void **state) {
    (void)state;
    run(train_attention);
}

// ---- Classes of programs, modules of modules ----------------------------------------------------
static gw_tensor *negate(gw_scope *s, gw_module *m, gw_tensor *x, void *context) {
    (void)m, (void)context;
    return gw_neg(s, x);
}

static gw_module *typed_gru_open(gw_scope *own, const gw_args *a) {
    (void)a;
    gw_module *m = gw_nn_gru(own, 4, 6);
    gw_module_register_forward_pre_hook(own, m, negate, NULL);
    return m;
}
GW_MODULE(typed_gru, typed_gru_open);

// A module of this worker whose part is a remote module, owned by the caller.
static gw_module *typed_mirror_open(gw_scope *own, const gw_args *a) {
    return gw_module_from_rref(own, gw_arg_rref(own, a, 0));
}
GW_MODULE(typed_mirror, typed_mirror_open, "rref");

static void call_programs_class(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_module *here = gw_nn_gru(s, 4, 6), *there = gw_module_remote(s, 1, "typed_gru");
    gw_module *twice = gw_module_remote(s, 1, "typed_mirror", gw_module_rref(s, there));
    gw_module_load_state_dict(s, there, gw_module_state_dict(s, here));
    gw_tensor *x = gw_randn(s, GW_F32, 5, 3, 4), *h = gw_randn(s, GW_F32, 1, 3, 6);
    gw_rnn_result a = gw_nn_gru_call(s, here, gw_neg(s, x), .h0 = h);
    gw_module *const all[] = { there, twice };
    for (int i = 0; i < 2; i++) {
        gw_rnn_result b = gw_nn_gru_call(s, all[i], x, .h0 = h);
        assert_same(s, a.output, b.output);
        assert_same(s, a.h, b.h);
    }
}

static void classes_of_programs_have_them_with_their_hooks(void **state) {
    (void)state;
    run(call_programs_class);
}

// ---- User modules -----------------------------------------------------------------------
// A model of indices and offsets, which returns scores and the bags of the indices.
static gw_value tagger_forward(gw_scope *s, gw_module *m, const gw_args *a) {
    gw_tensor *indices = gw_arg_tensor(s, a, 0), *offsets = gw_arg_tensor_or_null(s, a, 1);
    gw_tensor *bags =
        gw_nn_embedding_bag_call(s, gw_module_child(s, m, "words"), indices, .offsets = offsets);
    gw_list *out = gw_list_open(s);
    gw_list_add(s, out, gw_module_call(s, gw_module_child(s, m, "tags"), bags));
    gw_list_add(s, out, bags);
    return gw_value_of(out);
}

static gw_module *open_tagger(gw_scope *s) {
    gw_module *m = gw_module_open(s, "tagger", tagger_forward, NULL);
    gw_module_register_module(s, m, "words", gw_nn_embedding_bag(s, 9, 3));
    gw_module_register_module(s, m, "tags", gw_nn_linear(s, 3, 4));
    return m;
}

static gw_module *typed_tagger_open(gw_scope *own, const gw_args *a) {
    (void)a;
    return open_tagger(own);
}
GW_MODULE(typed_tagger, typed_tagger_open);

static outputs call_tagger(gw_scope *s, gw_module *m, gw_tensor *const *in) {
    gw_list *v = gw_list_of(s, gw_module_call_value(s, m, in[0], in[1]));
    assert_ok(s);
    return (outputs){ { gw_tensor_of(s, gw_list_get(s, v, 0)),
                        gw_tensor_of(s, gw_list_get(s, v, 1)) } };
}

static void train_own(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_module *here = open_tagger(s), *there = gw_module_remote(s, 1, "typed_tagger");
    gw_tensor *index = gw_from(s, ((int64_t[]){ 8, 0, 3, 3, 1 }), 5),
              *offsets = gw_from(s, ((int64_t[]){ 0, 2, 2 }), 3),
              *square = gw_from(s, ((int64_t[]){ 8, 0, 3, 3 }), 2, 2);
    const sample both[] = {
        { here, there, call_tagger, { index, offsets } },
        { here, there, call_tagger, { square } },
    };
    for (int i = 0; i < 2; i++) train_both(s, &both[i]);
    assert_same(s, gw_module_call(s, here, square), gw_module_call(s, there, square));
    gw_module_call_value(s, there, index, 2.5);
    assert_failed(s, GW_INVALID, "w1: typed_tagger.call: tagger: argument 1 is float, not tensor");
    gw_module_call_value(s, there);
    assert_failed(s, GW_INVALID, "w1: typed_tagger.call: tagger: argument 0 is missing");
}

static void user_modules_may_have_several_inputs_and_outputs(void **state) {
    (void)state;
    run(train_own);
}

// A layer by values, here and there: in the order of its header.
static void call_layers_by_value(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_module *here = gw_nn_lstm(s, 4, 6), *there = gw_module_remote(s, 1, "gw.nn.lstm", 4, 6);
    gw_module *linear = gw_module_remote(s, 1, "gw.nn.linear", 4, 6);
    gw_module_load_state_dict(s, there, gw_module_state_dict(s, here));
    gw_tensor *x = gw_randn(s, GW_F32, 5, 3, 4), *h = gw_randn(s, GW_F32, 1, 3, 6);
    gw_lstm_result r = gw_nn_lstm_call(s, here, x, .h0 = h, .c0 = h);
    gw_module *const all[] = { here, there };
    for (int i = 0; i < 2; i++) {
        gw_list *v = gw_list_of(s, gw_module_call_value(s, all[i], x, h, h));
        assert_same(s, r.output, gw_tensor_of(s, gw_list_get(s, v, 0)));
        assert_same(s, r.c, gw_tensor_of(s, gw_list_get(s, v, 2)));
    }
    assert_int_equal(gw_module_call_value(s, linear, x).kind, GW_TENSOR);
    gw_module_call_value(s, linear, x, h);
    assert_failed(s, GW_INVALID, "w1: gw.nn.linear.call: linear takes one tensor, not 2 values");
    gw_nn_lstm_call(s, linear, x);
    assert_failed(s, GW_INVALID, "w1: gw.nn.linear.call: gw_nn_lstm_call: the module is");
}

static void layers_are_called_by_value(void **state) {
    (void)state;
    run(call_layers_by_value);
}

static gw_tensor *halve(gw_scope *s, gw_module *m, gw_tensor *x, gw_tensor *y, void *context) {
    (void)m, (void)x, (void)context;
    return gw_mul(s, y, 0.5);
}

static void call_without_waiting(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_module *all[] = { gw_nn_lstm(s, 4, 6), gw_module_remote(s, 1, "gw.nn.lstm", 4, 6) };
    gw_module_load_state_dict(s, all[1], gw_module_state_dict(s, all[0]));
    gw_tensor *x = gw_randn(s, GW_F32, 5, 3, 4), *h = gw_randn(s, GW_F32, 1, 3, 6);
    gw_lstm_result r = gw_nn_lstm_call(s, all[0], x, .h0 = h, .c0 = h);
    for (int hooked = 0; hooked < 2; hooked++) {
        for (int i = 0; i < 2; i++) {
            gw_future *f = gw_module_call_value_async(s, all[i], x, h, h);
            gw_list *v = gw_list_of(s, gw_wait(s, f));
            gw_tensor *y = gw_tensor_of(s, gw_list_get(s, v, 0));
            assert_same(s, hooked ? gw_mul(s, r.output, 0.5) : r.output, y);
            assert_same(s, r.h, gw_tensor_of(s, gw_list_get(s, v, 1)));
            gw_module_register_forward_hook(s, all[i], halve, NULL);
        }
    }
    gw_wait(s, gw_module_call_value_async(s, all[1], 3));
    assert_failed(s, GW_INVALID, "lstm has hooks, but its first input is not a tensor");
}

static void calls_by_value_need_not_wait(void **state) {
    (void)state;
    run(call_without_waiting);
}

// ---- Errors -------------------------------------------------------------------------------------
static gw_tensor *give_nothing(gw_scope *s, gw_module *m, gw_tensor *x) {
    (void)s, (void)m, (void)x;
    return NULL;
}
static gw_tensor *lose_it(gw_scope *s, gw_module *m, gw_tensor *x) {
    (void)s, (void)m;
    gw_scope *other = gw_scope_open(NULL);
    gw_fail(other, GW_INVALID, "lost");
    gw_tensor *y = gw_keep(s, gw_neg(other, x));
    assert_int_equal(gw_scope_close(other).status, GW_INVALID);
    return y;
}
static gw_module *typed_nothing_open(gw_scope *own, const gw_args *a) {
    return gw_module_open(own, "nothing", gw_arg_bool(own, a, 0) ? give_nothing : lose_it, NULL);
}
GW_MODULE(typed_nothing, typed_nothing_open, "bool");

typedef struct typed_odd {
    int n;
} typed_odd;
GW_CLASS(typed_odd, typed_odd_open);
static void typed_odd_open(gw_scope *own, typed_odd *self, const gw_args *a) {
    (void)own, (void)self, (void)a;
}
GW_METHOD(typed_odd, forward, GW_POOL, "tensor") {
    (void)s, (void)self, (void)a;
    return gw_none();
}
GW_METHOD(typed_odd, call, GW_POOL, "string, list, list?") {
    (void)self, (void)a;
    return gw_value_of(gw_list_open(s));
}

static void go_wrong(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_tensor *x = gw_ones(s, GW_F32, 5, 3, 4);
    gw_module *lstm = gw_module_remote(s, 1, "gw.nn.lstm", 4, 6);
    gw_nn_gru_call(s, lstm, x);
    assert_failed(s, GW_INVALID, "w1: gw.nn.lstm.call: gw_nn_gru_call: the module is \"lstm\"");
    gw_lstm_result r = gw_nn_lstm_call(s, lstm, x, .h0 = x);
    assert_ptr_equal(r.h, r.output);  // poison, all of them
    assert_failed(s, GW_INVALID, "w1: gw.nn.lstm.call: gw_nn_lstm: h0 is ");
    gw_nn_lstm_call(s, lstm, NULL);
    assert_failed(s, GW_INVALID, "gw_nn_lstm_call: the first input is NULL");
    gw_nn_lstm_call(s, NULL, x);
    assert_failed(s, GW_INVALID, "gw_nn_lstm_call: no module");
    gw_module_call(s, gw_module_remote(s, 1, "typed_nothing", false), x);
    assert_failed(
        s, GW_INVALID,
        "w1: typed_nothing.forward: nothing: the tensor was made in a scope that has failed: lost");
    gw_module_call(s, gw_module_remote(s, 1, "typed_nothing", true), x);
    assert_failed(s, GW_INVALID,
                  "w1: typed_nothing.forward: nothing: its forward returned no output");
    gw_module *odd = gw_module_remote(s, 1, "typed_odd");
    gw_module_call(s, odd, x);
    assert_failed(s, GW_INVALID, "w1: typed_odd.forward returned none, not a tensor");
    gw_nn_lstm_call(s, odd, x);
    assert_failed(s, GW_INVALID, "w1: typed_odd.call did not return a list of 3 outputs");
}

static void errors_name_the_worker_and_the_class(void **state) {
    (void)state;
    run(go_wrong);
}

// Messages that another program may send.
static void send_nonsense(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_rref *r = gw_module_rref(s, gw_module_remote(s, 1, "gw.nn.gru", 4, 6));
    gw_list *in = gw_list_open(s);
    gw_rpc_sync(s, r, "call", "no_such", in, gw_none());
    assert_failed(s, GW_NOT_FOUND, "w1: gw.nn.gru.call: no layer has a call \"no_such\"");
    gw_rpc_sync(s, r, "call", "gru", in, gw_none());
    assert_failed(s, GW_INVALID, "the first input is NULL");
    for (int i = 0; i < 4; i++) gw_list_add(s, in, gw_none());
    gw_rpc_sync(s, r, "call", "", in, gw_none());
    assert_failed(s, GW_INVALID, "\"gru\" takes at most 3 values, not 4");
    gw_rpc_sync(s, r, "call", "gru", gw_ones(s, GW_F32, 1), gw_none());
    assert_failed(s, GW_INVALID, "w1: gw.nn.gru.call: argument 1 is tensor, not list");
    gw_list *text = gw_list_open(s);
    gw_list_add(s, text, "x");
    gw_rpc_sync(s, r, "call", "", text, gw_none());
    assert_failed(s, GW_INVALID, "gru: argument 0 is string, not tensor");
    const gw_value wrong[] = { gw_value_of(4), gw_value_of(-1), gw_value_of("x") };
    const char *const words[] = { "item 4 is out of range for a list of 4 items",
                                  "item -1 is out of range for a list of 4 items", "int" };
    for (int i = 0; i < 3; i++) {
        gw_list *indices = gw_list_open(s);
        gw_list_add(s, indices, wrong[i]);
        gw_rpc_sync(s, r, "call", "gru", in, indices);
        assert_failed(s, GW_INVALID, words[i]);
    }
}

static void nonsense_is_refused(void **state) {
    (void)state;
    run(send_nonsense);
}

GW_TESTS(distributed_remote_values, recurrent_layers_take_and_give_states,
         states_carry_gradients_from_call_to_call, bags_take_offsets_and_weights,
         attention_takes_query_key_and_value, classes_of_programs_have_them_with_their_hooks,
         user_modules_may_have_several_inputs_and_outputs, layers_are_called_by_value,
         calls_by_value_need_not_wait, errors_name_the_worker_and_the_class, nonsense_is_refused);
