#include "tensor/kernels/recurrent.h"

#include "tensor/dtype.h"
#include "tensor/kernels/kernels.h"
#include "tensor/ops/op.h"

// ---- Arguments ----------------------------------------------------------------------------------
static bool check_shape(op_call *c, const char *name, int i, int dims, const int64_t *sizes) {
    return i < 0 || op_check_parameter(c, name, i, dims, sizes);
}

static bool check_lengths(op_call *c, const recurrent_form *f, int64_t batch) {
    const gw_tensor *lengths = arg_tensor(c->args, f->lengths);
    if (!lengths || (lengths->dtype == GW_I64 && lengths->dims == 1 && lengths->sizes[0] == batch))
        return true;
    op_fail(c, GW_INVALID, "lengths are %s of %s, but must be %lld of i64",
            shape_text(lengths).text, gw_dtype_name((gw_dtype)lengths->dtype), (long long)batch);
    return false;
}

bool recurrent_check(op_call *c, const recurrent_form *f, int64_t out_sizes[3]) {
    const gw_tensor *x = arg_tensor(c->args, 0), *h = arg_tensor(c->args, 1);
    if (x->dtype != GW_F32 && x->dtype != GW_F64) {
        op_fail(c, GW_INVALID, "x is %s, but must be f32 or f64",
                gw_dtype_name((gw_dtype)x->dtype));
        return false;
    }
    if (x->dims == 3 && x->sizes[0] == 0) {
        op_fail(c, GW_INVALID, "x is %s, a sequence without steps: it must have one or more",
                shape_text(x).text);
        return false;
    }
    if (x->dims != 3 || h->dims != 2) {
        op_fail(c, GW_INVALID, "x is %s and h0 %s, but must be T N E and N H", shape_text(x).text,
                shape_text(h).text);
        return false;
    }
    int64_t batch = x->sizes[1], hidden = h->sizes[1];
    const int64_t state[] = { batch, hidden }, ih[] = { f->gates * hidden, x->sizes[2] };
    const int64_t hh[] = { f->gates * hidden, hidden };
    out_sizes[0] = x->sizes[0];
    out_sizes[1] = batch;
    out_sizes[2] = hidden;
    return check_shape(c, "h0", 1, 2, state) && check_shape(c, "c0", f->c0, 2, state) &&
           check_shape(c, "weight_ih", f->weight_ih, 2, ih) &&
           check_shape(c, "weight_hh", f->weight_hh, 2, hh) &&
           check_shape(c, f->bias_hh < 0 ? "bias" : "bias_ih", f->bias_ih, 1, ih) &&
           check_shape(c, "bias_hh", f->bias_hh, 1, ih) && check_lengths(c, f, batch);
}

static bool open_arg(op_call *c, int i, gw_dtype dtype, dense *out) {
    const gw_tensor *x = i < 0 ? NULL : arg_tensor(c->args, i);
    return !x || !x->storage || dense_open(c, x, dtype, out);  // derivatives need no biases
}

static bool check_ends(op_call *c, const recurrent *r) {
    for (int64_t n = 0; r->lengths && n < r->batch; n++) {
        if (r->lengths[n] >= 1 && r->lengths[n] <= r->steps) continue;
        op_fail(c, GW_INVALID, "a length is %lld, but must be 1 to %lld, the number of steps",
                (long long)r->lengths[n], (long long)r->steps);
        return false;
    }
    return true;
}

// Whatever is behind an end counts for nothing, even if it is infinite.
static bool blank_padding(op_call *c, recurrent *r) {
    size_t size = (size_t)r->in * r->size_bytes;
    int64_t count = r->steps * r->batch * r->in;
    if (count == 0) return true;
    if (!r->x.copy) {
        block *copy = scratch_open(c, count, r->size_bytes);
        if (!copy) return false;
        memcpy(copy->bytes, r->x.values, (size_t)count * r->size_bytes);
        r->x = (dense){ copy->bytes, copy };
    }
    for (int64_t t = 0; t < r->steps; t++)
        for (int64_t n = 0; n < r->batch; n++)
            if (recurrent_is_over(r, t, n))
                memset(recurrent_row(r, r->x.values, t * r->batch + n, r->in), 0, size);
    return true;
}

bool recurrent_open(op_call *c, const recurrent_form *f, recurrent *r) {
    const gw_tensor *x = arg_tensor(c->args, 0);
    *r = (recurrent){
        .form = f,
        .dtype = (gw_dtype)x->dtype,
        .size_bytes = gw_dtype_size((gw_dtype)x->dtype),
        .steps = x->sizes[0],
        .batch = x->sizes[1],
        .in = x->sizes[2],
        .hidden = arg_tensor(c->args, 1)->sizes[1],
        .reverse = arg_int(c->args, f->reverse),
    };
    bool ok = open_arg(c, 0, r->dtype, &r->x) && open_arg(c, 1, r->dtype, &r->h0) &&
              open_arg(c, f->c0, r->dtype, &r->c0) &&
              open_arg(c, f->weight_ih, r->dtype, &r->weight_ih) &&
              open_arg(c, f->weight_hh, r->dtype, &r->weight_hh) &&
              open_arg(c, f->bias_ih, r->dtype, &r->bias_ih) &&
              open_arg(c, f->bias_hh, r->dtype, &r->bias_hh) &&
              open_arg(c, f->lengths, GW_I64, &r->length_values);
    r->lengths = r->length_values.values;
    return ok && check_ends(c, r) && (!r->lengths || blank_padding(c, r));
}

void recurrent_close(recurrent *r) {
    dense_close(&r->x);
    dense_close(&r->h0);
    dense_close(&r->c0);
    dense_close(&r->weight_ih);
    dense_close(&r->weight_hh);
    dense_close(&r->bias_ih);
    dense_close(&r->bias_hh);
    dense_close(&r->length_values);
}

op_call recurrent_call(const op_grad *g) {
    return (op_call){ .scope = g->scope, .op = g->op, .args = g->args, .arg_count = g->arg_count };
}

// ---- Products -----------------------------------------------------------------------------------
// Rows |row| and on of a weight, turned or not.
static matrix weight_rows(const recurrent *r, const dense *weight, int64_t row, int64_t columns,
                          bool turned) {
    const void *first = recurrent_row(r, weight->values, row * r->hidden, columns);
    return turned ? (matrix){ first, 1, columns } : (matrix){ first, columns, 1 };
}

static void *column_of(const recurrent *r, const void *rows, int64_t column) {
    return recurrent_row(r, rows, column, r->hidden);
}

static void add_row(gw_dtype dtype, void *to, const void *from, int64_t n) {
    for (int64_t i = 0; dtype == GW_F32 && i < n; i++) ((float *)to)[i] += ((const float *)from)[i];
    for (int64_t i = 0; dtype == GW_F64 && i < n; i++)
        ((double *)to)[i] += ((const double *)from)[i];
}

static void add_bias(const recurrent *r, const dense *bias, void *row, gate_span span) {
    if (bias->values)
        add_row(r->dtype, column_of(r, row, span.column), column_of(r, bias->values, span.row),
                span.count * r->hidden);
}

// The first row is made of the biases, the others are copies of it.
static void put_biases(const recurrent *r, void *rows, int64_t width, const gate_span *ih,
                       int ih_count, const gate_span *hh) {
    int64_t length = width * r->hidden;
    size_t size = (size_t)length * r->size_bytes;
    memset(rows, 0, size);
    for (int i = 0; i < ih_count; i++) add_bias(r, &r->bias_ih, rows, ih[i]);
    if (hh) add_bias(r, &r->bias_hh, rows, *hh);
    for (int64_t i = 1; i < r->steps * r->batch; i++)
        memcpy(recurrent_row(r, rows, i, length), rows, size);
}

void recurrent_start(const recurrent *r, void *rows, int64_t width, const gate_span *ih,
                     int ih_count, const gate_span *hh) {
    int64_t count = r->steps * r->batch, h = r->hidden;
    put_biases(r, rows, width, ih, ih_count, hh);
    for (int i = 0; i < ih_count; i++)
        blas_multiply(r->dtype, count, ih[i].count * h, r->in, (matrix){ r->x.values, r->in, 1 },
                      weight_rows(r, &r->weight_ih, ih[i].row, r->in, true),
                      column_of(r, rows, ih[i].column), width * h, true);
}

void recurrent_step(const recurrent *r, const void *h, void *rows, int64_t width, gate_span hh) {
    blas_multiply(r->dtype, r->batch, hh.count * r->hidden, r->hidden, (matrix){ h, r->hidden, 1 },
                  weight_rows(r, &r->weight_hh, hh.row, r->hidden, true),
                  column_of(r, rows, hh.column), width * r->hidden, true);
}

void recurrent_step_back(const recurrent *r, const void *d_rows, int64_t width, gate_span hh,
                         void *dh) {
    matrix d = { column_of(r, d_rows, hh.column), width * r->hidden, 1 };
    blas_multiply(r->dtype, r->batch, r->hidden, hh.count * r->hidden, d,
                  weight_rows(r, &r->weight_hh, hh.row, r->hidden, false), dh, r->hidden, true);
}

// ---- The way back -------------------------------------------------------------------------------
void recurrent_add(const recurrent *r, const void *d_out, int64_t t, void *dh) {
    if (!d_out) return;
    int64_t count = r->batch * r->hidden;
    add_row(r->dtype, dh, recurrent_row(r, d_out, t, count), count);
}

void *recurrent_gradient(op_grad *g, int i) {
    const gw_tensor *x = i < 0 ? NULL : arg_tensor(g->args, i);
    if (!x) return NULL;
    int at = grad_input(g, i);
    if (!g->wanted[at] || !gw_ok(g->scope)) return NULL;
    gw_tensor *d = scope_own(g->scope, tensor_new(g->scope, (gw_dtype)x->dtype, x->dims, x->sizes));
    if (!d) return NULL;
    g->d_inputs[at] = d;
    return (void *)(uintptr_t)tensor_bytes(d);
}

static void give_x(const recurrent *r, const void *d_rows, int64_t width, const gate_span *ih,
                   int ih_count, void *dx) {
    int64_t h = r->hidden;
    for (int i = 0; i < ih_count; i++) {
        matrix d = { column_of(r, d_rows, ih[i].column), width * h, 1 };
        blas_multiply(r->dtype, r->steps * r->batch, r->in, ih[i].count * h, d,
                      weight_rows(r, &r->weight_ih, ih[i].row, r->in, false), dx, r->in, i > 0);
    }
}

// The rows of |span| of a weight's gradient, from |count| rows of the gates' gradients and the inputs
// of the products.
static void give_weight(const recurrent *r, const void *d_rows, int64_t width, gate_span span,
                        const void *x, int64_t columns, int64_t count, void *dw, bool add) {
    int64_t h = r->hidden;
    matrix turned = { column_of(r, d_rows, span.column), 1, width * h };
    blas_multiply(r->dtype, span.count * h, columns, count, turned, (matrix){ x, columns, 1 },
                  recurrent_row(r, dw, span.row * h, columns), columns, add);
}

// Each step's state is that of the step before it, the first one's is h0.
static void give_weight_hh(const recurrent *r, const void *d_rows, int64_t width, gate_span hh,
                           const void *states, void *dw) {
    int64_t rest = (r->steps - 1) * r->batch, first = r->reverse ? rest : 0;
    const void *d_first = recurrent_row(r, d_rows, first, width * r->hidden);
    give_weight(r, d_first, width, hh, r->h0.values, r->hidden, r->batch, dw, false);
    if (rest == 0) return;
    const void *d_rest = recurrent_row(r, d_rows, r->reverse ? 0 : r->batch, width * r->hidden);
    const void *old = recurrent_row(r, states, r->reverse ? r->batch : 0, r->hidden);
    give_weight(r, d_rest, width, hh, old, r->hidden, rest, dw, true);
}

static void pick_columns(const recurrent *r, const void *sums, gate_span span, void *bias) {
    memcpy(column_of(r, bias, span.row), column_of(r, sums, span.column),
           (size_t)(span.count * r->hidden) * r->size_bytes);
}

static void give_biases(op_grad *g, const recurrent *r, const void *d_rows, int64_t width,
                        const gate_span *ih, int ih_count, gate_span hh) {
    void *d_ih = recurrent_gradient(g, r->form->bias_ih);
    void *d_hh = recurrent_gradient(g, r->form->bias_hh);
    if (!d_ih && !d_hh) return;
    op_call c = recurrent_call(g);
    block *sums = scratch_open(&c, width * r->hidden, r->size_bytes);
    if (!sums) return;
    kernels_get()->sum_columns[kernel_type_of(r->dtype)](d_rows, 1, r->steps * r->batch,
                                                         width * r->hidden, sums->bytes);
    for (int i = 0; d_ih && i < ih_count; i++) pick_columns(r, sums->bytes, ih[i], d_ih);
    if (d_hh) pick_columns(r, sums->bytes, hh, d_hh);
    block_release(sums);
}

void recurrent_give(op_grad *g, const recurrent *r, const void *d_rows, int64_t width,
                    const gate_span *ih, int ih_count, gate_span hh, const void *states) {
    void *dx = recurrent_gradient(g, 0);
    if (dx) give_x(r, d_rows, width, ih, ih_count, dx);
    void *dw = recurrent_gradient(g, r->form->weight_ih);
    for (int i = 0; dw && i < ih_count; i++)
        give_weight(r, d_rows, width, ih[i], r->x.values, r->in, r->steps * r->batch, dw, false);
    dw = recurrent_gradient(g, r->form->weight_hh);
    if (dw) give_weight_hh(r, d_rows, width, hh, states, dw);
    give_biases(g, r, d_rows, width, ih, ih_count, hh);
}

// Where a gate is a function of the sum of both products, so is the bias.
gw_value recurrent_bias(gw_scope *s, gw_recurrent_weights w) {
    if (!w.bias_ih || !w.bias_hh) return value_of_optional(w.bias_ih ? w.bias_ih : w.bias_hh);
    return gw_value_of(gw_add(s, w.bias_ih, w.bias_hh));
}
