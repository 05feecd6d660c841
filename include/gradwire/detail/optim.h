// The machinery of gradwire/optim.h.
#ifndef GRADWIRE_DETAIL_OPTIM_H
#define GRADWIRE_DETAIL_OPTIM_H

#include <gradwire/optim.h>

#ifndef __cplusplus
#define gw_sgd_options_defaults .lr = 1e-3, .concurrent = false
#define gw_adam_options_defaults                                                                   \
    .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .concurrent = false
#define gw_adamw_options_defaults                                                                  \
    .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.01, .concurrent = false
#define gw_sparse_adam_options_defaults                                                            \
    .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .concurrent = false
#define gw_adamax_options_defaults                                                                 \
    .lr = 2e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .concurrent = false
#define gw_adagrad_options_defaults .lr = 1e-2, .eps = 1e-10, .concurrent = false
#define gw_adadelta_options_defaults .lr = 1.0, .rho = 0.9, .eps = 1e-6, .concurrent = false
#define gw_rmsprop_options_defaults .lr = 1e-2, .alpha = 0.99, .eps = 1e-8, .concurrent = false
#define gw_rprop_options_defaults                                                                  \
    .lr = 1e-2, .eta_minus = 0.5, .eta_plus = 1.2, .step_size_min = 1e-6, .step_size_max = 50,     \
    .concurrent = false
#define gw_step_lr_options_defaults .gamma = 0.1
#define gw_multi_step_lr_options_defaults .gamma = 0.1
#define gw_exponential_lr_options_defaults .gamma = 0
#define gw_cosine_annealing_lr_options_defaults .eta_min = 0
#define gw_linear_lr_options_defaults .start_factor = 1.0 / 3, .end_factor = 1.0, .total_iters = 5
#define gw_one_cycle_lr_options_defaults                                                           \
    .pct_start = 0.3, .cycle_momentum = true, .base_momentum = 0.85, .max_momentum = 0.95,         \
    .div_factor = 25, .final_div_factor = 1e4, .three_phase = false
#define gw_reduce_lr_on_plateau_options_defaults                                                   \
    .factor = 0.1, .patience = 10, .threshold = 1e-4, .eps = 1e-8
#define gw_parameter_group_options_defaults                                                        \
    .lr = GW_AS_FIRST, .weight_decay = GW_AS_FIRST, .momentum = GW_AS_FIRST,                       \
    .dampening = GW_AS_FIRST, .nesterov = GW_AS_FIRST, .beta1 = GW_AS_FIRST, .beta2 = GW_AS_FIRST, \
    .eps = GW_AS_FIRST, .amsgrad = GW_AS_FIRST, .lr_decay = GW_AS_FIRST,                           \
    .initial_accumulator_value = GW_AS_FIRST, .rho = GW_AS_FIRST, .alpha = GW_AS_FIRST,            \
    .centered = GW_AS_FIRST, .eta_minus = GW_AS_FIRST, .eta_plus = GW_AS_FIRST,                    \
    .step_size_min = GW_AS_FIRST, .step_size_max = GW_AS_FIRST, .maximize = GW_AS_FIRST
#endif
#define GW_RULE_FORM(id, ...)                                                                      \
    static void __attribute__((constructor)) gw_rule_##id##_register(void) {                       \
        _Pragma("GCC diagnostic push")                                                             \
            GW_ONLY_NAMES static gw_rule r = { .name = #id, __VA_ARGS__ };                         \
        _Pragma("GCC diagnostic pop") gw_rule_register(&r);                                        \
    }                                                                                              \
    typedef gw_rule gw_rule_of_##id

#endif
