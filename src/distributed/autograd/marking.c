// The mark phase: the initiator finds all slots upstream of its roots, on every worker, before
// anything runs.
#include "distributed/autograd/distributed_pass.h"

#include "base/value.h"
#include <gradwire/rpc.h>

// The marks that this worker knows; in |open| those of them whose upstream it does not know.
static bool find_marks(const pass *p, marks *known, marks *open) {
    for (uint32_t i = 0; i < p->target_count; i++) {
        const node *n = pass_remote_node(p, i);
        const receive *r = n ? receive_of(n) : NULL;
        for (uint32_t k = 0; r && k < r->slot_count; k++) {
            if (!pass_reaches(p, i, k)) continue;
            const struct receive_slot *at = &r->slots[k];
            mark own = { (uint32_t)r->from, k, r->send };
            bool ok = marks_add(known, own) &&
                      (at->complete ? marks_add_all(known, at->upstream, at->upstream_count)
                                    : marks_add(open, own));
            if (!ok) return distributed_pass_fail_memory(p->scope);
        }
    }
    marks_sort(known);
    marks_sort(open);
    return true;
}

// The marks of |from| that are neither in |known| nor in |late|.
static bool subtract(const marks *from, const marks *known, const marks *late, marks *out) {
    for (uint32_t i = 0; i < from->count; i++) {
        mark one = from->items[i];
        if (!marks_has(known, one) && !marks_has(late, one) && !marks_add(out, one)) return false;
    }
    return true;
}

// Puts |late| into |known|.
static bool join(marks *known, marks *late) {
    if (!marks_add_all(known, late->items, late->count)) return false;
    late->count = 0;
    marks_sort(known);
    return true;
}

// Adds |more|. A graph that goes to and fro many times becomes known a few marks at a time. Those
// are sorted by themselves, in |late|, and joined with |known| only when sorting all of them pays.
static bool learn(marks *known, marks *late, const marks *more) {
    if (!marks_add_all(late, more->items, more->count)) return false;
    marks_sort(late);
    return (uint64_t)late->count * late->count < known->count || join(known, late);
}

// The answers of the senders: marks, and those of them whose own upstream is not in |all|.
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
    // An open mark that is not in |all| could be asked about for ever.
    for (uint32_t i = 0; ok && i < into->open.count; i++)
        if (!marks_has(&into->all, into->open.items[i]))
            ok = !error_set(&error, GW_PROTOCOL, "gw.marks: one is open that is not there");
    if (ok) return true;
    scope_fail_with(s, &error);
    return false;
}

static bool add_answer(gw_scope *s, answers *to, const answers *one) {
    return (marks_add_all(&to->all, one->all.items, one->all.count) &&
            marks_add_all(&to->open, one->open.items, one->open.count)) ||
           distributed_pass_fail_memory(s);
}

// Asks each sender of |asked|, which is sorted, for the marks upstream of its slots.
static bool ask(agent *a, gw_scope *s, const marks *asked, answers *all) {
    gw_future **futures = gw_alloc(s, asked->count * sizeof(gw_future *));
    int count = 0;
    for (uint32_t i = 0; futures && i < asked->count;) {
        uint32_t first = i, rank = asked->items[i].rank;
        while (i < asked->count && asked->items[i].rank == rank) i++;
        gw_value v = gw_value_of_bytes(&asked->items[first], (i - first) * sizeof(mark));
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

// Adds everything upstream of |known| to it; |open| has the marks to ask about. Each mark is asked
// about at most once, because a mark that is in |known| has its upstream there too, or was asked
// about.
static bool ask_all(agent *a, gw_scope *outer, marks *known, const marks *open) {
    gw_scope *s = gw_scope_open(outer);
    gw_no_grad(s);
    marks asked = { 0 }, late = { 0 };
    bool ok = marks_add_all(&asked, open->items, open->count) || distributed_pass_fail_memory(s);
    while (ok && asked.count) {
        answers told = { 0 };
        marks fresh = { 0 };
        ok = ask(a, s, &asked, &told);
        asked.count = 0;
        ok = ok && ((subtract(&told.all, known, &late, &fresh) &&
                     subtract(&told.open, known, &late, &asked) && learn(known, &late, &fresh)) ||
                    distributed_pass_fail_memory(s));
        marks_fini(&fresh);
        answers_fini(&told);
        if (ok && known->count + late.count > LIMIT_PASS_MARKS) {
            scope_fail(s, GW_LIMIT, "more than %d tensors between workers", LIMIT_PASS_MARKS);
            ok = false;
        }
    }
    ok = ok && (join(known, &late) || distributed_pass_fail_memory(s));
    marks_fini(&late);
    marks_fini(&asked);
    gw_error error = gw_scope_close(s);
    if (!error.status) return ok;
    error_prefix_function(&error, "backward");
    scope_fail_with(outer, &error);
    return false;
}

bool distributed_pass_find_marks(distributed_pass *x, const pass *p) {
    marks open = { 0 };
    bool ok = find_marks(p, &x->marks, &open) &&
              (!open.count || ask_all(x->agent, p->scope, &x->marks, &open));
    marks_fini(&open);
    return ok;
}
