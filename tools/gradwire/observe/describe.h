// Sentences about the nodes of a graph.
#ifndef GRADWIRE_DESCRIBE_H
#define GRADWIRE_DESCRIBE_H

#include "observe/graph.h"

enum { DESCRIBE_SIZE = 1024 };

// "runs", "stopped", "collective": a node in one word.
const char *describe_kind(const graph *g, int node);

// "worker1 waits for call 14 of slow at worker2 (hang.c:11), for 61 s"
void describe_node(const graph *g, int node, char *out, size_t size);

// The same with its process, for a root.
void describe_root(const graph *g, int node, char *out, size_t size);

// "worker1", or "rank 1" of a worker that is not seen.
void describe_worker(const graph_worker *w, char *out, size_t size);

// What node waits for |starts|, directly or through others, each once, and how far it is from them. Nodes that are in
// |seen|, by nodes, are left out; all that are found are added there. Programs and workers as a whole are not listed.
// Returns how many, -1 without memory. |*out| is to be freed.
typedef struct waiter_step {
    int node, depth;
} waiter_step;
int describe_waiters(const graph *g, const int *starts, int start_count, bool *seen,
                     waiter_step **out);

#endif
