// The service of references: messages, shutdown and the end; and the table through which calls use references.
#include "reference/references.h"

#include "agent/dispatch/deferred.h"
#include "base/mem.h"
#include "call/calls.h"

static gw_status received(agent *a, int from, message *m, gw_error *error) {
    switch (m->kind) {
    case KIND_RELEASE: return release_received_on_loop(a, from, m, error);
    case KIND_FETCH: return fetch_received_on_loop(a, from, m, error);
    case KIND_FORWARD_VALUE: return fetch_forward_received_on_loop(a, from, m, error);
    default: return fork_received_on_loop(a, from, m, error);
    }
}

// ---- Shutdown -----------------------------------------------------------------------------------

// Leaves the references that an object holds to the object, which other workers keep alive: they
// are released when the object ends. Objects of several workers that hold each other stay, and are
// reported: see references_report_on_loop. While a call has the turn of an object, it uses the
// object's scope, so that is left alone.
static void leave_to_object(const entry *e) {
    const object *o = e->object;
    if (!o || o->own->slots[SCOPE_TURN].data || e->count) return;
    const scope_handles *handles = &o->own->handles;
    for (uint32_t i = 0; i < handles->count; i++) {
        gw_rref *r = handles->items[i] ? rref_of_handle(handles->items[i]) : NULL;
        if (r) r->of_object = true;
    }
}

static void release_all(agent *a) {
    references *rs = references_of(a);
    list_each(l, &rs->entries) leave_to_object(list_entry(l, entry, link));
    list_each(l, &rs->users) {
        gw_rref *r = list_entry(l, gw_rref, link);
        if (r->state != FORK_RELEASED && !r->of_object) release_on_loop(r);
        r->of_object = false;
    }
    release_flush_on_loop(a);
}

static void list_pending(const agent *a, pending *out) {
    const references *rs = references_of(a);
    size_t count = rs->pending.count + rs->pin_count + rs->release_count;
    pending_add(out, "sends", fetches_pending(a), "value", "values");
    pending_add(out, "counts", count, "reference", "references");
}

// ---- The end ------------------------------------------------------------------------------------

static void stop(agent *a, const gw_error *why) {
    references *rs = references_of(a);
    list_node shut_down;
    list_init(&shut_down);
    list_splice(&shut_down, &rs->entries);
    // An error may let user code drop other entries.
    for (list_node *l; (l = list_take(&shut_down));) {
        list_append(&rs->entries, l);
        entry *e = list_entry(l, entry, link);
        if (!e->made) entry_make_on_loop(e, result_of_error(why), NULL);
    }
}

static void close_entry(entry *e) {
    list_remove(&e->link);
    object *o = e->object;
    result *r = e->result;
    e->object = NULL;
    e->result = NULL;
    turn_release(e->turn);
    map_fini(&e->forks);
    if (o) object_close(o);
    if (r) result_release(r);
}

static void drop_pins(references *rs) {
    for (map_cursor m = { 0 }; map_next(&rs->pins, &m);) {
        pin *p = m.value;
        p->rref->pin_count--;
        handle_release(p->rref);
        mem_free(p);
    }
    map_fini(&rs->pins);
}

static void drop_users(references *rs) {
    for (list_node *l; (l = list_take(&rs->users));) {
        gw_rref *r = list_entry(l, gw_rref, link);
        list_remove(&r->out);
        if (r->dropped) rref_forget_on_loop(r);
    }
}

// Values may hold references, so each entry is closed before the next is searched.
static void close(agent *a) {
    references *rs = references_of(a);
    drop_pins(rs);
    while (!list_is_empty(&rs->entries)) {
        entry *e = list_entry(rs->entries.next, entry, link);
        bool unused = !e->count;
        close_entry(e);
        if (unused) mem_give(e, sizeof *e);
    }
    env_enter(a->env);
    drop_users(rs);
    if (rs->release_timer.armed) env_set_timer(a->env, &rs->release_timer, ENV_NEVER);
    env_leave(a->env);
}

// ---- The service --------------------------------------------------------------------------------

static bool names_unknown(const agent *a, const message *m) {
    switch ((reference_kind)m->kind) {
    case KIND_FORK_REQUEST: return deferred_is_unknown(a, id_rank(deferred_u64_at(m, 0)));
    case KIND_FETCH: return deferred_is_unknown(a, id_rank(deferred_u64_at(m, sizeof(uint64_t))));
    case KIND_FORWARD_VALUE:
        return deferred_is_unknown(a, id_rank(deferred_u64_at(m, 0))) ||
               deferred_is_unknown(a, (uint32_t)deferred_u64_at(m, 2 * sizeof(uint64_t)));
    default: return false;
    }
}

static const target_class target = {
    .owner = reference_owner,
    .agent_of = reference_agent,
    .check = reference_check_on_loop,
    .value_behind = by_value_open,
    .accept = entry_accept_on_loop,
    .find = entry_find_on_loop,
    .release = entry_release_on_loop,
    .set_origin = entry_set_origin_on_loop,
    .set_turn = entry_set_turn_on_loop,
    .make = entry_make_on_loop,
    .await = entry_await_on_loop,
    .object = entry_object,
};

static gw_status open(agent *a, const gw_rpc_options *options, void **state, gw_error *error) {
    (void)options;
    gw_status status = reference_state_open(a, state, error);
    if (!status) calls_of(a)->target = &target;
    return status;
}

const service reference_service = {
    .name = "reference",
    .data = &reference_data,
    .kind_first = KIND_ACCEPTED,
    .kind_last = REFERENCE_KIND_LAST,
    .attachment = &reference_attachment,
    .open = open,
    .received = received,
    .names_unknown = names_unknown,
    .swept = references_sweep_on_loop,
    .lost = references_lost_on_loop,
    .release = release_all,
    .pending = list_pending,
    .report = references_report_on_loop,
    .stop = stop,
    .close = close,
    .free = reference_state_free,
};
