// What the end of a rank leads to: the rules, without any process or clock.
#ifndef GRADWIRE_FAILURES_H
#define GRADWIRE_FAILURES_H

#include <stdbool.h>

#include "options/budget.h"
#include "options/run_options.h"

typedef enum failure_action {
    ACTION_END_JOB,
    ACTION_CONTINUE,    // the other ranks run on, and nothing starts again
    ACTION_START_RANK,  // the failed rank starts again, and the others run on
    ACTION_START_ALL,   // all ranks end, and start again
} failure_action;

// Whether a rank that has ended has failed. |leaves_members|: it was a member of the job, and has not left it: for
// the other members it is lost.
bool failures_has_failed(failure_policy p, bool exits_with_0, bool leaves_members);

// What is left of the job behind the failure of a rank.
typedef struct failure_survivors {
    bool are_elastic;  // the failed rank and all that run are workers of an elastic job
    bool is_elastic;   // the failed rank is
    bool
        has_state;  // a rank that runs has the state of the job, so that others can join through it
    bool is_finished;  // the work is done: a rank that starts again is notified of that
} failure_survivors;

// |v| counts for policies with restarts.
failure_action failures_act(failure_policy p, failure_survivors left, budget_decision v);

// Whether the job continues on the other hosts when one of several is lost. |are_elastic|: all ranks that run there are
// workers of an elastic job. |has_joined|: a worker of the job has joined.
bool failures_survive_host(failure_policy p, bool are_elastic, bool has_joined);

#endif
