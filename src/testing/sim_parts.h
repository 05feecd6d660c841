// Shared by the files of the simulator: sim.c decides, sim_threads.c passes the baton, sim_env.c is the env, sim_net.c
// its network.
#ifndef TESTING_SIM_PARTS_H
#define TESTING_SIM_PARTS_H

#include "testing/sim.h"

#include <setjmp.h>
#include <stdatomic.h>
#include <stdint.h>

#include "net/loop/timers.h"

enum { SIM_REPORT_MAX = 4096, SIM_LABEL_MAX = 48, SIM_PLAN_MAX = 4096 };

typedef struct sim_env_ sim_env_;
typedef struct sim_thread sim_thread;

// Something that happens at a time. With an |env|, on one of its waiting threads; without, to the
// simulator itself.
typedef struct sim_event {
    timer timer;  // must be first
    list_node ready;
    sim_env_ *env;
    void (*happen)(struct sim_event *ev);
    const char *what;
    uint64_t id;
} sim_event;

typedef enum sim_state {
    SIM_RUNNING,
    SIM_RUNNABLE,
    SIM_WAITING,  // in env_wait: may be given an event of its env
    SIM_JOINING,  // in env_close or sim_run, until another thread makes it runnable
} sim_state;

struct sim_thread {
    sim *sim;
    sim_env_ *env;     // that spawned it, or NULL
    list_node link;    // in |threads|
    list_node queued;  // in |runnable|, or |waiting| of the env it waits in
    sim_state state;
    uint64_t id;
    int node;
    char label[SIM_LABEL_MAX];
    bool is_main;
    void (*main)(void *arg);
    void *arg;

    // while it waits
    waiter *waiter;
    sim_env_ *waits_in;
    int64_t until_ns;
    sim_event timeout;
    sim_event *given;  // to let happen before it waits on

    // the baton
    _Atomic uint32_t has_baton;
    bool cancelled;
    jmp_buf start;
};

// As in net/loop/loop.h.
typedef struct sim_drain {
    sim_thread *thread;
    list_node link, tasks;
} sim_drain;

struct sim_env_ {
    env base;
    sim *sim;
    int node;
    list_node link;
    bool closed;
    bool is_ghost;  // has crashed: alone in the world
    uint64_t random;

    // the loop lock
    sim_thread *holder;
    int depth;
    list_node deferred, drains;

    // waiting threads
    list_node waiting;
    sim_thread *dispatcher;  // makes a turn of events, or runs its tasks
    waiter *turning;         // its waiter while callbacks run
    int spawned_count;       // threads that have not ended
    int thread_count;        // ever
    sim_thread *joining;     // in env_close

    timers timers;
    sim_event alarm;  // for the earliest of them
    list_node conns, listeners;
};

// The faults of a node.
typedef struct sim_node {
    bool is_stopped;
    bool is_away;                    // stopped, or parted from another
    int64_t away_since_ns, away_ns;  // away_ns: before that
    int64_t crashed_ns;              // 0: it has not
    int64_t wall_offset_ns;
    uint64_t clogged[SIM_NODES_MAX / 64];  // by the node that bytes from here go to
} sim_node;

// A fault of a plan; the numbers depend on |act|.
typedef struct sim_fault {
    sim *sim;
    int a, b;
    bool there, back;
    int64_t amount_ns;
} sim_fault;

// Something that the director does.
typedef struct sim_cue {
    sim_event event;
    list_node link;
    uint64_t at_decision, at_send;  // 0: at its time
    bool (*is_so)(void *arg);       // NULL: at its time
    void (*act)(sim *s, void *arg);
    void *arg;
    sim_fault fault;
} sim_cue;

// Where a node has listened: a name leads to it even when it does not listen there any more.
typedef struct sim_name {
    list_node link;
    char text[ADDRESS_MAX];
    int node;
} sim_name;

struct sim {
    uint64_t seed;
    sim_options options;
    uint64_t random;
    int64_t now_ns, until_ns;
    uint64_t hash;
    uint64_t next_id;
    sim_counts counts;
    bool traces;
    char report[SIM_REPORT_MAX];

    timers events;    // future ones
    list_node ready;  // due, waiting for a thread
    list_node runnable;
    list_node threads, envs;
    list_node dead_conns;  // freed with the simulation, since their users may err
    sim_thread outside;
    sim_thread *running;
    int main_count;  // not yet returned
    bool waits_for_mains;
    bool is_stuck;
    int next_port, next_conn;
    int cpu;

    sim_node nodes[SIM_NODES_MAX];
    list_node cues;        // that have not been given
    list_node given_cues;  // freed with the simulation
    list_node names;
    uint64_t send_count;
    char plan[SIM_PLAN_MAX];
    int64_t plan_ends_ns, last_fault_ns;
};

// ---- sim.c --------------------------------------------------------------------------------------
uint64_t sim_random(sim *s);
uint64_t sim_random_below(sim *s, uint64_t limit);
bool sim_chance(sim *s, int per_million);
int64_t sim_delay_ns(sim *s);
void sim_note(sim *s, const sim_thread *t, const char *what, uint64_t a, uint64_t b);
void sim_event_init(sim *s, sim_event *ev, sim_env_ *env, const char *what,
                    void (*happen)(sim_event *ev));
void sim_event_at(sim *s, sim_event *ev, int64_t due_ns);  // ENV_NEVER: not at all
bool sim_event_is_set(const sim_event *ev);
sim_thread *sim_choose(sim *s);
void sim_write_report(sim *s);
uint64_t sim_mix(uint64_t x);

// ---- sim_threads.c ------------------------------------------------------------------------------
bool sim_thread_can_run(const sim_thread *t);
bool sim_thread_open(sim *s, sim_env_ *env, bool is_main, int node, void (*main)(void *arg),
                     void *arg);
void sim_make_runnable(sim_thread *t);
void sim_pass_baton(sim *s);  // until it returns; the caller has set its own state
void sim_maybe_overtaken(sim *s);
void sim_cancel_all(sim *s);
int sim_pin(sim *s, void *old_mask, unsigned long size);
void sim_unpin(const void *old_mask, unsigned long size);

// ---- sim_env.c ----------------------------------------------------------------------------------
void sim_env_close(env *e);
void sim_env_free(sim_env_ *x);
void sim_env_forget_threads(sim_env_ *x);  // which have been cancelled

// ---- sim_net.c ----------------------------------------------------------------------------------
void sim_net_close(sim_env_ *x);
void sim_net_free(sim *s);

// ---- sim_faults.c -------------------------------------------------------------------------------
bool sim_is_clogged(const sim *s, int from, int to);
void sim_set_walls(sim *s);

// ---- sim_director.c -----------------------------------------------------------------------------
sim_cue *sim_cue_open(sim *s, void (*act)(sim *s, void *arg), void *arg);  // without a time yet
void sim_give_cues(sim *s);  // those that wait for this decision, or this send
void sim_director_free(sim *s);

#endif
