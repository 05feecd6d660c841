// Backward across workers.
//
// Whatever a call, a reply or a fetched value carries remembers what it was made of, on whichever
// worker: gw_backward walks back through all of them. Nothing has to be opened or passed on for it.
//
//     gw_scope  *s    = gw_scope_open(root);
//     gw_tensor *y    = gw_tensor_of(s, gw_rpc_sync(s, "ps", "layer", x));      // the layer's weight lives on ps
//     gw_backward(s, gw_mse(s, y, target));                                     // through ps and back
//     gw_print(s, gw_rref_grad(s, ref));                                     // a reference to that weight
//     gw_optimizer_step(s, opt);
//     gw_scope_close_up(s);                                                        // gradients go, on every worker
//
// Gradients belong to the scope given to gw_backward, on every worker: a function that is called in
// that scope on another worker has them from gw_grad and gw_grads_get in its own scope. Passes in
// different scopes never mix, whatever weights they share.
//
// A pass is exact: what the loss does not use is not waited for. It fails as a whole, everywhere,
// with one error: that of a derivative of another worker, DISCONNECTED for a worker that is gone,
// CANCELLED, TIMEOUT at the deadline of the scope, or without one, when nothing has come from the
// others for as long as a call may take.
// Then no worker has its gradients, the graph is as it was, and another pass may be tried.
// In a scope of gw_no_grad nothing that comes back from calls remembers anything.
//
// Ownership: what was sent is kept by its sender until the receiver's tensors are gone, or a pass
// that did not retain the graph has been through it. Threads: as the scope.
#ifndef GRADWIRE_DIST_H
#define GRADWIRE_DIST_H

#include <gradwire/autograd.h>
#include <gradwire/ref.h>

#ifdef __cplusplus
extern "C" {
#endif

// The gradient in |s| of the tensor that |parameter| names, here or elsewhere: a copy. NOT_FOUND if
// no pass of |s| has reached it.
GW_API gw_tensor *gw_rref_grad(gw_scope *s, gw_rref *parameter);

#ifdef __cplusplus
}
#endif
#endif
