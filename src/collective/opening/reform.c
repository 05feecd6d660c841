// Re-forming a group: the program agrees on the next generation and opens it.
#include "collective/agree/agree.h"
#include "collective/opening/opening.h"

#include "base/value.h"

// A loop that re-forms its group in one scope would keep a handle of each generation: the scope gives |g| back. The
// next generation keeps it, so that a later use of it is an error, and only the previous generation is kept.
static void take_place(gw_scope *s, gw_group *g, gw_group *next) {
    gw_group *before = g->before;
    g->before = NULL;
    next->before = handle_retain(g);
    gw_drop(s, g);
    handle_release(before);
}

gw_group *gw_group_reform_with(gw_scope *s, gw_group *g, gw_reform_options options) {
    if (!group_is_given(s, g, "gw_group_reform")) return &group_poison;
    int64_t timeout_ms = options.timeout_ms ? options.timeout_ms : g->timeout_ms;
    if (gw_ok(s) && (options.min < 0 || options.min > LIMIT_WORKERS))
        scope_fail(s, GW_INVALID, "gw_group_reform: .min is %d members, which is out of range",
                   options.min);
    if (gw_ok(s) && timeout_ms < 0)
        scope_fail(s, GW_INVALID,
                   "gw_group_reform: the timeout is %lld ms, but must not be negative",
                   (long long)timeout_ms);
    const proposal own = { .what = AGREE_REFORM,
                           .flags = UINT64_MAX,
                           .min = options.min > 0 ? (uint32_t)options.min : 1,
                           .grow = options.grow };
    decision *d = agree_call(s, g, "gw_group_reform", &own, timeout_ms);
    if (!d) return &group_poison;
    gw_group *next = group_open_next(s, g->agent, d, g->has_name, g->timeout_ms);
    agree_release(g, d);
    if (next != &group_poison) take_place(s, g, next);
    return next;
}
