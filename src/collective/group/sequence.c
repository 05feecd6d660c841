// The sequences of a group: the collectives of one key, and which of them have ended.
#include "collective/group/group.h"

#include "base/mem.h"
#include "base/mutation.h"
#include "base/status.h"

#include <stdio.h>

sequence *group_find_sequence_on_loop(gw_group *g, uint64_t key) {
    return key ? map_find(&g->sequences, key) : &g->main;
}

const gw_error *group_missed_error_on_loop(const gw_group *g) {
    if (g->is_over || g->break_is_known) return NULL;
    if (g->main.missed && g->main.is_of_own) return error_kept(g->main.why);
    for (map_cursor e = { 0 }; map_next(&g->sequences, &e);) {
        const sequence *t = e.value;
        if (t->missed && t->is_of_own) return error_kept(t->why);
    }
    return NULL;
}

sequence *group_sequence_on_loop(gw_group *g, uint64_t key) {
    sequence *t = group_find_sequence_on_loop(g, key);
    if (t || g->sequences.count >= LIMIT_GROUP_KEYS) return t;
    t = mem_calloc(sizeof *t);
    if (!t) return NULL;
    t->key = key;
    t->next = 1;
    if (map_put(&g->sequences, key, t)) return t;
    mem_free(t);
    return NULL;
}

// ---- Counts -------------------------------------------------------------------------------------

static bool is_idle(const sequence *t) {
    return t->waiting_count && !t->entered_count;
}

// GRP-3.
bool sequence_may_enter(const gw_group *g, const sequence *t) {
    if (g->run_count < RUNS_MAX || has_mutation(MUTATION_ENTER_AHEAD)) return true;
    return !t->entered_count && !has_mutation(MUTATION_KEYS_AT_LIMIT);
}

void sequence_wait(gw_group *g, sequence *t) {
    g->waiting_count++;
    t->waiting_count++;
    if (is_idle(t) && t->waiting_count == 1) g->idle_count++;
}

void sequence_stop_waiting(gw_group *g, sequence *t) {
    bool was_idle = is_idle(t);
    g->waiting_count--;
    t->waiting_count--;
    if (was_idle && !is_idle(t)) g->idle_count--;
}

void sequence_enter(gw_group *g, sequence *t) {
    if (is_idle(t)) g->idle_count--;
    g->run_count++;
    t->entered_count++;
}

void sequence_leave(gw_group *g, sequence *t) {
    g->run_count--;
    t->entered_count--;
    if (is_idle(t)) g->idle_count++;
}

// ---- Memory -------------------------------------------------------------------------------------

void sequence_fini(sequence *t) {
    for (ended_ahead *x; (x = t->ahead);) {
        t->ahead = x->next;
        mem_free(x);
    }
    mem_free(t->cancelled);
    call_paths_fini(&t->paths);
    error_forget(&t->why);
    error_forget(&t->failed_why);
}

bool sequence_has_ended(const sequence *t, uint64_t number) {
    for (const ended_ahead *x = t->ahead; x; x = x->next)
        if (number >= x->numbers.number && number < x->numbers.next) return true;
    for (int i = 0; i < ENDED_KEPT; i++)
        if (number >= t->ended[i].number && number < t->ended[i].next) return true;
    return false;
}

// ---- Errors that all members have ---------------------------------------------------------------

// GRP-5. The list distinguishes groups of one name that this worker has opened one after the other.
static uint64_t group_identity(const gw_group *g) {
    uint64_t both = hash_u64(g->id + g->list);
    return both ? both : 1;
}

gw_abort abort_identity(const gw_group *g, uint64_t key, uint64_t number) {
    return (gw_abort){ .group = group_identity(g), .key = key, .number = number };
}

// The number in an error about the group as a whole.
enum { NUMBER_OF_GROUP = 0 };
// The number in an error that a member has reported before its own number is known.
#define NUMBER_OF_REPORT UINT64_MAX

bool group_has_reported(const gw_group *g, const gw_error *error) {
    uint64_t own = group_identity(g);
    int count = error_abort_count(error);
    for (int i = 0; i < count; i++) {
        const gw_abort *x = &error->aborts[i];
        if (x->group == own && x->number != NUMBER_OF_GROUP && x->number != NUMBER_OF_REPORT)
            return true;
    }
    return false;
}

bool sequence_has_reported(const gw_group *g, const sequence *t, const gw_error *error) {
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
    error_add_abort(error, abort_identity(g, t->key, NUMBER_OF_REPORT));
}

// Done once: members send each other the error that has broken the group.
void group_name_error(const gw_group *g, gw_error *error) {
    uint64_t own = group_identity(g);
    int count = error_abort_count(error);
    for (int i = 0; i < count; i++)
        if (error->aborts[i].group == own && error->aborts[i].number == NUMBER_OF_GROUP) return;
    char title[LIMIT_NAME_BYTES + 16];
    snprintf(title, sizeof title, "group \"%s\"", g->name);
    error_prefix(error, title);
    error_add_abort(error, abort_identity(g, 0, NUMBER_OF_GROUP));
}
