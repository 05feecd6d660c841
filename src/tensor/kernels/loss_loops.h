// Losses of numbers, and masks over them, for one type of number. Included once for each, with
// ELEMENT and NAMED(name) defined; undefines them.

static void NAMED(mse)(const void *values, const void *targets, int64_t n, double beta,
                       void *losses) {
    const ELEMENT *x = values, *target = targets;
    ELEMENT *restrict out = losses;
    (void)beta;
    for (int64_t i = 0; i < n; i++) {
        ELEMENT apart = x[i] - target[i];
        out[i] = apart * apart;
    }
}

// -t ln sigmoid(x) - (1 - t) ln(1 - sigmoid(x)), so that e^x never overflows, and an infinite x has
// an infinite loss.
static void NAMED(bce)(const void *values, const void *targets, int64_t n, double beta,
                       void *losses) {
    const ELEMENT *x = values, *target = targets;
    ELEMENT *restrict out = losses;
    (void)beta;
    for (int64_t i = 0; i < n; i++) {
        ELEMENT one = x[i] > 0 ? 1 : 0, size = x[i] > 0 ? x[i] : -x[i];
        out[i] = x[i] * (one - target[i]) + NAMED(log1p)(NAMED(exp)(-size));
    }
}

// A parabola below beta, a line above.
static void NAMED(smooth_l1)(const void *values, const void *targets, int64_t n, double beta,
                             void *losses) {
    const ELEMENT *x = values, *target = targets;
    ELEMENT *restrict out = losses, b = (ELEMENT)beta, half = (ELEMENT)0.5;
    for (int64_t i = 0; i < n; i++) {
        ELEMENT apart = x[i] - target[i], size = apart > 0 ? apart : -apart;
        out[i] = size < b ? half * size * size / b : size - half * b;
    }
}

static void NAMED(l1)(const void *values, const void *targets, int64_t n, double beta,
                      void *losses) {
    const ELEMENT *x = values, *target = targets;
    ELEMENT *restrict out = losses;
    (void)beta;
    for (int64_t i = 0; i < n; i++) {
        ELEMENT apart = x[i] - target[i];
        out[i] = apart > 0 ? apart : -apart;
    }
}

// t (ln t - x), and 0 of nothing.
static void NAMED(kl_div)(const void *values, const void *targets, int64_t n, double beta,
                          void *losses) {
    const ELEMENT *x = values, *target = targets;
    ELEMENT *restrict out = losses;
    (void)beta;
    for (int64_t i = 0; i < n; i++) {
        ELEMENT own = target[i] == 0 ? 0 : target[i] * (ELEMENT)log((double)target[i]);
        out[i] = own - target[i] * x[i];
    }
}

// The same, given ln t.
static void NAMED(kl_div_log)(const void *values, const void *targets, int64_t n, double beta,
                              void *losses) {
    const ELEMENT *x = values, *target = targets;
    ELEMENT *restrict out = losses;
    (void)beta;
    for (int64_t i = 0; i < n; i++) out[i] = NAMED(exp)(target[i]) * (target[i] - x[i]);
}

// NaN and infinity times 0 stay NaN and infinity, as in PyTorch.
static void NAMED(apply_mask)(const void *values, const uint8_t *mask, double scale, int64_t n,
                              void *masked) {
    const ELEMENT *x = values, factor = (ELEMENT)scale;
    ELEMENT *restrict out = masked;
    for (int64_t i = 0; i < n; i++) out[i] = x[i] * ((ELEMENT)mask[i] * factor);
}

#undef ELEMENT
#undef NAMED
