// gw_elastic_join: an elastic job whose workers have no replicas. ELAS-17 of docs/protocol/elastic.md.
#include "elastic/elastic.h"

#include "runtime/runtime.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { AGAIN_MS = 100 };

// The name that has the slot's number in place of %d; NULL without a launcher: then the rank is its number.
static const char *name_of(gw_scope *s, const launched *at, const char *pattern) {
    const char *role = getenv("GW_NAME");
    const char *number = pattern ? strstr(pattern, "%d") : NULL;
    if (!pattern && role && *role) return role;
    if (!pattern) return at->slot < 0 ? NULL : gw_format(s, "worker%d", at->slot);
    if (!number || at->slot < 0) return gw_format(s, "%s", pattern);
    return gw_format(s, "%.*s%d%s", (int)(number - pattern), pattern, at->slot, number + 2);
}

static void wait_a_moment(void) {
    const struct timespec moment = { .tv_nsec = AGAIN_MS * 1000000L };
    nanosleep(&moment, NULL);
}

// A successor waits until the others know that the worker of its name is dead.
static void join_launched(gw_scope *root, gw_elastic *j, const launched *at,
                          const gw_elastic_join_options *o) {
    const char *name = name_of(j->own, at, o->name);
    int64_t until_ns = deadline_after_ms(scope_now_ns(root), o->timeout_ms);
    enter_launched(root, at, name, o->timeout_ms);
    while (at->attempt > 0 && scope_error(root)->status == GW_DUPLICATE &&
           scope_now_ns(root) < until_ns) {
        gw_scope_clear(root);
        wait_a_moment();
        enter_launched(root, at, name, o->timeout_ms);
    }
    enter_joined(root, j, "gw_elastic_join", at->creates, name);
}

static void join_job(gw_scope *root, gw_elastic *j, const gw_elastic_join_options *o) {
    launched at;
    if (!launched_read(root, getenv, &at)) return;
    if (!root->agent) {
        j->has_joined = true;
        if (at.is_elastic)
            join_launched(root, j, &at, o);
        else
            gw_rpc_init(root, .name = name_of(j->own, &at, o->name),
                        .join_timeout_ms = o->timeout_ms);
    }
    if (!gw_ok(root) || j->reason != GW_RUNNING) return;
    j->agent = agent_retain(agent_of(root));
    j->has_state = true;
    elastic_report_state(j);
}

static bool check(gw_scope *root, const gw_elastic_join_options *o) {
    if (!gw_ok(root)) return false;
    if (o->timeout_ms < 0)
        return scope_fail(root, GW_INVALID,
                          "gw_elastic_join: .timeout_ms is %" PRId64 ", but must be at least 0",
                          o->timeout_ms);
    if ((unsigned)o->on_term > GW_IGNORE)
        return scope_fail(root, GW_INVALID,
                          "gw_elastic_join: .on_term is %d, which is not a gw_on_term",
                          (int)o->on_term);
    return true;
}

gw_elastic *gw_elastic_join_with(gw_scope *root, gw_elastic_join_options options) {
    gw_elastic *j = check(root, &options) ? elastic_make(root, "gw_elastic_join") : NULL;
    if (!j) return elastic_poisoned();
    j->options.name = "";  // no job of gw_elastic_open has it
    join_job(root, j, &options);
    j->options.on_term = options.on_term;
    if (gw_ok(root) && j->agent && elastic_open_for_requests(root, j, "gw_elastic_join"))
        elastic_take_term(j);
    if (!gw_ok(root)) jobs_remove(j);
    return gw_ok(root) ? j : elastic_poisoned();
}
