// The messages of passes other than gradients: done, abort, scope closed, sends released. With the
// loop lock held.
#include "distributed/autograd/passes.h"

#include "base/mutation.h"

static passes_ended read_ended(reader *r) {
    passes_ended e = { .settled = reader_u64(r) };
    e.failed = reader_u64(r);
    return e;
}

static gw_status done_received(agent *a, int from, message *m, gw_error *error) {
    reader r = reader_of(m->head.data, m->head.size);
    uint64_t number = reader_u64(&r);
    if (r.failed) return error_set(error, GW_PROTOCOL, "malformed done message: truncated");
    distributed_pass *x = passes_find_on_loop(a, a->rank, number);
    if (!x || !worker_set_has(&x->undone, from)) return GW_OK;
    worker_set_remove(&x->undone, from);
    x->undone_count--;
    if (x->waiting) env_wake(a->env, x->waiting);
    return GW_OK;
}

static gw_status abort_received(agent *a, int from, message *m, gw_error *error) {
    reader r = reader_of(m->head.data, m->head.size);
    gw_error why;
    uint32_t by = reader_u32(&r);
    uint64_t number = reader_u64(&r);
    if (decode_error(&r, &why, error)) return error->status;
    if (by == (uint32_t)a->rank) {
        distributed_pass *x = passes_find_on_loop(a, a->rank, number);
        if (x && distributed_pass_awaits(x, from)) distributed_pass_fail_on_loop(x, &why);
        return GW_OK;
    }
    if (by != (uint32_t)from)
        return error_set(error, GW_PROTOCOL,
                         "malformed abort message: the pass belongs to a third worker");
    passes_peer *in = passes_peer_of_on_loop(a, from);
    bool forgets = has_mutation(MUTATION_ABORT_FORGOTTEN);
    if (in && !forgets && !passes_is_over_on_loop(a, from, number))
        passes_peer_remember_aborted(in, number);
    distributed_pass *x = passes_find_on_loop(a, from, number);
    if (x) x->error = why;
    if (x) distributed_pass_apply_on_loop(x, DISTRIBUTED_PASS_FAILED);
    return GW_OK;
}

static void close_scope(agent *a, int from, uint64_t scope) {
    list_each(l, &graphs_of(a)->passes) {
        distributed_pass *x = list_entry(l, distributed_pass, link);
        if (x->initiator == from && x->scope == scope)
            distributed_pass_apply_on_loop(x, DISTRIBUTED_PASS_CLOSED);
    }
}

static gw_status scope_closed_received(agent *a, int from, message *m, gw_error *error) {
    reader r = reader_of(m->head.data, m->head.size);
    uint64_t scope = reader_u64(&r);
    passes_ended ended = read_ended(&r);
    if (r.failed) return error_set(error, GW_PROTOCOL, "malformed scope closed message: truncated");
    passes_note_ended_on_loop(a, from, ended);
    if (from != a->rank) close_scope(a, from, scope);
    return GW_OK;
}

gw_status graphs_received_on_loop(agent *a, int from, message *m, gw_error *error) {
    if (m->kind == KIND_SENDS_RELEASED) return sends_released_on_loop(a, from, m, error);
    gw_status status = GW_OK;
    switch (m->kind) {
    case KIND_GRADIENT: status = passes_gradient_received_on_loop(a, from, m, error); break;
    case KIND_PASS_DONE: status = done_received(a, from, m, error); break;
    case KIND_PASS_ABORT: status = abort_received(a, from, m, error); break;
    default: status = scope_closed_received(a, from, m, error);
    }
    message_release(m);
    return status;
}
