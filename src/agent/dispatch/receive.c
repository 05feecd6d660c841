#include "agent/dispatch/receive.h"

#include "agent/dispatch/deferred.h"
#include "agent/dispatch/dispatch.h"
#include "agent/members/members.h"
#include "agent/messages/kinds.h"
#include "trace/record.h"

static bool is_about_members(const message *m) {
    return m->kind >= MEMBERS_KIND_FIRST && m->kind <= MEMBERS_KIND_LAST;
}

static void record(const agent *a, int from, const message *m) {
    const char *transport = a->peers ? peers_transport(a->peers, from) : NULL;
    trace_record_text(TRACE_MESSAGE_RECEIVED, a->observer.row, trace_message_id(from, m->kind),
                      message_size(m), transport);
}

void receive_message(void *user, int from, message *m) {
    agent *a = user;
    gw_error error;
    if (a->fence.status) {
        message_release(m);
    } else if (is_about_members(m)) {
        if (members_received(a->membership, from, m, &error))
            dispatch_protocol_error_on_loop(a, from, &error);
        if (a->joining && membership_has_joined(a->membership->machine))
            env_wake(a->env, a->joining);
    } else {
        if (kind_is_counted(m->kind)) agent_member(a, from)->received++;
        if (from != a->rank) {
            a->messages_received++;
            agent_member(a, from)->traffic.messages_received++;
            if (trace_is_on(TRACE_WIRE)) record(a, from, m);
        }
        if (!deferred_keep_on_loop(a, from, m) && !deferred_keep_incomplete_on_loop(a, from, m))
            dispatch_on_loop(a, from, m);
        leaving_check_on_loop(a);  // a request that was refused takes the promises in it with it
    }
}

void receive_writable(void *user, int rank) {
    agent *a = user;
    for (int i = 0; i < a->service_count && rank < a->member_count; i++)
        if (a->services[i].service->writable) a->services[i].service->writable(a, rank);
}

// One message at a time: its effects precede the next message, as with messages of others.
void receive_loopback(task *t) {
    agent *a = list_entry(t, agent, loopback_task);
    env_enter(a->env);
    a->loopback_deferred = false;
    list_node *l = list_take(&a->loopback);
    if (!list_is_empty(&a->loopback)) {
        a->loopback_deferred = true;
        env_defer(a->env, &a->loopback_task);
    }
    if (l) receive_message(a, a->rank, list_entry(l, message, link));
    for (int i = 0; i < a->service_count; i++)
        if (a->services[i].service->swept) a->services[i].service->swept(a);
    leaving_check_on_loop(a);
    env_leave(a->env);
}
