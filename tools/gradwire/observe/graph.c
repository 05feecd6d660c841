#include "observe/graph.h"

#include <stdlib.h>
#include <string.h>

#include "observe/components.h"
#include "trace/kinds.h"

// ---- Workers ------------------------------------------------------------------------------------

static worker_state state_of(const image *x, const image_agent *a) {
    if (!a->is_open || (a->table && a->table->phase == TRACE_LEFT)) return WORKER_HAS_LEFT;
    if (x->life == IMAGE_HAS_ENDED) return WORKER_HAS_ENDED;
    if (x->life == IMAGE_STOPPED) return WORKER_IS_STOPPED;
    return a->table ? WORKER_LIVES : WORKER_HAS_NO_TABLE;
}

static bool lives(const graph_worker *w) {
    return w->state == WORKER_LIVES || w->state == WORKER_IS_STOPPED ||
           w->state == WORKER_HAS_NO_TABLE;
}

// By rank. Of several workers of one rank, in processes one after the other, the one that is there now is the first.
static int by_rank(const void *a, const void *b) {
    const graph_worker *x = a, *y = b;
    if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
    if (lives(x) != lives(y)) return lives(x) ? -1 : 1;
    if (!x->image || !y->image) return !x->image - !y->image;
    int64_t x_ns = x->image->opened.monotonic_ns, y_ns = y->image->opened.monotonic_ns;
    if (x_ns != y_ns) return x_ns > y_ns ? -1 : 1;
    return x->agent->row > y->agent->row ? -1 : x->agent->row < y->agent->row;
}

static graph_worker *worker_of(const graph *g, int rank) {
    int low = 0, high = g->worker_count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (g->workers[middle].rank < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low < g->worker_count && g->workers[low].rank == rank ? &g->workers[low] : NULL;
}

static int count_ranks(const trace_activity *a) {
    return a->rank_count < TRACE_RANKS_MAX ? a->rank_count : TRACE_RANKS_MAX;
}

// Those of the memories, and all that others wait for.
static void add_workers(graph *g, const image *x) {
    for (int i = 0; i < x->agent_count; i++) {
        const image_agent *a = &x->agents[i];
        if (!a->name[0]) continue;  // it has no rank yet
        g->workers[g->worker_count++] =
            (graph_worker){ .rank = a->rank, .image = x, .agent = a, .state = state_of(x, a) };
        for (int k = 0; a->table && k < a->table->activity_count; k++) {
            const trace_activity *waits = &a->table->activities[k];
            for (int j = 0; j < count_ranks(waits); j++)
                g->workers[g->worker_count++] =
                    (graph_worker){ .rank = waits->ranks[j], .state = WORKER_IS_UNSEEN };
        }
    }
}

static size_t count_workers(const image *x) {
    size_t count = 0;
    for (int i = 0; i < x->agent_count; i++) {
        const trace_table *t = x->agents[i].table;
        count++;
        for (int k = 0; t && k < t->activity_count; k++)
            count += (size_t)count_ranks(&t->activities[k]);
    }
    return count;
}

static bool find_workers(graph *g, const image *images, int count) {
    size_t most = 1;
    for (int i = 0; i < count; i++) most += count_workers(&images[i]);
    g->workers = calloc(most, sizeof *g->workers);
    if (!g->workers) return false;
    for (int i = 0; i < count; i++) add_workers(g, &images[i]);
    qsort(g->workers, (size_t)g->worker_count, sizeof *g->workers, by_rank);
    int kept = 0;
    for (int i = 0; i < g->worker_count; i++)
        if (!kept || g->workers[kept - 1].rank != g->workers[i].rank)
            g->workers[kept++] = g->workers[i];
    g->worker_count = kept;
    return true;
}

// ---- Nodes --------------------------------------------------------------------------------------

// Only of a worker that lives: those of others do not end by themselves.
static int count_activities(const graph_worker *w) {
    return w->state == WORKER_LIVES ? w->agent->table->activity_count : 0;
}

static bool make_nodes(graph *g) {
    for (int i = 0; i < g->worker_count; i++) {
        g->workers[i].first_node = g->node_count;
        g->node_count += 2 + count_activities(&g->workers[i]);
    }
    g->nodes = calloc((size_t)g->node_count + 1, sizeof *g->nodes);
    for (int i = 0; g->nodes && i < g->worker_count; i++) {
        const graph_worker *w = &g->workers[i];
        graph_node *n = &g->nodes[w->first_node];
        n[0] = (graph_node){ .kind = NODE_WORKER, .worker = i };
        n[1] = (graph_node){ .kind = NODE_PROGRAM, .worker = i };
        for (int k = 0; k < count_activities(w); k++)
            n[2 + k] = (graph_node){ NODE_ACTIVITY, i, &w->agent->table->activities[k] };
    }
    return g->nodes != NULL;
}

int64_t graph_age_ns(const graph *g, int node) {
    const graph_node *n = &g->nodes[node];
    if (!n->activity) return -1;
    return image_activity_age_ns(g->workers[n->worker].image, n->activity);
}

static bool is_old(const graph *g, int node) {
    return graph_age_ns(g, node) >= g->min_ns;
}

// ---- Edges --------------------------------------------------------------------------------------

// Edges in the order in which they are found, from nodes in their order.
typedef struct building {
    graph *g;
    int *first, *to;
    int from, count, capacity;
    bool failed;
} building;

static void add_edge(building *b, int to) {
    for (int i = b->first[b->from]; i < b->count; i++)
        if (b->to[i] == to) return;
    if (b->count == b->capacity) {
        int more = b->capacity ? 2 * b->capacity : 256;
        int *larger = realloc(b->to, (size_t)more * sizeof *larger);
        b->failed |= !larger;
        if (!larger) return;
        b->to = larger;
        b->capacity = more;
    }
    b->to[b->count++] = to;
}

static bool has_edges(const building *b) {
    return b->count > b->first[b->from];
}

// What others wait for if they wait for a worker: its program if it lives.
static int entry_of(const graph_worker *w) {
    return w->first_node + (w->state == WORKER_LIVES ? NODE_PROGRAM : NODE_WORKER);
}

static bool is_call(const trace_activity *a, int caller, uint64_t call) {
    return a->caller == caller && a->call == call;
}

// Whether a body waits in another activity.
static bool waits_itself(const graph *g, const graph_worker *w, const trace_activity *body) {
    for (int i = 0; i < count_activities(w); i++) {
        const trace_activity *a = &w->agent->table->activities[i];
        if (image_is_wait(a->kind) && is_call(a, body->caller, body->call) &&
            is_old(g, w->first_node + 2 + i))
            return true;
    }
    return false;
}

typedef enum which { BODIES_THAT_WAIT, BODIES_THAT_COMPUTE, ALL_BODIES } which;

// But for the one of |own|, if it is one.
static void add_bodies(building *b, const graph_worker *w, which bodies,
                       const trace_activity *own) {
    for (int i = 0; i < count_activities(w); i++) {
        const trace_activity *a = &w->agent->table->activities[i];
        if (a->kind != TRACE_RUNS || (own && is_call(a, own->caller, own->call))) continue;
        bool waits = waits_itself(b->g, w, a);
        if (bodies == ALL_BODIES || waits == (bodies == BODIES_THAT_WAIT))
            add_edge(b, w->first_node + 2 + i);
    }
}

static void add_waits(building *b, const graph_worker *w, int caller, uint64_t call,
                      bool in_shutdown) {
    for (int i = 0; i < count_activities(w); i++) {
        const trace_activity *a = &w->agent->table->activities[i];
        bool is_of_it = a->caller == caller && (caller < 0 || a->call == call);
        if (image_is_wait(a->kind) && is_of_it &&
            (a->kind == TRACE_WAITS_SHUTDOWN) == in_shutdown && is_old(b->g, w->first_node + 2 + i))
            add_edge(b, w->first_node + 2 + i);
    }
}

static bool is_in_shutdown(const graph_worker *w) {
    for (int i = 0; i < count_activities(w); i++)
        if (w->agent->table->activities[i].kind == TRACE_WAITS_SHUTDOWN) return true;
    return false;
}

// A program that is in gw_rpc_shutdown serves: what others wait for is then done by its bodies, if it has any. Without
// an edge it computes.
static void add_of_program(building *b, const graph_worker *w) {
    add_waits(b, w, -1, 0, false);
    if (!has_edges(b) && is_in_shutdown(w)) add_bodies(b, w, ALL_BODIES, NULL);
    if (!has_edges(b)) add_waits(b, w, -1, 0, true);
    if (!has_edges(b)) add_bodies(b, w, BODIES_THAT_WAIT, NULL);
}

// Without an edge it computes.
static void add_of_body(building *b, const graph_worker *w, const trace_activity *a) {
    add_waits(b, w, a->caller, a->call, false);
    add_waits(b, w, a->caller, a->call, true);
}

static void add_of_reply(building *b, const graph_worker *w, const trace_activity *a) {
    const graph_worker *callee = count_ranks(a) ? worker_of(b->g, a->ranks[0]) : NULL;
    if (!callee) return;
    for (int i = 0; i < count_activities(callee); i++) {
        const trace_activity *x = &callee->agent->table->activities[i];
        if (!image_is_wait(x->kind) && is_call(x, w->rank, a->number))
            add_edge(b, callee->first_node + 2 + i);
    }
    if (!has_edges(b)) add_edge(b, callee->first_node + NODE_WORKER);
}

// The body that holds a turn, if the table has it.
static void add_holder(building *b, const graph_worker *w, uint64_t call_id) {
    for (int i = 0; call_id && i < count_activities(w); i++) {
        const trace_activity *a = &w->agent->table->activities[i];
        if (a->kind == TRACE_RUNS && trace_call_id(a->caller, a->call) == call_id)
            add_edge(b, w->first_node + 2 + i);
    }
}

// Any of the bodies may be the one that is awaited: those that compute end first. Else it is the program, which may have
// taken the turn.
static void add_some_body(building *b, const graph_worker *w, const trace_activity *a) {
    add_bodies(b, w, BODIES_THAT_COMPUTE, a);
    if (!has_edges(b)) add_bodies(b, w, BODIES_THAT_WAIT, a);
    if (!has_edges(b)) add_waits(b, w, -1, 0, false);
}

static void add_of_queued(building *b, const graph_worker *w, const trace_activity *a) {
    const graph_worker *caller = worker_of(b->g, a->caller);
    add_holder(b, w, a->number);
    if (has_edges(b)) return;
    if (a->queued == TRACE_QUEUED_ARGUMENTS || a->queued == TRACE_QUEUED_FUTURE) return;
    if (a->queued == TRACE_QUEUED_FLOW && caller) {
        add_edge(b, entry_of(caller));
        return;
    }
    if (a->queued == TRACE_QUEUED_SERVE) {
        add_waits(b, w, -1, 0, false);
        return;
    }
    for (int i = 0; a->queued == TRACE_QUEUED_ORDER && i < count_activities(w); i++) {
        const trace_activity *x = &w->agent->table->activities[i];
        if (x->kind == TRACE_QUEUED && x->caller == a->caller && x->call < a->call)
            add_edge(b, w->first_node + 2 + i);
    }
    if (!has_edges(b)) add_some_body(b, w, a);
}

// A collective that both are in.
static bool has_entered(const graph_worker *w, const trace_activity *a) {
    for (int i = 0; a->kind == TRACE_WAITS_COLLECTIVE && i < count_activities(w); i++) {
        const trace_activity *x = &w->agent->table->activities[i];
        if (x->kind == a->kind && x->number == a->number && strcmp(x->what, a->what) == 0 &&
            strcmp(x->in, a->in) == 0)
            return true;
    }
    return false;
}

static void add_of_ranks(building *b, const graph_worker *w, const trace_activity *a) {
    for (int i = 0; i < count_ranks(a); i++) {
        const graph_worker *other = worker_of(b->g, a->ranks[i]);
        if (other && other != w && !has_entered(other, a)) add_edge(b, entry_of(other));
    }
}

// All that have not called it, and of which the table need not have a list.
static void add_of_shutdown(building *b, const graph_worker *w, const trace_activity *a) {
    add_of_ranks(b, w, a);
    if (has_edges(b)) return;
    for (int i = 0; i < b->g->worker_count; i++) {
        const graph_worker *other = &b->g->workers[i];
        bool has_called =
            other->state == WORKER_HAS_LEFT || other->state == WORKER_HAS_ENDED ||
            (other->agent && other->agent->table && other->agent->table->phase >= TRACE_LEAVING);
        if (other != w && !has_called && other->state != WORKER_IS_UNSEEN)
            add_edge(b, entry_of(other));
    }
}

static void add_of_activity(building *b, const graph_worker *w, const trace_activity *a) {
    switch (a->kind) {
    case TRACE_RUNS: add_of_body(b, w, a); break;
    case TRACE_QUEUED: add_of_queued(b, w, a); break;
    case TRACE_WAITS_REPLY: add_of_reply(b, w, a); break;
    case TRACE_WAITS_TURN:
        add_holder(b, w, a->number);
        if (!has_edges(b)) add_bodies(b, w, BODIES_THAT_COMPUTE, a);
        if (!has_edges(b)) add_bodies(b, w, BODIES_THAT_WAIT, a);
        break;
    case TRACE_WAITS_SHUTDOWN: add_of_shutdown(b, w, a); break;
    default: add_of_ranks(b, w, a); break;
    }
}

static bool reverse(const graph *g, graph_edges *in) {
    int count = g->out.first[g->node_count];
    in->first = calloc((size_t)g->node_count + 2, sizeof *in->first);
    in->to = calloc((size_t)count + 1, sizeof *in->to);
    if (!in->first || !in->to) return false;
    for (int i = 0; i < count; i++) in->first[g->out.to[i] + 2]++;
    for (int i = 2; i < g->node_count + 2; i++) in->first[i] += in->first[i - 1];
    for (int from = 0; from < g->node_count; from++)
        for (int i = g->out.first[from]; i < g->out.first[from + 1]; i++)
            in->to[in->first[g->out.to[i] + 1]++] = from;
    return true;
}

static bool make_edges(graph *g) {
    building b = { .g = g, .first = calloc((size_t)g->node_count + 1, sizeof *b.first) };
    for (int node = 0; b.first && node < g->node_count; node++) {
        const graph_node *n = &g->nodes[node];
        const graph_worker *w = &g->workers[n->worker];
        b.from = node;
        b.first[node] = b.count;
        if (n->kind == NODE_PROGRAM && w->state == WORKER_LIVES) add_of_program(&b, w);
        if (n->kind == NODE_ACTIVITY) add_of_activity(&b, w, n->activity);
    }
    if (b.first) b.first[g->node_count] = b.count;
    if (!b.to) b.to = calloc(1, sizeof *b.to);
    g->out = (graph_edges){ b.first, b.to };
    return b.first && b.to && !b.failed && reverse(g, &g->in);
}

// ---- What is reached ----------------------------------------------------------------------------

// Whether the caller of a call is on another host, so that its wait cannot be seen.
static bool has_unseen_caller(const graph *g, const trace_activity *a) {
    const graph_worker *caller = worker_of(g, a->caller);
    return !caller || caller->state == WORKER_IS_UNSEEN;
}

static bool is_start(const graph *g, int node) {
    const trace_activity *a = g->nodes[node].activity;
    const graph_worker *w = &g->workers[g->nodes[node].worker];
    if (g->pid && w->image && w->image->pid == g->pid && node == entry_of(w)) return true;
    return a && is_old(g, node) && (image_is_wait(a->kind) || has_unseen_caller(g, a));
}

static bool mark_reached(graph *g) {
    int *stack = calloc((size_t)g->node_count + 1, sizeof *stack), count = 0;
    g->is_reached = calloc((size_t)g->node_count + 1, sizeof *g->is_reached);
    bool ok = stack && g->is_reached;
    for (int node = 0; ok && node < g->node_count; node++) {
        if (g->is_reached[node] || !is_start(g, node)) continue;
        g->is_reached[node] = true;
        for (stack[count++] = node; count;) {
            int from = stack[--count];
            for (int i = g->out.first[from]; i < g->out.first[from + 1]; i++) {
                int to = g->out.to[i];
                if (!g->is_reached[to]) stack[count++] = to;
                g->is_reached[to] = true;
            }
        }
    }
    free(stack);
    return ok;
}

static bool find_components(graph *g) {
    g->component = calloc((size_t)g->node_count + 1, sizeof *g->component);
    if (!g->component) return false;
    g->component_count = components_find(g->out.first, g->out.to, g->node_count, g->component);
    return g->component_count >= 0;
}

bool graph_build(const image *images, int count, int64_t min_ns, pid_t pid, graph *out) {
    *out = (graph){ .min_ns = min_ns, .pid = pid };
    if (find_workers(out, images, count) && make_nodes(out) && make_edges(out) &&
        mark_reached(out) && find_components(out))
        return true;
    graph_free(out);
    return false;
}

void graph_free(graph *g) {
    free(g->workers);
    free(g->nodes);
    free(g->out.first);
    free(g->out.to);
    free(g->in.first);
    free(g->in.to);
    free(g->is_reached);
    free(g->component);
    *g = (graph){ 0 };
}

bool graph_is_root(const graph *g, int node) {
    return g->is_reached[node] && g->out.first[node] == g->out.first[node + 1];
}

bool graph_is_in_cycle(const graph *g, int node) {
    if (!g->is_reached[node]) return false;
    for (int i = g->out.first[node]; i < g->out.first[node + 1]; i++)
        if (g->component[g->out.to[i]] == g->component[node]) return true;
    return false;
}

// ---- Cycles -------------------------------------------------------------------------------------

// Breadth first from |from| to itself; |before|: the node from which a node was found, -1: not yet.
static int search_cycle(const graph *g, int from, int *before, int *queue) {
    int count = 0;
    queue[count++] = from;
    for (int at = 0; at < count; at++) {
        for (int i = g->out.first[queue[at]]; i < g->out.first[queue[at] + 1]; i++) {
            int to = g->out.to[i];
            if (g->component[to] != g->component[from] || before[to] >= 0) continue;
            before[to] = queue[at];
            if (to == from) return true;
            queue[count++] = to;
        }
    }
    return false;
}

int graph_find_cycle(const graph *g, int from, int *out, int size) {
    int *before = malloc(((size_t)g->node_count + 1) * sizeof *before);
    int *queue = malloc(((size_t)g->node_count + 1) * sizeof *queue);
    int count = 0;
    for (int i = 0; before && i < g->node_count; i++) before[i] = -1;
    if (before && queue && search_cycle(g, from, before, queue)) {
        for (int node = before[from]; node != from; node = before[node]) count++;
        int index = count++;
        if (size) out[0] = from;
        for (int node = before[from]; node != from; node = before[node], index--)
            if (index < size) out[index] = node;
    }
    free(before);
    free(queue);
    return count;
}
