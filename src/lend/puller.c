// Pulling: what a peer has told the place of, in its own memory, is copied into a block of this
// worker before the message counts as come (LEND-13).
#include "lend/lending.h"

#include "agent/deferred.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/mutation.h"

#include <stdio.h>

enum {
    AT_ONCE_BYTES = 256 * 1024,  // take no longer than the turn that they come in
    TURN_BYTES = 16 << 20,       // after so many others have their turn
};

typedef struct pull {
    agent *agent;
    int from;
    uint64_t lease, at;
    size_t size, done;
    source *source;      // one count
    borrowed *borrowed;  // until it is over
    block *block;
    gw_status status;
    char reason[LEND_REASON_BYTES];
    bool is_over, is_forgotten;
    task task;
} pull;

// ---- Opening and closing ------------------------------------------------------------------------

static gw_status check(const lend_peer *p, const lent_entry *e, gw_error *error) {
    if (p->source_ended)
        return error_set(error, GW_SYSTEM, "lent: nothing of it can be read any more");  // LEND-14
    if (!p->source) return error_set(error, GW_PROTOCOL, "lent: nothing of it can be read here");
    if (e->size == 0) return error_set(error, GW_PROTOCOL, "lent: segment %u is empty", e->index);
    if (e->at > UINT64_MAX - e->size)
        return error_set(error, GW_PROTOCOL, "lent: %llu bytes at %llu of its memory",
                         (unsigned long long)e->size, (unsigned long long)e->at);
    if (e->size > LIMIT_TENSOR_BYTES)
        return error_set(error, GW_PROTOCOL, "lent: segment %u of %llu bytes, at most 4 GiB",
                         e->index, (unsigned long long)e->size);
    // Of one message at a time, so that nobody can make this worker take more than for one.
    if (e->size > LIMIT_MESSAGE_BYTES - p->pulls_bytes)
        return error_set(error, GW_LIMIT, "lent: more than 8 GiB to be read for one message");
    if (p->borrowed_count >= LIMIT_LEASES_PER_PEER)
        return error_set(error, GW_PROTOCOL, "lent: more than %d tensors", LIMIT_LEASES_PER_PEER);
    return GW_OK;
}

static gw_status no_memory(gw_error *error) {
    return error_set(error, GW_NO_MEMORY, "no memory for a tensor that was lent");
}

static gw_status open_pull(agent *a, int from, const lent_entry *e, pull **out, gw_error *error) {
    lend_peer *p = lend_peer_of(a, from);
    gw_status status = check(p, e, error);
    if (status) return status;
    pull *x = mem_calloc(sizeof *x);
    if (!x) return no_memory(error);
    *x = (pull){ .agent = a, .from = from, .lease = e->lease, .at = e->at };
    x->size = (size_t)e->size;
    x->borrowed = borrower_note(a, from, e, NULL);
    if (!x->borrowed) goto free_pull;
    if (!map_put(&p->pulls, e->lease, x)) goto forget_borrowed;
    x->source = source_retain(p->source);
    p->pulls_bytes += x->size;
    *out = x;
    return GW_OK;

forget_borrowed:
    borrower_forget(x->borrowed);
free_pull:
    mem_free(x);
    return no_memory(error);
}

static void free_pull(pull *x) {
    block_release(x->block);
    source_release(x->source);
    mem_free(x);
}

static pull *take_pull(lend_peer *p, uint64_t lease) {
    pull *x = map_take(&p->pulls, lease);
    if (x) p->pulls_bytes -= x->size;
    return x;
}

// ---- Reading ------------------------------------------------------------------------------------

static void fail(pull *x, gw_status status) {
    x->status = status;
    block_release(x->block);
    x->block = NULL;
}

// Up to |bytes| more of it, without the lock or with it. Whether that was all.
static bool read_some(pull *x, size_t bytes) {
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

// Whose memory it was shows when it has been read (LEND-12).
static void judge(pull *x) {
    if (x->status || has_mutation(MUTATION_PULL_BELIEVED) || source_is_there(x->source)) return;
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

// If not even the badge can be read any more, nothing can: the lender hears of it (LEND-14).
static void answer_again(pull *x) {
    lend_peer *p = lend_peer_of(x->agent, x->from);
    if (x->status != GW_SYSTEM || p->source != x->source || source_is_there(x->source)) return;
    lend_reasons why = { 0 };
    snprintf(why.read, sizeof why.read, "%s", x->reason);
    forget_source(p);
    borrower_answer_on_loop(x->agent, x->from, &why);
}

static void finish_on_loop(pull *x) {
    x->is_over = true;
    if (!x->status) lending_of(x->agent)->counts.pulled++;
    answer_again(x);
    borrower_end(x->borrowed);
}

static void read_now_on_loop(pull *x) {
    while (!read_some(x, x->size)) {
    }
    judge(x);
    finish_on_loop(x);
}

// Without the loop lock, since it takes long.
static void go_on(task *t) {
    pull *x = list_entry(t, pull, task);
    agent *a = x->agent;
    bool is_all = read_some(x, TURN_BYTES);
    if (is_all) judge(x);
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
    if (is_forgotten) free_pull(x);
    agent_release(a);
}

// ---- As messages come ---------------------------------------------------------------------------

bool puller_fetch(agent *a, int from, reader *table, uint64_t *bytes) {
    lent_entry e;
    gw_error ignored;
    if (!lent_entry_take(table, &e) || e.kind != LENT_PULLED) return true;
    *bytes += e.size;
    pull *x = map_find(&lend_peer_of(a, from)->pulls, e.lease);
    if (x) return x->is_over;
    if (lending_of(a)->stopped || open_pull(a, from, &e, &x, &ignored)) return true;
    if (x->size <= AT_ONCE_BYTES) {
        read_now_on_loop(x);
        return true;
    }
    agent_retain(a);
    x->task.run = go_on;
    env_defer(a->env, &x->task);
    return false;
}

gw_status puller_take(agent *a, int from, const lent_entry *e, block **out, gw_error *error) {
    lend_peer *p = lend_peer_of(a, from);
    pull *x = map_find(&p->pulls, e->lease);
    if (!x) {
        gw_status status = open_pull(a, from, e, &x, error);
        if (status) return status;
        read_now_on_loop(x);
    }
    if (!x->is_over || x->size != e->size)
        return error_set(error, GW_PROTOCOL, "lent: lease %llu twice",
                         (unsigned long long)e->lease);
    if (x->status == GW_NO_MEMORY) return no_memory(error);
    if (x->status)
        return error_set(error, x->status, "%s: %zu bytes were to be read: %s",
                         agent_member(a, from)->name, x->size, x->reason);
    *out = x->block;
    x->block = NULL;
    free_pull(take_pull(p, e->lease));
    return GW_OK;
}

// One that is under way frees itself at its end.
static void forget(pull *x) {
    if (x->is_over) {
        free_pull(x);
    } else {
        x->is_forgotten = true;
    }
}

bool puller_drop(agent *a, int from, uint64_t lease) {
    pull *x = take_pull(lend_peer_of(a, from), lease);
    if (x) forget(x);
    return x != NULL;
}

void puller_forget_on_loop(agent *a, int rank) {
    lend_peer *p = lend_peer_of(a, rank);
    map_entry *e;
    for (size_t i = 0; (e = map_next(&p->pulls, &i));) forget(e->value);
    map_fini(&p->pulls);
    map_init(&p->pulls);
    p->pulls_bytes = 0;
    forget_source(p);
}
