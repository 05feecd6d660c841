#include "monitor/findings.h"

#include <stdio.h>

#include "observe/clean.h"
#include "observe/hang_parts.h"

enum { WAITERS_MAX = 8 };  // of a root or cycle

typedef struct lines {
    model_finding *out;
    int size, count;
} lines;

static void add(lines *to, const graph *g, int node, int depth, bool is_cycle) {
    char text[DESCRIBE_SIZE];
    if (to->count == to->size) return;
    model_finding *f = &to->out[to->count++];
    *f = (model_finding){ .depth = depth, .is_cycle = is_cycle };
    if (depth || is_cycle)
        describe_node(g, node, text, sizeof text);
    else
        describe_root(g, node, text, sizeof text);
    snprintf(f->text, sizeof f->text, "%.*s", (int)sizeof f->text - 1, text);
    clean_text(f->text);  // it may be cut inside a character
}

static void add_waiters(lines *to, const graph *g, const hang_part *p) {
    int shown = p->waiter_count <= WAITERS_MAX ? p->waiter_count : WAITERS_MAX;
    for (int i = 0; i < shown; i++)
        add(to, g, p->waiters[i].node, p->waiters[i].depth + 1, p->is_cycle);
    if (shown == p->waiter_count || to->count == to->size) return;
    model_finding *f = &to->out[to->count++];
    *f = (model_finding){ .depth = 1, .is_cycle = p->is_cycle };
    snprintf(f->text, sizeof f->text, "and %d more", p->waiter_count - shown);
}

int findings_take(const image *images, int count, int64_t min_ms, model_finding *out, int size) {
    hang_parts parts;
    lines to = { .out = out, .size = size };
    if (!hang_parts_find(images, count, min_ms * 1000000, 0, &parts)) return 0;
    for (int i = 0; i < parts.count; i++) {
        const hang_part *p = &parts.parts[i];
        for (int k = 0; k < p->node_count; k++) add(&to, &parts.graph, p->nodes[k], 0, p->is_cycle);
        add_waiters(&to, &parts.graph, p);
    }
    hang_parts_free(&parts);
    return to.count;
}
