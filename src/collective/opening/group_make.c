// Making groups, and what a group ends when its last count is given back.
#include "base/check.h"
#include "base/mem.h"
#include "collective/abort/abort.h"
#include "collective/agree/agree.h"
#include "collective/run/backend_run.h"
#include "collective/api/backward.h"
#include "collective/group/groups_state.h"
#include "collective/opening/opening.h"
#include "collective/run/history.h"

#include <stdio.h>
#include <string.h>

static void free_group(gw_group *g) {
    for (map_cursor e = { 0 }; map_next(&g->sequences, &e);) {
        sequence_fini(e.value);
        mem_free(e.value);
    }
    map_fini(&g->sequences);
    backward_forget_unvisited(g);
    sequence_fini(&g->main);
    mem_free(g->final_note);
    for (list_node *l; (l = list_take(&g->reports));) mem_free(list_entry(l, report, link));
    mem_free(g->testimonies);
    group_free_records(g);
    agree_free(g);
    backend_group_close(g);
    handle_release(g->before);
    agent_release(g->agent);
    if (check_enabled)
        check_lay_aside(g, mem_free);
    else
        mem_free(g);
}

// A run under way holds a count, so there is none.
static void destroy_group(gw_handle *h) {
    gw_group *g = (gw_group *)h;
    if (!agent_is_closed(g->agent)) {
        env_enter(g->agent->env);
        agree_leaving_on_loop(g);
        if (g->agreements) env_set_timer(g->agent->env, &g->agreements->poll, ENV_NEVER);
        groups_remove_on_loop(g, agree_released(g));
        for (list_node *l; (l = list_take(&g->unexpected));) {
            unexpected_message *x = list_entry(l, unexpected_message, link);
            if (x->kind == KIND_ENTER && g->agent->phase != AGENT_LEFT)
                group_refuse_closed_on_loop(g->agent, x->from,
                                            g->members[group_leader_on_loop(g)].rank, &x->header);
            unexpected_drop_on_loop(g->agent, x);
        }
        env_leave(g->agent->env);
    }
    free_group(g);
}

static void held_by_scope(gw_handle *h, int by) {
    gw_group *g = (gw_group *)h;
    atomic_fetch_add_explicit(&g->owners, by, memory_order_acq_rel);
}

static const handle_class group_class = { .name = "group",
                                          .destroy = destroy_group,
                                          .held_by_scope = held_by_scope };

// "w0, w1 and 2 more".
static void name_after_members(gw_group *g) {
    size_t at = 0;
    for (int i = 0; i < g->count; i++) {
        const char *name = group_member_name(g, i);
        if (at + strlen(name) + 24 > sizeof g->name) {
            snprintf(g->name + at, sizeof g->name - at, " and %d more", g->count - i);
            return;
        }
        at += (size_t)snprintf(g->name + at, sizeof g->name - at, "%s%s", i ? ", " : "", name);
    }
}

gw_group *group_make(agent *a, const gw_worker *workers, int count, gw_group_open_options o,
                     const char *title) {
    gw_group *g = mem_calloc(sizeof *g + (size_t)count * sizeof g->members[0]);
    if (!g) return NULL;
    handle_init(&g->handle, &group_class);
    atomic_init(&g->owners, 1);  // the call that opens it
    g->agent = agent_retain(a);
    g->count = count;
    g->timeout_ms = o.timeout_ms;
    for (int i = 0; i < count; i++) {
        g->members[i] = (group_peer){ workers[i].rank, workers[i].incarnation };
        if (workers[i].rank == a->rank) g->self = i;
    }
    g->has_name = o.name != NULL;
    if (o.name || title)
        snprintf(g->name, sizeof g->name, "%s", o.name ? o.name : title);
    else
        name_after_members(g);
    g->list = group_list_of(g->members, count);
    list_init(&g->unvisited_nodes);
    g->main.next = 1;
    g->final_name = "sequence";
    list_init(&g->runs);
    list_init(&g->detached);
    g->faults = &abort_faults;
    g->backend = &backend_session;
    g->any_order = o.any_order;
    g->wanted_backend = o.backend;
    list_init(&g->waiting);
    list_init(&g->unexpected);
    list_init(&g->reports);
    g->history = history_open();
    return g;
}

// Its name is the quoted part of the title.
gw_group *group_make_pending(agent *a, const gw_worker *workers, int count, uint64_t id,
                             const char *title) {
    gw_group *g =
        group_make(a, workers, count, GW_OPTIONS(gw_group_open_options, .name = title), NULL);
    if (!g) return NULL;
    g->id = id;
    g->is_pending = true;
    snprintf(g->title, sizeof g->title, "%s", title);
    const char *from = strchr(title, '"'), *to = strrchr(title, '"');
    size_t size = from && to > from ? (size_t)(to - from - 1) : 0;
    snprintf(g->name, sizeof g->name, "%.*s", (int)size, size ? from + 1 : "");
    return g;
}
