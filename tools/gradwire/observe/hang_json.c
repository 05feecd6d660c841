#include <jansson.h>

#include "observe/hang_parts.h"
#include "observe/json.h"
#include "observe/last.h"
#include "observe/show.h"
#include "trace/kinds.h"

static json_t *node_json(const graph *g, int node, bool is_root) {
    const graph_node *n = &g->nodes[node];
    const graph_worker *w = &g->workers[n->worker];
    char name[160], text[DESCRIBE_SIZE];
    describe_worker(w, name, sizeof name);
    if (is_root)
        describe_root(g, node, text, sizeof text);
    else
        describe_node(g, node, text, sizeof text);
    json_t *out = json_pack("{ss ss si ss}", "kind", describe_kind(g, node), "worker", name, "rank",
                            w->rank, "text", text);
    if (w->image) json_object_set_new(out, "pid", json_integer(w->image->pid));
    if (w->agent && w->agent->table)
        json_object_set_new(out, "table_age_ms",
                            json_integer(image_table_age_ns(w->image, w->agent) / 1000000));
    if (n->activity) json_object_set_new(out, "activity", json_of_activity(w->image, n->activity));
    return out;
}

static json_t *waiters_json(const graph *g, const hang_part *p) {
    json_t *out = json_array();
    for (int i = 0; i < p->waiter_count; i++) {
        json_t *one = node_json(g, p->waiters[i].node, false);
        json_object_set_new(one, "depth", json_integer(p->waiters[i].depth));
        json_array_append_new(out, one);
    }
    return out;
}

static json_t *records_json(const graph *g, int node) {
    const graph_worker *w = &g->workers[g->nodes[node].worker];
    const image_record *records[HANG_RECORDS];
    json_t *out = json_array();
    int count =
        w->image ? last_records(w->image, (int)(w->agent - w->image->agents), records, HANG_RECORDS)
                 : 0;
    for (int i = count; i-- > 0;) json_array_append_new(out, json_of_record(w->image, records[i]));
    return out;
}

static json_t *root_json(const graph *g, const hang_part *p) {
    json_t *out = node_json(g, p->nodes[0], true);
    json_object_set_new(out, "waiters", waiters_json(g, p));
    json_object_set_new(out, "records", records_json(g, p->nodes[0]));
    return out;
}

static json_t *cycle_json(const graph *g, const hang_part *p) {
    json_t *nodes = json_array();
    for (int i = 0; i < p->node_count; i++)
        json_array_append_new(nodes, node_json(g, p->nodes[i], false));
    return json_pack("{so si so}", "nodes", nodes, "size", p->cycle_size, "waiters",
                     waiters_json(g, p));
}

void hang_write_json(const hang_parts *p, const hang_options *o, FILE *out) {
    json_t *roots = json_array(), *cycles = json_array();
    for (int i = 0; i < p->count; i++) {
        const hang_part *x = &p->parts[i];
        if (x->is_cycle)
            json_array_append_new(cycles, cycle_json(&p->graph, x));
        else
            json_array_append_new(roots, root_json(&p->graph, x));
    }
    json_t *all = json_pack("{ss? ss? si so so}", "job", o->job, "cause", o->cause, "workers",
                            p->graph.worker_count, "roots", roots, "cycles", cycles);
    json_write(all, out);
}
