// A member's reports to the leader, kept until an abort has ended what they are about. GRP-4, GRP-7.
#include "collective/abort/abort.h"
#include "collective/group/roster.h"

#include "base/mem.h"

// ---- Kept reports -------------------------------------------------------------------------------

// NULL if an abort has ended what |about| names, or if allocation failed and the group has broken.
report *abort_keep_report_on_loop(gw_group *g, const report_about *about, const gw_error *error) {
    const sequence *t = group_find_sequence_on_loop(g, about->key);
    if (t && about->cause != REPORT_LEFT && sequence_has_ended(t, about->number)) return NULL;
    if (final_find_abort_on_loop(g, about->key)) return NULL;
    report *x = mem_alloc(sizeof *x);
    if (!x) {
        gw_error none;
        error_set(&none, GW_NO_MEMORY, "no memory for a report");
        group_break_all_on_loop(g, &none);
        return NULL;
    }
    *x = (report){ .about = *about, .error = *error };
    list_append(&g->reports, &x->link);
    return x;
}

// Whether the abort ends what the report is about.
static bool is_reported(const report_about *x, const collective_abort *ab) {
    if (x->key != ab->key) return false;
    if (key_is_final(ab->key)) return true;
    if (x->cause != REPORT_LEFT) return x->number >= ab->number && x->number < ab->next;
    return ab->failed && x->failed == ab->failed && x->level >= ab->level;
}

void abort_drop_reports_on_loop(gw_group *g, const collective_abort *ab) {
    list_each(l, &g->reports) {
        report *x = list_entry(l, report, link);
        if (!is_reported(&x->about, ab)) continue;
        list_remove(l);
        mem_free(x);
    }
}

// ---- To the leader ------------------------------------------------------------------------------

void abort_send_report_on_loop(gw_group *g, const report *x) {
    message *m = group_message_on_loop(g, KIND_REPORT, x->about.key, x->about.number);
    if (m) abort_put_about(&m->head, &x->about);
    if (m) roster_put(&m->head, g);
    if (m) encode_error(&m->head, &x->error);
    abort_send_on_loop(g, g->members[group_leader_on_loop(g)].rank, m);
}
