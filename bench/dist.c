// Backward passes and optimizer steps across two processes, on the work that bench/peers and PyTorch's own tests do.
#include "bench.h"

enum { WARM = 50 };

typedef struct bench_parameter {
    gw_tensor *w;
} bench_parameter;

GW_CLASS(bench_parameter, open_parameter);
static void open_parameter(gw_scope *own, bench_parameter *self, const gw_args *a) {
    (void)a;
    self->w = gw_requires_grad(own, gw_rand(own, GW_F32, 3, 3));
}
GW_METHOD(bench_parameter, add, GW_INLINE, "tensor") {
    return gw_value_of(gw_add(s, self->w, gw_arg_tensor(s, a, 0)));
}

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
        gw_scope_merge(s);
        if (i >= WARM) samples_add(out, now_us() - start);
    }
}

const bench_case dist_cases[] = {
    { "dist_autograd.fwd_bwd", 2, fwd_bwd },
    { 0 },
};
