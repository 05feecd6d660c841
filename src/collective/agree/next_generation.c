// The next generation of a group: its members, and that this worker will not be one of them.
#include "base/map.h"
#include "base/mem.h"
#include "base/mutation.h"
#include "collective/agree/agree.h"
#include "collective/group/groups_state.h"
#include "wire/codec.h"

#include <stdio.h>

// ---- Choosing -----------------------------------------------------------------------------------

static bool has_proposed(const gw_group *g, int i) {
    return !g->agreements->is_out[i] || has_mutation(MUTATION_OLD_VIEW_IN_REFORM);
}

static int count_survivors(const gw_group *g) {
    int count = 0;
    for (int i = 0; i < g->count; i++) count += has_proposed(g, i);
    return count;
}

// The first |count| joining members, by rank, from members[at] on.
static void put_joining(const gw_group *g, decision *d, int at, int count) {
    int rank = -1;
    for (int i = 0; i < count; i++) {
        rank = join_request_next_on_loop(g, rank);
        d->members[at + i] = (group_peer){ rank, agent_member(g->agent, rank)->worker.incarnation };
    }
}

decision *reform_choose_on_loop(gw_group *g, uint32_t min, bool grow, bool *out_failed) {
    int survivors = count_survivors(g), joining = join_request_count_on_loop(g);
    *out_failed = false;
    if ((uint32_t)(survivors + joining) < min) return NULL;
    int needed = (int)min > survivors ? (int)min - survivors : 0;
    if (!grow) joining = needed;
    if (survivors + joining > LIMIT_WORKERS) joining = LIMIT_WORKERS - survivors;
    decision *d = decision_open(g->count, survivors + joining);
    if (!d) {
        *out_failed = true;
        return NULL;
    }
    int at = 0;
    for (int i = 0; i < g->count; i++)
        if (has_proposed(g, i)) d->members[at++] = g->members[i];
    put_joining(g, d, at, joining);
    // A lost leader may have decided otherwise, and sent that to a joining member alone.
    d->id = hash_u64(
        g->id ^ hash_u64(agree_number(g->agreements) ^ group_list_of(d->members, d->member_count)));
    d->generation = g->generation + 1;
    snprintf(d->name, sizeof d->name, "%s", g->name);
    return d;
}

void reform_break_next_on_loop(agent *a, const decision *d, const gw_error *error) {
    group_header broken = { .group = d->id, .list = group_list_of(d->members, d->member_count) };
    groups_remember_closed_on_loop(
        a, (closed_group){ .id = d->id, .list = broken.list, .leader = -1 });
    for (int i = 0; i < d->member_count; i++) {
        int rank = d->members[i].rank;
        if (rank == a->rank || agent_member(a, rank)->lost) continue;
        message *m = agent_message_on_loop(a, KIND_BREAK);
        if (!m) continue;
        group_header_put(&m->head, &broken);
        encode_error(&m->head, error);
        agent_post_on_loop(a, rank, m);
    }
}
