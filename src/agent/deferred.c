#include "agent/deferred.h"

#include "agent/dispatch.h"
#include "agent/member_table.h"
#include "agent/leave.h"

#include <string.h>

enum {
    EARLY_MAX = 65536,  // messages
    EARLY_S = 30        // longer than a new coordinator takes to tell everybody
};

// ---- Whom a message names -----------------------------------------------------------------------

bool deferred_is_unknown(const agent *a, uint64_t rank) {
    return rank < LIMIT_WORKERS && !member_table_has_heard_of(a, (uint32_t)rank);
}

// Bytes that mean nothing are found when they are read.
bool deferred_table_names_unknown(const agent *a, const message *m, size_t at) {
    if (!at || at > m->head.size) return false;
    reader r = reader_of(m->head.data + at, m->head.size - at);
    for (uint32_t left = reader_u32(&r); left && !r.failed; left--) {
        const attachment_class *c = agent_attachment_of_type(a, reader_u8(&r));
        if (r.failed || !c) return false;
        if (c->names_unknown(a, &r)) return true;
    }
    return false;
}

uint64_t deferred_u64_at(const message *m, size_t at) {
    uint64_t x = 0;
    if (at + sizeof x <= m->head.size) memcpy(&x, m->head.data + at, sizeof x);
    return x;
}

static bool names_unknown(const agent *a, const message *m) {
    const service *s = agent_service_of_kind(a, m->kind);
    return s && s->names_unknown && s->names_unknown(a, m);
}

// ---- Waiting ------------------------------------------------------------------------------------

static void blame_all(timer *t) {
    agent *a = list_entry(t, agent, deferred.limit);
    gw_error error;
    error_set(&error, GW_PROTOCOL, "a message that names a worker that is no member");
    for (int rank = 0; rank < a->member_count; rank++)
        if (!list_is_empty(&agent_member(a, rank)->deferred))
            dispatch_protocol_error_on_loop(a, rank, &error);
}

bool deferred_keep_on_loop(agent *a, int from, message *m) {
    member *sender = agent_member(a, from);
    if (!a->group || (list_is_empty(&sender->deferred) && !names_unknown(a, m))) return false;
    list_append(&sender->deferred, &m->link);
    if (a->deferred.count++ == 0) {
        a->deferred.limit.fire = blame_all;
        env_set_timer(a->env, &a->deferred.limit,
                      env_now_ns(a->env) + EARLY_S * INT64_C(1000000000));
    } else if (a->deferred.count > EARLY_MAX) {
        env_set_timer(a->env, &a->deferred.limit, env_now_ns(a->env));
    }
    return true;
}

static message *take(agent *a, member *sender) {
    message *m = list_entry(list_take(&sender->deferred), message, link);
    if (--a->deferred.count == 0) env_set_timer(a->env, &a->deferred.limit, ENV_NEVER);
    return m;
}

static void retry(task *t) {
    agent *a = list_entry(t, agent, deferred.retry);
    env_enter(a->env);
    a->deferred.retrying = false;
    for (int rank = 0; rank < a->member_count && a->deferred.count; rank++) {
        member *sender = agent_member(a, rank);
        while (!list_is_empty(&sender->deferred) &&
               !names_unknown(a, list_entry(sender->deferred.next, message, link)))
            dispatch_on_loop(a, rank, take(a, sender));
    }
    leaving_check_on_loop(a);
    env_leave(a->env);
}

void deferred_retry_on_loop(agent *a) {
    if (!a->deferred.count || a->deferred.retrying) return;
    a->deferred.retrying = true;
    a->deferred.retry.run = retry;
    env_defer(a->env, &a->deferred.retry);
}

void deferred_drop_on_loop(agent *a, int from) {
    member *sender = agent_member(a, from);
    while (!list_is_empty(&sender->deferred)) message_release(take(a, sender));
}

void deferred_close_on_loop(agent *a) {
    for (int rank = 0; rank < a->member_count; rank++) deferred_drop_on_loop(a, rank);
}
