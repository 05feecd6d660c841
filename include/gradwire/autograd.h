// Autograd: gradients of recorded computations.
//
// Operators on a tensor that needs a gradient record their computation. gw_backward walks from a loss back through that
// graph and leaves one gradient for each leaf, in the scope of the call.
//
//     gw_tensor *w = gw_requires_grad(root, gw_randn(root, GW_F32, 3));
//     for (int step = 0; step < 100 && gw_ok(root); step++) {
//         gw_scope *s = gw_scope_open(root);
//         gw_tensor *loss = gw_mse(s, gw_mul(s, w, x), target);
//         gw_backward(s, loss);
//         gw_print(s, gw_grad(s, w));                  // d loss / d w
//         gw_scope_close_up(s);                           // releases the gradients: there is no zero_grad
//     }
//
// A leaf is a tensor that no recorded operator made. The gradients of several passes in one scope are added; the
// gradients of passes in two scopes over the same weights never mix. The same inputs give the same bits. The graph
// keeps the values that it needs: writing to a tensor later cannot change a gradient. Passes across workers:
// gradwire/dist.h.
//
// Ownership: a graph lives as long as any tensor that was made through it. Gradients belong to the scope given to
// gw_backward.
// Threads: the same as for the scope. Only one thread at a time may make a pass over a graph, unless every pass retains
// the graph.
#ifndef GRADWIRE_AUTOGRAD_H
#define GRADWIRE_AUTOGRAD_H

#include <gradwire/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Marks |x| itself as a leaf that needs a gradient.
///
/// Returns: |x|.
/// Errors: INVALID if |x| is not floating, or if |x| is the result of a recorded operator: such a tensor needs a
/// gradient already.
/// Source: torch.Tensor.requires_grad_.
GW_API gw_tensor *gw_requires_grad(gw_scope *s, gw_tensor *x);

/// Returns whether operators on |x| are recorded: whether |x| is a leaf that needs a gradient, or was computed from
/// such a leaf.
GW_API bool gw_needs_grad(const gw_tensor *x);

/// Makes a view of |x| without history: no gradient flows through it.
///
/// Returns: the view.
/// Errors: INVALID for poison.
/// Source: torch.Tensor.detach.
GW_API gw_tensor *gw_detach(gw_scope *s, gw_tensor *x);

/// Turns recording off in |s|, and in scopes opened inside it later.
/// Errors: none.
/// Source: torch.no_grad.
GW_API void gw_no_grad(gw_scope *s);

/// Turns recording on in |s|, and in scopes opened inside it later.
/// Errors: none.
/// Source: torch.enable_grad.
GW_API void gw_enable_grad(gw_scope *s);

// ---- Backward -----------------------------------------------------------------------------------

/// Options of gw_backward and gw_backward_roots.
typedef struct GW_BY_NAME gw_backward_options {
    /// The gradient of |loss|, in the shape of |loss|. NULL: 1, for a |loss| of one element.
    gw_tensor *gradient GW_DEFAULT(NULL);
    /// Keeps the saved tensors of the graph, so that another pass over it can be made.
    bool retain_graph GW_DEFAULT(false);
    /// Only these tensors, which may be results of operators, get gradients. The pass walks only the paths to these
    /// tensors and to other workers; on other workers no leaf gets a gradient. NULL: every leaf gets a gradient.
    gw_tensor *const *inputs GW_DEFAULT(NULL);
    int input_count GW_DEFAULT(0);
    /// For passes across workers, as PyTorch's FAST mode: the loss must use every tensor that was sent in calls of this
    /// scope, else the pass fails; zeros are sent for a tensor without a gradient.
    bool fast GW_DEFAULT(false);
} gw_backward_options;

/// Adds the gradients of |loss| to those of |s|, and releases the saved tensors of the graph.
///
/// loss: a tensor of one element, or of any shape with .gradient.
/// Errors: INVALID if |loss| needs no gradient, or has several elements; WRONG_STATE for a second pass over a graph
/// that was not retained; for the errors of passes across workers see gradwire/dist.h. A pass that fails adds nothing.
/// Source: torch.autograd.backward.
GW_API void gw_backward(gw_scope *s, gw_tensor *loss, gw_backward_options options GW_DEFAULT({}))
    GW_CALLS(gw_backward_with);
#define gw_backward(...) GW_FORM_2(gw_backward, gw_backward_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_backward) gw_backward_with;

/// Makes one backward pass from several losses.
///
/// roots: |count| losses, tensors of one element; gw_to_here copies a loss from another worker.
/// Errors: as gw_backward.
/// Source: torch.distributed.autograd.backward.
GW_API void gw_backward_roots(gw_scope *s, gw_tensor *const *roots, int count,
                              gw_backward_options options GW_DEFAULT({}))
    GW_CALLS(gw_backward_roots_with);
#define gw_backward_roots(...) GW_FORM_3(gw_backward_roots, gw_backward_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_backward_roots) gw_backward_roots_with;

// ---- Hooks --------------------------------------------------------------------------------------

/// A hook of a tensor. Each pass calls the hook with the gradient of the tensor, after all parts of the gradient have
/// arrived and before the gradient is used (for a leaf, before the gradient is added to the one in the scope). A pass
/// also calls hooks on other workers, on the thread that runs the pass there.
///
/// Returns: the gradient that replaces |grad|; NULL or |grad| itself keeps it.
///
/// A hook may register and remove hooks, itself included, and may drop the tensors of the graph. A removed hook is not
/// called again, not even in the current pass; a hook that is registered while the hooks of its tensor run is called
/// from the next pass on.
///
/// |s| is the scope of the pass: nothing is recorded in |s|, and |s| closes when the pass ends, which releases the
/// gradients in |s|. So a hook may call gw_backward with |s| only for gradients that the hook itself reads and that
/// .inputs names. For gradients that an optimizer uses, the hook calls gw_backward with the scope of the step, which
/// |context| holds. With GW_CHECK=1 the program ends if gradients in |s| are unread when the pass ends. In a pass that
/// another worker began, a hook must not block (WOULD_BLOCK); so a pass inside such a hook cannot visit other workers.
/// Gradient checkpointing:
///
///     typedef struct segment { gw_scope *step; gw_tensor *x; } segment;
///     static gw_tensor *f(gw_scope *s, gw_tensor *x) { return gw_module_call(s, encoder, x); }
///     static gw_tensor *recompute(gw_scope *s, gw_tensor *dy, void *context) {
///         segment *c = context;
///         gw_scope *t = gw_scope_open(s);
///         gw_enable_grad(t);
///         gw_backward(c->step, f(t, c->x), .gradient = dy);  // gradients of f's weights, and through x
///         gw_scope_close_up(t);
///         return NULL;
///     }
///     gw_scope *t = gw_scope_open(s);                        // |s| is the scope of the step
///     gw_no_grad(t);
///     gw_tensor *y = gw_requires_grad(s, gw_keep(s, f(t, x)));   // nothing is saved for backward
///     gw_register_hook(s, y, recompute, &(segment){ s, x });
typedef gw_tensor *gw_grad_hook(gw_scope *s, gw_tensor *grad, void *context);

/// Registers |hook| for the gradient of |x|.
///
/// context: passed to the hook; the caller keeps it valid as long as the graph lives.
/// Returns: the number by which the hook is removed.
/// Errors: INVALID if |x| needs no gradient.
/// Source: torch.Tensor.register_hook.
GW_API int gw_register_hook(gw_scope *s, gw_tensor *x, gw_grad_hook *hook, void *context);

/// Removes a hook of |x| by its number.
/// Errors: NOT_FOUND.
GW_API void gw_remove_hook(gw_scope *s, gw_tensor *x, int hook);

// ---- Gradients ----------------------------------------------------------------------------------

/// Finds the gradient of |x| in |s|. Later passes do not change the returned tensor: call gw_grad again for the new
/// sum.
///
/// Returns: a tensor of the shape and dtype of |x|; sparse by rows and coalesced if every part of it was sparse
/// (gw_embedding).
/// Errors: NOT_FOUND if no pass in |s| has reached |x|.
/// Source: torch.Tensor.grad.
GW_API gw_tensor *gw_grad(gw_scope *s, const gw_tensor *x);

/// Finds the gradient of |x| in |s|.
///
/// Returns: as gw_grad; NULL if there is none.
/// Errors: none.
GW_API gw_tensor *gw_grad_find(gw_scope *s, const gw_tensor *x);

/// Replaces the gradient of |x| in |s| by a copy of |grad|; later passes add to the copy, and optimizers use it.
///
/// grad: of the shape and dtype of |x|.
/// Errors: INVALID if |grad| has another shape or dtype.
GW_API void gw_set_grad(gw_scope *s, gw_tensor *x, gw_tensor *grad);

/// A leaf and its gradient, as gw_grads_get returns them.
typedef struct gw_tensor_grad {
    gw_tensor *leaf;
    gw_tensor *grad;
} gw_tensor_grad;

/// Returns the number of gradients of |s|.
///
///     for (int i = 0; i < gw_grads_count(s); i++) {
///         gw_tensor_grad g = gw_grads_get(s, i);
///         norm += gw_item(s, gw_sum(s, gw_mul(s, g.grad, g.grad)));       // of g.leaf
///     }
GW_API int gw_grads_count(const gw_scope *s);

/// Returns gradient |index| of |s|, in the order in which the passes in |s| reached the tensors.
/// Errors: INVALID when out of range.
GW_API gw_tensor_grad gw_grads_get(gw_scope *s, int index);

#ifdef __cplusplus
}
#endif
#include <gradwire/detail/autograd.h>
#endif
