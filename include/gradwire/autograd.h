// Autograd: gradients of what was computed.
//
// Operators on a tensor that needs a gradient remember what they did. gw_backward walks back from a
// loss through that graph and leaves, in the scope it was given, one gradient for each leaf that
// wanted one.
//
//     gw_tensor *w = gw_requires_grad(root, gw_randn(root, GW_F32, 3));
//     for (int step = 0; step < 100 && gw_ok(root); step++) {
//         gw_scope *s = gw_scope_open(root);
//         gw_tensor *loss = gw_mse(s, gw_mul(s, w, x), target);
//         gw_backward(s, loss);
//         gw_print(s, gw_grad(s, w));                  // d loss / d w
//         gw_scope_close_up(s);                           // gradients go with the scope: no zero_grad
//     }
//
// A leaf is a tensor that no recorded operator made. Several passes in one scope add up; passes in
// two scopes over the same weights never mix. The same inputs give the same bits.
//
// What the graph will need is held as it was: writing to a tensor later cannot change a gradient.
// Ownership: a graph lives as long as a tensor made through it. Gradients belong to the scope given
// to gw_backward.
// Threads: as the scope. A graph is walked by one thread at a time, unless every pass retains it.
#ifndef GRADWIRE_AUTOGRAD_H
#define GRADWIRE_AUTOGRAD_H

#include <gradwire/detail/options.h>
#include <gradwire/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

// Marks |x| itself as a leaf that wants a gradient, and returns it. INVALID if its numbers are not
// floating, or if it is the result of a recorded operator (which needs a gradient anyway).
GW_API gw_tensor *gw_requires_grad(gw_scope *s, gw_tensor *x);

// Whether operators on |x| are recorded: it is such a leaf, or was computed from one.
GW_API bool gw_needs_grad(const gw_tensor *x);

// A view of the values of |x| that has no past: no gradient flows through it.
GW_API gw_tensor *gw_detach(gw_scope *s, gw_tensor *x);

// From here on nothing in |s|, and in scopes opened inside it later, is recorded; or it is again.
GW_API void gw_no_grad(gw_scope *s);
GW_API void gw_enable_grad(gw_scope *s);

// ---- Backward -----------------------------------------------------------------------------------

// gw_backward(s, loss, .retain_graph = true, ...) adds the gradients of |loss| to those of |s| and
// gives up what the graph had saved, so that a second pass over the same graph is WRONG_STATE.
// INVALID if |loss| needs no gradient, or has several elements. A pass that fails adds nothing.
typedef struct GW_BY_NAME gw_backward_options {
    // The gradient of |loss|, in its shape. NULL is 1; then |loss| must have one element.
    gw_tensor *gradient GW_DEFAULT(NULL);

    // Keep what the graph has saved, for another pass over it.
    bool retain_graph GW_DEFAULT(false);

    // Only these get gradients, and only the paths to them are walked, and all that lead to other
    // workers, on which no leaf gets one; NULL is every leaf. They may be results, too.
    gw_tensor *const *inputs GW_DEFAULT(NULL);
    int input_count GW_DEFAULT(0);

    // Across workers: expect a gradient of everything that was sent in this scope's calls, as
    // PyTorch's FAST mode does. What the loss does not use is then an error, and slots without
    // gradient travel as zeros.
    bool fast GW_DEFAULT(false);
} gw_backward_options;

GW_API void gw_backward(gw_scope *s, gw_tensor *loss, gw_backward_options options GW_DEFAULT({}))
    GW_CALLS(gw_backward_with);
#define gw_backward(...) GW_FORM_2(gw_backward, gw_backward_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_backward) gw_backward_with;

// gw_backward_roots(s, roots, count, .retain_graph = true, ...): one pass from several losses, of
// one element each; those of other workers as gw_to_here gives them.
GW_API void gw_backward_roots(gw_scope *s, gw_tensor *const *roots, int count,
                              gw_backward_options options GW_DEFAULT({}))
    GW_CALLS(gw_backward_roots_with);
#define gw_backward_roots(...) GW_FORM_3(gw_backward_roots, gw_backward_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_backward_roots) gw_backward_roots_with;

// ---- Hooks --------------------------------------------------------------------------------------
// Called in each pass with the gradient of a tensor, once all parts of it have come and before it
// is used further: of a leaf, before it is added to what its scope has. What it returns takes its
// place; NULL or |grad| itself leaves it. On other workers, too, on the thread that walks there;
// |s| is the pass's, and nothing is recorded in it.
//
// A hook may call gw_backward itself. That inner pass leaves its gradients in the scope that it is
// given, like any other. |s| is closed at the end of the outer pass, and the gradients in it are lost
// then: give the inner pass |s| only for gradients that the hook reads itself, and name those in
// |inputs|. For gradients that an optimizer shall use, give it the scope that the step is called in,
// which |context| brings. With GW_CHECK=1 an outer pass that ends with gradients in |s| that nobody
// has read ends the program with a sentence. Gradient checkpointing by hand:
//
//     typedef struct segment { gw_scope *step; gw_tensor *x; } segment;
//     static gw_tensor *f(gw_scope *s, gw_tensor *x) { return gw_module_call(s, encoder, x); }
//     static gw_tensor *recompute(gw_scope *s, gw_tensor *dy, void *context) {
//         segment *c = context;
//         gw_scope *t = gw_scope_open(s);
//         gw_enable_grad(t);
//         gw_backward(c->step, f(t, c->x), .gradient = dy);  // of f's weights, and of what x came from
//         gw_scope_close_up(t);
//         return NULL;
//     }
//     gw_scope *t = gw_scope_open(s);                        // |s| is the scope of the step
//     gw_no_grad(t);
//     gw_tensor *y = gw_requires_grad(s, gw_keep(s, f(t, x)));   // nothing is saved for backward
//     gw_register_hook(s, y, recompute, &(segment){ s, x });
//
// A hook may register and remove hooks, itself among them, and drop the tensors of the graph. A hook that is removed is
// not called any more, also not in this pass; one that is registered while the hooks of its tensor run is called from
// the next pass on.
//
// In a pass that another worker began nothing may wait (WOULD_BLOCK), so that passes inside it stay on
// their worker.
typedef gw_tensor *gw_grad_hook(gw_scope *s, gw_tensor *grad, void *context);

// The number by which the hook is removed. |context| must live as long as the graph. INVALID if |x|
// needs no gradient.
GW_API int gw_register_hook(gw_scope *s, gw_tensor *x, gw_grad_hook *hook, void *context);
GW_API void gw_remove_hook(gw_scope *s, gw_tensor *x, int hook);  // NOT_FOUND

// ---- Gradients ----------------------------------------------------------------------------------

// The gradient of |x| in |s|, in the shape and dtype of |x|; sparse by rows and coalesced if every
// part of it was sparse (see gw_embedding). NOT_FOUND if no pass in |s| has reached |x|. Later
// passes leave its values alone: ask again.
GW_API gw_tensor *gw_grad(gw_scope *s, const gw_tensor *x);

// The same, but NULL if there is none.
GW_API gw_tensor *gw_grad_find(gw_scope *s, const gw_tensor *x);

// Puts a copy of |grad|, in the shape and dtype of |x|, in the place of the gradient of |x| in |s|:
// as if a pass had left it, so that later ones add to it and optimizers step by it. INVALID if the
// two do not fit.
GW_API void gw_set_grad(gw_scope *s, gw_tensor *x, gw_tensor *grad);

// All gradients of |s|, in the order in which its passes met the tensors they are of:
//
//     for (int i = 0; i < gw_grads_count(s); i++) {
//         gw_tensor_grad g = gw_grads_get(s, i);
//         norm += gw_item(s, gw_sum(s, gw_mul(s, g.grad, g.grad)));       // of g.leaf
//     }
typedef struct gw_tensor_grad {
    gw_tensor *leaf;
    gw_tensor *grad;
} gw_tensor_grad;

GW_API int gw_grads_count(const gw_scope *s);
GW_API gw_tensor_grad gw_grads_get(gw_scope *s, int index);  // INVALID when out of range

#ifdef __cplusplus
}
#endif
#include <gradwire/detail/autograd.h>
#endif
