// Faults of nodes and of links between them: crashes, stops, partitions, steps of the wall
// clock.
#include <assert.h>

#include "testing/sim_net.h"

static void note(sim *s, const char *what, int a, int b) {
    sim_note(s, NULL, what, (uint64_t)a, (uint64_t)b);
    s->last_fault_ns = s->now_ns;
}

int64_t sim_last_fault_ns(const sim *s) {
    return s->last_fault_ns;
}

// ---- Crashes ------------------------------------------------------------------------------------

// The others may get the bytes that had left the node, or lose some of them, as with a kernel that resets a
// stream which has bytes that its end has not read.
static void end_at_peer(sim *s, sim_stream *peer) {
    peer->peer = NULL;
    if (sim_chance(s, 500000)) {
        sim_lose_from_some_byte(peer, "closed by the peer");
    } else {
        sim_end_after_bytes(peer, "closed by the peer");
    }
}

static void make_ghostly(sim *s, sim_stream *c) {
    if (c->peer) end_at_peer(s, c->peer);
    c->peer = NULL;
    c->remote_node = -1;
    c->holds_arrival = c->holds_approach = c->holds_room = false;
    c->size = 0;
    c->is_cut = true;
    if (!c->accepter) sim_event_at(s, &c->approach, ENV_NEVER);
    sim_end_after_bytes(c, c->state == STREAM_CONNECTING ? sim_refused : "closed by the peer");
}

void sim_crash(sim *s, int node) {
    list_each(l, &s->envs) {
        sim_env_ *x = list_entry(l, sim_env_, link);
        if (x->node != node || x->closed || x->is_ghost) continue;
        note(s, "crashes", node, 0);
        s->counts.crashes++;
        s->nodes[node].is_stopped = false;
        s->nodes[node].crashed_ns = s->now_ns;
        x->is_ghost = true;
        list_each(k, &x->conns) make_ghostly(s, list_entry(k, sim_stream, link));
    }
}

bool sim_is_ghost(const env *e) {
    return ((const sim_env_ *)e)->is_ghost;
}

bool sim_is_crashed(const sim *s, int node) {
    bool is_crashed = false;
    list_each(l, &s->envs) {
        const sim_env_ *x = list_entry(l, sim_env_, link);
        if (x->node == node) is_crashed = x->is_ghost;
    }
    return is_crashed;
}

int64_t sim_crashed_ns(const sim *s, int node) {
    return sim_is_crashed(s, node) ? s->nodes[node].crashed_ns : ENV_NEVER;
}

// ---- Away ---------------------------------------------------------------------------------------

static bool is_parted(const sim *s, int node) {
    for (int k = 0; k < SIM_NODES_MAX / 64; k++)
        if (s->nodes[node].clogged[k]) return true;
    for (int i = 0; i < SIM_NODES_MAX; i++)
        if (sim_is_clogged(s, i, node)) return true;
    return false;
}

static void account_away(sim *s, int node) {
    sim_node *n = &s->nodes[node];
    if (n->is_away) n->away_ns += s->now_ns - n->away_since_ns;
    n->away_since_ns = s->now_ns;
    n->is_away = n->is_stopped || is_parted(s, node);
}

int64_t sim_away_ns(const sim *s, int node) {
    const sim_node *n = &s->nodes[node];
    return n->away_ns + (n->is_away ? s->now_ns - n->away_since_ns : 0);
}

// ---- Stops --------------------------------------------------------------------------------------

void sim_stop(sim *s, int node) {
    if (s->nodes[node].is_stopped) return;
    note(s, "stops", node, 0);
    s->counts.stops++;
    s->nodes[node].is_stopped = true;
    account_away(s, node);
}

void sim_continue(sim *s, int node) {
    if (!s->nodes[node].is_stopped) return;
    note(s, "continues", node, 0);
    s->nodes[node].is_stopped = false;
    account_away(s, node);
}

bool sim_is_stopped(const sim *s, int node) {
    return s->nodes[node].is_stopped;
}

// ---- Links --------------------------------------------------------------------------------------

bool sim_is_clogged(const sim *s, int from, int to) {
    return from >= 0 && to >= 0 && (s->nodes[from].clogged[to / 64] >> (to % 64) & 1);
}

static void hold_link(sim *s, int from, int to) {
    s->nodes[from].clogged[to / 64] |= UINT64_C(1) << (to % 64);
}

static void free_link(sim *s, int from, int to) {
    s->nodes[from].clogged[to / 64] &= ~(UINT64_C(1) << (to % 64));
}

static void each_conn(sim *s, void (*visit)(sim *s, sim_stream *c)) {
    list_each(l, &s->envs) {
        sim_env_ *x = list_entry(l, sim_env_, link);
        list_each(k, &x->conns) visit(s, list_entry(k, sim_stream, link));
    }
}

static void hold(sim *s, sim_stream *c) {
    if (!sim_is_clogged(s, c->remote_node, c->env->node)) return;
    if (sim_event_is_set(&c->arrival)) c->holds_arrival = true;
    if (sim_event_is_set(&c->room)) c->holds_room = true;
    sim_event_at(s, &c->arrival, ENV_NEVER);
    sim_event_at(s, &c->room, ENV_NEVER);
}

static void resume(sim *s, sim_stream *c) {
    if (c->holds_approach && !sim_is_clogged(s, c->env->node, c->remote_node)) {
        c->holds_approach = false;
        sim_event_at(s, &c->approach, s->now_ns + sim_delay_ns(s));
    }
    if (sim_is_clogged(s, c->remote_node, c->env->node)) return;
    bool arrives = c->holds_arrival, has_room = c->holds_room;
    c->holds_arrival = c->holds_room = false;
    if (arrives) sim_arrive_later(c);
    if (has_room) sim_room_later(c);
}

void sim_partition(sim *s, int a, int b, bool a_to_b, bool b_to_a) {
    note(s, "parts", a, b);
    s->counts.partitions++;
    if (a_to_b) hold_link(s, a, b);
    if (b_to_a) hold_link(s, b, a);
    account_away(s, a);
    account_away(s, b);
    each_conn(s, hold);
}

void sim_heal_between(sim *s, int a, int b) {
    note(s, "heals", a, b);
    free_link(s, a, b);
    free_link(s, b, a);
    account_away(s, a);
    account_away(s, b);
    each_conn(s, resume);
}

void sim_heal(sim *s) {
    note(s, "heals all", 0, 0);
    for (int i = 0; i < SIM_NODES_MAX; i++)
        for (int k = 0; k < SIM_NODES_MAX / 64; k++) s->nodes[i].clogged[k] = 0;
    for (int i = 0; i < SIM_NODES_MAX; i++) account_away(s, i);
    each_conn(s, resume);
}

// ---- Wall clocks --------------------------------------------------------------------------------

void sim_step_wall(sim *s, int node, int64_t by_ns) {
    note(s, "steps its wall clock", node, 0);
    s->counts.wall_steps++;
    s->nodes[node].wall_offset_ns += by_ns;
}

// Up to an hour apart, and close to the end of 31 bits of seconds.
void sim_set_walls(sim *s) {
    for (int i = 0; i < SIM_NODES_MAX; i++) {
        uint64_t off = sim_mix(s->seed + (uint64_t)i) % 3600;
        s->nodes[i].wall_offset_ns = ((int64_t)INT32_MAX - 1800 + (int64_t)off) * SIM_SECOND;
    }
}
