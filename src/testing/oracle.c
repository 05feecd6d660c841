#include "testing/oracle.h"

#include "reference/references.h"
#include "testing/testing.h"

static bool sees_as_lost(const agent *a, int rank) {
    return rank >= a->member_count || !a->members[rank] || a->members[rank]->lost;
}

static bool are_together(agent *const *agents, int a, int b) {
    return agents[a] && agents[b] && !sees_as_lost(agents[a], b) && !sees_as_lost(agents[b], a);
}

static unsigned long long number(uint64_t x) {
    return (unsigned long long)x;
}

// "An entry's holder is a live incarnation."
static void check_holder_set(const agent *owner, const entry *e) {
    for (map_cursor m = { 0 }; map_next(&e->forks, &m);) {
        int holder = (int)(intptr_t)m.value - 1;
        if (sees_as_lost(owner, holder))
            fail_msg("worker %d lists fork %llx of %llx for worker %d, which is gone for it",
                     owner->rank, number(m.key), number(e->id), holder);
    }
}

static bool lists(const agent *owner, uint64_t id, uint64_t fork, int holder) {
    const entry *e = map_find(&references_of(owner)->by_id, id);
    return e && (intptr_t)map_find(&e->forks, fork) == holder + 1;
}

// "No free while listed", seen from the holder.
static void check_held(agent *const *agents, const gw_rref *r, int holder) {
    if (r->state != FORK_CONFIRMED || r->leaving || list_has(&r->out)) return;
    if (!are_together(agents, r->owner, holder)) return;
    if (!lists(agents[r->owner], r->id, r->fork, holder))
        fail_msg("worker %d holds %llx by fork %llx, which worker %d does not list", holder,
                 number(r->id), number(r->fork), r->owner);
}

void oracle_check(agent *const *agents, int count) {
    for (int rank = 0; rank < count; rank++) {
        if (!agents[rank] || !references_of(agents[rank])) continue;
        const references *rs = references_of(agents[rank]);
        list_each(l, &rs->entries) check_holder_set(agents[rank], list_entry(l, entry, link));
        list_each(l, &rs->users) check_held(agents, list_entry(l, gw_rref, link), rank);
    }
}

// ---- At rest ------------------------------------------------------------------------------------

static bool holds(const agent *holder, uint64_t id, uint64_t fork) {
    list_each(l, &references_of(holder)->users) {
        const gw_rref *r = list_entry(l, gw_rref, link);
        if (r->fork == fork && r->id == id && r->state == FORK_CONFIRMED) return true;
    }
    return false;
}

static void check_entry_at_rest(agent *const *agents, int owner, const entry *e) {
    for (map_cursor m = { 0 }; map_next(&e->forks, &m);) {
        int holder = (int)(intptr_t)m.value - 1;
        if (!agents[holder])
            fail_msg("at rest worker %d lists fork %llx of %llx for worker %d, which has ended",
                     owner, number(m.key), number(e->id), holder);
        if (!holds(agents[holder], e->id, m.key))
            fail_msg("at rest worker %d lists fork %llx of %llx, which worker %d does not hold",
                     owner, number(m.key), number(e->id), holder);
    }
}

void oracle_check_rest(agent *const *agents, int count) {
    oracle_check(agents, count);
    for (int rank = 0; rank < count; rank++) {
        const agent *a = agents[rank];
        if (!a) continue;
        const references *rs = references_of(a);
        if (rs->pending.count || rs->pins.count || rs->release_count)
            fail_msg("at rest worker %d awaits %zu acks and %zu children, and has %u to give back",
                     rank, rs->pending.count, rs->pins.count, rs->release_count);
        list_each(l, &rs->entries) check_entry_at_rest(agents, rank, list_entry(l, entry, link));
    }
}

// ---- Nothing left -------------------------------------------------------------------------------

static void expect_none(const agent *a, size_t count, const char *what) {
    if (count) fail_msg("worker %d has %zu %s left", a->rank, count, what);
}

static size_t length(const list_node *list) {
    size_t count = 0;
    list_each(l, list) count++;
    return count;
}

void oracle_check_empty(agent *a) {
    const references *rs = references_of(a);
    expect_none(a, length(&rs->entries), "entries");
    expect_none(a, rs->by_id.count, "named entries");
    expect_none(a, length(&rs->users), "references");
    expect_none(a, rs->pending.count, "pending forks");
    expect_none(a, rs->pins.count, "pins");
    expect_none(a, length(&rs->fetches), "fetches");
    expect_none(a, rs->release_count, "releases");
    expect_none(a, calls_of(a)->out.count, "calls");
    expect_none(a, calls_of(a)->promises.count, "promises");
    expect_none(a, calls_of(a)->queues.count, "call queues");
    expect_none(a, calls_of(a)->body_count, "bodies");
    for (int rank = 0; rank < a->member_count; rank++) {
        const call_peer *p = call_peer_of(a, rank);
        expect_none(a, p->served_count, "calls that it serves");
        expect_none(a, p->call_count, "calls out");
        expect_none(a, reference_peer_of(a, rank)->fork_count, "forks listed");
    }
}
