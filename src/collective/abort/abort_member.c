// What an abort ends on a member, and how the member answers the query before it. GRP-5, GRP-6.
#include "collective/abort/abort.h"

#include "base/mem.h"
#include "base/mutation.h"
#include "collective/backend/backend.h"
#include "collective/run/run.h"
#include "collective/run/activity.h"
#include "collective/run/history.h"
#include "collective/run/stall_report.h"

#include <string.h>

// ---- What it ends -------------------------------------------------------------------------------

static void end_runs(gw_group *g, const sequence *t, const collective_abort *ab, bool *ended,
                     bool *reported) {
    for (bool again = true; again;) {  // the end of one run may start others
        again = false;
        list_each(l, &g->runs) {
            run *r = list_entry(l, run, link);
            if (r->sequence != t || r->number < ab->number || r->number >= ab->next) continue;
            run_end_by_abort_on_loop(r, ab->all, &ab->error, ended, reported);
            again = true;
            break;
        }
    }
}

// The program has not read the error.
static void miss(sequence *t, const gw_error *error) {
    t->missed = true;
    error_forget(&t->why);
    error_keep(&t->why, error);
}

// GRP-6: the key of the first backward of the first number from *|n| on that has surely failed on some member; 0: no
// such number, or none that this member would remember. With a backend no member has succeeded.
static uint64_t next_backward(const gw_group *g, const collective_abort *ab, uint64_t *n) {
    if (*n > ab->number && *n < ab->all) *n = ab->all;
    bool is_far = *n > ab->number && *n - ab->all >= LIMIT_FINAL_ABORTS;
    if (g->backend != &backend_session || *n >= ab->next || is_far) return 0;
    return backward_key((run_place){ ab->key, (*n)++ }, 0);
}

static bool is_under_way_backward(gw_group *g, const collective_abort *ab) {
    bool any = false;
    for (uint64_t n = ab->number, key; (key = next_backward(g, ab, &n));)
        any = any || group_find_sequence_on_loop(g, key);
    return any;
}

static void break_without_memory(gw_group *g) {
    gw_error none;
    error_set(&none, GW_NO_MEMORY, "%s has no memory to end a collective on all members",
              group_member_name(g, g->self));
    group_break_all_on_loop(g, &none);
}

static run *find_of_key(list_node *list, uint64_t key) {
    list_each(l, list) {
        run *r = list_entry(l, run, link);
        if (r->sequence->key == key) return r;
    }
    return NULL;
}

// GRP-21. All members have entered the numbers below |all|. Runs that it ends may start others.
static void apply_to_final(gw_group *g, uint64_t key, uint64_t all, const gw_error *error) {
    unexpected_drop_between_on_loop(g, key, 0, UINT64_MAX);
    if (!final_keep_abort_on_loop(g, key, error)) {
        break_without_memory(g);
        return;
    }
    sequence *t = group_find_sequence_on_loop(g, key);
    if (t) t->frozen = true;  // stays until all its runs are over
    for (run *r; (r = find_of_key(&g->runs, key));) run_fail_by_abort_on_loop(r, all, error);
    for (run *r; (r = find_of_key(&g->waiting, key));) run_fail_on_loop(r, error);
    if (t) {
        t->frozen = false;
        final_forget_if_unused_on_loop(g, t);
    }
    run_admit_on_loop(g);
}

static void end_backwards(gw_group *g, const collective_abort *ab) {
    for (uint64_t n = ab->number, key; !g->broken.status && (key = next_backward(g, ab, &n));)
        apply_to_final(g, key, 1, &ab->error);
}

// A call that this member has not made yet fails when it is made. GRP-22: an opening that this member will not make
// does not.
static bool keep_ahead(sequence *t, const collective_abort *ab) {
    if (t->next >= ab->next) return true;
    ended_ahead *x = mem_alloc(sizeof *x), **last = &t->ahead;
    if (!x) return false;
    *x = (ended_ahead){ .numbers = { ab->number, ab->next },
                        .is_skipped = ab->key == GROUP_KEY_OPENING &&
                                      ab->error.status == GW_TIMEOUT && t->next <= ab->number,
                        .error = ab->error };
    while (*last) last = &(*last)->next;
    *last = x;
    return true;
}

// Calls that have failed here. The abort may be about other numbers and not end all of them: this member reports the
// rest. Returns the last number that ends, or that of the abort if no call has failed here.
static uint64_t take_reported(gw_group *g, sequence *t, const collective_abort *ab) {
    if (!t->reported || t->reported < ab->number || t->reported >= ab->next) return ab->number;
    uint64_t next = ab->next;  // behind the numbers that have ended, which are reported no more
    while (next < t->reported_next && sequence_has_ended(t, next)) next++;
    bool has_all = next >= t->reported_next;
    t->next = has_all ? t->reported_next : next;
    t->reported = has_all ? 0 : next;
    if (!has_all) group_report_failed_on_loop(g, t->key, t->reported, t->reported_next, &ab->error);
    return t->next - 1;
}

static void take_cancelled(sequence *t, const collective_abort *ab) {
    uint32_t left = 0;
    for (uint32_t i = 0; i < t->cancelled_count; i++) {
        uint64_t number = t->cancelled[i];
        if (number < ab->number || number >= ab->next) t->cancelled[left++] = number;
    }
    t->cancelled_count = left;
}

static uint64_t note_failed_scopes_of(sequence *t, const collective_abort *ab, uint64_t number) {
    const scope_path *failed = call_paths_find(&t->paths, number);
    const scope_path *latest = call_paths_find(&t->paths, t->next - 1);
    if (!failed) return 0;
    int level = latest ? scope_path_leaves(failed, latest) : SCOPE_PATH_INSIDE;
    failed_call f = { *failed, failed->depth, number };
    if (level != SCOPE_PATH_INSIDE) f.in.depth = level;
    call_note_failure_on_loop(t, f, &ab->error);
    return failed->ids[failed->depth > 1 ? failed->depth - 2 : 0];
}

// GRP-6: the next call in these scopes belongs to what has failed. Where members have called different collectives
// before, the ended calls are in several scopes.
static void note_failed_scopes(sequence *t, const collective_abort *ab, uint64_t number) {
    uint64_t scope = note_failed_scopes_of(t, ab, number);
    for (uint64_t n = number + 1; n < ab->next && n < t->next; n++) {
        const scope_path *path = call_paths_find(&t->paths, n);
        if (path && path->ids[path->depth > 1 ? path->depth - 2 : 0] != scope)
            scope = note_failed_scopes_of(t, ab, n);
    }
}

// GRP-24: a collective that succeeded here has failed on other members, since the calls of members differ.
static void note_difference(gw_group *g, sequence *t, const collective_abort *ab) {
    const history_record *x = history_find_on_loop(g, ab->key, ab->number);
    if (ab->error.status != GW_MISMATCH || !x || !x->ended_ns || x->status) return;
    t->fails_next = true;
    miss(t, &ab->error);
}

// The lowest number in which a partner differs.
static uint64_t find_doubt(const gw_group *g, const sequence *t) {
    list_each(l, &g->runs) {
        const run *r = list_entry(l, run, link);
        for (int i = 0; r->sequence == t && i < g->count; i++)
            if (r->partners[i].differs) return r->number;
    }
    return 0;
}

static void apply_to(gw_group *g, sequence *t, const collective_abort *ab) {
    bool ended = false, reported = false;
    t->is_of_own = t->next > ab->number;
    t->ended[t->aborts++ % ENDED_KEPT] = (ended_numbers){ ab->number, ab->next };
    if (ab->next > t->next_then) t->next_then = ab->next;
    t->past = t->past_from = ab->ahead;
    t->has_dropped = false;
    unexpected_drop_between_on_loop(g, ab->key, ab->number > t->next ? ab->number : t->next,
                                    ab->next);
    uint64_t failed = take_reported(g, t, ab);
    take_cancelled(t, ab);
    end_runs(g, t, ab, &ended, &reported);
    if (t->doubt >= ab->number && t->doubt < ab->next) t->doubt = find_doubt(g, t);
    if (!has_mutation(MUTATION_NUMBER_NOT_ADVANCED) && !keep_ahead(t, ab)) {
        break_without_memory(g);
        return;
    }
    if (ab->failed)
        call_note_left_on_loop(g, t, ab);
    else
        note_failed_scopes(t, ab, failed);
    reported = reported || is_under_way_backward(g, ab);  // a pass of the program returns the error
    if (ended && !reported) miss(t, &ab->error);
    if (!ended && !ab->failed) note_difference(g, t, ab);
    if (!t->reported && !t->cancelled_count && !t->leaving) t->frozen = false;
    end_backwards(g, ab);
    stall_report_others_on_loop(g, ab->key);
    run_finalize_on_loop(g);
    run_admit_on_loop(g);
}

void abort_apply_on_loop(gw_group *g, const collective_abort *ab) {
    abort_drop_reports_on_loop(g, ab);
    if (key_is_final(ab->key)) {
        apply_to_final(g, ab->key, ab->all, &ab->error);
        return;
    }
    sequence *t = group_sequence_on_loop(g, ab->key);
    if (!t && g->sequences.count >= LIMIT_GROUP_KEYS)
        return;  // this member can call nothing of the key
    if (!t)
        break_without_memory(g);
    else
        apply_to(g, t, ab);
}

// ---- Answers to a query -------------------------------------------------------------------------

// A member that has skipped a step cannot catch up: the text states its step and how far behind it is.
static void put_place(const gw_group *g, uint64_t number, text_builder *out) {
    if (g->final_begun >= number || g->is_pending) return;
    text_put(out, "is at %s %llu, %llu behind, and ", g->final_name,
             (unsigned long long)g->final_begun, (unsigned long long)(number - g->final_begun));
}

// GRP-6: the last number, from |from| on, that this member has called in one scope with |first|; |from| - 1 if there
// is none.
static uint64_t last_in_scope(const sequence *t, const scope_path *first, int level,
                              uint64_t from) {
    uint64_t last = from - 1, scope = first ? scope_path_at(first, level) : 0;
    if (!scope) return last;
    for (uint64_t n = from; n < t->next || (t->reported && n < t->reported_next); n++) {
        const scope_path *path = call_paths_find(&t->paths, n);
        if (!path) continue;  // it has ended before this member has called it
        if (scope_path_at(path, level) != scope) break;
        last = n;
    }
    return last;
}

static void find_last(gw_group *g, const report_about *about, testimony *out) {
    bool has_left = about->cause == REPORT_LEFT;
    const sequence *t = group_find_sequence_on_loop(g, about->key);
    const scope_path *first =
        t ? call_paths_find(&t->paths, has_left ? about->failed : about->number) : NULL;
    uint64_t from = has_left ? about->number : about->number + 1;
    out->last = last_in_scope(t, first, has_left ? about->level : SCOPE_PATH_SCOPE, from);
}

static void testify_what(gw_group *g, uint64_t key, uint64_t number, testimony *out) {
    if (final_is_over_on_loop(g, key)) {
        *out = (testimony){ .has_answered = true,
                            .next = final_next_on_loop(g, (run_place){ key, number }),
                            .attendance = IS_DONE };
        return;
    }
    sequence *t = group_sequence_on_loop(g, key);
    const run *r = group_find_run_on_loop(g, key, number);
    *out = (testimony){ .has_answered = true, .next = t ? t->next : 1 };
    if (t) t->frozen = true;
    if (r) {
        out->attendance = r->state == RUN_DONE ? IS_DONE : HAS_ENTERED;
        out->call = signature_add(1, &r->signature);
        signature_text(&r->signature, r->detail, r->origin, out->text);
        text_builder text = { out->text, strlen(out->text), sizeof out->text };
        final_put_note(g, key, &text);
    } else if (number < out->next) {
        out->attendance = IS_DONE;
        const history_record *x = history_find_on_loop(g, key, number);
        if (!x) return;
        out->call = signature_add(1, &x->signature);
        if (!x->signature.shares)  // the history lacks its text
            signature_text(&x->signature, NULL, x->origin, out->text);
    } else {
        activity own;
        activity_read_on_loop(g->agent, &(collective_id){ g->id, key, number }, &own);
        text_builder text = { out->text, 0, sizeof out->text };
        if (key_is_final_sequence(key)) put_place(g, key - GROUP_KEY_FINAL, &text);
        text_put(&text, "%s", own.text);
    }
}

void abort_testify_on_loop(gw_group *g, const report_about *about, testimony *out) {
    testify_what(g, about->key, about->number, out);
    find_last(g, about, out);
}

void abort_send_answer_on_loop(gw_group *g, int to, const report_about *about) {
    testimony own;
    abort_testify_on_loop(g, about, &own);
    message *m = group_message_on_loop(g, KIND_ANSWER, about->key, about->number);
    if (m) {
        bytes_put_u64(&m->head, own.next);
        bytes_put_u64(&m->head, own.last);
        bytes_put_u64(&m->head, own.call);
        bytes_put_u8(&m->head, own.attendance);
        bytes_put_text(&m->head, own.text);
    }
    abort_send_on_loop(g, g->members[to].rank, m);
}
