// One layer of a simple recurrent network over a sequence, in one direction (Elman 1990): h =
// tanh(x' + h'), or relu. See recurrent.h.
#include "tensor/dtype.h"
#include "tensor/kernels/loops.h"
#include "tensor/ops/ops.h"
#include "tensor/kernels/recurrent.h"
#include <gradwire/ops.h>

static const recurrent_form form = { .gates = 1,
                                     .c0 = -1,
                                     .weight_ih = 2,
                                     .weight_hh = 3,
                                     .bias_ih = 4,
                                     .bias_hh = -1,
                                     .lengths = 5,
                                     .reverse = 6 };
static const gate_span whole = { 0, 0, 1 };

static void infer(op_call *c) {
    int64_t sizes[3];
    if (recurrent_check(c, &form, sizes))
        op_output(c, (gw_dtype)arg_tensor(c->args, 0)->dtype, 3, sizes);
}

// One loop over |count| numbers; |b| may be NULL.
static void run_loop(const recurrent *r, loop l, const void *a, const void *b, void *out,
                     int64_t count) {
    ew_row row = { .out = out, .n = count };
    row.in[0] = a;
    row.in[1] = b;
    row.step[0] = row.step[1] = 1;
    loop_for(l, r->dtype)(&row);
}

static bool is_relu(const gw_value *args) {
    return arg_int(args, 7);
}

// The contribution of x is in |h| already.
static void compute(op_call *c) {
    recurrent r;
    loop l = is_relu(c->args) ? LOOP_RELU : LOOP_TANH;
    if (recurrent_open(c, &form, &r) && c->outputs[0]->numel) {
        void *h = (void *)(uintptr_t)tensor_bytes(c->outputs[0]);
        recurrent_start(&r, h, 1, &whole, 1, NULL);
        for (int64_t k = 0; k < r.steps; k++) {
            int64_t t = recurrent_time(&r, k);
            void *rows = recurrent_row(&r, h, t * r.batch, r.hidden);
            const void *old = recurrent_old(&r, h, r.h0.values, k);
            recurrent_step(&r, old, rows, 1, whole);
            run_loop(&r, l, rows, NULL, rows, r.batch * r.hidden);
            for (int64_t n = 0; n < r.batch; n++)
                if (recurrent_is_over(&r, t, n))
                    memcpy(recurrent_row(&r, rows, n, r.hidden),
                           recurrent_row(&r, old, n, r.hidden), (size_t)r.hidden * r.size_bytes);
        }
    }
    recurrent_close(&r);
}

// ---- The way back -------------------------------------------------------------------------------
static void run_back(op_grad *g, const recurrent *r, const void *h, const void *d_out) {
    int64_t count = r->batch * r->hidden;
    op_call c = recurrent_call(g);
    block *room = scratch_open(&c, (1 + r->steps) * count, r->size_bytes);
    if (!room) return;
    void *dh = room->bytes, *d_rows = room->bytes + (size_t)count * r->size_bytes;
    loop l = is_relu(g->args) ? LOOP_D_RELU : LOOP_D_TANH;
    memset(dh, 0, (size_t)count * r->size_bytes);
    for (int64_t k = recurrent_steps(r) - 1; k >= 0; k--) {
        int64_t t = recurrent_time(r, k);
        void *d = recurrent_row(r, d_rows, t * r->batch, r->hidden);
        recurrent_add(r, d_out, t, dh);
        run_loop(r, l, dh, recurrent_row(r, h, t * r->batch, r->hidden), d, count);
        for (int64_t n = 0; n < r->batch; n++) {
            size_t size = (size_t)r->hidden * r->size_bytes;
            bool over = recurrent_is_over(r, t, n);
            memset(recurrent_row(r, over ? d : dh, n, r->hidden), 0, size);
        }
        recurrent_step_back(r, d, 1, whole, dh);
    }
    void *dh0 = recurrent_gradient(g, 1);
    if (dh0) memcpy(dh0, dh, (size_t)count * r->size_bytes);
    recurrent_give(g, r, d_rows, 1, &whole, 1, whole, h);
    block_release(room);
}

static void grad(op_grad *g) {
    recurrent r;
    gw_tensor *d_out = gw_contiguous(g->scope, g->d_outputs[0]);
    if (!gw_ok(g->scope)) return;
    op_call c = recurrent_call(g);
    if (recurrent_open(&c, &form, &r))
        run_back(g, &r, tensor_bytes(g->outputs[0]), tensor_bytes(d_out));
    recurrent_close(&r);
}

const op op_rnn = {
    .name = "rnn",
    .params = "x:tensor h0:tensor weight_ih:tensor weight_hh:tensor bias:tensor? lengths:tensor? "
              "reverse:bool?=false relu:bool?=false",
    .cast = OP_CAST_DOWN,
    .infer = infer,
    .compute = compute,
    .grad = grad,
    .saves = OP_SAVE_ARG(0) | OP_SAVE_ARG(1) | OP_SAVE_ARG(2) | OP_SAVE_ARG(3) | OP_SAVE_ARG(5) |
             OP_SAVE_OUT(0),
};

gw_tensor *gw_rnn_with(gw_scope *s, gw_tensor *x, gw_tensor *h0, gw_recurrent_weights w,
                       gw_recurrent_options options) {
    gw_value args[] = { gw_value_of(x),
                        gw_value_of(h0),
                        gw_value_of(w.weight_ih),
                        gw_value_of(w.weight_hh),
                        recurrent_bias(s, w),
                        value_of_optional(options.lengths),
                        gw_value_of(options.reverse),
                        gw_value_of(options.relu) };
    return op_run(s, &op_rnn, args, 8, NULL);
}
