#include "testing/blame.h"

#include "membership/membership.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

// ---- What an error says -------------------------------------------------------------------------

static const struct {
    const char *words;
    blame_reason reason;
} reasons[] = {
    { " is gone: its process has ended", BLAME_ENDED },
    { " was silent to ", BLAME_SILENT },
    { " did not answer at ", BLAME_SILENT },
    { " was cut off from most of the others", BLAME_CUT_OFF },
    { " has lost all others", BLAME_ALONE },
    { " is leaving the job", BLAME_LEFT },
    { " has left", BLAME_LEFT },
};

static const char *last_of(const char *text, const char *words) {
    const char *last = NULL;
    for (const char *at = text; (at = strstr(at, words)); at++) last = at;
    return last;
}

// The number in "w2 (rank 1)" or "w2" that ends at |end|; -1: there is none.
static int node_before(const char *text, const char *end) {
    if (end > text && end[-1] == ')') {
        while (end > text && *end != '(') end--;
        if (end > text) end--;
    }
    const char *start = end;
    while (start > text && isdigit((unsigned char)start[-1])) start--;
    if (start == end || start == text || start[-1] != 'w') return -1;
    return (int)strtol(start, NULL, 10);
}

blame blame_in(const char *text) {
    blame b = { BLAME_NONE, -1 };
    const char *latest = NULL;
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++) {
        const char *at = last_of(text, reasons[i].words);
        if (!at || (latest && at < latest)) continue;
        int node = node_before(text, at);
        if (node < 0) continue;
        latest = at;
        b = (blame){ reasons[i].reason, node };
    }
    return b;
}

// ---- What was done ------------------------------------------------------------------------------

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

// Whether workers to which nothing was done may hear no quorum. An end that is certain needs none,
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

static bool is_true(const blame *b, const blame_facts *f) {
    if (b->node < 0 || b->node >= f->count) return false;
    if (has_lost_most(f)) return true;
    switch (b->reason) {
    case BLAME_NONE: return false;
    case BLAME_ENDED: return blame_may_be_gone(f, b->node);
    case BLAME_SILENT: return is_away(f, b->node, MEMBERSHIP_SUSPECT_NS);
    case BLAME_CUT_OFF: return is_away(f, b->node, CUT_OFF_NS);
    case BLAME_ALONE: return is_away(f, b->node, MEMBERSHIP_LATE_NS) || is_last(f, b->node);
    case BLAME_LEFT: return f->ended >> b->node & 1;
    }
    return false;
}

bool blame_explains(const gw_error *error, const blame_facts *f, int64_t involved) {
    blame b = blame_in(error->text);
    bool fits = error->status == GW_DISCONNECTED || error->status == GW_REF_LOST ||
                (error->status == GW_FENCED && b.reason != BLAME_LEFT);
    return fits && is_true(&b, f) && (involved >> b.node & 1);
}
