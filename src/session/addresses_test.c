// Connecting to a peer: which of its addresses are tried, which one is kept, the error
// when none works.
#include "session/peers_internal.h"

#include "base/log.h"
#include "testing/sim.h"
#include "testing/testing.h"

#include <stdio.h>
#include <string.h>

enum { CALLER, CALLED, OTHER, NODES };

typedef struct node {
    env *env;
    int rank;
    uint64_t incarnation;
    const char *listens;    // "": the default address
    int64_t calls_back_ns;  // when a called node sends something itself; 0: never
    peers *peers;
    char addresses[ADDRESSES_MAX];
    int received, lost;
    gw_error why;
    waiter *waiter;
} node;

typedef struct scene {
    sim *sim;
    node nodes[NODES];
    // the caller's actions
    void (*body)(struct scene *s);
    // a second transport, of the simulator too
    bool has_both;
    transport shm;
    const transport *both[3];
} scene;

static void wake(node *n) {
    if (n->waiter && !n->waiter->woken) env_wake(n->env, n->waiter);
}

static void on_received(void *user, int rank, message *m) {
    node *n = user;
    (void)rank;
    n->received++;
    message_release(m);
    wake(n);
}

static void on_lost(void *user, int rank, const gw_error *why) {
    node *n = user;
    (void)rank;
    n->lost++;
    n->why = *why;
    wake(n);
}

static void open_node(node *n) {
    gw_error error;
    peers_options o = { .env = n->env,
                        .rank = n->rank,
                        .incarnation = n->incarnation,
                        .user = n,
                        .received = on_received,
                        .lost = on_lost };
    assert_int_equal(peers_open(o, n->listens, &n->peers, n->addresses, &error), GW_OK);
}

static void pass_time(node *n, int64_t ns) {
    waiter w = { .what = "time to pass" };
    env_wait(n->env, &w, env_now_ns(n->env) + ns);
}

// Called nodes start before the caller, and only listen.
static void run_called(void *arg) {
    node *n = arg;
    gw_error error;
    env_enter(n->env);
    open_node(n);
    const char *caller = n->calls_back_ns ? "caller:1000" : "10.0.0.1:1";
    assert_int_equal(peers_add(n->peers, 0, 100, "caller", caller, &error), GW_OK);
    pass_time(n, n->calls_back_ns);
    if (n->calls_back_ns)
        assert_int_equal(peers_send(n->peers, 0, message_open(1), true, &error), GW_OK);
    pass_time(n, 200 * SIM_SECOND);
    peers_close(n->peers);
    env_leave(n->env);
}

static void run_caller(void *arg) {
    scene *s = arg;
    node *n = &s->nodes[CALLER];
    env_enter(n->env);
    pass_time(n, SIM_SECOND);
    open_node(n);
    s->body(s);
    peers_close(n->peers);
    env_leave(n->env);
}

static char logged[1024];  // the last line

static void keep_line(const char *line) {
    snprintf(logged, sizeof logged, "%s", line);
}

static void play(scene *s, void (*body)(scene *s)) {
    s->sim = sim_open(1, (sim_options){ 0 });
    s->body = body;
    log_hook = keep_line;
    s->shm = sim_transport;
    s->shm.scheme = "shm";
    s->shm.anywhere = "segment:0";
    s->both[0] = &s->shm;
    s->both[1] = &sim_transport;
    for (int i = 0; i < NODES; i++) {
        node *n = &s->nodes[i];
        n->env = sim_env(s->sim, i);
        n->rank = i == CALLER ? 0 : 1;  // the node at the other address claims rank 1 too
        n->incarnation = 100 + (uint64_t)i;
        if (!n->listens) n->listens = "";
        if (s->has_both) n->env->transports = s->both;
    }
    sim_spawn(s->sim, CALLED, run_called, &s->nodes[CALLED]);
    sim_spawn(s->sim, OTHER, run_called, &s->nodes[OTHER]);
    sim_spawn(s->sim, CALLER, run_caller, s);
    assert_true(sim_run(s->sim, 1000 * SIM_SECOND));
    for (int i = 0; i < NODES; i++) env_close(s->nodes[i].env);
    sim_close(s->sim);
}

static void add_at(scene *s, const char *addresses) {
    gw_error error;
    assert_int_equal(peers_add(s->nodes[CALLER].peers, 1, 101, "p1", addresses, &error), GW_OK);
}

static void send_and_wait(scene *s, int64_t ns) {
    node *n = &s->nodes[CALLER];
    gw_error error;
    assert_int_equal(peers_send(n->peers, 1, message_open(1), true, &error), GW_OK);
    waiter w = { .what = "an ack or a loss" };
    n->waiter = &w;
    peers_on_drained(n->peers, &w);
    env_wait(n->env, &w, env_now_ns(n->env) + ns);
    n->waiter = NULL;
    peers_on_drained(n->peers, NULL);
}

static void expect_reached(scene *s, int index) {
    assert_int_equal(s->nodes[CALLER].lost, 0);
    assert_true(peers_is_connected(s->nodes[CALLER].peers, 1));
    assert_int_equal(peer_find(s->nodes[CALLER].peers, 1)->routes.first, index);
    assert_true(s->nodes[CALLED].received > 0);
    assert_int_equal(s->nodes[OTHER].received, 0);
}

// ---- Reaching -----------------------------------------------------------------------------------
static void call_past_unknown_schemes(scene *s) {
    add_at(s, "moon://crater:1,tcp://called:1001");
    send_and_wait(s, 10 * SIM_SECOND);
    expect_reached(s, 0);
}

static void it_skips_addresses_without_a_transport(void **state) {
    (void)state;
    play(&(scene){ .nodes[CALLED].listens = "called:1001" }, call_past_unknown_schemes);
}

static void call_past_refusals(scene *s) {
    add_at(s, "tcp://dead:1,tcp://also-dead:2,tcp://called:1001");
    send_and_wait(s, 10 * SIM_SECOND);
    expect_reached(s, 2);
    // The same address is tried first when the connection breaks.
    uint64_t connections = sim_count(s->sim).connections;
    sim_cut_all(s->sim);
    pass_time(&s->nodes[CALLER], SIM_SECOND);
    send_and_wait(s, 10 * SIM_SECOND);
    expect_reached(s, 2);
    assert_true(sim_count(s->sim).connections > connections);
}

static void it_tries_the_next_address_after_a_refusal(void **state) {
    (void)state;
    play(&(scene){ .nodes[CALLED].listens = "called:1001" }, call_past_refusals);
}

static void call_past_another_process(scene *s) {
    add_at(s, "tcp://other:1002,tcp://called:1001");
    send_and_wait(s, 10 * SIM_SECOND);
    expect_reached(s, 1);
}

// An address may belong to another process on this host than on the host that published it.
static void it_tries_the_next_address_after_another_process(void **state) {
    (void)state;
    play(&(scene){ .nodes[CALLED].listens = "called:1001", .nodes[OTHER].listens = "other:1002" },
         call_past_another_process);
}

static void call_past_silence(scene *s) {
    sim_partition(s->sim, CALLER, OTHER, true, true);
    add_at(s, "tcp://other:1002,tcp://called:1001");
    send_and_wait(s, 10 * SIM_SECOND);
    expect_reached(s, 1);
    sim_heal(s->sim);
}

static void it_tries_the_next_address_after_silence(void **state) {
    (void)state;
    play(&(scene){ .nodes[CALLED].listens = "called:1001", .nodes[OTHER].listens = "other:1002" },
         call_past_silence);
}

static void call_by_the_best(scene *s) {
    node *caller = &s->nodes[CALLER], *called = &s->nodes[CALLED];
    assert_string_equal(strchr(called->addresses, ','), ",tcp://called:1001");
    assert_memory_equal(called->addresses, "shm://segment:", 14);
    add_at(s, called->addresses);
    send_and_wait(s, 10 * SIM_SECOND);
    expect_reached(s, 0);
    assert_string_equal(peer_find(caller->peers, 1)->routes.list[0].transport->scheme, "shm");
}

static void it_prefers_the_first_address(void **state) {
    (void)state;
    scene s = { .nodes[CALLED].listens = "tcp://called:1001", .has_both = true };
    play(&s, call_by_the_best);
}

// ---- One way ------------------------------------------------------------------------------------
static void be_connected_back(scene *s) {
    sim_partition(s->sim, CALLER, OTHER, true, true);
    add_at(s, "tcp://other:1002");
    send_and_wait(s, 60 * SIM_SECOND);
    assert_int_equal(s->nodes[CALLER].lost, 0);
    assert_true(peers_is_connected(s->nodes[CALLER].peers, 1));
    assert_int_equal(s->nodes[CALLER].received, 1);
    assert_int_equal(s->nodes[CALLED].received, 1);
    testing_note("\"%s\"", logged);
    assert_non_null(strstr(logged, "p1 (rank 1) has not answered at tcp://other:1002 for "));
    assert_non_null(strstr(logged, "perhaps only that worker can open connections"));
    sim_heal(s->sim);
}

// A firewall between the two, or an address that does not work on this host.
static void one_direction_suffices_and_is_logged(void **state) {
    (void)state;
    play(&(scene){ .nodes[CALLER].listens = "caller:1000",
                   .nodes[CALLED].calls_back_ns = 10 * SIM_SECOND,
                   .nodes[OTHER].listens = "other:1002" },
         be_connected_back);
}

static void be_without_connection(scene *s) {
    node *n = &s->nodes[CALLER];
    gw_error error;
    sim_partition(s->sim, CALLER, OTHER, true, true);
    add_at(s, "tcp://other:1002");
    peers_disable_timeout(n->peers);
    pass_time(n, 10 * SIM_SECOND);
    assert_int_equal(peers_find_unreachable(n->peers, 0), -1);  // nothing is to be sent
    assert_int_equal(peers_send(n->peers, 1, message_open(1), true, &error), GW_OK);
    pass_time(n, 3 * SIM_SECOND);
    assert_int_equal(peers_find_unreachable(n->peers, 5 * SIM_SECOND), -1);
    pass_time(n, 3 * SIM_SECOND);
    assert_int_equal(peers_find_unreachable(n->peers, 5 * SIM_SECOND), 1);
    assert_string_equal(peers_name(n->peers, 1), "p1");
    sim_heal(s->sim);
    pass_time(n, 10 * SIM_SECOND);
    assert_int_equal(peers_find_unreachable(n->peers, 0), -1);
}

static void it_finds_a_peer_that_it_cannot_connect_to(void **state) {
    (void)state;
    play(&(scene){ .nodes[OTHER].listens = "other:1002" }, be_without_connection);
}

// ---- Losing -------------------------------------------------------------------------------------
static void call_dead_addresses(scene *s) {
    node *n = &s->nodes[CALLER];
    add_at(s, "tcp://dead:1,tcp://other:1002");
    send_and_wait(s, 60 * SIM_SECOND);
    assert_int_equal(n->lost, 1);
    assert_int_equal(n->why.status, GW_DISCONNECTED);
    assert_string_equal(n->why.text, "p1 (rank 1) is gone: its process has ended");
}

static void it_loses_a_peer_once_all_addresses_refuse(void **state) {
    (void)state;
    play(&(scene){ .nodes[OTHER].listens = "other:1002" }, call_dead_addresses);
}

static void call_without_a_transport(scene *s) {
    node *n = &s->nodes[CALLER];
    add_at(s, "moon://crater:1");
    send_and_wait(s, 60 * SIM_SECOND);
    assert_int_equal(n->lost, 1);
    assert_int_equal(n->why.status, GW_INVALID);
    assert_string_equal(n->why.text,
                        "no transport of this worker can use an address like \"moon://crater:1\"");
}

static void it_loses_a_peer_without_a_usable_transport(void **state) {
    (void)state;
    play(&(scene){ 0 }, call_without_a_transport);
}

GW_TESTS(session_addresses, it_skips_addresses_without_a_transport,
         it_tries_the_next_address_after_a_refusal, it_tries_the_next_address_after_another_process,
         it_tries_the_next_address_after_silence, it_prefers_the_first_address,
         one_direction_suffices_and_is_logged, it_finds_a_peer_that_it_cannot_connect_to,
         it_loses_a_peer_once_all_addresses_refuse, it_loses_a_peer_without_a_usable_transport);
