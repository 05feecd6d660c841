// The loss of a worker, for references (REF-9).
#include "reference/references.h"

#include "base/mutation.h"

// ---- References to its values -------------------------------------------------------------------

static void lose_users(agent *a, int rank) {
    references *rs = references_of(a);
    list_each(l, &rs->users) {
        gw_rref *r = list_entry(l, gw_rref, link);
        if (r->owner != rank) continue;
        bool pending = map_take(&rs->pending, r->fork) != NULL;
        rref_lose_on_loop(r);
        if (pending && r->parent >= 0) fork_accept_on_loop(a, r->parent, r->fork);
        r->parent = -1;
        if (r->dropped) release_on_loop(r);
    }
}

// ---- Forks that it does not accept or list any more ---------------------------------------------

static void lose_pins(agent *a, int rank) {
    for (map_cursor m = { 0 }; map_next(&references_of(a)->pins, &m);) {
        const pin *p = m.value;
        if (p->child != rank && p->rref->owner != rank) continue;
        fork_unpin_on_loop(a, m.key);
        m.index--;  // another may have moved there
    }
}

// ---- Its forks ----------------------------------------------------------------------------------

static void remove_holder(entry *e, int rank) {
    for (map_cursor m = { 0 }; map_next(&e->forks, &m);) {
        if ((intptr_t)m.value != rank + 1) continue;
        map_take(&e->forks, m.key);
        reference_peer_of(e->agent, rank)->fork_count--;
        m.index--;  // another may have moved there
    }
}

static void remove_holder_everywhere(agent *a, int rank) {
    if (has_mutation(MUTATION_KEEP_DEAD_FORKS)) return;
    list_each(l, &references_of(a)->entries) {
        entry *e = list_entry(l, entry, link);
        if (!e->forks.count) continue;
        entry_retain_on_loop(e);
        remove_holder(e, rank);
        entry_release_on_loop(e);
    }
}

// ---- Entries that await its creating requests ---------------------------------------------------

static bool is_unrequested_of(const entry *e, int rank) {
    return !e->requested && !e->made && e->id && id_rank(e->id) == (uint64_t)rank;
}

static void fail_unrequested(agent *a, int rank) {
    gw_error error;
    references *rs = references_of(a);
    list_node lost;
    list_init(&lost);
    list_each(l, &rs->entries) {
        if (!is_unrequested_of(list_entry(l, entry, link), rank)) continue;
        list_remove(l);
        list_append(&lost, l);
    }
    no_such_reference(&error);
    // An error may let user code drop other entries.
    for (list_node *l; (l = list_take(&lost));) {
        list_append(&rs->entries, l);
        entry_make_on_loop(list_entry(l, entry, link), result_of_error(&error), NULL);
    }
}

void references_lost_on_loop(agent *a, int rank) {
    // A worker leaves once the coordinator has reported that no message is under way, so the holder
    // sets are final.
    if (a->phase == AGENT_DRAINING && a->peers && peers_has_left(a->peers, rank))
        references_report_on_loop(a);
    lose_users(a, rank);
    lose_pins(a, rank);
    remove_holder_everywhere(a, rank);
    fail_unrequested(a, rank);
    fetches_lost_on_loop(a, rank);
}
