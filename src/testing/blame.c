#include "testing/blame.h"

#include "membership/membership.h"

#include <stdio.h>

// Node 2 is called "w2".
static int node_of(const char *name) {
    int node = -1, size = 0;
    return sscanf(name, "w%d%n", &node, &size) == 1 && !name[size] ? node : -1;
}

// ---- Faults ------------------------------------------------------------------------------

// A worker that has lost its coordinator is fenced after so long without the next one (MEM-21).
#define CUT_OFF_NS (MEMBERSHIP_CUT_OFF_NS - MEMBERSHIP_TICK_NS)

static bool is_away(const blame_facts *f, int node, int64_t least_ns) {
    return sim_away_ns(f->sim, node) >= least_ns;
}

static bool has_ended(const blame_facts *f, int node) {
    return sim_is_crashed(f->sim, node) || (f->ended >> node & 1);
}

bool blame_may_be_gone(const blame_facts *f, int node) {
    return has_ended(f, node) || is_away(f, node, CUT_OFF_NS);
}

// Whether workers without a fault may not reach a quorum. An end that is certain needs none,
// except to a worker that was stopped, which is in doubt then (MEM-20).
static bool has_lost_most(const blame_facts *f) {
    int gone = 0;
    bool any_is_away = false;
    for (int i = 0; i < f->count; i++) {
        gone += blame_may_be_gone(f, i) || (f->late >> i & 1);
        any_is_away |= is_away(f, i, MEMBERSHIP_LATE_NS);
    }
    return f->lost_most || (any_is_away && 2 * gone >= f->count);
}

static bool is_last(const blame_facts *f, int node) {
    bool is_last = true;
    for (int i = 0; i < f->count; i++) is_last &= i == node || blame_may_be_gone(f, i);
    return is_last;
}

static bool is_true(gw_loss how, int node, const blame_facts *f) {
    if (!how || node < 0 || node >= f->count) return false;
    if (has_lost_most(f)) return true;
    switch (how) {
    case GW_LOSS_ENDED: return blame_may_be_gone(f, node);
    case GW_LOSS_SILENT: return is_away(f, node, MEMBERSHIP_SUSPECT_NS);
    case GW_LOSS_CUT_OFF: return is_away(f, node, CUT_OFF_NS);
    case GW_LOSS_ALONE: return is_away(f, node, MEMBERSHIP_LATE_NS) || is_last(f, node);
    case GW_LOSS_DECLARED: return is_away(f, node, MEMBERSHIP_SUSPECT_NS) || has_ended(f, node);
    case GW_LOSS_LEFT: return f->ended >> node & 1;
    default: return false;
    }
}

bool blame_explains(const gw_error *error, const blame_facts *f, int64_t involved) {
    int node = node_of(error->lost.name);
    bool fits = error->status == GW_DISCONNECTED || error->status == GW_REF_LOST ||
                (error->status == GW_FENCED && error->lost.how != GW_LOSS_LEFT);
    return fits && is_true(error->lost.how, node, f) && (involved >> node & 1);
}
