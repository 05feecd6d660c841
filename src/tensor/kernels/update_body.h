// The loops over numbers of type T; this file is included once for each type. Where the work of a loop depends on a
// flag, the flag is a constant of the inlined loop, so that each case is a separate loop.

// ---- SGD ----------------------------------------------------------------------------------------
static void NAME(sgd)(const void *options, const update *u) {
    const gw_sgd_options *c = options;
    const T *x = u->x, *grad = u->grad, *m = u->state[0];
    T *new_x = u->new_x, *new_m = u->new_state[0];
    const T lr = (T)c->lr, decay = (T)c->weight_decay, momentum = (T)c->momentum;
    const T way = c->maximize ? -1 : 1;
    const bool nesterov = c->nesterov, first = u->first & 1;
    // The first step takes the gradient as it is.
    const T keep = first ? 0 : momentum, add = first ? 1 : (T)(1 - c->dampening);
    if (!m) {
        EACH_ALONE
        for (int64_t i = 0; i < u->count; i++)
            new_x[i] = x[i] - lr * (way * grad[i] + decay * x[i]);
        return;
    }
    EACH_ALONE
    for (int64_t i = 0; i < u->count; i++) {
        T d = way * grad[i] + decay * x[i];
        T buffer = keep * m[i] + add * d;
        new_m[i] = buffer;
        new_x[i] = x[i] - lr * (nesterov ? d + momentum * buffer : buffer);
    }
}

// ---- Adam and its kin ---------------------------------------------------------------------------
// |coupled|: decay joins the gradient; |decoupled|: it shrinks the parameter first.
static inline __attribute__((always_inline)) void NAME(adam_loop)(const gw_adam_options *c,
                                                                  const update *u, double coupled,
                                                                  double decoupled, bool amsgrad) {
    const T *x = u->x, *grad = u->grad, *m = u->state[0], *v = u->state[1], *top = u->state[2];
    T *new_x = u->new_x, *new_m = u->new_state[0], *new_v = u->new_state[1];
    T *new_top = u->new_state[2];
    const T beta1 = (T)c->beta1, beta2 = (T)c->beta2, eps = (T)c->eps, way = c->maximize ? -1 : 1;
    const T add1 = (T)(1 - c->beta1), add2 = (T)(1 - c->beta2);
    const T rate = (T)(c->lr / (1 - pow(c->beta1, (double)u->step)));
    const T scale = (T)sqrt(1 - pow(c->beta2, (double)u->step));
    const T decay = (T)coupled, shrink = (T)(1 - c->lr * decoupled);
    EACH_ALONE
    for (int64_t i = 0; i < u->count; i++) {
        T d = way * grad[i] + decay * x[i];
        T mean = beta1 * m[i] + add1 * d;
        T square = beta2 * v[i] + add2 * d * d;
        T largest = square;
        new_m[i] = mean;
        new_v[i] = square;
        if (amsgrad) new_top[i] = largest = top[i] > square ? top[i] : square;
        new_x[i] = shrink * x[i] - rate * mean / (ROOT(largest) / scale + eps);
    }
}

static void NAME(adam)(const void *options, const update *u) {
    const gw_adam_options *c = options;
    if (c->amsgrad)
        NAME(adam_loop)(c, u, c->weight_decay, 0, true);
    else
        NAME(adam_loop)(c, u, c->weight_decay, 0, false);
}

static void NAME(adamw)(const void *options, const update *u) {
    const gw_adam_options *c = options;
    if (c->amsgrad)
        NAME(adam_loop)(c, u, 0, c->weight_decay, true);
    else
        NAME(adam_loop)(c, u, 0, c->weight_decay, false);
}

static void NAME(sparse_adam)(const void *options, const update *u) {
    const gw_sparse_adam_options *c = options;
    const T *x = u->x, *grad = u->grad, *m = u->state[0], *v = u->state[1];
    T *new_x = u->new_x, *new_m = u->new_state[0], *new_v = u->new_state[1];
    const T way = c->maximize ? -1 : 1, eps = (T)c->eps;
    const T add1 = (T)(1 - c->beta1), add2 = (T)(1 - c->beta2);
    const T rate = (T)(c->lr * sqrt(1 - pow(c->beta2, (double)u->step)) /
                       (1 - pow(c->beta1, (double)u->step)));
    EACH_ALONE
    for (int64_t i = 0; i < u->count; i++) {
        T d = way * grad[i];
        T mean = m[i] + (d - m[i]) * add1;
        T square = v[i] + (d * d - v[i]) * add2;
        new_m[i] = mean;
        new_v[i] = square;
        new_x[i] = x[i] - rate * (mean / (ROOT(square) + eps));
    }
}

static void NAME(adamax)(const void *options, const update *u) {
    const gw_adamax_options *c = options;
    const T *x = u->x, *grad = u->grad, *m = u->state[0], *norm = u->state[1];
    T *new_x = u->new_x, *new_m = u->new_state[0], *new_norm = u->new_state[1];
    const T beta1 = (T)c->beta1, add1 = (T)(1 - c->beta1), beta2 = (T)c->beta2, eps = (T)c->eps;
    const T decay = (T)c->weight_decay, way = c->maximize ? -1 : 1;
    const T rate = (T)(c->lr / (1 - pow(c->beta1, (double)u->step)));
    EACH_ALONE
    for (int64_t i = 0; i < u->count; i++) {
        T d = way * grad[i] + decay * x[i];
        T mean = beta1 * m[i] + add1 * d;
        T old = beta2 * norm[i], size = ABS(d) + eps;
        T largest = old > size ? old : size;
        new_m[i] = mean;
        new_norm[i] = largest;
        new_x[i] = x[i] - rate * mean / largest;
    }
}

// ---- By sums and means of squares ---------------------------------------------------------------
static void NAME(adagrad)(const void *options, const update *u) {
    const gw_adagrad_options *c = options;
    const T *x = u->x, *grad = u->grad, *sum = u->state[0];
    T *new_x = u->new_x, *new_sum = u->new_state[0];
    const T decay = (T)c->weight_decay, eps = (T)c->eps, way = c->maximize ? -1 : 1;
    const T rate = (T)(c->lr / (1 + (double)(u->step - 1) * c->lr_decay));
    EACH_ALONE
    for (int64_t i = 0; i < u->count; i++) {
        T d = way * grad[i] + decay * x[i];
        T total = sum[i] + d * d;
        new_sum[i] = total;
        new_x[i] = x[i] - rate * d / (ROOT(total) + eps);
    }
}

static void NAME(adadelta)(const void *options, const update *u) {
    const gw_adadelta_options *c = options;
    const T *x = u->x, *grad = u->grad, *v = u->state[0], *moved = u->state[1];
    T *new_x = u->new_x, *new_v = u->new_state[0], *new_moved = u->new_state[1];
    const T lr = (T)c->lr, rho = (T)c->rho, add = (T)(1 - c->rho), eps = (T)c->eps;
    const T decay = (T)c->weight_decay, way = c->maximize ? -1 : 1;
    EACH_ALONE
    for (int64_t i = 0; i < u->count; i++) {
        T d = way * grad[i] + decay * x[i];
        T square = rho * v[i] + add * d * d;
        T delta = ROOT(moved[i] + eps) / ROOT(square + eps) * d;
        new_v[i] = square;
        new_moved[i] = rho * moved[i] + add * delta * delta;
        new_x[i] = x[i] - lr * delta;
    }
}

static inline __attribute__((always_inline)) void
NAME(rmsprop_loop)(const gw_rmsprop_options *c, const update *u, bool centered, bool moves) {
    const T *x = u->x, *grad = u->grad, *v = u->state[0], *mean = u->state[1], *m = u->state[2];
    T *new_x = u->new_x, *new_v = u->new_state[0], *new_mean = u->new_state[1];
    T *new_m = u->new_state[2];
    const T lr = (T)c->lr, alpha = (T)c->alpha, add = (T)(1 - c->alpha), eps = (T)c->eps;
    const T decay = (T)c->weight_decay, momentum = (T)c->momentum, way = c->maximize ? -1 : 1;
    EACH_ALONE
    for (int64_t i = 0; i < u->count; i++) {
        T d = way * grad[i] + decay * x[i];
        T square = alpha * v[i] + add * d * d, variance = square;
        new_v[i] = square;
        if (centered) {
            T average = alpha * mean[i] + add * d;
            new_mean[i] = average;
            variance = square - average * average;
        }
        T size = ROOT(variance) + eps;
        if (moves) {
            T buffer = momentum * m[i] + d / size;
            new_m[i] = buffer;
            new_x[i] = x[i] - lr * buffer;
        } else {
            new_x[i] = x[i] - lr * d / size;
        }
    }
}

static void NAME(rmsprop)(const void *options, const update *u) {
    const gw_rmsprop_options *c = options;
    if (c->centered && u->state[2])
        NAME(rmsprop_loop)(c, u, true, true);
    else if (c->centered)
        NAME(rmsprop_loop)(c, u, true, false);
    else if (u->state[2])
        NAME(rmsprop_loop)(c, u, false, true);
    else
        NAME(rmsprop_loop)(c, u, false, false);
}

// ---- By signs -----------------------------------------------------------------------------------
static void NAME(rprop)(const void *options, const update *u) {
    const gw_rprop_options *c = options;
    const T *x = u->x, *grad = u->grad, *previous = u->state[0], *size = u->state[1];
    T *new_x = u->new_x, *new_previous = u->new_state[0], *new_size = u->new_state[1];
    const T minus = (T)c->eta_minus, plus = (T)c->eta_plus, way = c->maximize ? -1 : 1;
    const T least = (T)c->step_size_min, most = (T)c->step_size_max;
    EACH_ALONE
    for (int64_t i = 0; i < u->count; i++) {
        T d = way * grad[i], turn = d * previous[i];
        T length = size[i] * (turn > 0 ? plus : turn < 0 ? minus : 1);
        length = length < least ? least : length;
        length = length > most ? most : length;
        // If the sign of the gradient has changed, this step does not change the element, and the next step compares
        // with 0.
        d = turn < 0 ? 0 : d;
        new_previous[i] = d;
        new_size[i] = length;
        new_x[i] = x[i] - (T)((d > 0) - (d < 0)) * length;
    }
}

#undef T
#undef ROOT
#undef ABS
#undef NAME
