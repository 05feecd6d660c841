#include "agent/deferred.h"

#include "agent/dispatch.h"
#include "agent/member_table.h"
#include "agent/outgoing.h"
#include "agent/upward.h"

#include <string.h>

enum {
    EARLY_MAX = 65536,  // messages
    EARLY_S = 30        // longer than a new judge takes to tell everybody
};

// ---- Whom a message names ----

bool early_is_unheard(const agent *a, uint64_t rank) {
    return rank < LIMIT_WORKERS && !roster_has_heard_of(a, (uint32_t)rank);
}

// Bytes that mean nothing are found by whoever reads them.
static bool table_names_unheard(const agent *a, const message *m, size_t at) {
    if (!at || at > m->head.size) return false;
    reader r = reader_of(m->head.data + at, m->head.size - at);
    for (uint32_t left = reader_u32(&r); left && !r.failed; left--) {
        uint8_t type = reader_u8(&r);
        if (type == SPECIAL_GRAPH) {
            if (graph_names_unheard(a, &r)) return true;
            continue;
        }
        uint32_t rank = reader_u32(&r);
        uint64_t first = reader_u64(&r);
        reader_u64(&r);
        reader_u8(&r);
        if (r.failed || (type != SPECIAL_REFERENCE && type != SPECIAL_PROMISE)) return false;
        if (early_is_unheard(a, rank)) return true;
        if (type == SPECIAL_REFERENCE && early_is_unheard(a, id_rank(first))) return true;
    }
    return false;
}

static uint64_t u64_at(const message *m, size_t at) {
    uint64_t x = 0;
    if (at + sizeof x <= m->head.size) memcpy(&x, m->head.data + at, sizeof x);
    return x;
}

static bool names_unheard(const agent *a, const message *m) {
    size_t table = 0;
    switch (m->kind) {
    case KIND_REQUEST:
        if (early_is_unheard(a, id_rank(u64_at(m, offsetof(request_fixed, target))))) return true;
        table = (uint32_t)u64_at(m, REQUEST_SPECIALS_FIELD);
        break;
    case KIND_PROMISE_VALUE:
        if (early_is_unheard(a, id_rank(u64_at(m, offsetof(reply_fixed, id))))) return true;
        // fall through
    case KIND_REPLY: table = (uint32_t)u64_at(m, REPLY_SPECIALS_FIELD); break;
    case KIND_FORWARD: return early_is_unheard(a, (uint32_t)u64_at(m, sizeof(uint64_t)));
    case KIND_FORWARD_VALUE:
        return early_is_unheard(a, id_rank(u64_at(m, 0))) ||
               early_is_unheard(a, (uint32_t)u64_at(m, 2 * sizeof(uint64_t)));
    case KIND_FORK_REQUEST: return early_is_unheard(a, id_rank(u64_at(m, 0)));
    case KIND_FETCH: return early_is_unheard(a, id_rank(u64_at(m, sizeof(uint64_t))));
    case KIND_GRADIENT: return gradient_names_unheard(a, m);
    default: break;
    }
    return table_names_unheard(a, m, table);
}

// ---- Waiting ----

static void blame_all(timer *t) {
    agent *a = list_entry(t, agent, early.limit);
    gw_error error;
    error_set(&error, GW_PROTOCOL, "a message that names a worker nobody has heard of");
    for (int rank = 0; rank < a->member_count; rank++)
        if (!list_is_empty(&agent_member(a, rank)->early)) post_blame_on_loop(a, rank, &error);
}

bool early_keep_on_loop(agent *a, int from, message *m) {
    member *sender = agent_member(a, from);
    if (!a->group || (list_is_empty(&sender->early) && !names_unheard(a, m))) return false;
    list_append(&sender->early, &m->link);
    if (a->early.count++ == 0) {
        a->early.limit.fire = blame_all;
        env_set_timer(a->env, &a->early.limit, env_now_ns(a->env) + EARLY_S * INT64_C(1000000000));
    } else if (a->early.count > EARLY_MAX) {
        env_set_timer(a->env, &a->early.limit, env_now_ns(a->env));
    }
    return true;
}

static message *take(agent *a, member *sender) {
    message *m = list_entry(list_take(&sender->early), message, link);
    if (--a->early.count == 0) env_set_timer(a->env, &a->early.limit, ENV_NEVER);
    return m;
}

static void retry(task *t) {
    agent *a = list_entry(t, agent, early.retry);
    env_enter(a->env);
    a->early.retrying = false;
    for (int rank = 0; rank < a->member_count && a->early.count; rank++) {
        member *sender = agent_member(a, rank);
        while (!list_is_empty(&sender->early) &&
               !names_unheard(a, list_entry(sender->early.next, message, link)))
            post_dispatch_on_loop(a, rank, take(a, sender));
    }
    leaving_check_on_loop(a);
    env_leave(a->env);
}

void early_retry_on_loop(agent *a) {
    if (!a->early.count || a->early.retrying) return;
    a->early.retrying = true;
    a->early.retry.run = retry;
    env_defer(a->env, &a->early.retry);
}

void early_drop_on_loop(agent *a, int from) {
    member *sender = agent_member(a, from);
    while (!list_is_empty(&sender->early)) message_release(take(a, sender));
}

void early_close_on_loop(agent *a) {
    for (int rank = 0; rank < a->member_count; rank++) early_drop_on_loop(a, rank);
}
