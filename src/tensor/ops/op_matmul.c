// Products of vectors, matrices and batches of matrices: torch.matmul and
// torch.nn.functional.linear.
#include "tensor/kernels/blas.h"
#include "tensor/dense.h"
#include "tensor/dtype.h"
#include "tensor/ops/ops.h"
#include <gradwire/ops.h>

static bool check_dtypes(op_call *c, const gw_tensor *a, const gw_tensor *b) {
    if (a->dtype == GW_BOOL8 || b->dtype == GW_BOOL8) {
        op_fail(c, GW_UNSUPPORTED, "matrices of bool cannot be multiplied");
        return false;
    }
    if (a->dtype == b->dtype) return true;
    op_fail(c, GW_INVALID, "%s times %s: both must have the same dtype; gw_to_dtype converts one",
            gw_dtype_name(a->dtype), gw_dtype_name(b->dtype));
    return false;
}

// ---- One operand --------------------------------------------------------------------------------
// A batch of matrices. A vector on the left is a row, on the right a column.
typedef struct operand {
    dense copy;
    matrix first;
    int batch_dims;
    int64_t rows, columns;
    int64_t sizes[GW_DIMS_MAX], strides[GW_DIMS_MAX];  // of the batch
} operand;

static void operand_shape(operand *o, const gw_tensor *x, bool is_left) {
    int n = x->dims;
    o->batch_dims = n > 2 ? n - 2 : 0;
    o->rows = n >= 2 ? x->sizes[n - 2] : is_left ? 1 : x->sizes[0];
    o->columns = n >= 2 ? x->sizes[n - 1] : is_left ? x->sizes[0] : 1;
    for (int i = 0; i < o->batch_dims; i++) o->sizes[i] = x->sizes[i];
}

// As it lies if products can use that, else as a copy.
static bool operand_open(op_call *c, const gw_tensor *x, bool is_left, gw_dtype type, operand *o) {
    operand_shape(o, x, is_left);
    int n = x->dims;
    matrix m = {
        .values = tensor_bytes(x),
        .row_stride = n >= 2    ? x->strides[n - 2]
                      : is_left ? 0
                                : x->strides[0],
        .column_stride = n >= 2    ? x->strides[n - 1]
                         : is_left ? x->strides[0]
                                   : 0,
    };
    o->copy = (dense){ 0 };
    o->first = m;
    if (x->dtype == type && matrix_is_fast(m, o->rows, o->columns)) {
        for (int i = 0; i < o->batch_dims; i++) o->strides[i] = x->strides[i];
        return true;
    }
    if (!dense_open(c, x, type, &o->copy)) return false;
    o->first = (matrix){ o->copy.values, o->columns, 1 };
    int64_t stride = o->rows * o->columns;
    for (int i = o->batch_dims; i-- > 0; stride *= o->sizes[i]) o->strides[i] = stride;
    return true;
}

static int64_t batch_count(const operand *o) {
    int64_t count = 1;
    for (int i = 0; i < o->batch_dims; i++) count *= o->sizes[i];
    return count;
}

// Makes one tall matrix of a batch whose rows follow each other evenly, for one product instead of
// many.
static void fold_batch(operand *o) {
    int64_t rows = o->rows, stride = o->first.row_stride;
    if (rows == 1 && o->batch_dims > 0) stride = o->strides[o->batch_dims - 1];
    for (int i = o->batch_dims; i-- > 0; rows *= o->sizes[i])
        if (o->sizes[i] != 1 && o->strides[i] != rows * stride) return;
    matrix tall = { o->first.values, stride, o->first.column_stride };
    if (!matrix_is_fast(tall, rows, o->columns)) return;
    o->first = tall;
    o->rows = rows;
    o->batch_dims = 0;
}

// ---- matmul -------------------------------------------------------------------------------------
static void infer_matmul(op_call *c) {
    const gw_tensor *a = arg_tensor(c->args, 0), *b = arg_tensor(c->args, 1);
    operand left, right;
    int64_t sizes[GW_DIMS_MAX];
    if (!check_dtypes(c, a, b)) return;
    if (a->dims && b->dims) {
        operand_shape(&left, a, true);
        operand_shape(&right, b, false);
    }
    if (!a->dims || !b->dims) {
        op_fail(c, GW_INVALID, "%s times %s: both must have at least one dimension",
                shape_text(a).text, shape_text(b).text);
        return;
    }
    if (left.columns != right.rows) {
        op_fail(c, GW_INVALID, "%s times %s: the %lld columns of a must be the %lld rows of b",
                shape_text(a).text, shape_text(b).text, (long long)left.columns,
                (long long)right.rows);
        return;
    }
    int dims = left.batch_dims > right.batch_dims ? left.batch_dims : right.batch_dims;
    for (int i = 0; i < dims; i++) {
        int ia = i - (dims - left.batch_dims), ib = i - (dims - right.batch_dims);
        int64_t of_a = ia < 0 ? 1 : left.sizes[ia], of_b = ib < 0 ? 1 : right.sizes[ib];
        if (of_a != of_b && of_a != 1 && of_b != 1) {
            op_fail(c, GW_INVALID,
                    "%s times %s: the dimensions before the matrices must be equal or 1",
                    shape_text(a).text, shape_text(b).text);
            return;
        }
        sizes[i] = of_a == 1 ? of_b : of_a;
    }
    if (a->dims > 1) sizes[dims++] = left.rows;
    if (b->dims > 1) sizes[dims++] = right.columns;
    op_output(c, (gw_dtype)a->dtype, dims, sizes);
}

// The operand's matrix for number |index| of the batch of |dims| sizes |sizes|.
static matrix matrix_at(const operand *o, gw_dtype type, int dims, const int64_t *sizes,
                        int64_t index) {
    int64_t offset = 0;
    for (int i = dims; i-- > 0; index /= sizes[i]) {
        int own = i - (dims - o->batch_dims);
        if (own >= 0 && o->sizes[own] != 1) offset += index % sizes[i] * o->strides[own];
    }
    matrix m = o->first;
    m.values = (const uint8_t *)m.values + offset * (int64_t)gw_dtype_size(type);
    return m;
}

static void multiply_batch(const operand *a, const operand *b, gw_dtype type, uint8_t *out) {
    int dims = a->batch_dims > b->batch_dims ? a->batch_dims : b->batch_dims;
    int64_t sizes[GW_DIMS_MAX], count = 1;
    for (int i = 0; i < dims; i++) {
        int ia = i - (dims - a->batch_dims), ib = i - (dims - b->batch_dims);
        sizes[i] = ia >= 0 && a->sizes[ia] != 1 ? a->sizes[ia] : ib >= 0 ? b->sizes[ib] : 1;
        count *= sizes[i];
    }
    size_t step = (size_t)(a->rows * b->columns) * gw_dtype_size(type);
    for (int64_t i = 0; i < count; i++)
        blas_multiply(type, a->rows, b->columns, a->columns, matrix_at(a, type, dims, sizes, i),
                      matrix_at(b, type, dims, sizes, i), out + (size_t)i * step, b->columns,
                      false);
}

static void compute_matmul(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0), *y = arg_tensor(c->args, 1);
    if (c->outputs[0]->numel == 0) return;
    // Small integers are multiplied as i64 and cut off at the end, which wraps around just the same.
    gw_dtype type = dtype_compute_wide((gw_dtype)x->dtype);
    operand a, b;
    result out;
    if (!operand_open(c, x, true, type, &a)) return;
    if (!operand_open(c, y, false, type, &b)) goto close_a;
    if (!result_open(c, 0, type, &out)) goto close_b;
    if (batch_count(&b) == 1) {
        fold_batch(&a);
        if (a.batch_dims == 0) b.batch_dims = 0;
    }
    multiply_batch(&a, &b, type, out.values);
    result_close(&out);
close_b:
    dense_close(&b.copy);
close_a:
    dense_close(&a.copy);
}

static int64_t row_count(const gw_tensor *x) {
    int64_t count = 1;
    for (int i = 0; i < x->dims - 1; i++) count *= x->sizes[i];
    return count;
}

// dA = dC B^T and dB = A^T dC, with vectors as the matrices they stood for.
static void grad_matmul(op_grad *g) {
    gw_scope *s = g->scope;
    gw_tensor *a = arg_tensor(g->args, 0), *b = arg_tensor(g->args, 1), *d = g->d_outputs[0];
    gw_tensor *left = a->dims == 1 ? gw_unsqueeze(s, a, 0) : a;
    gw_tensor *right = b->dims == 1 ? gw_unsqueeze(s, b, 1) : b;
    if (b->dims == 1) d = gw_unsqueeze(s, d, -1);
    if (a->dims == 1) d = gw_unsqueeze(s, d, -2);
    if (g->wanted[0]) {
        gw_tensor *da = gw_matmul(s, d, gw_transpose(s, right, -2, -1));
        da = unbroadcast(s, da, left);
        g->d_inputs[0] = a->dims == 1 ? gw_squeeze(s, da, 0) : da;
    }
    if (g->wanted[1]) {
        // One product over all rows of the batch instead of one for each, added up.
        if (right->dims == 2 && left->dims > 2) {
            int64_t rows = row_count(left);
            left = gw_reshape(s, left, rows, right->sizes[0]);
            d = gw_reshape(s, d, rows, right->sizes[1]);
        }
        gw_tensor *db = unbroadcast(s, gw_matmul(s, gw_transpose(s, left, -2, -1), d), right);
        g->d_inputs[1] = b->dims == 1 ? gw_squeeze(s, db, 1) : db;
    }
}

const op op_matmul = {
    .name = "matmul",
    .params = "a:tensor b:tensor",
    .cast = OP_CAST_DOWN,
    .infer = infer_matmul,
    .compute = compute_matmul,
    .grad = grad_matmul,
    .saves = OP_SAVE_ARG(0) | OP_SAVE_ARG(1),
};

gw_tensor *gw_matmul(gw_scope *s, gw_tensor *a, gw_tensor *b) {
    gw_value args[] = { gw_value_of(a), gw_value_of(b) };
    return op_run(s, &op_matmul, args, 2, NULL);
}

// ---- linear -------------------------------------------------------------------------------------
// x: ... F, weight: O F, bias: O
static void infer_linear(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0), *w = arg_tensor(c->args, 1);
    const gw_tensor *bias = arg_tensor(c->args, 2);
    if (!check_dtypes(c, x, w)) return;
    if (x->dims == 0 || w->dims != 2 || x->sizes[x->dims - 1] != w->sizes[1]) {
        op_fail(c, GW_INVALID, "x is %s and weight %s, but x must be ... F and the weight O F",
                shape_text(x).text, shape_text(w).text);
        return;
    }
    if (bias && (bias->dtype != x->dtype || bias->dims != 1 || bias->sizes[0] != w->sizes[0])) {
        op_fail(c, GW_INVALID,
                "bias is %s of %s and weight %s of %s, but bias must be O, of the same dtype, for "
                "a weight O F",
                shape_text(bias).text, gw_dtype_name(bias->dtype), shape_text(w).text,
                gw_dtype_name(w->dtype));
        return;
    }
    int64_t sizes[GW_DIMS_MAX];
    memcpy(sizes, x->sizes, x->dims * sizeof *sizes);
    sizes[x->dims - 1] = w->sizes[0];
    op_output(c, (gw_dtype)x->dtype, x->dims, sizes);
}

// All rows of |x| as one matrix, copied if they do not lie evenly.
static bool open_rows(op_call *c, const gw_tensor *x, gw_dtype type, operand *o) {
    if (!operand_open(c, x, true, type, o)) return false;
    fold_batch(o);
    if (o->batch_dims == 0) return true;
    if (!dense_open(c, x, type, &o->copy)) return false;
    o->rows *= batch_count(o);
    o->batch_dims = 0;
    o->first = (matrix){ o->copy.values, o->columns, 1 };
    return true;
}

static void compute_linear(op_call *c) {
    const gw_tensor *bias = arg_tensor(c->args, 2);
    if (c->outputs[0]->numel == 0) return;
    gw_dtype type = dtype_compute_wide((gw_dtype)c->outputs[0]->dtype);
    operand x, w;
    dense row = { 0 };
    result out;
    if (!open_rows(c, arg_tensor(c->args, 0), type, &x)) return;
    if (!operand_open(c, arg_tensor(c->args, 1), false, type, &w)) goto close_x;
    if (bias && !dense_open(c, bias, type, &row)) goto close_w;
    if (!result_open(c, 0, type, &out)) goto close_row;

    size_t row_bytes = (size_t)w.rows * gw_dtype_size(type);
    for (int64_t i = 0; bias && i < x.rows; i++)
        memcpy((uint8_t *)out.values + (size_t)i * row_bytes, row.values, row_bytes);
    matrix turned = { w.first.values, w.first.column_stride, w.first.row_stride };
    blas_multiply(type, x.rows, w.rows, w.columns, x.first, turned, out.values, w.rows, bias);
    result_close(&out);
close_row:
    dense_close(&row);
close_w:
    dense_close(&w.copy);
close_x:
    dense_close(&x.copy);
}

static void grad_linear(op_grad *g) {
    gw_scope *s = g->scope;
    gw_tensor *x = arg_tensor(g->args, 0), *w = arg_tensor(g->args, 1), *d = g->d_outputs[0];
    int64_t n = row_count(d);
    gw_tensor *rows = gw_reshape(s, d, n, w->sizes[0]);
    if (g->wanted[0]) g->d_inputs[0] = gw_matmul(s, d, w);
    if (g->wanted[1])
        g->d_inputs[1] =
            gw_matmul(s, gw_transpose(s, rows, 0, 1), gw_reshape(s, x, n, w->sizes[1]));
    if (arg_tensor(g->args, 2) && g->wanted[2]) g->d_inputs[2] = gw_sum(s, rows, .dim = 0);
}

const op op_linear = {
    .name = "linear",
    .params = "x:tensor weight:tensor bias:tensor?",
    .cast = OP_CAST_DOWN,
    .infer = infer_linear,
    .compute = compute_linear,
    .grad = grad_linear,
    .saves = OP_SAVE_ARG(0) | OP_SAVE_ARG(1),
};

gw_tensor *gw_linear(gw_scope *s, gw_tensor *x, gw_tensor *weight, gw_tensor *bias) {
    gw_value args[] = { gw_value_of(x), gw_value_of(weight), value_of_optional(bias) };
    return op_run(s, &op_linear, args, 3, NULL);
}
