#include "base/mutation.h"

#ifdef GW_MUTATIONS

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[MUTATION_BUG_COUNT] = {
    [MUTATION_NO_FENCING] = "no_fencing",
    [MUTATION_GIVES_UP_UNREPORTED] = "gives_up_unreported",
    [MUTATION_WALL_CLOCK] = "wall_clock",
    [MUTATION_NO_MAJORITY] = "no_majority",
    [MUTATION_NO_PROBES] = "no_probes",
    [MUTATION_RECEIVED_ONLY] = "received_only",
    [MUTATION_ACTS_ALONE] = "acts_alone",
    [MUTATION_RESEND_LOST] = "resend_lost",
    [MUTATION_BULK_NOT_REWOUND] = "bulk_not_rewound",
    [MUTATION_BULK_OVERTAKEN] = "bulk_overtaken",
    [MUTATION_BODY_UNCHECKED] = "body_unchecked",
    [MUTATION_DUPLICATE_FRAME] = "duplicate_frame",
    [MUTATION_REPLY_NOT_DEDUPLICATED] = "reply_not_deduplicated",
    [MUTATION_CANCEL_IGNORED] = "cancel_ignored",
    [MUTATION_LOST_WAKE_UP] = "lost_wake_up",
    [MUTATION_NO_TOMBSTONE] = "no_tombstone",
    [MUTATION_INSERT_IF_ABSENT] = "insert_if_absent",
    [MUTATION_RELEASE_BEFORE_CHILD] = "release_before_child",
    [MUTATION_ACCEPT_BEFORE_ACK] = "accept_before_ack",
    [MUTATION_GIVE_UP] = "give_up",
    [MUTATION_KEEP_DEAD_FORKS] = "keep_dead_forks",
    [MUTATION_RING_INDEX_BELIEVED] = "ring_index_believed",
    [MUTATION_RING_TAIL_FIRST] = "ring_tail_first",
    [MUTATION_RING_WAKE_LOST] = "ring_wake_lost",
    [MUTATION_RING_NOT_CHECKED] = "ring_not_checked",
    [MUTATION_GRADIENT_TWICE] = "gradient_twice",
    [MUTATION_PASS_BEGINS_AGAIN] = "pass_begins_again",
    [MUTATION_FINAL_BEFORE_DONE] = "final_before_done",
    [MUTATION_FAILED_OMITTED] = "failed_omitted",
    [MUTATION_ABORT_FORGOTTEN] = "abort_forgotten",
    [MUTATION_DONE_WHILE_REDUCING] = "done_while_reducing",
    [MUTATION_CALLER_NOT_QUERIED] = "caller_not_queried",
    [MUTATION_PART_TWICE] = "part_twice",
    [MUTATION_ENTER_AHEAD] = "enter_ahead",
    [MUTATION_BLOCK_WRITTEN] = "block_written",
    [MUTATION_BUCKET_OUT_OF_ORDER] = "bucket_out_of_order",
    [MUTATION_FLAGS_NOT_COMBINED] = "flags_not_combined",
    [MUTATION_JOINED_COUNTED_LATE] = "joined_counted_late",
    [MUTATION_STEP_NOT_QUERIED] = "step_not_queried",
    [MUTATION_LATE_COMMIT] = "late_commit",
    [MUTATION_DOUBT_DROPPED] = "doubt_dropped",
    [MUTATION_GIVEN_DROPPED] = "given_dropped",
    [MUTATION_LEASE_KEPT] = "lease_kept",
    [MUTATION_LENT_REUSED] = "lent_reused",
    [MUTATION_READ_UNCHECKED] = "read_unchecked",
    [MUTATION_WRITTEN_BLOCK_MOVES] = "written_block_moves",
    [MUTATION_WRITE_LOST] = "write_lost",
    [MUTATION_KEY_WITHOUT_ROLE] = "key_without_role",
    [MUTATION_IDENTITY_UNCHECKED] = "identity_unchecked",
    [MUTATION_OLD_KEY_ACCEPTED] = "old_key_accepted",
    [MUTATION_HELLO_OUTSIDE_TLS] = "hello_outside_tls",
    [MUTATION_HELLO_UNBOUND] = "hello_unbound",
    [MUTATION_WRONG_FOLD] = "wrong_fold",
    [MUTATION_SLICES_BY_ARRIVAL] = "slices_by_arrival",
    [MUTATION_ANY_CA] = "any_ca",
    [MUTATION_CLIENT_UNNAMED] = "client_unnamed",
    [MUTATION_SERVER_UNNAMED] = "server_unnamed",
    [MUTATION_MEMBER_UNNAMED] = "member_unnamed",
    [MUTATION_SIGNATURE_NOT_COMPARED] = "signature_not_compared",
    [MUTATION_SCOPE_LEFT_UNREPORTED] = "scope_left_unreported",
    [MUTATION_REFUSED_ALONE] = "refused_alone",
    [MUTATION_PAST_NOT_COMPARED] = "past_not_compared",
    [MUTATION_DONE_NOT_FINAL] = "done_not_final",
    [MUTATION_ABORT_NOT_REPORTED] = "abort_not_reported",
    [MUTATION_NUMBER_NOT_ADVANCED] = "number_not_advanced",
    [MUTATION_DECISION_NOT_STORED] = "decision_not_stored",
    [MUTATION_CIRCLE_NOT_PROVEN] = "circle_not_proven",
    [MUTATION_OLD_VIEW_IN_REFORM] = "old_view_in_reform",
    [MUTATION_GENERATION_FORGOTTEN] = "generation_forgotten",
    [MUTATION_CHANNEL_THAT_IS_FREE] = "channel_that_is_free",
    [MUTATION_CHANNEL_OVERTAKEN] = "channel_overtaken",
    [MUTATION_NOT_DRAINED] = "not_drained",
    [MUTATION_DRAINED_UNMET] = "drained_unmet",
    [MUTATION_UNEXPECTED_REVERSED] = "unexpected_reversed",
    [MUTATION_UNEXPECTED_BREAK_FORGOTTEN] = "unexpected_break_forgotten",
    [MUTATION_PREPARED_STEP_KEPT] = "prepared_step_kept",
    [MUTATION_RANGE_FROM_ZERO] = "range_from_zero",
    [MUTATION_LIMIT_AFTER_ALLOCATION] = "limit_after_allocation",
};

mutation mutation_now;

// An unknown name would change nothing, and look like a mutation that no test detects.
__attribute__((constructor)) static void choose(void) {
    const char *name = getenv("GW_MUTATION");
    if (!name || !*name) return;
    for (int bug = 0; bug < MUTATION_BUG_COUNT; bug++)
        if (names[bug] && strcmp(names[bug], name) == 0) mutation_now = (mutation)bug;
    if (mutation_now) return;
    fprintf(stderr, "GW_MUTATION=%s: there is no such mutation; there are", name);
    for (int bug = 0; bug < MUTATION_BUG_COUNT; bug++)
        if (names[bug]) fprintf(stderr, " %s", names[bug]);
    fprintf(stderr, "\n");
    exit(2);
}

#endif
