// Who enters no more, because its program has asked to leave: its own refusal, and how leaders hear
// of it. COL-5 and COL-6.
#include "base/mem.h"
#include "collective/collective.h"

static bool is_leaving(const agent *a) {
    return a->phase == AGENT_ASKED || a->phase == AGENT_DRAINING;
}

static const char *function_of(bool alone) {
    return alone ? "gw_rpc_leave" : "gw_rpc_shutdown";
}

gw_status collective_check_enters(const agent *a, gw_error *error) {
    if (!is_leaving(a)) return GW_OK;
    return error_set(error, GW_WRONG_STATE, "%s has called %s and enters no collectives any more",
                     a->name, function_of(a->leaving.alone));
}

// ---- The leader's -------------------------------------------------------------------------------

// A round that this worker's threads are in is not left to those outside.
static bool is_excused(const collective_group *m, int index) {
    bool self = m->members[index].rank == (uint32_t)m->agent->rank;
    return self ? is_leaving(m->agent) && !m->inside : m->members[index].excused;
}

int collective_find_excused(const collective_group *m) {
    for (int i = 0; i < m->count; i++)
        if (is_excused(m, i) && !(m->current && collective_has_come(m->current, i))) return i;
    return -1;
}

gw_status collective_excused_error(const collective_group *m, int index, gw_error *error) {
    const group_member *x = &m->members[index];
    bool self = x->rank == (uint32_t)m->agent->rank;
    bool alone = self ? m->agent->leaving.alone : x->alone;
    return error_set(error, GW_DISCONNECTED, "%s has called %s and will not come",
                     collective_name_of(m, index), function_of(alone));
}

static void put_ranks(bytes *head, const collective_group *m) {
    bytes_put_u32(head, (uint32_t)m->count);
    for (int i = 0; i < m->count; i++) bytes_put_u32(head, m->members[i].rank);
}

// Without memory for it nothing is lost: the leader expects them again, COL-6.
static void send(const collective_group *m, int to, message *x) {
    if (!x) return;
    put_ranks(&x->head, m);
    if (x->head.failed)
        message_release(x);
    else
        agent_send_on_loop(m->agent, to, x, true, NULL);
}

void collective_expect_on_loop(const collective_group *m) {
    for (int i = 0; i < m->count; i++) {
        int rank = (int)m->members[i].rank;
        if (rank == m->agent->rank || collective_has_come(m->current, i)) continue;
        send(m, rank, agent_message_on_loop(m->agent, KIND_EXPECT));
    }
}

// ---- The participant's --------------------------------------------------------------------------

static void send_excuse(const collective_group *m) {
    message *x = agent_message_on_loop(m->agent, KIND_EXCUSE);
    if (x) bytes_put_u8(&x->head, m->agent->leaving.alone);
    send(m, (int)m->members[0].rank, x);
}

// What a thread that is inside has sent comes before the excuse, which would else overtake it.
static bool owes_excuse(const collective_group *m) {
    return m->expected && is_leaving(m->agent) && !m->inside;
}

void collective_left_on_loop(collective_group *m) {
    collective_fail_excused_on_loop(m);
    if (owes_excuse(m)) send_excuse(m);
}

// A round that fails may let bodies run that open other rounds, so the search begins again after
// each.
static collective_group *find_failing(agent *a) {
    map_entry *e;
    for (size_t i = 0; (e = map_next(collective_groups_of(a), &i));) {
        collective_group *m = e->value;
        if (m->current && collective_find_excused(m) >= 0) return m;
    }
    return NULL;
}

void collective_leaving(agent *a) {
    for (collective_group *m; (m = find_failing(a));) collective_fail_excused_on_loop(m);
    map_entry *e;
    for (size_t i = 0; (e = map_next(collective_groups_of(a), &i));)
        if (owes_excuse(e->value)) send_excuse(e->value);
}

// ---- Messages -----------------------------------------------------------------------------------

static bool read_ranks(reader *r, uint32_t *out, int *out_count) {
    uint32_t count = reader_u32(r);
    bool valid = count && count <= LIMIT_WORKERS && reader_left(r) == count * sizeof *out;
    for (uint32_t i = 0; valid && i < count; i++) {
        out[i] = reader_u32(r);
        valid = out[i] < LIMIT_WORKERS && (i == 0 || out[i] > out[i - 1]);
    }
    *out_count = (int)count;
    return valid;
}

// Of a group that this worker and |from| are in, one of them as its leader; NULL without memory.
static gw_status find_group(agent *a, reader *r, uint32_t *ranks, int leader, int other,
                            collective_group **out, gw_error *error) {
    int count = 0;
    bool inside = false;
    if (!read_ranks(r, ranks, &count)) return error_set(error, GW_PROTOCOL, "no participants");
    for (int i = 1; i < count; i++) inside = inside || ranks[i] == (uint32_t)other;
    if (ranks[0] != (uint32_t)leader || !inside)
        return error_set(error, GW_PROTOCOL, "participants that cannot be");
    *out = collective_group_of_on_loop(a, ranks, count);
    return GW_OK;
}

// Without memory there is no group, and the message is lost: the leader expects this worker again.
static gw_status read_group(agent *a, reader *r, int leader, int other, collective_group **out,
                            gw_error *error) {
    uint32_t *ranks = mem_alloc(LIMIT_WORKERS * sizeof *ranks);
    gw_status status = ranks ? find_group(a, r, ranks, leader, other, out, error) : GW_OK;
    mem_free(ranks);
    return status;
}

static gw_status expected(agent *a, int from, reader *r, gw_error *error) {
    collective_group *m = NULL;
    gw_status status = read_group(a, r, from, a->rank, &m, error);
    if (!m) return status;
    m->expected = true;
    if (owes_excuse(m)) send_excuse(m);
    return GW_OK;
}

static gw_status excused(agent *a, int from, reader *r, gw_error *error) {
    collective_group *m = NULL;
    bool alone = reader_u8(r) != 0;
    gw_status status = read_group(a, r, a->rank, from, &m, error);
    if (!m) return status;
    group_member *x = &m->members[collective_index_of(m, from)];
    x->excused = true;
    x->alone = alone;
    collective_fail_excused_on_loop(m);
    return GW_OK;
}

gw_status collective_received(agent *a, int from, message *m, gw_error *error) {
    reader r = reader_of(m->head.data, m->head.size);
    gw_status status =
        m->kind == KIND_EXPECT ? expected(a, from, &r, error) : excused(a, from, &r, error);
    message_release(m);
    return status;
}
