// Gradients as bytes: every member sends its own to all, and all add them in the order of ranks.
#include "base/scope.h"
#include "parallel/ddp/ddp.h"
#include "tensor/tensor.h"
#include <gradwire/comm_hook.h>
#include <gradwire/ops.h>

#include <float.h>
#include <math.h>
#include <string.h>

// ---- To bytes and back --------------------------------------------------------------------------
// A byte q stands for scale (q - zero). 0 is between the bounds, so that it stays 0.

typedef struct bounds {
    float scale, zero;
} bounds;

// NaN if a number is not finite: no byte represents that.
static bounds find_bounds(const float *x, int64_t count) {
    float low = 0, high = 0, bad = 0;
    for (int64_t i = 0; i < count; i++) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
        bad += x[i] - x[i];
    }
    bounds b = { fmaxf((high - low) / 255, FLT_EPSILON), 0 };
    b.zero = fminf(fmaxf(-nearbyintf(low / b.scale), 0), 255);
    if (bad != 0) b.scale = NAN;
    return b;
}

static void to_bytes(const float *x, int64_t count, bounds b, uint8_t *out) {
    for (int64_t i = 0; i < count && b.scale == b.scale; i++)
        out[i] = (uint8_t)fminf(fmaxf(nearbyintf(x[i] / b.scale) + b.zero, 0), 255);
}

static void add_bytes(const uint8_t *q, int64_t count, bounds b, float *to) {
    for (int64_t i = 0; i < count; i++) to[i] += b.scale * ((float)q[i] - b.zero);
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

// ---- The exchange -------------------------------------------------------------------------------

typedef struct own_bytes {
    gw_tensor *bounds;  // of each channel
    gw_tensor *bytes;
} own_bytes;

static own_bytes quantize(gw_scope *s, gw_tensor *flat, int64_t channel) {
    int64_t count = gw_numel(flat), channels = (count + channel - 1) / channel,
            pairs = 2 * channels;
    own_bytes own = { gw_zeros_with(s, GW_F32, (gw_shape){ 1, &pairs }),
                      gw_zeros_with(s, GW_U8, (gw_shape){ 1, &count }) };
    const float *x = gw_data(gw_contiguous(s, gw_to_dtype(s, flat, GW_F32)));
    float *pair = gw_data_for_write(s, own.bounds);
    uint8_t *out = gw_data_for_write(s, own.bytes);
    for (int64_t c = 0; gw_ok(s) && x && c < channels; c++) {
        int64_t at = c * channel, n = least(channel, count - at);
        bounds b = find_bounds(x + at, n);
        to_bytes(x + at, n, b, out + at);
        pair[2 * c] = b.scale;
        pair[2 * c + 1] = b.zero;
    }
    return own;
}

// The inputs of the mean, as values: the bounds and bytes of all, and their layout.
enum { ALL_BOUNDS, ALL_BYTES, LAYOUT };
enum { MEMBERS, CHANNEL, DTYPE, LAYOUT_FIELDS };

static gw_value mean_of(gw_scope *s, gw_value all, void *context) {
    (void)context;
    gw_list *list = gw_list_of(s, all);
    const float *pair = gw_data(gw_tensor_of(s, gw_list_get(s, list, ALL_BOUNDS)));
    gw_tensor *bytes = gw_tensor_of(s, gw_list_get(s, list, ALL_BYTES));
    const int64_t *how = gw_data(gw_tensor_of(s, gw_list_get(s, list, LAYOUT)));
    if (!gw_ok(s)) return gw_none();
    int64_t members = how[MEMBERS], channel = how[CHANNEL], count = gw_numel(bytes) / members;
    const uint8_t *q = gw_data(bytes);
    gw_tensor *sum = gw_zeros_with(s, GW_F32, (gw_shape){ 1, &count });
    float *to = gw_ok(s) ? gw_data_for_write(s, sum) : NULL;
    for (int64_t m = 0; to && m < members; m++, q += count)
        for (int64_t at = 0; at < count; at += channel, pair += 2)
            add_bytes(q + at, least(channel, count - at), (bounds){ pair[0], pair[1] }, to + at);
    return gw_value_of_tensor(gw_to_dtype(s, gw_div(s, sum, members), (gw_dtype)how[DTYPE]));
}

static gw_future *exchange_bytes(gw_scope *s, gw_bucket *b, int64_t channel) {
    gw_tensor *flat = gw_bucket_tensor(s, b);
    if (gw_ok(s) && !gw_numel(flat)) return gw_hook_all_reduce(s, b, NULL);
    own_bytes own = gw_ok(s) ? quantize(s, flat, channel) : (own_bytes){ 0 };
    int64_t how[LAYOUT_FIELDS] = { gw_group_size(b->ddp->group), channel, gw_dtype_of(flat) };
    gw_future *layout = gw_future_open(s);
    gw_future_set(s, layout, gw_from(s, how, LAYOUT_FIELDS));
    gw_collective_options options = ddp_options_of(b->ddp);
    gw_future *all[] = { gw_all_gather_async_with(s, b->ddp->group, own.bounds, options),
                         gw_all_gather_async_with(s, b->ddp->group, own.bytes, options), layout };
    return gw_then(s, gw_collect_all(s, all, 3), mean_of, NULL);
}

gw_future *gw_hook_quantize_tensor(gw_scope *s, gw_bucket *b, void *unused) {
    (void)unused;
    return exchange_bytes(s, b, gw_numel(gw_bucket_tensor(s, b)));
}

gw_future *gw_hook_quantize_channel(gw_scope *s, gw_bucket *b, void *options) {
    const gw_quantize_options *o = options;
    int64_t channel = o ? o->channel : 512;
    if (gw_ok(s) && channel < 1)
        scope_fail(s, GW_INVALID,
                   "gw_hook_quantize_channel: a channel has %lld numbers, but must have 1 or more",
                   (long long)channel);
    return exchange_bytes(s, b, channel);
}
