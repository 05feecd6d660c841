#include "distributed/optim/turns.h"

#include "reference/references.h"
#include "base/mem.h"
#include "agent/bodies/context.h"

static bool add(turns *ts, turn *t) {
    for (int i = 0; i < ts->count; i++)
        if (ts->items[i] == t) return true;
    turn **items = mem_realloc(ts->items, ((size_t)ts->count + 1) * sizeof *items);
    if (!items) return false;
    ts->items = items;
    items[ts->count++] = turn_retain(t);
    return true;
}

bool turns_add(gw_scope *s, turns *ts, gw_rref *r) {
    const agent *a = s->agent;
    env_enter(a->env);
    turn *t = reference_turn_on_loop(r);
    env_leave(a->env);
    if (!add(ts, t)) scope_fail(s, GW_NO_MEMORY, "no memory for a turn");
    return gw_ok(s);
}

static void left(held_turn *h) {
    mem_free(h);
}

bool turns_enter(gw_scope *s, const turns *ts) {
    for (int i = 0; i < ts->count && gw_ok(s); i++) {
        if (context_has_turn(s, ts->items[i])) continue;
        held_turn *h = mem_calloc(sizeof *h);
        gw_error error;
        if (!h) {
            scope_fail(s, GW_NO_MEMORY, "no memory for a turn");
            break;
        }
        h->left = left;
        gw_status status;
        do status = context_enter(s->agent, s, ts->items[i], h, &error);
        while (status == GW_TIMEOUT && context_deadline_ns(s) == ENV_NEVER);
        if (!status) continue;
        mem_free(h);
        scope_fail_with(s, &error);
    }
    return gw_ok(s);
}

void turns_fini(turns *ts) {
    for (int i = 0; i < ts->count; i++) turn_release(ts->items[i]);
    mem_free(ts->items);
}
