// Automatic mixed precision. Operators for which little precision suffices compute in f16 or bf16. Losses are
// multiplied by a scale, so that small gradients do not become 0.
//
//     gw_scaler *scaler = gw_scaler_open(root);
//     for (int step = 0; step < 100 && gw_ok(root); step++) {
//         gw_scope *s = gw_scope_open(root);
//         gw_autocast(s, GW_F16);                                     // later products compute in f16
//         gw_tensor *loss = gw_cross_entropy(s, gw_module_call(s, model, x), labels);
//         gw_backward(s, gw_scaler_scale(s, scaler, loss));
//         gw_scaler_step(s, scaler, opt);                             // no step if a gradient is not finite
//         gw_scaler_update(s, scaler);
//         gw_scope_close_up(s);
//     }
//
// Parameters and their gradients stay in f32. GW_BF16 has the range of f32 and needs no scaler. On a CPU without
// instructions for f16 and bf16, mixed precision saves memory but no time.
//
// Ownership: a scaler belongs to the scope that made it.
// Threads: one thread at a time may use a scaler.
#ifndef GRADWIRE_AMP_H
#define GRADWIRE_AMP_H

#include <gradwire/optim.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Turns conversion on in |s|, and in scopes that are opened inside |s| later: operators convert operands of f32, f16
/// and bf16 to the dtypes listed below. Functions on other workers do not convert. Backward passes compute in the
/// dtypes of the forward operators.
///
/// * To |dtype|: gw_matmul, gw_linear, gw_conv1d and gw_conv2d, and the recurrent layers.
/// * To f32: gw_prod, and the losses gw_nll, gw_cross_entropy, gw_mse, gw_bce_with_logits, gw_smooth_l1, gw_l1,
///   gw_kl_div; with GW_F16 also gw_exp, gw_log, gw_pow, gw_rsqrt, gw_softmax, gw_log_softmax, gw_sum, gw_logsumexp,
///   gw_norm, gw_cumsum, gw_layer_norm.
/// * All other operators compute in the dtypes of their operands. Operands of different dtypes are promoted; gw_cat and
///   gw_stack use the widest of the dtypes.
///
/// The converted copy of a parameter is kept until the outermost scope with conversion closes. If the value of the
/// parameter changes, the next operator that uses it makes a new copy.
/// dtype: GW_F16 or GW_BF16.
/// Errors: INVALID for another dtype.
/// Source: torch.autocast for the CPU (bf16) and for CUDA (f16); recurrent layers compute all their operations in
/// |dtype|.
GW_API void gw_autocast(gw_scope *s, gw_dtype dtype);

/// Turns conversion off in |s|, and in scopes that are opened inside |s| later.
/// Errors: none.
/// Source: torch.autocast(enabled=False).
GW_API void gw_autocast_off(gw_scope *s);

/// Returns the dtype that gw_autocast has set in |s|; GW_F32 if conversion is off.
GW_API gw_dtype gw_autocast_dtype(const gw_scope *s);

// ---- Scaling ------------------------------------------------------------------------------------
// A scaler multiplies the loss by a scale before the pass. Before the step, it multiplies the gradients by the inverse
// of the scale, which is computed in f64. If a gradient is not finite, the step is skipped and the scale becomes
// smaller. After .growth_interval successive updates with finite gradients the scale becomes larger. Defaults and rules
// are those of PyTorch.
//
// The gradient of a parameter is unscaled on the worker that owns the parameter. If one gradient is not finite, all
// owners skip the step. All members of a sharded optimizer also skip a step together. If an optimizer has parameters on
// other workers, and its local parameters are replicated (gw_ddp_open), the members with these replicas also skip a
// step together. These members must call gw_scaler_unscale and gw_scaler_step together.

/// A scaler of losses and gradients, opened by gw_scaler_open.
typedef struct gw_scaler gw_scaler;

/// Options of gw_scaler_open.
typedef struct GW_BY_NAME gw_scaler_options {
    double init_scale GW_DEFAULT(65536);
    double growth_factor GW_DEFAULT(2);
    double backoff_factor GW_DEFAULT(0.5);
    int64_t growth_interval
        GW_DEFAULT(2000);  ///< successive updates with finite gradients before the scale grows
    bool enabled GW_DEFAULT(true);  ///< false: nothing is scaled, and no step is skipped
} gw_scaler_options;

/// Makes a scaler.
/// Returns: the scaler.
/// Errors: INVALID for options out of range.
/// Source: torch.cuda.amp.GradScaler.
GW_API gw_scaler *gw_scaler_open(gw_scope *s, gw_scaler_options options GW_DEFAULT({}))
    GW_CALLS(gw_scaler_open_with);
#define gw_scaler_open(...) GW_FORM_1(gw_scaler_open, gw_scaler_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_scaler_open) gw_scaler_open_with;

/// Multiplies the loss |x| by the scale. Call gw_scaler_scale for each loss of a step.
/// Returns: |x| times the scale.
/// Gradient: dy times the scale.
/// Errors: INVALID for a scaler whose constructor failed.
GW_API gw_tensor *gw_scaler_scale(gw_scope *s, gw_scaler *scaler, gw_tensor *x);

/// Divides the gradients in |s| of the parameters of |opt| by the scale. Call gw_scaler_unscale before the program
/// clips or reads gradients. If the call fails on one owner of parameters, other owners may have unscaled their
/// gradients.
/// Errors: WRONG_STATE if gw_scaler_unscale or gw_scaler_step was called for |opt| since the last gw_scaler_update.
GW_API void gw_scaler_unscale(gw_scope *s, gw_scaler *scaler, gw_optimizer *opt);

/// Unscales the gradients unless gw_scaler_unscale was called for this step, then calls gw_optimizer_step if all
/// gradients are finite.
/// Returns: whether the step was taken.
/// Errors: WRONG_STATE for a second call for |opt| since the last gw_scaler_update; the errors of gw_optimizer_step.
GW_API bool gw_scaler_step(gw_scope *s, gw_scaler *scaler, gw_optimizer *opt);

/// Adapts the scale. Call gw_scaler_update once in a training step, after gw_scaler_step for all optimizers.
/// Errors: WRONG_STATE if neither gw_scaler_step nor gw_scaler_unscale was called since the last gw_scaler_update.
GW_API void gw_scaler_update(gw_scope *s, gw_scaler *scaler);

/// Returns the scale; 1 if the scaler is not enabled.
GW_API double gw_scaler_get_scale(const gw_scaler *scaler);

/// Lists the state of a scaler under the names that PyTorch uses.
/// Returns: a map of numbers.
/// Errors: NO_MEMORY.
GW_API gw_map *gw_scaler_state_dict(gw_scope *s, gw_scaler *scaler);

/// Copies a map of gw_scaler_state_dict into |scaler|.
/// Errors: INVALID if |state| is not the state of a scaler; |scaler| is then unchanged.
GW_API void gw_scaler_load_state_dict(gw_scope *s, gw_scaler *scaler, gw_map *state);

#ifdef __cplusplus
}
#endif
#include <gradwire/detail/amp.h>
#endif
