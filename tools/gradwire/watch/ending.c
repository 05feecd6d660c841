#include "watch/ending.h"

#include <signal.h>

#include "system/clock.h"
#include "job/report.h"
#include "system/sweep.h"

// A rank that was not waited for keeps its number, and so that of its group, even when it has
// ended.
void ending_signal_groups(job *j, int signal_number) {
    for (int i = 0; i < j->options.rank_count; i++) {
        if (j->ranks[i].is_running) kill(-j->ranks[i].pid, signal_number);
    }
}

// Processes that have left the group of their rank, or whose rank has ended.
int ending_sweep(job *j, int signal_number) {
    sweep_options options = { .spared = { j->guard.pid, j->nodes.pid, j->monitor.pid,
                                          j->recorder.pid, j->health.pid },
                              .spared_groups = j->groups };
    for (int i = 0; i < j->options.rank_count; i++) {
        if (j->ranks[i].is_running) j->groups[options.spared_group_count++] = j->ranks[i].pid;
    }
    return sweep(signal_number, options);
}

static void signal_all(job *j, int signal_number) {
    ending_signal_groups(j, signal_number);
    ending_sweep(j, signal_number);
    // A stopped process handles the signal when it is continued.
    if (signal_number != SIGKILL) {
        ending_signal_groups(j, SIGCONT);
        ending_sweep(j, SIGCONT);
    }
    j->tree_has_changed = true;
}

void ending_happened(job *j, policy_event event, int asked) {
    policy_stage before = j->policy.stage;
    int signal_number = policy_happened(&j->policy, event, asked, clock_now_ms());
    bool was_asked = before == AWAITING_STOP || before == AWAITING_ROUND_END;
    if (event == TIME_IS_UP && was_asked) report_killing(j, ending_sweep(j, 0));
    if (event == TIME_IS_UP && before == AWAITING_LEFTOVERS)
        report_leftovers(j, ending_sweep(j, 0));
    if (signal_number) signal_all(j, signal_number);
}

void ending_set_code(job *j, int code) {
    if (!j->has_exit_code) j->exit_code = code;
    j->has_exit_code = true;
}
