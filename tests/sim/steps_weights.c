#include "steps.h"

#include "testing/testing.h"

#include <math.h>
#include <string.h>

steps_world *steps_now;

// ---- Functions of owners ------------------------------------------------------------------------
GW_FUNCTION(steps_weight, GW_INLINE, "") {
    return gw_value_of(gw_rref_open(s, steps_now->weights[gw_rpc_self(s).rank]));
}

GW_FUNCTION(steps_forward, GW_INLINE, "tensor") {
    return gw_value_of(gw_add(s, steps_now->weights[gw_rpc_self(s).rank], gw_arg_tensor(s, a, 0)));
}

typedef struct steps_holder {
    int rank;
} steps_holder;
GW_CLASS(steps_holder, open_holder, close_holder, NULL);

static gw_tensor *open_weight(gw_scope *s, const steps_world *w, int rank);

static void open_holder(gw_scope *own, steps_holder *self, const gw_args *a) {
    (void)a;
    self->rank = gw_rpc_self(own).rank;
    steps_now->weights[self->rank] = open_weight(own, steps_now, self->rank);
}

static void close_holder(steps_holder *self) {
    steps_now->weights[self->rank] = NULL;
}

GW_METHOD(steps_holder, weight, GW_INLINE, "") {
    return gw_value_of(gw_rref_open(s, steps_now->weights[self->rank]));
}

GW_METHOD(steps_holder, forward, GW_POOL, "tensor") {
    return gw_value_of(gw_add(s, steps_now->weights[self->rank], gw_arg_tensor(s, a, 0)));
}

GW_FUNCTION(steps_object, GW_INLINE, "") {
    return gw_value_of(steps_now->objects[gw_rpc_self(s).rank]);
}

static bool has_weight(const steps_world *w, int rank) {
    return w->has_own || rank >= w->trainer_count;
}

static gw_tensor *open_weight(gw_scope *s, const steps_world *w, int rank) {
    double start = w->is_numbers ? 1 + 0.3 * rank : 0;
    return gw_requires_grad(s, gw_full(s, GW_F64, start, STEPS_SIZE));
}

void steps_open_weight(gw_scope *own, steps_world *w, int rank) {
    if (!has_weight(w, rank)) return;
    if (w->in_objects && rank >= w->trainer_count)
        w->objects[rank] = gw_remote(own, rank, "steps_holder");
    else
        w->weights[rank] = open_weight(own, w, rank);
}

// ---- Trainers -----------------------------------------------------------------------------------
static gw_optimizer *open_rule(gw_scope *s, const steps_world *w, gw_list *params) {
    bool concurrent = w->concurrent;
    if (!w->is_numbers) return gw_sgd(s, params, .lr = 1, .concurrent = concurrent);
    if (w->rule % 2) return gw_adam(s, params, .lr = 0.1, .concurrent = concurrent);
    return gw_sgd(s, params, .lr = 0.01, .momentum = 0.9, .concurrent = concurrent);
}

static gw_value weight_of(gw_scope *s, const steps_world *w, int owner) {
    if (!w->in_objects) return gw_rpc_sync(s, owner, "steps_weight");
    return gw_rpc_sync(s, gw_rref_of(s, gw_rpc_sync(s, owner, "steps_object")), "weight");
}

static gw_tensor *forward(gw_scope *s, const steps_world *w, int owner, gw_tensor *x) {
    if (!w->in_objects) return gw_tensor_of(s, gw_rpc_sync(s, owner, "steps_forward", x));
    gw_rref *object = gw_rref_of(s, gw_rpc_sync(s, owner, "steps_object"));
    return gw_tensor_of(s, gw_rpc_sync(s, object, "forward", x));
}

gw_optimizer *steps_open_optimizer(gw_scope *s, const steps_world *w, int trainer,
                                   uint64_t owners) {
    gw_list *params = gw_list_open(s);
    if (w->has_own) gw_list_add(s, params, w->weights[trainer]);
    for (int i = w->trainer_count; i < w->worker_count; i++)
        if (owners >> i & 1) gw_list_add_with(s, params, weight_of(s, w, i));
    return open_rule(s, w, params);
}

static gw_tensor *open_input(gw_scope *s) {
    return gw_from(s, ((double[]){ 0.5, -0.25, 2.0 }), STEPS_SIZE);
}

static gw_tensor *loss_of(gw_scope *s, const steps_world *w, gw_tensor *y, double gradient) {
    return gw_sum(s, w->is_numbers ? gw_mul(s, y, y) : gw_mul(s, y, gradient));
}

static double bit(int trainer, int n) {
    return ldexp(1, trainer * STEPS_TRIES_MAX + n);
}

void steps_walk(gw_scope *s, const steps_world *w, int trainer, int n, uint64_t owners,
                gw_optimizer *opt) {
    gw_tensor *x = open_input(s), *loss = gw_zeros(s, GW_F64, 1);
    double gradient = w->by_rate ? 1 : bit(trainer, n);
    if (w->by_rate && !w->is_numbers) gw_optimizer_set_lr(s, opt, bit(trainer, n));
    for (int i = 0; i < w->worker_count && gw_ok(s); i++) {
        if (i != trainer && !(i >= w->trainer_count && owners >> i & 1)) continue;
        if (i == trainer && !w->has_own) continue;
        gw_tensor *y = i == trainer ? gw_add(s, w->weights[i], x) : forward(s, w, i, x);
        loss = gw_add(s, loss, loss_of(s, w, y, gradient));
    }
    gw_backward(s, gw_sum(s, loss));
}

// ---- The same in one process --------------------------------------------------------------------
static void note_numbers(steps_world *w, gw_tensor *const *weights, int n) {
    for (int i = 0; i < w->worker_count; i++)
        memcpy(w->numbers[i][n], gw_data(weights[i]), sizeof w->numbers[i][n]);
}

void steps_compute_numbers(steps_world *w) {
    gw_scope *root = gw_scope_open(NULL);
    gw_tensor *weights[STEPS_WORKERS_MAX];
    gw_list *params = gw_list_open(root);
    for (int i = 0; i < w->worker_count; i++) {
        weights[i] = open_weight(root, w, i);
        gw_list_add(root, params, weights[i]);
    }
    gw_optimizer *opt = open_rule(root, w, params);
    note_numbers(w, weights, 0);
    for (int n = 1; n <= STEPS_TRIES_MAX; n++) {
        gw_scope *s = gw_scope_open(root);
        gw_tensor *x = open_input(s), *loss = gw_zeros(s, GW_F64, 1);
        for (int i = 0; i < w->worker_count; i++)
            loss = gw_add(s, loss, loss_of(s, w, gw_add(s, weights[i], x), 0));
        gw_backward(s, gw_sum(s, loss));
        gw_optimizer_step(s, opt);
        gw_scope_close_up(s);
        note_numbers(w, weights, n);
    }
    gw_error none = gw_scope_close(root);
    assert_string_equal(none.text, "");
}

// ---- Outcomes -----------------------------------------------------------------------------------
void steps_record_outcome(steps_world *w, int trainer, int n, uint64_t ranks, outcome v) {
    for (int i = 0; i < w->worker_count; i++)
        if (ranks >> i & 1) w->outcomes[trainer][n][i] = v;
}

// Bits: the tries that have been committed, as a number.
static uint64_t committed(const steps_world *w, int rank) {
    const double *x = gw_data(w->weights[rank]);
    uint64_t bits = (uint64_t)-x[0];
    for (int i = 0; i < STEPS_SIZE; i++)
        if (x[i] != -(double)bits)
            fail_msg("the weight of worker %d is %.17g and %.17g", rank, x[0], x[i]);
    return bits;
}

static void check_bits(const steps_world *w, int rank, int trainer) {
    uint64_t bits = committed(w, rank);
    for (int n = 0; n < STEPS_TRIES_MAX; n++) {
        outcome v = w->outcomes[trainer][n][rank];
        bool is_set = bits >> (trainer * STEPS_TRIES_MAX + n) & 1;
        if (v != MAYBE && is_set != (v == YES))
            fail_msg("try %d of worker %d has%s been committed by worker %d, which has %llx", n,
                     trainer, is_set ? "" : " not", rank, (unsigned long long)bits);
    }
}

// Numbers: the number of steps whose result the weight is; -1: none.
static int step_of(const steps_world *w, int rank) {
    for (int n = 0; n <= STEPS_TRIES_MAX; n++)
        if (!memcmp(gw_data(w->weights[rank]), w->numbers[rank][n], sizeof w->numbers[rank][n]))
            return n;
    return -1;
}

static void check_numbers(const steps_world *w, int rank) {
    int least = 0, most = 0, step = step_of(w, rank);
    for (int n = 0; n < STEPS_TRIES_MAX; n++) {
        outcome v = w->outcomes[0][n][rank];
        least += v == YES;
        most += v == YES || v == MAYBE;
    }
    if (step < least || step > most)
        fail_msg("worker %d is at step %d, and not from %d to %d", rank, step, least, most);
}

void steps_check(const steps_world *w, int rank, int trainer) {
    if (!has_weight(w, rank)) return;
    for (int t = 0; t < w->trainer_count && !w->is_numbers; t++)
        if (trainer < 0 || t == trainer) check_bits(w, rank, t);
    if (w->is_numbers) check_numbers(w, rank);
}

void steps_check_agreement(const steps_world *w, int a, int b) {
    bool may = false, differ = false;
    for (int t = 0; t < w->trainer_count; t++) {
        for (int n = 0; n < STEPS_TRIES_MAX; n++) {
            outcome va = w->outcomes[t][n][a], vb = w->outcomes[t][n][b];
            differ |= va != vb;
            if (w->is_numbers || va == NOT_TRIED || vb == NOT_TRIED) continue;
            may |= ((committed(w, a) ^ committed(w, b)) >> (t * STEPS_TRIES_MAX + n)) & 1;
        }
    }
    if (w->is_numbers && !differ) may = step_of(w, a) != step_of(w, b);
    if (may) fail_msg("workers %d and %d do not agree on a step whose trainer is lost", a, b);
}
