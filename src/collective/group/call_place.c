// How the next call of a sequence continues when earlier ones have failed: it enters, waits or fails. GRP-6.
#include "collective/group/group.h"

#include "base/mem.h"
#include "base/mutation.h"

#include <stdio.h>

// ---- Numbers that have ended ahead --------------------------------------------------------------

static ended_ahead *find_ahead(const sequence *t) {
    for (ended_ahead *x = t->ahead; x; x = x->next)
        if (t->next >= x->numbers.number && t->next < x->numbers.next) return x;
    return NULL;
}

// Takes the numbers below |next|.
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
    unexpected_drop_between_on_loop(g, t->key, from, next);
}

void call_skip_ended_on_loop(gw_group *g, sequence *t) {
    for (const ended_ahead *x; (x = find_ahead(t));) advance(g, t, x->numbers.next);
}

// ---- Calls that have failed -----------------------------------------------------------------------

// Of two of the same depth the later one is kept: other members may have called more in it.
static void note_depth(sequence *t, failed_call f, int depth) {
    int at = 0;
    f.in.depth = depth;
    if (!depth) return;
    while (at < t->failure_count && t->failures[at].in.depth < depth) at++;
    if (at < t->failure_count && t->failures[at].in.depth == depth) {
        if (t->failures[at].number < f.number) t->failures[at] = f;
        return;
    }
    for (int i = t->failure_count++; i > at; i--) t->failures[i] = t->failures[i - 1];
    t->failures[at] = f;
}

void call_note_failure_on_loop(sequence *t, failed_call f, const gw_error *why) {
    error_forget(&t->failed_why);
    error_keep(&t->failed_why, why);
    note_depth(t, f, f.in.depth);
}

static scope_path whole_path(const failed_call *f) {
    scope_path path = f->in;
    path.depth = f->depth;
    return path;
}

// ---- Leaving a scope in which a call has failed ---------------------------------------------------

// Numbers of the call that has failed, or of the scope that is left, which this member does not call: others have
// called them, and the leader queries this member about them.
static void skip_to(gw_group *g, sequence *t, const scope_path *in, bool is_call, uint64_t next) {
    uint64_t n = next > CALL_PATHS_KEPT ? next - CALL_PATHS_KEPT : 0;
    for (n = n > t->next ? n : t->next; n < next; n++) {
        scope_path path = *in;
        if (!is_call) scope_path_make_call(&path, n);
        call_note_path_on_loop(g, t, n, &path);
    }
    advance(g, t, next);
}

// The scope that another member has left, as a scope of this member.
static uint64_t find_left(const sequence *t, scope_left *x) {
    if (!x->failed || x->scope) return x->scope;
    const scope_path *path = call_paths_find(&t->paths, x->failed);
    if (path) x->scope = scope_path_at(path, x->level);
    return x->scope;
}

// The number behind the calls in the scope of |failed_in| at |level|, if other members have left it; 0: they have
// not, or have calls in it that wait for this member.
static uint64_t next_behind(sequence *t, const scope_path *failed_in, int level) {
    uint64_t next = 0;
    for (int i = 0; i < LEFT_KEPT; i++) {
        scope_left *x = &t->left[i];
        uint64_t scope = find_left(t, x);
        if (scope && t->next >= x->from && x->level <= level &&
            scope_path_at(failed_in, x->level) == scope && x->next > next)
            next = x->next;
    }
    return next;
}

// This member calls nothing more in the scope at |level| of those in which a call has failed.
static void report_left(gw_group *g, const sequence *t, int level) {
    gw_error error = *error_kept(t->failed_why);
    char reporter[LIMIT_NAME_BYTES + 64];
    snprintf(reporter, sizeof reporter, "%s has continued without it",
             group_member_name(g, g->self));
    error_prefix(&error, reporter);
    group_report_about_on_loop(
        g, &(report_about){ t->key, t->next, t->next, REPORT_LEFT, t->leaving, (uint8_t)level },
        &error);
}

// The other members end what they have called in that scope behind this member's last call in it. False: it waits for
// that.
static bool leave_scopes_of(gw_group *g, sequence *t, const failed_call *f, int depth) {
    int level = depth == f->depth - 1 ? SCOPE_PATH_CALL : depth;
    scope_path failed_in = whole_path(f);
    if (!scope_path_at(&failed_in, level)) return true;  // the outermost scope is never left
    uint64_t next = next_behind(t, &failed_in, level);
    if (g->count == 1 || next || has_mutation(MUTATION_SCOPE_LEFT_UNREPORTED)) {
        skip_to(g, t, &failed_in, level == SCOPE_PATH_CALL, next);
        return true;
    }
    t->frozen = true;
    t->leaving = f->number;
    t->leaving_level = level;
    report_left(g, t, level);
    return false;
}

// If a scope of one of these is not left, those of the earlier ones are not left either.
static bool leave_scopes(gw_group *g, sequence *t, const scope_path *path) {
    while (t->failure_count) {
        failed_call f = t->failures[t->failure_count - 1];
        int depth = scope_path_leaves(&f.in, path);
        if (depth == SCOPE_PATH_INSIDE) return true;
        if (!leave_scopes_of(g, t, &f, depth)) return false;
        t->failure_count--;
        note_depth(t, f, depth);
    }
    return true;
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

// The next call of this member could be in it.
static bool has_forgotten(const sequence *t, const collective_abort *ab) {
    return ab->level != SCOPE_PATH_CALL && ab->failed + CALL_PATHS_KEPT < t->next;
}

void call_note_left_on_loop(gw_group *g, sequence *t, const collective_abort *ab) {
    if (has_forgotten(t, ab)) {
        gw_error error;
        error_set(&error, GW_LIMIT,
                  "a member has left the scope of collective %llu, which was called more than %d "
                  "calls before the present call of %s: re-form the group",
                  (unsigned long long)ab->failed, CALL_PATHS_KEPT, group_member_name(g, g->self));
        group_break_all_on_loop(g, &error);
        return;
    }
    *place_to_note(t) = (scope_left){ ab->failed, ab->level, 0, ab->number, ab->next };
    if (t->leaving != ab->failed || ab->level > t->leaving_level) return;
    const scope_path *failed_in = call_paths_find(&t->paths, t->leaving);
    scope_path none = { .depth = 0 };
    skip_to(g, t, failed_in ? failed_in : &none, t->leaving_level == SCOPE_PATH_CALL, ab->next);
    t->leaving = 0;
}

// A member calls no more in that scope, and this call would be matched with one of its next calls.
static bool is_in_left_scope(sequence *t, const scope_path *path) {
    for (int i = 0; i < LEFT_KEPT; i++) {
        scope_left *x = &t->left[i];
        uint64_t scope = find_left(t, x);
        if (scope && scope_path_at(path, x->level) == scope && t->next >= x->from) return true;
    }
    return false;
}

// ---- The next call --------------------------------------------------------------------------------

void call_note_path_on_loop(gw_group *g, sequence *t, uint64_t number, const scope_path *path) {
    gw_error error;
    if (call_paths_add(&t->paths, number, path)) return;
    error_set(&error, GW_NO_MEMORY,
              "%s has no memory to record in which scope it has called a collective",
              group_member_name(g, g->self));
    group_break_all_on_loop(g, &error);
}

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
    gw_error why = *error;  // it may belong to the sequence, which may end with the report
    t->frozen = true;
    t->reported = t->next;
    t->reported_next = t->next + count;
    scope_path each = *path;
    for (uint32_t i = 0; i < count; i++) {
        call_note_path_on_loop(g, t, t->next + i, &each);
        scope_path_make_call(&each, t->next + i + 1);
    }
    group_report_failed_on_loop(g, t->key, t->reported, t->reported_next, &why);
}

void call_fail_next_on_loop(sequence *t, const gw_error *error) {
    if (!t->missed && !t->fails_next) {
        error_forget(&t->why);
        error_keep(&t->why, error);
    }
    t->fails_next = true;
}

// The call takes its number nevertheless.
static void take_ended(gw_group *g, sequence *t, const scope_path *path, const ended_ahead *x,
                       gw_error *error) {
    *error = x->error;
    call_note_failure_on_loop(t, (failed_call){ *path, path->depth, t->next }, error);
    call_note_path_on_loop(g, t, t->next, path);
    advance(g, t, t->next + 1);
}

// The call is in the scope of one that has failed.
static bool is_behind_failure(const sequence *t) {
    for (int i = 0; i < t->failure_count; i++)
        if (t->failures[i].in.depth >= t->failures[i].depth - 1) return true;
    return false;
}

call_place call_place_on_loop(gw_group *g, sequence *t, const scope_path *path, gw_error *error) {
    if (t->frozen) return CALL_WAITS;
    if (key_is_final(t->key)) return CALL_ENTERS;
    if (g->shadows) {
        call_skip_ended_on_loop(g, t);
        return CALL_ENTERS;
    }
    bool is_left = is_in_left_scope(t, path);
    if (!is_left && !leave_scopes(g, t, path)) return CALL_WAITS;
    if (is_left || is_in_left_scope(t, path)) {
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
    if (!t->fails_next && !(t->missed && is_behind_failure(t))) return CALL_ENTERS;
    *error = *error_kept(t->why);
    t->fails_next = t->missed = false;
    call_fail_in_place_on_loop(g, t, path, 1, error);
    return CALL_FAILS;
}
