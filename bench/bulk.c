// Large tensors between two processes of one host, each compared with the same work in one process, or with the
// machine's own copy.
#include "bench.h"

#include <stdlib.h>

GW_FUNCTION(bench_touch, GW_POOL, "tensor") {
    return gw_value_of(gw_add(s, gw_arg_tensor(s, a, 0), 1));
}
GW_FUNCTION(bench_take, GW_INLINE, "tensor") {
    (void)a;
    return gw_none();
}
GW_FUNCTION(bench_ops200, GW_POOL, "tensor") {
    gw_tensor *x = gw_arg_tensor(s, a, 0);
    for (int i = 0; i < 200 && gw_ok(s); i++) {
        gw_tensor *next = gw_add(s, x, 1);
        if (i > 0) gw_drop(s, x);
        x = next;
    }
    return gw_value_of(x);
}
GW_FUNCTION(bench_identity, GW_INLINE, "tensor") {
    return gw_arg(s, a, 0);
}

enum { MEGA = 1 << 20, WARM = 2 };

typedef void round_of(gw_scope *s, gw_tensor *x);

static void rounds(gw_scope *root, samples *out, int64_t floats, int count, round_of *run) {
    gw_tensor *x = gw_ones(root, GW_F32, floats);
    for (int i = 0; i < count + WARM && gw_ok(root); i++) {
        double start = now_us();
        gw_scope *s = gw_scope_open(root);
        run(s, x);
        gw_scope_close_up(s);
        if (i >= WARM) samples_add(out, now_us() - start);
    }
}

// ---- Round trips --------------------------------------------------------------------------------

static void identity(gw_scope *s, gw_tensor *x) {
    gw_rpc_sync(s, "w1", "bench_identity", x);
}
static void identity_4mb(gw_scope *root, samples *out) {
    rounds(root, out, MEGA, 200, identity);
}
static void identity_400mb(gw_scope *root, samples *out) {
    rounds(root, out, 100 * MEGA, 5, identity);
}

// ---- Every number written by the caller and read by the callee ----------------------------------

static void touch(gw_scope *s, gw_tensor *x) {
    gw_tensor *y = gw_tensor_of(s, gw_rpc_sync(s, "w1", "bench_touch", x));
    gw_item(s, gw_sum(s, y));
}
static void touch_here(gw_scope *s, gw_tensor *x) {
    gw_item(s, gw_sum(s, gw_add(s, x, 1)));
}
static void touch_4mb(gw_scope *root, samples *out) {
    rounds(root, out, MEGA, 200, touch);
}
static void touch_400mb(gw_scope *root, samples *out) {
    rounds(root, out, 100 * MEGA, 5, touch);
}
static void touch_4mb_here(gw_scope *root, samples *out) {
    rounds(root, out, MEGA, 200, touch_here);
}
static void touch_400mb_here(gw_scope *root, samples *out) {
    rounds(root, out, 100 * MEGA, 5, touch_here);
}

// ---- Sent, and written to at once ---------------------------------------------------------------

static void overwrite(gw_scope *s, gw_tensor *x) {
    gw_future *sent = gw_rpc_async(s, "w1", "bench_take", x);
    float *numbers = gw_data_for_write(s, x);
    if (numbers) numbers[0] += 1;
    gw_wait(s, sent);
}
static void overwrite_400mb(gw_scope *root, samples *out) {
    rounds(root, out, 100 * MEGA, 5, overwrite);
}

// ---- Memory of the program's own ----------------------------------------------------------------

static void fetch(gw_scope *root, samples *out, int64_t floats, int count) {
    float *own = malloc((size_t)floats * sizeof *own);
    for (int64_t i = 0; own && i < floats; i++) own[i] = 1;
    gw_tensor *x = gw_from_blob(root, GW_F32, own, GW_SHAPE(floats), NULL, NULL);
    for (int i = 0; i < count + WARM && gw_ok(root); i++) {
        double start = now_us();
        gw_scope *s = gw_scope_open(root);
        gw_rpc_sync(s, "w1", "bench_take", x);
        gw_scope_close_up(s);
        if (i >= WARM) samples_add(out, now_us() - start);
    }
    gw_drop(root, x);
    free(own);
}
static void fetch_64kb(gw_scope *root, samples *out) {
    fetch(root, out, MEGA / 64, 1000);
}
static void fetch_256kb(gw_scope *root, samples *out) {
    fetch(root, out, MEGA / 16, 1000);
}
static void fetch_1mb(gw_scope *root, samples *out) {
    fetch(root, out, MEGA / 4, 500);
}
static void fetch_4mb(gw_scope *root, samples *out) {
    fetch(root, out, MEGA, 200);
}
static void fetch_16mb(gw_scope *root, samples *out) {
    fetch(root, out, 4 * MEGA, 50);
}
static void fetch_64mb(gw_scope *root, samples *out) {
    fetch(root, out, 16 * MEGA, 20);
}
static void fetch_400mb(gw_scope *root, samples *out) {
    fetch(root, out, 100 * MEGA, 5);
}

// ---- 200 operations -----------------------------------------------------------------------------

static void ops200(gw_scope *s, gw_tensor *x) {
    gw_rpc_sync(s, "w1", "bench_ops200", x);
}
static void ops200_here(gw_scope *s, gw_tensor *x) {
    for (int i = 0; i < 200 && gw_ok(s); i++) {
        gw_tensor *next = gw_add(s, x, 1);
        if (i > 0) gw_drop(s, x);
        x = next;
    }
}
static void ops200_4mb(gw_scope *root, samples *out) {
    rounds(root, out, MEGA, 20, ops200);
}
static void ops200_400mb(gw_scope *root, samples *out) {
    rounds(root, out, 100 * MEGA, 1, ops200);
}
static void ops200_4mb_here(gw_scope *root, samples *out) {
    rounds(root, out, MEGA, 20, ops200_here);
}
static void ops200_400mb_here(gw_scope *root, samples *out) {
    rounds(root, out, 100 * MEGA, 1, ops200_here);
}

const bench_case bulk_cases[] = {
    { "rpc.identity_4MB", 2, identity_4mb },
    { "rpc.identity_400MB", 2, identity_400mb },
    { "rpc.touch_4MB", 2, touch_4mb },
    { "here.touch_4MB", 0, touch_4mb_here },
    { "rpc.touch_400MB", 2, touch_400mb },
    { "here.touch_400MB", 0, touch_400mb_here },
    { "rpc.overwrite_400MB", 2, overwrite_400mb },
    { "rpc.pull_64KB", 2, fetch_64kb },
    { "rpc.pull_256KB", 2, fetch_256kb },
    { "rpc.pull_1MB", 2, fetch_1mb },
    { "rpc.pull_4MB", 2, fetch_4mb },
    { "rpc.pull_16MB", 2, fetch_16mb },
    { "rpc.pull_64MB", 2, fetch_64mb },
    { "rpc.pull_400MB", 2, fetch_400mb },
    { "rpc.ops200_4MB", 2, ops200_4mb },
    { "here.ops200_4MB", 0, ops200_4mb_here },
    { "rpc.ops200_400MB", 2, ops200_400mb },
    { "here.ops200_400MB", 0, ops200_400mb_here },
    { 0 },
};
