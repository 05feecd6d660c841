// A member's reports to the leader, kept until an abort has ended what they are about. GRP-4, GRP-7.
#include "collective/abort.h"

#include "base/mem.h"
#include "collective/history.h"

#include <stdio.h>

// ---- Kept reports -------------------------------------------------------------------------------

// NULL if an abort has ended what |about| names, or if allocation failed and the group has broken.
report *abort_keep_report_on_loop(gw_group *g, const report_about *about, const gw_error *error) {
    const sequence *t = group_find_sequence_on_loop(g, about->key);
    if (t && about->cause != REPORT_LEFT && abort_has_ended(t, about->number)) return NULL;
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
    message *m = abort_open_message(g, KIND_REPORT, x->about.key, x->about.number);
    if (m) abort_put_about(&m->head, &x->about);
    if (m) pending_group_put(&m->head, g);
    if (m) encode_error(&m->head, &x->error);
    abort_send_on_loop(g, g->members[group_leader_on_loop(g)].rank, m);
}

static void notify_leader(gw_group *g, const report_about *about, const gw_error *error) {
    const report *x = g->broken.status ? NULL : abort_keep_report_on_loop(g, about, error);
    if (!x) return;
    if (group_leads_on_loop(g))
        abort_query_next_on_loop(g);
    else
        abort_send_report_on_loop(g, x);
}

void group_report_on_loop(gw_group *g, uint64_t key, uint64_t number, const gw_error *error) {
    report_about about = { key, number, number + 1, REPORT_COLLECTIVE, 0, 0 };
    notify_leader(g, &about, error);
}

void group_report_failed_on_loop(gw_group *g, uint64_t key, uint64_t number, uint64_t next,
                                 const gw_error *error) {
    report_about about = { key, number, next, REPORT_BEFORE, 0, 0 };
    notify_leader(g, &about, error);
}

void abort_report_left_on_loop(gw_group *g, const sequence *t, int level) {
    gw_error error = *error_kept(t->failed_why);
    char reporter[LIMIT_NAME_BYTES + 64];
    snprintf(reporter, sizeof reporter, "%s has continued without it",
             group_member_name(g, g->self));
    error_prefix(&error, reporter);
    notify_leader(
        g, &(report_about){ t->key, t->next, t->next, REPORT_LEFT, t->leaving, (uint8_t)level },
        &error);
}

void group_report_past_on_loop(gw_group *g, int from, uint64_t key, uint64_t number) {
    gw_error error;
    text_builder t = { error.text, 0, sizeof error.text };
    error_set(&error, GW_MISMATCH, "%s", "");
    text_put(&t, "%s and %s have called different collectives before",
             group_member_name(g, g->self), group_member_name(g, from));
    history_put_last(g, key, number, &t);
    report_about about = { key, number, number + 1, REPORT_PAST, 0, 0 };
    notify_leader(g, &about, &error);
}
