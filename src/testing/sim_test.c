#include "testing/sim.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "testing/testing.h"

enum { TEXT_MAX = 4096 };

// A player on one node: sends numbers to the other and waits for each to come back.
typedef struct player {
    env *env;
    const char *address;
    int rounds;
    conn *conn;
    listener *listener;
    bool opened, closed;
    waiter *waiter;
    uint32_t in, out;
    size_t in_size;
    int done;
    char *log;  // shared by all players: who got what, in order
    char name;
} player;

static void tell(player *p) {
    if (p->waiter && !p->waiter->woken) env_wake(p->env, p->waiter);
}

static void on_opened(void *user) {
    player *p = user;
    p->opened = true;
    tell(p);
}

static void on_buffer(void *user, void **into, size_t *size) {
    player *p = user;
    *into = (char *)&p->in + p->in_size;
    *size = sizeof p->in - p->in_size;
}

static void on_received(void *user, size_t count) {
    player *p = user;
    p->in_size += count;
    if (p->in_size == sizeof p->in) tell(p);
}

static void on_writable(void *user) {
    (void)user;
}

static void on_closed(void *user, const gw_error *why) {
    player *p = user;
    (void)why;
    p->closed = true;
    p->conn = NULL;
    tell(p);
}

static const conn_events player_events = { .opened = on_opened,
                                           .buffer = on_buffer,
                                           .received = on_received,
                                           .writable = on_writable,
                                           .closed = on_closed };

static void on_accepted(void *user, conn *c) {
    player *p = user;
    p->conn = c;
    p->opened = true;
    conn_adopt(p->env, c, &player_events, p);
    tell(p);
}

static void wait_until(player *p, const bool *done) {
    while (!*done && !p->closed) {
        waiter w = { .what = "a move" };
        p->waiter = &w;
        env_wait(p->env, &w, ENV_NEVER);
        p->waiter = NULL;
    }
}

static void send_number(player *p, uint32_t n) {
    p->out = n;
    size_t sent = conn_send(p->env, p->conn, &(struct iovec){ &p->out, sizeof n }, 1);
    // The ring is never full here; the few sends that take less on purpose are repeated.
    while (sent < sizeof n)
        sent += conn_send(p->env, p->conn,
                          &(struct iovec){ (char *)&p->out + sent, sizeof n - sent }, 1);
}

static bool receive_number(player *p, uint32_t *out) {
    while (p->in_size < sizeof p->in && !p->closed) {
        waiter w = { .what = "a number" };
        p->waiter = &w;
        env_wait(p->env, &w, ENV_NEVER);
        p->waiter = NULL;
    }
    if (p->in_size < sizeof p->in) return false;
    *out = p->in;
    p->in_size = 0;
    if (p->log && strlen(p->log) < TEXT_MAX - 2) strncat(p->log, &p->name, 1);
    return true;
}

static void serve(void *arg) {
    player *p = arg;
    char bound[ENV_ADDRESS_MAX];
    gw_error error;
    env_enter(p->env);
    assert_int_equal(env_listen(p->env, p->address, on_accepted, p, &p->listener, bound, &error),
                     GW_OK);
    wait_until(p, &p->opened);
    for (uint32_t n; receive_number(p, &n); p->done++) send_number(p, n + 1);
    env_leave(p->env);
    env_close(p->env);
}

static void play(void *arg) {
    player *p = arg;
    gw_error error;
    env_enter(p->env);
    while (!p->opened) {
        p->closed = false;
        assert_int_equal(env_connect(p->env, p->address, &player_events, p, &p->conn, &error),
                         GW_OK);
        wait_until(p, &p->opened);
    }
    for (uint32_t n = 0; p->done < p->rounds; p->done++) {
        send_number(p, n);
        uint32_t answer;
        if (!receive_number(p, &answer)) break;
        assert_int_equal(answer, n + 1);
        n = answer;
    }
    if (p->conn) conn_close(p->env, p->conn);
    env_leave(p->env);
    env_close(p->env);
}

typedef struct game {
    char log[TEXT_MAX];
    uint64_t hash;
    sim_counts counts;
    int64_t took_ns;
    int done;
} game;

// |pairs| games at once between nodes 0, 1 and 2, 3 and so on.
static game run_game(uint64_t seed, sim_options options, int pairs, int rounds) {
    game g = { 0 };
    player players[16] = { 0 };
    char addresses[8][ENV_ADDRESS_MAX];
    sim *s = sim_open(seed, options);
    for (int i = 0; i < pairs * 2; i++) {
        snprintf(addresses[i / 2], ENV_ADDRESS_MAX, "host%d:29500", i / 2);
        players[i] = (player){ .env = sim_env(s, i),
                               .address = addresses[i / 2],
                               .rounds = rounds,
                               .log = g.log,
                               .name = (char)('a' + i) };
        sim_spawn(s, i, i % 2 ? play : serve, &players[i]);
    }
    assert_true(sim_run(s, 1000 * SIM_SECOND));
    g.hash = sim_trace_hash(s);
    g.counts = sim_count(s);
    g.took_ns = sim_now_ns(s);
    g.done = players[1].done;
    sim_close(s);
    return g;
}

static void the_same_seed_gives_the_same_run(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        game a = run_game(seed, (sim_options){ .cut_per_million = 1000 }, 3, 30);
        game b = run_game(seed, (sim_options){ .cut_per_million = 1000 }, 3, 30);
        assert_true(a.hash == b.hash);
        assert_string_equal(a.log, b.log);
        assert_true(a.took_ns == b.took_ns);
    }
}

static void other_seeds_give_other_orders(void **state) {
    (void)state;
    game a = run_game(1, (sim_options){ 0 }, 3, 30);
    int different = 0;
    for (uint64_t seed = 2; seed <= 11; seed++) {
        game b = run_game(seed, (sim_options){ 0 }, 3, 30);
        assert_true(a.hash != b.hash);
        different += strcmp(a.log, b.log) != 0;
    }
    assert_true(different >= 8);
}

static void many_rounds_are_played(void **state) {
    (void)state;
    game g = run_game(1, (sim_options){ 0 }, 1, testing_scaled(10000));
    assert_int_equal(g.done, testing_scaled(10000));
    assert_true(g.counts.deliveries >= 2 * (uint64_t)g.done);
}

GW_TESTS(sim, the_same_seed_gives_the_same_run, other_seeds_give_other_orders,
         many_rounds_are_played);
