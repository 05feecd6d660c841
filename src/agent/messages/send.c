#include "agent/messages/send.h"

#include "agent/messages/kinds.h"
#include "trace/record.h"

#include <assert.h>

message *send_make_spare(void) {
    message *m = message_open(0);
    if (!m) return NULL;
    bytes_extend(&m->head, AGENT_SMALL_BYTES);
    m->head.size = 0;
    if (!m->head.failed) return m;
    message_release(m);
    return NULL;
}

message *agent_message_on_loop(agent *a, uint8_t kind) {
    message *m = send_make_spare();
    if (!m) {
        m = a->spare;
        a->spare = NULL;
    } else if (!a->spare) {
        a->spare = send_make_spare();
    }
    if (m) m->kind = kind;
    return m;
}

// The receiver gets a copy: the caller may write its tensors, while its message pins the blocks that it was sent from.
static gw_status send_to_self(agent *a, message *m, gw_error *error) {
    message *copy = message_copy(m);
    message_release(m);
    if (!copy) return error_set(error, GW_NO_MEMORY, "no memory for a message");
    list_append(&a->loopback, &copy->link);
    if (!a->loopback_deferred) {
        a->loopback_deferred = true;
        env_defer(a->env, &a->loopback_task);
    }
    return GW_OK;
}

// What a record says about a message to another worker, which may not exist any more when it was sent.
typedef struct sent {
    uint64_t id, size;
    bool is_recorded;
} sent;

static sent sent_of(const agent *a, int rank, const message *m) {
    if (rank == a->rank || !trace_is_on(TRACE_WIRE)) return (sent){ 0 };
    return (sent){ trace_message_id(rank, m->kind), message_size(m), true };
}

static void record_sent(const agent *a, int rank, const sent *x) {
    const char *transport = a->peers ? peers_transport(a->peers, rank) : NULL;
    if (x->is_recorded)
        trace_record_text(TRACE_MESSAGE_SENT, a->observer.row, x->id, x->size, transport);
}

gw_status agent_send_on_loop(agent *a, int rank, message *m, bool flush, gw_error *error) {
    assert(env_held(a->env));
    bool counted = kind_is_counted(m->kind);
    sent what = sent_of(a, rank, m);
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
    if (!status && rank != a->rank) {
        a->messages_sent++;
        agent_member(a, rank)->traffic.messages_sent++;
        record_sent(a, rank, &what);
    }
    return status;
}

bool agent_post_on_loop(agent *a, int rank, message *m) {
    if (m && m->head.failed) {
        message_release(m);
        m = NULL;
    }
    if (!m) return false;
    return agent_send_on_loop(a, rank, m, true, NULL) != GW_NO_MEMORY ||
           agent_member(a, rank)->lost;
}

gw_status agent_check_on_loop(agent *a, int rank, gw_error *error) {
    const member *m = agent_member(a, rank);
    if (a->phase == AGENT_LEFT) return agent_left_error(a, "a call", error);
    if (!m->lost) return GW_OK;
    if (!m->known) return error_set(error, GW_DISCONNECTED, "rank %d is not known here", rank);
    *error = agent_why_lost(m);
    return error->status;
}

void send_drop_loopback(agent *a) {
    for (list_node *l; (l = list_take(&a->loopback));)
        message_release(list_entry(l, message, link));
}
