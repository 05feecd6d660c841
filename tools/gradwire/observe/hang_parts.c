#include "observe/hang_parts.h"

#include <stdlib.h>

// Programs and workers as a whole say nothing in a cycle: they are left out.
static void find_cycle(const graph *g, int from, hang_part *p) {
    int *all = malloc(((size_t)g->node_count + 1) * sizeof *all);
    int size = all ? graph_find_cycle(g, from, all, g->node_count) : 0;
    for (int i = 0; i < size; i++) {
        if (!g->nodes[all[i]].activity) continue;
        if (p->node_count < HANG_CYCLE_MAX) p->nodes[p->node_count++] = all[i];
        p->cycle_size++;
    }
    free(all);
}

static hang_part *add_part(hang_parts *p) {
    hang_part *larger = realloc(p->parts, ((size_t)p->count + 1) * sizeof *larger);
    if (!larger) return NULL;
    p->parts = larger;
    larger[p->count] = (hang_part){ 0 };
    return &larger[p->count++];
}

static bool find_waiters(hang_parts *p, hang_part *part, bool *seen) {
    part->waiter_count =
        describe_waiters(&p->graph, part->nodes, part->node_count, seen, &part->waiters);
    return part->waiter_count >= 0;
}

static bool add_roots(hang_parts *p, bool *seen) {
    for (int node = 0; node < p->graph.node_count; node++) {
        if (!graph_is_root(&p->graph, node)) continue;
        hang_part *part = add_part(p);
        if (!part) return false;
        part->nodes[part->node_count++] = node;
        if (!find_waiters(p, part, seen)) return false;
    }
    return true;
}

// One of each component that has any.
static bool add_cycles(hang_parts *p, bool *seen, bool *is_done) {
    const graph *g = &p->graph;
    for (int node = 0; node < g->node_count; node++) {
        if (is_done[g->component[node]] || !g->nodes[node].activity || !graph_is_in_cycle(g, node))
            continue;
        is_done[g->component[node]] = true;
        hang_part *part = add_part(p);
        if (!part) return false;
        part->is_cycle = true;
        find_cycle(g, node, part);
        if (!find_waiters(p, part, seen)) return false;
    }
    return true;
}

bool hang_parts_find(const image *images, int count, int64_t min_ns, pid_t pid, hang_parts *out) {
    *out = (hang_parts){ 0 };
    if (!graph_build(images, count, min_ns, pid, &out->graph)) return false;
    size_t nodes = (size_t)out->graph.node_count + 1;
    bool *seen = calloc(nodes, sizeof *seen), *is_done = calloc(nodes, sizeof *is_done);
    bool ok = seen && is_done;
    // What is in a cycle waits for roots as well, if it waits for several: it is in both.
    ok = ok && add_roots(out, seen);
    free(seen);
    seen = calloc(nodes, sizeof *seen);
    ok = ok && seen && add_cycles(out, seen, is_done);
    free(seen);
    free(is_done);
    if (!ok) hang_parts_free(out);
    return ok;
}

void hang_parts_free(hang_parts *p) {
    for (int i = 0; i < p->count; i++) free(p->parts[i].waiters);
    free(p->parts);
    graph_free(&p->graph);
    *p = (hang_parts){ 0 };
}
