// The cells of recurrent layers, of one observation at one time: n hidden units. Included by
// loops_body.h.
//
// LSTM (Hochreiter, Schmidhuber 1997; Gers et al. 2000): |gates| holds i f g o, n numbers each,
// which become what the functions of them are: c = f c' + i g, h = o tanh c.
#define LSTM(type, name)                                                                           \
    static void lstm_##name(int64_t n, void *gates_, const void *old_c_, void *c_, void *h_) {     \
        type *restrict gates = gates_, *restrict c = c_, *restrict h = h_;                         \
        const type *restrict old_c = old_c_;                                                       \
        for (int64_t k = 0; k < n; k++) {                                                          \
            type i = sigmoid_##name(gates[k]), f = sigmoid_##name(gates[n + k]);                   \
            type g = tanh_##name(gates[2 * n + k]), o = sigmoid_##name(gates[3 * n + k]);          \
            type new_c = f * old_c[k] + i * g;                                                     \
            gates[k] = i;                                                                          \
            gates[n + k] = f;                                                                      \
            gates[2 * n + k] = g;                                                                  \
            gates[3 * n + k] = o;                                                                  \
            c[k] = new_c;                                                                          \
            h[k] = o * tanh_##name(new_c);                                                         \
        }                                                                                          \
    }                                                                                              \
    /* |dc| comes with the gradient of c from later and leaves with that of c'. */                 \
    static void lstm_back_##name(int64_t n, const void *gates_, const void *old_c_,                \
                                 const void *c_, const void *dh_, void *dc_, void *d_gates_) {     \
        const type *restrict gates = gates_, *restrict old_c = old_c_, *restrict c = c_;           \
        const type *restrict dh = dh_;                                                             \
        type *restrict dc = dc_, *restrict d = d_gates_;                                           \
        for (int64_t k = 0; k < n; k++) {                                                          \
            type i = gates[k], f = gates[n + k], g = gates[2 * n + k], o = gates[3 * n + k];       \
            type y = tanh_##name(c[k]), d_h = dh[k], d_c = dc[k] + d_h * o * (1 - y * y);          \
            d[k] = d_c * g * i * (1 - i);                                                          \
            d[n + k] = d_c * old_c[k] * f * (1 - f);                                               \
            d[2 * n + k] = d_c * i * (1 - g * g);                                                  \
            d[3 * n + k] = d_h * y * o * (1 - o);                                                  \
            dc[k] = d_c * f;                                                                       \
        }                                                                                          \
    }
LSTM(float, f32)
LSTM(double, f64)

// GRU (Cho et al. 2014, as cuDNN and PyTorch have it): |gates| holds x r z m, n numbers each, where
// x comes from the input and m from h'. r and z become sigmoids, x becomes tanh(x + r m), and h =
// (1 - z) x + z h'.
#define GRU(type, name)                                                                            \
    static void gru_##name(int64_t n, void *gates_, const void *old_h_, void *h_) {                \
        type *restrict gates = gates_, *restrict h = h_;                                           \
        const type *restrict old_h = old_h_;                                                       \
        for (int64_t k = 0; k < n; k++) {                                                          \
            type r = sigmoid_##name(gates[n + k]), z = sigmoid_##name(gates[2 * n + k]);           \
            type x = tanh_##name(gates[k] + r * gates[3 * n + k]);                                 \
            gates[k] = x;                                                                          \
            gates[n + k] = r;                                                                      \
            gates[2 * n + k] = z;                                                                  \
            h[k] = (old_h[k] - x) * z + x;                                                         \
        }                                                                                          \
    }                                                                                              \
    /* |dh| comes with the gradient of h and leaves with the part of that of h' that z lets by. */ \
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
