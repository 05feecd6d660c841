// Failures, which the layer of aborts handles (group_faults): GRP-4, GRP-7.
#include "collective/group/group.h"
#include "trace/record.h"

void group_report_about_on_loop(gw_group *g, const report_about *about, const gw_error *error) {
    g->faults->report(g, about, error);
}

void group_report_on_loop(gw_group *g, uint64_t key, uint64_t number, const gw_error *error) {
    report_about about = { key, number, number + 1, REPORT_COLLECTIVE, 0, 0 };
    group_report_about_on_loop(g, &about, error);
}

void group_report_failed_on_loop(gw_group *g, uint64_t key, uint64_t number, uint64_t next,
                                 const gw_error *error) {
    report_about about = { key, number, next, REPORT_BEFORE, 0, 0 };
    group_report_about_on_loop(g, &about, error);
}

void group_break_on_loop(gw_group *g, const gw_error *error) {
    g->faults->break_here(g, error);
}

void group_break_all_on_loop(gw_group *g, const gw_error *error) {
    if (!g->broken.status)
        trace_record_text(TRACE_GROUP_BROKEN, g->agent->observer.row, g->id, error->status,
                          g->name);
    g->faults->break_all(g, error);
}

void group_dropped_on_loop(gw_group *g, uint64_t key, uint64_t number, const gw_error *error) {
    sequence *t = group_sequence_on_loop(g, key);
    if (!t) {
        group_break_all_on_loop(g, error);
        return;
    }
    t->has_dropped = true;
    group_report_on_loop(g, key, number, error);
}
