// What the abort of a collective ends at a member, and what the member answers before. GRP-5, GRP-6.
#include "collective/abort.h"

#include "base/mem.h"
#include "base/mutation.h"
#include "collective/backend_run.h"
#include "collective/backward.h"
#include "collective/doing.h"
#include "collective/history.h"

#include <string.h>

// ---- Verdicts -----------------------------------------------------------------------------------

static void end_runs(list_node *list, sequence *t, const collective_abort *ab, bool *ended,
                     bool *told) {
    for (bool again = true; again;) {  // what ends may call others
        again = false;
        list_each(l, list) {
            run *r = list_entry(l, run, link);
            if (r->sequence != t || r->behind) continue;
            bool is_between = r->number >= ab->number && r->number < ab->next;
            bool goes_on = ab->ends_few && t->failed_scope && r->called_in != t->failed_scope;
            if (r->state == RUN_WAITING ? goes_on : !is_between) continue;
            run_end_by_verdict_on_loop(r, ab->all, &ab->error, ended, told);
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
static uint64_t next_backward(const gw_group *g, const collective_abort *ab, uint64_t *n) {
    if (*n > ab->number && *n < ab->all) *n = ab->all;
    bool is_far = *n > ab->number && *n - ab->all >= LIMIT_FINAL_VERDICTS;
    if (g->backend != &backend_session || *n >= ab->next || is_far) return 0;
    return backward_key((run_place){ ab->key, (*n)++ });
}

static bool is_under_way_backward(gw_group *g, const collective_abort *ab) {
    bool any = false;
    for (uint64_t n = ab->number, key; (key = next_backward(g, ab, &n));)
        any = any || group_find_sequence_on_loop(g, key);
    return any;
}

static void end_backwards(gw_group *g, const collective_abort *ab) {
    for (uint64_t n = ab->number, key; !g->broken.status && (key = next_backward(g, ab, &n));)
        series_apply_verdict_on_loop(g, key, 1, &ab->error);
}

// GRP-6: of what comes behind all that this member has called.
typedef struct later_abort {
    struct later_abort *next;
    collective_abort ab;
} later_abort;

static void drop_first_later(sequence *t) {
    later_abort *x = t->later;
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
    error_set(&none, GW_NO_MEMORY, "%s has no memory for an abort", group_member_name(g, g->self));
    group_break_all_on_loop(g, &none);
}

static void call_what_is_behind(const gw_group *g, const sequence *t) {
    list_each(l, &g->waiting) {
        run *r = list_entry(l, run, link);
        if (r->sequence == t) r->behind = false;
    }
}

// Until then the program goes on, unless another abort, on what it has reported itself, is to come.
static void keep_for_later(gw_group *g, sequence *t, const collective_abort *ab) {
    later_abort *x = mem_alloc(sizeof *x), **last = &t->later;
    if (!x) {
        break_without_memory(g);
        return;
    }
    *x = (later_abort){ .ab = *ab };
    while (*last) last = &(*last)->next;
    *last = x;
    if (t->knows || t->cancelled) return;
    t->frozen = false;
    call_what_is_behind(g, t);
    run_admit_on_loop(g);
}

bool abort_has_ended(const sequence *t, uint64_t number) {
    if (number >= t->ended && number < t->next_then) return true;
    for (const later_abort *x = t->later; x; x = x->next)
        if (number >= x->ab.number && number < x->ab.next) return true;
    return false;
}

static void apply_to(gw_group *g, sequence *t, const collective_abort *ab);

// GRP-6.
void abort_apply_on_loop(gw_group *g, const collective_abort *ab) {
    if (key_is_final(ab->key)) {
        series_apply_verdict_on_loop(g, ab->key, ab->all, &ab->error);
        return;
    }
    sequence *t = group_sequence_on_loop(g, ab->key);
    if (!t && g->sequences.count >= LIMIT_GROUP_KEYS) return;  // nothing of it can be called here
    if (!t)
        break_without_memory(g);
    else if (t->next < ab->number)
        keep_for_later(g, t, ab);
    else
        apply_to(g, t, ab);
}

bool abort_is_due_on_loop(const sequence *t) {
    return t->later && t->next >= t->later->ab.number;
}

void abort_apply_due_on_loop(gw_group *g, sequence *t) {
    while (!t->frozen && abort_is_due_on_loop(t)) {
        collective_abort ab = t->later->ab;
        drop_first_later(t);
        apply_to(g, t, &ab);
    }
}

// Of a key that is not final: a report of |number| is answered by an abort of its own.
bool abort_leaves(const collective_abort *ab, uint64_t number) {
    return number < ab->number || (ab->ends_few && number >= ab->next);
}

// The others' scopes have failed by what has succeeded here: they call nothing more in these.
static void fail_scope_of(gw_group *g, sequence *t, const collective_abort *ab) {
    const history_record *x = history_find_on_loop(g, ab->key, ab->number);
    if (!ab->ends_few || !x || !x->ended_ns || x->status) return;
    t->failed_scope = x->scope;
    error_forget(&t->failed_why);
    error_keep(&t->failed_why, &ab->error);
}

static void apply_to(gw_group *g, sequence *t, const collective_abort *ab) {
    uint64_t next = ab->next, before = t->next;
    while (t->later && t->later->ab.number < next) drop_first_later(t);
    early_drop_below_on_loop(g, ab->key, next);
    // What this member has reported itself may be left for another abort: it still waits for that.
    bool waits = (t->reported && abort_leaves(ab, t->reported)) ||
                 (t->cancelled && ab->ends_few && abort_leaves(ab, t->cancelled));
    bool ended = false, told = t->knows && !waits;
    t->verdicts++;
    t->untold = 0;
    t->ended = ab->number;
    t->next_then = next;
    t->past = t->past_from = ab->ahead;
    t->in_doubt = false;
    if (t->next < next && !has_mutation(MUTATION_NUMBER_NOT_ADVANCED)) t->next = next;
    end_runs(&g->runs, t, ab, &ended, &told);
    // What waits at one that has done all that lies before comes after the abort. GRP-22: so does that of one that
    // has not meant to come.
    bool awaits_next = ab->key == GROUP_KEY_OPENING && ab->error.status == GW_TIMEOUT;
    bool misses = before < next && !awaits_next;
    fail_scope_of(g, t, ab);
    if (ended || misses || t->failed_scope) end_runs(&g->waiting, t, ab, &ended, &told);
    t->missed = t->has_dropped = false;
    if (!waits) {
        t->frozen = t->knows = false;
        t->cancelled = t->reported = 0;
    }
    told = told || is_under_way_backward(g, ab);  // a pass of the program hears it
    t->is_of_own = before > ab->number;
    if (!told && (ended || misses)) miss(t, &ab->error);
    if (!waits) call_what_is_behind(g, t);
    end_backwards(g, ab);
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

void abort_testify_on_loop(gw_group *g, uint64_t key, uint64_t number, testimony *out) {
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

void abort_send_answer_on_loop(gw_group *g, uint64_t key, uint64_t number) {
    testimony own;
    abort_testify_on_loop(g, key, number, &own);
    message *m = abort_open_message(g, KIND_ANSWER, key, number);
    if (m) {
        bytes_put_u64(&m->head, own.next);
        bytes_put_u64(&m->head, own.last);
        bytes_put_u8(&m->head, own.attendance);
        bytes_put_text(&m->head, own.text);
    }
    abort_send_on_loop(g, g->members[LEADER].rank, m);
}
