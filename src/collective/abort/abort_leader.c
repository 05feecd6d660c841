// The leader's side of aborts: reports, queries to all members, and the decision. GRP-4, GRP-6.
#include "collective/abort/abort.h"

#include "base/mem.h"
#include "base/mutation.h"
#include "collective/group/groups_state.h"
#include "collective/run/history.h"
#include "collective/run/run.h"

#include <stdio.h>
#include <string.h>

enum { NAMED_MAX = 4 };

// ---- The leader ---------------------------------------------------------------------------------

// "w0, w2 do all_reduce sum f32 10 (train.c:40); w1 does broadcast f32 10 from 0 (train.c:52)". If the texts are
// equal though the signatures differ, it states what they do not show.
static void put_activities(const gw_group *g, uint64_t key, text_builder *out) {
    const testimony *all = g->testimonies;
    int listed = 0;
    for (int i = 0; i < g->count; i++) {
        bool seen = all[i].attendance == NOT_CALLED || !all[i].text[0];
        for (int j = 0; j < i && !seen; j++) seen = strcmp(all[j].text, all[i].text) == 0;
        if (seen) continue;
        int count = 0;
        for (int j = i; j < g->count; j++) {
            if (all[j].attendance == NOT_CALLED || strcmp(all[j].text, all[i].text) != 0) continue;
            text_put(out, "%s%s", count ? ", " : listed ? "; " : "", group_member_name(g, j));
            count++;
        }
        text_put(out, count > 1 ? " do %s" : " does %s", all[i].text);
        listed++;
    }
    if (listed == 1)
        text_put(out, key_is_final_sequence(key) ? ", with gradients laid out differently"
                                                 : ", of different sizes");
}

// "; w3 has not entered: w3 computes (its collective 40 ended 61 s ago)".
static void put_missing(const gw_group *g, text_builder *out) {
    int missing = 0;
    for (int i = 0; i < g->count; i++) {
        if (g->testimonies[i].attendance != NOT_CALLED) continue;
        text_put(out, "%s%s", missing++ ? ", " : "; ", group_member_name(g, i));
    }
    if (missing) text_put(out, missing > 1 ? " have not entered" : " has not entered");
    int listed = 0;
    for (int i = 0; i < g->count && listed < NAMED_MAX; i++) {
        const testimony *x = &g->testimonies[i];
        if (x->attendance != NOT_CALLED || !x->text[0]) continue;
        text_put(out, "%s%s %s", listed++ ? "; " : ": ", group_member_name(g, i), x->text);
    }
}

// Whether members call different collectives there. A member that waits for one of them may have reported something else.
static bool is_difference(const gw_group *g, const report *x) {
    gw_status status = x->error.status;
    uint64_t first = 0;
    if (x->about.cause == REPORT_COLLECTIVE && status == GW_MISMATCH) return true;
    if (x->about.cause != REPORT_COLLECTIVE && x->about.cause != REPORT_BEFORE) return false;
    for (int i = 0; i < g->count && (status == GW_TIMEOUT || status == GW_DISCONNECTED); i++) {
        uint64_t call = g->testimonies[i].call;
        if (!first) first = call;
        if (call && call != first) return true;
    }
    return false;
}

static void compose(const gw_group *g, const report *x, gw_error *out) {
    *out = x->error;
    out->outcome = GW_OUTCOME_NONE;
    out->trace = (gw_trace){ 0 };
    text_builder t = { out->text, 0, sizeof out->text };
    text_put(&t, "%s: ", g->title);
    final_put_collective(g, (run_place){ x->about.key, x->about.number }, &t);
    text_put(&t, ": ");
    bool differs = is_difference(g, x);
    bool is_late = x->error.status == GW_TIMEOUT && x->about.cause == REPORT_COLLECTIVE;
    if (differs) {
        out->status = GW_MISMATCH;
        out->lost = (gw_lost_worker){ 0 };
        put_activities(g, x->about.key, &t);
    } else {
        text_put(&t, "%s", x->error.text);
    }
    if (differs || is_late) put_missing(g, &t);
    error_add_abort(out, abort_identity(g, x->about.key, x->about.number));
}

static collective_abort decide(const gw_group *g, const report *x) {
    const report_about *about = &x->about;
    collective_abort ab = { .key = about->key,
                            .number = about->number,
                            .next = about->next,
                            .all = UINT64_MAX,
                            .level = about->level };
    if (about->cause == REPORT_LEFT) {
        ab.failed = about->failed;
        ab.next = ab.number;
    }
    bool differs = is_difference(g, x);
    for (int i = 0; i < g->count; i++) {
        const testimony *y = &g->testimonies[i];
        if (y->next > ab.ahead) ab.ahead = y->next;
        if (y->next < ab.all) ab.all = y->next;
        if (y->last >= ab.next) ab.next = y->last + 1;
        // It has succeeded there: the next call of that member, which it has entered, fails in its place.
        bool is_next = differs && y->attendance == IS_DONE && y->next > ab.number + 1;
        if (is_next && ab.next < ab.number + 2) ab.next = ab.number + 2;
    }
    // The calls before it differ: the abort also ends those of them that are not over.
    if (about->cause == REPORT_PAST && ab.all < ab.number) ab.number = ab.all;
    if (ab.ahead < ab.next) ab.ahead = ab.next;
    if (ab.all > ab.next) ab.all = ab.next;
    compose(g, x, &ab.error);
    return ab;
}

static void conclude(gw_group *g) {
    report *x = list_entry(list_take(&g->reports), report, link);
    collective_abort ab = decide(g, x);
    bool is_shown = ab.error.status != GW_CANCELLED && ab.next > ab.number;
    if (is_shown) history_print_on_loop(g, &ab.error);
    mem_free(g->testimonies);
    g->testimonies = NULL;
    mem_free(x);
    if (!has_mutation(MUTATION_ABORT_NOT_REPORTED))
        abort_send_to_others_on_loop(g, KIND_ABORT, (run_place){ ab.key, ab.number }, &ab,
                                     &ab.error);
    handle_retain(g);
    abort_apply_on_loop(g, &ab);
    if (!g->broken.status) abort_query_next_on_loop(g);
    leaving_check_on_loop(g->agent);
    group_release_on_loop(g);
}

static void send_queries(gw_group *g, const report_about *about) {
    for (int i = 0; i < g->count; i++) {
        int rank = g->members[i].rank;
        if (i == g->self || agent_member(g->agent, rank)->lost) continue;
        message *m = group_message_on_loop(g, KIND_QUERY, about->key, about->number);
        if (m) abort_put_about(&m->head, about);
        abort_send_on_loop(g, rank, m);
    }
}

// GRP-7.
static void testify_for_left(gw_group *g, int i, const report_about *about) {
    testimony *t = &g->testimonies[i];
    *t = (testimony){ .has_answered = true, .next = about->number, .attendance = NOT_CALLED };
    snprintf(t->text, sizeof t->text, "has left");
    g->missing--;
}

void abort_query_next_on_loop(gw_group *g) {
    if (!group_leads_on_loop(g) || groups_of(g->agent)->departs) return;
    if (g->testimonies || list_is_empty(&g->reports)) return;
    report *x = list_entry(g->reports.next, report, link);
    g->testimonies = mem_calloc((size_t)g->count * sizeof *g->testimonies);
    if (!g->testimonies) {
        gw_error error;
        error_set(&error, GW_NO_MEMORY, "%s has no memory to end a collective",
                  group_member_name(g, g->self));
        group_break_all_on_loop(g, &error);
        return;
    }
    abort_testify_on_loop(g, &x->about, &g->testimonies[g->self]);
    g->missing = g->count - 1;
    for (int i = 0; i < g->count; i++)
        if (agent_member(g->agent, g->members[i].rank)->lost) testify_for_left(g, i, &x->about);
    send_queries(g, &x->about);
    if (!g->missing) conclude(g);
}

void abort_take_report_on_loop(gw_group *g, const report_about *about, const gw_error *error) {
    if (abort_keep_report_on_loop(g, about, error)) abort_query_next_on_loop(g);
}

// GRP-4, GRP-7.
static void replace(gw_group *g, int index) {
    if (g->testimonies) {
        if (g->testimonies[index].has_answered) return;
        testify_for_left(g, index, &list_entry(g->reports.next, report, link)->about);
        if (!g->missing) conclude(g);
    } else if (group_leads_on_loop(g)) {
        abort_query_next_on_loop(g);
    } else if (index < group_leader_on_loop(g)) {
        list_each(l, &g->reports) abort_send_report_on_loop(g, list_entry(l, report, link));
    }
}

static run *find_in_need(const gw_group *g) {
    list_each(l, &g->runs) {
        run *r = list_entry(l, run, link);
        if (run_needs_left_on_loop(r)) return r;
    }
    return NULL;
}

void group_member_left_on_loop(gw_group *g, int rank) {
    g->left_count++;
    handle_retain(g);
    replace(g, group_index_of(g, rank));
    for (run *r; !g->broken.status && (r = find_in_need(g));) run_report_left_on_loop(r);
    group_release_on_loop(g);
}

bool abort_take_answer_on_loop(gw_group *g, int from, const group_header *h, reader *in) {
    const report *x = list_is_empty(&g->reports) ? NULL : list_entry(g->reports.next, report, link);
    testimony t = { .has_answered = true, .next = reader_u64(in) };
    t.last = reader_u64(in);
    t.call = reader_u64(in);
    t.attendance = reader_u8(in);
    if (!reader_text(in, t.text, sizeof t.text) || t.attendance > IS_DONE || !t.next) return false;
    if (!g->testimonies || !x || x->about.key != h->key || x->about.number != h->number ||
        g->testimonies[from].has_answered)
        return false;
    g->testimonies[from] = t;
    if (--g->missing == 0) conclude(g);
    return true;
}
