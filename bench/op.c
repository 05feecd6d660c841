// Operators and backward, in one process.
#include "bench.h"

enum { BATCHES = 400, BATCH = 1000 };

static void add_1elem_grad(gw_scope *root, samples *out) {
    gw_tensor *x = gw_requires_grad(root, gw_ones(root, GW_F32, 1)), *y = gw_ones(root, GW_F32, 1);
    for (int i = 0; i < BATCHES && gw_ok(root); i++) {
        gw_scope *s = gw_scope_open(root);
        double start = now_us();
        for (int j = 0; j < BATCH; j++) gw_add(s, x, y);
        double end = now_us();
        gw_scope_close_up(s);
        samples_add(out, (end - start) / BATCH);
    }
}

// The whole step: forward of one node, backward, and release of all handles.
static void one_node_backward(gw_scope *root, samples *out) {
    gw_tensor *x = gw_requires_grad(root, gw_ones(root, GW_F32, 1)), *y = gw_ones(root, GW_F32, 1);
    for (int i = 0; i < BATCHES && gw_ok(root); i++) {
        double spent = 0;
        for (int j = 0; j < 100; j++) {
            gw_scope *s = gw_scope_open(root);
            gw_tensor *z = gw_add(s, x, y);
            double start = now_us();
            gw_backward(s, z);
            spent += now_us() - start;
            gw_scope_close_up(s);
        }
        samples_add(out, spent / 100);
    }
}

// A parameter: |rows| times |columns|, or |rows| if that is 1, as a layer of 200 starts.
static gw_tensor *weight(gw_scope *root, int64_t rows, int64_t columns) {
    gw_tensor *x = gw_sub(root, gw_mul(root, gw_rand(root, GW_F32, rows, columns), 0.14), 0.07);
    return gw_requires_grad(root, columns == 1 ? gw_reshape(root, x, rows) : x);
}

static void matmul(gw_scope *root, samples *out, int64_t size, int rounds) {
    gw_tensor *a = gw_randn(root, GW_F32, size, size), *b = gw_randn(root, GW_F32, size, size);
    for (int i = 0; i < rounds + 2 && gw_ok(root); i++) {
        gw_scope *s = gw_scope_open(root);
        double start = now_us();
        gw_matmul(s, a, b);
        double end = now_us();
        gw_scope_close_up(s);
        if (i >= 2) samples_add(out, end - start);
    }
}

static void matmul_64(gw_scope *root, samples *out) {
    matmul(root, out, 64, 2000);
}
static void matmul_512(gw_scope *root, samples *out) {
    matmul(root, out, 512, 300);
}
static void matmul_2048(gw_scope *root, samples *out) {
    matmul(root, out, 2048, 9);
}

static void add_4mb(gw_scope *root, samples *out) {
    gw_tensor *a = gw_randn(root, GW_F32, 1 << 20), *b = gw_randn(root, GW_F32, 1 << 20);
    for (int i = 0; i < 202 && gw_ok(root); i++) {
        gw_scope *s = gw_scope_open(root);
        double start = now_us();
        gw_add(s, a, b);
        double end = now_us();
        gw_scope_close_up(s);
        if (i >= 2) samples_add(out, end - start);
    }
}

// Forward and backward of two layers of an LSTM, as a word model has them.
static void lstm_35x20x200_l2(gw_scope *root, samples *out) {
    enum { STEPS = 35, BATCH_SIZE = 20, SIZE = 200, LAYERS = 2, ROUNDS = 30 };
    gw_recurrent_weights w[LAYERS];
    for (int i = 0; i < LAYERS; i++)
        w[i] = (gw_recurrent_weights){
            .weight_ih = weight(root, 4 * SIZE, SIZE),
            .weight_hh = weight(root, 4 * SIZE, SIZE),
            .bias_ih = weight(root, 4 * SIZE, 1),
            .bias_hh = weight(root, 4 * SIZE, 1),
        };
    gw_tensor *x = gw_requires_grad(root, gw_randn(root, GW_F32, STEPS, BATCH_SIZE, SIZE));
    gw_tensor *zeros = gw_zeros(root, GW_F32, BATCH_SIZE, SIZE);
    gw_tensor *d = gw_randn(root, GW_F32, STEPS, BATCH_SIZE, SIZE);
    for (int i = 0; i < ROUNDS + 3 && gw_ok(root); i++) {
        gw_scope *s = gw_scope_open(root);
        double start = now_us();
        gw_tensor *h = x;
        for (int k = 0; k < LAYERS; k++) h = gw_lstm(s, h, zeros, zeros, w[k]);
        gw_backward(s, h, .gradient = d);
        double end = now_us();
        gw_scope_close_up(s);
        if (i >= 3) samples_add(out, end - start);
    }
}

// Forward and backward of the other layers of a word model, 10,000 words and 700 of them at a time.
enum { WORDS = 10000, WORD_COUNT = 700, WORD_SIZE = 200 };

static gw_tensor *some_words(gw_scope *root) {
    return gw_to_dtype(root, gw_mul(root, gw_rand(root, GW_F32, WORD_COUNT), WORDS * 0.999),
                       GW_I64);
}

static void cross_entropy_700x10000(gw_scope *root, samples *out) {
    gw_tensor *x = gw_requires_grad(root, gw_randn(root, GW_F32, WORD_COUNT, WORDS));
    gw_tensor *target = some_words(root);
    for (int i = 0; i < 23 && gw_ok(root); i++) {
        gw_scope *s = gw_scope_open(root);
        double start = now_us();
        gw_backward(s, gw_cross_entropy(s, x, target));
        double end = now_us();
        gw_scope_close_up(s);
        if (i >= 3) samples_add(out, end - start);
    }
}

static void linear_700x200x10000(gw_scope *root, samples *out) {
    gw_tensor *x = gw_requires_grad(root, gw_randn(root, GW_F32, WORD_COUNT, WORD_SIZE));
    gw_tensor *w = weight(root, WORDS, WORD_SIZE), *bias = weight(root, WORDS, 1);
    gw_tensor *d = gw_randn(root, GW_F32, WORD_COUNT, WORDS);
    for (int i = 0; i < 13 && gw_ok(root); i++) {
        gw_scope *s = gw_scope_open(root);
        double start = now_us();
        gw_backward(s, gw_linear(s, x, w, bias), .gradient = d);
        double end = now_us();
        gw_scope_close_up(s);
        if (i >= 3) samples_add(out, end - start);
    }
}

static void embedding_10000x200(gw_scope *root, samples *out, bool sparse, int rounds) {
    gw_tensor *w = weight(root, WORDS, WORD_SIZE), *at = some_words(root);
    gw_tensor *d = gw_randn(root, GW_F32, WORD_COUNT, WORD_SIZE);
    for (int i = 0; i < rounds + 3 && gw_ok(root); i++) {
        gw_scope *s = gw_scope_open(root);
        double start = now_us();
        gw_tensor *y = gw_embedding(s, w, at, .sparse = sparse);
        gw_backward(s, y, .gradient = d);
        double end = now_us();
        gw_scope_close_up(s);
        if (i >= 3) samples_add(out, end - start);
    }
}

static void embedding_sparse(gw_scope *root, samples *out) {
    embedding_10000x200(root, out, true, 200);
}
static void embedding_dense(gw_scope *root, samples *out) {
    embedding_10000x200(root, out, false, 50);
}

const bench_case op_cases[] = {
    { "op.add_1elem_grad", 0, add_1elem_grad },
    { "autograd.one_node_backward", 0, one_node_backward },
    { "op.add_4MB", 0, add_4mb },
    { "op.lstm_35x20x200_l2", 0, lstm_35x20x200_l2 },
    { "op.cross_entropy_700x10000", 0, cross_entropy_700x10000 },
    { "op.linear_700x200x10000", 0, linear_700x200x10000 },
    { "op.embedding_10000x200_sparse", 0, embedding_sparse },
    { "op.embedding_10000x200", 0, embedding_dense },
    { "op.matmul_64", 0, matmul_64 },
    { "op.matmul_512", 0, matmul_512 },
    { "op.matmul_2048", 0, matmul_2048 },
    { 0 },
};
