// The list of the passes on this worker, and the passes that are over. With the loop
// lock held.
#include "distributed/autograd/passes.h"

#include "base/mem.h"
#include "base/mutation.h"

#include <string.h>

const service_data pass_data = { 0 };

// ---- Other workers ------------------------------------------------------------------------------

uint64_t passes_peer_key(int rank) {
    return (uint64_t)(uint32_t)rank + 1;
}

passes_peer *passes_peer_find_on_loop(agent *a, int rank) {
    return map_find(&graphs_of(a)->others, passes_peer_key(rank));
}

passes_peer *passes_peer_of_on_loop(agent *a, int rank) {
    passes_peer *in = passes_peer_find_on_loop(a, rank);
    if (in || !(in = mem_calloc(sizeof *in))) return in;
    if (map_put(&graphs_of(a)->others, passes_peer_key(rank), in)) return in;
    mem_free(in);
    return NULL;
}

void passes_peer_free(passes_peer *in) {
    mem_free(in->aborted);
    mem_free(in);
}

static bool has_deferred_abort(const agent *a, int initiator, uint64_t number) {
    const graphs *gs = graphs_of(a);
    for (uint32_t i = 0; i < gs->deferred_count; i++) {
        const pass_report *w = &gs->deferred[i];
        if (w->kind == KIND_PASS_ABORT && w->initiator == initiator && w->number == number)
            return true;
    }
    return false;
}

bool passes_is_over_on_loop(const agent *a, int rank, uint64_t number) {
    const passes_peer *in = map_find(&graphs_of(a)->others, passes_peer_key(rank));
    if (has_mutation(MUTATION_PASS_BEGINS_AGAIN)) return false;
    if (!in) return has_deferred_abort(a, rank, number);
    bool over = number < in->ended.settled || has_deferred_abort(a, rank, number);
    for (uint32_t i = 0; i < in->count && !over; i++) over = in->aborted[i] == number;
    return over;
}

bool passes_peer_remember_aborted(passes_peer *in, uint64_t number) {
    if (in->count == LIMIT_PASSES_PER_PEER) {
        memmove(in->aborted, in->aborted + 1, --in->count * sizeof *in->aborted);
    }
    if (!mem_grow(&in->aborted, &in->capacity, in->count + 1, sizeof *in->aborted)) return false;
    in->aborted[in->count++] = number;
    return true;
}

// ---- The list -----------------------------------------------------------------------------------

distributed_pass *distributed_pass_open(agent *a, int from, uint64_t number, uint64_t scope) {
    distributed_pass *x = mem_calloc(sizeof *x);
    if (!x) return NULL;
    x->agent = a;
    x->initiator = from;
    x->by = -1;
    x->number = number;
    x->scope = scope;
    list_init(&x->inbox);
    list_init(&x->outbox);
    return x;
}

distributed_pass *passes_find_on_loop(agent *a, int from, uint64_t number) {
    list_each(l, &graphs_of(a)->passes) {
        distributed_pass *x = list_entry(l, distributed_pass, link);
        if (x->initiator == from && x->number == number) return x;
    }
    return NULL;
}

void distributed_pass_unlist_on_loop(distributed_pass *x) {
    list_remove(&x->link);
    leaving_check_on_loop(x->agent);
}

void distributed_pass_note_failed_on_loop(const distributed_pass *x) {
    graphs_of(x->agent)->failed[x->number % PASSES_FAILED_BITS] = x->number;
}

passes_ended passes_ended_on_loop(const agent *a, int from) {
    const graphs *gs = graphs_of(a);
    if (from != a->rank) {
        const passes_peer *in = map_find(&gs->others, passes_peer_key(from));
        return in ? in->ended : (passes_ended){ 0 };
    }
    passes_ended e = { .settled = gs->last_pass + 1 };
    list_each(l, &gs->passes) {
        const distributed_pass *x = list_entry(l, distributed_pass, link);
        if (x->initiator == from && x->number < e.settled) e.settled = x->number;
    }
    for (uint64_t i = 0; i < PASSES_FAILED_BITS && i + 1 < e.settled; i++) {
        uint64_t number = e.settled - 1 - i;
        if (gs->failed[number % PASSES_FAILED_BITS] == number) e.failed |= UINT64_C(1) << i;
    }
    return e;
}

void passes_put_ended_on_loop(const agent *a, int from, bytes *b) {
    passes_ended e = passes_ended_on_loop(a, from);
    bytes_put_u64(b, e.settled);
    bytes_put_u64(b, e.failed);
}
