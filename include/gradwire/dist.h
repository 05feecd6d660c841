// Backward across workers.
//
// The tensors of a call, a reply or a fetched value keep their history, on every worker: gw_backward walks back through
// all of them. Nothing has to be opened or handed over for it.
//
//     gw_scope  *s    = gw_scope_open(root);
//     gw_tensor *y    = gw_tensor_of(s, gw_rpc_sync(s, "ps", "layer", x));      // the layer's weight lives on ps
//     gw_backward(s, gw_mse(s, y, target));                                     // through ps and back
//     gw_print(s, gw_rref_grad(s, ref));                                     // a reference to that weight
//     gw_optimizer_step(s, opt);
//     gw_scope_close_up(s);                                                        // releases gradients on every worker
//
// Gradients belong to the scope given to gw_backward, on every worker: if that scope calls a function on another
// worker, the function gets that worker's gradients from gw_grad and gw_grads_get in its own scope. Passes in different
// scopes never mix.
//
// A pass does not wait for graphs that the loss does not use. If it fails, it fails on all workers with one error: that
// of a derivative on any worker, DISCONNECTED for a worker that is gone, CANCELLED, or TIMEOUT at the deadline of the
// scope (without a deadline, when nothing has arrived for the timeout of a call). Then no worker has its gradients, the
// graph is as it was, and another pass may be tried. In a scope of gw_no_grad the results of calls have no history.
//
// Ownership: a sender keeps the graph of sent tensors until the receiver has released them, or a pass without
// .retain_graph has used it.
// Threads: as the scope.
#ifndef GRADWIRE_DIST_H
#define GRADWIRE_DIST_H

#include <gradwire/autograd.h>
#include <gradwire/ref.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Copies the gradient that the tensor named by |parameter| has in |s| from its owner to this worker. Blocks until it
/// has arrived.
///
/// Returns: the gradient.
/// Errors: NOT_FOUND if no pass of |s| has reached it; of calls (gradwire/rpc.h).
/// Source: torch.distributed.autograd.get_gradients.
GW_API gw_tensor *gw_rref_grad(gw_scope *s, gw_rref *parameter);

#ifdef __cplusplus
}
#endif
#endif
