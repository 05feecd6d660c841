// The states of a fork at its holder, as a table. docs/protocol/references.md, "States of a fork".
#include "reference/references.h"

#include "base/machine.h"

#include <assert.h>

// ---- Actions ------------------------------------------------------------------------------------

static void nothing(gw_rref *r) {
    (void)r;
}

static void confirm(gw_rref *r) {
    atomic_store_explicit(&r->confirmed, true, memory_order_release);
}

// ---- The table ----------------------------------------------------------------------------------

typedef MACHINE_RULE(fork_state, fork_event, gw_rref *r) rule;

// clang-format off
static const rule rules[] = {
    { FORK_UNSENT,    FORK_REQUESTED, FORK_PENDING,   nothing,                    "the owner adds it to its list when the creating request (REF-1) or the fork request (REF-4) arrives" },
    { FORK_UNSENT,    FORK_LISTED,    FORK_CONFIRMED, confirm,                    "the owner has added it to its list when it sent the reference (REF-2)" },
    { FORK_UNSENT,    FORK_REFUSED,   FORK_FAILED,    nothing,                    "the reference returned to its owner, where the value is gone, or its request could not be sent" },
    { FORK_UNSENT,    FORK_LOST,      FORK_FAILED,    nothing,                    "the owner was lost before the reference arrived (REF-9)" },
    { FORK_UNSENT,    FORK_DROPPED,   FORK_UNSENT,    nothing,                    "the owner has not received it" },

    { FORK_PENDING,   FORK_LISTED,    FORK_CONFIRMED, confirm,                    "accepted, or fork ack" },
    { FORK_PENDING,   FORK_REFUSED,   FORK_FAILED,    nothing,                    "the owner could not add it to its list, or the creating request could not be sent" },
    { FORK_PENDING,   FORK_LOST,      FORK_FAILED,    nothing,                    "the owner is lost and cannot answer (REF-9)" },
    { FORK_PENDING,   FORK_DROPPED,   FORK_RELEASED,  fork_queue_release_on_loop, "the release follows the request in the same session" },

    { FORK_CONFIRMED, FORK_LOST,      FORK_FAILED,    nothing,                    "the value is gone with its owner (REF-9)" },
    { FORK_CONFIRMED, FORK_DROPPED,   FORK_RELEASED,  fork_queue_release_on_loop, "the owner need not keep the value for this reference any more (REF-5)" },

    { FORK_RELEASED,  FORK_LOST,      FORK_FAILED,    nothing,                    "uses after shutdown fail as if the owner were lost" },
    { FORK_RELEASED,  FORK_DROPPED,   FORK_RELEASED,  nothing,                    "once is enough" },

    { FORK_FAILED,    FORK_DROPPED,   FORK_FAILED,    nothing,                    "the owner does not list it" },
};
// clang-format on

void fork_apply_on_loop(gw_rref *r, fork_event event) {
    const rule *x = machine_find(rules, sizeof rules, sizeof *rules, r->state, event);
    assert(x);  // a message of the owner becomes an event only in states that have a rule for it
    r->state = x->to;
    x->action(r);
}
