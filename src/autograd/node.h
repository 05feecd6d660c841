// Nodes of the graph: the record of one operator, for its derivative.
//
// A node is counted: each of its output tensors and each edge that leads to it holds one count, on
// any thread. Edges point backwards, from a node to the makers of its inputs, so there is no cycle.
// A node holds nothing of a backward pass: use counts and gradients are the pass's (see pass.h).
#ifndef AUTOGRAD_NODE_H
#define AUTOGRAD_NODE_H

#include "tensor/ops/op.h"

typedef struct node node;
struct pass;
struct part;
struct late;

// Where the gradient of one input goes. |target| is counted.
typedef struct edge {
    enum { EDGE_NONE, EDGE_NODE, EDGE_LEAF } kind : 8;  // EDGE_NONE: the input needs no gradient
    uint16_t output;                                    // of a node
    union {
        node *node;
        gw_tensor *leaf;
        void *any;
    } to;
} edge;

// The arguments with which a pass runs a node: it computes d_inputs from d_outputs.
typedef struct node_run {
    gw_scope *scope;        // owns the results; nothing is recorded in it
    gw_tensor **d_outputs;  // by output; NULL: no gradient arrived
    gw_tensor **d_inputs;   // by edge; all NULL at first
    const bool *wanted;     // by edge
} node_run;

// Classes of nodes. This room has one, for operators; the distributed room has a second, for the
// tensors of one received message.
typedef struct node_class {
    const char *(*name)(const node *n);  // "mul", for messages
    void (*run)(node *n, node_run *r);   // fails r->scope when it cannot
    // Instead of |run|: the gradients arrive later, by late_answer, in the order of the edges. Also
    // without gradients. It retains the parts of |r| that it needs after its return.
    void (*start)(node *n, node_run *r, struct late *answer);
    bool (*forget)(node *n);   // frees saved values; false if there are none
    void (*destroy)(node *n);  // the memory, after forget; edges are released already
    bool takes_rows;  // |run| takes gradients that are sparse by rows; else they are made dense

    // Runs the planned pass |p| as a distributed pass, from |roots| with |parts|, and gives its
    // gradients to the scope of |p|, or fails that. The caller closes |p|. NULL unless |run| sends
    // gradients to another worker; such a node has no edges.
    void (*run_distributed)(struct pass *p, gw_tensor *const *roots, const struct part *parts,
                            int count);
} node_class;

struct node {
    const node_class *class;
    _Atomic uint32_t count;
    bool spent;    // its saved values are freed: no pass can run it again
    bool planned;  // a pass has set out to run it
    uint16_t output_count;
    uint32_t edge_count;
    edge *edges;  // by flat tensor input
    struct grad_hooks *hooks;
    node *next;  // in the list of nodes to be destroyed
};

static inline bool node_is_remote(const node *n) {
    return n->class->run_distributed;
}

static inline node *node_retain(node *n) {
    atomic_fetch_add_explicit(&n->count, 1, memory_order_relaxed);
    return n;
}

// The table through which the tensor room records operators.
extern const tape autograd_tape;

// Makes |x|, which needs no gradient yet, output |output| of |n|.
static inline void node_make(node *n, uint16_t output, gw_tensor *x) {
    x->node = node_retain(n);
    x->output = output;
    x->tape = &autograd_tape;
}

void node_forget(gw_tensor *x);  // releases the node and the hooks of |x|

// Destroys |n| with its last count, and all nodes that only it led to, however long the chain.
void node_release(node *n);

// The edge to the node that made |x|, or to |x| if it is a leaf; EDGE_NONE if it needs no gradient.
// Not counted until edge_retain.
edge edge_to(gw_tensor *x);
edge edge_retain(edge e);

#endif
