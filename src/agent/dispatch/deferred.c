#include "agent/dispatch/deferred.h"

#include "agent/dispatch/dispatch.h"
#include "agent/leaving/leave.h"
#include "agent/members/member_table.h"

#include <string.h>

enum {
    DEFERRED_MAX = 65536,  // messages
    DEFERRED_S = 30        // longer than a new coordinator takes to notify all members
};

// ---- The workers that a message names -----------------------------------------------------------

bool deferred_is_unknown(const agent *a, uint64_t rank) {
    return rank < LIMIT_WORKERS && !member_table_is_known(a, (uint32_t)rank);
}

// Malformed bytes are detected when they are read.
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
    return a->job && s && s->names_unknown && s->names_unknown(a, m);
}

// ---- Segments that are to be fetched ------------------------------------------------------------

static bool awaits_segments(agent *a, int from, message *m) {
    const service *s = agent_service_of_kind(a, m->kind);
    bool can = from != a->rank && a->lender && s && s->find_table;
    size_t at = can ? s->find_table(m) : 0;
    if (!at || at > m->head.size) return false;
    reader r = reader_of(m->head.data + at, m->head.size - at);
    bool awaits = false;
    m->fetched_bytes = 0;
    for (uint32_t left = reader_u32(&r); left && !r.failed; left--) {
        const attachment_class *c = agent_attachment_of_type(a, reader_u8(&r));
        if (r.failed || !c) break;
        if (c == a->lender)
            awaits |= !c->fetch(a, from, &r, &m->fetched_bytes);
        else
            c->names_unknown(a, &r);
    }
    return awaits;
}

// ---- Waiting ------------------------------------------------------------------------------------

static message *first_of(const member *sender) {
    return list_entry(sender->deferred.next, message, link);
}

static bool is_blamed(const agent *a, const member *sender) {
    return !list_is_empty(&sender->deferred) && names_unknown(a, first_of(sender));
}

static void blame_all(timer *t) {
    agent *a = list_entry(t, agent, deferred.limit);
    gw_error error;
    error_set(&error, GW_PROTOCOL, "the message names a worker that is not a member");
    for (int rank = 0; rank < a->member_count; rank++)
        if (is_blamed(a, agent_member(a, rank))) dispatch_protocol_error_on_loop(a, rank, &error);
}

// The timer runs while the first message of any sender names an unknown member. Fetching segments has no limit.
static void set_limit(agent *a) {
    bool any = false;
    for (int rank = 0; rank < a->member_count && a->job && a->deferred.count && !any; rank++)
        any = is_blamed(a, agent_member(a, rank));
    if (any == a->deferred.limit.armed) return;
    a->deferred.limit.fire = blame_all;
    env_set_timer(a->env, &a->deferred.limit,
                  any ? env_now_ns(a->env) + DEFERRED_S * INT64_C(1000000000) : ENV_NEVER);
}

bool deferred_keep_on_loop(agent *a, int from, message *m) {
    member *sender = agent_member(a, from);
    bool is_first = list_is_empty(&sender->deferred);
    if (is_first && !names_unknown(a, m) && !awaits_segments(a, from, m)) return false;
    list_append(&sender->deferred, &m->link);
    a->deferred.count++;
    if (is_first) set_limit(a);
    if (a->deferred.count > DEFERRED_MAX && a->deferred.limit.armed)
        env_set_timer(a->env, &a->deferred.limit, env_now_ns(a->env));
    return true;
}

static message *take(agent *a, member *sender) {
    a->deferred.count--;
    return list_entry(list_take(&sender->deferred), message, link);
}

// Passes |m| to its service, or keeps it until its segments have arrived.
static void deliver(agent *a, int from, message *m) {
    if (!deferred_keep_incomplete_on_loop(a, from, m)) dispatch_on_loop(a, from, m);
}

static void retry(task *t) {
    agent *a = list_entry(t, agent, deferred.retry);
    env_enter(a->env);
    a->deferred.retrying = false;
    for (int rank = 0; rank < a->member_count && a->deferred.count; rank++) {
        member *sender = agent_member(a, rank);
        while (!list_is_empty(&sender->deferred) && !names_unknown(a, first_of(sender)) &&
               !awaits_segments(a, rank, first_of(sender)))
            deliver(a, rank, take(a, sender));
    }
    set_limit(a);
    leaving_check_on_loop(a);
    env_leave(a->env);
}

void deferred_retry_on_loop(agent *a) {
    if (!a->deferred.count || a->deferred.retrying) return;
    a->deferred.retrying = true;
    a->deferred.retry.run = retry;
    env_defer(a->env, &a->deferred.retry);
}

// ---- Incomplete messages ------------------------------------------------------------------------

// Whether a message for the same service is queued before |end|.
static bool is_preceded(const agent *a, const member *sender, const list_node *end,
                        const service *s) {
    for (const list_node *l = sender->incomplete.next; l != end; l = l->next)
        if (agent_service_of_kind(a, list_entry(l, message, link)->kind) == s) return true;
    return false;
}

static message *find_deliverable(const agent *a, const member *sender) {
    list_each(l, &sender->incomplete) {
        message *m = list_entry(l, message, link);
        if (!m->incomplete && !is_preceded(a, sender, l, agent_service_of_kind(a, m->kind)))
            return m;
    }
    return NULL;
}

static void take_incomplete(agent *a, message *m) {
    list_remove(&m->link);
    m->completed = NULL;
    a->deferred.count--;
}

static void one_is_complete(message *completed) {
    agent *a = completed->completed_user;
    for (int rank = 0; rank < a->member_count; rank++) {
        for (message *m; (m = find_deliverable(a, agent_member(a, rank)));) {
            take_incomplete(a, m);
            dispatch_on_loop(a, rank, m);
        }
    }
    leaving_check_on_loop(a);
}

bool deferred_keep_incomplete_on_loop(agent *a, int from, message *m) {
    member *sender = agent_member(a, from);
    const service *s = agent_service_of_kind(a, m->kind);
    bool waits = s && m->incomplete && !(s->takes_incomplete && s->takes_incomplete(m->kind));
    if (!waits && !is_preceded(a, sender, &sender->incomplete, s)) return false;
    list_append(&sender->incomplete, &m->link);
    m->completed = one_is_complete;
    m->completed_user = a;
    if (a->deferred.count++ < DEFERRED_MAX) return true;
    gw_error error;
    error_set(&error, GW_LIMIT, "too many received messages wait for members or segments: %u",
              a->deferred.count);
    dispatch_protocol_error_on_loop(a, from, &error);
    return true;
}

void deferred_drop_on_loop(agent *a, int from) {
    member *sender = agent_member(a, from);
    while (!list_is_empty(&sender->deferred)) message_release(take(a, sender));
    while (!list_is_empty(&sender->incomplete)) {
        message *m = list_entry(sender->incomplete.next, message, link);
        take_incomplete(a, m);
        message_release(m);
    }
    set_limit(a);
}

void deferred_close_on_loop(agent *a) {
    for (int rank = 0; rank < a->member_count; rank++) deferred_drop_on_loop(a, rank);
}
