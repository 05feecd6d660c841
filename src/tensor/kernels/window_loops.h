// Unfolding and folding for one type of number. This file is included once for each type, with ELEMENT and NAMED(name)
// defined; it undefines these macros.

static void NAMED(unfold_row)(const ELEMENT *restrict x, span s, int64_t stride, int64_t out_count,
                              ELEMENT *restrict out) {
    for (int64_t o = 0; o < s.first; o++) out[o] = 0;
    if (stride == 1) {
        for (int64_t o = s.first; o < s.end; o++) out[o] = x[s.offset + o];
    } else {
        for (int64_t o = s.first; o < s.end; o++) out[o] = x[s.offset + o * stride];
    }
    for (int64_t o = s.end; o < out_count; o++) out[o] = 0;
}

static void NAMED(unfold)(const window *w, const void *values, int64_t channels, int64_t first,
                          int64_t row_count, void *columns) {
    const ELEMENT *x = values;
    ELEMENT *out = columns;
    for (int64_t c = 0; c < channels; c++, x += window_plane_size(w)) {
        for (int64_t k = 0; k < w->kernel[0] * w->kernel[1]; k++) {
            span s = span_of(w, k % w->kernel[1]);
            for (int64_t r = 0; r < row_count; r++, out += w->out[1]) {
                int64_t y = row_seen(w, first + r, k / w->kernel[1]);
                if (y >= 0)
                    NAMED(unfold_row)(x + y * w->size[1], s, w->stride[1], w->out[1], out);
                else
                    for (int64_t o = 0; o < w->out[1]; o++) out[o] = 0;
            }
        }
    }
}

static void NAMED(fold)(const window *w, const void *columns, int64_t channels, int64_t first,
                        int64_t row_count, void *values) {
    const ELEMENT *in = columns;
    ELEMENT *x = values;
    int64_t stride = w->stride[1];
    for (int64_t c = 0; c < channels; c++, x += window_plane_size(w)) {
        for (int64_t k = 0; k < w->kernel[0] * w->kernel[1]; k++) {
            span s = span_of(w, k % w->kernel[1]);
            for (int64_t r = 0; r < row_count; r++, in += w->out[1]) {
                int64_t y = row_seen(w, first + r, k / w->kernel[1]);
                if (y < 0) continue;
                const ELEMENT *restrict from = in;
                ELEMENT *restrict to = x + y * w->size[1];
                if (stride == 1) {
                    for (int64_t o = s.first; o < s.end; o++) to[s.offset + o] += from[o];
                } else {
                    for (int64_t o = s.first; o < s.end; o++) to[s.offset + o * stride] += from[o];
                }
            }
        }
    }
}

#undef ELEMENT
#undef NAMED
