#include "testing/sim.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "testing/stream_end.h"
#include "testing/testing.h"

static const char address[] = "server:29500";

// One end, and how many bytes it waits for.
typedef struct side {
    stream_end end;
    size_t wanted;
} side;

static void wait_until_done(side *x) {
    stream_end *e = &x->end;
    while (!e->closed && !(e->opened && stream_end_has_sent(e) && e->received >= x->wanted)) {
        waiter w = { .what = "bytes" };
        e->waiter = &w;
        env_wait(e->env, &w, ENV_NEVER);
        e->waiter = NULL;
    }
}

static gw_status start_to_listen(side *x) {
    char bound[ADDRESS_MAX];
    gw_error error;
    listener *l;
    env_enter(x->end.env);
    gw_status status =
        sim_transport.listen(x->end.env, address, stream_end_accept, &x->end, &l, bound, &error);
    env_leave(x->end.env);
    return status;
}

static void run_server(void *arg) {
    side *x = arg;
    env_enter(x->end.env);
    wait_until_done(x);
    env_leave(x->end.env);
}

static void run_client(void *arg) {
    side *x = arg;
    gw_error error;
    env_enter(x->end.env);
    if (stream_end_connect(&x->end, &sim_transport, address, &error) == GW_OK) wait_until_done(x);
    env_leave(x->end.env);
}

typedef struct transfer {
    sim *sim;
    side server, client;
} transfer;

static void open_transfer(transfer *t, uint64_t seed, sim_options options) {
    t->sim = sim_open(seed, options);
    assert_non_null(t->sim);
    t->server.end.env = sim_env(t->sim, 0);
    t->client.end.env = sim_env(t->sim, 1);
    // Before the run, or in some seeds the client would connect too early.
    assert_int_equal(start_to_listen(&t->server), GW_OK);
    sim_spawn(t->sim, 0, run_server, &t->server);
    sim_spawn(t->sim, 1, run_client, &t->client);
}

static void everything_arrives_in_order_both_ways(uint64_t seed, void *context) {
    (void)context;
    transfer t = { .server = { .end.to_send = 20000, .wanted = 50000 },
                   .client = { .end.to_send = 50000, .wanted = 20000, .end.bite = 100 } };
    open_transfer(&t, seed, sim_varied(seed, 0));
    assert_true(sim_run(t.sim, 10000 * SIM_SECOND));
    assert_int_equal(t.server.end.received, 50000);
    assert_int_equal(t.client.end.received, 20000);
    assert_int_equal(sim_count(t.sim).bytes, 70000);
    assert_int_equal(sim_count(t.sim).connections, 1);
    sim_close(t.sim);
}

static void bytes_arrive_in_order_for_any_seed(void **state) {
    (void)state;
    testing_for_seeds(200, everything_arrives_in_order_both_ways, NULL);
}

static void pieces_are_cut_differently_by_each_seed(void **state) {
    (void)state;
    int counts[10], different = 0, partial_count = 0;
    for (int i = 0; i < 10; i++) {
        transfer t = { .server = { .wanted = 20000 }, .client = { .end.to_send = 20000 } };
        open_transfer(&t, (uint64_t)i, (sim_options){ .window_bytes = 1024 });
        assert_true(sim_run(t.sim, 100 * SIM_SECOND));
        counts[i] = t.server.end.piece_count;
        partial_count += t.client.end.partial_count;
        different += i > 0 && counts[i] != counts[0];
        sim_close(t.sim);
    }
    assert_true(different >= 5);
    assert_true(partial_count > 10);
}

static int64_t time_of_transfer(int delay_max_us) {
    transfer t = { .server = { .wanted = 100000 }, .client = { .end.to_send = 100000 } };
    open_transfer(&t, 1, (sim_options){ .delay_max_us = delay_max_us });
    assert_true(sim_run(t.sim, 10000 * SIM_SECOND));
    int64_t took_ns = t.server.end.last_ns;
    sim_close(t.sim);
    return took_ns;
}

static void delayed_bytes_arrive_later(void **state) {
    (void)state;
    assert_true(time_of_transfer(1000000) > 100 * time_of_transfer(1000));
}

static void a_cut_loses_all_bytes_after_some_byte(void **state) {
    (void)state;
    int cut_count = 0, whole_count = 0, different = 0;
    size_t first = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        transfer t = { .server = { .wanted = 20000 },
                       .client = { .end.to_send = 20000, .wanted = SIZE_MAX } };
        open_transfer(&t, seed, (sim_options){ .cut_per_million = 50000, .window_bytes = 1024 });
        t.server.wanted = SIZE_MAX;
        bool ended = sim_run(t.sim, 100 * SIM_SECOND);
        if (sim_count(t.sim).cuts > 0) {
            // Both ends are closed, after a prefix of the bytes; the end has checked
            // them.
            assert_true(ended);
            assert_true(t.server.end.closed && t.client.end.closed);
            assert_int_equal(t.server.end.why.status, GW_DISCONNECTED);
            assert_true(t.server.end.received <= 20000);
            cut_count++;
            if (first == 0) first = t.server.end.received;
            different += t.server.end.received != first;
        } else {
            whole_count++;
        }
        sim_close(t.sim);
    }
    assert_true(cut_count > 20 && different > 10);
    assert_true(cut_count + whole_count == 40);
}

static void a_cut_loses_bytes_under_way(void **state) {
    (void)state;
    int lossy_count = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        transfer t = { .server = { .wanted = SIZE_MAX },
                       .client = { .end.to_send = 500, .wanted = SIZE_MAX } };
        open_transfer(&t, seed, (sim_options){ .cut_per_million = 1000000 });
        assert_true(sim_run(t.sim, SIM_SECOND));
        assert_int_equal(t.client.end.sent, 500);
        lossy_count += t.server.end.received < 500;
        sim_close(t.sim);
    }
    assert_true(lossy_count >= 15);
}

static void all_can_be_cut_at_once(void **state) {
    (void)state;
    transfer t = { .server = { .wanted = SIZE_MAX }, .client = { .wanted = SIZE_MAX } };
    open_transfer(&t, 1, (sim_options){ .quiet = true });
    assert_false(sim_run(t.sim, SIM_SECOND));  // they wait for bytes that do not arrive
    assert_true(t.server.end.opened && t.client.end.opened);
    sim_cut_all(t.sim);
    assert_true(sim_run(t.sim, 2 * SIM_SECOND));
    assert_true(t.server.end.closed && t.client.end.closed);
    assert_int_equal(sim_count(t.sim).cuts, 1);
    sim_close(t.sim);
}

static void closing_an_env_closes_its_streams(void **state) {
    (void)state;
    transfer t = { .server = { .wanted = 10 },
                   .client = { .end.to_send = 10, .wanted = SIZE_MAX } };
    open_transfer(&t, 1, (sim_options){ .quiet = true });
    assert_false(sim_run(t.sim, SIM_SECOND));
    env_close(t.server.end.env);
    assert_true(sim_run(t.sim, 2 * SIM_SECOND));
    assert_true(t.client.end.closed);
    // The node is started again, at the same address.
    side again = { .end.env = sim_env(t.sim, 0), .wanted = 10 };
    side client = { .end.env = t.client.end.env, .end.to_send = 10 };
    assert_ptr_not_equal(again.end.env, t.server.end.env);
    assert_int_equal(start_to_listen(&again), GW_OK);
    sim_spawn(t.sim, 0, run_server, &again);
    sim_spawn(t.sim, 1, run_client, &client);
    assert_true(sim_run(t.sim, 3 * SIM_SECOND));
    assert_int_equal(again.end.received, 10);
    sim_close(t.sim);
}

static void addresses_are_names_with_ports(void **state) {
    (void)state;
    sim *s = sim_open(1, (sim_options){ 0 });
    env *e = sim_env(s, 0);
    listener *l[4];
    char a[ADDRESS_MAX], b[ADDRESS_MAX];
    stream_end x = { .env = e };
    gw_error error;
    env_enter(e);
    assert_int_equal(sim_transport.listen(e, "host:0", stream_end_accept, &x, &l[0], a, &error),
                     GW_OK);
    assert_int_equal(sim_transport.listen(e, "host:0", stream_end_accept, &x, &l[1], b, &error),
                     GW_OK);
    assert_string_not_equal(a, b);
    assert_int_equal(sim_transport.listen(e, a, stream_end_accept, &x, &l[2], b, &error),
                     GW_ADDRESS_IN_USE);
    assert_int_equal(
        sim_transport.listen(e, "localhost:1", stream_end_accept, &x, &l[2], b, &error), GW_OK);
    assert_string_equal(b, "127.0.0.1:1");
    listener_close(l[2]);
    assert_int_equal(
        sim_transport.listen(e, "127.0.0.1:1", stream_end_accept, &x, &l[3], b, &error), GW_OK);
    const char *wrong[] = { "", "host", "host:", ":1", "host:x", "host:70000" };
    for (int i = 0; i < 6; i++)
        assert_int_equal(sim_transport.listen(e, wrong[i], stream_end_accept, &x, &l[2], b, &error),
                         GW_INVALID);
    assert_int_equal(stream_end_connect(&x, &sim_transport, "host:0", &error), GW_INVALID);
    env_leave(e);
    sim_close(s);
}

static void transfer_without_memory(void *context) {
    (void)context;
    transfer t = { .server = { .wanted = 10 }, .client = { .end.to_send = 10 } };
    t.sim = sim_open(1, (sim_options){ .quiet = true });
    if (!t.sim) return;
    t.server.end.env = sim_env(t.sim, 0);
    t.client.end.env = sim_env(t.sim, 1);
    if (t.server.end.env && t.client.end.env && !start_to_listen(&t.server) &&
        sim_spawn(t.sim, 0, run_server, &t.server) && sim_spawn(t.sim, 1, run_client, &t.client))
        (void)sim_run(t.sim, SIM_SECOND);
    sim_close(t.sim);
}

static void nothing_is_lost_without_memory(void **state) {
    (void)state;
    testing_alloc_failure_loop(transfer_without_memory, NULL);
}

GW_TESTS(sim_net, bytes_arrive_in_order_for_any_seed, pieces_are_cut_differently_by_each_seed,
         delayed_bytes_arrive_later, a_cut_loses_all_bytes_after_some_byte,
         a_cut_loses_bytes_under_way, all_can_be_cut_at_once, closing_an_env_closes_its_streams,
         addresses_are_names_with_ports, nothing_is_lost_without_memory);
