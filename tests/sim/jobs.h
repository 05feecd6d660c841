// Mixed workloads: jobs of a few workers that call, promise, share and drop at random, under faults, checked by a
// ledger outside of them.
//
//     jobs_run(seed, JOBS_CRASHES);     // fails the test if anything is not as promised
//
// Checked are: a body runs at most once; a call that was not delivered never ran, one with a value ran once; an error
// by a lost worker names one that the call goes through, and that was hit before (testing/blame.h); nothing takes
// longer than the faults of the plan explain; an object is closed once, and no call uses it then; the holder sets of
// owners and the references of holders agree (testing/oracle.h); at the end survivors hold no references and agree on
// the members.
//
// One job at a time in a process: bodies find it in |jobs_now|.
#ifndef TESTS_JOBS_H
#define TESTS_JOBS_H

#include "testing/quiescence.h"
#include <gradwire.h>

enum { JOBS_NODES_MAX = 12, JOBS_CALLS_MAX = 8192, JOBS_THINGS_MAX = 512, JOBS_HELD = 5 };

typedef enum jobs_kind {
    JOBS_SLOW,     // slow networks, and connections that break
    JOBS_LOSSY,    // and frames that are lost or repeated
    JOBS_CRASHES,  // of workers, at any event
    JOBS_STOPS,
    JOBS_PARTITIONS,
    JOBS_ALL,
    JOBS_GROUP,     // workers join, leave and crash
    JOBS_TOGETHER,  // slow networks or all faults; many operations with many workers
    JOBS_KIND_COUNT,
    JOBS_RINGS = JOBS_KIND_COUNT,  // through rings that break, with crashes and stops
} jobs_kind;

typedef struct jobs_call {
    uint8_t runs;
    bool not_delivered;
    uint16_t nodes;    // that it goes through, as bits
    int64_t users[3];  // calls that need its result
} jobs_call;

typedef struct jobs_thing {
    int node;
    int opens, closes;
} jobs_thing;

typedef struct jobs_worker {
    struct jobs *jobs;
    int node, rank;
    bool leaves;    // in the middle, in an elastic job
    bool is_going;  // has begun to leave, or to shut down
    int64_t starts_ns;
    env *env;
    gw_scope *root, *scope;
    uint64_t random;
    bool joined, ended, was_ghost, is_explained;
    bool was_late;  // it joined, or never did, after the store was away for long
    int64_t joined_ns;
    gw_error error;  // at the end

    gw_rref *held[JOBS_HELD];
    int64_t numbers[JOBS_HELD];  // of the held values
    gw_rref *shelf;
    int64_t shelved[JOBS_HELD];
    int64_t put_by[JOBS_HELD];  // the call that put it there
} jobs_worker;

typedef struct jobs {
    uint64_t seed;
    jobs_kind kind;
    sim *sim;
    int worker_count, steps, threads, left_count;
    int64_t delay_max_ns, fault_ns;  // faults may begin before

    quiescence rest;
    uint64_t call_count;
    int thing_count;
    void *agents[JOBS_NODES_MAX];  // by rank; for the oracle
    jobs_worker workers[JOBS_NODES_MAX];
    jobs_call calls[JOBS_CALLS_MAX];
    jobs_thing things[JOBS_THINGS_MAX];
} jobs;

typedef struct jobs_outcome {
    sim_counts counts;
    uint64_t trace_hash;
    int64_t took_ns;
    uint64_t calls, bodies, things;
    char plan[2048];
} jobs_outcome;

extern jobs *jobs_now;

jobs_outcome jobs_run(uint64_t seed, jobs_kind kind);

// ---- The ledger: jobs_ledger.c ------------------------------------------------------------------
int64_t jobs_new_call(void);
// Records that the call whose number is the first of |args| goes through the worker of |s|, that of |to|, and the
// owners of references in |args|. Returns |args|.
gw_values jobs_involve(gw_scope *s, gw_target to, gw_values args);
// Records that |user| needs the result of |call|, so that it goes through the same workers.
void jobs_depend(int64_t user, int64_t call);
// Records that |call| needs the effects of |earlier|.
void jobs_follow(int64_t call, int64_t earlier);
void jobs_body_runs(gw_scope *s, int64_t call);  // at the start of its body
// Checks the result of |call|. Fails the test if it contradicts the ledger; clears an error that
// faults explain. True for a value.
bool jobs_call_ends(gw_scope *s, int64_t call);
// The same for calls whose error has no outcome of the body, such as a fetch.
bool jobs_use_ends(gw_scope *s);
// Expects a requested error: |status|, or one that faults explain.
void jobs_expect(gw_scope *s, int64_t call, gw_status status);
bool jobs_has_lost_most(void);
bool jobs_has_ends(void);  // of workers, so far, other than all together
bool jobs_lacks_store(void);
bool jobs_explains(const gw_error *error);

int jobs_open_thing(gw_scope *s);
void jobs_close_thing(gw_scope *s, int thing);
void jobs_use_thing(gw_scope *s, int thing);
void jobs_check_ledger(void);

// How long one step may take: the time of the network, and of the faults since |before|.
int64_t jobs_patience_ns(sim_counts before);

// ---- Steps of workers: jobs_steps.c -------------------------------------------------------------
void jobs_step(jobs_worker *w);
uint64_t jobs_draw(jobs_worker *w, uint64_t below);
int jobs_choose_rank(gw_scope *s, uint64_t choice);  // of a member, present or past

// ---- Steps with many workers: jobs_together.c ---------------------------------------------------
void jobs_together_step(jobs_worker *w, gw_scope *s, int i);  // with what it holds at |i|
void jobs_run_collective(jobs_worker *w, int number);         // all, or two by two

#define JOBS_CALL(form, s, to, function, ...)                                                      \
    __extension__({                                                                                \
        gw_target target_ = (to);                                                                  \
        gw_values args_ = { (int)(sizeof((gw_value[]){ __VA_ARGS__ }) / sizeof(gw_value)),         \
                            (gw_value[]){ __VA_ARGS__ } };                                         \
        form##_with((s), target_, (function), jobs_involve((s), target_, args_),                   \
                    GW_OPTIONS(gw_call_options));                                                  \
    })
#define V(x) gw_value_of(x)

// ---- Delays in a body: jobs_bodies.c ------------------------------------------------------------
void jobs_pause(gw_scope *s, int64_t ms);

#endif
