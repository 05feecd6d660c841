// One layer of an LSTM over a sequence, in one direction (Hochreiter, Schmidhuber 1997). See
// recurrent.h.
#include "tensor/dtype.h"
#include "tensor/kernels/loops.h"
#include "tensor/ops/ops.h"
#include "tensor/kernels/recurrent.h"
#include <gradwire/ops.h>

static const recurrent_form form = { .gates = 4,
                                     .c0 = 2,
                                     .weight_ih = 3,
                                     .weight_hh = 4,
                                     .bias_ih = 5,
                                     .bias_hh = -1,
                                     .lengths = 6,
                                     .reverse = 7 };

// The values for the way back lie in one block, the second output: at each time c, i, f, g, o of each
// observation.
enum { TRACE_WIDTH = 5, GATES_WIDTH = 4 };
static const gate_span trace_gates = { 1, 0, 4 }, gates = { 0, 0, 4 };

static void infer(op_call *c) {
    int64_t sizes[3];
    if (!recurrent_check(c, &form, sizes)) return;
    gw_dtype dtype = (gw_dtype)arg_tensor(c->args, 0)->dtype;
    op_output(c, dtype, 3, sizes);
    sizes[2] *= TRACE_WIDTH;
    op_output(c, dtype, 3, sizes);
}

// Of all observations at the time of step |k|.
static void run_step(const recurrent *r, int64_t k, void *h, void *trace) {
    const loops *l = loops_get();
    int64_t t = recurrent_time(r, k), size = r->hidden;
    int64_t old_t = k ? recurrent_time(r, k - 1) : 0;
    void *rows = recurrent_row(r, trace, t * r->batch, TRACE_WIDTH * size);
    recurrent_step(r, recurrent_old(r, h, r->h0.values, k), rows, TRACE_WIDTH, trace_gates);
    for (int64_t n = 0; n < r->batch; n++) {
        void *c = recurrent_row(r, rows, n, TRACE_WIDTH * size);
        void *new_h = recurrent_row(r, h, t * r->batch + n, size);
        const void *old_c = k ? recurrent_row(r, trace, old_t * r->batch + n, TRACE_WIDTH * size)
                              : recurrent_row(r, r->c0.values, n, size);
        if (recurrent_is_over(r, t, n)) {
            const void *old_h = recurrent_old(r, h, r->h0.values, k);
            memcpy(new_h, recurrent_row(r, old_h, n, size), (size_t)size * r->size_bytes);
            memcpy(c, old_c, (size_t)size * r->size_bytes);
        } else {
            l->lstm[r->dtype](size, recurrent_row(r, c, 1, size), old_c, c, new_h);
        }
    }
}

static void compute(op_call *c) {
    recurrent r;
    if (recurrent_open(c, &form, &r) && c->outputs[0]->numel) {
        void *h = (void *)(uintptr_t)tensor_bytes(c->outputs[0]);
        void *trace = (void *)(uintptr_t)tensor_bytes(c->outputs[1]);
        recurrent_start(&r, trace, TRACE_WIDTH, &trace_gates, 1, NULL);
        for (int64_t k = 0; k < r.steps; k++) run_step(&r, k, h, trace);
    }
    recurrent_close(&r);
}

// ---- The way back -------------------------------------------------------------------------------
typedef struct way_back {
    recurrent r;
    const void *h, *trace, *d_out, *d_trace;  // d_out, d_trace may be NULL
    uint8_t *dh, *dc, *d_gates;
} way_back;

static void add_to_c(const recurrent *r, const void *d_trace, int64_t t, void *dc) {
    for (int64_t n = 0; n < r->batch; n++) {
        const void *from = recurrent_row(r, d_trace, t * r->batch + n, TRACE_WIDTH * r->hidden);
        void *to = recurrent_row(r, dc, n, r->hidden);
        for (int64_t i = 0; r->dtype == GW_F32 && i < r->hidden; i++)
            ((float *)to)[i] += ((const float *)from)[i];
        for (int64_t i = 0; r->dtype == GW_F64 && i < r->hidden; i++)
            ((double *)to)[i] += ((const double *)from)[i];
    }
}

static void step_back(way_back *b, int64_t k) {
    const recurrent *r = &b->r;
    const loops *l = loops_get();
    int64_t t = recurrent_time(r, k), old_t = k ? recurrent_time(r, k - 1) : 0, size = r->hidden;
    void *d_rows = recurrent_row(r, b->d_gates, t * r->batch, GATES_WIDTH * size);
    recurrent_add(r, b->d_out, t, b->dh);
    if (b->d_trace) add_to_c(r, b->d_trace, t, b->dc);
    for (int64_t n = 0; n < r->batch; n++) {
        const void *c = recurrent_row(r, b->trace, t * r->batch + n, TRACE_WIDTH * size);
        const void *old_c = k ? recurrent_row(r, b->trace, old_t * r->batch + n, TRACE_WIDTH * size)
                              : recurrent_row(r, r->c0.values, n, size);
        void *d = recurrent_row(r, d_rows, n, GATES_WIDTH * size);
        void *dh = recurrent_row(r, b->dh, n, size);
        if (recurrent_is_over(r, t, n)) {
            memset(d, 0, (size_t)(GATES_WIDTH * size) * r->size_bytes);
        } else {
            l->lstm_back[r->dtype](size, recurrent_row(r, c, 1, size), old_c, c, dh,
                                   recurrent_row(r, b->dc, n, size), d);
            memset(dh, 0, (size_t)size * r->size_bytes);
        }
    }
    recurrent_step_back(r, d_rows, GATES_WIDTH, gates, b->dh);
}

// The gradients of h0 and c0, which are left after the first step.
static void give_states(op_grad *g, way_back *b) {
    const recurrent *r = &b->r;
    size_t size = (size_t)(r->batch * r->hidden) * r->size_bytes;
    void *dh0 = recurrent_gradient(g, 1), *dc0 = recurrent_gradient(g, 2);
    if (dh0) memcpy(dh0, b->dh, size);
    if (dc0) memcpy(dc0, b->dc, size);
}

static void run_back(op_grad *g, way_back *b) {
    const recurrent *r = &b->r;
    size_t state = (size_t)(r->batch * r->hidden) * r->size_bytes;
    op_call c = recurrent_call(g);
    int64_t count = (2 + GATES_WIDTH * r->steps) * r->batch * r->hidden;
    block *room = scratch_open(&c, count, r->size_bytes);
    if (!room) return;
    b->dh = room->bytes;
    b->dc = b->dh + state;
    b->d_gates = b->dc + state;
    memset(b->dh, 0, 2 * state);
    for (int64_t k = recurrent_steps(r) - 1; k >= 0; k--) step_back(b, k);
    give_states(g, b);
    recurrent_give(g, r, b->d_gates, GATES_WIDTH, &gates, 1, gates, b->h);
    block_release(room);
}

static void grad(op_grad *g) {
    gw_scope *s = g->scope;
    way_back b = { .h = tensor_bytes(g->outputs[0]), .trace = tensor_bytes(g->outputs[1]) };
    gw_tensor *d_out = g->d_outputs[0] ? gw_contiguous(s, g->d_outputs[0]) : NULL;
    gw_tensor *d_trace = g->d_outputs[1] ? gw_contiguous(s, g->d_outputs[1]) : NULL;
    if (!gw_ok(s)) return;
    b.d_out = d_out ? tensor_bytes(d_out) : NULL;
    b.d_trace = d_trace ? tensor_bytes(d_trace) : NULL;
    op_call c = recurrent_call(g);
    if (recurrent_open(&c, &form, &b.r)) run_back(g, &b);
    recurrent_close(&b.r);
}

const op op_lstm = {
    .name = "lstm",
    .params = "x:tensor h0:tensor c0:tensor weight_ih:tensor weight_hh:tensor bias:tensor? "
              "lengths:tensor? reverse:bool?=false",
    .cast = OP_CAST_DOWN,
    .infer = infer,
    .compute = compute,
    .grad = grad,
    .saves = OP_SAVE_ARG(0) | OP_SAVE_ARG(1) | OP_SAVE_ARG(2) | OP_SAVE_ARG(3) | OP_SAVE_ARG(4) |
             OP_SAVE_ARG(6) | OP_SAVE_OUT(0) | OP_SAVE_OUT(1),
};

gw_tensor *gw_lstm_with(gw_scope *s, gw_tensor *x, gw_tensor *h0, gw_tensor *c0,
                        gw_recurrent_weights w, gw_recurrent_options options) {
    gw_value args[] = { gw_value_of(x),
                        gw_value_of(h0),
                        gw_value_of(c0),
                        gw_value_of(w.weight_ih),
                        gw_value_of(w.weight_hh),
                        recurrent_bias(s, w),
                        value_of_optional(options.lengths),
                        gw_value_of(options.reverse) };
    gw_tensor *trace, *h = op_run(s, &op_lstm, args, 8, &trace);
    if (options.out_c)
        *options.out_c =
            gw_ok(s) ? gw_slice(s, trace, 2, 0, gw_size(h0, 1), 1) : tensor_poison_of(s);
    return h;
}
