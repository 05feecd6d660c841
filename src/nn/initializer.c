// torch.nn.init: values that are made anew and copied into a tensor, which may be a parameter.
#include "base/scope.h"
#include "tensor/tensor.h"

#include <gradwire/nn.h>

#include <math.h>
#include <string.h>

// ---- Common parts -------------------------------------------------------------------
// Whether |x| can be given values and has |dims| dimensions or more; fails |s| if not.
static bool may_begin(gw_scope *s, const gw_tensor *x, const char *name, int dims) {
    if (!tensor_is_given(s, name, x)) return false;
    if (gw_dtype_of(x) > GW_BF16)
        scope_fail(s, GW_INVALID, "%s: %s is not a float", name, gw_dtype_name(gw_dtype_of(x)));
    else if (x->dims < dims)
        scope_fail(s, GW_INVALID, "%s: x has %d dimensions, but must have at least %d", name,
                   x->dims, dims);
    return gw_ok(s);
}

// A scope for values, in which nothing is recorded; and its end, which copies them into |x|.
static gw_scope *begin(gw_scope *s) {
    gw_scope *t = scope_open_unrecorded(s);
    return t;
}

static gw_tensor *finish(gw_scope *s, gw_scope *t, gw_tensor *x, gw_tensor *values) {
    gw_copy_(t, x, values);
    gw_scope_close_up(t);
    return gw_ok(s) ? x : tensor_poison_of(s);
}

static gw_shape shape_of(const gw_tensor *x) {
    return (gw_shape){ x->dims, x->sizes };
}

// Numbers are drawn in the dtype of |x|, so that a seed gives each dtype its own.
static gw_tensor *uniform(gw_scope *t, const gw_tensor *x, double low, double high) {
    gw_tensor *unit = gw_rand_with(t, gw_dtype_of(x), shape_of(x));
    return gw_add(t, gw_mul(t, unit, high - low), low);
}

static gw_tensor *normal(gw_scope *t, const gw_tensor *x, double mean, double std) {
    return gw_add(t, gw_mul(t, gw_randn_with(t, gw_dtype_of(x), shape_of(x)), std), mean);
}

// ---- Constants ----------------------------------------------------------------------------------
gw_tensor *gw_init_constant(gw_scope *s, gw_tensor *x, double value) {
    if (!may_begin(s, x, "gw_init_constant", 0)) return tensor_poison_of(s);
    gw_scope *t = begin(s);
    return finish(s, t, x, gw_full(t, gw_dtype_of(x), value));
}

gw_tensor *gw_init_zeros(gw_scope *s, gw_tensor *x) {
    return gw_init_constant(s, x, 0);
}

gw_tensor *gw_init_ones(gw_scope *s, gw_tensor *x) {
    return gw_init_constant(s, x, 1);
}

gw_tensor *gw_init_eye(gw_scope *s, gw_tensor *x) {
    if (!may_begin(s, x, "gw_init_eye", 2)) return tensor_poison_of(s);
    gw_scope *t = begin(s);
    if (x->dims != 2)
        scope_fail(t, GW_INVALID, "gw_init_eye: x has %d dimensions, but must be a matrix",
                   x->dims);
    gw_tensor *ones = gw_ones_with(t, gw_dtype_of(x), shape_of(x));
    return finish(s, t, x, gw_tril(t, gw_triu(t, ones, 0), 0));
}

// Ones in the middle of the window, from input channel c of each group to its output channel c.
static gw_tensor *dirac(gw_scope *t, const gw_tensor *x, int64_t groups) {
    gw_tensor *values = gw_zeros_with(t, gw_dtype_of(x), shape_of(x));
    int64_t out = x->sizes[0] / groups, in = x->sizes[1];
    for (int64_t g = 0; g < groups && gw_ok(t); g++)
        for (int64_t c = 0; c < out && c < in; c++) {
            gw_tensor *at = gw_select(t, gw_select(t, values, 0, g * out + c), 0, c);
            for (int d = 2; d < x->dims; d++) at = gw_select(t, at, 0, x->sizes[d] / 2);
            gw_copy_(t, at, gw_ones(t, GW_F32));
        }
    return values;
}

gw_tensor *gw_init_dirac(gw_scope *s, gw_tensor *x, int64_t groups) {
    if (!may_begin(s, x, "gw_init_dirac", 3)) return tensor_poison_of(s);
    gw_scope *t = begin(s);
    if (groups < 1 || x->sizes[0] % groups != 0)
        scope_fail(t, GW_INVALID,
                   "gw_init_dirac: %lld channels cannot be divided equally among %lld groups",
                   (long long)x->sizes[0], (long long)groups);
    return finish(s, t, x, gw_ok(t) ? dirac(t, x, groups) : tensor_poison_of(s));
}

// ---- Random numbers -----------------------------------------------------------------------------
gw_tensor *(gw_init_uniform)(gw_scope *s, gw_tensor *x, double low, double high) {
    if (!may_begin(s, x, "gw_init_uniform", 0)) return tensor_poison_of(s);
    gw_scope *t = begin(s);
    return finish(s, t, x, uniform(t, x, low, high));
}

gw_tensor *(gw_init_normal)(gw_scope *s, gw_tensor *x, double mean, double std) {
    if (!may_begin(s, x, "gw_init_normal", 0)) return tensor_poison_of(s);
    gw_scope *t = begin(s);
    return finish(s, t, x, normal(t, x, mean, std));
}

// Where a normal distribution has the part |p| of itself below: a rational function in the middle,
// another one of sqrt(-2 ln p) at the ends, exact to 1.2e-9 (Acklam 2003). 0 < p < 1.
static double normal_quantile(double p) {
    static const double a[] = { -3.969683028665376e+01, 2.209460984245205e+02,
                                -2.759285104469687e+02, 1.383577518672690e+02,
                                -3.066479806614716e+01, 2.506628277459239e+00 };
    static const double b[] = { -5.447609879822406e+01, 1.615858368580409e+02,
                                -1.556989798598866e+02, 6.680131188771972e+01,
                                -1.328068155288572e+01 };
    static const double c[] = { -7.784894002430293e-03, -3.223964580411365e-01,
                                -2.400758277161838e+00, -2.549732539343734e+00,
                                4.374664141464968e+00,  2.938163982698783e+00 };
    static const double d[] = { 7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00,
                                3.754408661907416e+00 };
    if (p > 0.02425 && p < 1 - 0.02425) {
        double q = p - 0.5, r = q * q;
        double above = ((((a[0] * r + a[1]) * r + a[2]) * r + a[3]) * r + a[4]) * r + a[5];
        double below = ((((b[0] * r + b[1]) * r + b[2]) * r + b[3]) * r + b[4]) * r + 1;
        return above * q / below;
    }
    double q = sqrt(-2 * log(p < 0.5 ? p : 1 - p));
    double above = ((((c[0] * q + c[1]) * q + c[2]) * q + c[3]) * q + c[4]) * q + c[5];
    double below = (((d[0] * q + d[1]) * q + d[2]) * q + d[3]) * q + 1;
    return p < 0.5 ? above / below : -above / below;
}

static double normal_part_below(double x) {
    return 0.5 * erfc(-x * M_SQRT1_2);
}

// Uniform numbers between the probabilities of values below |a| and below |b|, back through the distribution.
static gw_tensor *truncated(gw_scope *t, const gw_tensor *x, double mean, double std, double a,
                            double b) {
    double low = normal_part_below((a - mean) / std), high = normal_part_below((b - mean) / std);
    gw_tensor *values = gw_rand_with(t, GW_F64, shape_of(x));
    double *p = gw_data_for_write(t, values);
    for (int64_t i = 0; p && gw_ok(t) && i < values->numel; i++) {
        double part = low + p[i] * (high - low);
        double value = part <= 0 ? a : part >= 1 ? b : mean + std * normal_quantile(part);
        p[i] = value < a ? a : value > b ? b : value;
    }
    return values;
}

gw_tensor *(gw_init_trunc_normal)(gw_scope *s, gw_tensor *x, double mean, double std, double a,
                                  double b) {
    if (!may_begin(s, x, "gw_init_trunc_normal", 0)) return tensor_poison_of(s);
    gw_scope *t = begin(s);
    if (!(std > 0 && a < b))
        scope_fail(t, GW_INVALID,
                   "gw_init_trunc_normal: the deviation %g must be above 0, and the bound %g below "
                   "the bound %g",
                   std, a, b);
    return finish(s, t, x, gw_ok(t) ? truncated(t, x, mean, std, a, b) : tensor_poison_of(s));
}

// ---- By the numbers of inputs and outputs -------------------------------------------------------
double gw_calculate_gain(gw_nonlinearity nonlinearity, double param) {
    switch (nonlinearity) {
    case GW_GAIN_TANH: return 5.0 / 3;
    case GW_GAIN_RELU: return sqrt(2.0);
    case GW_GAIN_LEAKY_RELU: return sqrt(2 / (1 + param * param));
    case GW_GAIN_SELU: return 3.0 / 4;
    default: return 1;
    }
}

typedef struct fans {
    double in, out;
} fans;

// Of a weight: out in window...
static fans fans_of(const gw_tensor *x) {
    double window = 1;
    for (int i = 2; i < x->dims; i++) window *= (double)x->sizes[i];
    return (fans){ (double)x->sizes[1] * window, (double)x->sizes[0] * window };
}

gw_tensor *(gw_init_xavier_uniform)(gw_scope *s, gw_tensor *x, double gain) {
    if (!may_begin(s, x, "gw_init_xavier_uniform", 2)) return tensor_poison_of(s);
    gw_scope *t = begin(s);
    fans f = fans_of(x);
    double bound = gain * sqrt(6 / (f.in + f.out));
    return finish(s, t, x, uniform(t, x, -bound, bound));
}

gw_tensor *(gw_init_xavier_normal)(gw_scope *s, gw_tensor *x, double gain) {
    if (!may_begin(s, x, "gw_init_xavier_normal", 2)) return tensor_poison_of(s);
    gw_scope *t = begin(s);
    fans f = fans_of(x);
    return finish(s, t, x, normal(t, x, 0, gain * sqrt(2 / (f.in + f.out))));
}

static double kaiming_std(fans f, double a, gw_fan_mode mode, gw_nonlinearity nonlinearity) {
    return gw_calculate_gain(nonlinearity, a) / sqrt(mode == GW_FAN_OUT ? f.out : f.in);
}

gw_tensor *(gw_init_kaiming_uniform)(gw_scope *s, gw_tensor *x, double a, gw_fan_mode mode,
                                     gw_nonlinearity nonlinearity) {
    if (!may_begin(s, x, "gw_init_kaiming_uniform", 2)) return tensor_poison_of(s);
    gw_scope *t = begin(s);
    fans f = fans_of(x);
    double bound = sqrt(3.0) * kaiming_std(f, a, mode, nonlinearity);
    return finish(s, t, x, uniform(t, x, -bound, bound));
}

gw_tensor *(gw_init_kaiming_normal)(gw_scope *s, gw_tensor *x, double a, gw_fan_mode mode,
                                    gw_nonlinearity nonlinearity) {
    if (!may_begin(s, x, "gw_init_kaiming_normal", 2)) return tensor_poison_of(s);
    gw_scope *t = begin(s);
    fans f = fans_of(x);
    return finish(s, t, x, normal(t, x, 0, kaiming_std(f, a, mode, nonlinearity)));
}

// ---- Matrices -----------------------------------------------------------------------------------
// Column |j| of |q| less its projections on those before it, twice, lest rounding leave
// some of it; of length 1. (Gram and Schmidt; Giraud, Langou 2005.)
static void make_orthogonal(gw_scope *s, gw_tensor *q, int64_t j) {
    gw_scope *t = gw_scope_open(s);
    gw_tensor *column = gw_select(t, q, 1, j), *v = column;
    gw_tensor *before = gw_slice(t, q, 1, 0, j, 1), *across = gw_transpose(t, before, 0, 1);
    for (int again = 0; again < 2 && j > 0; again++)
        v = gw_sub(t, v, gw_matmul(t, before, gw_matmul(t, across, v)));
    gw_copy_(t, column, gw_div(t, v, gw_sqrt(t, gw_sum(t, gw_mul(t, v, v)))));
    gw_scope_close_up(t);
}

// The columns, or the rows if there are more columns, in f64.
static gw_tensor *orthogonal(gw_scope *t, int64_t rows, int64_t columns) {
    int64_t longer = rows > columns ? rows : columns, shorter = rows > columns ? columns : rows;
    gw_tensor *q = gw_randn(t, GW_F64, longer, shorter);
    for (int64_t j = 0; j < shorter && gw_ok(t); j++) make_orthogonal(t, q, j);
    return rows > columns ? q : gw_transpose(t, q, 0, 1);
}

gw_tensor *(gw_init_orthogonal)(gw_scope *s, gw_tensor *x, double gain) {
    if (!may_begin(s, x, "gw_init_orthogonal", 2)) return tensor_poison_of(s);
    gw_scope *t = begin(s);
    if (x->numel == 0) return finish(s, t, x, gw_zeros(t, GW_F32));
    int64_t rows = x->sizes[0];
    gw_tensor *q = gw_mul(t, orthogonal(t, rows, x->numel / rows), gain);
    return finish(s, t, x, gw_reshape_with(t, q, shape_of(x)));
}

gw_tensor *(gw_init_sparse)(gw_scope *s, gw_tensor *x, double sparsity, double std) {
    if (!may_begin(s, x, "gw_init_sparse", 2)) return tensor_poison_of(s);
    gw_scope *t = begin(s);
    if (x->dims != 2)
        scope_fail(t, GW_INVALID, "gw_init_sparse: x has %d dimensions, but must be a matrix",
                   x->dims);
    else if (!(sparsity >= 0 && sparsity <= 1))
        scope_fail(t, GW_INVALID, "gw_init_sparse: sparsity %g is not between 0 and 1", sparsity);
    // The first of each column in a random order become 0.
    int64_t zeros = gw_ok(t) ? (int64_t)ceil(sparsity * (double)x->sizes[0]) : 0;
    gw_tensor *values = normal(t, x, 0, std);
    gw_tensor *places = gw_sort(t, gw_rand_with(t, GW_F64, shape_of(x)), .dim = 0).indices;
    return finish(s, t, x, gw_scatter(t, values, 0, gw_slice(t, places, 0, 0, zeros, 1), 0));
}
