// Entries: the owner's state of a reference, the value and the holder set.
#include "reference/references.h"

#include "base/mem.h"
#include "base/value.h"
#include "tensor/tensor.h"
#include "trace/record.h"

#include <assert.h>

gw_status no_such_reference(gw_error *error) {
    return error_set(error, GW_REF_LOST,
                     "the owner does not have the reference: it was released, or never existed");
}

static void record(trace_kind kind, const entry *e, int rank) {
    if (trace_is_on(TRACE_REF))
        trace_record(kind, e->agent->observer.row, e->id, (uint64_t)rank, 0);
}

// ---- Life ---------------------------------------------------------------------------------------

entry *entry_open_on_loop(agent *a, uint64_t id) {
    references *rs = references_of(a);
    entry *e = mem_take_zeros(sizeof *e);
    if (!e) return NULL;
    e->agent = a;
    e->id = id;
    e->count = 1;
    e->since_ns = env_now_ns(a->env);
    e->origin = "";
    list_init(&e->awaiting);
    if (id && !map_put(&rs->by_id, id, e)) {
        mem_give(e, sizeof *e);
        return NULL;
    }
    list_append(&rs->entries, &e->link);
    rs->entry_count++;
    if (id) record(TRACE_REFERENCE_MADE, e, a->rank);
    return e;
}

bool entry_name_on_loop(entry *e) {
    agent *a = e->agent;
    if (e->id) return true;
    uint64_t id = id_of(a->rank, references_of(a)->last_id + 1);
    if (!map_put(&references_of(a)->by_id, id, e)) return false;
    references_of(a)->last_id++;
    e->id = id;
    record(TRACE_REFERENCE_MADE, e, a->rank);
    return true;
}

entry *entry_of_on_loop(agent *a, uint64_t id) {
    return map_find(&references_of(a)->by_id, id);
}

entry *entry_retain_on_loop(entry *e) {
    e->count++;
    return e;
}

static void free_entry(entry *e) {
    references *rs = references_of(e->agent);
    if (e->id) map_take(&rs->by_id, e->id);
    list_remove(&e->link);
    rs->entry_count--;
    if (e->object) object_end_on_loop(e->object);
    if (e->result) result_release_on_loop(e->agent, e->result);
    turn_release(e->turn);
    map_fini(&e->forks);
    mem_give(e, sizeof *e);
}

// REF-8. An entry that awaits its creating request is deleted with its last fork.
static bool is_unused(const entry *e) {
    return !e->count && !e->forks.count && !(e->requested && !e->made);
}

// REF-3: a worker may have sent itself a reference in a message that is still under way, so unused
// entries are deleted later.
static void free_if_unused(entry *e) {
    if (!is_unused(e)) return;
    if (e->id && !list_is_empty(&e->agent->loopback)) {
        references_of(e->agent)->has_unused = true;
        return;
    }
    free_entry(e);
}

// Deleting an entry may leave others without a use, so this repeats until there are none.
void references_sweep_on_loop(agent *a) {
    references *rs = references_of(a);
    if (!rs->has_unused || !list_is_empty(&a->loopback)) return;
    rs->has_unused = false;
    for (bool found = true; found;) {
        found = false;
        list_each(l, &rs->entries) {
            entry *e = list_entry(l, entry, link);
            if (!is_unused(e)) continue;
            free_entry(e);
            found = true;
            break;
        }
    }
}

void entry_release_on_loop(entry *e) {
    assert(e->count);
    e->count--;
    if (!agent_is_closed(e->agent)) {
        free_if_unused(e);
    } else if (!e->count) {
        // The close of the service has freed its value already.
        mem_give(e, sizeof *e);
    }
}

void entry_set_origin_on_loop(entry *e, const char *origin, size_t size) {
    e->origin = origin_keep_on_loop(references_of(e->agent), origin, size);
}

// ---- The holder set -----------------------------------------------------------------------------

gw_status entry_add_holder_on_loop(entry *e, uint64_t fork, int holder, gw_error *error) {
    reference_peer *p = reference_peer_of(e->agent, holder);
    // A fork has one holder; a request of another worker for it is refused.
    void *listed = map_find(&e->forks, fork);
    if (listed)
        return (intptr_t)listed == holder + 1
                   ? GW_OK
                   : error_set(error, GW_PROTOCOL, "the fork belongs to another worker");
    if (p->fork_count >= LIMIT_FORKS_PER_PEER)
        return error_set(error, GW_LIMIT,
                         "%s has %u references to values of %s, and cannot have more",
                         agent_member(e->agent, holder)->name, p->fork_count,
                         agent_member(e->agent, e->agent->rank)->name);
    if (!map_put(&e->forks, fork, (void *)(intptr_t)(holder + 1)))
        return error_set(error, GW_NO_MEMORY, "no memory for a reference");
    p->fork_count++;
    record(TRACE_REFERENCE_FORKED, e, holder);
    return GW_OK;
}

void entry_remove_holder_on_loop(entry *e, uint64_t fork, int holder) {
    if ((intptr_t)map_find(&e->forks, fork) != holder + 1) return;
    map_take(&e->forks, fork);
    reference_peer_of(e->agent, holder)->fork_count--;
    record(TRACE_REFERENCE_RELEASED, e, holder);
    free_if_unused(e);
}

// ---- Making -------------------------------------------------------------------------------------

void entry_make_on_loop(entry *e, result *value, object *o) {
    if (e->made) {
        // The agent has ended before the value was made.
        if (value) result_release_on_loop(e->agent, value);
        if (o) object_end_on_loop(o);
        return;
    }
    e->requested = true;
    e->made = true;
    e->result = value;
    e->object = o;
    // A continuation may drop the last use of the entry.
    entry_retain_on_loop(e);
    for (list_node *l; (l = list_take(&e->awaiting));) {
        continuation *c = list_entry(l, continuation, link);
        c->run(c);
    }
    entry_release_on_loop(e);
}

// A value nested deeper than this counts as one with parameters.
enum { VALUE_DEPTH_MAX = 8 };

static bool has_parameters(gw_value v, int depth) {
    if (v.kind == GW_TENSOR) return tensor_is_leaf_with_grad(v.as.tensor);
    if (v.kind != GW_LIST && v.kind != GW_MAP) return false;
    const gw_list *items = v.kind == GW_LIST ? v.as.list : &v.as.map->values;
    if (depth == VALUE_DEPTH_MAX) return true;
    for (int i = 0; i < items->count; i++)
        if (has_parameters(items->items[i], depth + 1)) return true;
    return false;
}

void entry_set_turn_on_loop(entry *e, turn *t) {
    if (t && !e->turn) e->turn = turn_retain(t);
}

turn *entry_turn_on_loop(const entry *e) {
    if (!e->result || result_error(e->result) || !has_parameters(e->result->value, 0)) return NULL;
    return e->turn ? e->turn : references_of(e->agent)->turn;
}

bool entry_await_on_loop(entry *e, continuation *c) {
    if (e->made) return false;
    list_append(&e->awaiting, &c->link);
    return true;
}

object *entry_object(const entry *e, gw_error *error) {
    if (e->object) return e->object;
    if (e->result && result_error(e->result)) {
        *error = *result_error(e->result);
    } else {
        error_set(error, GW_INVALID, "the reference is to a value, not to an object with methods");
    }
    return NULL;
}

// ---- Requests -----------------------------------------------------------------------------------

gw_status entry_accept_on_loop(agent *a, int from, uint64_t id, uint64_t fork, entry **out,
                               gw_error *error) {
    entry *e = entry_of_on_loop(a, id);
    if (from == a->rank) {
        // gw_remote made the entry before it sent the request to this worker itself; the handle
        // holds it.
        if (!e) return no_such_reference(error);
        *out = entry_retain_on_loop(e);
        return GW_OK;
    }
    reference_peer *maker = reference_peer_of(a, from);
    if (id_rank(id) != (uint64_t)from || id_rank(fork) != (uint64_t)from ||
        id <= maker->last_result)
        return error_set(error, GW_PROTOCOL, "malformed request: the id of the result is invalid");
    maker->last_result = id;
    if (e) {
        entry_retain_on_loop(e);
    } else if (!(e = entry_open_on_loop(a, id))) {
        fork_acknowledge_on_loop(a, from, fork, GW_NO_MEMORY);
        return error_set(error, GW_NO_MEMORY, "no memory for a reference");
    }
    e->requested = true;
    gw_status status = entry_add_holder_on_loop(e, fork, from, error);
    if (status) {
        fork_acknowledge_on_loop(a, from, fork, status);
        e->requested = false;
        entry_release_on_loop(e);
        return status;
    }
    message *m = agent_message_on_loop(a, KIND_ACCEPTED);
    if (m) {
        bytes_put_u64(&m->head, id);
        bytes_put_u64(&m->head, fork);
        agent_send_on_loop(a, from, m, false, NULL);
    }
    *out = e;
    return GW_OK;
}

gw_status entry_find_on_loop(agent *a, int from, uint64_t id, uint64_t fork, entry **out,
                             gw_error *error) {
    entry *e = entry_of_on_loop(a, id);
    // REF-7
    if (!e || (from != a->rank && (intptr_t)map_find(&e->forks, fork) != from + 1))
        return no_such_reference(error);
    *out = entry_retain_on_loop(e);
    return GW_OK;
}
