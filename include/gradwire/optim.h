// Optimizers: rules that turn gradients into new parameters.
//
//     gw_optimizer *opt = gw_sgd(root, gw_parameters(root, model),
//                                (gw_sgd_options){ .lr = 0.05, .momentum = 0.9 });
//     for (int step = 0; step < steps && gw_ok(root); step++) {
//         gw_scope *s = gw_scope_open(root);
//         gw_backward(s, gw_mse(s, gw_module_call(s, model, x), y));
//         gw_clip_grad_norm(s, gw_parameters(s, model), 1.0);
//         gw_optimizer_step(s, opt);
//         gw_scope_merge(s);
//     }
//
// Rules, defaults and numbers are PyTorch's. In options 0 means the default; where a default is not
// 0 and 0 is meant, say -1.
//
// A step is all or nothing: new values are computed beside the old ones, for every parameter, and
// put in their place at the end. If it fails, parameters and optimizer are as they were.
//
// Ownership: an optimizer belongs to the scope that made it, and holds a count on its parameters.
// Threads: as the scope; one step at a time.
#ifndef GRADWIRE_OPTIM_H
#define GRADWIRE_OPTIM_H

#include <gradwire/autograd.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gw_optimizer gw_optimizer;

// |params| of all three: a list of leaves of dtype f32 or f64, contiguous, each once. Else INVALID,
// as are options out of their range.

// Stochastic gradient descent (Sutskever et al. 2013 for Nesterov's form): torch.optim.SGD.
typedef struct gw_sgd_options {
    double lr;            // 1e-3
    double momentum;      // 0
    double dampening;     // 0
    double weight_decay;  // 0
    bool nesterov;        // needs momentum, and no dampening
} gw_sgd_options;

GW_API gw_optimizer *gw_sgd(gw_scope *s, gw_list *params, gw_sgd_options options);

// Adam (Kingma, Ba 2014): torch.optim.Adam.
typedef struct gw_adam_options {
    double lr;            // 1e-3
    double beta1, beta2;  // 0.9, 0.999
    double eps;           // 1e-8
    double weight_decay;  // of gw_adam 0, of gw_adamw 0.01
} gw_adam_options;

GW_API gw_optimizer *gw_adam(gw_scope *s, gw_list *params, gw_adam_options options);

// Adam with decoupled weight decay (Loshchilov, Hutter 2017): torch.optim.AdamW.
GW_API gw_optimizer *gw_adamw(gw_scope *s, gw_list *params, gw_adam_options options);

// ---- Steps --------------------------------------------------------------------------------------

// Changes the parameters by their gradients in |s|. Those without gradient stay.
GW_API void gw_optimizer_step(gw_scope *s, gw_optimizer *opt);

// Scales the gradients that |s| has of |params| so that the 2-norm of all of them together is at most
// |max_norm|. Returns what it was: torch.nn.utils.clip_grad_norm_.
GW_API double gw_clip_grad_norm(gw_scope *s, gw_list *params, double max_norm);

// The rate from the next step on, for schedules. Here 0 is 0. INVALID if negative.
GW_API void gw_optimizer_set_lr(gw_scope *s, gw_optimizer *opt, double lr);
GW_API double gw_optimizer_lr(const gw_optimizer *opt);

// Steps taken so far.
GW_API int64_t gw_optimizer_steps(const gw_optimizer *opt);

#ifdef __cplusplus
}
#endif
#endif
