#include "agent/dispatch.h"

#include "agent/awaits.h"
#include "agent/deferred.h"
#include "agent/leave.h"

#include <assert.h>

// ---- Sending and receiving ----------------------------------------------------------------------

message *dispatch_make_spare(void) {
    message *m = message_open(0);
    if (!m) return NULL;
    bytes_extend(&m->head, AGENT_SMALL_BYTES);
    m->head.size = 0;
    if (!m->head.failed) return m;
    message_release(m);
    return NULL;
}

message *agent_message_on_loop(agent *a, uint8_t kind) {
    message *m = dispatch_make_spare();
    if (!m) {
        m = a->spare;
        a->spare = NULL;
    } else if (!a->spare) {
        a->spare = dispatch_make_spare();
    }
    if (m) m->kind = kind;
    return m;
}

static gw_status dispatch(agent *a, int from, message *m, gw_error *error) {
    if (leaving_is_kind(m->kind)) return leaving_received_on_loop(a, from, m, error);
    if (await_is_kind(m->kind)) return awaits_received_on_loop(a, from, m, error);
    const service *s = agent_service_of_kind(a, m->kind);
    if (s) return s->received(a, from, m, error);
    gw_status status = error_set(error, GW_PROTOCOL, "a message of kind %d", m->kind);
    message_release(m);
    return status;
}

static bool is_about_members(const message *m) {
    return m->kind >= MEMBERS_KIND_FIRST && m->kind <= MEMBERS_KIND_LAST;
}

static bool is_counted(const message *m) {
    return !leaving_is_kind(m->kind) && !await_is_kind(m->kind);
}

// A peer that sends a malformed message is lost, since the meaning of its messages is unknown.
void dispatch_protocol_error_on_loop(agent *a, int rank, const gw_error *why) {
    gw_error error;
    error_set(&error, GW_PROTOCOL, "%s (rank %d) broke the protocol: %s",
              agent_member(a, rank)->name, rank, why->text);
    if (rank != a->rank && a->peers) peers_lose(a->peers, rank, &error);
}

void dispatch_on_loop(agent *a, int from, message *m) {
    gw_error error;
    if (dispatch(a, from, m, &error)) dispatch_protocol_error_on_loop(a, from, &error);
}

void dispatch_receive(void *user, int from, message *m) {
    agent *a = user;
    gw_error error;
    if (a->fence.status) {
        message_release(m);
    } else if (is_about_members(m)) {
        if (members_received(a->membership, from, m, &error))
            dispatch_protocol_error_on_loop(a, from, &error);
        if (a->joining && members_has_joined(a->membership)) env_wake(a->env, a->joining);
    } else {
        if (is_counted(m)) agent_member(a, from)->received++;
        if (from != a->rank) a->messages_received++;
        if (!deferred_keep_on_loop(a, from, m) && !deferred_keep_incomplete_on_loop(a, from, m))
            dispatch_on_loop(a, from, m);
        leaving_check_on_loop(a);  // a request that was refused takes the promises in it with it
    }
}

void dispatch_writable(void *user, int rank) {
    agent *a = user;
    for (int i = 0; i < a->service_count && rank < a->member_count; i++)
        if (a->services[i].service->writable) a->services[i].service->writable(a, rank);
}

// One message at a time: its effects precede the next message, as with messages of others.
static void run_loopback(task *t) {
    agent *a = list_entry(t, agent, loopback_task);
    env_enter(a->env);
    a->loopback_deferred = false;
    list_node *l = list_take(&a->loopback);
    if (!list_is_empty(&a->loopback)) {
        a->loopback_deferred = true;
        env_defer(a->env, &a->loopback_task);
    }
    if (l) dispatch_receive(a, a->rank, list_entry(l, message, link));
    for (int i = 0; i < a->service_count; i++)
        if (a->services[i].service->swept) a->services[i].service->swept(a);
    leaving_check_on_loop(a);
    env_leave(a->env);
}

// The receiver gets a copy: the caller may write its tensors, while its message pins the blocks that it was sent from.
static gw_status send_to_self(agent *a, message *m, gw_error *error) {
    message *copy = message_copy(m);
    message_release(m);
    if (!copy) return error_set(error, GW_NO_MEMORY, "no memory for a message");
    list_append(&a->loopback, &copy->link);
    if (!a->loopback_deferred) {
        a->loopback_deferred = true;
        a->loopback_task.run = run_loopback;
        env_defer(a->env, &a->loopback_task);
    }
    return GW_OK;
}

gw_status agent_send_on_loop(agent *a, int rank, message *m, bool flush, gw_error *error) {
    assert(env_held(a->env));
    bool counted = is_counted(m);
    gw_status status;
    if (a->fence.status) {
        message_release(m);
        status = agent_left_error(a, "a message", error);
    } else if (rank == a->rank) {
        status = send_to_self(a, m, error);
    } else if (a->peers) {
        status = peers_send(a->peers, rank, m, flush, error);
    } else {
        message_release(m);
        status = agent_left_error(a, "a message", error);
    }
    if (!status && counted) agent_member(a, rank)->sent++;
    if (!status && rank != a->rank) a->messages_sent++;
    return status;
}

gw_status agent_check_on_loop(agent *a, int rank, gw_error *error) {
    const member *m = agent_member(a, rank);
    if (a->phase == AGENT_LEFT) return agent_left_error(a, "a call", error);
    if (!m->lost) return GW_OK;
    if (!m->known) return error_set(error, GW_DISCONNECTED, "rank %d is not known here", rank);
    *error = *m->why;
    error_prefix(error, m->name);
    return error->status;
}

void dispatch_drop_loopback(agent *a) {
    for (list_node *l; (l = list_take(&a->loopback));)
        message_release(list_entry(l, message, link));
}
