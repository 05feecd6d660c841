// 400 MB over a link between two hosts, and small calls during the transfer. bench/links creates the hosts, and runs
// these cases on both; the floors are two programs without a library.
#include "bench.h"
#include "pair.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FLOATS = 100 << 20, ROUNDS = 5, CONNECT_TRIES = 100 };

#define TOTAL_BYTES ((size_t)FLOATS * sizeof(float))

// ---- Floors -------------------------------------------------------------------------------------

static int number_of(const char *name) {
    const char *text = getenv(name);
    return text ? (int)strtol(text, NULL, 10) : 0;
}

static int listen_for_one(const struct sockaddr_in *a) {
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    pair_check(bind(fd, (const struct sockaddr *)a, sizeof *a) == 0 && listen(fd, 1) == 0,
               "listen");
    int peer = accept(fd, NULL, NULL);
    close(fd);
    return peer;
}

static int connect_to(const struct sockaddr_in *a) {
    for (int i = 0; i < CONNECT_TRIES; i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(fd, (const struct sockaddr *)a, sizeof *a) == 0) return fd;
        close(fd);
        usleep(50000);
    }
    return -1;
}

// The other rank finds rank 0 at MASTER_ADDR, as in a job.
static int connect_pair(void) {
    const char *address = getenv("MASTER_ADDR");
    struct sockaddr_in a = { .sin_family = AF_INET,
                             .sin_port = htons((uint16_t)number_of("MASTER_PORT")) };
    pair_check(address && inet_pton(AF_INET, address, &a.sin_addr) == 1, "MASTER_ADDR");
    int fd = number_of("RANK") == 0 ? listen_for_one(&a) : connect_to(&a);
    pair_check(fd >= 0, "no connection");
    return fd;
}

static void floor_of(samples *out, bool encrypted) {
    int fd = connect_pair();
    pair_options options = {
        .fd = fd, .encrypted = encrypted, .bytes = TOTAL_BYTES, .rounds = ROUNDS
    };
    if (number_of("RANK") == 0) {
        pair_send(options, out);
    } else {
        pair_receive(options);
    }
    close(fd);
}

static void plain(gw_scope *root, samples *out) {
    (void)root;
    floor_of(out, false);
}

static void openssl(gw_scope *root, samples *out) {
    (void)root;
    floor_of(out, true);
}

// ---- Calls --------------------------------------------------------------------------------------

static void call(gw_scope *root, samples *out) {
    gw_tensor *x = gw_ones(root, GW_F32, FLOATS);
    for (int i = 0; i <= ROUNDS && gw_ok(root); i++) {
        gw_scope *s = gw_scope_open(root);
        double start = now_us();
        gw_rpc_sync(s, "w1", "bench_take", x);
        if (i > 0) samples_add(out, now_us() - start);
        gw_scope_close_up(s);
    }
}

// Round trips, as in bench/bulk.c and bench/peers/torch_rpc.py: ten calls after one that warms up.
static void call_large(gw_scope *root, samples *out, const char *function, int floats, int count) {
    gw_tensor *x = gw_ones(root, GW_F32, floats);
    for (int i = 0; i <= count && gw_ok(root); i++) {
        gw_scope *s = gw_scope_open(root);
        double start = now_us();
        gw_rpc_sync(s, "w1", function, x);
        if (i > 0) samples_add(out, now_us() - start);
        gw_scope_close_up(s);
    }
}

static void echo_4mb(gw_scope *root, samples *out) {
    call_large(root, out, "bench_identity", 1 << 20, 10);
}

static void echo_400mb(gw_scope *root, samples *out) {
    call_large(root, out, "bench_identity", FLOATS, 10);
}

static void add_4mb(gw_scope *root, samples *out) {
    call_large(root, out, "bench_ops200", 1 << 20, 10);
}

// A call takes seconds here, and minutes with a peer.
static void add_400mb(gw_scope *root, samples *out) {
    call_large(root, out, "bench_ops200", FLOATS, 1);
}

// Small calls use another scope, so that they are in another order than the large call.
static void call_during(gw_scope *root, samples *out, const char *large, gw_value argument) {
    for (int i = 0; i < ROUNDS && gw_ok(root); i++) {
        gw_scope *s = gw_scope_open(root), *small = gw_scope_open(root);
        gw_future *f = gw_rpc_async(s, "w1", large, argument);
        while (!gw_future_done(f) && gw_ok(small)) {
            double start = now_us();
            gw_rpc_sync(small, "w1", "bench_nothing");
            samples_add(out, now_us() - start);
        }
        gw_wait(s, f);
        gw_scope_close_up(small);
        gw_scope_close_up(s);
    }
}

static void call_during_argument(gw_scope *root, samples *out) {
    call_during(root, out, "bench_take", gw_value_of(gw_ones(root, GW_F32, FLOATS)));
}

GW_FUNCTION(bench_nothing, GW_INLINE) {
    (void)a;
    return gw_none();
}

GW_FUNCTION(bench_make, GW_POOL, "int") {
    return gw_value_of(gw_ones(s, GW_F32, gw_arg_int(s, a, 0)));
}

static void call_during_result(gw_scope *root, samples *out) {
    call_during(root, out, "bench_make", gw_value_of((int64_t)FLOATS));
}

static void call_alone(gw_scope *root, samples *out) {
    for (int i = 0; i < 2000 && gw_ok(root); i++) {
        double start = now_us();
        gw_rpc_sync(root, "w1", "bench_nothing");
        if (i >= 100) samples_add(out, now_us() - start);
    }
}

const bench_case link_cases[] = {
    { "link.floor_400MB", 0, plain },
    { "link.openssl_400MB", 0, openssl },
    { "link.call_400MB", 2, call },
    { "rpc.identity_4MB", 2, echo_4mb },
    { "rpc.identity_400MB", 2, echo_400mb },
    { "rpc.ops200_4MB", 2, add_4mb },
    { "rpc.ops200_400MB", 2, add_400mb },
    { "link.small_call", 2, call_alone },
    { "link.small_during_400MB", 2, call_during_argument },
    { "link.small_during_400MB_back", 2, call_during_result },
    { "ddp.overlap_compute", -2, ddp_overlap_compute },
    { "ddp.overlap_exchange", -2, ddp_overlap_exchange },
    { "ddp.overlap_both", -2, ddp_overlap_both },
    { 0 },
};
