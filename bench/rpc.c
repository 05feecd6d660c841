// Calls and references between two processes.
#include "bench.h"

#include <gradwire/binding.h>
#include <time.h>

enum { WARM = 200 };

GW_FUNCTION(bench_null, GW_INLINE, "int") {
    return gw_none();
}
GW_FUNCTION(bench_nested, GW_POOL, "int") {
    return gw_rpc_sync(s, gw_arg_caller(a), "bench_null", gw_arg_int(s, a, 0));
}

// Times |rounds| calls made one after the other, each in a scope of its own, |pause_us| apart.
static void time_calls(gw_scope *root, samples *out, int rounds, long pause_us,
                       const char *function, gw_value argument) {
    int warm = rounds > 1000 ? WARM : 2;
    for (int i = 0; i < rounds + warm && gw_ok(root); i++) {
        struct timespec pause = { .tv_nsec = pause_us * 1000 };
        if (pause_us) nanosleep(&pause, NULL);
        double start = now_us();
        gw_scope *s = gw_scope_open(root);
        gw_rpc_sync(s, "w1", function, argument);
        gw_scope_close_up(s);
        if (i >= warm) samples_add(out, now_us() - start);
    }
}

static void null_sync(gw_scope *root, samples *out) {
    time_calls(root, out, 20000, 0, "bench_null", gw_value_of(1));
}

static void null_sync_asleep(gw_scope *root, samples *out) {
    time_calls(root, out, 300, 10000, "bench_null", gw_value_of(1));
}

static void nested(gw_scope *root, samples *out) {
    time_calls(root, out, 5000, 0, "bench_nested", gw_value_of(1));
}

// CPU time of a connected worker without calls, in us per second.
static void idle_cpu(gw_scope *root, samples *out) {
    gw_rpc_sync(root, "w1", "bench_null", 1);
    for (int i = 0; i < 3; i++) {
        struct timespec second = { .tv_sec = 1 }, before, after;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
        nanosleep(&second, NULL);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
        samples_add(out, (double)(after.tv_sec - before.tv_sec) * 1e6 +
                             (double)(after.tv_nsec - before.tv_nsec) * 1e-3);
    }
}

// 64 calls in flight all the time; a sample is the time per call over one window.
static void async_w64(gw_scope *root, samples *out) {
    enum { WINDOW = 64, ROUNDS = 1000 };
    gw_scope *scopes[WINDOW] = { 0 };
    gw_future *futures[WINDOW];
    for (int round = 0; round < ROUNDS && gw_ok(root); round++) {
        double start = now_us();
        for (int i = 0; i < WINDOW; i++) {
            if (scopes[i]) {
                gw_wait(scopes[i], futures[i]);
                gw_scope_close_up(scopes[i]);
            }
            scopes[i] = gw_scope_open(root);
            futures[i] = gw_rpc_async(scopes[i], "w1", "bench_null", 1);
        }
        if (round > 2) samples_add(out, (now_us() - start) / WINDOW);
    }
    for (int i = 0; i < WINDOW; i++) {
        if (!scopes[i]) continue;
        gw_wait(scopes[i], futures[i]);
        gw_scope_close_up(scopes[i]);
    }
}

static void remote_to_here(gw_scope *root, samples *out) {
    gw_tensor *x = gw_ones(root, GW_F32, 2);
    for (int i = 0; i < 5000 + WARM && gw_ok(root); i++) {
        double start = now_us();
        gw_scope *s = gw_scope_open(root);
        gw_to_here(s, gw_remote(s, "w1", "gw.add", x, 1));
        gw_scope_close_up(s);
        if (i >= WARM) samples_add(out, now_us() - start);
    }
}

// 1,000 references made and released, per reference.
static void create_delete(gw_scope *root, samples *out) {
    enum { IN_FLIGHT = 1000 };
    gw_tensor *x = gw_ones(root, GW_F32, 2);
    for (int round = 0; round < 20 && gw_ok(root); round++) {
        gw_rref *refs[IN_FLIGHT];
        double start = now_us();
        gw_scope *s = gw_scope_open(root);
        for (int i = 0; i < IN_FLIGHT; i++) refs[i] = gw_remote(s, "w1", "gw.add", x, 1);
        gw_to_here(s, refs[IN_FLIGHT - 1]);
        gw_scope_close_up(s);
        if (round > 1) samples_add(out, (now_us() - start) / IN_FLIGHT);
    }
}

// ---- rd = f4(f3(ra, rb), rb) over four workers and a caller; the caller reads the result --------

GW_FUNCTION(bench_ones, GW_INLINE, "int") {
    return gw_value_of(gw_ones(s, GW_F32, gw_arg_int(s, a, 0)));
}
GW_FUNCTION(bench_add, GW_INLINE, "tensor, tensor") {
    return gw_value_of(gw_add(s, gw_arg_tensor(s, a, 0), gw_arg_tensor(s, a, 1)));
}

static void pipeline(gw_scope *root, samples *out, int64_t floats, int rounds) {
    int warm = rounds / 10;
    for (int i = 0; i < rounds + warm && gw_ok(root); i++) {
        double start = now_us();
        gw_scope *s = gw_scope_open(root);
        gw_rref *a = gw_remote(s, "w1", "bench_ones", floats);
        gw_rref *b = gw_remote(s, "w2", "bench_ones", floats);
        gw_rref *c = gw_remote(s, "w3", "bench_add", gw_by_value(s, a), gw_by_value(s, b));
        gw_rref *d = gw_remote(s, "w4", "bench_add", gw_by_value(s, c), gw_by_value(s, b));
        gw_to_here(s, d);
        gw_scope_close_up(s);
        if (i >= warm) samples_add(out, now_us() - start);
    }
}

static void pipeline4(gw_scope *root, samples *out) {
    pipeline(root, out, 2, 1000);
}
static void pipeline4_1mb(gw_scope *root, samples *out) {
    pipeline(root, out, 1 << 18, 200);
}

// ---- References in great numbers ----------------------------------------------------------------

// 1,000 references held while one more is made, read and released.
static void create_delete_1000(gw_scope *root, samples *out) {
    enum { HELD = 1000, ROUNDS = 20000 };
    gw_tensor *x = gw_ones(root, GW_F32, 2);
    gw_scope *held[HELD] = { 0 };
    double start = now_us();
    for (int i = 0; i < ROUNDS && gw_ok(root); i++) {
        gw_scope **slot = &held[i % HELD];
        if (*slot) gw_scope_close_up(*slot);
        *slot = gw_scope_open(root);
        gw_remote(*slot, "w1", "gw.add", x, 1);
        if (i % HELD != HELD - 1) continue;
        gw_rpc_sync(root, "w1", "bench_null", 1);
        if (i > HELD) samples_add(out, (now_us() - start) / HELD);
        start = now_us();
    }
    for (int i = 0; i < HELD; i++)
        if (held[i]) gw_scope_close_up(held[i]);
}

// A sample is the time for one scope; the goal is 0.1 us.
static void scope_open_of(gw_scope *root, samples *out) {
    enum { SCOPES = 1000, ROUNDS = 1000 };
    for (int round = 0; round < ROUNDS && gw_ok(root); round++) {
        double start = now_us();
        for (int i = 0; i < SCOPES; i++) gw_scope_close_up(gw_scope_open_of(root));
        samples_add(out, (now_us() - start) / SCOPES);
    }
}

const bench_case rpc_cases[] = {
    { "rpc.null_sync", 2, null_sync },
    { "rpc.null_sync_asleep", 2, null_sync_asleep },  // 10 ms apart
    { "rpc.async_w64", 2, async_w64 },
    { "rpc.nested", 2, nested },
    { "rpc.idle_cpu", 2, idle_cpu },
    { "rpc.scope_open_of", 1, scope_open_of },
    { "rref.remote_to_here", 2, remote_to_here },
    { "rref.create_delete", 2, create_delete },
    { "rref.create_delete_1000", 2, create_delete_1000 },  // with 1,000 held all the time
    { "rpc.pipeline4", 5, pipeline4 },
    { "rpc.pipeline4_1MB", 5, pipeline4_1mb },
    { 0 },
};
