#include "call/promise.h"

#include "base/mem.h"
#include "agent/dispatch/deferred.h"
#include "call/protocol.h"

#include <assert.h>

// ---- The worker that made the promise -----------------------------------------------------------

static void *open_forward(gw_handle *h) {
    forward *w = mem_calloc(sizeof *w);
    if (w) w->future = future_await_retain((gw_future *)(void *)h);
    return w;
}

static void discard_forward(void *prepared) {
    forward *w = prepared;
    future_await_release(w->future);
    mem_free(w);
}

// The worker that sends the value, if that is not this worker; -1.
static int other_producer(const gw_future *f) {
    return f->source && f->source->producer && !future_result(f) ? f->source->producer(f) : -1;
}

static bool write_promise(gw_handle *h, void *prepared, int to, bytes *table, gw_error *error) {
    (void)error;
    forward *w = prepared;
    gw_future *f = (gw_future *)(void *)h;
    agent *a = f->agent;
    int producer = other_producer(f);
    w->of_owner = producer >= 0 && f->source->is_owner;
    if (producer < 0) producer = a->rank;
    w->promise = id_of(a->rank, ++calls_of(a)->last_promise);
    w->consumer = to;
    bytes_put_u32(table, (uint32_t)producer);
    bytes_put_u64(table, agent_member(a, producer)->worker.incarnation);
    bytes_put_u64(table, w->promise);
    bytes_put_u8(table, w->of_owner);
    return true;
}

static void send_value(forward *w) {
    gw_future *f = w->future;
    agent *a = f->agent;
    reply_result(a, w->consumer, KIND_PROMISE_VALUE, w->promise, future_result(f));
    discard_forward(w);
}

static void send_value_task(task *t) {
    send_value(list_entry(t, forward, send));
}

static void defer_send(forward *w) {
    w->send.run = send_value_task;
    env_defer(w->future->agent->env, &w->send);
}

static void keep_promises(gw_future *f);

// Its request is on its way.
static void start_forward(void *prepared) {
    forward *w = prepared;
    gw_future *f = w->future;
    if (w->of_owner && f->source->forward(f, w->consumer, w->promise)) {
        future_await_release_on_loop(f);
        mem_free(w);
        return;
    }
    if (f->source && f->source->start) f->source->start(f);
    if (future_result(f)) {
        defer_send(w);
        return;
    }
    list_append(&f->forwards, &w->link);
    f->keep = keep_promises;
    if (other_producer(f) >= 0 && !f->source->is_owner)
        w->requested = f->source->forward(f, w->consumer, w->promise);
}

// |f| has resolved: sends its value to the consumers that no other worker serves. Forwards that the callee
// was to send wait for its reply, which has the number of honoured ones (|honoured|).
static void keep_promises(gw_future *f) {
    assert(future_result(f));
    list_each(l, &f->forwards) {
        forward *w = list_entry(l, forward, link);
        if (w->requested && f->call) continue;  // its reply decides
        list_remove(l);
        if (w->requested && f->honoured) {
            f->honoured--;
            future_await_release_on_loop(w->future);
            mem_free(w);
        } else {
            defer_send(w);
        }
    }
}

// ---- The consumer -------------------------------------------------------------------------------

static void forget(gw_future *f) {
    map_take(&calls_of(f->agent)->promises, f->promise);
    f->promise = 0;
    future_release_on_loop(f);
}

// The agent's table has one count.
static gw_status add_promise(agent *a, uint64_t id, gw_future **out, gw_error *error) {
    gw_future *f = future_open(a, "");
    if (!f || !map_put(&calls_of(a)->promises, id, f)) {
        handle_release(f);
        return error_set(error, GW_NO_MEMORY, "no memory for a promise");
    }
    f->promise = id;
    *out = f;
    return GW_OK;
}

// Its value arrived before the request that mentions it, and does not count as such any more.
static void uncount_unexpected(gw_future *f) {
    call_peer *sender = call_peer_of(f->agent, f->unexpected_from);
    sender->unexpected_count--;
    sender->unexpected_bytes -= f->unexpected_bytes;
}

// The request that it was promised to will not run.
static void abandon_promise(gw_handle *h) {
    gw_future *f = (gw_future *)(void *)h;
    if (f->promise) forget(f);
}

static void fail_promise(gw_future *f, const gw_error *why) {
    if (f->promise && f->producer < 0) uncount_unexpected(f);
    future_fail_on_loop(f, why);
    if (f->promise) forget(f);
}

void promise_explain_lost_owner(const member *owner, gw_error *out) {
    error_set(out, GW_REF_LOST, "%s, the owner of the referenced value, is gone%s%s", owner->name,
              owner->why->text[0] ? ": " : "", owner->why->text);
    out->lost = owner->why->lost;
}

static void fail_lost(gw_future *f, const member *producer) {
    gw_error lost = *producer->why;
    if (f->of_reference) promise_explain_lost_owner(producer, &lost);
    fail_promise(f, &lost);
}

static gw_status read_promise(agent *a, int from, reader *table, gw_handle **out, gw_error *error) {
    uint32_t producer = reader_u32(table);
    uint64_t incarnation = reader_u64(table), id = reader_u64(table);
    uint8_t of_reference = reader_u8(table);
    call_peer *maker = call_peer_of(a, from);
    if (table->failed || producer >= (uint32_t)a->member_count || id_rank(id) != (uint32_t)from ||
        of_reference > 1 || id <= maker->last_promise)
        return error_set(error, GW_PROTOCOL, "malformed promise message: invalid fields");
    maker->last_promise = id;
    gw_future *f = map_find(&calls_of(a)->promises, id);
    if (f) uncount_unexpected(f);
    if (f && future_result(f)) {
        // Its value has overtaken the request.
        map_take(&calls_of(a)->promises, id);
        f->promise = 0;
        *out = &f->handle;
        return GW_OK;
    }
    // One whose value waits for promises itself, at worst for this one, stays where a loss or the
    // end finds it.
    gw_status status = f ? GW_OK : add_promise(a, id, &f, error);
    if (status) return status;
    f->producer = (int)producer;
    f->of_reference = of_reference;
    handle_retain(f);
    *out = &f->handle;
    const member *p = agent_member(a, f->producer);
    if (p->lost) {
        fail_lost(f, p);
    } else if (p->worker.incarnation != incarnation) {
        gw_error gone;
        error_set(&gone, GW_DISCONNECTED, "%s: the worker that was to send an argument is gone",
                  p->name);
        fail_promise(f, &gone);
    }
    return GW_OK;
}

static void resolve(gw_future *f, result *r) {
    bool unexpected = f->producer < 0;
    future_complete_on_loop(f, r);
    if (!unexpected && f->promise) forget(f);
}

static void resolve_from(void *user, result *r) {
    gw_future *f = user;
    resolve(f, r);
    future_release_on_loop(f);
}

static bool is_unexpected(agent *a, uint64_t id) {
    uint64_t maker = id_rank(id);
    if (maker >= (uint64_t)a->member_count) return false;
    return !agent_member(a, (int)maker)->lost && id > call_peer_of(a, (int)maker)->last_promise;
}

// PROM-4. The first is kept whatever its size; one that does not fit is kept as the error that it
// did not.
static gw_status keep_unexpected(agent *a, int from, uint64_t id, uint64_t size, gw_future **out,
                                 bool *out_fits, gw_error *error) {
    call_peer *sender = call_peer_of(a, from);
    if (sender->unexpected_count >= LIMIT_UNEXPECTED_PROMISES)
        return error_set(error, GW_LIMIT,
                         "too many values have arrived before the requests that need them: %u",
                         sender->unexpected_count);
    gw_status status = add_promise(a, id, out, error);
    if (status) return status;
    *out_fits = !sender->unexpected_bytes ||
                sender->unexpected_bytes + size <= LIMIT_UNEXPECTED_PROMISE_BYTES;
    (*out)->unexpected_from = from;
    (*out)->unexpected_bytes = *out_fits ? size : 0;
    sender->unexpected_bytes += (*out)->unexpected_bytes;
    sender->unexpected_count++;
    return GW_OK;
}

static void refuse_unexpected(gw_future *f, int from) {
    gw_error error;
    error_set(&error, GW_OVERLOADED,
              "%s: values from %s arrived, but the requests that need them did not follow in time",
              agent_member(f->agent, f->agent->rank)->name, agent_member(f->agent, from)->name);
    future_fail_on_loop(f, &error);
}

gw_status promise_received_on_loop(agent *a, int from, message *m, gw_error *error) {
    reply_fixed fixed;
    size_t value_at;
    gw_status status = reply_read(m, &fixed, &value_at, error);
    if (status) {
        message_release(m);
        return status;
    }
    uint64_t id = fixed.id, maker = id_rank(id);
    gw_future *f = map_find(&calls_of(a)->promises, id);
    // If it was mentioned already, its sender is known.
    bool may_send = !f || f->producer < 0 || from == f->producer || (uint64_t)from == maker;
    bool wanted = f && may_send && !future_result(f);
    if (!f && is_unexpected(a, id)) {
        status =
            keep_unexpected(a, from, id, message_size(m) + m->fetched_bytes, &f, &wanted, error);
        if (!status && !wanted) refuse_unexpected(f, from);
    }
    if (!wanted) {
        if (status && status != GW_NO_MEMORY) {
            reply_drop_on_loop(a, from, m, fixed.attachments_at, NULL);
            return status;
        }
        return reply_drop_on_loop(a, from, m, fixed.attachments_at, error);
    }
    return reply_resolve_on_loop(a, from, m, &fixed, value_at, true, resolve_from, handle_retain(f),
                                 error);
}

static bool hangs_on(const gw_future *f, int rank) {
    return f->producer < 0 ? id_rank(f->promise) == (uint64_t)rank : f->producer == rank;
}

void promises_lost_on_loop(agent *a, int rank) {
    // Resolving one may remove others, which may move an unvisited one to its
    // position.
    for (bool found = true; found;) {
        found = false;
        for (map_cursor e = { 0 }; map_next(&calls_of(a)->promises, &e);) {
            if (!hangs_on(e.value, rank)) continue;
            fail_lost(e.value, agent_member(a, rank));
            found = true;
            e.index--;
        }
    }
}

void promises_close_on_loop(agent *a, const gw_error *why) {
    for (map_cursor e = { 0 }; map_next(&calls_of(a)->promises, &e); e.index = 0)
        fail_promise(e.value, why);
}

// ---- As an attachment ---------------------------------------------------------------------------

static const agent *agent_of_promise(const gw_handle *h) {
    return ((const gw_future *)(const void *)h)->agent;
}

static bool names_unknown(const agent *a, reader *table) {
    uint32_t producer = reader_u32(table);
    reader_u64(table);
    reader_u64(table);
    reader_u8(table);
    return !table->failed && deferred_is_unknown(a, producer);
}

static bool await_promise(gw_handle *h, continuation *c) {
    return future_await_on_loop((gw_future *)(void *)h, c);
}

static const gw_error *error_of_promise(const gw_handle *h) {
    result *r = future_result((const gw_future *)(const void *)h);
    return r ? result_error(r) : NULL;
}

static gw_value give_promised(gw_handle *h, gw_scope *s) {
    result *r = future_result((gw_future *)(void *)h);
    assert(r);
    return result_give(r, s);
}

const attachment_class promise_attachment = {
    .type = 2,
    .kind = GW_FUTURE,
    .agent_of = agent_of_promise,
    .prepare = open_forward,
    .discard = discard_forward,
    .write = write_promise,
    .sent = start_forward,
    .read = read_promise,
    .names_unknown = names_unknown,
    .await = await_promise,
    .error = error_of_promise,
    .abandon = abandon_promise,
    .give = give_promised,
};
