// The loops that compute losses element by element, and apply masks to numbers, for one type of number. This file is
// included once for each type, with ELEMENT and NAMED(name) defined; it undefines these macros.

// The loss of each number, with x, t and beta in the statements that set |loss|.
#define LOSS(name, ...)                                                                            \
    static void NAMED(name)(const void *values, const void *targets, int64_t n, double parameter,  \
                            void *losses) {                                                        \
        const ELEMENT *numbers = values, *others = targets, beta = (ELEMENT)parameter;             \
        ELEMENT *restrict out = losses;                                                            \
        (void)beta;                                                                                \
        for (int64_t i = 0; i < n; i++) {                                                          \
            ELEMENT x = numbers[i], t = others[i], loss;                                           \
            __VA_ARGS__                                                                            \
            out[i] = loss;                                                                         \
        }                                                                                          \
    }

LOSS(mse, {
    ELEMENT apart = x - t;
    loss = apart * apart;
})

// -t ln sigmoid(x) - (1 - t) ln(1 - sigmoid(x)), so that e^x never overflows, and an infinite x has
// an infinite loss.
LOSS(bce, {
    ELEMENT one = x > 0 ? 1 : 0, size = x > 0 ? x : -x;
    loss = x * (one - t) + NAMED(log1p)(NAMED(exp)(-size));
})

// A parabola below beta, a line above.
LOSS(smooth_l1, {
    ELEMENT apart = x - t, size = apart > 0 ? apart : -apart, half = (ELEMENT)0.5;
    loss = size < beta ? half * size * size / beta : size - half * beta;
})

LOSS(l1, {
    ELEMENT apart = x - t;
    loss = apart > 0 ? apart : -apart;
})

// t (ln t - x), and 0 of nothing.
LOSS(kl_div, {
    ELEMENT own = t == 0 ? 0 : t * (ELEMENT)log((double)t);
    loss = own - t * x;
})

// The same, given ln t.
LOSS(kl_div_log, loss = NAMED(exp)(t) * (t - x);)

// NaN and infinity times 0 stay NaN and infinity, as in PyTorch.
static void NAMED(apply_mask)(const void *values, const uint8_t *mask, double scale, int64_t n,
                              void *masked) {
    const ELEMENT *x = values, factor = (ELEMENT)scale;
    ELEMENT *restrict out = masked;
    for (int64_t i = 0; i < n; i++) out[i] = x[i] * ((ELEMENT)mask[i] * factor);
}

#undef LOSS
#undef ELEMENT
#undef NAMED
