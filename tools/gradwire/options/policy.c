#include "options/policy.h"

#include <assert.h>
#include <signal.h>
#include <stddef.h>

enum {
    // One request may arrive as two signals: timeout(1) signals the process and its group, a batch
    // system signals every process.
    SAME_REQUEST_MS = 100,
    // A process that reads a rank's output, such as tee, ends a moment after the rank.
    LEFTOVERS_MS = 200,
    // SIGKILL needs some time on a busy machine, however short the grace time is; and little more,
    // however long.
    DEATH_MS_MIN = 5000,
    DEATH_MS_MAX = 10000,
};

typedef enum action { DO_NOTHING, SEND_ASKED, SEND_KILL } action;

typedef struct rule {
    policy_stage from;
    policy_event event;
    policy_stage to;
    action action;
    const char *why;
} rule;

static const rule rules[] = {
    { AWAITING_RANKS, START_FAILED, AWAITING_DEATH, SEND_KILL, "a job starts whole or not at all" },
    { AWAITING_RANKS, RANK_FAILED, AWAITING_STOP, SEND_ASKED,
      "the other ranks would wait for the one that failed" },
    { AWAITING_RANKS, OTHER_HOST_FAILED, AWAITING_STOP, SEND_ASKED,
      "a job fails on all of its hosts" },
    { AWAITING_RANKS, USER_SIGNAL, AWAITING_STOP, SEND_ASKED, "ranks may want to save their work" },
    { AWAITING_RANKS, LEFTOVERS_FOUND, AWAITING_LEFTOVERS, DO_NOTHING,
      "processes that ranks left behind may be about to end" },
    { AWAITING_LEFTOVERS, LEFTOVERS_FOUND, AWAITING_LEFTOVERS, DO_NOTHING,
      "these processes may still be about to end" },
    { AWAITING_LEFTOVERS, USER_SIGNAL, AWAITING_STOP, SEND_ASKED,
      "the user does not want to wait" },
    { AWAITING_LEFTOVERS, OTHER_HOST_FAILED, AWAITING_STOP, SEND_ASKED,
      "when another host fails, processes that ranks left behind are not waited for" },
    { AWAITING_LEFTOVERS, TIME_IS_UP, AWAITING_STOP, SEND_ASKED, "nothing outlives the job" },
    { AWAITING_STOP, RANK_FAILED, AWAITING_STOP, DO_NOTHING,
      "the rank ended because it was asked to" },
    { AWAITING_STOP, OTHER_HOST_FAILED, AWAITING_STOP, DO_NOTHING,
      "all ranks of this host have been asked to end already" },
    { AWAITING_STOP, LEFTOVERS_FOUND, AWAITING_STOP, DO_NOTHING,
      "these processes have been asked to end, too" },
    { AWAITING_STOP, USER_SIGNAL, AWAITING_DEATH, SEND_KILL,
      "a user who sends a second signal does not want to wait" },
    { AWAITING_STOP, TIME_IS_UP, AWAITING_DEATH, SEND_KILL,
      "ranks that have not ended within the grace time are killed" },
    { AWAITING_RANKS, ROUND_FAILED, AWAITING_ROUND_END, SEND_ASKED,
      "the others cannot continue without it, and may want to save their work" },
    { AWAITING_ROUND_END, RANK_FAILED, AWAITING_ROUND_END, DO_NOTHING,
      "all start again in any case" },
    { AWAITING_ROUND_END, LEFTOVERS_FOUND, AWAITING_ROUND_END, DO_NOTHING,
      "they have been asked, too" },
    { AWAITING_ROUND_END, ROUND_ENDED, AWAITING_HOSTS, DO_NOTHING,
      "what is left on another host could disturb the next attempts" },
    { AWAITING_ROUND_END, OTHER_HOST_FAILED, AWAITING_STOP, DO_NOTHING,
      "all ranks of this host have been asked to end already" },
    { AWAITING_ROUND_END, USER_SIGNAL, AWAITING_STOP, SEND_ASKED,
      "the user ends the job, not this round alone" },
    { AWAITING_ROUND_END, TIME_IS_UP, AWAITING_ROUND_DEATH, SEND_KILL,
      "ranks that have not ended within the grace time are killed" },
    { AWAITING_ROUND_DEATH, RANK_FAILED, AWAITING_ROUND_DEATH, DO_NOTHING, "it was killed" },
    { AWAITING_ROUND_DEATH, LEFTOVERS_FOUND, AWAITING_ROUND_DEATH, SEND_KILL,
      "they may have been started since" },
    { AWAITING_ROUND_DEATH, ROUND_ENDED, AWAITING_HOSTS, DO_NOTHING,
      "what is left on another host could disturb the next attempts" },
    { AWAITING_ROUND_DEATH, OTHER_HOST_FAILED, AWAITING_DEATH, DO_NOTHING,
      "all ranks of this host have been killed already" },
    { AWAITING_ROUND_DEATH, USER_SIGNAL, AWAITING_DEATH, SEND_KILL,
      "the user ends the job, and all have been killed before" },
    { AWAITING_ROUND_DEATH, TIME_IS_UP, AWAITING_NOTHING, DO_NOTHING,
      "what cannot be killed may hold what the next attempts need" },
    { AWAITING_HOSTS, ROUND_STARTS, AWAITING_RANKS, DO_NOTHING,
      "nothing is left that could disturb the next attempts" },
    { AWAITING_HOSTS, OTHER_HOST_FAILED, AWAITING_STOP, SEND_ASKED,
      "a job fails on all of its hosts" },
    { AWAITING_HOSTS, USER_SIGNAL, AWAITING_STOP, SEND_ASKED,
      "the user ends the job, not this round alone" },
    { AWAITING_RANKS, LEFTOVERS_GONE, AWAITING_RANKS, DO_NOTHING,
      "the ranks of another host still run" },
    { AWAITING_LEFTOVERS, LEFTOVERS_GONE, AWAITING_RANKS, DO_NOTHING,
      "the ranks of another host still run" },
    { AWAITING_STOP, LEFTOVERS_GONE, AWAITING_RANKS, DO_NOTHING,
      "only processes that ranks left behind were asked to end" },
    { AWAITING_DEATH, LEFTOVERS_GONE, AWAITING_RANKS, DO_NOTHING,
      "only processes that ranks left behind were killed" },
    { AWAITING_LEFTOVERS, ROUND_FAILED, AWAITING_ROUND_END, SEND_ASKED,
      "processes that ranks left behind end before the next attempts start" },
    { AWAITING_STOP, ROUND_FAILED, AWAITING_ROUND_END, DO_NOTHING,
      "processes that ranks left behind have been asked to end already" },
    { AWAITING_DEATH, ROUND_FAILED, AWAITING_ROUND_DEATH, DO_NOTHING,
      "processes that ranks left behind have been killed already" },
    { AWAITING_DEATH, RANK_FAILED, AWAITING_DEATH, DO_NOTHING, "it was killed" },
    { AWAITING_DEATH, OTHER_HOST_FAILED, AWAITING_DEATH, DO_NOTHING,
      "all ranks of this host have been killed already" },
    { AWAITING_DEATH, LEFTOVERS_FOUND, AWAITING_DEATH, SEND_KILL,
      "these processes may have been started since the last signal" },
    { AWAITING_DEATH, USER_SIGNAL, AWAITING_DEATH, DO_NOTHING, "there is no stronger signal" },
    { AWAITING_DEATH, TIME_IS_UP, AWAITING_NOTHING, DO_NOTHING,
      "uninterruptible sleep may last for ever" },
};

bool policy_ends_round(const policy *p) {
    return p->stage == AWAITING_ROUND_END || p->stage == AWAITING_ROUND_DEATH ||
           p->stage == AWAITING_HOSTS;
}

void policy_init(policy *p, int64_t grace_ms) {
    *p = (policy){ .grace_ms = grace_ms, .stage = AWAITING_RANKS, .deadline_ms = INT64_MAX };
}

static const rule *find_rule(policy_stage from, policy_event event) {
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (rules[i].from == from && rules[i].event == event) return &rules[i];
    }
    return NULL;
}

static int64_t patience_ms(const policy *p, policy_stage stage) {
    switch (stage) {
    case AWAITING_LEFTOVERS: return LEFTOVERS_MS;
    case AWAITING_STOP:
    case AWAITING_ROUND_END: return p->grace_ms;
    case AWAITING_DEATH:
    case AWAITING_ROUND_DEATH:
        if (p->grace_ms < DEATH_MS_MIN) return DEATH_MS_MIN;
        return p->grace_ms < DEATH_MS_MAX ? p->grace_ms : DEATH_MS_MAX;
    case AWAITING_RANKS:
    case AWAITING_HOSTS:
    case AWAITING_NOTHING: break;
    }
    return INT64_MAX;
}

static void enter(policy *p, policy_stage stage, int64_t now_ms) {
    if (stage == p->stage) return;
    p->stage = stage;
    p->entered_ms = now_ms;
    int64_t wait_ms = patience_ms(p, stage);
    p->deadline_ms = wait_ms == INT64_MAX ? INT64_MAX : now_ms + wait_ms;
}

int policy_happened(policy *p, policy_event event, int asked, int64_t now_ms) {
    bool same_request = event == USER_SIGNAL && p->stage == AWAITING_STOP &&
                        now_ms - p->entered_ms < SAME_REQUEST_MS;
    if (same_request || p->stage == AWAITING_NOTHING) return 0;
    const rule *r = find_rule(p->stage, event);
    assert(r);
    enter(p, r->to, now_ms);
    return r->action == SEND_KILL ? SIGKILL : r->action == SEND_ASKED ? asked : 0;
}
