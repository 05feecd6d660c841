// Reference reports: for programs (gw_references), and for the log when a worker leaves.
#include "reference/references.h"

#include "base/log.h"

// ---- All references -----------------------------------------------------------------------------

typedef struct report {
    agent *agent;
    int64_t now_ns;
    void (*add)(struct report *l, const gw_reference_info *info);
    gw_reference_info *out;
    int max, count;
} report;

static const char *kind_of(const entry *e) {
    if (!e->made) return "being made";
    if (e->object) return e->object->class->name;
    if (result_error(e->result)) return "error";
    return e->result->incoming ? "value" : gw_kind_name(e->result->value.kind);
}

static int64_t age_ms(const report *l, int64_t since_ns) {
    return (l->now_ns - since_ns) / 1000000;
}

static void list_entry_of(report *l, const entry *e) {
    agent *a = l->agent;
    gw_reference_info info = { .id = e->id,
                               .owner = agent_member(a, a->rank)->worker,
                               .what = kind_of(e),
                               .origin = e->origin,
                               .age_ms = age_ms(l, e->since_ns),
                               .is_confirmed = true,
                               .is_mine = true };
    for (map_cursor m = { 0 }; map_next(&e->forks, &m);) {
        info.holder = agent_member(a, (int)(intptr_t)m.value - 1)->worker;
        l->add(l, &info);
    }
    info.holder = info.owner;
    if (e->count) l->add(l, &info);
}

static void list_user(report *l, const gw_rref *r) {
    agent *a = l->agent;
    if (r->dropped || r->failed || r->state == FORK_RELEASED) return;
    gw_reference_info info = { .id = r->id,
                               .owner = agent_member(a, r->owner)->worker,
                               .holder = agent_member(a, a->rank)->worker,
                               .what = "",
                               .origin = r->origin,
                               .age_ms = age_ms(l, r->since_ns),
                               .is_confirmed = r->state == FORK_CONFIRMED };
    l->add(l, &info);
}

static void write_out(report *l, const gw_reference_info *info) {
    if (l->count < l->max) l->out[l->count] = *info;
    l->count++;
}

int gw_references(gw_scope *s, gw_reference_info *out, int max) {
    agent *a = s->error ? NULL : agent_of(s);
    if (!a) return 0;
    report l = { .agent = a, .add = write_out, .out = out, .max = out ? max : 0 };
    env_enter(a->env);
    l.now_ns = env_now_ns(a->env);
    list_each(n, &references_of(a)->entries) list_entry_of(&l, list_entry(n, entry, link));
    list_each(n, &references_of(a)->users) list_user(&l, list_entry(n, gw_rref, link));
    env_leave(a->env);
    return l.count;
}

// ---- The log of a worker that leaves ------------------------------------------------------------

static void log_reference(report *l, const gw_reference_info *info) {
    if (info->holder.rank == info->owner.rank || l->count++ >= l->max) return;
    log_line("%s leaves the job while %s still has a reference to its %s%s%s, made %lld ms ago",
             info->owner.name, info->holder.name, info->what, info->origin[0] ? " of " : "",
             info->origin, (long long)info->age_ms);
}

void references_report_on_loop(agent *a) {
    enum { LINES = 20 };
    if (references_of(a)->is_reported) return;
    references_of(a)->is_reported = true;
    report l = { .agent = a, .now_ns = env_now_ns(a->env), .add = log_reference, .max = LINES };
    list_each(n, &references_of(a)->entries) list_entry_of(&l, list_entry(n, entry, link));
    if (l.count > LINES)
        log_line("%s leaves the job while other workers have %d more references to its values",
                 agent_member(a, a->rank)->name, l.count - LINES);
}
