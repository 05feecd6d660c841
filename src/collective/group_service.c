// The service of groups: their messages, and the effects of members that leave or are lost.
#include "agent/bodies/observe.h"
#include "agent/dispatch/deferred.h"
#include "base/mem.h"
#include "collective/abort/abort.h"
#include "collective/agree/agree.h"
#include "collective/api/backward.h"
#include "collective/backend/backend.h"
#include "collective/group/groups_state.h"
#include "collective/opening/join.h"
#include "collective/opening/opening.h"
#include "collective/run/activity.h"
#include "collective/run/run.h"
#include "collective/run/stall_report.h"
#include "wire/codec.h"

// ---- Messages -----------------------------------------------------------------------------------

// Of a group that is not open here: kept until it is.
static gw_status keep_unknown(agent *a, int from, uint8_t kind, const group_header *h, incoming *p,
                              gw_error *error) {
    gw_status status =
        unexpected_keep_on_loop(a, &groups_of(a)->unexpected, from, kind, h, p, error);
    if (status == GW_NO_MEMORY) unexpected_dropped_on_loop(a, from, NULL, h, error);
    return status == GW_NO_MEMORY ? GW_OK : status;
}

static void answer_with_break(agent *a, int to, const group_header *h, const gw_error *error) {
    message *m = agent_message_on_loop(a, KIND_BREAK);
    if (!m) return;
    group_header_put(&m->head, &(group_header){ .group = h->group, .list = h->list });
    encode_error(&m->head, error);
    agent_post_on_loop(a, to, m);
}

// GRP-16: messages of a generation that has ended here are answered as by a member that still has it.
static void answer_for_ended(agent *a, int to, const group_header *h) {
    gw_error error;
    error_set(&error, GW_WRONG_STATE,
              "the group was re-formed: use the group that gw_group_reform returned");
    answer_with_break(a, to, h, &error);
}

static void answer_for_closed(agent *a, int from, uint8_t kind, const closed_group *was,
                              const group_header *h) {
    bool reports = kind == KIND_REPORT, enters = kind == KIND_ENTER;
    if (was->leader < 0) return;  // it is broken on all members
    if (was->broken && !was->next_generation) {
        if (enters || reports || kind == KIND_QUERY) answer_with_break(a, from, h, was->broken);
    } else if (was->next_generation) {
        if (enters || reports || kind == KIND_QUERY) answer_for_ended(a, from, h);
    } else if (enters || reports) {  // the sender of a report has this member as its leader
        group_refuse_closed_on_loop(a, from, reports ? a->rank : was->leader, h);
    }
}

static gw_status value_received(agent *a, int from, message *m, const group_header *h,
                                gw_error *error) {
    incoming *p;
    uint8_t kind = m->kind;
    gw_status status = incoming_open_on_loop(a, from, m, h->attachments_at, &p, error);
    gw_group *g = group_find_on_loop(a, h->group);
    if (status == GW_PROTOCOL) return status;
    if (status) {  // lent bytes cannot be read, or allocation failed
        unexpected_dropped_on_loop(a, from, g, h, error);
        return GW_OK;
    }
    const closed_group *was = g ? NULL : groups_find_closed_on_loop(a, h);
    if (was) {
        incoming_close_on_loop(a, p);
        answer_for_closed(a, from, kind, was, h);
        return GW_OK;
    }
    if (!g && pending_group_is_over_on_loop(a, from, kind, h)) {
        incoming_close_on_loop(a, p);
        return GW_OK;
    }
    if (!g) return keep_unknown(a, from, kind, h, p, error);
    int index = g->list == h->list ? group_index_of(g, from) : -1;
    run *r = group_find_detached_on_loop(g, h->key, h->number);
    if (r && index >= 0) return run_received_on_loop(r, index, p, kind, error);
    if (index < 0 || g->broken.status) {
        incoming_close_on_loop(a, p);
        if (index < 0)
            group_refuse_list_on_loop(g, from);
        else if (kind == KIND_ENTER)  // GRP-10
            abort_send_break_on_loop(g, from, &g->broken);
        return GW_OK;
    }
    const sequence *t = group_find_sequence_on_loop(g, h->key);
    r = group_find_run_on_loop(g, h->key, h->number);
    if (r) return run_received_on_loop(r, index, p, kind, error);
    bool is_over = t && h->number < t->next;  // GRP-6, or this member had no use for it
    if (is_over || final_is_over_on_loop(g, h->key) || final_find_abort_on_loop(g, h->key)) {
        if (is_over && kind == KIND_ENTER) run_over_received_on_loop(g, index, h, p);
        incoming_close_on_loop(a, p);
        return GW_OK;
    }
    status = unexpected_keep_on_loop(a, &g->unexpected, from, kind, h, p, error);
    if (status == GW_NO_MEMORY) unexpected_dropped_on_loop(a, from, g, h, error);
    if (status) return status == GW_NO_MEMORY ? GW_OK : status;
    if (key_is_once(h->key)) backward_awaited_on_loop(g, h->key);
    shadow_enters_on_loop(g);
    return GW_OK;
}

static reader after_header(const message *m) {
    return reader_of(m->head.data + GROUP_HEADER_BYTES, m->head.size - GROUP_HEADER_BYTES);
}

static gw_status end_with(message *m, bool valid, gw_error *error) {
    message_release(m);
    return valid ? GW_OK : error_set(error, GW_PROTOCOL, "collective: malformed fields");
}

// GRP-8: about a group that is not open here, and that this worker leads.
static gw_group *find_led(agent *a, int from, const message *m, const group_header *h) {
    if (m->kind >= KIND_PROPOSE || groups_find_closed_on_loop(a, h)) return NULL;
    return m->kind == KIND_REPORT ? pending_group_lead_on_loop(a, from, h, m)
                                  : pending_group_find_on_loop(a, from, h);
}

// About a group that is not open here. A member that has not opened it answers queries, since the leader waits for
// all, and leads it; queries and other messages are kept until it is opened.
static gw_status unknown_received(agent *a, int from, message *m, const group_header *h,
                                  gw_error *error) {
    incoming *p;
    uint8_t kind = m->kind;
    const closed_group *was = groups_find_closed_on_loop(a, h);
    bool valid = true, keeps = !was && kind != KIND_ANSWER;
    gw_group *led = find_led(a, from, m, h);
    if (led) {
        reader in = after_header(m);
        valid = abort_received_on_loop(led, group_index_of(led, from), kind, h, &in);
        return end_with(m, valid, error);
    }
    if (was) answer_for_closed(a, from, kind, was, h);
    if (kind == KIND_QUERY && !(was && was->next_generation))
        abort_answer_unknown_on_loop(a, from, h);
    if (kind >= KIND_PROPOSE)
        valid = agree_unknown_received_on_loop(a, from, kind, h, after_header(m), &keeps);
    if (!valid || !keeps) return end_with(m, valid, error);
    gw_status status = incoming_open_on_loop(a, from, m, 0, &p, error);
    if (status == GW_NO_MEMORY) unexpected_dropped_on_loop(a, from, NULL, h, error);
    if (status) return status == GW_NO_MEMORY ? GW_OK : status;
    return keep_unknown(a, from, kind, h, p, error);
}

// Of one id, but with other members: GRP-9.
static void other_list_received(gw_group *g, int from, uint8_t kind, reader *in) {
    gw_error error, ignored;
    if (kind == KIND_BREAK && !decode_error(in, &error, &ignored) && error.status)
        group_break_on_loop(g, &error);
    else if (kind == KIND_QUERY || kind == KIND_REPORT)
        group_refuse_list_on_loop(g, from);
}

static gw_status about_abort(agent *a, int from, message *m, const group_header *h, reader *in,
                             gw_error *error) {
    gw_group *g = group_find_on_loop(a, h->group);
    if (m->kind == KIND_POLL && h->key) {
        join_request_polled_on_loop(a, from, h);
        message_release(m);
        return GW_OK;
    }
    if (!g) return unknown_received(a, from, m, h, error);
    int index = g->list == h->list ? group_index_of(g, from) : -1;
    bool valid = true;
    if (index < 0 && m->kind == KIND_STORED)
        agree_joining_stored_on_loop(g, from, h->number);
    else if (index < 0)
        other_list_received(g, from, m->kind, in);
    else if (m->kind >= KIND_PROPOSE)
        valid = agree_received_on_loop(g, index, m->kind, h, in);
    else
        valid = abort_received_on_loop(g, index, m->kind, h, in);
    return end_with(m, valid, error);
}

static bool depart_received(const agent *a, int from, const reader *in) {
    groups_part_of(a, from)->has_departed = true;
    return !reader_left(in);
}

static gw_status received(agent *a, int from, message *m, gw_error *error) {
    reader in = reader_of(m->head.data, m->head.size);
    group_header h;
    if (m->kind == KIND_JOIN_REQUEST)
        return end_with(m, join_request_received_on_loop(a, from, &in), error);
    if (m->kind == KIND_DEPART) return end_with(m, depart_received(a, from, &in), error);
    if (m->kind == KIND_STALL_QUERY || m->kind == KIND_STALL_ANSWER)
        return end_with(m, stall_received_on_loop(a, from, m->kind, &in), error);
    bool has_number = m->kind != KIND_BREAK && m->kind != KIND_ABSENT;
    bool valid = group_header_read(&in, &h) && (h.number > 0) == has_number;
    if (valid && (m->kind == KIND_ENTER || m->kind == KIND_PART))
        return value_received(a, from, m, &h, error);
    if (valid && !h.attachments_at) return about_abort(a, from, m, &h, &in, error);
    return end_with(m, false, error);
}

// GRP-1
static bool takes_incomplete(uint8_t kind) {
    return kind == KIND_PART;
}

static size_t find_table(const message *m) {
    return m->kind == KIND_ENTER || m->kind == KIND_PART
               ? (uint32_t)deferred_u64_at(m, GROUP_ATTACHMENTS_FIELD)
               : 0;
}

static bool names_unknown(const agent *a, const message *m) {
    return deferred_table_names_unknown(a, m, find_table(m)) || agree_names_unknown(a, m) ||
           pending_group_names_unknown(a, m);
}

// ---- Lost and leaving members -------------------------------------------------------------------

// The end of a group may run code that opens or closes others, so each search begins again.
static gw_group *find_with(const agent *a, int rank) {
    for (map_cursor e = { 0 }; map_next(&groups_of(a)->groups, &e);) {
        gw_group *g = e.value;
        if (!g->broken.status && (rank < 0 || group_index_of(g, rank) >= 0)) return g;
    }
    return NULL;
}

// A group that counts |rank| among the members that agree.
static gw_group *find_agreeing(const agent *a, int rank) {
    for (map_cursor e = { 0 }; map_next(&groups_of(a)->groups, &e);) {
        gw_group *g = e.value;
        int index = g->agreements ? group_index_of(g, rank) : -1;
        if (index >= 0 && !g->agreements->is_out[index]) return g;
    }
    return NULL;
}

// |rank| -1: any.
static void take_backends_down(const agent *a, int rank) {
    for (map_cursor e = { 0 }; map_next(&groups_of(a)->groups, &e);) {
        gw_group *g = e.value;
        if (rank < 0 || group_index_of(g, rank) >= 0) backend_group_down_on_loop(g);
    }
}

// A group that counts |rank| as present; |rank| has left in order.
static gw_group *find_to_leave(const agent *a, int rank) {
    for (map_cursor e = { 0 }; map_next(&groups_of(a)->groups, &e);) {
        gw_group *g = e.value;
        if (g->broken.status || group_index_of(g, rank) < 0) continue;
        if (group_count_lost_on_loop(g) > g->left_count) return g;
    }
    return NULL;
}

static void break_with(agent *a, int rank) {
    take_backends_down(a, rank);
    for (gw_group *g; (g = find_with(a, rank));) {
        gw_error error = agent_why_lost(agent_member(a, rank));
        error.status = GW_DISCONNECTED;
        group_break_on_loop(g, &error);
    }
}

static void drop_unexpected_of(agent *a, int rank) {
    list_each(l, &groups_of(a)->unexpected) {
        unexpected_message *m = list_entry(l, unexpected_message, link);
        if (m->from == rank) unexpected_drop_on_loop(a, m);
    }
}

static void lost(agent *a, int rank) {
    if (!agent_member(a, rank)->left) backends_lose();
    pending_group_lost_on_loop(a, rank);
    if (groups_has_left_on_loop(a, rank)) {
        for (gw_group *g; (g = find_to_leave(a, rank));) group_member_left_on_loop(g, rank);
    } else {
        drop_unexpected_of(a, rank);
        break_with(a, rank);
    }
    if (a->fence.status) return;  // this worker itself is fenced: no member agrees with it
    for (gw_group *g; (g = find_agreeing(a, rank));) agree_lost_on_loop(g, group_index_of(g, rank));
    join_request_lost_on_loop(a, rank);
}

static void stop(agent *a, const gw_error *why) {
    unexpected_drop_all_on_loop(a);
    stall_stop_on_loop(a);
    take_backends_down(a, -1);
    for (gw_group *g; (g = find_with(a, -1));) group_break_on_loop(g, why);
    for (map_cursor e = { 0 }; map_next(&groups_of(a)->groups, &e);)
        agree_stop_on_loop(e.value, why);
    join_request_stop_on_loop(a, why);
}

static void joined(agent *a, int rank) {
    join_request_joined_on_loop(a, rank);
}

// Runs that wait will enter.
static bool acts(const agent *a) {
    for (map_cursor e = { 0 }; map_next(&groups_of(a)->groups, &e);)
        if (((const gw_group *)e.value)->waiting_count) return true;
    return false;
}

static void list_pending(const agent *a, pending *out) {
    size_t count = 0, detached = 0, agreements = 0, aborts = 0;
    for (map_cursor e = { 0 }; map_next(&groups_of(a)->groups, &e);) {
        const gw_group *g = e.value;
        list_each(l, &g->runs) count += list_entry(l, run, link)->state != RUN_OVER;
        detached += group_count_detached_on_loop(g);
        agreements += g->agreements && !list_is_empty(&g->agreements->calls);
        aborts += a->leaving.alone && group_leads_on_loop(g) && !list_is_empty(&g->reports);
    }
    pending_add(out, "awaits", count, "collective", "collectives");
    pending_add(out, "has", detached, "ended collective in its backend",
                "ended collectives in their backends");
    pending_add(out, "awaits", agreements, "agreement", "agreements");
    pending_add(out, "ends", aborts, "collective", "collectives");
}

// GRP-24.
static bool find_missed_error(const agent *a, gw_error *out) {
    const groups *x = groups_of(a);
    const gw_error *why = x->missed_error;
    for (map_cursor e = { 0 }; !why && map_next(&x->groups, &e);)
        why = group_missed_error_on_loop(e.value);
    if (why) *out = *why;
    return why;
}

// ---- The service --------------------------------------------------------------------------------

static gw_status open(agent *a, const gw_rpc_options *options, void **state, gw_error *error) {
    (void)a, (void)options;
    groups *x = mem_calloc(sizeof *x);
    if (!x) return error_set(error, GW_NO_MEMORY, "no memory for groups");
    list_init(&x->unexpected);
    list_init(&x->join_requests);
    list_init(&x->join_attempts);
    list_init(&x->inquiries);
    *state = x;
    return GW_OK;
}

// GRP-7. If allocation fails the group breaks on that member.
static void depart(agent *a) {
    groups_of(a)->departs = true;
    for (int rank = 0; rank < a->member_count; rank++) {
        if (rank == a->rank || agent_member(a, rank)->lost ||
            !groups_part_of(a, rank)->shares_group)
            continue;
        agent_post_on_loop(a, rank, agent_message_on_loop(a, KIND_DEPART));
    }
}

static void close_groups(agent *a) {
    openings_close(a);
    pending_groups_close(a);
}

static void free_state(void *state) {
    groups *x = state;
    map_fini(&x->groups);
    map_fini(&x->named);
    map_fini(&x->opened);
    map_fini(&x->worlds);
    map_fini(&x->pending_groups);
    join_request_free(&x->join_requests);
    for (uint32_t i = 0; x->closed && i < CLOSED_GROUPS; i++) error_forget(&x->closed[i].broken);
    mem_free(x->closed);
    error_forget(&x->missed_error);
    mem_free(x);
}

// Collectives that a backward pass waits for; others are described by the waits of their callers.
static void observe(const agent *a, observation *out) {
    map_cursor at = { 0 };
    for (const gw_group *g; (g = groups_next_on_loop(a, &at));) {
        list_each(l, &g->runs) {
            run *r = list_entry(l, run, link);
            if (!activity_waits_for(r) || !list_is_empty(&r->future->waits)) continue;
            trace_activity x = activity_of(TRACE_WAITS_COLLECTIVE, "", NULL);
            run_describe_on_loop(r, &x);
            observation_add(out, &x, &r->seen_ns);
        }
    }
    out->sums[TRACE_SUMS_COLLECTIVES] = &groups_of(a)->ended;
    out->counters[TRACE_COLLECTIVES] = groups_of(a)->ended_count;
}

const service group_service = {
    .name = "group",
    .data = &group_data,
    .kind_first = KIND_ENTER,
    .kind_last = GROUP_KIND_LAST,
    .open = open,
    .received = received,
    .find_table = find_table,
    .names_unknown = names_unknown,
    .takes_incomplete = takes_incomplete,
    .depart = depart,
    .joined = joined,
    .lost = lost,
    .pending = list_pending,
    .observe = observe,
    .acts = acts,
    .missed_error = find_missed_error,
    .stop = stop,
    .close = close_groups,
    .free = free_state,
};
