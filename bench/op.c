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
        gw_scope_merge(s);
        samples_add(out, (end - start) / BATCH);
    }
}

// The whole step: forward of one node, backward, and giving everything back.
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
            gw_scope_merge(s);
        }
        samples_add(out, spent / 100);
    }
}

static void matmul(gw_scope *root, samples *out, int64_t size, int rounds) {
    gw_tensor *a = gw_randn(root, GW_F32, size, size), *b = gw_randn(root, GW_F32, size, size);
    for (int i = 0; i < rounds + 2 && gw_ok(root); i++) {
        gw_scope *s = gw_scope_open(root);
        double start = now_us();
        gw_matmul(s, a, b);
        double end = now_us();
        gw_scope_merge(s);
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
        gw_scope_merge(s);
        if (i >= 2) samples_add(out, end - start);
    }
}

const bench_case op_cases[] = {
    { "op.add_1elem_grad", 0, add_1elem_grad },
    { "autograd.one_node_backward", 0, one_node_backward },
    { "op.add_4MB", 0, add_4mb },
    { "op.matmul_64", 0, matmul_64 },
    { "op.matmul_512", 0, matmul_512 },
    { "op.matmul_2048", 0, matmul_2048 },
    { 0 },
};
