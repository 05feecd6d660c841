// Walks this worker's own graph to the receives in it, to find which marks lie upstream.
#include "distributed/autograd/graphs.h"

#include "autograd/index.h"
#include "base/mem.h"

enum { STACK_SMALL = 64, SORT_MIN = 4096 };

typedef struct walk {
    pointer_index visited;  // nodes but receives, whose slots are visited one by one
    node **stack, *small[STACK_SMALL];
    uint32_t depth, capacity;
    bool complete;
    marks *out;
    marks *open;       // slots whose upstream is not complete; NULL: not collected
    uint32_t sort_at;  // count of marks at which |out| is sorted, to remove duplicates
} walk;

static bool push(walk *w, node *n) {
    if (w->depth == w->capacity) {
        uint32_t capacity = w->capacity * 2;
        node **grown = mem_alloc(capacity * sizeof *grown);
        if (!grown) return false;
        for (uint32_t i = 0; i < w->depth; i++) grown[i] = w->stack[i];
        if (w->stack != w->small) mem_free(w->stack);
        w->stack = grown;
        w->capacity = capacity;
    }
    w->stack[w->depth++] = n;
    return true;
}

static bool visit_slot(walk *w, const receive *r, uint32_t slot) {
    const struct receive_slot *at = &r->slots[slot];
    mark own = { (uint32_t)r->from, slot, r->send };
    w->complete &= at->complete;
    if (!marks_add(w->out, own)) return false;
    if (!at->complete) return !w->open || marks_add(w->open, own);
    if (!marks_add_all(w->out, at->upstream, at->upstream_count)) return false;
    if (w->out->count < w->sort_at) return true;
    marks_sort(w->out);
    if (w->open) marks_sort(w->open);
    w->sort_at = 2 * w->out->count + SORT_MIN;
    return true;
}

static bool follow(walk *w, edge e) {
    if (e.kind != EDGE_NODE) return true;
    receive *r = receive_of(e.to.node);
    if (r) return visit_slot(w, r, e.output);
    if (index_find(&w->visited, e.to.node) != INDEX_NONE) return true;
    if (!index_reserve(&w->visited, 1)) return false;
    index_put(&w->visited, e.to.node, 0);
    return push(w, e.to.node);
}

static bool find(walk *w, const edge *edges, uint32_t count, uint32_t nodes_max) {
    w->capacity = STACK_SMALL;
    w->stack = w->small;
    w->complete = true;
    w->sort_at = SORT_MIN;
    index_init(&w->visited);
    bool ok = true;
    for (uint32_t i = 0; ok && i < count; i++) {
        ok = follow(w, edges[i]);
        while (ok && w->depth) {
            const node *n = w->stack[--w->depth];
            if (w->visited.count > nodes_max) ok = false;
            for (uint32_t k = 0; ok && k < n->edge_count; k++) ok = follow(w, n->edges[k]);
        }
    }
    index_fini(&w->visited);
    if (w->stack != w->small) mem_free(w->stack);
    marks_sort(w->out);
    if (w->open) marks_sort(w->open);
    return ok;
}

bool upstream_find(edge e, uint32_t nodes_max, marks *out) {
    walk w = { .out = out };
    return find(&w, &e, 1, nodes_max) && w.complete;
}

bool upstream_find_next(const edge *edges, uint32_t count, marks *out, marks *open) {
    walk w = { .out = out, .open = open };
    return find(&w, edges, count, UINT32_MAX);
}
