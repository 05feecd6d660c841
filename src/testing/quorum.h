// A quorum: membership machines over a network of their own, in virtual time, without threads,
// streams or sessions. Tests use it for walks through many seeds, and for bounds that must hold to the millisecond.
//
//     quorum q;
//     quorum_open(&q, seed, 5, 0);
//     quorum_run(&q, 20 * QUORUM_SECOND);
//     quorum_stop(&q, 3);
//     quorum_run(&q, 27 * QUORUM_SECOND);
//     assert_true(q.nodes[0].gone[3]);
//     quorum_close(&q);
//
// Between two nodes messages arrive in order and once, or wait while the link is cut, as with
// sessions. When a node is lost, it receives a refusal; when a node has ended, nodes that send to it are notified of
// its end.
//
// Ownership: the quorum owns its machines. Threads: one.
#ifndef TESTING_QUORUM_H
#define TESTING_QUORUM_H

#include "membership/membership.h"

enum { QUORUM_MAX = 12 };
#define QUORUM_SECOND INT64_C(1000000000)
#define QUORUM_MS INT64_C(1000000)

typedef struct quorum_node {
    struct quorum *quorum;
    membership *machine;
    int rank;
    bool is_opened, is_crashed, is_stopped, has_left;
    int64_t due_ns;

    bool is_linked[QUORUM_MAX];     // there is or was a connection
    bool is_lost[QUORUM_MAX];       // the session with it has ended
    bool has_received[QUORUM_MAX];  // since the last tick
    bool is_owed_ack[QUORUM_MAX];

    // events that it got
    bool joined[QUORUM_MAX], gone[QUORUM_MAX], left[QUORUM_MAX], suspected[QUORUM_MAX];
    int64_t joined_ns[QUORUM_MAX], gone_ns[QUORUM_MAX];
    int suspicions, coordinator_changes, sent, sent_to[QUORUM_MAX];
    char why[QUORUM_MAX][GW_ERROR_TEXT_MAX];
    bool is_fenced;
    int64_t fenced_ns;
    gw_error fenced_why;
} quorum_node;

typedef struct quorum_event {
    int64_t at_ns;
    uint64_t order;
    int kind, from, to;
    message *message;
} quorum_event;

typedef struct quorum {
    int count;
    quorum_node nodes[QUORUM_MAX];
    int64_t now_ns, delay_max_ns;
    uint64_t random, order;
    bool cut[QUORUM_MAX][QUORUM_MAX];  // from, to
    int64_t last_ns[QUORUM_MAX][QUORUM_MAX];
    quorum_event *events;
    size_t event_count, event_capacity;
    quorum_event *held;  // until something heals
    size_t held_count, held_capacity;
    uint64_t handled;
} quorum;

// All |count| are members from the start. |delay_max_ns| 0: a millisecond.
void quorum_open(quorum *q, uint64_t seed, int count, int64_t delay_max_ns);
void quorum_close(quorum *q);
void quorum_run(quorum *q, int64_t until_ns);
uint64_t quorum_random(quorum *q, uint64_t below);

void quorum_crash(quorum *q, int node);  // its connections close and its address refuses
void quorum_leave(quorum *q, int node);  // it sends goodbye
void quorum_stop(quorum *q, int node);
void quorum_continue(quorum *q, int node);
void quorum_cut(quorum *q, int a, int b);  // both ways
void quorum_cut_one_way(quorum *q, int from, int to);
void quorum_heal(quorum *q, int a, int b);
void quorum_part(quorum *q, unsigned side);  // those whose bits are set from the others
void quorum_heal_all(quorum *q);

// A new node requests admission from |coordinator|; its rank is q->count - 1. False if
// the coordinator refuses.
bool quorum_join(quorum *q, int coordinator);

bool quorum_is_up(const quorum *q, int node);  // neither ended nor fenced

// Asserts that all that are up have the same view, in which exactly they are. Returns how many.
int quorum_check(const quorum *q);

#endif
