#include "testing/sim.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "testing/testing.h"

enum { PIECE_MAX = 512 };

// One end of a stream that carries the numbers 0, 1, 2, ... as bytes, modulo 251.
typedef struct end {
    env *env;
    const char *address;
    listener *listener;
    stream *stream;
    bool opened, closed;
    gw_error why;
    waiter *waiter;

    // sending
    size_t to_send, sent;
    int partial_count;

    // receiving
    char buffer[PIECE_MAX];
    size_t buffer_size;
    size_t wanted, received;
    int piece_count;
    int64_t first_ns, last_ns;
    bool closes_when_received;
} end;

static void tell(end *x) {
    if (x->waiter && !x->waiter->woken) env_wake(x->env, x->waiter);
}

static void send_on(end *x) {
    while (x->sent < x->to_send) {
        char bytes[PIECE_MAX];
        size_t size = x->to_send - x->sent;
        if (size > sizeof bytes) size = sizeof bytes;
        for (size_t i = 0; i < size; i++) bytes[i] = (char)((x->sent + i) % 251);
        // In two parts, as headers and bodies are.
        struct iovec parts[2] = { { bytes, size / 3 }, { bytes + size / 3, size - size / 3 } };
        size_t taken = stream_send(x->stream, parts, 2);
        assert_true(taken <= size);
        x->sent += taken;
        if (taken < size) {
            x->partial_count++;
            return;
        }
    }
}

static void on_opened(void *user) {
    end *x = user;
    assert_true(env_held(x->env) && !x->opened);
    x->opened = true;
    x->first_ns = env_now_ns(x->env);
    send_on(x);
    tell(x);
}

static void on_buffer(void *user, void **into, size_t *size) {
    end *x = user;
    *into = x->buffer;
    *size = x->buffer_size ? x->buffer_size : sizeof x->buffer;
}

static void on_received(void *user, size_t count) {
    end *x = user;
    assert_true(env_held(x->env) && !x->closed && count <= sizeof x->buffer);
    for (size_t i = 0; i < count; i++)
        assert_int_equal((unsigned char)x->buffer[i], (x->received + i) % 251);
    x->received += count;
    x->piece_count++;
    x->last_ns = env_now_ns(x->env);
    if (x->closes_when_received) {
        stream_close(x->stream);
        x->closed = true;
    }
    tell(x);
}

static void on_writable(void *user) {
    send_on(user);
    tell(user);
}

static void on_closed(void *user, const gw_error *why) {
    end *x = user;
    assert_false(x->closed);
    x->closed = true;
    x->why = *why;
    tell(x);
}

static const stream_events end_events = { .opened = on_opened,
                                          .buffer = on_buffer,
                                          .received = on_received,
                                          .writable = on_writable,
                                          .closed = on_closed };

static void on_accepted(void *user, stream *c) {
    end *x = user;
    x->stream = c;
    stream_adopt(c, &end_events, x);
    on_opened(x);
}

static bool is_done(const end *x) {
    return x->closed || (x->opened && x->sent == x->to_send && x->received >= x->wanted);
}

static void wait_until_done(end *x) {
    while (!is_done(x)) {
        waiter w = { .what = "bytes" };
        x->waiter = &w;
        env_wait(x->env, &w, ENV_NEVER);
        x->waiter = NULL;
    }
}

static gw_status start_to_listen(end *x) {
    char bound[ADDRESS_MAX];
    gw_error error;
    env_enter(x->env);
    gw_status status =
        sim_transport.listen(x->env, x->address, on_accepted, x, &x->listener, bound, &error);
    env_leave(x->env);
    return status;
}

static void run_server(void *arg) {
    end *x = arg;
    env_enter(x->env);
    wait_until_done(x);
    env_leave(x->env);
}

static void run_client(void *arg) {
    end *x = arg;
    gw_error error;
    env_enter(x->env);
    if (sim_transport.connect(x->env, x->address, &end_events, x, &x->stream, &error) == GW_OK)
        wait_until_done(x);
    env_leave(x->env);
}

typedef struct transfer {
    sim *sim;
    end server, client;
} transfer;

static void open_transfer(transfer *t, uint64_t seed, sim_options options) {
    t->sim = sim_open(seed, options);
    assert_non_null(t->sim);
    t->server.env = sim_env(t->sim, 0);
    t->client.env = sim_env(t->sim, 1);
    t->server.address = t->client.address = "server:29500";
    // Before the run, or some seeds would have the client come too early.
    assert_int_equal(start_to_listen(&t->server), GW_OK);
    sim_spawn(t->sim, 0, run_server, &t->server);
    sim_spawn(t->sim, 1, run_client, &t->client);
}

static void everything_arrives_in_order_both_ways(uint64_t seed, void *context) {
    (void)context;
    transfer t = { .server = { .to_send = 20000, .wanted = 50000 },
                   .client = { .to_send = 50000, .wanted = 20000, .buffer_size = 100 } };
    open_transfer(&t, seed, sim_varied(seed, 0));
    assert_true(sim_run(t.sim, 10000 * SIM_SECOND));
    assert_int_equal(t.server.received, 50000);
    assert_int_equal(t.client.received, 20000);
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
        transfer t = { .server = { .wanted = 20000 }, .client = { .to_send = 20000 } };
        open_transfer(&t, (uint64_t)i, (sim_options){ .window_bytes = 1024 });
        assert_true(sim_run(t.sim, 100 * SIM_SECOND));
        counts[i] = t.server.piece_count;
        partial_count += t.client.partial_count;
        different += i > 0 && counts[i] != counts[0];
        sim_close(t.sim);
    }
    assert_true(different >= 5);
    assert_true(partial_count > 10);
}

static int64_t time_of_transfer(int delay_max_us) {
    transfer t = { .server = { .wanted = 100000 }, .client = { .to_send = 100000 } };
    open_transfer(&t, 1, (sim_options){ .delay_max_us = delay_max_us });
    assert_true(sim_run(t.sim, 10000 * SIM_SECOND));
    int64_t took_ns = t.server.last_ns;
    sim_close(t.sim);
    return took_ns;
}

static void delays_delay(void **state) {
    (void)state;
    assert_true(time_of_transfer(1000000) > 100 * time_of_transfer(1000));
}

static void a_cut_loses_what_comes_after_some_byte(void **state) {
    (void)state;
    int cut_count = 0, whole_count = 0, different = 0;
    size_t first = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        transfer t = { .server = { .wanted = 20000 },
                       .client = { .to_send = 20000, .wanted = SIZE_MAX } };
        open_transfer(&t, seed, (sim_options){ .cut_per_million = 50000, .window_bytes = 1024 });
        t.server.wanted = SIZE_MAX;
        bool ended = sim_run(t.sim, 100 * SIM_SECOND);
        if (sim_count(t.sim).cuts > 0) {
            // Both ends are told, after a prefix of the bytes; on_received has checked what they
            // are.
            assert_true(ended);
            assert_true(t.server.closed && t.client.closed);
            assert_int_equal(t.server.why.status, GW_DISCONNECTED);
            assert_non_null(strstr(t.client.why.text, "server:29500: "));
            assert_true(t.server.received <= 20000);
            cut_count++;
            if (first == 0) first = t.server.received;
            different += t.server.received != first;
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
                       .client = { .to_send = 500, .wanted = SIZE_MAX } };
        open_transfer(&t, seed, (sim_options){ .cut_per_million = 1000000 });
        assert_true(sim_run(t.sim, SIM_SECOND));
        assert_int_equal(t.client.sent, 500);
        lossy_count += t.server.received < 500;
        sim_close(t.sim);
    }
    assert_true(lossy_count >= 15);
}

static void all_can_be_cut_at_once(void **state) {
    (void)state;
    transfer t = { .server = { .wanted = SIZE_MAX }, .client = { .wanted = SIZE_MAX } };
    open_transfer(&t, 1, (sim_options){ .quiet = true });
    assert_false(sim_run(t.sim, SIM_SECOND));  // they wait for bytes that do not come
    assert_true(t.server.opened && t.client.opened);
    sim_cut_all(t.sim);
    assert_true(sim_run(t.sim, 2 * SIM_SECOND));
    assert_true(t.server.closed && t.client.closed);
    assert_int_equal(sim_count(t.sim).cuts, 1);
    sim_close(t.sim);
}

static void closing_an_env_closes_its_streams(void **state) {
    (void)state;
    transfer t = { .server = { .wanted = 10 }, .client = { .to_send = 10, .wanted = SIZE_MAX } };
    open_transfer(&t, 1, (sim_options){ .quiet = true });
    assert_false(sim_run(t.sim, SIM_SECOND));
    env_close(t.server.env);
    assert_true(sim_run(t.sim, 2 * SIM_SECOND));
    assert_true(t.client.closed);
    // The node comes back, at the same address.
    end again = { .env = sim_env(t.sim, 0), .address = "server:29500", .wanted = 10 };
    end client = { .env = t.client.env, .address = "server:29500", .to_send = 10 };
    assert_ptr_not_equal(again.env, t.server.env);
    assert_int_equal(start_to_listen(&again), GW_OK);
    sim_spawn(t.sim, 0, run_server, &again);
    sim_spawn(t.sim, 1, run_client, &client);
    assert_true(sim_run(t.sim, 3 * SIM_SECOND));
    assert_int_equal(again.received, 10);
    sim_close(t.sim);
}

static void addresses_are_names_with_ports(void **state) {
    (void)state;
    sim *s = sim_open(1, (sim_options){ 0 });
    env *e = sim_env(s, 0);
    listener *l[4];
    char a[ADDRESS_MAX], b[ADDRESS_MAX];
    end x = { .env = e };
    gw_error error;
    env_enter(e);
    assert_int_equal(sim_transport.listen(e, "host:0", on_accepted, &x, &l[0], a, &error), GW_OK);
    assert_int_equal(sim_transport.listen(e, "host:0", on_accepted, &x, &l[1], b, &error), GW_OK);
    assert_string_not_equal(a, b);
    assert_int_equal(sim_transport.listen(e, a, on_accepted, &x, &l[2], b, &error),
                     GW_ADDRESS_IN_USE);
    assert_int_equal(sim_transport.listen(e, "localhost:1", on_accepted, &x, &l[2], b, &error),
                     GW_OK);
    assert_string_equal(b, "127.0.0.1:1");
    listener_close(l[2]);
    assert_int_equal(sim_transport.listen(e, "127.0.0.1:1", on_accepted, &x, &l[3], b, &error),
                     GW_OK);
    const char *wrong[] = { "", "host", "host:", ":1", "host:x", "host:70000" };
    for (int i = 0; i < 6; i++)
        assert_int_equal(sim_transport.listen(e, wrong[i], on_accepted, &x, &l[2], b, &error),
                         GW_INVALID);
    assert_int_equal(sim_transport.connect(e, "host:0", &end_events, &x, &x.stream, &error),
                     GW_INVALID);
    env_leave(e);
    sim_close(s);
}

static void transfer_without_memory(void *context) {
    (void)context;
    transfer t = { .server = { .wanted = 10 }, .client = { .to_send = 10 } };
    t.sim = sim_open(1, (sim_options){ .quiet = true });
    if (!t.sim) return;
    t.server.env = sim_env(t.sim, 0);
    t.client.env = sim_env(t.sim, 1);
    t.server.address = t.client.address = "server:29500";
    if (t.server.env && t.client.env && !start_to_listen(&t.server) &&
        sim_spawn(t.sim, 0, run_server, &t.server) && sim_spawn(t.sim, 1, run_client, &t.client))
        (void)sim_run(t.sim, SIM_SECOND);
    sim_close(t.sim);
}

static void nothing_is_lost_without_memory(void **state) {
    (void)state;
    testing_alloc_failure_loop(transfer_without_memory, NULL);
}

GW_TESTS(sim_net, bytes_arrive_in_order_for_any_seed, pieces_are_cut_differently_by_each_seed,
         delays_delay, a_cut_loses_what_comes_after_some_byte, a_cut_loses_bytes_under_way,
         all_can_be_cut_at_once, closing_an_env_closes_its_streams, addresses_are_names_with_ports,
         nothing_is_lost_without_memory);
