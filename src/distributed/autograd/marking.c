// The mark phase: the initiator finds all slots upstream of its roots, on every worker, before
// anything runs.
#include "distributed/autograd/distributed_pass.h"

#include "base/value.h"
#include <gradwire/rpc.h>

// The marks that this worker has; in |open| those of them whose upstream it does not have.
static bool find_marks(const pass *p, marks *found, marks *open) {
    for (uint32_t i = 0; i < p->target_count; i++) {
        const node *n = pass_remote_node(p, i);
        const receive *r = n ? receive_of(n) : NULL;
        for (uint32_t k = 0; r && k < r->slot_count; k++) {
            if (!pass_reaches(p, i, k)) continue;
            const struct receive_slot *at = &r->slots[k];
            mark own = { (uint32_t)r->from, k, r->send };
            bool ok = marks_add(found, own) &&
                      (at->complete ? marks_add_all(found, at->upstream, at->upstream_count)
                                    : marks_add(open, own));
            if (!ok) return distributed_pass_fail_memory(p->scope);
        }
    }
    marks_sort(found);
    marks_sort(open);
    return true;
}

// The marks of |from| that are neither in |found| nor in |late|.
static bool subtract(const marks *from, const marks *found, const marks *late, marks *out) {
    for (uint32_t i = 0; i < from->count; i++) {
        mark one = from->items[i];
        if (!marks_has(found, one) && !marks_has(late, one) && !marks_add(out, one)) return false;
    }
    return true;
}

// Puts |late| into |found|.
static bool join(marks *found, marks *late) {
    if (!marks_add_all(found, late->items, late->count)) return false;
    late->count = 0;
    marks_sort(found);
    return true;
}

// Adds |more|. The marks of a graph that crosses two workers many times are found a few at a time. Those
// are sorted by themselves, in |late|, and joined with |found| only when sorting all of them pays.
static bool learn(marks *found, marks *late, const marks *more) {
    if (!marks_add_all(late, more->items, more->count)) return false;
    marks_sort(late);
    return (uint64_t)late->count * late->count < found->count || join(found, late);
}

// The replies of the senders: marks, and those of them whose own upstream is not in |all|.
typedef struct answers {
    marks all, open;
} answers;

static void answers_fini(answers *of) {
    marks_fini(&of->all);
    marks_fini(&of->open);
}

static bool read_answer(agent *a, gw_scope *s, gw_value v, answers *into) {
    gw_error error;
    reader r = reader_of(v.as.bytes, v.kind == GW_BYTES ? v.size : 0);
    if (!gw_ok(s)) return false;
    bool ok = !marks_read(a, &r, LIMIT_PASS_MARKS, &into->all, &error) &&
              !marks_read(a, &r, LIMIT_PASS_MARKS, &into->open, &error);
    // An open mark that is not in |all| could be requested for ever.
    for (uint32_t i = 0; ok && i < into->open.count; i++)
        if (!marks_has(&into->all, into->open.items[i]))
            ok = !error_set(&error, GW_PROTOCOL,
                            "gw.marks: an open mark is missing in the list of all marks");
    if (ok) return true;
    return scope_fail_with(s, &error);
}

static bool add_answer(gw_scope *s, answers *to, const answers *one) {
    return (marks_add_all(&to->all, one->all.items, one->all.count) &&
            marks_add_all(&to->open, one->open.items, one->open.count)) ||
           distributed_pass_fail_memory(s);
}

// Requests from each sender of |requested|, which is sorted, the marks upstream of its slots.
static bool request_marks(agent *a, gw_scope *s, const marks *requested, answers *all) {
    gw_future **futures = gw_alloc(s, requested->count * sizeof(gw_future *));
    int count = 0;
    for (uint32_t i = 0; futures && i < requested->count;) {
        uint32_t first = i, rank = requested->items[i].rank;
        while (i < requested->count && requested->items[i].rank == rank) i++;
        gw_value v = gw_value_of_bytes(&requested->items[first], (i - first) * sizeof(mark));
        futures[count++] = gw_rpc_async_with(s, gw_to_rank(rank), "gw.marks", (gw_values){ 1, &v },
                                             GW_OPTIONS(gw_call_options));
        graphs_of(a)->mark_calls++;
    }
    bool ok = gw_ok(s);
    for (int i = 0; i < count; i++) {
        answers one = { 0 };
        ok = ok && read_answer(a, s, gw_wait(s, futures[i]), &one) && add_answer(s, all, &one);
        answers_fini(&one);
    }
    marks_sort(&all->all);
    marks_sort(&all->open);
    return ok && gw_ok(s);
}

// Adds everything upstream of |found| to it; |open| has the marks to request. Each mark is requested
// at most once, because a mark that is in |found| has its upstream there too, or was requested.
static bool request_all(agent *a, gw_scope *outer, marks *found, const marks *open) {
    gw_scope *s = scope_open_unrecorded(outer);
    marks requested = { 0 }, late = { 0 };
    bool ok =
        marks_add_all(&requested, open->items, open->count) || distributed_pass_fail_memory(s);
    while (ok && requested.count) {
        answers replies = { 0 };
        marks fresh = { 0 };
        ok = request_marks(a, s, &requested, &replies);
        requested.count = 0;
        ok = ok &&
             ((subtract(&replies.all, found, &late, &fresh) &&
               subtract(&replies.open, found, &late, &requested) && learn(found, &late, &fresh)) ||
              distributed_pass_fail_memory(s));
        marks_fini(&fresh);
        answers_fini(&replies);
        if (ok && found->count + late.count > LIMIT_PASS_MARKS) {
            scope_fail(s, GW_LIMIT, "the pass has more than %d tensors between workers",
                       LIMIT_PASS_MARKS);
            ok = false;
        }
    }
    ok = ok && (join(found, &late) || distributed_pass_fail_memory(s));
    marks_fini(&late);
    marks_fini(&requested);
    gw_error error = gw_scope_close(s);
    if (!error.status) return ok;
    error_prefix_function(&error, "backward");
    return scope_fail_with(outer, &error);
}

bool distributed_pass_find_marks(distributed_pass *x, const pass *p) {
    marks open = { 0 };
    bool ok = find_marks(p, &x->marks, &open) &&
              (!open.count || request_all(x->agent, p->scope, &x->marks, &open));
    marks_fini(&open);
    return ok;
}
