// Faults of the simulated cluster, seen by sessions.
#include "testing/sim.h"

#include <stdio.h>

#include "testing/talk.h"
#include "testing/testing.h"

#define MS ((int64_t)1000000)

static bool has_lost_other(talker *x) {
    return x->lost[1 - x->rank];
}

static bool has_received_all(talker *x) {
    return x->received[1 - x->rank] == (uint32_t)x->talk->options.messages;
}

static void crash_1(sim *s, void *arg) {
    (void)arg;
    sim_crash(s, 1);
}

static void stop_1(sim *s, void *arg) {
    (void)arg;
    sim_stop(s, 1);
}

static void continue_1(sim *s, void *arg) {
    (void)arg;
    sim_continue(s, 1);
}

static void part_one_way(sim *s, void *arg) {
    (void)arg;
    sim_partition(s, 0, 1, true, false);
}

static void part_back(sim *s, void *arg) {
    (void)arg;
    sim_partition(s, 0, 1, false, true);
}

static void heal(sim *s, void *arg) {
    (void)arg;
    sim_heal(s);
}

// ---- Crashes ------------------------------------------------------------------------------------

static void talk_until_lost(talker *x) {
    gw_error error;
    while (!has_lost_other(x)) {
        talk_send(x, 1 - x->rank, true, &error);
        talk_pause(x, 10 * MS);
    }
    assert_int_equal(talk_send(x, 1 - x->rank, true, &error), GW_DISCONNECTED);
}

static void crash_with_seed(uint64_t seed, void *context) {
    (void)context;
    talk t;
    talk_open_sim(&t, seed, (talk_options){ .count = 2, .messages = 1000000 },
                  (sim_options){ .delay_max_us = 1000 });
    if (seed % 3 == 0) assert_true(sim_at(t.sim, (int64_t)seed * 20 * MS, crash_1, NULL));
    if (seed % 3 == 1) assert_true(sim_at_decision(t.sim, seed * 10, crash_1, NULL));
    if (seed % 3 == 2) assert_true(sim_at_send(t.sim, seed * 2, crash_1, NULL));
    assert_true(talk_run_with(&t, talk_until_lost));
    assert_int_equal(sim_count(t.sim).crashes, 1);
    assert_true(sim_crashed_ns(t.sim, 1) <= sim_now_ns(t.sim));
    assert_true(sim_is_crashed(t.sim, 1) && sim_is_ghost(t.talkers[1].env));
    assert_false(sim_is_crashed(t.sim, 0) || sim_is_ghost(t.talkers[0].env));
    assert_ptr_not_equal(sim_env(t.sim, 1), t.talkers[1].env);
    talk_close(&t);
}

static void a_crashed_worker_is_gone_and_its_ghost_is_alone(void **state) {
    (void)state;
    testing_for_seeds(200, crash_with_seed, NULL);
}

// ---- Stops and partitions -----------------------------------------------------------------------

typedef struct pause_plan {
    void (*begin)(sim *s, void *arg);
    void (*end)(sim *s, void *arg);
    int64_t at_ns, for_ns;
} pause_plan;

static void exchange_all(talker *x) {
    gw_error error;
    for (int i = 0; i < x->talk->options.messages; i++) {
        assert_int_equal(talk_send(x, 1 - x->rank, true, &error), GW_OK);
        if (i % 4 == 0) talk_pause(x, 10 * MS);
    }
    talk_wait(x, "all messages", has_received_all);
    assert_false(has_lost_other(x));
}

static void pause_with_seed(uint64_t seed, void *context) {
    const pause_plan *p = context;
    talk t;
    talk_open_sim(&t, seed, (talk_options){ .count = 2, .messages = 40, .head_max = 3000 },
                  (sim_options){ .delay_max_us = 1000, .window_bytes = 5000 });
    assert_true(sim_at(t.sim, p->at_ns, p->begin, NULL));
    assert_true(sim_at(t.sim, p->at_ns + p->for_ns, p->end, NULL));
    assert_true(talk_run_with(&t, exchange_all));
    assert_true(sim_now_ns(t.sim) > p->at_ns + p->for_ns);
    talk_close(&t);
}

static void a_stopped_worker_receives_frames_of_the_meantime(void **state) {
    (void)state;
    pause_plan at_once = { stop_1, continue_1, 0, 3 * SIM_SECOND };
    pause_plan later = { stop_1, continue_1, 20 * MS, 3 * SIM_SECOND };
    testing_for_seeds(50, pause_with_seed, &at_once);
    testing_for_seeds(50, pause_with_seed, &later);
}

static void a_partition_holds_until_it_is_healed(void **state) {
    (void)state;
    void (*const ways[])(sim *, void *) = { part_one_way, part_back };
    for (int i = 0; i < 2; i++) {
        pause_plan at_once = { ways[i], heal, 0, 3 * SIM_SECOND };
        pause_plan later = { ways[i], heal, 20 * MS, 3 * SIM_SECOND };
        testing_for_seeds(50, pause_with_seed, &at_once);
        testing_for_seeds(50, pause_with_seed, &later);
    }
}

// ---- Frames -------------------------------------------------------------------------------------

static uint64_t repeated;

static void repeat_with_seed(uint64_t seed, void *context) {
    (void)context;
    talk t;
    talk_open_sim(
        &t, seed,
        (talk_options){ .count = 3, .messages = 30, .head_max = 5000, .flush_per_cent = 50 },
        (sim_options){ .duplicate_per_million = 300000,
                       .cut_per_million = seed % 2 ? 10000 : 0,
                       .window_bytes = seed % 3 ? 0 : 100 });
    assert_true(talk_run(&t));
    repeated += sim_count(t.sim).frames_repeated;
    talk_close(&t);
}

static void duplicated_frames_change_nothing(void **state) {
    (void)state;
    repeated = 0;
    testing_for_seeds(60, repeat_with_seed, NULL);
    assert_true(repeated > 0);
}

// ---- Clocks, the director, plans ----------------------------------------------------------------

static void wall_clocks_differ_and_step(void **state) {
    (void)state;
    sim *s = sim_open(1, (sim_options){ 0 });
    env *a = sim_env(s, 0), *b = sim_env(s, 1);
    assert_true(env_wall_ns(a) != env_wall_ns(b));
    int64_t wall = env_wall_ns(a), now = env_now_ns(a);
    sim_step_wall(s, 0, -3600 * SIM_SECOND);
    assert_int_equal(env_wall_ns(a), wall - 3600 * SIM_SECOND);
    assert_int_equal(env_now_ns(a), now);
    sim_close(s);
}

static void note_call(sim *s, void *arg) {
    (void)s;
    ++*(int *)arg;
}

static void the_director_acts_on_request(void **state) {
    (void)state;
    talk t;
    int calls = 0;
    talk_open_sim(&t, 5, (talk_options){ .count = 2, .messages = 20 }, (sim_options){ 0 });
    assert_true(sim_at(t.sim, 1, note_call, &calls));
    assert_true(sim_at_decision(t.sim, 10, note_call, &calls));
    assert_true(sim_at_send(t.sim, 2, note_call, &calls));
    assert_true(sim_at(t.sim, 7000 * SIM_SECOND, note_call, &calls));
    assert_true(talk_run(&t));
    assert_int_equal(calls, 3);
    talk_close(&t);
}

static void make_plan(uint64_t seed, char *out, size_t size) {
    sim *s = sim_open(1, (sim_options){ 0 });
    sim_faults all = { .nodes = 4,
                       .until_ns = SIM_SECOND,
                       .crashes = 2,
                       .stops = 2,
                       .partitions = 2,
                       .clogs = 2,
                       .cuts = 2,
                       .wall_steps = 2 };
    assert_true(sim_fault_plan(s, seed, all));
    snprintf(out, size, "%s", sim_plan_text(s));
    sim_close(s);
}

static void a_plan_depends_only_on_its_seed(void **state) {
    (void)state;
    enum { SIZE = 4096 };
    static char first[SIZE], again[SIZE], other[SIZE];
    make_plan(3, first, SIZE);
    make_plan(3, again, SIZE);
    make_plan(4, other, SIZE);
    assert_string_equal(first, again);
    assert_string_not_equal(first, other);
}

GW_TESTS(sim_faults, a_crashed_worker_is_gone_and_its_ghost_is_alone,
         a_stopped_worker_receives_frames_of_the_meantime, a_partition_holds_until_it_is_healed,
         duplicated_frames_change_nothing, wall_clocks_differ_and_step,
         the_director_acts_on_request, a_plan_depends_only_on_its_seed);
