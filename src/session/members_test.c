// Members over sessions, in the simulator.
#include "session/members.h"

#include "base/log.h"
#include "base/mem.h"
#include "testing/sim.h"
#include "testing/testing.h"

#include <stdio.h>
#include <string.h>

enum { NODES_MAX = 8 };

typedef struct node {
    struct group *group;
    env *env;
    int rank;
    peers *peers;
    members *members;
    char address[ENV_ADDRESS_MAX];
    bool gone[NODES_MAX], left[NODES_MAX];
    int64_t gone_ns[NODES_MAX];
    char why[NODES_MAX][GW_ERROR_TEXT_MAX];
    int judge;
    bool is_fenced;
    gw_error fenced_why;
    waiter *waiter;
} node;

typedef struct group {
    sim *sim;
    int count;
    node nodes[NODES_MAX];
    bool (*done)(node *n);
    int64_t limit_ns;
} group;

static void wake(node *n) {
    if (n->waiter) env_wake(n->env, n->waiter);
    n->waiter = NULL;
}

static void on_message(void *user, int rank, message *m) {
    node *n = user;
    gw_error error;
    assert_true(m->kind >= MEMBERS_KIND_FIRST && m->kind <= MEMBERS_KIND_LAST);
    gw_status status = members_received(n->members, rank, m, &error);
    if (status) fail_msg("node %d: %s", n->rank, error.text);
    wake(n);
}

static void on_lost(void *user, int rank, const gw_error *why) {
    node *n = user;
    members_lost(n->members, rank, why);
    wake(n);
}

static void on_gone(void *user, int rank, bool left, const gw_error *why) {
    node *n = user;
    assert_false(n->gone[rank]);
    assert_false(n->is_fenced);
    n->gone[rank] = true;
    n->left[rank] = left;
    n->gone_ns[rank] = env_now_ns(n->env);
    snprintf(n->why[rank], sizeof n->why[rank], "%s", why->text);
    wake(n);
}

static void on_judge(void *user, int judge) {
    ((node *)user)->judge = judge;
}

static void on_fenced(void *user, const gw_error *why) {
    node *n = user;
    n->is_fenced = true;
    n->fenced_why = *why;
    wake(n);
}

static void quiet_line(const char *line) {
    (void)line;
}

static void open_node(group *g, int rank) {
    node *n = &g->nodes[rank];
    gw_error error;
    *n = (node){ .group = g, .env = sim_env(g->sim, rank), .rank = rank };
    env_enter(n->env);
    peers_options p = { .env = n->env,
                        .rank = rank,
                        .incarnation = 100 + (uint64_t)rank,
                        .user = n,
                        .received = on_message,
                        .lost = on_lost };
    assert_int_equal(peers_open(p, "127.0.0.1:0", &n->peers, n->address, &error), GW_OK);
    char name[16];
    snprintf(name, sizeof name, "w%d", rank);
    members_options o = { .env = n->env,
                          .peers = n->peers,
                          .rank = rank,
                          .incarnation = p.incarnation,
                          .name = name,
                          .address = n->address,
                          .user = n,
                          .gone = on_gone,
                          .judge_changed = on_judge,
                          .fenced = on_fenced };
    assert_int_equal(members_open(o, &n->members, &error), GW_OK);
    env_leave(n->env);
}

static void introduce(group *g, int rank) {
    node *n = &g->nodes[rank];
    gw_error error;
    env_enter(n->env);
    for (int i = 0; i < g->count; i++) {
        if (i == rank) continue;
        char name[16];
        snprintf(name, sizeof name, "w%d", i);
        const char *address = g->nodes[i].address;
        uint64_t incarnation = 100 + (uint64_t)i;
        assert_int_equal(peers_add(n->peers, i, incarnation, name, address, &error), GW_OK);
        assert_int_equal(members_add(n->members, i, incarnation, name, address, &error), GW_OK);
    }
    members_start(n->members);
    env_leave(n->env);
}

static void open_group(group *g, uint64_t seed, int count, sim_options options) {
    *g = (group){ .sim = sim_open(seed, options), .count = count };
    log_hook = quiet_line;
    for (int i = 0; i < count; i++) open_node(g, i);
    for (int i = 0; i < count; i++) introduce(g, i);
}

static void close_group(group *g) {
    for (int i = 0; i < g->count; i++) {
        node *n = &g->nodes[i];
        env_enter(n->env);
        members_close(n->members);
        peers_close(n->peers);
        env_leave(n->env);
        env_close(n->env);
    }
    sim_close(g->sim);
}

static void live(void *arg) {
    node *n = arg;
    group *g = n->group;
    env_enter(n->env);
    while (env_now_ns(n->env) < g->limit_ns) {
        waiter w = { .what = "time to pass" };
        env_wait(n->env, &w, g->limit_ns);
    }
    env_leave(n->env);
}

static void run_until(group *g, int64_t limit_ns) {
    g->limit_ns = limit_ns;
    for (int i = 0; i < g->count; i++) assert_true(sim_spawn(g->sim, i, live, &g->nodes[i]));
    assert_true(sim_run(g->sim, limit_ns + 100 * SIM_SECOND));
}

// ---- Peace --------------------------------------------------------------------------------------------------------
static void rest(uint64_t seed, void *context) {
    group g;
    open_group(&g, seed, 5, *(sim_options *)context);
    run_until(&g, 60 * SIM_SECOND);
    for (int i = 0; i < 5; i++) {
        assert_false(g.nodes[i].is_fenced);
        assert_int_equal(members_judge(g.nodes[i].members), 0);
        assert_int_equal(members_epoch(g.nodes[i].members), 5);
        for (int k = 0; k < 5; k++) assert_false(g.nodes[i].gone[k]);
    }
    // Idle links to the judge carry beats and their acks, and no others are there.
    assert_true(sim_count(g.sim).cuts > 0 || sim_count(g.sim).connections <= 8);
    close_group(&g);
}

static void it_beats_with_the_judge_alone(void **state) {
    (void)state;
    testing_for_seeds(10, rest, &(sim_options){ 0 });
}

static void it_declares_nobody_dead_for_being_slow(void **state) {
    (void)state;
    testing_for_seeds(20, rest, &(sim_options){ .delay_max_us = 500000, .cut_per_million = 20000 });
}

GW_TESTS(session_members, it_beats_with_the_judge_alone, it_declares_nobody_dead_for_being_slow);
