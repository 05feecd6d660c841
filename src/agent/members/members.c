// Drives the membership machine over the sessions with peers, with one timer.
#include "agent/members/members.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/mutation.h"
#include "base/system_error.h"
#include "net/transport/exhausted.h"

_Static_assert((int)MEMBERS_KIND_LAST >= (int)MEMBERSHIP_CALL_BACK, "room for the last");

static int64_t now_of(const members *m) {
    if (has_mutation(MUTATION_WALL_CLOCK)) return env_wall_ns(m->options.env);
    return env_now_ns(m->options.env);
}

// ---- Callbacks of the machine -------------------------------------------------------------------
static void on_send(void *user, int rank, message *msg) {
    members *m = user;
    gw_error error;
    // Later heartbeats replace a message that cannot be sent now, or the peer is lost.
    peers_send(m->options.peers, rank, msg, true, &error);
}

static void on_joined(void *user, const member_fact *fact) {
    const membership_options *o = &((members *)user)->options.machine;
    o->joined(o->user, fact);
}

static void on_gone(void *user, int rank, bool left, const gw_error *why) {
    members *m = user;
    const membership_options *o = &m->options.machine;
    peers *p = m->options.peers;
    if (left) peers_note_left(p, rank);
    if (!membership_was_present(m->machine, rank)) peers_expect_loss(p, rank);
    if (!has_mutation(MUTATION_NO_FENCING)) peers_lose(p, rank, why);
    o->gone(o->user, rank, left, why);
}

static void on_suspected(void *user, int rank, bool is_suspected) {
    const membership_options *o = &((members *)user)->options.machine;
    o->suspected(o->user, rank, is_suspected);
}

static void on_coordinator_changed(void *user, int coordinator) {
    const membership_options *o = &((members *)user)->options.machine;
    o->coordinator_changed(o->user, coordinator);
}

// The other members ignore this worker from now on, and it ignores them.
static void on_fenced(void *user, const gw_error *why) {
    members *m = user;
    const membership_options *o = &m->options.machine;
    env_set_timer(m->options.env, &m->tick, ENV_NEVER);
    log_error("%s", why->text);
    o->fenced(o->user, why);
    for (int rank = 0; rank < membership_limit(m->machine); rank++)
        if (rank != o->rank) peers_lose(m->options.peers, rank, why);
}

// ---- Time ---------------------------------------------------------------------------------------
static bool has_counts(members *m, int limit) {
    if (limit <= m->count_limit) return true;
    uint64_t *grown = mem_realloc(m->received_counts, (size_t)limit * sizeof *grown);
    if (!grown) return false;
    for (int i = m->count_limit; i < limit; i++) grown[i] = 0;
    m->received_counts = grown;
    m->count_limit = limit;
    return true;
}

// Compares the counts of received messages at each tick to detect silent peers: so receiving itself does no extra work.
static void check_received(members *m, int64_t now_ns) {
    int limit = membership_limit(m->machine);
    if (!has_counts(m, limit)) limit = m->count_limit;
    for (int rank = 0; rank < limit; rank++) {
        uint64_t count = peers_received_count(m->options.peers, rank);
        if (count == m->received_counts[rank]) {
            peers_ping(m->options.peers, rank);  // should it have been lost below the session
            continue;
        }
        m->received_counts[rank] = count;
        membership_note_receive(m->machine, rank, now_ns);
    }
}

// MEM-25: the other member may be in the same state, and neither would be declared dead.
static void leave_without_descriptors(members *m, int64_t now_ns) {
    const membership_options *o = &m->options.machine;
    peers *p = m->options.peers;
    int lack = exhausted_for_long();
    int rank = lack ? peers_find_unreachable(p, LACKS_S * (int64_t)1000000000) : -1;
    if (rank < 0) return;
    gw_error why;
    error_set(&why, GW_FENCED,
              "%s leaves the job: it could not open a connection to %s (rank %d) within %d s: %s",
              o->name, peers_name(p, rank), rank, LACKS_S, system_error_text(lack).text);
    error_set_lost(&why, GW_LOSS_CUT_OFF, o->rank, o->incarnation, o->name);
    membership_lost(m->machine, rank, false, &why, now_ns);
}

static void on_tick(timer *t) {
    members *m = (members *)((char *)t - offsetof(members, tick));
    int64_t now_ns = now_of(m);
    check_received(m, now_ns);
    leave_without_descriptors(m, now_ns);
    int64_t due_ns = membership_tick(m->machine, now_ns);
    if (has_mutation(MUTATION_WALL_CLOCK) && due_ns != ENV_NEVER)
        due_ns = env_now_ns(m->options.env) + due_ns - now_ns;
    env_set_timer(m->options.env, &m->tick, due_ns);
}

// ---- Life ---------------------------------------------------------------------------------------
gw_status members_open(members_options options, members **out, gw_error *error) {
    members *m = mem_calloc(sizeof *m);
    if (!m) return error_set(error, GW_NO_MEMORY, "no memory for an agent");
    m->options = options;
    m->tick.fire = on_tick;
    membership_options o = options.machine;
    o.user = m;
    o.send = on_send;
    o.joined = on_joined;
    o.gone = on_gone;
    o.suspected = on_suspected;
    o.coordinator_changed = on_coordinator_changed;
    o.fenced = on_fenced;
    gw_status status = membership_open(o, &m->machine, error);
    if (status) {
        mem_free(m);
        return status;
    }
    *out = m;
    return GW_OK;
}

void members_close(members *m) {
    if (!m) return;
    env_set_timer(m->options.env, &m->tick, ENV_NEVER);
    membership_close(m->machine);
    mem_free(m->received_counts);
    mem_free(m);
}

void members_start(members *m) {
    peers_disable_timeout(m->options.peers);
    membership_start(m->machine, now_of(m));
    if (!membership_is_fenced(m->machine))
        env_set_timer(m->options.env, &m->tick, env_now_ns(m->options.env));
}

gw_status members_admit(members *m, uint64_t incarnation, const char *name, const char *addresses,
                        int *out_rank, gw_error *error) {
    return membership_admit(m->machine, incarnation, name, addresses, now_of(m), out_rank, error);
}

// ---- Evidence -----------------------------------------------------------------------------------
gw_status members_received(members *m, int from, message *msg, gw_error *error) {
    gw_status status = membership_received(m->machine, from, msg, now_of(m), error);
    message_release(msg);
    return status;
}

void members_lost(members *m, int rank, const gw_error *why) {
    bool left = peers_has_left(m->options.peers, rank);
    membership_lost(m->machine, rank, left, why, now_of(m));
}
