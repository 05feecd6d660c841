// Automatic mixed precision: operators in f16 or bf16 where that loses little.
//
//     gw_scope *forward = gw_scope_open(s);
//     gw_autocast(forward, GW_BF16);                                  // products in bf16 from here on
//     gw_set(s, &loss, gw_mse(forward, gw_module_call(forward, model, x), target));
//     gw_scope_close_up(forward);
//     gw_backward(s, loss);
//
// Parameters stay in f32, and so do their gradients. On a CPU without arithmetic of these types it
// saves bytes, not time.
//
// Threads: as the scope.
#ifndef GRADWIRE_AMP_H
#define GRADWIRE_AMP_H

#include <gradwire/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

// From here on operators in |s|, and in scopes opened inside it later, convert those of their
// tensors that are of f32, f16 or bf16. Functions of other workers do not, nor do backward passes,
// which compute in the types that the operators had. INVALID unless |dtype| is GW_F16 or GW_BF16.
//
// * To |dtype|: gw_matmul, gw_linear, gw_conv1d and gw_conv2d, and the recurrent layers.
// * To f32: gw_prod, and the losses gw_nll, gw_cross_entropy, gw_mse, gw_bce_with_logits,
//   gw_smooth_l1, gw_l1, gw_kl_div; with GW_F16 also gw_exp, gw_log, gw_pow, gw_rsqrt, gw_softmax,
//   gw_log_softmax, gw_sum, gw_logsumexp, gw_norm, gw_cumsum, gw_layer_norm.
// * All others take what they are given, by the rules of promotion: gw_cat and gw_stack the widest.
//
// These are the lists of torch.autocast for the CPU (bf16) and for CUDA (f16), cut to the operators
// that there are, but that recurrent layers compute in |dtype| throughout. A parameter is converted
// once for each new value of it, and that is kept as long as the outermost such scope.
GW_API void gw_autocast(gw_scope *s, gw_dtype dtype);

// No longer, in |s| and in scopes opened inside it later: torch.autocast(enabled=False).
GW_API void gw_autocast_off(gw_scope *s);

// To which dtype operators in |s| convert; GW_F32 if to none.
GW_API gw_dtype gw_autocast_dtype(const gw_scope *s);

#ifdef __cplusplus
}
#endif
#endif
