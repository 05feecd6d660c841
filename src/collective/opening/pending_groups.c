// Pending groups: groups that this worker leads and its program has not opened, while other members have. Their
// collectives end by aborts of this worker, so it leads them without its program. Once the program opens the group,
// that takes over the state. GRP-8.
#include "agent/dispatch/deferred.h"
#include "base/mem.h"
#include "collective/abort/abort.h"
#include "collective/group/groups_state.h"
#include "collective/opening/opening.h"
#include "collective/group/roster.h"

// ---- The group in a report ----------------------------------------------------------------------

static bool find_roster(const message *m, roster *out) {
    if (m->kind != KIND_REPORT || m->head.size < GROUP_HEADER_BYTES) return false;
    reader in = reader_of(m->head.data + GROUP_HEADER_BYTES, m->head.size - GROUP_HEADER_BYTES);
    if (!reader_take(&in, ABORT_ABOUT_BYTES)) return false;
    return roster_read(&in, out);
}

bool pending_group_names_unknown(const agent *a, const message *m) {
    roster x;
    if (!find_roster(m, &x)) return false;
    for (uint32_t i = 0; i < x.count; i++)
        if (deferred_is_unknown(a, (uint64_t)roster_member(&x, i).rank)) return true;
    return false;
}

// ---- Leading ------------------------------------------------------------------------------------

gw_group *pending_group_find_on_loop(const agent *a, int from, const group_header *h) {
    gw_group *g = map_find(&groups_of(a)->pending_groups, h->group);
    return g && g->list == h->list && group_index_of(g, from) >= 0 ? g : NULL;
}

// With a member that is lost, and has not left in order, the group is broken on the others.
static bool find_worker(const agent *a, group_peer p, gw_worker *out) {
    const member *m = p.rank < a->member_count ? agent_member(a, p.rank) : NULL;
    if (!m || !m->known || m->worker.incarnation != p.incarnation) return false;
    if (m->lost && !groups_has_left_on_loop(a, p.rank)) return false;
    *out = m->worker;
    return true;
}

// The first one that has not left.
static bool leads(const agent *a, const group_peer *peers, uint32_t count) {
    uint32_t i = 0;
    while (i < count && agent_member(a, peers[i].rank)->lost) i++;
    return i < count && peers[i].rank == a->rank;
}

// The hash of the members equals their list, and this worker leads them.
static bool find_workers(const agent *a, int from, uint64_t list, const roster *x,
                         group_peer *peers, gw_worker *out) {
    bool seen[LIMIT_WORKERS] = { false };
    for (uint32_t i = 0; i < x->count; i++) {
        peers[i] = roster_member(x, i);
        if (!find_worker(a, peers[i], &out[i]) || seen[peers[i].rank]) return false;
        seen[peers[i].rank] = true;
    }
    return leads(a, peers, x->count) && seen[from] && group_list_of(peers, (int)x->count) == list;
}

static gw_group *make(agent *a, int from, const group_header *h, const roster *x) {
    group_peer *peers = mem_alloc((x->count + 1) * sizeof *peers);
    gw_worker *workers = mem_alloc((x->count + 1) * sizeof *workers);
    gw_group *g = NULL;
    if (peers && workers && find_workers(a, from, h->list, x, peers, workers))
        g = group_make_pending(a, workers, (int)x->count, h->group, x->title);
    if (g) g->left_count = group_count_lost_on_loop(g);
    mem_free(peers);
    mem_free(workers);
    return g;
}

gw_group *pending_group_lead_on_loop(agent *a, int from, const group_header *h, const message *m) {
    groups *all = groups_of(a);
    roster x;
    gw_group *g = pending_group_find_on_loop(a, from, h);
    if (g || map_find(&all->pending_groups, h->group)) return g;
    if (all->pending_groups.count >= LIMIT_GROUPS_PENDING || a->phase == AGENT_LEFT) return NULL;
    if (!find_roster(m, &x) || !text_may_quote(x.title)) return NULL;
    g = make(a, from, h, &x);
    if (!g || map_put(&all->pending_groups, h->group, g)) return g;
    group_release_on_loop(g);
    return NULL;
}

bool pending_group_is_over_on_loop(const agent *a, int from, uint8_t kind, const group_header *h) {
    gw_group *g = pending_group_find_on_loop(a, from, h);
    if (!g) return false;
    if (g->broken.status && kind == KIND_ENTER) abort_send_break_on_loop(g, from, &g->broken);
    const sequence *t = group_find_sequence_on_loop(g, h->key);
    return g->broken.status || (t && (h->number < t->next || sequence_has_ended(t, h->number))) ||
           final_find_abort_on_loop(g, h->key);
}

// ---- Taking over --------------------------------------------------------------------------------

static void refuse_list(gw_group *g, const gw_group *other) {
    for (int i = 0; i < other->count; i++)
        if (i != other->self) group_refuse_list_on_loop(g, other->members[i].rank);
}

// The aborts so far, and the reports that are still to be handled.
static void give_all(gw_group *from, gw_group *to) {
    to->broken = from->broken;
    to->backend_is_down = from->backend_is_down;
    to->main = from->main;
    from->main = (sequence){ .next = 1 };
    map sequences = to->sequences;
    to->sequences = from->sequences;
    from->sequences = sequences;
    to->final_aborts = from->final_aborts;
    to->final_abort_count = from->final_abort_count;
    from->final_aborts = NULL;
    for (list_node *l; (l = list_take(&from->reports));) list_append(&to->reports, l);
    to->testimonies = from->testimonies;
    to->missing = from->missing;
    from->testimonies = NULL;
}

void pending_group_hand_over_on_loop(gw_group *g) {
    gw_group *was = map_take(&groups_of(g->agent)->pending_groups, g->id);
    if (!was) return;
    if (was->list == g->list)
        give_all(was, g);
    else
        refuse_list(g, was);
    group_release_on_loop(was);
}

// One of which |rank| is a member, and counts as present.
static gw_group *find_with(const agent *a, int rank) {
    for (map_cursor e = { 0 }; map_next(&groups_of(a)->pending_groups, &e);) {
        gw_group *g = e.value;
        if (group_index_of(g, rank) >= 0 && group_count_lost_on_loop(g) > g->left_count) return g;
    }
    return NULL;
}

void pending_group_lost_on_loop(agent *a, int rank) {
    for (gw_group *g; (g = find_with(a, rank));) {
        if (groups_has_left_on_loop(a, rank)) {
            group_member_left_on_loop(g, rank);
            continue;
        }
        map_take(&groups_of(a)->pending_groups, g->id);
        group_release_on_loop(g);
    }
}

void pending_groups_close(agent *a) {
    groups *x = groups_of(a);
    for (map_cursor e = { 0 }; map_next(&x->pending_groups, &e); e.index = 0)
        handle_release(map_take(&x->pending_groups, e.key));
}
