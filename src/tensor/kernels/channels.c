#include "tensor/kernels/channels.h"

#include "tensor/dtype.h"

enum { SHORT_RUN = 16 };

channels channels_of(const gw_tensor *x) {
    channels ch = { .type = dtype_compute((gw_dtype)x->dtype), .count = x->sizes[1] };
    ch.outer = x->sizes[0];
    ch.inner = 1;
    ch.last = x->dims - 1;
    for (int i = 2; i < x->dims; i++) ch.inner *= x->sizes[i];
    if (ch.inner < SHORT_RUN) {
        ch.last = 0;
        ch.inner *= ch.outer;
        ch.outer = 1;
    }
    return ch;
}

const void *channels_run(const channels *ch, const void *x, int64_t outer, int64_t channel) {
    return (const uint8_t *)x +
           (outer * ch->count + channel) * ch->inner * (int64_t)gw_dtype_size(ch->type);
}

double channels_read(const channels *ch, const void *x, int64_t i) {
    return ch->type == GW_F32 ? ((const float *)x)[i] : ((const double *)x)[i];
}

void channels_write(const channels *ch, void *x, int64_t i, double value) {
    if (ch->type == GW_F32)
        ((float *)x)[i] = (float)value;
    else
        ((double *)x)[i] = value;
}
