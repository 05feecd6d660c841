// The simulated cluster: many workers in one process, in virtual time, in an order that one number
// decides.
//
//     static void run_trainer(void *arg) { ... sim_transport.listen(arg, "trainer:29500", ...) ... }
//
//     static void it_survives_cuts(uint64_t seed, void *context) {
//         sim *s = sim_open(seed, (sim_options){ .cut_per_million = 2000 });
//         sim_spawn(s, 0, run_trainer, sim_env(s, 0));
//         sim_spawn(s, 1, run_observer, sim_env(s, 1));
//         assert_true(sim_run(s, 60 * SIM_SECOND));
//         sim_close(s);
//     }
//
// Each node has an env of class "sim". The simulator decides by the seed which thread continues, when bytes arrive and
// in what pieces, how many bytes a stream takes, when timers fire, and which connections fail. Code under test runs
// unchanged on its own threads, and may block in env_wait only; exactly one thread runs at a time. A thread may be
// overtaken by others whenever it enters the loop lock, before each task, and while it waits. Virtual time passes only
// when no thread can continue, except for a short time at each decision.
//
// The same seed and the same code give the same run, bit for bit; sim_trace_hash is equal then. Code
// under test must take time and randomness from its env only, and must not decide by
// addresses of objects.
//
// Ownership: the simulation owns its envs; env_close on one ends the node's agent, sim_close does
// it for those left.
// Threads: the caller of sim_open is outside; it may use the envs, except to wait, before and after
// sim_run.
// SIM_TRACE=1 in the environment prints every decision.
#ifndef TESTING_SIM_H
#define TESTING_SIM_H

#include "net/transport/transport.h"

typedef struct sim sim;

extern const transport sim_transport;        // of its envs
extern const transport sim_rings_transport;  // whose streams go through the rings of net/shm/ring.h

#define SIM_SECOND ((int64_t)1000000000)

enum { SIM_NODES_MAX = 256 };

// 0: the usual; negative: none.
typedef struct sim_options {
    int delay_max_us;     // until bytes arrive, at least 1; 200
    int window_bytes;     // bytes that a stream takes before its peer reads; 64 KiB, at times less
    int cut_per_million;  // deliveries that find the connection failed; none
    int interleave_per_million;  // times a thread that enters the loop lock is overtaken; 50000
    int lose_per_million;        // frames of sessions that never arrive; none
    int duplicate_per_million;   // frames of sessions that arrive twice; none
    int damage_per_million;      // deliveries of frames of which one bit changes; none
    int resend_per_million;      // deliveries that a transport such as TCP sends again; none
    bool rings;                  // workers have sim_rings_transport, too, and prefer it
    bool quiet;                  // does not print why sim_run has failed
} sim_options;

// Options that the seed chooses, for walks through many: a quick network or a slow one, wide
// streams or narrow ones, threads that are overtaken often or never. Cuts are the caller's choice.
sim_options sim_varied(uint64_t seed, int cut_per_million);

typedef struct sim_counts {
    uint64_t decisions, switches, deliveries, bytes, connections;
    // faults
    uint64_t cuts, segments_lost, frames_lost, frames_repeated, bits_changed, crashes, stops,
        partitions, clogs, wall_steps;
} sim_counts;

// NULL without memory.
sim *sim_open(uint64_t seed, sim_options options);

// Ends every thread where it waits, without returning to it: the memory of those threads is lost. After
// a run that succeeded only threads of envs that the test has not closed are left.
void sim_close(sim *s);

// The env of node |node|, counted from 0; after env_close a new one. NULL without memory.
env *sim_env(sim *s, int node);

// Adds a thread that runs |main| on |node|. sim_run ends when all of them have. False without
// memory.
bool sim_spawn(sim *s, int node, void (*main)(void *arg), void *arg);

// Runs until all mains have returned, then true. False if none of the threads can ever continue, or if
// virtual time has passed |until_ns|; then it has printed the seed and the wait of each thread.
bool sim_run(sim *s, int64_t until_ns);

// ---- Faults: from outside, from the director, or from any thread of the simulation --------------
// Cuts every connection there is, as a failing network does.
void sim_cut_all(sim *s);

// The process of |node| ends. To the others: its streams end behind the bytes that had left it, or before;
// its listeners refuse.
// Its own threads continue as a *ghost*, alone in an empty world, so that they can free their memory:
// all its streams close, no peer answers, nothing leaves. Actions of a ghost must not count for a
// test. sim_env makes another env for the node.
void sim_crash(sim *s, int node);
bool sim_is_crashed(const sim *s, int node);     // its last env is a ghost's
int64_t sim_crashed_ns(const sim *s, int node);  // when it did, last; ENV_NEVER: it has not
bool sim_is_ghost(const env *e);

// SIGSTOP and SIGCONT: none of its threads continues and nothing happens on it, while time does. Its
// listeners accept, as the kernel does, and its streams take bytes up to their windows.
void sim_stop(sim *s, int node);
void sim_continue(sim *s, int node);
bool sim_is_stopped(const sim *s, int node);
// How long |node| has been stopped, or parted from any other, in all.
int64_t sim_away_ns(const sim *s, int node);

// Holds traffic from |a| to |b|, or back, or both: bytes, connections and answers to them.
// Healed, they arrive.
void sim_partition(sim *s, int a, int b, bool a_to_b, bool b_to_a);
void sim_heal_between(sim *s, int a, int b);
void sim_heal(sim *s);

// The wall clock of |node| jumps. It differs from those of the others from the start.
void sim_step_wall(sim *s, int node, int64_t by_ns);

// The director: calls |act| at a time, before a decision, or behind a send, counted over the whole
// simulation from 1. May be called within the run, too. False without memory.
bool sim_at(sim *s, int64_t when_ns, void (*act)(sim *s, void *arg), void *arg);
bool sim_at_decision(sim *s, uint64_t decision, void (*act)(sim *s, void *arg), void *arg);
bool sim_at_send(sim *s, uint64_t send, void (*act)(sim *s, void *arg), void *arg);
// Calls |act| at the first decision or send at which |is_so|, which has no side effects.
bool sim_when(sim *s, bool (*is_so)(void *arg), void (*act)(sim *s, void *arg), void *arg);

// A plan of faults that |seed| chooses: at most so many of each kind, at most one crash a node.
// Crashes happen at any event, other faults at a time; stopped nodes continue, and partitions are
// healed, in the end.
typedef struct sim_faults {
    int nodes;         // that may be hit: 0 to |nodes| - 1
    uint64_t spared;   // of these, as bits: do not crash and are not stopped
    int64_t until_ns;  // faults begin before
    int64_t hold_ns;   // the longest stop and partition; 20 s
    int crashes, stops, partitions, clogs, cuts, wall_steps;
} sim_faults;

bool sim_fault_plan(sim *s, uint64_t seed, sim_faults faults);  // false without memory
const char *sim_plan_text(const sim *s);                        // a line for each fault
bool sim_plan_is_over(const sim *s);  // none of it is to happen at a time; crashes at events may
int64_t sim_last_fault_ns(
    const sim *s);  // when one last began or ended, cuts of single connections not counted

int64_t sim_now_ns(const sim *s);
uint64_t sim_trace_hash(const sim *s);
sim_counts sim_count(const sim *s);
const char *sim_report(const sim *s);  // the last output of sim_run, "" if none

#endif
