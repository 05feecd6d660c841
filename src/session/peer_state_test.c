// How peers connect to, keep and lose each other.
#include "session/peers_internal.h"

#include "base/log.h"
#include "base/mem.h"
#include "testing/talk.h"
#include "testing/testing.h"

#include <stdio.h>
#include <string.h>

// One worker's peers on a node of a simulation, driven by a function of the test.
typedef struct node {
    sim *sim;
    env *env;
    int rank;
    uint64_t incarnation;
    const char *address;
    peers *peers;
    int received, lost;
    gw_error why;
    waiter *waiter;
    void (*body)(struct node *n);
    int64_t lost_ns;  // when the loss was reported
} node;

static void wake(node *n) {
    if (n->waiter) env_wake(n->env, n->waiter);
    n->waiter = NULL;
}

static void on_received(void *user, int rank, message *m) {
    node *n = user;
    (void)rank;
    assert_int_equal(n->lost, 0);
    n->received++;
    message_release(m);
    wake(n);
}

static void on_lost(void *user, int rank, const gw_error *why) {
    node *n = user;
    (void)rank;
    n->lost++;
    n->why = *why;
    n->lost_ns = env_now_ns(n->env);
    wake(n);
}

static void open_node(node *n) {
    gw_error error;
    char bound[ADDRESSES_MAX];
    peers_options o = { .env = n->env,
                        .rank = n->rank,
                        .incarnation = n->incarnation,
                        .user = n,
                        .received = on_received,
                        .lost = on_lost };
    assert_int_equal(peers_open(o, n->address, &n->peers, bound, &error), GW_OK);
}

static void add(node *n, int rank, uint64_t incarnation, const char *address) {
    gw_error error;
    char name[16];
    snprintf(name, sizeof name, "p%d", rank);
    assert_int_equal(peers_add(n->peers, rank, incarnation, name, address, &error), GW_OK);
}

static gw_status send_one(node *n, int rank) {
    message *m = message_open(1);
    bytes_put_u32(&m->head, 1);
    gw_error error;
    return peers_send(n->peers, rank, m, true, &error);
}

static void pass_time(node *n, int64_t ns) {
    waiter w = { .what = "time to pass" };
    env_wait(n->env, &w, env_now_ns(n->env) + ns);
}

static void until_something(node *n) {
    waiter w = { .what = "a message or a loss" };
    n->waiter = &w;
    env_wait(n->env, &w, ENV_NEVER);
}

static void run_node(void *arg) {
    node *n = arg;
    env_enter(n->env);
    n->body(n);
    env_leave(n->env);
}

static const char *const addresses[] = { "127.0.0.1:1000", "127.0.0.1:1001", "127.0.0.1:1002" };

// Runs one node per body; node i has rank and address i unless the body says otherwise.
static void run(uint64_t seed, sim_options faults, int count, void (*const bodies[])(node *n),
                node *nodes) {
    sim *s = sim_open(seed, faults);
    for (int i = 0; i < count; i++) {
        nodes[i] = (node){ .sim = s,
                           .env = sim_env(s, i),
                           .rank = i,
                           .incarnation = 100 + (uint64_t)i,
                           .address = addresses[i],
                           .body = bodies[i] };
        assert_true(sim_spawn(s, i, run_node, &nodes[i]));
    }
    assert_true(sim_run(s, 1000 * SIM_SECOND));
    for (int i = 0; i < count; i++) env_close(nodes[i].env);
    sim_close(s);
}

static void quiet_line(const char *connection) {
    (void)connection;
}

// ---- Losing -------------------------------------------------------------------------------------
static void call_dead_address(node *n) {
    open_node(n);
    add(n, 1, 101, addresses[1]);
    assert_int_equal(send_one(n, 1), GW_OK);
    until_something(n);
    assert_int_equal(n->lost, 1);
    assert_int_equal(peer_find(n->peers, 1)->state, PEER_LOST);
    assert_true(peers_is_drained(n->peers));
    assert_int_equal(send_one(n, 1), GW_DISCONNECTED);
    peers_close(n->peers);
}

static void it_loses_a_peer_whose_address_refuses(void **state) {
    (void)state;
    node nodes[1];
    log_hook = quiet_line;
    run(1, (sim_options){ 0 }, 1, (void (*[])(node *)){ call_dead_address }, nodes);
    assert_int_equal(nodes[0].why.status, GW_DISCONNECTED);
    assert_string_equal(nodes[0].why.text, "p1 (rank 1) is gone: its process has ended");
}

static void call_nonsense(node *n) {
    open_node(n);
    add(n, 1, 101, "nonsense");
    assert_int_equal(send_one(n, 1), GW_OK);
    until_something(n);
    peers_close(n->peers);
}

static void it_loses_a_peer_whose_address_cannot_be(void **state) {
    (void)state;
    node nodes[1];
    log_hook = quiet_line;
    run(1, (sim_options){ 0 }, 1, (void (*[])(node *)){ call_nonsense }, nodes);
    assert_int_equal(nodes[0].why.status, GW_INVALID);
    assert_non_null(strstr(nodes[0].why.text, "nonsense"));
}

static void serve_as_another(node *n) {
    n->incarnation = 999;
    open_node(n);
    add(n, 0, 100, addresses[0]);
    pass_time(n, 2 * SIM_SECOND);
    assert_int_equal(n->lost, 0);
    peers_close(n->peers);
}

static void call_the_old_one(node *n) {
    open_node(n);
    add(n, 1, 101, addresses[1]);
    pass_time(n, SIM_SECOND);
    assert_int_equal(send_one(n, 1), GW_OK);
    until_something(n);
    peers_close(n->peers);
}

static void it_loses_a_peer_that_is_another_incarnation(void **state) {
    (void)state;
    node nodes[2];
    log_hook = quiet_line;
    run(1, (sim_options){ 0 }, 2, (void (*[])(node *)){ call_the_old_one, serve_as_another },
        nodes);
    assert_int_equal(nodes[0].why.status, GW_DISCONNECTED);
    assert_string_equal(nodes[0].why.text, "p1 (rank 1) is gone: its process has ended");
}

// Talks for a second, and then ends in one of several ways.
static void talk_and_leave(node *n) {
    open_node(n);
    add(n, 0, 100, addresses[0]);
    while (n->received == 0) until_something(n);
    assert_int_equal(send_one(n, 0), GW_OK);
    pass_time(n, SIM_SECOND);
    peers_close(n->peers);
}

static void until_it_is_lost(node *n) {
    open_node(n);
    add(n, 1, 101, addresses[1]);
    pass_time(n, SIM_SECOND / 100);
    assert_int_equal(send_one(n, 1), GW_OK);
    while (!n->lost) until_something(n);
    assert_int_equal(n->received, 1);
    assert_true(n->lost_ns < 2 * SIM_SECOND);
    peers_close(n->peers);
}

static void leave_with_seed(uint64_t seed, void *context) {
    (void)context;
    node nodes[2];
    run(seed, (sim_options){ 0 }, 2, (void (*[])(node *)){ until_it_is_lost, talk_and_leave },
        nodes);
    assert_int_equal(nodes[0].why.status, GW_DISCONNECTED);
    assert_string_equal(nodes[0].why.text, "p1 (rank 1) has left");
}

static void it_loses_a_peer_that_sends_goodbye(void **state) {
    (void)state;
    testing_for_seeds(50, leave_with_seed, NULL);
}

// Its connections end and its address refuses, as after a kill.
static void talk_and_die(node *n) {
    open_node(n);
    add(n, 0, 100, addresses[0]);
    while (n->received == 0) until_something(n);
    assert_int_equal(send_one(n, 0), GW_OK);
    pass_time(n, SIM_SECOND);
    peer *x = peer_find(n->peers, 0);
    if (x->state == PEER_CONNECTED) {
        session_detach(&x->session);
        x->state = PEER_QUIET;
    }
    peers_close(n->peers);
}

static void die_with_seed(uint64_t seed, void *context) {
    (void)context;
    node nodes[2];
    log_hook = quiet_line;
    run(seed, (sim_options){ 0 }, 2, (void (*[])(node *)){ until_it_is_lost, talk_and_die }, nodes);
    assert_int_equal(nodes[0].why.status, GW_DISCONNECTED);
    assert_string_equal(nodes[0].why.text, "p1 (rank 1) is gone: its process has ended");
}

static void it_loses_a_peer_that_dies_within_a_second(void **state) {
    (void)state;
    testing_for_seeds(50, die_with_seed, NULL);
}

// ---- Joining ------------------------------------------------------------------------------------
static void add_late(node *n) {
    open_node(n);
    pass_time(n, 12 * SIM_SECOND);  // longer than one handshake waits
    add(n, 0, 100, addresses[0]);
    while (n->received == 0) until_something(n);
    pass_time(n, SIM_SECOND);
    peers_close(n->peers);
}

static void call_at_once(node *n) {
    open_node(n);
    add(n, 1, 101, addresses[1]);
    pass_time(n, SIM_SECOND / 100);  // until the other listens
    assert_int_equal(send_one(n, 1), GW_OK);
    while (!n->lost) until_something(n);
    peers_close(n->peers);
}

static void join_with_seed(uint64_t seed, void *context) {
    (void)context;
    node nodes[2];
    run(seed, (sim_options){ 0 }, 2, (void (*[])(node *)){ call_at_once, add_late }, nodes);
    assert_int_equal(nodes[1].received, 1);
    assert_string_equal(nodes[0].why.text, "p1 (rank 1) has left");
}

static void it_waits_for_a_peer_that_adds_it_later(void **state) {
    (void)state;
    testing_for_seeds(20, join_with_seed, NULL);
}

static void never_add(node *n) {
    open_node(n);
    pass_time(n, 60 * SIM_SECOND);
    peers_close(n->peers);
}

static void it_gives_up_on_a_peer_that_never_answers(void **state) {
    (void)state;
    node nodes[2];
    log_hook = quiet_line;
    run(1, (sim_options){ 0 }, 2, (void (*[])(node *)){ call_at_once, never_add }, nodes);
    assert_int_equal(nodes[0].why.status, GW_DISCONNECTED);
    assert_non_null(
        strstr(nodes[0].why.text, "p1 (rank 1) has not answered at 127.0.0.1:1001 for 30 s"));
    assert_true(nodes[0].lost_ns >= 30 * SIM_SECOND && nodes[0].lost_ns < 36 * SIM_SECOND);
}

// A second process claims rank 1: it is refused, and the other two are not disturbed.
static void talk_on(node *n) {
    open_node(n);
    add(n, 1 - n->rank, (uint64_t)(101 - n->rank), addresses[1 - n->rank]);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(send_one(n, 1 - n->rank), GW_OK);
        while (n->received <= i) until_something(n);
        pass_time(n, SIM_SECOND / 50);
    }
    assert_int_equal(n->lost, 0);
    assert_int_equal(peers_get_stats(n->peers).reconnects, 0);
    pass_time(n, SIM_SECOND);
    peers_close(n->peers);
}

static void claim_rank_1(node *n) {
    n->rank = 1;
    n->incarnation = 666;
    open_node(n);
    add(n, 0, 100, addresses[0]);
    pass_time(n, SIM_SECOND / 3);
    assert_int_equal(send_one(n, 0), GW_OK);
    until_something(n);
    peers_close(n->peers);
}

static void it_refuses_a_second_process_of_a_rank(void **state) {
    (void)state;
    node nodes[3];
    log_hook = quiet_line;
    run(1, (sim_options){ 0 }, 3, (void (*[])(node *)){ talk_on, talk_on, claim_rank_1 }, nodes);
    assert_int_equal(nodes[2].why.status, GW_FENCED);
    assert_string_equal(nodes[2].why.text,
                        "the other workers have declared this worker dead: rank 1 is taken by "
                        "another process, p1; call gw_rpc_init on another scope to join again");
}

// ---- Both at once -------------------------------------------------------------------------------
static void both_call(uint64_t seed, void *context) {
    talk t;
    talk_open_sim(&t, seed, (talk_options){ .count = 2, .messages = 1, .flush_per_cent = 100 },
                  *(sim_options *)context);
    bool done = talk_run(&t);
    talk_close(&t);
    assert_true(done);
}

static void one_connection_remains_when_both_connect(void **state) {
    (void)state;
    testing_for_seeds(500, both_call, &(sim_options){ .delay_max_us = 2000 });
}

static void one_connection_remains_when_connections_break(void **state) {
    (void)state;
    testing_for_seeds(500, both_call, &(sim_options){ .cut_per_million = 150000 });
}

// ---- Cutting all at once ------------------------------------------------------------------------
static void talk_while_all_is_cut(talker *x) {
    for (int n = 0; n < 30; n++) {
        gw_error error;
        assert_int_equal(talk_send(x, 1 - x->rank, true, &error), GW_OK);
        talk_pause(x, SIM_SECOND / 10);
        if (x->rank == 0 && n % 3 == 0) sim_cut_all(x->talk->sim);
    }
}

static bool has_thirty(talker *x) {
    return x->received[1 - x->rank] == 30 && peers_is_drained(x->peers);
}

static void cut_and_finish(talker *x) {
    talk_while_all_is_cut(x);
    talk_wait(x, "thirty messages", has_thirty);
    assert_false(x->lost[1 - x->rank]);
}

static void cut_with_seed(uint64_t seed, void *context) {
    (void)context;
    talk t;
    talk_open_sim(&t, seed, (talk_options){ .count = 2, .messages = 30 }, (sim_options){ 0 });
    bool done = talk_run_with(&t, cut_and_finish);
    assert_true(peers_get_stats(t.talkers[0].peers).reconnects > 0);
    talk_close(&t);
    assert_true(done);
}

static void it_reconnects_after_all_connections_are_cut(void **state) {
    (void)state;
    testing_for_seeds(100, cut_with_seed, NULL);
}

// ---- By the program -----------------------------------------------------------------------------
static void lose_on_purpose(node *n) {
    open_node(n);
    add(n, 1, 101, addresses[1]);
    send_one(n, 1);
    pass_time(n, SIM_SECOND / 10);
    gw_error why = { .status = GW_PROTOCOL, .text = "p1 made no sense" };
    peers_lose(n->peers, 1, &why);
    peers_lose(n->peers, 1, &why);
    assert_int_equal(n->lost, 1);
    assert_int_equal(send_one(n, 1), GW_PROTOCOL);
    pass_time(n, SIM_SECOND);
    peers_close(n->peers);
}

static void be_lost(node *n) {
    open_node(n);
    add(n, 0, 100, addresses[0]);
    while (!n->lost) until_something(n);
    peers_close(n->peers);
}

static void a_lost_peer_is_fenced(void **state) {
    (void)state;
    node nodes[2];
    log_hook = quiet_line;
    run(1, (sim_options){ 0 }, 2, (void (*[])(node *)){ lose_on_purpose, be_lost }, nodes);
    assert_int_equal(nodes[1].why.status, GW_FENCED);
    assert_string_equal(nodes[1].why.text,
                        "the other workers have declared this worker dead: p1 made no sense; call "
                        "gw_rpc_init on another scope to join again");
}

static void add_wrongly(node *n) {
    open_node(n);
    gw_error error;
    assert_int_equal(peers_add(n->peers, 0, 1, "me", "x:1", &error), GW_DUPLICATE);
    assert_int_equal(peers_add(n->peers, -1, 1, "me", "x:1", &error), GW_LIMIT);
    assert_int_equal(peers_add(n->peers, LIMIT_WORKERS, 1, "me", "x:1", &error), GW_LIMIT);
    assert_int_equal(peers_add(n->peers, 5, 1, "p5", "x:1", &error), GW_OK);
    assert_int_equal(peers_add(n->peers, 5, 2, "p6", "x:1", &error), GW_DUPLICATE);
    assert_int_equal(peers_send(n->peers, 4, message_open(1), true, &error), GW_NOT_FOUND);
    assert_int_equal(peers_send(n->peers, -1, message_open(1), true, &error), GW_NOT_FOUND);
    assert_null(peer_find(n->peers, 4));
    peers_close(n->peers);
}

static void it_checks_ranks(void **state) {
    (void)state;
    node nodes[1];
    run(1, (sim_options){ 0 }, 1, (void (*[])(node *)){ add_wrongly }, nodes);
}

GW_TESTS(session_peer_state, it_loses_a_peer_whose_address_refuses,
         it_loses_a_peer_whose_address_cannot_be, it_loses_a_peer_that_is_another_incarnation,
         it_loses_a_peer_that_sends_goodbye, it_loses_a_peer_that_dies_within_a_second,
         it_waits_for_a_peer_that_adds_it_later, it_gives_up_on_a_peer_that_never_answers,
         it_refuses_a_second_process_of_a_rank, one_connection_remains_when_both_connect,
         one_connection_remains_when_connections_break, it_reconnects_after_all_connections_are_cut,
         a_lost_peer_is_fenced, it_checks_ranks);
