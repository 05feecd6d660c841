#include "autograd/node.h"

#include "autograd/hook.h"

static bool give_back(node *n) {
    return atomic_fetch_sub_explicit(&n->count, 1, memory_order_acq_rel) == 1;
}

// A chain of a million operators is destroyed in a loop: nodes without a count wait in a list that
// is linked through themselves.
void node_release(node *n) {
    if (!n || !give_back(n)) return;
    n->next = NULL;
    for (node *doomed = n; doomed;) {
        node *d = doomed;
        doomed = d->next;
        d->class->forget(d);
        grad_hooks_free(d->hooks);
        for (uint32_t i = 0; i < d->edge_count; i++) {
            edge e = d->edges[i];
            if (e.kind == EDGE_LEAF) {
                handle_release(e.to.leaf);
            } else if (e.kind == EDGE_NODE && give_back(e.to.node)) {
                e.to.node->next = doomed;
                doomed = e.to.node;
            }
        }
        d->class->destroy(d);
    }
}

void node_forget(gw_tensor *x) {
    node_release(x->node);
    grad_hooks_free(x->hooks);
    x->node = NULL;
    x->hooks = NULL;
}

edge edge_to(gw_tensor *x) {
    if (x->node) return (edge){ .kind = EDGE_NODE, .output = x->output, .to.node = x->node };
    if (x->tape) return (edge){ .kind = EDGE_LEAF, .to.leaf = x };
    return (edge){ .kind = EDGE_NONE };
}

edge edge_retain(edge e) {
    if (e.kind == EDGE_NODE) node_retain(e.to.node);
    if (e.kind == EDGE_LEAF) handle_retain(e.to.leaf);
    return e;
}
