// Forks: references in messages, and what owner, parent and child do on the messages about them
// (REF-2 to REF-6).
#include "reference/references.h"

#include "agent/dispatch/deferred.h"
#include "base/failpoint.h"
#include "base/mem.h"
#include "base/mutation.h"

// ---- Sending ------------------------------------------------------------------------------------

static uint64_t draw_fork(agent *a) {
    return id_of(a->rank, ++references_of(a)->last_id);
}

static void write_attachment(bytes *table, int owner, uint64_t id, uint64_t fork, bool listed) {
    bytes_put_u32(table, (uint32_t)owner);
    bytes_put_u64(table, id);
    bytes_put_u64(table, fork);
    bytes_put_u8(table, listed);
}

static bool no_memory(gw_error *error) {
    error_set(error, GW_NO_MEMORY, "no memory for a reference in a message");
    return false;
}

// REF-2, REF-3
static bool write_own(gw_rref *r, int to, bytes *table, gw_error *error) {
    entry *e = r->entry;
    uint64_t fork = to == r->owner ? 0 : draw_fork(r->agent);
    if (!entry_name_on_loop(e)) return no_memory(error);
    if (fork && entry_add_holder_on_loop(e, fork, to, error)) return false;
    write_attachment(table, r->owner, e->id, fork, true);
    return true;
}

// REF-3, REF-4
static bool write_held(gw_rref *r, int to, bytes *table, gw_error *error) {
    references *rs = references_of(r->agent);
    if (to == r->owner) {
        write_attachment(table, r->owner, r->id, 0, true);
        return true;
    }
    uint64_t fork = draw_fork(r->agent);
    if (has_mutation(MUTATION_RELEASE_BEFORE_CHILD)) {
        write_attachment(table, r->owner, r->id, fork, false);
        return true;
    }
    pin *p = mem_alloc(sizeof *p);
    if (!p || !map_put(&rs->pins, fork, p)) {
        mem_free(p);
        return no_memory(error);
    }
    *p = (pin){ .rref = handle_retain(r), .child = to };
    r->pin_count++;
    rs->pin_count++;
    write_attachment(table, r->owner, r->id, fork, false);
    return true;
}

static bool write(gw_handle *h, void *prepared, int to, bytes *table, gw_error *error) {
    (void)prepared;
    gw_rref *r = (gw_rref *)(void *)h;
    if (rref_check(r, error)) return false;
    return r->entry ? write_own(r, to, table, error) : write_held(r, to, table, error);
}

void fork_unpin_on_loop(agent *a, uint64_t fork) {
    pin *p = map_take(&references_of(a)->pins, fork);
    if (!p) return;
    gw_rref *r = p->rref;
    references_of(a)->pin_count--;
    r->pin_count--;
    if (r->leaving) release_on_loop(r);
    handle_release(r);
    mem_free(p);
    leaving_check_on_loop(a);
}

static void undo(gw_handle *h, int to, const uint8_t *written) {
    gw_rref *r = (gw_rref *)(void *)h;
    reader in = reader_of(written, 4 + 8 + 8);
    reader_u32(&in);
    reader_u64(&in);
    uint64_t fork = reader_u64(&in);
    if (!fork) return;
    if (r->entry) {
        entry_remove_holder_on_loop(r->entry, fork, to);
    } else {
        fork_unpin_on_loop(r->agent, fork);
    }
}

// ---- Receiving ----------------------------------------------------------------------------------

static gw_status read_own(agent *a, uint64_t id, gw_rref **out) {
    entry *e = entry_of_on_loop(a, id);
    gw_error error;
    *out = rref_open_on_loop(a, a->rank, e ? entry_retain_on_loop(e) : NULL);
    if (!*out) {
        if (e) entry_release_on_loop(e);
        return GW_NO_MEMORY;
    }
    if (e) return GW_OK;
    no_such_reference(&error);
    rref_fail_on_loop(*out, FORK_REFUSED, &error);
    return GW_OK;
}

static gw_status read_held(agent *a, int from, int owner, uint64_t id, uint64_t fork, bool listed,
                           gw_rref **out) {
    gw_rref *r = rref_open_on_loop(a, owner, NULL);
    if (!r) return GW_NO_MEMORY;
    r->id = id;
    r->fork = fork;
    *out = r;
    if (agent_member(a, owner)->lost) {
        rref_lose_on_loop(r);
        if (!listed) fork_accept_on_loop(a, from, fork);
        return GW_OK;
    }
    if (listed) {
        fork_apply_on_loop(r, FORK_LISTED);
        return GW_OK;
    }
    r->parent = from;
    if (has_mutation(MUTATION_ACCEPT_BEFORE_ACK)) {
        fork_accept_on_loop(a, from, fork);
        r->parent = -1;
    }
    gw_status status = fork_request_on_loop(r);
    if (!status) fork_apply_on_loop(r, FORK_REQUESTED);
    return status;
}

static gw_status read(agent *a, int from, reader *table, gw_handle **out, gw_error *error) {
    uint32_t owner = reader_u32(table);
    uint64_t id = reader_u64(table), fork = reader_u64(table);
    uint8_t listed = reader_u8(table);
    bool home = owner == (uint32_t)a->rank;
    if (table->failed || owner >= (uint32_t)a->member_count || !id || listed > 1 ||
        (!home && (!fork || id_rank(fork) != (uint64_t)from)) ||
        (!home && listed && owner != (uint32_t)from))
        return error_set(error, GW_PROTOCOL, "malformed reference message: invalid fields");
    gw_rref *r = NULL;
    gw_status status =
        home ? read_own(a, id, &r) : read_held(a, from, (int)owner, id, fork, listed, &r);
    if (!status) {
        *out = &r->handle;
        return GW_OK;
    }
    // This worker holds no fork, so the parent need not keep its own for it.
    if (r) {
        r->dropped = true;
        rref_forget_on_loop(r);
    }
    if (!home && !listed) fork_accept_on_loop(a, from, fork);
    error_set(error, GW_NO_MEMORY, "no memory for a reference in a message");
    return status;
}

static bool names_unknown(const agent *a, reader *table) {
    uint32_t owner = reader_u32(table);
    uint64_t id = reader_u64(table);
    reader_u64(table);
    reader_u8(table);
    return !table->failed && (deferred_is_unknown(a, owner) || deferred_is_unknown(a, id_rank(id)));
}

static const agent *agent_of_reference(const gw_handle *h) {
    return ((const gw_rref *)(const void *)h)->agent;
}

static gw_handle *value_behind(gw_handle *h) {
    gw_future *f = by_value_open((gw_rref *)(void *)h);
    return f ? &f->handle : NULL;
}

static gw_value give(gw_handle *h, gw_scope *s) {
    return gw_value_of_rref((gw_rref *)(void *)gw_keep_handle(s, h));
}

const attachment_class reference_attachment = {
    .type = 1,
    .kind = GW_RREF,
    .agent_of = agent_of_reference,
    .value_behind = value_behind,
    .write = write,
    .undo = undo,
    .read = read,
    .names_unknown = names_unknown,
    .give = give,
};

// ---- Fork request, fork ack, child accept -------------------------------------------------------

// REF-6
static bool is_gone(const agent *a, int maker, uint64_t id) {
    if (has_mutation(MUTATION_INSERT_IF_ABSENT)) return false;
    return agent_member(a, maker)->lost ||
           (id <= reference_peer_of(a, maker)->last_result && !has_mutation(MUTATION_NO_TOMBSTONE));
}

static gw_status find_for_fork(agent *a, uint64_t id, entry **out) {
    uint64_t maker = id_rank(id);
    *out = entry_of_on_loop(a, id);
    if (*out) return GW_OK;
    if (maker >= (uint64_t)a->member_count || maker == (uint64_t)a->rank ||
        is_gone(a, (int)maker, id))
        return GW_REF_LOST;
    *out = entry_open_on_loop(a, id);
    if (!*out) return GW_NO_MEMORY;
    (*out)->count = 0;  // only the fork keeps it
    return GW_OK;
}

static void requested(agent *a, int from, uint64_t id, uint64_t fork) {
    entry *e;
    gw_status status = find_for_fork(a, id, &e);
    if (!status && (status = entry_add_holder_on_loop(e, fork, from, NULL)))
        entry_release_on_loop(entry_retain_on_loop(e));
    failpoint("fork_listed");
    fork_acknowledge_on_loop(a, from, fork, status);
}

static void explain_refusal(const gw_rref *r, gw_status status, gw_error *out) {
    const char *owner = agent_member(r->agent, r->owner)->name;
    if (status == GW_LIMIT) {
        error_set(out, GW_LIMIT, "%s: this worker has %d references to values of %s already", owner,
                  LIMIT_FORKS_PER_PEER, owner);
    } else if (status == GW_NO_MEMORY) {
        error_set(out, GW_NO_MEMORY, "%s: no memory for a reference", owner);
    } else {
        no_such_reference(out);
    }
}

// A fork ack, or accepted; ignored unless the owner sends it.
static void confirm(agent *a, int from, uint64_t fork, gw_status status) {
    gw_rref *r = map_find(&references_of(a)->pending, fork);
    if (!r || r->owner != from) return;
    map_take(&references_of(a)->pending, fork);
    if (!status) {
        fork_apply_on_loop(r, FORK_LISTED);
    } else {
        gw_error error;
        explain_refusal(r, status, &error);
        rref_fail_on_loop(r, FORK_REFUSED, &error);
    }
    failpoint("fork_confirmed");
    if (r->parent >= 0) fork_accept_on_loop(a, r->parent, fork);
    r->parent = -1;
    if (r->leaving || r->dropped) release_on_loop(r);
    leaving_check_on_loop(a);
}

// Child accept; ignored unless the child sends it.
static void accepted(agent *a, int from, uint64_t fork) {
    const pin *p = map_find(&references_of(a)->pins, fork);
    if (p && p->child == from) fork_unpin_on_loop(a, fork);
}

gw_status fork_received_on_loop(agent *a, int from, message *m, gw_error *error) {
    reader r = reader_of(m->head.data, m->head.size);
    uint64_t x = reader_u64(&r), y = 0;
    uint8_t status = 0;
    if (m->kind == KIND_FORK_ACK)
        status = reader_u8(&r);
    else if (m->kind != KIND_CHILD_ACCEPT)
        y = reader_u64(&r);
    reference_kind kind = m->kind;
    message_release(m);
    if (r.failed) return error_set(error, GW_PROTOCOL, "a message about references is truncated");
    switch (kind) {
    case KIND_ACCEPTED: confirm(a, from, y, GW_OK); break;
    case KIND_FORK_REQUEST: requested(a, from, x, y); break;
    case KIND_FORK_ACK: confirm(a, from, x, status); break;
    default: accepted(a, from, x); break;
    }
    return GW_OK;
}
