// Releasing references, in batches (REF-5).
#include "reference/references.h"

#include "base/failpoint.h"

#include "base/mutation.h"

#include <string.h>

enum { BATCH_NS = 1000 * 1000 };  // how long a release waits, to go in one message with others

static void fire(timer *t) {
    release_flush_on_loop(list_entry(t, references, release_timer)->agent);
}

void fork_queue_release_on_loop(gw_rref *r) {
    references *rs = references_of(r->agent);
    map_take(&rs->pending, r->fork);
    list_append(&reference_peer_of(r->agent, r->owner)->releases, &r->out);
    rs->release_count++;
    if (rs->release_timer.armed) return;
    env *e = rs->agent->env;
    rs->release_timer.fire = fire;
    env_set_timer(e, &rs->release_timer, env_now_ns(e) + BATCH_NS);
}

void release_on_loop(gw_rref *r) {
    agent *a = r->agent;
    // REF-4: forks made of it need it until child accept, and so does its parent while it is
    // pending.
    r->leaving = r->pin_count > 0 || (r->state == FORK_PENDING && r->parent >= 0);
    if (r->leaving) return;
    if (a->phase != AGENT_LEFT) fork_apply_on_loop(r, FORK_DROPPED);
    if (r->dropped && !list_has(&r->out)) rref_forget_on_loop(r);
}

static bool write_release(references *rs, int owner) {
    message *m = agent_message_on_loop(rs->agent, KIND_RELEASE);
    if (!m) return false;
    uint32_t count = 0;
    bytes_put_u32(&m->head, 0);
    list_each(l, &reference_peer_of(rs->agent, owner)->releases) {
        const gw_rref *r = list_entry(l, gw_rref, out);
        bytes_put_u64(&m->head, r->id);
        bytes_put_u64(&m->head, r->fork);
        count++;
    }
    if (m->head.failed) {
        message_release(m);
        return false;
    }
    memcpy(m->head.data, &count, sizeof count);
    // Sending fails only if the owner is lost; then it needs no release.
    agent_send_on_loop(rs->agent, owner, m, false, NULL);
    return true;
}

static void finish(references *rs, int owner) {
    for (list_node *l; (l = list_take(&reference_peer_of(rs->agent, owner)->releases));) {
        gw_rref *r = list_entry(l, gw_rref, out);
        rs->release_count--;
        if (r->dropped) rref_forget_on_loop(r);
    }
}

// False to try again. Sessions hold the message while there is no connection.
static bool send_releases(references *rs, int owner) {
    const agent *a = rs->agent;
    if (agent_member(rs->agent, owner)->lost || a->phase == AGENT_LEFT) return true;
    if (has_mutation(MUTATION_GIVE_UP) && !peers_is_connected(a->peers, owner))
        return ++rs->release_tries > 5;
    rs->release_tries = 0;
    return write_release(rs, owner);
}

void release_flush_on_loop(agent *a) {
    references *rs = references_of(a);
    bool again = false;
    if (rs->release_count) failpoint("delete");
    for (int owner = 0; owner < a->member_count && rs->release_count; owner++) {
        if (list_is_empty(&reference_peer_of(a, owner)->releases)) continue;
        if (send_releases(rs, owner)) {
            finish(rs, owner);
        } else {
            again = true;
        }
    }
    int64_t due_ns = again ? env_now_ns(a->env) + BATCH_NS : ENV_NEVER;
    if (again || rs->release_timer.armed) env_set_timer(a->env, &rs->release_timer, due_ns);
    leaving_check_on_loop(a);
}

gw_status release_received_on_loop(agent *a, int from, message *m, gw_error *error) {
    reader r = reader_of(m->head.data, m->head.size);
    uint32_t count = reader_u32(&r);
    for (uint32_t i = 0; i < count && !r.failed; i++) {
        uint64_t id = reader_u64(&r), fork = reader_u64(&r);
        entry *e = r.failed ? NULL : entry_of_on_loop(a, id);
        if (e) entry_remove_holder_on_loop(e, fork, from);
    }
    bool cut = r.failed;
    message_release(m);
    return cut ? error_set(error, GW_PROTOCOL, "release: cut off") : GW_OK;
}
