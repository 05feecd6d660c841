// Common parts of layers that read a sequence step by step: op_lstm.c, op_gru.c, op_rnn.c.
//
// x: T N E, h0: N H, weight_ih: G H by E, weight_hh: G H by H, biases: G H, where G is the number
// of gates. All products with x are computed as one product for the whole sequence, as are the products for the
// derivatives of the weights; only the product with h is computed at each step.
//
// An observation whose sequence has ended keeps its state: h does not change at such a time. So the state after the
// last step is the state at the sequence's own end; in reverse, each sequence begins at its own end.
#ifndef TENSOR_KERNELS_RECURRENT_H
#define TENSOR_KERNELS_RECURRENT_H

#include "tensor/kernels/blas.h"
#include "tensor/dense.h"
#include <gradwire/ops.h>

// The rows of a weight that lead to columns of the gates.
typedef struct gate_span {
    int64_t column, row, count;  // in H
} gate_span;

// Where a row of the table has its arguments; -1: it has none.
typedef struct recurrent_form {
    int gates;
    int c0, weight_ih, weight_hh, bias_ih, bias_hh, lengths, reverse;  // x and h0 are 0 and 1
} recurrent_form;

typedef struct recurrent {
    const recurrent_form *form;
    gw_dtype dtype;
    size_t size_bytes;                 // of a number
    int64_t steps, batch, in, hidden;  // T N E H
    bool reverse;
    const int64_t *lengths;  // of each observation; NULL: T
    dense x, h0, c0, weight_ih, weight_hh, bias_ih, bias_hh, length_values;
} recurrent;

// For infer: whether shapes and dtypes fit; else the call has failed. |out_sizes| is T N H.
bool recurrent_check(op_call *c, const recurrent_form *form, int64_t out_sizes[3]);

// For compute, and for grad through recurrent_call. Close it also after a failed opening.
bool recurrent_open(op_call *c, const recurrent_form *form, recurrent *r);
void recurrent_close(recurrent *r);
op_call recurrent_call(const op_grad *g);

// Steps that compute something: none where states have no numbers, however long the sequence is.
static inline int64_t recurrent_steps(const recurrent *r) {
    return r->batch && r->hidden ? r->steps : 0;
}
// The time of step |k|.
static inline int64_t recurrent_time(const recurrent *r, int64_t k) {
    return r->reverse ? r->steps - 1 - k : k;
}
static inline bool recurrent_is_over(const recurrent *r, int64_t t, int64_t n) {
    return r->lengths && t >= r->lengths[n];
}
// Row |i| of rows of |length| numbers.
static inline void *recurrent_row(const recurrent *r, const void *rows, int64_t i, int64_t length) {
    return (uint8_t *)(uintptr_t)rows + (size_t)(i * length) * r->size_bytes;
}
static inline const void *recurrent_old(const recurrent *r, const void *states, const void *first,
                                        int64_t k) {
    return k ? recurrent_row(r, states, recurrent_time(r, k - 1) * r->batch, r->hidden) : first;
}

// Writes the contributions of x and the biases into |rows| (T N) of |width| H numbers. |hh|: where
// bias_hh goes; NULL: nowhere.
void recurrent_start(const recurrent *r, void *rows, int64_t width, const gate_span *ih,
                     int ih_count, const gate_span *hh);

// Adds the contribution of the state |h| (N H) to N such rows.
void recurrent_step(const recurrent *r, const void *h, void *rows, int64_t width, gate_span hh);

// The same on the way back: dh += the contribution of N rows of gradients.
void recurrent_step_back(const recurrent *r, const void *d_rows, int64_t width, gate_span hh,
                         void *dh);

// dh += d_out (T N H; NULL: 0) at |t|.
void recurrent_add(const recurrent *r, const void *d_out, int64_t t, void *dh);

// Gives all arguments but h0 and c0 their gradients, from those of the gates, d_rows (T N), and the
// states (T N H).
void recurrent_give(op_grad *g, const recurrent *r, const void *d_rows, int64_t width,
                    const gate_span *ih, int ih_count, gate_span hh, const void *states);

// A new tensor like argument |i|, as its gradient. NULL if none is wanted, or with the scope
// failed.
void *recurrent_gradient(op_grad *g, int i);

gw_value recurrent_bias(gw_scope *s, gw_recurrent_weights w);  // the sum of both

#endif
