// Whether a rank that has failed starts again, and when: the rules, without any process or clock.
//
// The job has one budget of restarts. A restart of one rank costs 1, a restart of all ranks together costs 1 as well. A
// slot is the place of a rank, in which one attempt follows another.
//
// Ownership: the caller has all memory. Threads: one.
#ifndef GRADWIRE_BUDGET_H
#define GRADWIRE_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

typedef enum budget_decision {
    BUDGET_RESTART,
    BUDGET_SPENT,         // no restart is left
    BUDGET_NEVER_JOINED,  // the program fails before it has done anything
    BUDGET_CRASH_LOOP,    // it fails again and again at its beginning
    BUDGET_NO_HOST,       // all ranks would start again, and a host is lost
} budget_decision;

// Zero: no attempt in it has failed.
typedef struct budget_slot {
    int early_count;  // its last attempts that failed early, without having joined
    bool has_restarted;
    int64_t restarted_ms, delay_ms;  // of its last restart
} budget_slot;

typedef struct budget {
    // arguments
    int max;               // 0: nothing starts again
    int64_t window_ms;     // older restarts do not count; 0: all count
    int64_t backoff_ms;    // before a second restart of a slot within a minute
    int64_t *restarts_ms;  // memory for |max| times
    budget_slot *slots;    // one for each rank, zero at first
    // state
    int64_t count;  // of restarts, forgotten ones included; the last |max| are in |restarts_ms|
} budget;

// The failure of an attempt.
typedef struct budget_failure {
    int slot;
    int64_t started_ms, now_ms;
    bool has_joined;      // the attempt
    bool job_has_begun;   // to join: a worker of any attempt
    bool job_has_joined;  // a worker of any attempt
} budget_failure;

// Decides, and charges the restart. |out_start_ms|: when the slot starts again.
budget_decision budget_fail(budget *b, const budget_failure *f, int64_t *out_start_ms);

int budget_left(const budget *b, int64_t now_ms);

#endif
