// Members over sessions, in the simulator.
#include "agent/members/members.h"

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
    char addresses[LIMIT_ADDRESSES_BYTES + 1];
    bool gone[NODES_MAX], left[NODES_MAX];
    int64_t gone_ns[NODES_MAX];
    char why[NODES_MAX][GW_ERROR_TEXT_MAX];
    int coordinator;
    bool is_fenced;
    int64_t fenced_ns;
    gw_error fenced_why;
    bool joined[NODES_MAX];
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

static void on_joined(void *user, const member_fact *x) {
    node *n = user;
    gw_error error;
    assert_false(n->joined[x->rank]);
    n->joined[x->rank] = true;
    assert_int_equal(peers_add(n->peers, x->rank, x->incarnation, x->name, x->addresses, &error),
                     GW_OK);
}

static void on_suspected(void *user, int rank, bool is_suspected) {
    (void)user, (void)rank, (void)is_suspected;
}

static void on_coordinator(void *user, int coordinator) {
    ((node *)user)->coordinator = coordinator;
}

static void on_fenced(void *user, const gw_error *why) {
    node *n = user;
    n->is_fenced = true;
    n->fenced_ns = env_now_ns(n->env);
    n->fenced_why = *why;
    wake(n);
}

static void quiet_line(const char *line) {
    (void)line;
}

static void open_node(group *g, int rank, bool joins) {
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
    assert_int_equal(peers_open(p, "127.0.0.1:0", &n->peers, n->addresses, &error), GW_OK);
    char name[16];
    snprintf(name, sizeof name, "w%d", rank);
    membership_options machine = { .rank = rank,
                                   .incarnation = p.incarnation,
                                   .name = name,
                                   .addresses = n->addresses,
                                   .joins = joins,
                                   .user = n,
                                   .joined = on_joined,
                                   .gone = on_gone,
                                   .suspected = on_suspected,
                                   .coordinator_changed = on_coordinator,
                                   .fenced = on_fenced };
    members_options o = { n->env, n->peers, machine };
    assert_int_equal(members_open(o, &n->members, &error), GW_OK);
    env_leave(n->env);
}

static void know(node *n, int other) {
    gw_error error;
    char name[16];
    snprintf(name, sizeof name, "w%d", other);
    const char *addresses = n->group->nodes[other].addresses;
    uint64_t incarnation = 100 + (uint64_t)other;
    n->joined[other] = true;
    assert_int_equal(peers_add(n->peers, other, incarnation, name, addresses, &error), GW_OK);
    assert_int_equal(
        membership_add(n->members->machine, other, incarnation, name, addresses, &error), GW_OK);
}

static void introduce(group *g, int rank) {
    node *n = &g->nodes[rank];
    env_enter(n->env);
    for (int i = 0; i < g->count; i++)
        if (i != rank) know(n, i);
    members_start(n->members);
    env_leave(n->env);
}

static void open_group(group *g, uint64_t seed, int count, sim_options options) {
    *g = (group){ .sim = sim_open(seed, options), .count = count };
    log_hook = quiet_line;
    for (int i = 0; i < count; i++) open_node(g, i, false);
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

// ---- Without faults -----------------------------------------------------------------------------
static void expect_peace(const group *g) {
    for (int i = 0; i < g->count; i++) {
        assert_false(g->nodes[i].is_fenced);
        assert_int_equal(membership_coordinator(g->nodes[i].members->machine), 0);
        assert_int_equal(membership_epoch(g->nodes[i].members->machine), g->count);
        for (int k = 0; k < g->count; k++) assert_false(g->nodes[i].gone[k]);
    }
}

static void rest(uint64_t seed, void *context) {
    group g;
    open_group(&g, seed, 5, *(sim_options *)context);
    for (int i = 0; i < 5; i++) sim_step_wall(g.sim, i, (i - 2) * 3600 * SIM_SECOND);
    run_until(&g, 60 * SIM_SECOND);
    expect_peace(&g);
    // Only links to the coordinator exist; idle ones carry heartbeats and their acks.
    assert_true(sim_count(g.sim).cuts > 0 || sim_count(g.sim).connections <= 8);
    close_group(&g);
}

static void heartbeats_go_to_the_coordinator_alone(void **state) {
    (void)state;
    testing_for_seeds(10, rest, &(sim_options){ 0 });
}

static void a_slow_member_is_not_declared_dead(void **state) {
    (void)state;
    testing_for_seeds(20, rest, &(sim_options){ .delay_max_us = 500000, .cut_per_million = 20000 });
}

// ---- Ends ---------------------------------------------------------------------------------------
typedef struct blow {
    void (*act)(sim *s, void *arg);
    int64_t at_ns, bound_ns, until_ns;
} blow;

static int victim_of(uint64_t seed) {
    return (int)(seed % 4);
}

static void crash_one(sim *s, void *arg) {
    sim_crash(s, victim_of(*(uint64_t *)arg));
}

static void stop_one(sim *s, void *arg) {
    sim_stop(s, victim_of(*(uint64_t *)arg));
}

static void continue_one(sim *s, void *arg) {
    sim_continue(s, victim_of(*(uint64_t *)arg));
}

static void part_one(sim *s, void *arg) {
    int victim = victim_of(*(uint64_t *)arg);
    for (int i = 0; i < 4; i++)
        if (i != victim) sim_partition(s, victim, i, true, true);
}

static void heal_all(sim *s, void *arg) {
    (void)arg;
    sim_heal(s);
}

static void strike(uint64_t seed, void *context) {
    const blow *b = context;
    group g;
    int victim = victim_of(seed);
    open_group(&g, seed, 4, (sim_options){ 0 });
    assert_true(sim_at(g.sim, b->at_ns, b->act, &seed));
    assert_true(sim_at(g.sim, b->at_ns + 20 * SIM_SECOND, continue_one, &seed));
    assert_true(sim_at(g.sim, b->at_ns + 20 * SIM_SECOND, heal_all, &seed));
    run_until(&g, b->until_ns);
    for (int i = 0; i < 4; i++) {
        if (i == victim) continue;
        const node *n = &g.nodes[i];
        assert_false(n->is_fenced);
        for (int k = 0; k < 4; k++) assert_int_equal(n->gone[k], k == victim);
        assert_true(n->gone_ns[victim] <= b->at_ns + b->bound_ns);
    }
    if (b->act != crash_one) {
        assert_true(g.nodes[victim].is_fenced);
        assert_int_equal(g.nodes[victim].fenced_why.status, GW_FENCED);
        for (int k = 0; k < 4; k++) assert_false(g.nodes[victim].gone[k]);
    }
    close_group(&g);
}

static void a_crashed_worker_is_detected_within_a_second(void **state) {
    (void)state;
    testing_for_seeds(40, strike,
                      &(blow){ crash_one, 10 * SIM_SECOND, SIM_SECOND, 40 * SIM_SECOND });
}

static void a_stopped_worker_is_detected_within_seven_seconds(void **state) {
    (void)state;
    testing_for_seeds(40, strike,
                      &(blow){ stop_one, 30 * SIM_SECOND, 7 * SIM_SECOND, 60 * SIM_SECOND });
}

static void it_fences_a_worker_that_is_cut_off(void **state) {
    (void)state;
    testing_for_seeds(40, strike,
                      &(blow){ part_one, 30 * SIM_SECOND, 7 * SIM_SECOND, 60 * SIM_SECOND });
}

// ---- Joining ------------------------------------------------------------------------------------
static void join(group *g) {
    int rank, mine = g->count++;
    gw_error error;
    char name[16];
    snprintf(name, sizeof name, "w%d", mine);
    open_node(g, mine, true);
    node *n = &g->nodes[mine], *coordinator = &g->nodes[0];
    env_enter(coordinator->env);
    gw_status status = members_admit(coordinator->members, 100 + (uint64_t)mine, name, n->addresses,
                                     &rank, &error);
    env_leave(coordinator->env);
    if (status) fail_msg("%s", error.text);
    assert_int_equal(rank, mine);
    env_enter(n->env);
    know(n, 0);
    members_start(n->members);
    env_leave(n->env);
}

static void join_all(uint64_t seed, void *context) {
    (void)context;
    group g;
    open_group(&g, seed, 1, (sim_options){ 0 });
    run_until(&g, SIM_SECOND);
    for (int i = 1; i < 5; i++) {
        join(&g);
        if (i % 2) run_until(&g, sim_now_ns(g.sim) + SIM_SECOND);
    }
    run_until(&g, sim_now_ns(g.sim) + 2 * SIM_SECOND);
    expect_peace(&g);
    for (int i = 0; i < 5; i++) {
        assert_true(membership_has_joined(g.nodes[i].members->machine));
        for (int k = 0; k < 5; k++) assert_int_equal(g.nodes[i].joined[k], i != k);
    }
    close_group(&g);
}

static void workers_join_a_running_group(void **state) {
    (void)state;
    testing_for_seeds(20, join_all, NULL);
}

// ---- Everything at once -------------------------------------------------------------------------
static void suffer(uint64_t seed, void *context) {
    (void)context;
    group g;
    sim_options options = sim_varied(seed, seed % 3 ? 0 : 2000);
    options.lose_per_million = seed % 2 ? 0 : 20000;
    options.duplicate_per_million = seed % 2 ? 0 : 20000;
    open_group(&g, seed, 5, options);
    assert_true(sim_fault_plan(g.sim, seed,
                               (sim_faults){ .nodes = 5,
                                             .until_ns = 60 * SIM_SECOND,
                                             .crashes = 2,
                                             .stops = 2,
                                             .partitions = 3,
                                             .clogs = 1,
                                             .cuts = 3,
                                             .wall_steps = 3 }));
    run_until(&g, 150 * SIM_SECOND);
    int first = -1;
    for (int i = 0; i < 5; i++) {
        node *n = &g.nodes[i];
        if (sim_is_ghost(n->env) || n->is_fenced) continue;
        if (first < 0) first = i;
        assert_int_equal(membership_coordinator(n->members->machine), first);
        assert_true(membership_epoch(n->members->machine) ==
                    membership_epoch(g.nodes[first].members->machine));
        for (int k = 0; k < 5; k++)
            if (k != i)
                assert_int_equal(n->gone[k], sim_is_ghost(g.nodes[k].env) || g.nodes[k].is_fenced);
    }
    close_group(&g);
}

static void it_agrees_after_faults_of_all_kinds(void **state) {
    (void)state;
    testing_for_seeds(60, suffer, NULL);
}

GW_TESTS(agent_members, heartbeats_go_to_the_coordinator_alone, a_slow_member_is_not_declared_dead,
         a_crashed_worker_is_detected_within_a_second,
         a_stopped_worker_is_detected_within_seven_seconds, it_fences_a_worker_that_is_cut_off,
         workers_join_a_running_group, it_agrees_after_faults_of_all_kinds);
