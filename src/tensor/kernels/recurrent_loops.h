// The cells of recurrent layers, of one observation at one time: n hidden units. Included by
// loops_body.h.
//
// Each array is a separate parameter of the function: two parts of one array could overlap, and the compiler would not
// vectorise the loop.

// LSTM (Hochreiter, Schmidhuber 1997; Gers et al. 2000): |gates| holds i f g o, n numbers each,
// which are replaced by their functions: c = f c' + i g, h = o tanh c.
#define LSTM(type, name)                                                                           \
    static void lstm_cells_##name(                                                                 \
        int64_t n, type *restrict is, type *restrict fs, type *restrict gs, type *restrict os,     \
        const type *restrict old_c, type *restrict c, type *restrict h) {                          \
        for (int64_t k = 0; k < n; k++) {                                                          \
            type i = sigmoid_##name(is[k]), f = sigmoid_##name(fs[k]);                             \
            type g = tanh_##name(gs[k]), o = sigmoid_##name(os[k]);                                \
            type new_c = f * old_c[k] + i * g;                                                     \
            is[k] = i;                                                                             \
            fs[k] = f;                                                                             \
            gs[k] = g;                                                                             \
            os[k] = o;                                                                             \
            c[k] = new_c;                                                                          \
            h[k] = o * tanh_##name(new_c);                                                         \
        }                                                                                          \
    }                                                                                              \
    static void lstm_##name(int64_t n, void *gates_, const void *old_c, void *c, void *h) {        \
        type *gates = gates_;                                                                      \
        lstm_cells_##name(n, gates, gates + n, gates + 2 * n, gates + 3 * n, old_c, c, h);         \
    }                                                                                              \
    static void lstm_cells_back_##name(int64_t n, const type *gates, const type *restrict old_c,   \
                                       const type *restrict c, const type *restrict dh,            \
                                       type *restrict dc, type *restrict di, type *restrict df,    \
                                       type *restrict dg, type *restrict d_o) {                    \
        const type *is = gates, *fs = is + n, *gs = fs + n, *os = gs + n;                          \
        for (int64_t k = 0; k < n; k++) {                                                          \
            type i = is[k], f = fs[k], g = gs[k], o = os[k];                                       \
            type y = tanh_##name(c[k]), d_h = dh[k], d_c = dc[k] + d_h * o * (1 - y * y);          \
            di[k] = d_c * g * i * (1 - i);                                                         \
            df[k] = d_c * old_c[k] * f * (1 - f);                                                  \
            dg[k] = d_c * i * (1 - g * g);                                                         \
            d_o[k] = d_h * y * o * (1 - o);                                                        \
            dc[k] = d_c * f;                                                                       \
        }                                                                                          \
    }                                                                                              \
    /* |dc|: in, the gradient of c from later steps; out, that of c'. */                           \
    static void lstm_back_##name(int64_t n, const void *gates, const void *old_c, const void *c,   \
                                 const void *dh, void *dc, void *d_gates) {                        \
        type *d = d_gates;                                                                         \
        lstm_cells_back_##name(n, gates, old_c, c, dh, dc, d, d + n, d + 2 * n, d + 3 * n);        \
    }
LSTM(float, f32)
LSTM(double, f64)

// GRU (Cho et al. 2014, as cuDNN and PyTorch have it): |gates| holds x r z m, n numbers each, where
// x is of the input and m of h'. r and z become sigmoids, x becomes tanh(x + r m), and h =
// (1 - z) x + z h'.
#define GRU(type, name)                                                                            \
    static void gru_cells_##name(int64_t n, type *restrict xs, type *restrict rs,                  \
                                 type *restrict zs, const type *restrict ms,                       \
                                 const type *restrict old_h, type *restrict h) {                   \
        for (int64_t k = 0; k < n; k++) {                                                          \
            type r = sigmoid_##name(rs[k]), z = sigmoid_##name(zs[k]);                             \
            type x = tanh_##name(xs[k] + r * ms[k]);                                               \
            xs[k] = x;                                                                             \
            rs[k] = r;                                                                             \
            zs[k] = z;                                                                             \
            h[k] = (old_h[k] - x) * z + x;                                                         \
        }                                                                                          \
    }                                                                                              \
    static void gru_##name(int64_t n, void *gates_, const void *old_h, void *h) {                  \
        type *gates = gates_;                                                                      \
        gru_cells_##name(n, gates, gates + n, gates + 2 * n, gates + 3 * n, old_h, h);             \
    }                                                                                              \
    /* |dh|: in, the gradient of h; out, the part of that of h' through z. */                      \
    static void gru_back_##name(int64_t n, const void *gates_, const void *old_h_, void *dh_,      \
                                void *d_gates_) {                                                  \
        const type *restrict gates = gates_, *restrict old_h = old_h_;                             \
        type *restrict dh = dh_, *restrict d = d_gates_;                                           \
        for (int64_t k = 0; k < n; k++) {                                                          \
            type x = gates[k], r = gates[n + k], z = gates[2 * n + k], m = gates[3 * n + k];       \
            type d_h = dh[k], d_x = d_h * (1 - z) * (1 - x * x);                                   \
            d[k] = d_x;                                                                            \
            d[n + k] = d_x * m * r * (1 - r);                                                      \
            d[2 * n + k] = d_h * (old_h[k] - x) * z * (1 - z);                                     \
            d[3 * n + k] = d_x * r;                                                                \
            dh[k] = d_h * z;                                                                       \
        }                                                                                          \
    }
GRU(float, f32)
GRU(double, f64)
