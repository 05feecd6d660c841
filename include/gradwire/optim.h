// Optimizers: rules that turn gradients into new parameters.
//
//     gw_optimizer *opt = gw_sgd(root, gw_parameters(root, model), .lr = 0.05, .momentum = 0.9);
//     gw_scheduler *halve = gw_step_lr(root, opt, .step_size = 100, .gamma = 0.5);
//     for (int step = 0; step < steps && gw_ok(root); step++) {
//         gw_scope *s = gw_scope_open(root);
//         gw_backward(s, gw_mse(s, gw_module_call(s, model, x), y));
//         gw_clip_grad_norm(s, gw_parameters(s, model), 1.0);
//         gw_optimizer_step(s, opt);
//         gw_scheduler_step(s, halve);
//         gw_scope_close_up(s);
//     }
//
// The rules, schedules and defaults are those of PyTorch. A rule computes the same numbers as in PyTorch.
//
// A step is all or nothing: if a step fails, the parameters and the optimizer are unchanged. For parameters of other
// workers, and for .concurrent, see "Other workers".
//
// Other workers: parameters may also be references (gradwire/ref.h) to leaves of other workers, or of this worker. The
// owner of a parameter keeps its state, and computes its part of a step from the gradient that the passes in |s| have
// left on the owner.
//
//     gw_list *params = gw_parameters(root, head);                       // tensors, here
//     gw_list_add(root, params, gw_remote(root, "ps", "make_weight"));   // and one on ps
//     gw_optimizer *opt = gw_sgd(root, params, .lr = 0.05);
//
// A step over several owners is all or nothing, too. Every owner first computes the new values and keeps the old
// values. When all owners have computed the new values, each owner replaces its old values. If an owner is lost before
// the replacement, no parameter changes. If an owner is lost later, the error names the owners that are a step ahead.
// After the replacement has begun, the step waits for all owners, even beyond the deadline of |s|.
//
// With .concurrent each owner replaces its values at once. A step then takes one call to each owner instead of two, and
// is not all or nothing. The option is for several trainers that update the same parameters (HogWild, Recht et al.
// 2011).
//
// A parameter belongs to an object if a method of the object, or code that has entered the object by gw_local, has made
// or returned the reference to the parameter. The owner changes such a parameter in the turn of the object: no method
// of the object reads the parameter during the change. Other code, such as functions, must synchronise its own access
// to the parameter. The parameters of this worker are changed by the thread that calls gw_optimizer_step. If other
// threads use these parameters through an object, enter the object with gw_local before the step. No worker may fetch
// the parameters during the step.
//
// Constructors, steps, clipping, state_dict and load_state_dict block until all owners have replied. If an owner
// refuses a reference, the error of the constructor names the owner.
//
// Errors, of all functions: INVALID for options out of range, and for an optimizer or scheduler whose constructor
// failed in another scope; NO_MEMORY; with parameters of other workers the errors of calls (gradwire/rpc.h).
// Ownership: optimizers and schedulers belong to the scope that made them; an optimizer holds a count on its
// parameters, and a scheduler holds a count on its optimizer.
// Threads: the same as for the scope; one step at a time.
#ifndef GRADWIRE_OPTIM_H
#define GRADWIRE_OPTIM_H

#include <gradwire/autograd.h>

#ifdef __cplusplus
extern "C" {
#endif

/// A rule with its parameters and their state, made by gw_sgd and the like, or opened by gw_optimizer_open.
typedef struct gw_optimizer gw_optimizer;

// ---- Rules --------------------------------------------------------------------------------------
// .lr is the learning rate. With .maximize a step increases the loss instead of decreasing it. A constructor fails with
// INVALID if |params| contains a tensor that the description of |params| does not allow.

/// Options of gw_sgd.
typedef struct GW_BY_NAME gw_sgd_options {
    double lr GW_DEFAULT(1e-3);
    double momentum GW_DEFAULT(0);
    double dampening GW_DEFAULT(0);
    double weight_decay GW_DEFAULT(0);
    bool nesterov GW_DEFAULT(false);  ///< requires momentum, and no dampening
    bool maximize GW_DEFAULT(false);
    bool concurrent GW_DEFAULT(false);  ///< see "Other workers"
} gw_sgd_options;

/// Makes an optimizer by stochastic gradient descent with momentum.
///
/// params: leaves that need a gradient, contiguous, of f32 or f64, each once; or references to such leaves ("Other
/// workers").
/// Returns: the optimizer.
/// Source: torch.optim.SGD; Sutskever et al. 2013 for .nesterov.
GW_API gw_optimizer *gw_sgd(gw_scope *s, gw_list *params, gw_sgd_options options GW_DEFAULT({}))
    GW_CALLS(gw_sgd_with);
#define gw_sgd(...) GW_FORM_2(gw_sgd, gw_sgd_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_sgd) gw_sgd_with;

/// Options of gw_adam.
typedef struct GW_BY_NAME gw_adam_options {
    double lr GW_DEFAULT(1e-3);
    double beta1 GW_DEFAULT(0.9), beta2 GW_DEFAULT(0.999);
    double eps GW_DEFAULT(1e-8);
    double weight_decay GW_DEFAULT(0);
    bool amsgrad GW_DEFAULT(false);
    bool maximize GW_DEFAULT(false);
    bool concurrent GW_DEFAULT(false);  ///< see "Other workers"
} gw_adam_options;

/// Makes an optimizer by Adam.
///
/// params: as for gw_sgd.
/// Returns: the optimizer.
/// Source: torch.optim.Adam; Kingma, Ba 2014; .amsgrad: Reddi et al. 2018.
GW_API gw_optimizer *gw_adam(gw_scope *s, gw_list *params, gw_adam_options options GW_DEFAULT({}))
    GW_CALLS(gw_adam_with);
#define gw_adam(...) GW_FORM_2(gw_adam, gw_adam_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_adam) gw_adam_with;

/// Options of gw_adamw.
typedef struct GW_BY_NAME gw_adamw_options {
    double lr GW_DEFAULT(1e-3);
    double beta1 GW_DEFAULT(0.9), beta2 GW_DEFAULT(0.999);
    double eps GW_DEFAULT(1e-8);
    double weight_decay GW_DEFAULT(0.01);
    bool amsgrad GW_DEFAULT(false);
    bool maximize GW_DEFAULT(false);
    bool concurrent GW_DEFAULT(false);  ///< see "Other workers"
} gw_adamw_options;

/// Makes an optimizer by Adam with decoupled weight decay.
///
/// params: as for gw_sgd.
/// Returns: the optimizer.
/// Source: torch.optim.AdamW; Loshchilov, Hutter 2017.
GW_API gw_optimizer *gw_adamw(gw_scope *s, gw_list *params, gw_adamw_options options GW_DEFAULT({}))
    GW_CALLS(gw_adamw_with);
#define gw_adamw(...) GW_FORM_2(gw_adamw, gw_adamw_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_adamw) gw_adamw_with;

/// Options of gw_sparse_adam.
typedef struct GW_BY_NAME gw_sparse_adam_options {
    double lr GW_DEFAULT(1e-3);
    double beta1 GW_DEFAULT(0.9), beta2 GW_DEFAULT(0.999);
    double eps GW_DEFAULT(1e-8);
    bool maximize GW_DEFAULT(false);
    bool concurrent GW_DEFAULT(false);  ///< see "Other workers"
} gw_sparse_adam_options;

/// Makes an optimizer by Adam for gradients that are sparse by rows. A step changes only the rows that the gradient
/// stores, and the moments of these rows.
///
/// params: as for gw_sgd.
/// Returns: the optimizer.
/// Errors: as gw_sgd. gw_optimizer_step fails with INVALID for dense gradients.
/// Source: torch.optim.SparseAdam.
GW_API gw_optimizer *gw_sparse_adam(gw_scope *s, gw_list *params,
                                    gw_sparse_adam_options options GW_DEFAULT({}))
    GW_CALLS(gw_sparse_adam_with);
#define gw_sparse_adam(...) GW_FORM_2(gw_sparse_adam, gw_sparse_adam_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_sparse_adam) gw_sparse_adam_with;

/// Options of gw_adamax.
typedef struct GW_BY_NAME gw_adamax_options {
    double lr GW_DEFAULT(2e-3);
    double beta1 GW_DEFAULT(0.9), beta2 GW_DEFAULT(0.999);
    double eps GW_DEFAULT(1e-8);
    double weight_decay GW_DEFAULT(0);
    bool maximize GW_DEFAULT(false);
    bool concurrent GW_DEFAULT(false);  ///< see "Other workers"
} gw_adamax_options;

/// Makes an optimizer by Adamax: Adam that divides by a decaying maximum of the absolute gradients, instead of the root
/// of a mean of their squares.
///
/// params: as for gw_sgd.
/// Returns: the optimizer.
/// Source: torch.optim.Adamax; Kingma, Ba 2014.
GW_API gw_optimizer *gw_adamax(gw_scope *s, gw_list *params,
                               gw_adamax_options options GW_DEFAULT({})) GW_CALLS(gw_adamax_with);
#define gw_adamax(...) GW_FORM_2(gw_adamax, gw_adamax_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_adamax) gw_adamax_with;

/// Options of gw_adagrad.
typedef struct GW_BY_NAME gw_adagrad_options {
    double lr GW_DEFAULT(1e-2);
    double lr_decay GW_DEFAULT(0);
    double weight_decay GW_DEFAULT(0);
    double initial_accumulator_value GW_DEFAULT(0);
    double eps GW_DEFAULT(1e-10);
    bool maximize GW_DEFAULT(false);
    bool concurrent GW_DEFAULT(false);  ///< see "Other workers"
} gw_adagrad_options;

/// Makes an optimizer by Adagrad: the rate of an element becomes smaller as the sum of its squared gradients becomes
/// larger.
///
/// params: as for gw_sgd.
/// Returns: the optimizer.
/// Source: torch.optim.Adagrad; Duchi et al. 2011.
GW_API gw_optimizer *gw_adagrad(gw_scope *s, gw_list *params,
                                gw_adagrad_options options GW_DEFAULT({}))
    GW_CALLS(gw_adagrad_with);
#define gw_adagrad(...) GW_FORM_2(gw_adagrad, gw_adagrad_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_adagrad) gw_adagrad_with;

/// Options of gw_adadelta.
typedef struct GW_BY_NAME gw_adadelta_options {
    double lr GW_DEFAULT(1.0);
    double rho GW_DEFAULT(0.9);  ///< at most 1
    double eps GW_DEFAULT(1e-6);
    double weight_decay GW_DEFAULT(0);
    bool maximize GW_DEFAULT(false);
    bool concurrent GW_DEFAULT(false);  ///< see "Other workers"
} gw_adadelta_options;

/// Makes an optimizer by Adadelta: the length of a step is about the running mean of the lengths of the previous steps.
///
/// params: as for gw_sgd.
/// Returns: the optimizer.
/// Source: torch.optim.Adadelta; Zeiler 2012.
GW_API gw_optimizer *gw_adadelta(gw_scope *s, gw_list *params,
                                 gw_adadelta_options options GW_DEFAULT({}))
    GW_CALLS(gw_adadelta_with);
#define gw_adadelta(...) GW_FORM_2(gw_adadelta, gw_adadelta_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_adadelta) gw_adadelta_with;

/// Options of gw_rmsprop.
typedef struct GW_BY_NAME gw_rmsprop_options {
    double lr GW_DEFAULT(1e-2);
    double alpha GW_DEFAULT(0.99);
    double eps GW_DEFAULT(1e-8);
    double weight_decay GW_DEFAULT(0);
    double momentum GW_DEFAULT(0);
    bool centered GW_DEFAULT(false);
    bool maximize GW_DEFAULT(false);
    bool concurrent GW_DEFAULT(false);  ///< see "Other workers"
} gw_rmsprop_options;

/// Makes an optimizer by RMSprop: the rate of an element becomes smaller as the running mean of its squared gradients
/// becomes larger.
///
/// params: as for gw_sgd.
/// Returns: the optimizer.
/// Source: torch.optim.RMSprop; Hinton 2012; .centered: Graves 2013.
GW_API gw_optimizer *gw_rmsprop(gw_scope *s, gw_list *params,
                                gw_rmsprop_options options GW_DEFAULT({}))
    GW_CALLS(gw_rmsprop_with);
#define gw_rmsprop(...) GW_FORM_2(gw_rmsprop, gw_rmsprop_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_rmsprop) gw_rmsprop_with;

/// Options of gw_rprop.
typedef struct GW_BY_NAME gw_rprop_options {
    double lr GW_DEFAULT(1e-2);                                  ///< the length of the first step
    double eta_minus GW_DEFAULT(0.5), eta_plus GW_DEFAULT(1.2);  ///< 0 < eta_minus < 1 < eta_plus
    double step_size_min GW_DEFAULT(1e-6), step_size_max GW_DEFAULT(50);
    bool maximize GW_DEFAULT(false);
    bool concurrent GW_DEFAULT(false);  ///< see "Other workers"
} gw_rprop_options;

/// Makes an optimizer by Rprop: a step depends on the signs of gradients, not on their size.
///
/// params: as for gw_sgd.
/// Returns: the optimizer.
/// Source: torch.optim.Rprop; Riedmiller, Braun 1993.
GW_API gw_optimizer *gw_rprop(gw_scope *s, gw_list *params, gw_rprop_options options GW_DEFAULT({}))
    GW_CALLS(gw_rprop_with);
#define gw_rprop(...) GW_FORM_2(gw_rprop, gw_rprop_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_rprop) gw_rprop_with;

// ---- Steps --------------------------------------------------------------------------------------

/// Changes the parameters of |opt| by their gradients in |s|. Parameters without a gradient do not change.
///
/// With gw_adagrad, gw_sparse_adam, and gw_sgd without momentum, a gradient that is sparse by rows (gw_rows) changes
/// only the rows that it stores. With gw_sgd with momentum, such a gradient changes all rows. With .weight_decay, and
/// with other rules, such a gradient is INVALID.
///
/// If a step of a sharded optimizer fails on one member, it fails on all members. If a member gives NULL as |opt|, the
/// other members wait.
/// Errors: WRONG_STATE if no backward pass was made in |s| and gw_set_grad was not called: "no backward pass was made
/// in this scope, and scope "step 12" has gradients of these parameters". In a function that another worker calls, a
/// pass in the caller's scope is enough. WRONG_STATE also if |s| seems to be the wrong scope: the passes in |s| left no
/// gradient of any parameter of |opt|, but a later pass in another scope left gradients of these parameters that no
/// step has used. Only passes of the same thread, or of the same call of a function, are considered. gw_clip_grad_norm,
/// gw_scaler_step and gw_scaler_unscale have the same errors.
/// Source: torch.optim.Optimizer.step.
GW_API void gw_optimizer_step(gw_scope *s, gw_optimizer *opt);

/// Scales the gradients of |params| in |s|. Afterwards the 2-norm of all these gradients together is at most
/// |max_norm|.
///
/// Returns: the norm before scaling.
/// Errors: as gw_optimizer_step; INVALID for an empty list. If an owner fails during the scaling, some gradients are
/// scaled and some are not.
/// Source: torch.nn.utils.clip_grad_norm_.
GW_API double gw_clip_grad_norm(gw_scope *s, gw_list *params, double max_norm);

/// Returns the number of steps taken.
GW_API int64_t gw_optimizer_steps(const gw_optimizer *opt);

// ---- Rules of a program -------------------------------------------------------------------------
// A program can define its own rule. The rule is a function that is called with pieces of a parameter. The function
// must compute each element independently of the other elements:
//
//     static void lion_step(const gw_rule_step *u) {                            // Lion (Chen et al. 2023)
//         double lr = u->options[0], beta1 = u->options[1], beta2 = u->options[2], decay = u->options[3];
//         for (int i = 0; i < u->count; i++) {
//             double g = u->grad[i], c = beta1 * u->state[0][i] + (1 - beta1) * g;
//             u->x[i] -= lr * ((c > 0) - (c < 0) + decay * u->x[i]);
//             u->state[0][i] = beta2 * u->state[0][i] + (1 - beta2) * g;
//         }
//     }
//     GW_RULE(lion, .step = lion_step, .states = { "exp_avg" },
//             .options = { { "lr", 1e-4 }, { "beta1", 0.9 }, { "beta2", 0.99 }, { "weight_decay", 0 } });
//
//     gw_optimizer *opt = gw_optimizer_open(root, "lion", weights, NULL);
//
// A program's own rule works with parameter groups, schedules, checkpoints, and references. Each owner uses the rule
// that it has registered under the same name; an owner without such a rule refuses the parameters with INVALID.

/// The most options and states of a rule.
enum { GW_RULE_OPTIONS_MAX = 12, GW_RULE_STATES_MAX = 3 };

/// A piece of a parameter: the argument with which a rule's .step is called.
typedef struct gw_rule_step {
    const double *options;  ///< in the order of the rule's options
    int64_t step;           ///< the number of this step of the parameter; the first is 1
    int count;              ///< the number of elements in x, grad and each state
    double *x;              ///< the parameter; the rule replaces the old values by new values
    const double *grad;
    /// The states, which the rule replaces, too; 0 before the first step.
    double *state[GW_RULE_STATES_MAX];
} gw_rule_step;

/// An option of a rule, with its default.
typedef struct gw_rule_option {
    const char *name;
    double value;  ///< the default
} gw_rule_option;

/// A rule of a program. |step| gets a parameter of f32 as doubles, too. |step| must accept numbers that are not finite,
/// may run on any thread, and cannot report a failure.
typedef struct GW_BY_NAME gw_rule {
    const char *name;
    void (*step)(const gw_rule_step *u);
    /// The first option is lr, which schedules change.
    gw_rule_option options[GW_RULE_OPTIONS_MAX];
    /// The names of the rule's states in gw_optimizer_state_dict.
    const char *states[GW_RULE_STATES_MAX];
    struct gw_rule *next;  ///< used by the library
} gw_rule;

/// Registers a rule before main: GW_RULE(name, .step = ..., ...); a semicolon follows.
#define GW_RULE(id, ...) GW_RULE_FORM(id, __VA_ARGS__)

/// Registers |r|, which must be static. GW_RULE calls this function before main.
GW_API void gw_rule_register(gw_rule *r);

/// Makes an optimizer with a rule that GW_RULE has registered.
///
/// params: as for gw_sgd.
/// options: numbers by name; NULL: the defaults.
/// Returns: the optimizer.
/// Errors: INVALID if no rule or two rules are registered as |rule|, if the rule is malformed, if the rule does not
/// have an option of |options|, and for a rule of the library, which has its own function.
GW_API gw_optimizer *gw_optimizer_open(gw_scope *s, const char *rule, gw_list *params,
                                       gw_map *options);

// ---- Parameter groups ---------------------------------------------------------------------------
// Parameter groups: parameters with separate options.
//
//     gw_optimizer *opt = gw_adamw(root, weights, .lr = 3e-4);
//     gw_optimizer_add_parameter_group(root, opt, biases, .weight_decay = 0);

/// Stands for the value that an option has in the first parameter group.
#define GW_AS_FIRST (-1.7976931348623157e308)

/// Options of a parameter group, for all rules; flags are 0 or 1.
typedef struct GW_BY_NAME gw_parameter_group_options {
    double lr GW_DEFAULT(GW_AS_FIRST);
    double weight_decay GW_DEFAULT(GW_AS_FIRST);
    double momentum GW_DEFAULT(GW_AS_FIRST), dampening GW_DEFAULT(GW_AS_FIRST);
    double nesterov GW_DEFAULT(GW_AS_FIRST);
    double beta1 GW_DEFAULT(GW_AS_FIRST), beta2 GW_DEFAULT(GW_AS_FIRST);
    double eps GW_DEFAULT(GW_AS_FIRST);
    double amsgrad GW_DEFAULT(GW_AS_FIRST);
    double lr_decay GW_DEFAULT(GW_AS_FIRST);
    double initial_accumulator_value GW_DEFAULT(GW_AS_FIRST);
    double rho GW_DEFAULT(GW_AS_FIRST);
    double alpha GW_DEFAULT(GW_AS_FIRST), centered GW_DEFAULT(GW_AS_FIRST);
    double eta_minus GW_DEFAULT(GW_AS_FIRST), eta_plus GW_DEFAULT(GW_AS_FIRST);
    double step_size_min GW_DEFAULT(GW_AS_FIRST), step_size_max GW_DEFAULT(GW_AS_FIRST);
    double maximize GW_DEFAULT(GW_AS_FIRST);
} gw_parameter_group_options;

/// Adds |params| to |opt| as a parameter group.
///
/// params: as for gw_sgd; not in |opt| yet.
/// Errors: INVALID for options that the rule of |opt| does not have.
/// Source: torch.optim.Optimizer.add_param_group.
GW_API void gw_optimizer_add_parameter_group(gw_scope *s, gw_optimizer *opt, gw_list *params,
                                             gw_parameter_group_options options GW_DEFAULT({}))
    GW_CALLS(gw_optimizer_add_parameter_group_with);
#define gw_optimizer_add_parameter_group(...)                                                      \
    GW_FORM_3(gw_optimizer_add_parameter_group, gw_parameter_group_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_optimizer_add_parameter_group) gw_optimizer_add_parameter_group_with;

/// Returns the number of parameter groups.
GW_API int gw_optimizer_parameter_group_count(const gw_optimizer *opt);

/// Returns the learning rate of the first parameter group.
GW_API double gw_optimizer_lr(const gw_optimizer *opt);

/// Returns the learning rate of parameter group |group|; NaN when out of range.
GW_API double gw_optimizer_parameter_group_lr(const gw_optimizer *opt, int group);

/// Sets the learning rate of all parameter groups, from the next step on.
/// Errors: INVALID if the rate is negative.
GW_API void gw_optimizer_set_lr(gw_scope *s, gw_optimizer *opt, double lr);

/// Sets the learning rate of parameter group |group|, from the next step on.
/// Errors: INVALID if the rate is negative, or |group| is out of range.
GW_API void gw_optimizer_set_parameter_group_lr(gw_scope *s, gw_optimizer *opt, int group,
                                                double lr);

// ---- Saving -------------------------------------------------------------------------------------

/// Copies the state of |opt|: all data on which the next steps depend, except the parameters.
///
/// Returns: a map of tensors, numbers and one string. "rule" is the name of the rule, and "steps" is the number of
/// steps taken. "group.0.lr" and so on are the options of the parameter groups. "0.exp_avg" and so on are the states of
/// the first parameter, under PyTorch's names.
/// Source: torch.optim.Optimizer.state_dict.
GW_API gw_map *gw_optimizer_state_dict(gw_scope *s, gw_optimizer *opt);

/// Copies a map of gw_optimizer_state_dict into |opt|.
///
/// state: the map of an optimizer with the same rule and the same numbers of parameter groups and parameters.
/// "group.0.initial_lr", the rate with which schedulers start, may be missing. The schedulers of |opt| then keep their
/// present initial rate.
/// Errors: INVALID if a name is missing or unknown, or a value has the wrong shape or kind; |opt| is then unchanged.
/// Source: torch.optim.Optimizer.load_state_dict.
GW_API void gw_optimizer_load_state_dict(gw_scope *s, gw_optimizer *opt, gw_map *state);

// ---- Schedules ----------------------------------------------------------------------------------
// A schedule changes the learning rate over time. The constructor of a scheduler may change the rate at once. The
// program calls gw_scheduler_step after each step of the optimizer, to change the rate for the next step. If an
// optimizer has several schedules, their factors are multiplied:
//
//     gw_scheduler *warm = gw_linear_lr(root, opt, .total_iters = 100);
//     gw_scheduler *down = gw_exponential_lr(root, opt, .gamma = 0.999);

/// A schedule of the learning rate of an optimizer, made by gw_step_lr and the like.
typedef struct gw_scheduler gw_scheduler;

/// Changes the learning rate of the scheduler's optimizer for the next step.
/// Errors: INVALID for a scheduler of gw_reduce_lr_on_plateau.
GW_API void gw_scheduler_step(gw_scope *s, gw_scheduler *scheduler);

/// Options of gw_step_lr.
typedef struct GW_BY_NAME gw_step_lr_options {
    int64_t step_size GW_DEFAULT(0);  ///< required, at least 1
    double gamma GW_DEFAULT(0.1);
} gw_step_lr_options;

/// Multiplies the rate by .gamma every .step_size steps.
///
/// Returns: the scheduler.
/// Source: torch.optim.lr_scheduler.StepLR.
GW_API gw_scheduler *gw_step_lr(gw_scope *s, gw_optimizer *opt,
                                gw_step_lr_options options GW_DEFAULT({}))
    GW_CALLS(gw_step_lr_with);
#define gw_step_lr(...) GW_FORM_2(gw_step_lr, gw_step_lr_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_step_lr) gw_step_lr_with;

/// Options of gw_multi_step_lr.
typedef struct GW_BY_NAME gw_multi_step_lr_options {
    const int64_t *milestones GW_DEFAULT(NULL);
    int milestone_count GW_DEFAULT(0);
    double gamma GW_DEFAULT(0.1);
} gw_multi_step_lr_options;

/// Multiplies the rate by .gamma at each step in .milestones; the array is copied.
///
/// Returns: the scheduler.
/// Source: torch.optim.lr_scheduler.MultiStepLR.
GW_API gw_scheduler *gw_multi_step_lr(gw_scope *s, gw_optimizer *opt,
                                      gw_multi_step_lr_options options GW_DEFAULT({}))
    GW_CALLS(gw_multi_step_lr_with);
#define gw_multi_step_lr(...) GW_FORM_2(gw_multi_step_lr, gw_multi_step_lr_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_multi_step_lr) gw_multi_step_lr_with;

/// Options of gw_exponential_lr.
typedef struct GW_BY_NAME gw_exponential_lr_options {
    double gamma GW_DEFAULT(0);  ///< required, above 0
} gw_exponential_lr_options;

/// Multiplies the rate by .gamma each step.
///
/// Returns: the scheduler.
/// Source: torch.optim.lr_scheduler.ExponentialLR.
GW_API gw_scheduler *gw_exponential_lr(gw_scope *s, gw_optimizer *opt,
                                       gw_exponential_lr_options options GW_DEFAULT({}))
    GW_CALLS(gw_exponential_lr_with);
#define gw_exponential_lr(...) GW_FORM_2(gw_exponential_lr, gw_exponential_lr_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_exponential_lr) gw_exponential_lr_with;

/// Options of gw_cosine_annealing_lr.
typedef struct GW_BY_NAME gw_cosine_annealing_lr_options {
    int64_t t_max GW_DEFAULT(0);  ///< required, at least 1
    double eta_min GW_DEFAULT(0);
} gw_cosine_annealing_lr_options;

/// Lowers the rate along half a cosine to .eta_min in .t_max steps. In later steps the rate rises again.
///
/// Returns: the scheduler.
/// Source: torch.optim.lr_scheduler.CosineAnnealingLR; Loshchilov, Hutter 2016, without restarts.
GW_API gw_scheduler *gw_cosine_annealing_lr(gw_scope *s, gw_optimizer *opt,
                                            gw_cosine_annealing_lr_options options GW_DEFAULT({}))
    GW_CALLS(gw_cosine_annealing_lr_with);
#define gw_cosine_annealing_lr(...)                                                                \
    GW_FORM_2(gw_cosine_annealing_lr, gw_cosine_annealing_lr_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_cosine_annealing_lr) gw_cosine_annealing_lr_with;

/// Options of gw_linear_lr.
typedef struct GW_BY_NAME gw_linear_lr_options {
    double start_factor GW_DEFAULT(1.0 / 3);  ///< above 0, at most 1
    double end_factor GW_DEFAULT(1.0);        ///< at most 1
    int64_t total_iters GW_DEFAULT(5);
} gw_linear_lr_options;

/// Multiplies the rate by a factor that changes linearly from .start_factor to .end_factor in .total_iters steps: a
/// warm-up.
///
/// Returns: the scheduler.
/// Source: torch.optim.lr_scheduler.LinearLR.
GW_API gw_scheduler *gw_linear_lr(gw_scope *s, gw_optimizer *opt,
                                  gw_linear_lr_options options GW_DEFAULT({}))
    GW_CALLS(gw_linear_lr_with);
#define gw_linear_lr(...) GW_FORM_2(gw_linear_lr, gw_linear_lr_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_linear_lr) gw_linear_lr_with;

/// Options of gw_one_cycle_lr.
typedef struct GW_BY_NAME gw_one_cycle_lr_options {
    double max_lr GW_DEFAULT(0);        ///< required, above 0
    int64_t total_steps GW_DEFAULT(0);  ///< required, at least 1
    double pct_start GW_DEFAULT(0.3);   ///< the fraction of the steps in which the rate rises
    bool linear GW_DEFAULT(false);      ///< true: the rate changes linearly; false: along a cosine
    /// The momentum (for Adam: beta1) falls while the rate rises, and rises while the rate falls.
    bool cycle_momentum GW_DEFAULT(true);
    double base_momentum GW_DEFAULT(0.85), max_momentum GW_DEFAULT(0.95);
    double div_factor GW_DEFAULT(25);  ///< the first rate is |max_lr| / |div_factor|
    /// The last rate is the first rate / |final_div_factor|.
    double final_div_factor GW_DEFAULT(1e4);
    /// After the rate has risen, it falls as fast as it rose, and then falls to almost 0.
    bool three_phase GW_DEFAULT(false);
} gw_one_cycle_lr_options;

/// Raises the rate to .max_lr and lowers it to almost 0, in .total_steps steps. The momentum of gw_sgd and gw_rmsprop,
/// or beta1, falls while the rate rises, and rises while the rate falls. The schedule cannot be combined with other
/// schedules.
///
/// Returns: the scheduler.
/// Errors: gw_scheduler_step fails with WRONG_STATE after .total_steps steps.
/// Source: torch.optim.lr_scheduler.OneCycleLR; Smith, Topin 2017.
GW_API gw_scheduler *gw_one_cycle_lr(gw_scope *s, gw_optimizer *opt,
                                     gw_one_cycle_lr_options options GW_DEFAULT({}))
    GW_CALLS(gw_one_cycle_lr_with);
#define gw_one_cycle_lr(...) GW_FORM_2(gw_one_cycle_lr, gw_one_cycle_lr_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_one_cycle_lr) gw_one_cycle_lr_with;

/// Options of gw_reduce_lr_on_plateau.
typedef struct GW_BY_NAME gw_reduce_lr_on_plateau_options {
    bool max GW_DEFAULT(false);     ///< a larger metric is better
    double factor GW_DEFAULT(0.1);  ///< below 1
    int64_t patience GW_DEFAULT(10);
    double threshold GW_DEFAULT(1e-4);  ///< a smaller change of the metric is no improvement
    bool absolute
        GW_DEFAULT(false);  ///< |threshold| is a difference; false: a fraction of the best metric
    /// After a change of the rate, this many calls of gw_plateau_step are not counted.
    int64_t cooldown GW_DEFAULT(0);
    double min_lr GW_DEFAULT(0);
    double eps GW_DEFAULT(1e-8);  ///< a change of the rate by less than |eps| is not made
} gw_reduce_lr_on_plateau_options;

/// Multiplies the rate by .factor when the metric has not improved in more than .patience calls of gw_plateau_step.
///
/// Returns: the scheduler.
/// Source: torch.optim.lr_scheduler.ReduceLROnPlateau.
GW_API gw_scheduler *gw_reduce_lr_on_plateau(gw_scope *s, gw_optimizer *opt,
                                             gw_reduce_lr_on_plateau_options options GW_DEFAULT({}))
    GW_CALLS(gw_reduce_lr_on_plateau_with);
#define gw_reduce_lr_on_plateau(...)                                                               \
    GW_FORM_2(gw_reduce_lr_on_plateau, gw_reduce_lr_on_plateau_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_reduce_lr_on_plateau) gw_reduce_lr_on_plateau_with;

/// Changes the learning rate by |metric|, for a scheduler of gw_reduce_lr_on_plateau.
/// Errors: INVALID for a scheduler of another kind.
GW_API void gw_plateau_step(gw_scope *s, gw_scheduler *scheduler, double metric);

/// Lists the state of a scheduler. The learning rates are not in this map, but in the map of gw_optimizer_state_dict.
/// Returns: a map of numbers.
GW_API gw_map *gw_scheduler_state_dict(gw_scope *s, gw_scheduler *scheduler);

/// Copies a map of gw_scheduler_state_dict into |scheduler|.
/// Errors: INVALID for a map that does not fit; |scheduler| is then unchanged.
GW_API void gw_scheduler_load_state_dict(gw_scope *s, gw_scheduler *scheduler, gw_map *state);

#ifdef __cplusplus
}
#endif
#include <gradwire/detail/optim.h>
#endif
