// Backward across workers.
//
// The tensors of a call, a reply or a fetched value keep their history, on every worker: gw_backward walks back through
// the graphs of all of these workers. The program needs no context object for this.
//
//     gw_scope  *s    = gw_scope_open(root);
//     gw_tensor *y    = gw_tensor_of(s, gw_rpc_sync(s, "ps", "layer", x));      // the layer's weight lives on ps
//     gw_backward(s, gw_mse(s, y, target));                                     // through ps and back
//     gw_print(s, gw_rref_grad(s, ref));                                     // a reference to that weight
//     gw_optimizer_step(s, opt);
//     gw_scope_close_up(s);                                                        // releases gradients on every worker
//
// Gradients belong to the scope given to gw_backward, on every worker. If a function is called in that scope on another
// worker, gw_grad and gw_grads_get in the function's own scope return the gradients of that worker. Passes in different
// scopes never mix.
//
// A pass does not wait for graphs that the loss does not use. If a pass fails, it fails on all workers with one error:
// the error of a derivative on any worker, DISCONNECTED for a worker that is gone, CANCELLED, or TIMEOUT at the
// deadline of the scope. Without a deadline, a pass fails with TIMEOUT when nothing has arrived for the timeout of a
// call. After a pass that failed, no worker has gradients of that pass, the graph is as it was before the pass, and the
// program may try another pass. In a scope for which gw_no_grad was called, the results of calls have no history.
//
// Ownership: a sender keeps the graph of sent tensors until the receiver has released them, or a pass without
// .retain_graph has used it.
// Threads: the same as for the scope.
#ifndef GRADWIRE_DIST_H
#define GRADWIRE_DIST_H

#include <gradwire/autograd.h>
#include <gradwire/ref.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Copies the gradient that the tensor named by |parameter| has in |s| from the owner of the tensor to this worker.
/// Blocks until the gradient has arrived.
///
/// Returns: the gradient.
/// Errors: NOT_FOUND if no pass of |s| has reached the tensor; of calls (gradwire/rpc.h).
/// Source: torch.distributed.autograd.get_gradients.
GW_API gw_tensor *gw_rref_grad(gw_scope *s, gw_rref *parameter);

#ifdef __cplusplus
}
#endif
#endif
