// Backward across workers.
//
// The tensors of a call, a reply or a fetched value keep their autograd history. gw_backward walks back through the
// graphs of all workers that have computed a part of the loss. The program needs no context object.
//
//     gw_scope  *s    = gw_scope_open(root);
//     gw_tensor *y    = gw_tensor_of(s, gw_rpc_sync(s, "ps", "layer", x));      // the weight of the layer is on ps
//     gw_backward(s, gw_mse(s, y, target));                                     // through ps and back
//     gw_print(s, gw_rref_grad(s, ref));                                     // |ref| names the weight on ps
//     gw_optimizer_step(s, opt);
//     gw_scope_close_up(s);                                                     // releases gradients on every worker
//
// Gradients belong to the scope that is given to gw_backward, on every worker. The program may also call a function of
// another worker in this scope. In the body of the function, gw_grad and gw_grads_get return the gradients on that
// worker. Passes in different scopes never mix.
//
// A pass does not wait for graphs that the loss does not use. If a pass fails, it fails on all workers with one error.
// This may be the error of a derivative on any worker, DISCONNECTED if a worker is gone, CANCELLED, or TIMEOUT at the
// deadline of the scope. Without a deadline, a pass fails with TIMEOUT if no message of the pass arrives during the
// timeout of a call. After a failed pass no worker has gradients of the pass, and the graph is as it was before the
// pass. So the program may make another pass. In a scope for which gw_no_grad was called, the results of calls have no
// history.
//
// Ownership: a sender keeps the graph of sent tensors until the receiver has released the tensors, or until a pass
// without .retain_graph has used the graph.
// Threads: one thread at a time, as for the scope.
#ifndef GRADWIRE_DIST_H
#define GRADWIRE_DIST_H

#include <gradwire/autograd.h>
#include <gradwire/ref.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Copies a gradient from another worker: the gradient in |s| of the tensor that |parameter| names. Blocks until the
/// gradient has arrived.
///
/// Returns: the gradient.
/// Errors: NOT_FOUND if no pass in |s| has reached the tensor; the errors of calls (gradwire/rpc.h).
/// Source: torch.distributed.autograd.get_gradients.
GW_API gw_tensor *gw_rref_grad(gw_scope *s, gw_rref *parameter);

#ifdef __cplusplus
}
#endif
#endif
