// When a job is stopped, killed, started again and given up: the rules, without any process, signal or clock.
//
// The launcher passes each event with its time, and acts on the returned signal. A table in policy.c has every rule and
// its reason.
#ifndef GRADWIRE_POLICY_H
#define GRADWIRE_POLICY_H

#include <stdbool.h>
#include <stdint.h>

// What is awaited.
typedef enum policy_stage {
    AWAITING_RANKS,      // all ranks to end by themselves
    AWAITING_LEFTOVERS,  // what ranks have started, to end by itself as well
    AWAITING_STOP,       // all processes to obey a signal that asks them to end
    AWAITING_DEATH,      // the kernel to end them after SIGKILL
    AWAITING_NOTHING,    // what is left cannot be killed
    AWAITING_ROUND_END,  // all processes to obey a signal that asks them to end; then all ranks start again
    AWAITING_ROUND_DEATH,  // the kernel to end them after SIGKILL; then all ranks start again
    AWAITING_HOSTS,        // the ranks of all other hosts to end; then all ranks start again
} policy_stage;

typedef enum policy_event {
    START_FAILED,       // not all ranks could be started
    RANK_FAILED,        // and the others are to be stopped then
    ROUND_FAILED,       // a rank has failed, and all are to start again
    ROUND_ENDED,        // no process of the ranks is left on this host
    ROUND_STARTS,       // nor on another one
    OTHER_HOST_FAILED,  // the part of another host has failed, or that host is lost
    USER_SIGNAL,        // a signal of the user or the system ends the job
    LEFTOVERS_FOUND,    // no rank is left, but processes that ranks have started
    LEFTOVERS_GONE,     // nor those, and all ranks may start again, because of another host
    TIME_IS_UP,
} policy_event;

typedef struct policy {
    // arguments
    int64_t grace_ms;
    // state
    policy_stage stage;
    int64_t entered_ms;   // when the stage began, if it is not the first
    int64_t deadline_ms;  // when TIME_IS_UP; INT64_MAX while nothing limits the time
} policy;

// Whether all ranks are ended to start again.
bool policy_ends_round(const policy *p);

void policy_init(policy *p, int64_t grace_ms);

// Applies the rule for |event|. Returns the signal that every process must get now, 0 for none.
// |asked| is the signal that asks them to end, for events which lead there.
int policy_happened(policy *p, policy_event event, int asked, int64_t now_ms);

#endif
