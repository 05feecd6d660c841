// Networks that lose packets under a transport that retransmits them, as TCP does: the lost bytes are late, and all
// bytes behind them. With delays of 200 ms, windows that pass about 1 Mbit/s, and connections that are reset at random.
// The results are unchanged, and at up to 5 % no worker is declared dead.
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <stdlib.h>

enum { SEEDS = 60, WORKERS = 3, ROUNDS = 6, SIZE = 2000 };

GW_FUNCTION(loss_echo, GW_POOL, "any") {
    return gw_arg(s, a, 0);
}

GW_FUNCTION(loss_add, GW_POOL, "tensor, int") {
    return gw_value_of(gw_add(s, gw_arg_tensor(s, a, 0), gw_arg_int(s, a, 1)));
}

typedef struct losses {
    int per_million;
    uint64_t lost, cuts, calls;
} losses;

// Tensors sent and returned, and references that are passed on.
static void work(gw_scope *root, int rank, void *context) {
    losses *l = context;
    int next = (rank + 1) % WORKERS, last = (rank + 2) % WORKERS;
    for (int i = 0; i < ROUNDS && gw_ok(root); i++) {
        gw_scope *s = gw_scope_open(root);
        gw_tensor *x = gw_full(s, GW_F32, rank + i, SIZE);
        gw_tensor *y = gw_tensor_of(s, gw_rpc_sync(s, next, "loss_add", x, 10));
        if (gw_ok(s)) {
            assert_float_equal(((const float *)gw_data(y))[SIZE - 1], rank + i + 10, 0);
            l->calls++;
        }
        gw_rref *r = gw_remote(s, next, "loss_echo", 100 * rank + i);
        gw_rref *same = gw_rref_of(s, gw_rpc_sync(s, last, "loss_echo", r));
        int64_t n = gw_int_of(s, gw_to_here_value(s, same));
        if (gw_ok(s)) assert_int_equal(n, 100 * rank + i);
        gw_scope_close_up(s);
    }
    // The error names the lost worker.
    if (l->per_million > 50000) gw_scope_clear(root);
}

static void lose(uint64_t seed, void *context) {
    losses *l = context;
    static const int delays_us[] = { 200, 20000, 200000 };
    sim_options network = { .delay_max_us = delays_us[seed % 3],
                            .window_bytes = seed % 3 == 2 ? 25000 : 0,
                            .cut_per_million = seed % 2 ? 5000 : 0,
                            .resend_per_million = l->per_million };
    cluster_outcome o = cluster_run(seed,
                                    (cluster_options){ .world_size = WORKERS,
                                                       .timeout_ms = CLUSTER_NO_TIMEOUT,
                                                       .network = network,
                                                       .fails = true },
                                    work, l);
    for (int i = 0; i < WORKERS && l->per_million <= 50000; i++)
        assert_string_equal(o.errors[i].text, "");
    l->lost += o.counts.segments_lost;
    l->cuts += o.counts.cuts;
}

static void walk(int per_million) {
    losses l = { .per_million = per_million };
    testing_for_seeds(SEEDS, lose, &l);
    if (getenv("SEED")) return;
    assert_true(l.lost > 0 && l.cuts > 0 && l.calls > 0);
}

static void a_loss_of_1_in_100_packets_causes_no_error(void **state) {
    (void)state;
    walk(10000);
}

static void a_loss_of_1_in_20_packets_causes_no_error(void **state) {
    (void)state;
    walk(50000);
}

static void a_loss_of_1_in_5_packets_corrupts_no_result(void **state) {
    (void)state;
    walk(200000);
}

GW_TESTS(loss_sim, a_loss_of_1_in_100_packets_causes_no_error,
         a_loss_of_1_in_20_packets_causes_no_error, a_loss_of_1_in_5_packets_corrupts_no_result);
