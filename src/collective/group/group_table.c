// The groups of a worker, by id, name and list of members; the sequences of a group.
#include "base/mem.h"
#include "base/mutation.h"
#include "collective/group/groups_state.h"
#include "trace/record.h"

#include <stdio.h>
#include <string.h>

enum { NAMED_MAX = 4 };

const service_data group_data = { .member_size = sizeof(groups_part) };

groups *groups_of(const agent *a) {
    return agent_state(a, &group_data);
}

groups_part *groups_part_of(const agent *a, int rank) {
    return agent_member_part(a, rank, &group_data);
}

// ---- The table ----------------------------------------------------------------------------------

gw_group *group_find_on_loop(const agent *a, uint64_t id) {
    return map_find(&groups_of(a)->groups, id);
}

int group_index_of(const gw_group *g, int rank) {
    for (int i = 0; i < g->count; i++)
        if (g->members[i].rank == rank) return i;
    return -1;
}

const char *group_member_name(const gw_group *g, int index) {
    return agent_member(g->agent, g->members[index].rank)->name;
}

gw_error group_error_of_self(const gw_group *g, const gw_error *why) {
    gw_error error = *why;
    const char *self = group_member_name(g, g->self);
    error_prefix(&error, self);
    if (!error.worker[0]) snprintf(error.worker, sizeof error.worker, "%s", self);
    return error;
}

static uint64_t hash_of_name(const gw_group *g) {
    return hash_bytes(g->name, strlen(g->name));
}

static bool is_open(const groups *x, const gw_group *other) {
    for (const gw_group *g = map_find(&x->named, hash_of_name(other)); g; g = g->next_named)
        if (!g->is_over && g->owners && strcmp(g->name, other->name) == 0) return true;
    return false;
}

static bool put(groups *x, gw_group *g) {
    if (!map_put(&x->groups, g->id, g)) return false;
    g->record_name = trace_name(g->name);
    trace_record_text(TRACE_GROUP_OPENED, g->agent->observer.row, g->id, (uint64_t)g->count,
                      g->name);
    if (!g->has_name) return true;
    g->next_named = map_find(&x->named, hash_of_name(g));
    if (map_put(&x->named, hash_of_name(g), g)) return true;
    map_take(&x->groups, g->id);
    return false;
}

static void take_out(groups *x, gw_group *g) {
    map_take(&x->groups, g->id);
    if (!g->has_name) return;
    gw_group *first = map_find(&x->named, hash_of_name(g)), *before = first;
    while (before != g && before->next_named != g) before = before->next_named;
    if (before != g) {
        before->next_named = g->next_named;
        return;
    }
    map_take(&x->named, hash_of_name(g));
    if (g->next_named) map_put(&x->named, hash_of_name(g), g->next_named);  // in its place
}

// "world, of gw_ddp_open": made of its parent's title and the function.
void group_name_child(gw_group *g, const gw_group *of, uint64_t number, const char *what) {
    enum { ROOM_FOR_FUNCTION = 40 };
    g->id = hash_u64(of->id ^ hash_u64(number ^ UINT64_C(0x6368696c64)));
    g->is_own = true;
    size_t size = 0;
    for (const char *at = strchr(of->title, '"'); at && *at; at++)
        if (*at != '"' && size < sizeof g->name - ROOM_FOR_FUNCTION) g->name[size++] = *at;
    snprintf(g->name + size, sizeof g->name - size, ", of %s", what);
}

// |before|: how many groups of that name and list were opened here.
static void give_title(gw_group *g, uint64_t before) {
    int size = snprintf(g->title, sizeof g->title, "group \"%s\"", g->name);
    char *end = g->title + size;
    size_t left = sizeof g->title - (size_t)size;
    if (g->generation == 1)
        snprintf(end, left, " (re-formed once)");
    else if (g->generation)
        snprintf(end, left, " (re-formed %u times)", g->generation);
    else if (before)
        snprintf(end, left, " (opened %llu times)", (unsigned long long)before + 1);
}

// Counts the opening, also one that is refused, so that the next one has the same id on all members. 0: allocation
// failed.
static uint64_t draw_id(groups *x, gw_group *g) {
    uint64_t name = g->has_name ? hash_of_name(g) : 0;
    uint64_t same = hash_u64(g->list ^ name);
    uintptr_t before = (uintptr_t)map_find(&x->opened, same);
    if (!map_put(&x->opened, same, (void *)(before + 1))) return 0;
    give_title(g, before);
    return hash_u64((g->has_name ? name : g->list) ^ before);
}

static gw_status open_id(groups *x, gw_group *g, gw_error *error) {
    g->id = draw_id(x, g);
    if (!g->id) return error_set(error, GW_NO_MEMORY, "no memory for a group");
    if (!map_find(&x->groups, g->id) && !(g->has_name && is_open(x, g))) return GW_OK;
    return error_set(error, GW_DUPLICATE, "a group \"%s\" is open on this worker already", g->name);
}

// GRP-7.
bool groups_has_left_on_loop(const agent *a, int rank) {
    const member *m = agent_member(a, rank);
    return m->lost && m->left && groups_part_of(a, rank)->has_departed;
}

// GRP-8: a member may have left in order. One that this worker shared no group with sends no *depart*.
static bool may_be_member(const agent *a, int rank) {
    const member *m = agent_member(a, rank);
    bool has_shared = groups_part_of(a, rank)->shares_group;
    return !m->lost || groups_has_left_on_loop(a, rank) || (m->left && !has_shared);
}

static gw_status check_members(const gw_group *g, gw_error *error) {
    for (int i = 0; i < g->count; i++) {
        int rank = g->members[i].rank;
        if (may_be_member(g->agent, rank)) continue;
        *error = agent_why_lost(agent_member(g->agent, rank));
        return error->status;
    }
    return GW_OK;
}

int group_count_lost_on_loop(const gw_group *g) {
    int count = 0;
    for (int i = 0; i < g->count; i++) count += agent_member(g->agent, g->members[i].rank)->lost;
    return count;
}

static void meet_members(gw_group *g) {
    for (int i = 0; i < g->count; i++) {
        groups_part *p = groups_part_of(g->agent, g->members[i].rank);
        p->has_departed |= !p->shares_group && agent_member(g->agent, g->members[i].rank)->left;
        p->shares_group = true;
    }
    g->left_count = group_count_lost_on_loop(g);
}

// A group that has its id is a next generation, or a child: it is broken if a member is lost already, as it is on the
// members that have opened it before.
gw_status groups_add_on_loop(gw_group *g, gw_error *out_lost, gw_error *error) {
    agent *a = g->agent;
    give_title(g, 0);
    if (a->phase == AGENT_LEFT) return agent_left_error(a, "a group", error);
    groups *x = groups_of(a);
    gw_status status = check_members(g, out_lost);
    if (g->id)
        status = GW_OK;
    else if (status)
        *error = *out_lost;
    if (!status && !g->id) status = open_id(x, g, error);
    if (!status && x->groups.count >= LIMIT_GROUPS)
        status =
            error_set(error, GW_LIMIT, "this worker would have more than %d groups", LIMIT_GROUPS);
    if (status) return status;
    if (!put(x, g)) return error_set(error, GW_NO_MEMORY, "no memory for a group");
    meet_members(g);
    if (out_lost->status) out_lost->status = GW_DISCONNECTED;
    return GW_OK;
}

// GRP-8.
bool groups_refuse_on_loop(gw_group *g) {
    gw_error lost;
    groups *x = groups_of(g->agent);
    if (g->agent->phase == AGENT_LEFT || check_members(g, &lost)) return false;
    if (!g->id) g->id = draw_id(x, g);
    if (!g->id || map_find(&x->groups, g->id) || !put(x, g)) return false;
    meet_members(g);
    return true;
}

// The name ends with how many of that list there were before, except for the first.
gw_status groups_add_world_on_loop(gw_group *g, gw_error *out_lost, gw_error *error) {
    groups *x = groups_of(g->agent);
    uint64_t same = hash_u64(g->list ^ UINT64_C(0x776f726c64));
    uintptr_t before = (uintptr_t)map_find(&x->opened, same);
    size_t at = strlen(g->name);
    snprintf(g->name + at, sizeof g->name - at, before ? " (all %llu)" : " (all)",
             (unsigned long long)before + 1);
    g->id = hash_u64(same ^ before);
    g->is_own = true;
    if (map_find(&x->groups, g->id))
        return error_set(error, GW_WRONG_STATE,
                         "another thread of this worker is opening the group of all workers");
    if (!map_put(&x->opened, same, (void *)(before + 1)) || !map_put(&x->worlds, g->list, g))
        return error_set(error, GW_NO_MEMORY, "no memory for a group");
    gw_status status = groups_add_on_loop(g, out_lost, error);
    if (status)
        map_take(&x->worlds, g->list);
    else
        handle_retain(g);
    return status;
}

void groups_remember_closed_on_loop(const agent *a, closed_group was) {
    groups *x = groups_of(a);
    bool is_forgotten = was.next_generation && has_mutation(MUTATION_GENERATION_FORGOTTEN);
    if (!is_forgotten && !x->closed) x->closed = mem_calloc(CLOSED_GROUPS * sizeof *x->closed);
    if (is_forgotten || !x->closed) {
        error_forget(&was.broken);
        return;
    }
    closed_group *at = &x->closed[x->closed_count++ % CLOSED_GROUPS];
    error_forget(&at->broken);
    *at = was;
}

static const closed_group *find_closed(const groups *x, uint64_t id, const uint64_t *list) {
    for (uint32_t i = 0; x->closed && i < CLOSED_GROUPS && i < x->closed_count; i++)
        if (x->closed[i].id == id && (!list || x->closed[i].list == *list)) return &x->closed[i];
    return NULL;
}

// Another list under the name of a closed group is another group, which has its id.
const closed_group *groups_find_closed_on_loop(const agent *a, const group_header *h) {
    return find_closed(groups_of(a), h->group, &h->list);
}

bool groups_has_met_on_loop(const agent *a, uint64_t id) {
    return group_find_on_loop(a, id) || find_closed(groups_of(a), id, NULL);
}

void groups_remove_on_loop(gw_group *g, uint64_t released) {
    groups *x = groups_of(g->agent);
    if (map_find(&x->groups, g->id) != g) return;
    take_out(x, g);
    const gw_error *missed_error = group_missed_error_on_loop(g);
    if (missed_error && !x->missed_error) error_keep(&x->missed_error, missed_error);
    closed_group was = { .id = g->id,
                         .list = g->list,
                         .released = released,
                         .next_generation = g->is_over ? g->generation + 1 : 0,
                         .leader = g->members[group_leader_on_loop(g)].rank };
    if (g->broken.status && !g->is_over) error_keep(&was.broken, &g->broken);
    groups_remember_closed_on_loop(g->agent, was);
}

gw_group *groups_next_on_loop(const agent *a, map_cursor *at) {
    return map_next(&groups_of(a)->groups, at) ? at->value : NULL;
}

int group_leader_on_loop(const gw_group *g) {
    int i = 0;
    while (i + 1 < g->count && agent_member(g->agent, g->members[i].rank)->lost) i++;
    return i;
}

void group_put_silent_on_loop(const gw_group *g, int leader,
                              bool (*is_silent)(const gw_group *g, int index), text_builder *out) {
    int count = 0;
    for (int i = 0; i < g->count; i++) {
        if (leader == g->self ? !is_silent(g, i) : i != leader) continue;
        if (count++ < NAMED_MAX)
            text_put(out, "%s%s", count > 1 ? ", " : "", group_member_name(g, i));
    }
    if (count > NAMED_MAX) text_put(out, " and %d others", count - NAMED_MAX);
    if (!count) return;
    text_put(out, " %s not answer %s: ", count > 1 ? "do" : "does", group_member_name(g, g->self));
}

bool group_leads_on_loop(const gw_group *g) {
    return group_leader_on_loop(g) == g->self;
}
