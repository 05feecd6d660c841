// Invariants of the references of all workers together. docs/protocol/references.md has the
// rules.
//
// |agents| has one entry per rank: NULL for workers that have not joined, have crashed, or have been
// fenced.
// Threads: while no thread of the simulation runs, or none holds a role.
#ifndef TESTING_ORACLE_H
#define TESTING_ORACLE_H

#include "agent/state/agent.h"

// At any time: each listed holder is alive for the owner, and each holder of a confirmed
// reference is listed, so that the value behind it exists.
void oracle_check(agent *const *agents, int count);

// Once nothing is under way: the holder sets of the owners are exactly the forks that holders hold.
void oracle_check_rest(agent *const *agents, int count);

// Once everything has been given back: |a| keeps no entry, fork, pin, promise, call, serving or
// call queue.
void oracle_check_empty(agent *a);

#endif
