#include "base/planted.h"

#ifdef GW_PLANTED

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[PLANTED_BUG_COUNT] = {
    [PLANTED_NO_FENCING] = "no_fencing",
    [PLANTED_WALL_CLOCK] = "wall_clock",
    [PLANTED_NO_MAJORITY] = "no_majority",
    [PLANTED_NO_PROBES] = "no_probes",
    [PLANTED_RESEND_LOST] = "resend_lost",
    [PLANTED_DUPLICATE_FRAME] = "duplicate_frame",
    [PLANTED_REPLY_NOT_DEDUPLICATED] = "reply_not_deduplicated",
    [PLANTED_CANCEL_IGNORED] = "cancel_ignored",
    [PLANTED_LOST_WAKE_UP] = "lost_wake_up",
    [PLANTED_NO_TOMBSTONE] = "no_tombstone",
    [PLANTED_INSERT_IF_ABSENT] = "insert_if_absent",
    [PLANTED_RELEASE_BEFORE_CHILD] = "release_before_child",
    [PLANTED_ACCEPT_BEFORE_ACK] = "accept_before_ack",
    [PLANTED_GIVE_UP] = "give_up",
    [PLANTED_KEEP_DEAD_FORKS] = "keep_dead_forks",
    [PLANTED_GRADIENT_TWICE] = "gradient_twice",
    [PLANTED_PASS_BEGINS_AGAIN] = "pass_begins_again",
    [PLANTED_SETTLED_BEFORE_DONE] = "settled_before_done",
    [PLANTED_FAILED_SETTLED] = "failed_settled",
    [PLANTED_STEP_NOT_ASKED] = "step_not_asked",
    [PLANTED_LIMIT_AFTER_ALLOCATION] = "limit_after_allocation",
};

planted_bug planted_now;

// A name that nobody knows would plant nothing, and pass for a bug that was not found.
__attribute__((constructor)) static void choose(void) {
    const char *name = getenv("GW_PLANTED_BUG");
    if (!name || !*name) return;
    for (int bug = 0; bug < PLANTED_BUG_COUNT; bug++)
        if (names[bug] && strcmp(names[bug], name) == 0) planted_now = (planted_bug)bug;
    if (planted_now) return;
    fprintf(stderr, "GW_PLANTED_BUG=%s: there is no such bug; there are", name);
    for (int bug = 0; bug < PLANTED_BUG_COUNT; bug++)
        if (names[bug]) fprintf(stderr, " %s", names[bug]);
    fprintf(stderr, "\n");
    exit(2);
}

#endif
