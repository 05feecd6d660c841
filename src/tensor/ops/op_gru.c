// One layer of a GRU over a sequence, in one direction (Cho et al. 2014). See recurrent.h.
#include "tensor/dtype.h"
#include "tensor/kernels/loops.h"
#include "tensor/ops/ops.h"
#include "tensor/kernels/recurrent.h"
#include <gradwire/ops.h>

static const recurrent_form form = { .gates = 3,
                                     .c0 = -1,
                                     .weight_ih = 2,
                                     .weight_hh = 3,
                                     .bias_ih = 4,
                                     .bias_hh = 5,
                                     .lengths = 6,
                                     .reverse = 7 };

// The values for the way back, and its gradients, lie as x r z m at each time of each observation (see
// recurrent_loops.h); rows of the weights are r z n, where n is x of the input and m of the state.
enum { WIDTH = 4 };
static const gate_span of_input[] = { { 1, 0, 2 }, { 0, 2, 1 } }, of_state = { 1, 0, 3 };

static void infer(op_call *c) {
    int64_t sizes[3];
    if (!recurrent_check(c, &form, sizes)) return;
    gw_dtype dtype = (gw_dtype)arg_tensor(c->args, 0)->dtype;
    op_output(c, dtype, 3, sizes);
    sizes[2] *= WIDTH;
    op_output(c, dtype, 3, sizes);
}

static void run_step(const recurrent *r, int64_t k, void *h, void *trace) {
    const loops *l = loops_get();
    int64_t t = recurrent_time(r, k), size = r->hidden;
    void *rows = recurrent_row(r, trace, t * r->batch, WIDTH * size);
    const void *old = recurrent_old(r, h, r->h0.values, k);
    recurrent_step(r, old, rows, WIDTH, of_state);
    for (int64_t n = 0; n < r->batch; n++) {
        void *new_h = recurrent_row(r, h, t * r->batch + n, size);
        const void *old_h = recurrent_row(r, old, n, size);
        if (recurrent_is_over(r, t, n))
            memcpy(new_h, old_h, (size_t)size * r->size_bytes);
        else
            l->gru[r->dtype](size, recurrent_row(r, rows, n, WIDTH * size), old_h, new_h);
    }
}

static void compute(op_call *c) {
    recurrent r;
    if (recurrent_open(c, &form, &r) && c->outputs[0]->numel) {
        void *h = (void *)(uintptr_t)tensor_bytes(c->outputs[0]);
        void *trace = (void *)(uintptr_t)tensor_bytes(c->outputs[1]);
        recurrent_start(&r, trace, WIDTH, of_input, 2, &of_state);
        for (int64_t k = 0; k < r.steps; k++) run_step(&r, k, h, trace);
    }
    recurrent_close(&r);
}

// ---- The way back -------------------------------------------------------------------------------
typedef struct way_back {
    recurrent r;
    const void *h, *trace, *d_out;
    uint8_t *dh, *d_gates;
} way_back;

static void step_back(way_back *b, int64_t k) {
    const recurrent *r = &b->r;
    const loops *l = loops_get();
    int64_t t = recurrent_time(r, k), size = r->hidden;
    void *d_rows = recurrent_row(r, b->d_gates, t * r->batch, WIDTH * size);
    const void *old = recurrent_old(r, b->h, r->h0.values, k);
    recurrent_add(r, b->d_out, t, b->dh);
    for (int64_t n = 0; n < r->batch; n++) {
        void *d = recurrent_row(r, d_rows, n, WIDTH * size);
        if (recurrent_is_over(r, t, n))
            memset(d, 0, (size_t)(WIDTH * size) * r->size_bytes);
        else
            l->gru_back[r->dtype](size, recurrent_row(r, b->trace, t * r->batch + n, WIDTH * size),
                                  recurrent_row(r, old, n, size), recurrent_row(r, b->dh, n, size),
                                  d);
    }
    recurrent_step_back(r, d_rows, WIDTH, of_state, b->dh);
}

static void run_back(op_grad *g, way_back *b) {
    const recurrent *r = &b->r;
    size_t state = (size_t)(r->batch * r->hidden) * r->size_bytes;
    op_call c = recurrent_call(g);
    block *room = scratch_open(&c, (1 + WIDTH * r->steps) * r->batch * r->hidden, r->size_bytes);
    if (!room) return;
    b->dh = room->bytes;
    b->d_gates = b->dh + state;
    memset(b->dh, 0, state);
    for (int64_t k = recurrent_steps(r) - 1; k >= 0; k--) step_back(b, k);
    void *dh0 = recurrent_gradient(g, 1);
    if (dh0) memcpy(dh0, b->dh, state);
    recurrent_give(g, r, b->d_gates, WIDTH, of_input, 2, of_state, b->h);
    block_release(room);
}

static void grad(op_grad *g) {
    gw_scope *s = g->scope;
    if (!g->d_outputs[0]) return;  // the other has no user
    way_back b = { .h = tensor_bytes(g->outputs[0]), .trace = tensor_bytes(g->outputs[1]) };
    gw_tensor *d_out = gw_contiguous(s, g->d_outputs[0]);
    if (!gw_ok(s)) return;
    b.d_out = tensor_bytes(d_out);
    op_call c = recurrent_call(g);
    if (recurrent_open(&c, &form, &b.r)) run_back(g, &b);
    recurrent_close(&b.r);
}

const op op_gru = {
    .name = "gru",
    .params = "x:tensor h0:tensor weight_ih:tensor weight_hh:tensor bias_ih:tensor? "
              "bias_hh:tensor? lengths:tensor? reverse:bool?=false",
    .cast = OP_CAST_DOWN,
    .infer = infer,
    .compute = compute,
    .grad = grad,
    .saves = OP_SAVE_ARG(0) | OP_SAVE_ARG(1) | OP_SAVE_ARG(2) | OP_SAVE_ARG(3) | OP_SAVE_ARG(6) |
             OP_SAVE_OUT(0) | OP_SAVE_OUT(1),
};

gw_tensor *gw_gru_with(gw_scope *s, gw_tensor *x, gw_tensor *h0, gw_recurrent_weights w,
                       gw_recurrent_options options) {
    gw_value args[] = { gw_value_of(x),
                        gw_value_of(h0),
                        gw_value_of(w.weight_ih),
                        gw_value_of(w.weight_hh),
                        value_of_optional(w.bias_ih),
                        value_of_optional(w.bias_hh),
                        value_of_optional(options.lengths),
                        gw_value_of(options.reverse) };
    return op_run(s, &op_gru, args, 8, NULL);
}
