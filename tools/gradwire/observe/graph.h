// Who waits for whom in a job: a graph of the activities of its workers (src/trace/table.h).
//
// An edge leads from what waits to what it waits for. What waits for nothing else is a root.
//
//     worker1 WAITS_REPLY 14 -> worker2 RUNS (worker1, 14) -> worker2 WAITS_COLLECTIVE -> worker0, its program
//
// Each edge is an assumption from what tables have; graph.c states the rules.
//
// Threads: any.
#ifndef GRADWIRE_GRAPH_H
#define GRADWIRE_GRAPH_H

#include "observe/image.h"

typedef enum worker_state {
    WORKER_LIVES,
    WORKER_IS_STOPPED,
    WORKER_HAS_ENDED,  // its process, while its worker was open
    WORKER_HAS_LEFT,
    WORKER_HAS_NO_TABLE,
    WORKER_IS_UNSEEN,  // no memory of this rank has been found
} worker_state;

typedef struct graph_worker {
    int rank;
    const image *image;        // NULL: unseen
    const image_agent *agent;  // the same
    worker_state state;
    int first_node;  // NODE_WORKER, then NODE_PROGRAM, then its activities
} graph_worker;

typedef enum node_kind {
    NODE_WORKER,   // as a whole
    NODE_PROGRAM,  // what it does outside of bodies
    NODE_ACTIVITY
} node_kind;

typedef struct graph_node {
    node_kind kind;
    int worker;
    const trace_activity *activity;  // NULL unless NODE_ACTIVITY
} graph_node;

typedef struct graph_edges {
    int *first;  // by node, and one more: the index of its first edge
    int *to;
} graph_edges;

typedef struct graph {
    graph_worker *workers;  // by rank
    int worker_count;
    graph_node *nodes;
    int node_count;
    graph_edges out, in;  // to what a node waits for; to what waits for it
    bool *is_reached;     // from a wait that is old enough, by nodes
    int *component;       // by nodes: the number of its strongly connected component
    int component_count;
    int64_t min_ns;
    pid_t pid;
} graph;

// The images are of one job, and live longer than the graph. Waits of less than |min_ns| do not count. What the workers of
// process |pid| do is reached in any case; 0: none. Returns false without memory.
bool graph_build(const image *images, int count, int64_t min_ns, pid_t pid, graph *out);
void graph_free(graph *g);

// What something waits for, and which waits for nothing itself.
bool graph_is_root(const graph *g, int node);

// Whether others that are reached are in its component.
bool graph_is_in_cycle(const graph *g, int node);

// A shortest cycle through |from|: writes at most |size| nodes in order. Returns how many it has, 0 without memory.
int graph_find_cycle(const graph *g, int from, int *out, int size);

// The age of what |node| does; -1: not known.
int64_t graph_age_ns(const graph *g, int node);

#endif
