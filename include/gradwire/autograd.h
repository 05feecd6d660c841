// Autograd: gradients of recorded computations.
//
// Operators on a tensor that needs a gradient record their computation in a graph. gw_backward walks from a loss back
// through the graph. It leaves one gradient for each leaf in the scope that is given to gw_backward.
//
//     gw_tensor *w = gw_requires_grad(root, gw_randn(root, GW_F32, 3));
//     for (int step = 0; step < 100 && gw_ok(root); step++) {
//         gw_scope *s = gw_scope_open(root);
//         gw_tensor *loss = gw_mse(s, gw_mul(s, w, x), target);
//         gw_backward(s, loss);
//         gw_print(s, gw_grad(s, w));                  // d loss / d w
//         gw_scope_close_up(s);                           // releases the gradients; there is no zero_grad
//     }
//
// A leaf is a tensor that is not the result of a recorded operator. The gradients of several passes in one scope are
// added. The gradients of passes in different scopes never mix, even if the passes use the same weights. The same
// inputs give the same bits. The graph keeps the values that it needs: a later write to a tensor does not change a
// gradient. gradwire/dist.h describes passes across workers.
//
// Ownership: a graph lives as long as a tensor that was computed in it. Gradients belong to the scope that is given to
// gw_backward.
// Threads: one thread at a time, as for the scope. Only one thread at a time may make a pass over a graph, unless all
// passes use .retain_graph.
#ifndef GRADWIRE_AUTOGRAD_H
#define GRADWIRE_AUTOGRAD_H

#include <gradwire/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Marks |x| itself as a leaf that needs a gradient.
///
/// Returns: |x|.
/// Errors: INVALID if |x| has no floating dtype, or if |x| is the result of a recorded operator.
/// Source: torch.Tensor.requires_grad_.
GW_API gw_tensor *gw_requires_grad(gw_scope *s, gw_tensor *x);

/// Returns whether |x| is a leaf that needs a gradient, or was computed from such a leaf. Operators on such an |x| are
/// recorded.
GW_API bool gw_needs_grad(const gw_tensor *x);

/// Makes a view of |x| without history: no gradient flows through it.
///
/// Returns: the view.
/// Errors: INVALID for poison.
/// Source: torch.Tensor.detach.
GW_API gw_tensor *gw_detach(gw_scope *s, gw_tensor *x);

/// Turns recording off in |s|, and in scopes that are opened inside |s| later.
/// Errors: none.
/// Source: torch.no_grad.
GW_API void gw_no_grad(gw_scope *s);

/// Turns recording on in |s|, and in scopes that are opened inside |s| later.
/// Errors: none.
/// Source: torch.enable_grad.
GW_API void gw_enable_grad(gw_scope *s);

// ---- Backward -----------------------------------------------------------------------------------

/// Options of gw_backward and gw_backward_roots.
typedef struct GW_BY_NAME gw_backward_options {
    /// The gradient of |loss|, in the shape of |loss|. NULL: the gradient is 1, and |loss| has one element.
    gw_tensor *gradient GW_DEFAULT(NULL);
    /// Keeps the saved tensors of the graph, so that another pass over it can be made.
    bool retain_graph GW_DEFAULT(false);
    /// The tensors that get gradients; they may be results of operators. No other tensor of any worker gets a gradient.
    /// The pass visits only the parts of the graph that lead to these tensors or to other workers. NULL: every leaf
    /// gets a gradient.
    gw_tensor *const *inputs GW_DEFAULT(NULL);
    int input_count GW_DEFAULT(0);
    /// For passes across workers: PyTorch's FAST mode. The loss must use every tensor that calls of this scope have
    /// sent; otherwise the pass fails. For a tensor without a gradient, a worker sends zeros.
    bool fast GW_DEFAULT(false);
} gw_backward_options;

/// Adds the gradients of |loss| to the gradients in |s|, and releases the saved tensors of the graph.
///
/// A pass that fails adds no gradients.
/// loss: a tensor of one element; with .gradient it may have any shape.
/// Errors: INVALID if |loss| needs no gradient, or has several elements and no .gradient is given; WRONG_STATE for a
/// second pass over a graph whose first pass was made without .retain_graph; the errors of gradwire/dist.h for passes
/// across workers.
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

/// A hook of a tensor. Each pass calls the hook with the gradient |grad| of the tensor. |grad| is complete when the
/// hook is called, and the pass has not used it yet. For a leaf, |grad| has not been added to the gradient in the scope
/// yet. A pass across workers also calls the hooks on other workers; such a hook runs on the thread that runs the pass
/// there.
///
/// Returns: the gradient that replaces |grad|; NULL or |grad| does not change the gradient.
///
/// A hook may register and remove hooks, also itself, and may drop the tensors of the graph. A removed hook is not
/// called again, not even in the current pass. If a hook is registered while the hooks of the same tensor run, the next
/// pass is the first that calls it.
///
/// |s| is a scope of the pass. Operators in |s| are not recorded. When the pass ends, |s| closes and its gradients are
/// released. A hook may call gw_backward. If only the hook reads the resulting gradients, it calls gw_backward in |s|,
/// and names the tensors in .inputs. If an optimizer uses the gradients, the hook calls gw_backward in the scope of the
/// step, which the program passes in |context|. With GW_CHECK=1 the program ends if gradients in |s| are unread when
/// the pass ends. In a pass that another worker began, a hook must not block (WOULD_BLOCK). So a backward pass inside
/// such a hook cannot visit other workers. Example, gradient checkpointing:
///
///     typedef struct segment { gw_scope *step; gw_tensor *x; } segment;
///     static gw_tensor *f(gw_scope *s, gw_tensor *x) { return gw_module_call(s, encoder, x); }
///     static gw_tensor *recompute(gw_scope *s, gw_tensor *dy, void *context) {
///         segment *c = context;
///         gw_scope *t = gw_scope_open(s);
///         gw_enable_grad(t);
///         gw_backward(c->step, f(t, c->x), .gradient = dy);  // gradients of the weights, and of |x|
///         gw_scope_close_up(t);
///         return NULL;
///     }
///     gw_scope *t = gw_scope_open(s);                        // here |s| is the scope of the step
///     gw_no_grad(t);
///     gw_tensor *y = gw_requires_grad(s, gw_keep(s, f(t, x)));   // nothing is saved for backward
///     gw_register_hook(s, y, recompute, &(segment){ s, x });
typedef gw_tensor *gw_grad_hook(gw_scope *s, gw_tensor *grad, void *context);

/// Registers |hook| for the gradient of |x|.
///
/// context: passed to the hook; valid as long as the graph lives.
/// Returns: a number that identifies the hook, for gw_remove_hook.
/// Errors: INVALID if |x| needs no gradient.
/// Source: torch.Tensor.register_hook.
GW_API int gw_register_hook(gw_scope *s, gw_tensor *x, gw_grad_hook *hook, void *context);

/// Removes a hook of |x| by its number.
/// Errors: NOT_FOUND.
GW_API void gw_remove_hook(gw_scope *s, gw_tensor *x, int hook);

// ---- Gradients ----------------------------------------------------------------------------------

/// Finds the gradient of |x| in |s|. Later passes do not change the returned tensor. After another pass, call gw_grad
/// again to get the new sum.
///
/// Returns: a tensor of the shape and dtype of |x|. It is sparse by rows and coalesced if all gradients that were added
/// are sparse (gw_embedding).
/// Errors: NOT_FOUND if no pass in |s| has reached |x|.
/// Source: torch.Tensor.grad.
GW_API gw_tensor *gw_grad(gw_scope *s, const gw_tensor *x);

/// Finds the gradient of |x| in |s|.
///
/// Returns: as gw_grad; NULL if there is none.
/// Errors: none.
GW_API gw_tensor *gw_grad_find(gw_scope *s, const gw_tensor *x);

/// Replaces the gradient of |x| in |s| by a copy of |grad|. Later passes add to the copy. Optimizers use the copy.
///
/// grad: a tensor of the shape and dtype of |x|.
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
///         norm += gw_item(s, gw_sum(s, gw_mul(s, g.grad, g.grad)));       // g.grad is the gradient of g.leaf
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
