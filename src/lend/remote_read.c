// Remote read: the bytes of a segment are copied from the lender's memory into a block of this
// worker before the message counts as received (LEND-13).
#include "lend/lending.h"

#include "agent/dispatch/deferred.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/mutation.h"

#include <stdio.h>

enum {
    AT_ONCE_BYTES = 256 * 1024,  // read within the turn that receives the message
    TURN_BYTES = 16 << 20,       // read before other tasks have their turn
};

typedef struct remote_read {
    agent *agent;
    int from;
    uint64_t lease, at;
    size_t size, done;
    source *source;    // one count
    held_lease *held;  // until it is over
    block *block;
    gw_status status;
    char reason[LEND_REASON_BYTES];
    bool is_over, is_forgotten;
    task task;
} remote_read;

// ---- Opening and closing ------------------------------------------------------------------------

static gw_status check(const lend_peer *p, const lent_entry *e, gw_error *error) {
    if (p->source_ended)
        return error_set(
            error, GW_SYSTEM,
            "lent tensor: the memory of the sender cannot be read any more");  // LEND-14
    if (!p->source)
        return error_set(error, GW_PROTOCOL,
                         "lent tensor: this worker cannot read the memory of the sender");
    if (e->size == 0)
        return error_set(error, GW_PROTOCOL, "lent tensor: segment %u is empty", e->index);
    if (e->at > UINT64_MAX - e->size)
        return error_set(
            error, GW_PROTOCOL,
            "lent tensor: invalid place in the memory of the sender: %llu bytes at %llu",
            (unsigned long long)e->size, (unsigned long long)e->at);
    if (e->size > LIMIT_TENSOR_BYTES)
        return error_set(error, GW_PROTOCOL,
                         "lent tensor: segment %u has %llu bytes, at most 4 GiB are allowed",
                         e->index, (unsigned long long)e->size);
    // For one message at a time, so that a peer cannot make this worker allocate more.
    if (e->size > LIMIT_MESSAGE_BYTES - p->reads_bytes)
        return error_set(error, GW_LIMIT, "lent tensors: a message needs more than 8 GiB");
    if (p->held_count >= LIMIT_LEASES_PER_PEER)
        return error_set(error, GW_PROTOCOL, "lent tensors: more than %d tensors of one worker",
                         LIMIT_LEASES_PER_PEER);
    return GW_OK;
}

static gw_status open_read(agent *a, int from, const lent_entry *e, remote_read **out,
                           gw_error *error) {
    lend_peer *p = lend_peer_of(a, from);
    gw_status status = check(p, e, error);
    if (status) return status;
    remote_read *x = mem_calloc(sizeof *x);
    if (!x) return receiver_no_memory(error);
    *x = (remote_read){ .agent = a, .from = from, .lease = e->lease, .at = e->at };
    x->size = (size_t)e->size;
    x->held = receiver_note(a, from, e, NULL);
    if (!x->held) goto free_read;
    if (!map_put(&p->reads, e->lease, x)) goto forget_held;
    x->source = source_retain(p->source);
    p->reads_bytes += x->size;
    *out = x;
    return GW_OK;

forget_held:
    receiver_forget(x->held);
free_read:
    mem_free(x);
    return receiver_no_memory(error);
}

static void free_read(remote_read *x) {
    block_release(x->block);
    source_release(x->source);
    mem_free(x);
}

static remote_read *take_pending(lend_peer *p, uint64_t lease) {
    remote_read *x = map_take(&p->reads, lease);
    if (x) p->reads_bytes -= x->size;
    return x;
}

// ---- Reading ------------------------------------------------------------------------------------

static void fail(remote_read *x, gw_status status) {
    x->status = status;
    block_release(x->block);
    x->block = NULL;
}

// Reads up to |bytes| more, with or without the lock. Returns whether that was all.
static bool read_some(remote_read *x, size_t bytes) {
    if (!x->block) x->block = block_take(x->size);
    if (!x->block) {
        fail(x, GW_NO_MEMORY);
        return true;
    }
    size_t left = x->size - x->done, now = left < bytes ? left : bytes;
    gw_status status = source_read(x->source, block_writable(x->block, x->done), x->at + x->done,
                                   now, x->reason, sizeof x->reason);
    if (status) {
        fail(x, status);
        return true;
    }
    x->done += now;
    return x->done == x->size;
}

// The process tag shows after the read whose memory it was (LEND-12).
static void check_tag(remote_read *x) {
    if (x->status || has_mutation(MUTATION_READ_UNCHECKED) || source_is_valid(x->source)) return;
    bool has_ended = source_has_ended(x->source);
    snprintf(x->reason, sizeof x->reason, "%s",
             has_ended ? "its process has ended" : "its memory is gone");
    fail(x, has_ended ? GW_DISCONNECTED : GW_SYSTEM);
}

static void forget_source(lend_peer *p) {
    p->source_ended = p->source_ended || p->source;
    source_release(p->source);
    p->source = NULL;
}

// If the tag cannot be read any more, nothing can: the lender is notified (LEND-14).
static void withdraw_answer(remote_read *x) {
    lend_peer *p = lend_peer_of(x->agent, x->from);
    if (x->status != GW_SYSTEM || p->source != x->source || source_is_valid(x->source)) return;
    lend_reasons why = { 0 };
    snprintf(why.read, sizeof why.read, "%s", x->reason);
    forget_source(p);
    receiver_answer_on_loop(x->agent, x->from, &why);
}

static void finish_on_loop(remote_read *x) {
    x->is_over = true;
    if (!x->status) lending_of(x->agent)->counts.read++;
    withdraw_answer(x);
    receiver_end(x->held);
}

static void read_now_on_loop(remote_read *x) {
    while (!read_some(x, x->size)) {
    }
    check_tag(x);
    finish_on_loop(x);
}

// Without the loop lock, since it takes long.
static void continue_reading(task *t) {
    remote_read *x = list_entry(t, remote_read, task);
    agent *a = x->agent;
    bool is_all = read_some(x, TURN_BYTES);
    if (is_all) check_tag(x);
    env_enter(a->env);
    if (!is_all && !x->is_forgotten) {
        env_defer(a->env, &x->task);
        env_leave(a->env);
        return;
    }
    bool is_forgotten = x->is_forgotten;
    finish_on_loop(x);
    deferred_retry_on_loop(a);
    env_leave(a->env);
    if (is_forgotten) free_read(x);
    agent_release(a);
}

// ---- While messages arrive ----------------------------------------------------------------------

bool remote_read_fetch(agent *a, int from, reader *table, uint64_t *bytes) {
    lent_entry e;
    gw_error ignored;
    if (!lent_entry_take(table, &e) || e.kind != LENT_READ) return true;
    *bytes += e.size;
    remote_read *x = map_find(&lend_peer_of(a, from)->reads, e.lease);
    if (x) return x->is_over;
    if (lending_of(a)->stopped || open_read(a, from, &e, &x, &ignored)) return true;
    if (x->size <= AT_ONCE_BYTES) {
        read_now_on_loop(x);
        return true;
    }
    agent_retain(a);
    x->task.run = continue_reading;
    env_defer(a->env, &x->task);
    return false;
}

gw_status remote_read_take(agent *a, int from, const lent_entry *e, block **out, gw_error *error) {
    lend_peer *p = lend_peer_of(a, from);
    remote_read *x = map_find(&p->reads, e->lease);
    if (!x) {
        gw_status status = open_read(a, from, e, &x, error);
        if (status) return status;
        read_now_on_loop(x);
    }
    if (!x->is_over || x->size != e->size)
        return error_set(error, GW_PROTOCOL, "malformed lent tensor: lease %llu was used before",
                         (unsigned long long)e->lease);
    if (x->status == GW_NO_MEMORY) return receiver_no_memory(error);
    if (x->status)
        return error_set(error, x->status,
                         "%s: could not read %zu bytes from the memory of the sender: %s",
                         agent_member(a, from)->name, x->size, x->reason);
    *out = x->block;
    x->block = NULL;
    free_read(take_pending(p, e->lease));
    return GW_OK;
}

// A read in progress frees itself at its end.
static void forget(remote_read *x) {
    if (x->is_over) {
        free_read(x);
    } else {
        x->is_forgotten = true;
    }
}

bool remote_read_drop(agent *a, int from, uint64_t lease) {
    remote_read *x = take_pending(lend_peer_of(a, from), lease);
    if (x) forget(x);
    return x != NULL;
}

void remote_read_forget_on_loop(agent *a, int rank) {
    lend_peer *p = lend_peer_of(a, rank);
    for (map_cursor e = { 0 }; map_next(&p->reads, &e);) forget(e.value);
    map_fini(&p->reads);
    p->reads_bytes = 0;
    forget_source(p);
}
