// Final keys, GRP-21: an abort ends a final key for good. A final sequence is a final key with numbered calls, for
// work that fails as a whole: another room begins and ends one after the other.
#include "base/mem.h"
#include "collective/group/group.h"

const gw_error *final_find_abort_on_loop(const gw_group *g, uint64_t key) {
    if (!key_is_final(key)) return NULL;
    for (uint32_t i = 0; g->final_aborts && i < LIMIT_FINAL_ABORTS; i++)
        if (g->final_aborts[i].key == key) return error_kept(g->final_aborts[i].error);
    return NULL;
}

void final_put_key(const gw_group *g, uint64_t key, text_builder *out) {
    if (key_is_final_sequence(key))
        text_put(out, " of %s %llu", g->final_name, (unsigned long long)(key - GROUP_KEY_FINAL));
    else if (key == GROUP_KEY_OPENING)
        text_put(out, "%s", GROUP_OPENINGS);
    else if (key)
        text_put(out, " with .key = %llu", (unsigned long long)key);
}

void final_put_collective(const gw_group *g, run_place at, text_builder *out) {
    if (key_is_once(at.key)) {
        text_put(out, "a collective of a backward pass");
        return;
    }
    text_put(out, "collective %llu", (unsigned long long)at.number);
    final_put_key(g, at.key, out);
}

void final_note_on_loop(gw_group *g, const char *text) {
    mem_free(g->final_note);
    g->final_note = mem_strdup(text);
}

void final_put_note(const gw_group *g, uint64_t key, text_builder *out) {
    if (key_is_final_sequence(key) && g->final_note) text_put(out, ", with %s", g->final_note);
}

bool final_keep_abort_on_loop(gw_group *g, uint64_t key, const gw_error *error) {
    if (!g->final_aborts)
        g->final_aborts = mem_calloc(LIMIT_FINAL_ABORTS * sizeof *g->final_aborts);
    if (!g->final_aborts) return false;
    final_abort *x = &g->final_aborts[g->final_abort_count++ % LIMIT_FINAL_ABORTS];
    error_forget(&x->error);
    x->key = key;
    error_keep(&x->error, error);
    return true;
}

bool final_is_over_on_loop(gw_group *g, uint64_t key) {
    return key_is_final_sequence(key) && key - GROUP_KEY_FINAL <= g->final_begun &&
           !group_find_sequence_on_loop(g, key);
}

// Older ones have ended on all members, or this one would not have been reported; later ones had no calls.
uint64_t final_next_on_loop(const gw_group *g, run_place reported) {
    if (reported.key == g->final_last.key) return g->final_last.number;
    return reported.key < g->final_last.key ? reported.number + 1 : 1;
}

// A sequence that waits for an abort stays, so that nothing of it is entered before that.
void final_forget_if_unused_on_loop(gw_group *g, sequence *t) {
    uint64_t key = t->key;
    bool is_used = t->run_count || t->frozen || (key_is_final_sequence(key) && !t->is_over);
    if (!key_is_final(key) || is_used) return;
    if (key_is_final_sequence(key) && t->next > 1) g->final_last = (run_place){ key, t->next };
    map_take(&g->sequences, key);
    sequence_fini(t);
    mem_free(t);
}

void final_leave_on_loop(gw_group *g, sequence *t) {
    t->run_count--;
    final_forget_if_unused_on_loop(g, t);
}

static void break_without_memory(gw_group *g) {
    gw_error none;
    error_set(&none, GW_NO_MEMORY, "%s has no memory for a collective",
              group_member_name(g, g->self));
    group_break_all_on_loop(g, &none);
}

void final_begin_on_loop(gw_group *g, uint64_t number, uint64_t mark) {
    g->final_number = number;
    g->final_mark = mark;
    if (number > g->final_begun) g->final_begun = number;
    if (!number || g->broken.status || group_sequence_on_loop(g, GROUP_KEY_FINAL + number)) return;
    break_without_memory(g);  // the other members would wait for it
}

void final_end_on_loop(gw_group *g, uint64_t number) {
    uint64_t key = GROUP_KEY_FINAL + number;
    unexpected_drop_between_on_loop(g, key, 0, UINT64_MAX);
    sequence *t = group_find_sequence_on_loop(g, key);
    if (!t) return;
    t->is_over = true;
    final_forget_if_unused_on_loop(g, t);
}

uint64_t backward_key(run_place forward, uint32_t times) {
    uint64_t place = hash_u64(hash_u64(forward.key) + forward.number);
    return hash_u64(place + times) | GROUP_KEY_ONCE;
}
