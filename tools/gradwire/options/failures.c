#include "options/failures.h"

bool failures_has_failed(failure_policy p, bool exits_with_0, bool leaves_members) {
    return !exits_with_0 || (p >= FAILURE_RESTART && leaves_members);
}

static failure_action start_again(failure_policy p, failure_survivors left) {
    if (left.is_finished) return ACTION_START_RANK;
    if (p == FAILURE_RESTART_ALL || (p == FAILURE_AUTO && !left.are_elastic))
        return ACTION_START_ALL;
    // Without a rank that has the state, there is no job that it could join.
    return left.is_elastic && !left.has_state ? ACTION_START_ALL : ACTION_START_RANK;
}

failure_action failures_act(failure_policy p, failure_survivors left, budget_decision v) {
    switch (p) {
    case FAILURE_KEEP: return ACTION_CONTINUE;
    case FAILURE_RESTART:
    case FAILURE_RESTART_ALL:
    case FAILURE_AUTO: return v == BUDGET_RESTART ? start_again(p, left) : ACTION_END_JOB;
    case FAILURE_STOP:
    case FAILURE_UNSET: break;
    }
    return ACTION_END_JOB;
}

// Workers that wait for all others to join would wait for the ranks of the lost host. Ranks that start again all together
// need all hosts.
bool failures_survive_host(failure_policy p, bool are_elastic, bool has_joined) {
    switch (p) {
    case FAILURE_KEEP: return true;
    case FAILURE_RESTART: return has_joined;
    case FAILURE_AUTO: return has_joined && are_elastic;
    case FAILURE_RESTART_ALL:
    case FAILURE_STOP:
    case FAILURE_UNSET: break;
    }
    return false;
}
