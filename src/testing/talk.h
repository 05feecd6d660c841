// Talkers: workers' peers that send each other messages whose every byte is known, and check the
// received ones.
//
//     talk t;
//     talk_open_sim(&t, seed, (talk_options){ .count = 2, .messages = 50 }, (sim_options){ .cut_per_million = 3000 });
//     talk_run(&t);          // every talker sends |messages| to every other; returns when all have arrived
//     talk_close(&t);
//
// Ownership: the talk owns its envs and peers. Threads: used by one, outside of the talkers' own.
#ifndef TESTING_TALK_H
#define TESTING_TALK_H

#include "session/peers.h"
#include "testing/sim.h"

enum { TALKERS_MAX = 8 };

typedef struct talk_options {
    int count;           // of talkers
    int messages;        // from each to each other
    size_t head_max;     // bytes; 0: 600
    size_t segment_max;  // bytes; 0: no segments
    int flush_per_cent;  // sent at once
    int pause_per_cent;  // messages after which a talker waits for a while
    bool one_way;        // only talker 0 sends
} talk_options;

typedef struct talker {
    struct talk *talk;
    env *env;
    int rank;
    uint64_t random;
    peers *peers;
    char addresses[ADDRESSES_MAX];
    uint32_t sent[TALKERS_MAX], announced[TALKERS_MAX], received[TALKERS_MAX];
    list_node incomplete;  // messages that are announced and not whole
    bool lost[TALKERS_MAX];
    gw_error why[TALKERS_MAX];
    waiter *waiter;  // woken when something has changed
} talker;

typedef struct talk {
    talk_options options;
    sim *sim;  // NULL: TCP
    talker talkers[TALKERS_MAX];
    _Atomic int finished_count;
    _Atomic bool failed;
} talk;

// Opens envs and peers, and connects them to each other.
void talk_open_sim(talk *t, uint64_t seed, talk_options options, sim_options faults);
void talk_open_tcp(talk *t, talk_options options, int cut_every);

// Runs all talkers on threads of their own until everything was received and acknowledged, then
// checks that no peer was lost. False in the simulator if that takes an hour.
bool talk_run(talk *t);

// The same with a body of one's own for each talker, called with the loop lock held.
bool talk_run_with(talk *t, void (*body)(talker *x));

void talk_close(talk *t);

// ---- For bodies ---------------------------------------------------------------------------------
uint64_t talk_random(talker *x);
gw_status talk_send(talker *x, int to, bool flush, gw_error *error);  // the next message to |to|
void talk_pause(talker *x, int64_t max_ns);                           // waits for a random while
// Waits until |done| is true.
void talk_wait(talker *x, const char *what, bool (*done)(talker *x));

#endif
