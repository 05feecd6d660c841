// How a collective that cannot end well ends for all: reports to the leader, its queries, and
// verdicts. GRP-4 to GRP-7.
#include "collective/backend_run.h"

#include "agent/dispatch.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/mutation.h"
#include "collective/backward.h"
#include "collective/doing.h"
#include "collective/history.h"
#include "collective/sentence.h"
#include "wire/codec.h"

#include <stdio.h>
#include <string.h>

enum { LEADER = 0, TOLD_MAX = 4 };

// GRP-6.
typedef struct verdict {
    uint64_t key, number, next;
    uint64_t all;    // all members have entered what is below it
    uint64_t ahead;  // no member has entered this number
    bool ends_few;   // what is from |next| on goes on at members that have entered it
    gw_error error;
} verdict;

void group_blame_on_loop(gw_group *g, int rank, const gw_error *error) {
    dispatch_protocol_error_on_loop(g->agent, rank, error);
}

// GRP-5. The list tells apart groups of one name that this worker has opened one after the other.
static uint64_t group_identity(const gw_group *g) {
    uint64_t both = hash_u64(g->id + g->list);
    return both ? both : 1;
}

// The number of what is about the group as a whole, and names it.
enum { NUMBER_OF_GROUP = 0 };
// The number of what a member has reported, and whose own number it does not know yet.
#define NUMBER_OF_REPORT UINT64_MAX

bool group_has_told(const gw_group *g, const gw_error *error) {
    uint64_t own = group_identity(g);
    int count = error_abort_count(error);
    for (int i = 0; i < count; i++) {
        const gw_abort *x = &error->aborts[i];
        if (x->group == own && x->number != NUMBER_OF_GROUP && x->number != NUMBER_OF_REPORT)
            return true;
    }
    return false;
}

bool sequence_has_told(const gw_group *g, const sequence *t, const gw_error *error) {
    uint64_t own = group_identity(g);
    int count = error_abort_count(error);
    for (int i = 0; i < count; i++) {
        const gw_abort *x = &error->aborts[i];
        if (x->group != own || x->key != t->key || x->number == NUMBER_OF_GROUP) continue;
        if (x->number < t->next_then || x->number == NUMBER_OF_REPORT) return true;
    }
    return false;
}

void sequence_note_report(const gw_group *g, const sequence *t, gw_error *error) {
    error_add_abort(error, (gw_abort){ group_identity(g), t->key, NUMBER_OF_REPORT });
}

// Once: members send each other what has broken the group.
static void name_group(const gw_group *g, gw_error *error) {
    uint64_t own = group_identity(g);
    int count = error_abort_count(error);
    for (int i = 0; i < count; i++)
        if (error->aborts[i].group == own && error->aborts[i].number == NUMBER_OF_GROUP) return;
    char title[LIMIT_NAME_BYTES + 16];
    snprintf(title, sizeof title, "group \"%s\"", g->name);
    error_prefix(error, title);
    error_add_abort(error, (gw_abort){ .group = own, .number = NUMBER_OF_GROUP });
}

// ---- Messages -----------------------------------------------------------------------------------

static message *open_message(gw_group *g, uint8_t kind, uint64_t key, uint64_t number) {
    message *m = agent_message_on_loop(g->agent, kind);
    if (m) group_header_write(&m->head, g, key, number);
    return m;
}

// Without memory for it the others wait until their deadlines.
static void send(gw_group *g, int rank, message *m) {
    if (m && m->head.failed) {
        message_release(m);
        m = NULL;
    }
    if (m)
        agent_send_on_loop(g->agent, rank, m, true, NULL);
    else
        log_error("group \"%s\": no memory to tell %s how a collective has ended", g->name,
                  agent_member(g->agent, rank)->name);
}

// |v|: of a verdict; |error|: of all but a query.
static void send_to_others(gw_group *g, uint8_t kind, run_place about, const verdict *v,
                           const gw_error *error) {
    for (int i = 0; i < g->count; i++) {
        int rank = g->members[i].rank;
        if (i == g->self || agent_member(g->agent, rank)->lost) continue;
        message *m = open_message(g, kind, about.key, about.number);
        if (m && v) bytes_put_u64(&m->head, v->next);
        if (m && v) bytes_put_u64(&m->head, v->all);
        if (m && v) bytes_put_u64(&m->head, v->ahead);
        if (m && v) bytes_put_u8(&m->head, v->ends_few);
        if (m && error) encode_error(&m->head, error);
        send(g, rank, m);
    }
}

static void send_verdict(gw_group *g, const verdict *v) {
    send_to_others(g, KIND_VERDICT, (run_place){ v->key, v->number }, v, &v->error);
}

// ---- Breaking -----------------------------------------------------------------------------------

void group_break_on_loop(gw_group *g, const gw_error *error) {
    if (g->broken.status) return;
    handle_retain(g);
    g->broken = *error;
    name_group(g, &g->broken);
    bool fails = !list_is_empty(&g->runs) || !list_is_empty(&g->waiting);
    if (fails && g->agent->phase != AGENT_LEFT) history_print_on_loop(g, &g->broken);
    while (!list_is_empty(&g->runs))
        run_fail_by_verdict_on_loop(list_entry(g->runs.next, run, link), UINT64_MAX, &g->broken);
    while (!list_is_empty(&g->waiting))
        run_fail_on_loop(list_entry(g->waiting.next, run, link), &g->broken);
    while (!list_is_empty(&g->early))
        early_drop_on_loop(g->agent, list_entry(g->early.next, early_message, link));
    for (list_node *l; (l = list_take(&g->reports));) mem_free(list_entry(l, report, link));
    mem_free(g->testimonies);
    g->testimonies = NULL;
    group_release_on_loop(g);
}

void group_break_all_on_loop(gw_group *g, const gw_error *error) {
    if (g->broken.status) return;
    send_to_others(g, KIND_BREAK, (run_place){ .key = g->backend_is_down }, NULL, error);
    group_break_on_loop(g, error);
}

void verdict_send_break_on_loop(gw_group *g, int rank, const gw_error *error) {
    message *m = open_message(g, KIND_BREAK, g->backend_is_down, 0);
    if (m) encode_error(&m->head, error);
    send(g, rank, m);
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

// ---- Verdicts -----------------------------------------------------------------------------------

static void end_runs(list_node *list, sequence *t, const verdict *v, bool *ended, bool *told) {
    for (bool again = true; again;) {  // what ends may call others
        again = false;
        list_each(l, list) {
            run *r = list_entry(l, run, link);
            if (r->sequence != t || r->behind) continue;
            bool is_between = r->number >= v->number && r->number < v->next;
            bool goes_on = v->ends_few && t->failed_scope && r->called_in != t->failed_scope;
            if (r->state == RUN_WAITING ? goes_on : !is_between) continue;
            run_end_by_verdict_on_loop(r, v->all, &v->error, ended, told);
            again = true;
            break;
        }
    }
}

// The program hears of it by its next call, if it has not heard of it: GRP-6.
static void miss(sequence *t, const gw_error *error) {
    t->missed = true;
    error_forget(&t->why);
    error_keep(&t->why, error);
}

// GRP-6: of what has surely failed on some member, from *|n| on, the key of the first backward; 0: no more, or no more
// that would be remembered. With a backend none has succeeded on another.
static uint64_t next_backward(const gw_group *g, const verdict *v, uint64_t *n) {
    if (*n > v->number && *n < v->all) *n = v->all;
    bool is_far = *n > v->number && *n - v->all >= LIMIT_FINAL_VERDICTS;
    if (g->backend != &backend_session || *n >= v->next || is_far) return 0;
    return backward_key((run_place){ v->key, (*n)++ });
}

static bool is_under_way_backward(gw_group *g, const verdict *v) {
    bool any = false;
    for (uint64_t n = v->number, key; (key = next_backward(g, v, &n));)
        any = any || group_find_sequence_on_loop(g, key);
    return any;
}

static void end_backwards(gw_group *g, const verdict *v) {
    for (uint64_t n = v->number, key; !g->broken.status && (key = next_backward(g, v, &n));)
        series_apply_verdict_on_loop(g, key, 1, &v->error);
}

// GRP-6: of what comes behind all that this member has called.
typedef struct later_verdict {
    struct later_verdict *next;
    verdict v;
} later_verdict;

static void drop_first_later(sequence *t) {
    later_verdict *x = t->later;
    t->later = x->next;
    mem_free(x);
}

void sequence_fini(sequence *t) {
    while (t->later) drop_first_later(t);
    error_forget(&t->why);
    error_forget(&t->failed_why);
}

static void break_without_memory(gw_group *g) {
    gw_error none;
    error_set(&none, GW_NO_MEMORY, "%s has no memory for a verdict", group_member_name(g, g->self));
    group_break_all_on_loop(g, &none);
}

static void call_what_is_behind(const gw_group *g, const sequence *t) {
    list_each(l, &g->waiting) {
        run *r = list_entry(l, run, link);
        if (r->sequence == t) r->behind = false;
    }
}

// Until then the program goes on, unless another verdict, on what it has reported itself, is to come.
static void keep_for_later(gw_group *g, sequence *t, const verdict *v) {
    later_verdict *x = mem_alloc(sizeof *x), **last = &t->later;
    if (!x) {
        break_without_memory(g);
        return;
    }
    *x = (later_verdict){ .v = *v };
    while (*last) last = &(*last)->next;
    *last = x;
    if (t->knows || t->cancelled) return;
    t->frozen = false;
    call_what_is_behind(g, t);
    run_admit_on_loop(g);
}

static bool meets_later(const sequence *t, uint64_t number) {
    for (const later_verdict *x = t->later; x; x = x->next)
        if (number >= x->v.number && number < x->v.next) return true;
    return false;
}

static void apply_to(gw_group *g, sequence *t, const verdict *v);

// GRP-6.
static void apply(gw_group *g, const verdict *v) {
    if (key_is_final(v->key)) {
        series_apply_verdict_on_loop(g, v->key, v->all, &v->error);
        return;
    }
    sequence *t = group_sequence_on_loop(g, v->key);
    if (!t && g->sequences.count >= LIMIT_GROUP_KEYS) return;  // nothing of it can be called here
    if (!t)
        break_without_memory(g);
    else if (t->next < v->number)
        keep_for_later(g, t, v);
    else
        apply_to(g, t, v);
}

bool verdict_is_due_on_loop(const sequence *t) {
    return t->later && t->next >= t->later->v.number;
}

void verdict_apply_due_on_loop(gw_group *g, sequence *t) {
    while (!t->frozen && verdict_is_due_on_loop(t)) {
        verdict v = t->later->v;
        drop_first_later(t);
        apply_to(g, t, &v);
    }
}

// Of a key that is not final: a report of |number| is answered by a verdict of its own.
static bool is_left(const verdict *v, uint64_t number) {
    return number < v->number || (v->ends_few && number >= v->next);
}

// The others' scopes have failed by what has succeeded here: they call nothing more in these.
static void fail_scope_of(gw_group *g, sequence *t, const verdict *v) {
    const history_record *x = history_find_on_loop(g, v->key, v->number);
    if (!v->ends_few || !x || !x->ended_ns || x->status) return;
    t->failed_scope = x->scope;
    error_forget(&t->failed_why);
    error_keep(&t->failed_why, &v->error);
}

static void apply_to(gw_group *g, sequence *t, const verdict *v) {
    uint64_t next = v->next, before = t->next;
    while (t->later && t->later->v.number < next) drop_first_later(t);
    early_drop_below_on_loop(g, v->key, next);
    // What this member has reported itself may be left for another verdict: it still waits for that.
    bool waits = (t->reported && is_left(v, t->reported)) ||
                 (t->cancelled && v->ends_few && is_left(v, t->cancelled));
    bool ended = false, told = t->knows && !waits;
    t->verdicts++;
    t->untold = 0;
    t->ended = v->number;
    t->next_then = next;
    t->past = t->past_from = v->ahead;
    t->in_doubt = false;
    if (t->next < next && !has_mutation(MUTATION_NUMBER_NOT_ADVANCED)) t->next = next;
    end_runs(&g->runs, t, v, &ended, &told);
    // What waits at one that has done all that lies before comes after the verdict. GRP-22: so does that of one that
    // has not meant to come.
    bool awaits_next = v->key == GROUP_KEY_OPENING && v->error.status == GW_TIMEOUT;
    bool misses = before < next && !awaits_next;
    fail_scope_of(g, t, v);
    if (ended || misses || t->failed_scope) end_runs(&g->waiting, t, v, &ended, &told);
    t->missed = t->has_dropped = false;
    if (!waits) {
        t->frozen = t->knows = false;
        t->cancelled = t->reported = 0;
    }
    told = told || is_under_way_backward(g, v);  // a pass of the program hears it
    t->is_of_own = before > v->number;
    if (!told && (ended || misses)) miss(t, &v->error);
    if (!waits) call_what_is_behind(g, t);
    end_backwards(g, v);
    run_admit_on_loop(g);
}

// ---- What members say ---------------------------------------------------------------------------

// Who has left one out is behind for good: so it says how far it is.
static void put_place(const gw_group *g, uint64_t series, sentence *out) {
    if (g->series_begun >= series || g->is_unopened) return;
    sentence_put(out, "is at %s %llu, %llu behind, and ", g->series_name,
                 (unsigned long long)g->series_begun,
                 (unsigned long long)(series - g->series_begun));
}

// A scope that has failed enters what it calls behind that nowhere: so what it has called already ends, too.
static uint64_t last_of_scope(const gw_group *g, uint64_t key, uint64_t number) {
    const history_record *x = history_find_on_loop(g, key, number), *first = x;
    uint64_t last = number;
    while (x && (x = history_find_on_loop(g, key, last + 1)) && x->scope == first->scope) last++;
    return last;
}

static void testify_what(gw_group *g, uint64_t key, uint64_t number, testimony *out);

static void testify(gw_group *g, uint64_t key, uint64_t number, testimony *out) {
    testify_what(g, key, number, out);
    out->last = last_of_scope(g, key, number);
}

static void testify_what(gw_group *g, uint64_t key, uint64_t number, testimony *out) {
    if (series_is_over_on_loop(g, key)) {
        *out = (testimony){ .has_come = true,
                            .next = series_next_on_loop(g, (run_place){ key, number }),
                            .attendance = IS_DONE };
        return;
    }
    sequence *t = group_sequence_on_loop(g, key);
    const run *r = group_find_run_on_loop(g, key, number);
    *out = (testimony){ .has_come = true, .next = t ? t->next : 1 };
    if (t) t->frozen = true;
    if (r) {
        out->attendance = r->state == RUN_DONE ? IS_DONE : HAS_ENTERED;
        signature_text(&r->signature, r->detail, r->origin, out->text);
        sentence says = { out->text, strlen(out->text), sizeof out->text };
        series_put_note(g, key, &says);
    } else if (number < out->next) {
        out->attendance = IS_DONE;
    } else {
        doing own;
        doing_look_on_loop(g->agent, &(collective_id){ g->id, key, number }, &own);
        sentence says = { out->text, 0, sizeof out->text };
        if (key_is_series(key)) put_place(g, key - GROUP_KEY_SERIES, &says);
        sentence_put(&says, "%s", own.text);
    }
}

static void send_answer(gw_group *g, uint64_t key, uint64_t number) {
    testimony own;
    testify(g, key, number, &own);
    message *m = open_message(g, KIND_ANSWER, key, number);
    if (m) {
        bytes_put_u64(&m->head, own.next);
        bytes_put_u64(&m->head, own.last);
        bytes_put_u8(&m->head, own.attendance);
        bytes_put_text(&m->head, own.text);
    }
    send(g, g->members[LEADER].rank, m);
}

// ---- The leader ---------------------------------------------------------------------------------

// "w0, w2 do all_reduce sum f32 10 (train.c:40); w1 does broadcast f32 10 from 0 (train.c:52)". What is cut short may
// be the same: then it is said what is not.
static void put_doings(const gw_group *g, uint64_t key, sentence *out) {
    const testimony *all = g->testimonies;
    int said = 0;
    for (int i = 0; i < g->count; i++) {
        bool seen = all[i].attendance == NOT_COME || !all[i].text[0];
        for (int j = 0; j < i && !seen; j++) seen = strcmp(all[j].text, all[i].text) == 0;
        if (seen) continue;
        int count = 0;
        for (int j = i; j < g->count; j++) {
            if (all[j].attendance == NOT_COME || strcmp(all[j].text, all[i].text) != 0) continue;
            sentence_put(out, "%s%s", count ? ", " : said ? "; " : "", group_member_name(g, j));
            count++;
        }
        sentence_put(out, count > 1 ? " do %s" : " does %s", all[i].text);
        said++;
    }
    if (said == 1)
        sentence_put(out, key_is_series(key) ? ", with gradients laid out differently"
                                             : ", of different sizes");
}

// "; w3 has not come: w3 computes (its collective 40 ended 61 s ago)".
static void put_missing(const gw_group *g, sentence *out) {
    int missing = 0;
    for (int i = 0; i < g->count; i++) {
        if (g->testimonies[i].attendance != NOT_COME) continue;
        sentence_put(out, "%s%s", missing++ ? ", " : "; ", group_member_name(g, i));
    }
    if (missing) sentence_put(out, missing > 1 ? " have not come" : " has not come");
    int told = 0;
    for (int i = 0; i < g->count && told < TOLD_MAX; i++) {
        const testimony *x = &g->testimonies[i];
        if (x->attendance != NOT_COME || !x->text[0]) continue;
        sentence_put(out, "%s%s %s", told++ ? "; " : ": ", group_member_name(g, i), x->text);
    }
}

// Members do not do the same there.
static bool is_difference(const report *x) {
    return x->error.status == GW_MISMATCH && x->cause == REPORT_COLLECTIVE;
}

static void compose(const gw_group *g, const report *x, gw_error *out) {
    *out = x->error;
    out->outcome = GW_OUTCOME_NONE;
    out->trace = (gw_trace){ 0 };
    sentence t = { out->text, 0, sizeof out->text };
    sentence_put(&t, "%s: ", g->title);
    series_put_collective(g, (run_place){ x->key, x->number }, &t);
    sentence_put(&t, ": ");
    bool differs = is_difference(x);
    bool is_late = x->error.status == GW_TIMEOUT && x->cause != REPORT_BEFORE;
    if (differs)
        put_doings(g, x->key, &t);
    else
        sentence_put(&t, "%s", x->error.text);
    if (differs || is_late) put_missing(g, &t);
    error_add_abort(out, (gw_abort){ group_identity(g), x->key, x->number });
}

static void ask_next(gw_group *g);

// What is about numbers that the verdict ends means nothing any more.
static void drop_reports(gw_group *g, const verdict *v) {
    list_each(l, &g->reports) {
        report *x = list_entry(l, report, link);
        if (x->key != v->key || (is_left(v, x->number) && !key_is_final(v->key))) continue;
        list_remove(l);
        mem_free(x);
    }
}

// Whether what is ended are the reported number and what members have called in one scope with it: a call has failed on a
// member. Those that are behind that one go on to the same call, and what others have called in later scopes goes on.
static bool ends_few(const report *x) {
    return x->cause == REPORT_BEFORE && !key_is_final(x->key) &&
           !has_mutation(MUTATION_FAILURE_ENDS_LOWER);
}

static void conclude(gw_group *g) {
    report *x = list_entry(list_take(&g->reports), report, link);
    uint64_t after = x->number + 1;
    verdict v = { .key = x->key, .number = x->number, .all = UINT64_MAX, .ahead = after };
    for (int i = 0; i < g->count; i++) {
        uint64_t theirs = g->testimonies[i].next;
        if (theirs > v.ahead) v.ahead = theirs;
        if (theirs < v.all) v.all = theirs;
        if (g->testimonies[i].last >= after) after = g->testimonies[i].last + 1;
    }
    // Who only sends may have succeeded in what the others did not do: this is how it misses that.
    if (is_difference(x) || x->cause == REPORT_PAST) v.ahead++;
    v.ends_few = ends_few(x);
    v.next = v.ends_few ? after : v.ahead;
    if (!v.ends_few && v.all < v.number) v.number = v.all;
    compose(g, x, &v.error);
    if (v.error.status != GW_CANCELLED) history_print_on_loop(g, &v.error);
    mem_free(g->testimonies);
    g->testimonies = NULL;
    mem_free(x);
    drop_reports(g, &v);
    if (!has_mutation(MUTATION_VERDICT_NOT_TOLD)) send_verdict(g, &v);
    handle_retain(g);
    apply(g, &v);
    if (!g->broken.status) ask_next(g);
    group_release_on_loop(g);
}

static void ask_next(gw_group *g) {
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
    testify(g, x->key, x->number, &g->testimonies[g->self]);
    g->missing = g->count - 1;
    send_to_others(g, KIND_QUERY, (run_place){ x->key, x->number }, NULL, NULL);
    if (!g->missing) conclude(g);
}

static void take_report(gw_group *g, uint64_t key, uint64_t number, report_cause cause,
                        const gw_error *error) {
    const sequence *t = group_find_sequence_on_loop(g, key);
    if (t && number >= t->ended && number < t->next_then) return;  // it has met the last verdict
    if (t && meets_later(t, number)) return;
    if (series_find_verdict_on_loop(g, key)) return;
    report *x = mem_alloc(sizeof *x);
    if (!x) {
        gw_error none;
        error_set(&none, GW_NO_MEMORY, "no memory for a report");
        group_break_all_on_loop(g, &none);
        return;
    }
    *x = (report){ .key = key, .number = number, .cause = cause, .error = *error };
    list_append(&g->reports, &x->link);
    ask_next(g);
}

static void tell_leader(gw_group *g, uint64_t key, uint64_t number, report_cause cause,
                        const gw_error *error) {
    if (g->broken.status) return;
    if (g->self == LEADER) {
        take_report(g, key, number, cause, error);
        return;
    }
    message *m = open_message(g, KIND_REPORT, key, number);
    if (m) bytes_put_u8(&m->head, (uint8_t)cause);
    if (m) unopened_put_group(&m->head, g);
    if (m) encode_error(&m->head, error);
    send(g, g->members[LEADER].rank, m);
}

void group_report_on_loop(gw_group *g, uint64_t key, uint64_t number, const gw_error *error) {
    tell_leader(g, key, number, REPORT_COLLECTIVE, error);
}

void group_report_failed_on_loop(gw_group *g, uint64_t key, uint64_t number,
                                 const gw_error *error) {
    tell_leader(g, key, number, REPORT_BEFORE, error);
}

void group_report_past_on_loop(gw_group *g, int from, uint64_t key, uint64_t number) {
    gw_error error;
    sentence t = { error.text, 0, sizeof error.text };
    error_set(&error, GW_MISMATCH, "%s", "");
    sentence_put(&t, "%s and %s have not called the same before", group_member_name(g, g->self),
                 group_member_name(g, from));
    history_put_last(g, key, number, &t);
    tell_leader(g, key, number, REPORT_PAST, &error);
}

static bool take_answer(gw_group *g, int from, const group_header *h, reader *in) {
    const report *x = list_is_empty(&g->reports) ? NULL : list_entry(g->reports.next, report, link);
    testimony t = { .has_come = true, .next = reader_u64(in) };
    t.last = reader_u64(in);
    t.attendance = reader_u8(in);
    if (!reader_text(in, t.text, sizeof t.text) || t.attendance > IS_DONE || !t.next) return false;
    if (!g->testimonies || !x || x->key != h->key || x->number != h->number ||
        g->testimonies[from].has_come)
        return false;
    g->testimonies[from] = t;
    if (--g->missing == 0) conclude(g);
    return true;
}

// ---- What comes ---------------------------------------------------------------------------------

// GRP-10: who does not know that the group is broken.
static void answer_for_broken(gw_group *g, int from, uint8_t kind) {
    if (kind == KIND_REPORT || kind == KIND_QUERY)
        verdict_send_break_on_loop(g, g->members[from].rank, &g->broken);
}

static bool read_error(reader *in, gw_error *out) {
    gw_error ignored;
    return !decode_error(in, out, &ignored) && out->status != GW_OK;
}

bool verdict_received_on_loop(gw_group *g, int from, uint8_t kind, const group_header *h,
                              reader *in) {
    gw_error error;
    verdict v;
    uint8_t cause;
    if (kind == KIND_BREAK && h->key) backend_group_down_on_loop(g);
    if (g->broken.status) {
        answer_for_broken(g, from, kind);
        return true;
    }
    switch (kind) {
    case KIND_REPORT:
        cause = reader_u8(in);
        if (g->self != LEADER || cause >= REPORT_CAUSE_COUNT || !unopened_skip_group(in) ||
            !read_error(in, &error))
            return false;
        take_report(g, h->key, h->number, (report_cause)cause, &error);
        return true;
    case KIND_QUERY:
        if (from != LEADER) return false;
        send_answer(g, h->key, h->number);
        return true;
    case KIND_ANSWER: return g->self == LEADER && take_answer(g, from, h, in);
    case KIND_VERDICT:
        v = (verdict){ .key = h->key, .number = h->number, .next = reader_u64(in) };
        v.all = reader_u64(in);
        v.ahead = reader_u64(in);
        v.ends_few = reader_u8(in);
        if (from != LEADER || v.next <= v.number || v.all > v.next || v.ahead < v.next ||
            !read_error(in, &v.error))
            return false;
        handle_retain(g);
        apply(g, &v);
        group_release_on_loop(g);
        return true;
    case KIND_BREAK:
        if (!read_error(in, &error)) return false;
        if (g->testimonies)  // who has answered waits for a verdict
            group_break_all_on_loop(g, &error);
        else
            group_break_on_loop(g, &error);
        return true;
    }
    return false;
}

void verdict_answer_unknown_on_loop(agent *a, int to, const group_header *h) {
    doing own;
    message *m = agent_message_on_loop(a, KIND_ANSWER);
    if (!m) return;
    group_header_put(&m->head, h);
    bytes_put_u64(&m->head, 1);
    bytes_put_u64(&m->head, h->number);
    bytes_put_u8(&m->head, NOT_COME);
    doing_look_on_loop(a, &(collective_id){ h->group, h->key, h->number }, &own);
    bytes_put_text(&m->head, own.text);
    if (m->head.failed)
        message_release(m);
    else
        agent_send_on_loop(a, to, m, true, NULL);
}
