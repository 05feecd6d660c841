// Backward passes and optimizer steps across two processes, with the workloads of bench/peers and PyTorch's own tests.
#include "bench.h"

enum { WARM = 50 };

// y = t1 + t2 on the other worker, loss = sum(y * t2), gradients of both here.
static void fwd_bwd(gw_scope *root, samples *out) {
    gw_tensor *t1 = gw_requires_grad(root, gw_rand(root, GW_F32, 3, 3));
    gw_tensor *t2 = gw_requires_grad(root, gw_rand(root, GW_F32, 3, 3));
    for (int i = 0; i < 5000 + WARM && gw_ok(root); i++) {
        double start = now_us();
        gw_scope *s = gw_scope_open(root);
        gw_tensor *y = gw_tensor_of(s, gw_rpc_sync(s, "w1", "gw.add", t1, t2));
        gw_backward(s, gw_sum(s, gw_mul(s, y, t2)));
        gw_grad(s, t1);
        gw_scope_close_up(s);
        if (i >= WARM) samples_add(out, now_us() - start);
    }
}

// The step alone, of SGD over one parameter that lives on the other worker.
static void optim_step(gw_scope *root, samples *out) {
    gw_module *far = gw_module_remote(root, "w1", "gw.nn.linear", 3, 3);
    gw_optimizer *opt = gw_sgd(root, gw_parameters(root, far), .lr = 0.01);
    gw_tensor *x = gw_rand(root, GW_F32, 3, 3);
    for (int i = 0; i < 3000 + WARM && gw_ok(root); i++) {
        gw_scope *s = gw_scope_open(root);
        gw_backward(s, gw_sum(s, gw_module_call(s, far, x)));
        double start = now_us();
        gw_optimizer_step(s, opt);
        if (i >= WARM) samples_add(out, now_us() - start);
        gw_scope_close_up(s);
    }
}

// ---- A word model: embedding and decoder on the other worker, the LSTM here ---------------------
static gw_module *bench_table_open(gw_scope *own, const gw_args *a) {
    gw_nn_embedding_options options = GW_OPTIONS(gw_nn_embedding_options, .sparse = true);
    return gw_nn_sequential(
        own, gw_nn_embedding_with(own, gw_arg_int(own, a, 0), gw_arg_int(own, a, 1), options),
        gw_nn_dropout(own, 0.5));
}
GW_MODULE(bench_table, bench_table_open, "int, int");

static gw_module *bench_head_open(gw_scope *own, const gw_args *a) {
    return gw_nn_sequential(own, gw_nn_dropout(own, 0.5),
                            gw_nn_linear(own, gw_arg_int(own, a, 0), gw_arg_int(own, a, 1)));
}
GW_MODULE(bench_head, bench_head_open, "int, int");

typedef struct rnn_size {
    int64_t time, batch, words, embedded, hidden, layers;
} rnn_size;

static gw_tensor *draw(gw_scope *s, int64_t below, gw_tensor *uniform) {
    return gw_to_dtype(s, gw_mul(s, uniform, below), GW_I64);
}

static void rnn(gw_scope *root, samples *out, rnn_size n, int steps, int warm) {
    gw_module *table = gw_module_remote(root, "w1", "bench_table", n.words, n.embedded);
    gw_module *head = gw_module_remote(root, "w1", "bench_head", n.hidden, n.words);
    gw_nn_recurrent_options options =
        GW_OPTIONS(gw_nn_recurrent_options, .layers = (int)n.layers, .dropout = 0.5);
    gw_module *lstm = gw_nn_lstm_with(root, n.embedded, n.hidden, options);
    gw_optimizer *opt = gw_sgd(root, gw_parameters(root, table, lstm, head), .lr = 0.05);
    gw_tensor *h = gw_zeros(root, GW_F32, n.layers, n.batch, n.hidden), *c = h;
    for (int i = 0; i < steps + warm && gw_ok(root); i++) {
        gw_scope *s = gw_scope_open(root);
        gw_tensor *x = draw(s, n.words, gw_rand(s, GW_F32, n.time, n.batch));
        gw_tensor *y = draw(s, n.words, gw_rand(s, GW_F32, n.time * n.batch));
        double start = now_us();
        gw_lstm_result r = gw_nn_lstm_call(s, lstm, gw_module_call(s, table, x), .h0 = h, .c0 = c);
        gw_tensor *logits = gw_module_call(s, head, r.output);
        gw_backward(s, gw_cross_entropy(s, gw_reshape(s, logits, n.time * n.batch, n.words), y));
        gw_optimizer_step(s, opt);
        if (i >= warm) samples_add(out, now_us() - start);
        h = gw_keep(root, gw_detach(s, r.h));
        c = gw_keep(root, gw_detach(s, r.c));
        gw_scope_close_up(s);
    }
}

static void rnn_tutorial(gw_scope *root, samples *out) {
    rnn(root, out, (rnn_size){ 5, 6, 7, 2, 3, 4 }, 500, WARM);
}

static void rnn_wordlm(gw_scope *root, samples *out) {
    rnn(root, out, (rnn_size){ 35, 20, 10000, 200, 200, 2 }, 12, 2);
}

const bench_case dist_cases[] = {
    { "dist_autograd.fwd_bwd", 2, fwd_bwd },
    { "dist_optim.step", 2, optim_step },
    { "app.rnn_tutorial.step", 2, rnn_tutorial },
    { "app.rnn_wordlm.step", 2, rnn_wordlm },
    { 0 },
};
