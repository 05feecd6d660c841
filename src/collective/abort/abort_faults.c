// What a failure in a group causes: a report to the leader, or that the group breaks. GRP-4, GRP-7.
#include "collective/abort/abort.h"

#include "base/mem.h"
#include "collective/run/history.h"
#include "collective/run/run.h"

// ---- Reports ------------------------------------------------------------------------------------

static void report_on_loop(gw_group *g, const report_about *about, const gw_error *error) {
    const report *x = g->broken.status ? NULL : abort_keep_report_on_loop(g, about, error);
    if (!x) return;
    if (group_leads_on_loop(g))
        abort_query_next_on_loop(g);
    else
        abort_send_report_on_loop(g, x);
}

// ---- Breaking -----------------------------------------------------------------------------------

static void break_here(gw_group *g, const gw_error *error) {
    if (g->broken.status) return;
    handle_retain(g);
    g->broken = *error;
    group_name_error(g, &g->broken);
    bool fails = !list_is_empty(&g->runs) || !list_is_empty(&g->waiting);
    g->break_is_known = fails;
    if (fails && g->agent->phase != AGENT_LEFT) history_print_on_loop(g, &g->broken);
    while (!list_is_empty(&g->runs))
        run_fail_by_abort_on_loop(list_entry(g->runs.next, run, link), UINT64_MAX, &g->broken);
    while (!list_is_empty(&g->waiting))
        run_fail_on_loop(list_entry(g->waiting.next, run, link), &g->broken);
    while (!list_is_empty(&g->unexpected))
        unexpected_drop_on_loop(g->agent, list_entry(g->unexpected.next, unexpected_message, link));
    for (list_node *l; (l = list_take(&g->reports));) mem_free(list_entry(l, report, link));
    mem_free(g->testimonies);
    g->testimonies = NULL;
    group_release_on_loop(g);
}

static void break_all(gw_group *g, const gw_error *error) {
    if (g->broken.status) return;
    abort_send_to_others_on_loop(g, KIND_BREAK, (run_place){ .key = g->backend_is_down }, NULL,
                                 error);
    break_here(g, error);
}

const group_faults abort_faults = { .report = report_on_loop,
                                    .break_here = break_here,
                                    .break_all = break_all };
