// Where the next call of a sequence stands when earlier ones have failed: whether it enters, waits or fails. GRP-6.
#include "collective/abort.h"

#include "base/mem.h"
#include "base/mutation.h"
#include "collective/history.h"

// ---- Numbers that have ended ahead --------------------------------------------------------------

static ended_ahead *find_ahead(const sequence *t) {
    for (ended_ahead *x = t->ahead; x; x = x->next)
        if (t->next >= x->numbers.number && t->next < x->numbers.next) return x;
    return NULL;
}

// Takes numbers to below |next|.
static void advance(gw_group *g, sequence *t, uint64_t next) {
    uint64_t from = t->next;
    if (next <= from) return;
    t->next = next;
    for (ended_ahead **at = &t->ahead, *x; (x = *at);) {
        if (x->numbers.next > next) {
            at = &x->next;
        } else {
            *at = x->next;
            mem_free(x);
        }
    }
    early_drop_between_on_loop(g, t->key, from, next);
}

void call_skip_ended_on_loop(gw_group *g, sequence *t) {
    for (const ended_ahead *x; (x = find_ahead(t));) advance(g, t, x->numbers.next);
}

void sequence_fini(sequence *t) {
    for (ended_ahead *x; (x = t->ahead);) {
        t->ahead = x->next;
        mem_free(x);
    }
    mem_free(t->cancelled);
    error_forget(&t->why);
    error_forget(&t->failed_why);
}

// ---- Leaving a scope in which a call has failed ---------------------------------------------------

// What another member has left, as a scope of this member's.
static uint64_t find_left(const gw_group *g, const sequence *t, scope_left *x) {
    if (!x->failed || x->scope) return x->scope;
    if (x->failed == t->failed) x->scope = scope_path_at(&t->failed_in, x->level);
    if (x->scope) return x->scope;
    const history_record *r = history_find_call_on_loop(g, t->key, x->failed);
    if (r) x->scope = scope_path_at(&r->called_in, x->level);
    return x->scope;
}

// The number behind what was called in it, if others have left the scope of |failed_in| at |level|; 0: they have not.
static uint64_t next_behind(const gw_group *g, sequence *t, int level) {
    uint64_t next = 0;
    for (int i = 0; i < LEFT_KEPT; i++) {
        scope_left *x = &t->left[i];
        uint64_t scope = find_left(g, t, x);
        if (scope && x->level <= level && t->failed_in.ids[x->level] == scope && x->next > next)
            next = x->next;
    }
    return next;
}

// The others end what they have called in that scope behind this member's last call in it. False: it waits for that.
static bool leave_scopes(gw_group *g, sequence *t, const scope_path *path) {
    int level = scope_path_leaves(&t->failed_in, path);
    if (level == SCOPE_PATH_INSIDE) return true;
    const ended_ahead *x = find_ahead(t);
    if (x && x->numbers.number == t->failed_abort)
        advance(g, t, level == t->failed_depth - 1 ? x->numbers.call_next : x->numbers.next);
    uint64_t next = next_behind(g, t, level);
    if (g->count == 1 || next || has_mutation(MUTATION_SCOPE_LEFT_UNTOLD)) {
        advance(g, t, next);
        t->failed_in.depth = level;
        return true;
    }
    t->frozen = true;
    t->leaving = t->failed;
    t->leaving_level = level;
    abort_report_left_on_loop(g, t, level);
    return false;
}

static scope_left *place_to_note(sequence *t) {
    scope_left *out = &t->left[0];
    for (int i = 0; i < LEFT_KEPT; i++) {
        scope_left *x = &t->left[i];
        if (!x->failed) return x;
        if (x->level > out->level || (x->level == out->level && x->from < out->from)) out = x;
    }
    return out;
}

void call_note_left_on_loop(gw_group *g, sequence *t, const collective_abort *ab) {
    *place_to_note(t) = (scope_left){ ab->failed, ab->level, 0, ab->number, ab->next };
    if (t->leaving != ab->failed || ab->level > t->leaving_level) return;
    advance(g, t, ab->next);
    if (t->failed == t->leaving) t->failed_in.depth = t->leaving_level;
    t->leaving = 0;
}

// A member calls no more there, and this call would be taken for one of its next.
static bool is_in_left_scope(const gw_group *g, sequence *t, const scope_path *path) {
    for (int i = 0; i < LEFT_KEPT; i++) {
        scope_left *x = &t->left[i];
        uint64_t scope = find_left(g, t, x);
        if (scope && x->level < path->depth && path->ids[x->level] == scope && t->next >= x->from)
            return true;
    }
    return false;
}

// ---- The next call --------------------------------------------------------------------------------

void call_cancelled_on_loop(gw_group *g, sequence *t, uint64_t number) {
    gw_error error;
    error_set(&error, GW_CANCELLED, "%s has cancelled it", group_member_name(g, g->self));
    if (!key_is_final(t->key)) {
        if (!t->cancelled) t->cancelled = mem_alloc(RUNS_MAX * sizeof *t->cancelled);
        if (!t->cancelled || t->cancelled_count == RUNS_MAX) {
            group_break_all_on_loop(g, &error);
            return;
        }
        t->cancelled[t->cancelled_count++] = number;
    }
    t->frozen = true;
    group_report_on_loop(g, t->key, number, &error);
}

void call_fail_in_place_on_loop(gw_group *g, sequence *t, const scope_path *path, uint32_t count,
                                const gw_error *error) {
    gw_error why = *error;  // it may be of the sequence, which may end with the report
    t->frozen = true;
    t->reported = t->next;
    t->reported_next = t->next + count;
    for (uint32_t i = count > HISTORY_SIZE ? count - HISTORY_SIZE : 0; i < count; i++)
        history_note_failed_on_loop(g, t->key, t->next + i, path);
    group_report_failed_on_loop(g, t->key, t->reported, t->reported_next, &why);
}

// It has its number all the same.
static void take_ended(gw_group *g, sequence *t, const scope_path *path, const ended_ahead *x,
                       gw_error *error) {
    *error = x->error;
    t->failed = t->next;
    t->failed_abort = x->numbers.number;
    t->failed_in = *path;
    t->failed_depth = path->depth;
    error_forget(&t->failed_why);
    error_keep(&t->failed_why, error);
    history_note_failed_on_loop(g, t->key, t->next, path);
    advance(g, t, t->next + 1);
}

call_place call_place_on_loop(gw_group *g, sequence *t, const scope_path *path, gw_error *error) {
    if (t->frozen) return CALL_WAITS;
    if (key_is_final(t->key)) return CALL_ENTERS;
    if (g->answers) {
        call_skip_ended_on_loop(g, t);
        return CALL_ENTERS;
    }
    bool is_left = is_in_left_scope(g, t, path);
    if (!is_left && !leave_scopes(g, t, path)) return CALL_WAITS;
    if (is_left || is_in_left_scope(g, t, path)) {
        *error = *error_kept(t->failed_why);
        return CALL_FAILS;
    }
    const ended_ahead *x = find_ahead(t);
    while (x && x->is_skipped) {
        advance(g, t, x->numbers.next);
        x = find_ahead(t);
    }
    if (x) {
        take_ended(g, t, path, x, error);
        return CALL_FAILS;
    }
    bool has_not_looked = t->missed && t->failed_in.depth >= t->failed_depth - 1;
    if (!t->fails_next && !has_not_looked) return CALL_ENTERS;
    *error = *error_kept(t->why);
    t->fails_next = t->missed = false;
    call_fail_in_place_on_loop(g, t, path, 1, error);
    return CALL_FAILS;
}
