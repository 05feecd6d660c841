// The guarantee of peers, over the simulator and over TCP: every message once and in order, or the peer
// is lost.
#include "testing/talk.h"
#include "testing/testing.h"

static void walk(uint64_t seed, talk_options options, sim_options faults) {
    talk t;
    talk_open_sim(&t, seed, options, faults);
    bool done = talk_run(&t);
    talk_close(&t);
    assert_true(done);
}

// ---- Simulated ----------------------------------------------------------------------------------
static void two_talk(uint64_t seed, void *context) {
    (void)context;
    walk(seed,
         (talk_options){ .count = 2, .messages = 40, .flush_per_cent = 50, .pause_per_cent = 20 },
         (sim_options){ 0 });
}

static void it_delivers_in_order(void **state) {
    (void)state;
    testing_for_seeds(100, two_talk, NULL);
}

static void two_talk_over_cuts(uint64_t seed, void *context) {
    (void)context;
    walk(seed,
         (talk_options){ .count = 2,
                         .messages = 60,
                         .segment_max = 20000,
                         .flush_per_cent = 50,
                         .pause_per_cent = 30 },
         (sim_options){ .cut_per_million = 30000 });
}

static void it_survives_cut_connections(void **state) {
    (void)state;
    testing_for_seeds(400, two_talk_over_cuts, NULL);
}

static void four_talk_over_cuts(uint64_t seed, void *context) {
    (void)context;
    walk(seed,
         (talk_options){ .count = 4, .messages = 20, .flush_per_cent = 50, .pause_per_cent = 30 },
         (sim_options){ .cut_per_million = 10000, .delay_max_us = 3000 });
}

static void it_keeps_many_peers_apart(void **state) {
    (void)state;
    testing_for_seeds(100, four_talk_over_cuts, NULL);
}

static void bulk_both_ways(uint64_t seed, void *context) {
    (void)context;
    walk(seed,
         (talk_options){ .count = 2, .messages = 6, .head_max = 100000, .segment_max = 700000 },
         (sim_options){ .cut_per_million = 2000 });
}

static void it_carries_bulk_in_both_directions(void **state) {
    (void)state;
    testing_for_seeds(40, bulk_both_ways, NULL);
}

// ---- TCP ----------------------------------------------------------------------------------------
static void talk_over_tcp(talk_options options, int cut_every) {
    talk t;
    talk_open_tcp(&t, options, cut_every);
    bool done = talk_run(&t);
    talk_close(&t);
    assert_true(done);
}

static void it_delivers_over_tcp(void **state) {
    (void)state;
    talk_over_tcp((talk_options){ .count = 3, .messages = 500, .flush_per_cent = 50 }, 0);
}

static void it_survives_cuts_of_tcp(void **state) {
    (void)state;
    // A connection must live long enough for a handshake, its reply and the largest frame, in
    // several reads.
    for (int every = 15; every < 100; every += 9)
        talk_over_tcp((talk_options){ .count = 2,
                                      .messages = 200,
                                      .segment_max = 50000,
                                      .flush_per_cent = 50,
                                      .pause_per_cent = 30 },
                      every);
}

static void it_carries_bulk_over_tcp(void **state) {
    (void)state;
    talk_over_tcp((talk_options){ .count = 2, .messages = 20, .segment_max = 20 << 20 }, 0);
}

GW_TESTS(session_peers, it_delivers_in_order, it_survives_cut_connections,
         it_keeps_many_peers_apart, it_carries_bulk_in_both_directions, it_delivers_over_tcp,
         it_survives_cuts_of_tcp, it_carries_bulk_over_tcp);
