#include "observe/stuck.h"

#include "observe/graph.h"
#include "trace/kinds.h"

void stuck_update(stuck_progress *p, const image *x, int64_t now_ms) {
    uint64_t count = 0;
    for (int i = 0; i < x->agent_count; i++) {
        const trace_table *t = x->agents[i].table;
        if (t) count += t->counters[TRACE_CALLS_MADE] + t->counters[TRACE_COLLECTIVES];
    }
    if (p->moved_ms && count == p->count) return;
    p->count = count;
    p->moved_ms = now_ms;
}

bool stuck_has_stopped(const stuck_progress *p, int64_t now_ms, int64_t after_ms) {
    return p->moved_ms && now_ms - p->moved_ms >= after_ms;
}

// Something of another worker leads to |node|. The caller of a call that is on another host need not wait for it.
static bool is_awaited(const graph *g, int node) {
    for (int i = g->in.first[node]; i < g->in.first[node + 1]; i++) {
        int from = g->in.to[i];
        if (g->is_reached[from] && g->nodes[from].worker != g->nodes[node].worker) return true;
    }
    return false;
}

static bool is_stuck(const graph *g, int node) {
    const graph_node *n = &g->nodes[node];
    const graph_worker *w = &g->workers[n->worker];
    if (w->state != WORKER_LIVES || w->image->life != IMAGE_RUNS || !graph_is_root(g, node))
        return false;
    bool computes = n->kind == NODE_PROGRAM || (n->activity && n->activity->kind == TRACE_RUNS &&
                                                graph_age_ns(g, node) >= g->min_ns);
    return computes && is_awaited(g, node);
}

bool stuck_find(const image *images, int count, int64_t min_ns, bool *out) {
    graph g;
    for (int i = 0; i < count; i++) out[i] = false;
    if (!graph_build(images, count, min_ns, 0, &g)) return false;
    for (int node = 0; node < g.node_count; node++)
        if (is_stuck(&g, node)) out[g.workers[g.nodes[node].worker].image - images] = true;
    graph_free(&g);
    return true;
}

bool stuck_has_stepped(const image *x) {
    for (int i = 0; i < x->thread_count; i++) {
        const image_thread *t = &x->threads[i];
        for (uint32_t k = t->record_count; k-- > 0;)
            if (t->records[k].kind == TRACE_STEP_ENDED || t->records[k].kind == TRACE_ELASTIC_STEP)
                return true;
    }
    return false;
}
