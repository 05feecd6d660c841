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
// Rules, schedules, defaults and numbers are PyTorch's. What is not named has its default; C++17
// sets members of the struct of options instead. A function whose name ends in _with is what a
// short form calls: gw_sgd(s, params, .lr = 0.1) is gw_sgd_with(s, params, options).
//
// A step is all or nothing. If it fails, parameters and optimizer are as they were; but see *Other
// workers* for steps that others take part in, and |concurrent|.
// An optimizer or scheduler whose constructor failed is INVALID wherever it is used in a scope that
// is well.
//
// Ownership: optimizers and schedulers belong to the scope that made them; an optimizer holds a
// count on its parameters, a scheduler one on its optimizer.
// Threads: as the scope; one step at a time.
#ifndef GRADWIRE_OPTIM_H
#define GRADWIRE_OPTIM_H

#include <gradwire/autograd.h>
#include <gradwire/detail/options.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gw_optimizer gw_optimizer;

// ---- Rules --------------------------------------------------------------------------------------
// |params| of all of them: a list of leaves that require a gradient, of dtype f32 or f64,
// contiguous, each once, or references to such. Else INVALID, as are options out of their range.
// |maximize| goes up instead of down.

// Stochastic gradient descent (Sutskever et al. 2013 for Nesterov's form): torch.optim.SGD.
typedef struct GW_BY_NAME gw_sgd_options {
    double lr GW_DEFAULT(1e-3);
    double momentum GW_DEFAULT(0);
    double dampening GW_DEFAULT(0);
    double weight_decay GW_DEFAULT(0);
    bool nesterov GW_DEFAULT(false);  // needs momentum, and no dampening
    bool maximize GW_DEFAULT(false);
    bool concurrent GW_DEFAULT(false);  // see Other workers
} gw_sgd_options;

GW_API gw_optimizer *gw_sgd(gw_scope *s, gw_list *params, gw_sgd_options options GW_DEFAULT({}))
    GW_CALLS(gw_sgd_with);
#define gw_sgd(...) GW_FORM_2(gw_sgd, gw_sgd_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_sgd) gw_sgd_with;

// Adam (Kingma, Ba 2014): torch.optim.Adam. |amsgrad|: Reddi et al. 2018.
typedef struct GW_BY_NAME gw_adam_options {
    double lr GW_DEFAULT(1e-3);
    double beta1 GW_DEFAULT(0.9), beta2 GW_DEFAULT(0.999);
    double eps GW_DEFAULT(1e-8);
    double weight_decay GW_DEFAULT(0);
    bool amsgrad GW_DEFAULT(false);
    bool maximize GW_DEFAULT(false);
    bool concurrent GW_DEFAULT(false);  // see Other workers
} gw_adam_options;

GW_API gw_optimizer *gw_adam(gw_scope *s, gw_list *params, gw_adam_options options GW_DEFAULT({}))
    GW_CALLS(gw_adam_with);
#define gw_adam(...) GW_FORM_2(gw_adam, gw_adam_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_adam) gw_adam_with;

// Adam with decoupled weight decay (Loshchilov, Hutter 2017): torch.optim.AdamW.
typedef struct GW_BY_NAME gw_adamw_options {
    double lr GW_DEFAULT(1e-3);
    double beta1 GW_DEFAULT(0.9), beta2 GW_DEFAULT(0.999);
    double eps GW_DEFAULT(1e-8);
    double weight_decay GW_DEFAULT(0.01);
    bool amsgrad GW_DEFAULT(false);
    bool maximize GW_DEFAULT(false);
    bool concurrent GW_DEFAULT(false);  // see Other workers
} gw_adamw_options;

GW_API gw_optimizer *gw_adamw(gw_scope *s, gw_list *params, gw_adamw_options options GW_DEFAULT({}))
    GW_CALLS(gw_adamw_with);
#define gw_adamw(...) GW_FORM_2(gw_adamw, gw_adamw_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_adamw) gw_adamw_with;

// Adam for gradients that are sparse by rows: rows that the gradient does not name stay, and so do
// their moments. INVALID for dense gradients. torch.optim.SparseAdam.
typedef struct GW_BY_NAME gw_sparse_adam_options {
    double lr GW_DEFAULT(1e-3);
    double beta1 GW_DEFAULT(0.9), beta2 GW_DEFAULT(0.999);
    double eps GW_DEFAULT(1e-8);
    bool maximize GW_DEFAULT(false);
    bool concurrent GW_DEFAULT(false);  // see Other workers
} gw_sparse_adam_options;

GW_API gw_optimizer *gw_sparse_adam(gw_scope *s, gw_list *params,
                                    gw_sparse_adam_options options GW_DEFAULT({}))
    GW_CALLS(gw_sparse_adam_with);
#define gw_sparse_adam(...) GW_FORM_2(gw_sparse_adam, gw_sparse_adam_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_sparse_adam) gw_sparse_adam_with;

// Adam with the largest gradient in the place of squares (Kingma, Ba 2014): torch.optim.Adamax.
typedef struct GW_BY_NAME gw_adamax_options {
    double lr GW_DEFAULT(2e-3);
    double beta1 GW_DEFAULT(0.9), beta2 GW_DEFAULT(0.999);
    double eps GW_DEFAULT(1e-8);
    double weight_decay GW_DEFAULT(0);
    bool maximize GW_DEFAULT(false);
    bool concurrent GW_DEFAULT(false);  // see Other workers
} gw_adamax_options;

GW_API gw_optimizer *gw_adamax(gw_scope *s, gw_list *params,
                               gw_adamax_options options GW_DEFAULT({})) GW_CALLS(gw_adamax_with);
#define gw_adamax(...) GW_FORM_2(gw_adamax, gw_adamax_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_adamax) gw_adamax_with;

// Rates by the sum of squares (Duchi et al. 2011): torch.optim.Adagrad.
typedef struct GW_BY_NAME gw_adagrad_options {
    double lr GW_DEFAULT(1e-2);
    double lr_decay GW_DEFAULT(0);
    double weight_decay GW_DEFAULT(0);
    double initial_accumulator_value GW_DEFAULT(0);
    double eps GW_DEFAULT(1e-10);
    bool maximize GW_DEFAULT(false);
    bool concurrent GW_DEFAULT(false);  // see Other workers
} gw_adagrad_options;

GW_API gw_optimizer *gw_adagrad(gw_scope *s, gw_list *params,
                                gw_adagrad_options options GW_DEFAULT({}))
    GW_CALLS(gw_adagrad_with);
#define gw_adagrad(...) GW_FORM_2(gw_adagrad, gw_adagrad_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_adagrad) gw_adagrad_with;

// Steps as long as those before (Zeiler 2012): torch.optim.Adadelta.
typedef struct GW_BY_NAME gw_adadelta_options {
    double lr GW_DEFAULT(1.0);
    double rho GW_DEFAULT(0.9);  // at most 1
    double eps GW_DEFAULT(1e-6);
    double weight_decay GW_DEFAULT(0);
    bool maximize GW_DEFAULT(false);
    bool concurrent GW_DEFAULT(false);  // see Other workers
} gw_adadelta_options;

GW_API gw_optimizer *gw_adadelta(gw_scope *s, gw_list *params,
                                 gw_adadelta_options options GW_DEFAULT({}))
    GW_CALLS(gw_adadelta_with);
#define gw_adadelta(...) GW_FORM_2(gw_adadelta, gw_adadelta_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_adadelta) gw_adadelta_with;

// Rates by the mean of squares (Hinton 2012; |centered|: Graves 2013): torch.optim.RMSprop.
typedef struct GW_BY_NAME gw_rmsprop_options {
    double lr GW_DEFAULT(1e-2);
    double alpha GW_DEFAULT(0.99);
    double eps GW_DEFAULT(1e-8);
    double weight_decay GW_DEFAULT(0);
    double momentum GW_DEFAULT(0);
    bool centered GW_DEFAULT(false);
    bool maximize GW_DEFAULT(false);
    bool concurrent GW_DEFAULT(false);  // see Other workers
} gw_rmsprop_options;

GW_API gw_optimizer *gw_rmsprop(gw_scope *s, gw_list *params,
                                gw_rmsprop_options options GW_DEFAULT({}))
    GW_CALLS(gw_rmsprop_with);
#define gw_rmsprop(...) GW_FORM_2(gw_rmsprop, gw_rmsprop_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_rmsprop) gw_rmsprop_with;

// Steps by the signs of gradients (Riedmiller, Braun 1993): torch.optim.Rprop.
typedef struct GW_BY_NAME gw_rprop_options {
    double lr GW_DEFAULT(1e-2);                                  // the length of the first step
    double eta_minus GW_DEFAULT(0.5), eta_plus GW_DEFAULT(1.2);  // 0 < eta_minus < 1 < eta_plus
    double step_size_min GW_DEFAULT(1e-6), step_size_max GW_DEFAULT(50);
    bool maximize GW_DEFAULT(false);
    bool concurrent GW_DEFAULT(false);  // see Other workers
} gw_rprop_options;

GW_API gw_optimizer *gw_rprop(gw_scope *s, gw_list *params, gw_rprop_options options GW_DEFAULT({}))
    GW_CALLS(gw_rprop_with);
#define gw_rprop(...) GW_FORM_2(gw_rprop, gw_rprop_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_rprop) gw_rprop_with;

// ---- Steps --------------------------------------------------------------------------------------

// Changes the parameters by their gradients in |s|. Those without gradient stay. WRONG_STATE if no
// backward pass was made in |s| (and gw_set_grad not called): "no backward pass was made in this scope,
// and scope "step 12" has gradients of these parameters". In a function that another worker calls, the
// passes of the caller's scope count, too. So with gw_clip_grad_norm, gw_scaler_step and
// gw_scaler_unscale.
//
// Gradients that are sparse by rows (gw_rows) change only the rows they name with gw_adagrad,
// gw_sparse_adam and gw_sgd; all rows with gw_sgd that has momentum, whose other rows move on. With
// weight_decay, and with other rules, they are INVALID.
GW_API void gw_optimizer_step(gw_scope *s, gw_optimizer *opt);

// Scales the gradients that |s| has of |params| so that the 2-norm of all of them together is at
// most |max_norm|. Returns what it was: torch.nn.utils.clip_grad_norm_. If it fails while owners
// scale theirs (see *Other workers*), some have and some have not.
GW_API double gw_clip_grad_norm(gw_scope *s, gw_list *params, double max_norm);

// Steps taken so far.
GW_API int64_t gw_optimizer_steps(const gw_optimizer *opt);

// ---- Other workers ------------------------------------------------------------------------------
// Parameters may be references (gradwire/ref.h), in any mixture with tensors: to leaves of other
// workers, or of this one. Each owner then keeps the state of its own, and computes its part of a
// step from the gradients that passes in |s| have left there.
//
//     gw_list *params = gw_parameters(root, head);                       // tensors, here
//     gw_list_add(root, params, gw_remote(root, "ps", "make_weight"));   // and one that ps has
//     gw_optimizer *opt = gw_sgd(root, params, .lr = 0.05);
//
// A step is all or nothing there, too: every owner computes beside what it has, and only when all
// of them have, they put it in place. If an owner is lost before that, none has changed; if one is
// lost later, the error says who is a step ahead. With |concurrent| nothing is staged: each owner
// takes its step as it comes. That is for several trainers over the same parameters (HogWild, Recht
// et al. 2011); it needs one call to each owner, instead of two.
// An owner changes parameters in the turn of the object that has given out the reference to them
// (by a method, or in gw_local), so that no method of it reads them meanwhile; forward passes of
// other code, such as functions, see to that themselves. Parameters of this worker are changed by
// the thread that steps: if others use them through an object, enter it with gw_local first, and no
// worker may fetch them meanwhile.
//
// Once the first owner puts new values in place there is no way back: then a step waits for all of
// them, whatever the deadline of |s|, until they have answered or are lost.
//
// Making one waits for all owners, and fails with what is wrong with a reference, and where; a
// step, clipping, state_dict and load wait for them, too.

// ---- Rules of one's own -------------------------------------------------------------------------
// A rule of a program is a function over pieces of a parameter, each number on its own:
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
// It is then as good as the library's: in groups, schedules, checkpoints, and for references. Each
// owner computes with the rule that it has registered under the name; INVALID if it has none.
enum { GW_RULE_OPTIONS_MAX = 12, GW_RULE_STATES_MAX = 3 };

typedef struct gw_rule_step {
    const double *options;  // in the order of the rule's
    int64_t step;           // of the parameter; 1 is the first
    int count;              // of the numbers below
    double *x;              // the parameter; what stands here afterwards is the new one
    const double *grad;
    double *state[GW_RULE_STATES_MAX];  // likewise; 0 before the first step
} gw_rule_step;

typedef struct gw_rule_option {
    const char *name;
    double value;  // if it is left out
} gw_rule_option;

// A parameter of f32 is read and written as doubles. Numbers that are not finite are for |step| to
// look after; it runs on any thread, and cannot fail.
typedef struct GW_BY_NAME gw_rule {
    const char *name;
    void (*step)(const gw_rule_step *u);
    gw_rule_option options[GW_RULE_OPTIONS_MAX];  // the first is lr, which schedules change
    const char *states[GW_RULE_STATES_MAX];       // names of what it keeps, in state_dict
    struct gw_rule *next;                         // the library's
} gw_rule;

// GW_RULE(name, .step = ..., ...) and a semicolon registers a rule before main.
#define GW_RULE(id, ...) GW_RULE_FORM(id, __VA_ARGS__)
GW_API void gw_rule_register(gw_rule *r);  // |r| is static

// An optimizer of a registered rule. |options|, numbers by name, may be NULL. INVALID if there is no
// such rule, or there are two, or it is malformed, or has no such option; of gw_sgd and so on, use
// these.
GW_API gw_optimizer *gw_optimizer_open(gw_scope *s, const char *rule, gw_list *params,
                                       gw_map *options);

// ---- Groups -------------------------------------------------------------------------------------
// Parameters with options of their own. What is not named is as in the first group. INVALID for
// options that the rule of |opt| has not.
//
//     gw_optimizer *opt = gw_adamw(root, weights, .lr = 3e-4);
//     gw_optimizer_add_parameter_group(root, opt, biases, .weight_decay = 0);
#define GW_AS_FIRST (-1.7976931348623157e308)

// The options of all rules; flags are 0 or 1.
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

GW_API void gw_optimizer_add_parameter_group(gw_scope *s, gw_optimizer *opt, gw_list *params,
                                             gw_parameter_group_options options GW_DEFAULT({}))
    GW_CALLS(gw_optimizer_add_parameter_group_with);
#define gw_optimizer_add_parameter_group(...)                                                      \
    GW_FORM_3(gw_optimizer_add_parameter_group, gw_parameter_group_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_optimizer_add_parameter_group) gw_optimizer_add_parameter_group_with;

GW_API int gw_optimizer_parameter_group_count(const gw_optimizer *opt);

// The rate of the first group, and of a group by its number: NaN if there is no such group. Setting
// counts from the next step on; INVALID if negative. gw_optimizer_set_lr is for all
// groups.
GW_API double gw_optimizer_lr(const gw_optimizer *opt);
GW_API double gw_optimizer_parameter_group_lr(const gw_optimizer *opt, int group);
GW_API void gw_optimizer_set_lr(gw_scope *s, gw_optimizer *opt, double lr);
GW_API void gw_optimizer_set_parameter_group_lr(gw_scope *s, gw_optimizer *opt, int group,
                                                double lr);

// ---- Saving -------------------------------------------------------------------------------------

// All that the next steps depend on, but the parameters: a map of tensors, numbers and one string.
// "rule" is the rule's name, "steps" a count; "group.0.lr" and so on are the options of groups, and
// "0.exp_avg" and so on, under PyTorch's names, what the rule has kept of the first parameter. The
// tensors are as they are now, whatever steps follow.
GW_API gw_map *gw_optimizer_state_dict(gw_scope *s, gw_optimizer *opt);

// Takes over such a map, from an optimizer of the same rule over as many groups and parameters. A
// name that is missing or too many, a shape or kind that does not fit: INVALID, and nothing
// changes.
// Only "group.0.initial_lr", what schedulers start from, may be missing: a map from before there
// was one has none, and those that are here go on from their own.
GW_API void gw_optimizer_load_state_dict(gw_scope *s, gw_optimizer *opt, gw_map *state);

// ---- Schedules ----------------------------------------------------------------------------------
// How rates change over time. One is set up by being made, which may change the rates at once, and
// moves on by gw_scheduler_step, after the optimizer's step. Several over one optimizer multiply:
//
//     gw_scheduler *warm = gw_linear_lr(root, opt, .total_iters = 100);
//     gw_scheduler *down = gw_exponential_lr(root, opt, .gamma = 0.999);
//
// Options out of their range are INVALID.
typedef struct gw_scheduler gw_scheduler;

GW_API void gw_scheduler_step(gw_scope *s, gw_scheduler *scheduler);

// |gamma| times the rate every |step_size| steps: torch.optim.lr_scheduler.StepLR.
typedef struct GW_BY_NAME gw_step_lr_options {
    int64_t step_size GW_DEFAULT(0);  // at least 1: to be given
    double gamma GW_DEFAULT(0.1);
} gw_step_lr_options;

GW_API gw_scheduler *gw_step_lr(gw_scope *s, gw_optimizer *opt,
                                gw_step_lr_options options GW_DEFAULT({}))
    GW_CALLS(gw_step_lr_with);
#define gw_step_lr(...) GW_FORM_2(gw_step_lr, gw_step_lr_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_step_lr) gw_step_lr_with;

// |gamma| times the rate at each of the |milestones|, which are copied: MultiStepLR.
typedef struct GW_BY_NAME gw_multi_step_lr_options {
    const int64_t *milestones GW_DEFAULT(NULL);
    int milestone_count GW_DEFAULT(0);
    double gamma GW_DEFAULT(0.1);
} gw_multi_step_lr_options;

GW_API gw_scheduler *gw_multi_step_lr(gw_scope *s, gw_optimizer *opt,
                                      gw_multi_step_lr_options options GW_DEFAULT({}))
    GW_CALLS(gw_multi_step_lr_with);
#define gw_multi_step_lr(...) GW_FORM_2(gw_multi_step_lr, gw_multi_step_lr_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_multi_step_lr) gw_multi_step_lr_with;

// |gamma| times the rate each step: ExponentialLR.
typedef struct GW_BY_NAME gw_exponential_lr_options {
    double gamma GW_DEFAULT(0);  // above 0: to be given
} gw_exponential_lr_options;

GW_API gw_scheduler *gw_exponential_lr(gw_scope *s, gw_optimizer *opt,
                                       gw_exponential_lr_options options GW_DEFAULT({}))
    GW_CALLS(gw_exponential_lr_with);
#define gw_exponential_lr(...) GW_FORM_2(gw_exponential_lr, gw_exponential_lr_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_exponential_lr) gw_exponential_lr_with;

// Half a cosine down to |eta_min| in |t_max| steps, and up again after them (Loshchilov, Hutter
// 2016, without restarts): CosineAnnealingLR.
typedef struct GW_BY_NAME gw_cosine_annealing_lr_options {
    int64_t t_max GW_DEFAULT(0);  // at least 1: to be given
    double eta_min GW_DEFAULT(0);
} gw_cosine_annealing_lr_options;

GW_API gw_scheduler *gw_cosine_annealing_lr(gw_scope *s, gw_optimizer *opt,
                                            gw_cosine_annealing_lr_options options GW_DEFAULT({}))
    GW_CALLS(gw_cosine_annealing_lr_with);
#define gw_cosine_annealing_lr(...)                                                                \
    GW_FORM_2(gw_cosine_annealing_lr, gw_cosine_annealing_lr_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_cosine_annealing_lr) gw_cosine_annealing_lr_with;

// Warm-up: from |start_factor| times the rate to |end_factor| times in |total_iters| steps:
// LinearLR.
typedef struct GW_BY_NAME gw_linear_lr_options {
    double start_factor GW_DEFAULT(1.0 / 3);  // above 0, at most 1
    double end_factor GW_DEFAULT(1.0);        // at most 1
    int64_t total_iters GW_DEFAULT(5);
} gw_linear_lr_options;

GW_API gw_scheduler *gw_linear_lr(gw_scope *s, gw_optimizer *opt,
                                  gw_linear_lr_options options GW_DEFAULT({}))
    GW_CALLS(gw_linear_lr_with);
#define gw_linear_lr(...) GW_FORM_2(gw_linear_lr, gw_linear_lr_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_linear_lr) gw_linear_lr_with;

// Up to |max_lr| and down to almost nothing, in |total_steps| steps, after which it is WRONG_STATE;
// the momentum of gw_sgd and gw_rmsprop, or beta1, goes the other way (Smith, Topin 2017):
// OneCycleLR. It knows nothing of other schedules.
typedef struct GW_BY_NAME gw_one_cycle_lr_options {
    double max_lr GW_DEFAULT(0);           // above 0: to be given
    int64_t total_steps GW_DEFAULT(0);     // at least 1: to be given
    double pct_start GW_DEFAULT(0.3);      // the part of it that goes up
    bool linear GW_DEFAULT(false);         // not along a cosine
    bool cycle_momentum GW_DEFAULT(true);  // the momentum, or beta1, goes the other way
    double base_momentum GW_DEFAULT(0.85), max_momentum GW_DEFAULT(0.95);
    double div_factor GW_DEFAULT(25);         // begins at |max_lr| / |div_factor|,
    double final_div_factor GW_DEFAULT(1e4);  // ends at that / |final_div_factor|
    bool three_phase GW_DEFAULT(false);       // down as fast as up, then to nothing
} gw_one_cycle_lr_options;

GW_API gw_scheduler *gw_one_cycle_lr(gw_scope *s, gw_optimizer *opt,
                                     gw_one_cycle_lr_options options GW_DEFAULT({}))
    GW_CALLS(gw_one_cycle_lr_with);
#define gw_one_cycle_lr(...) GW_FORM_2(gw_one_cycle_lr, gw_one_cycle_lr_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_one_cycle_lr) gw_one_cycle_lr_with;

// |factor| times the rate when a metric has not become better for more than |patience| steps:
// ReduceLROnPlateau. It moves on by gw_plateau_step.
typedef struct GW_BY_NAME gw_reduce_lr_on_plateau_options {
    bool max GW_DEFAULT(false);     // better is more
    double factor GW_DEFAULT(0.1);  // below 1
    int64_t patience GW_DEFAULT(10);
    double threshold GW_DEFAULT(1e-4);  // less than this is not better,
    bool absolute GW_DEFAULT(false);    // as a difference, instead of a part of the best
    int64_t cooldown GW_DEFAULT(0);     // steps after a change that do not count
    double min_lr GW_DEFAULT(0);
    double eps GW_DEFAULT(1e-8);  // changes less than this are not made
} gw_reduce_lr_on_plateau_options;

GW_API gw_scheduler *gw_reduce_lr_on_plateau(gw_scope *s, gw_optimizer *opt,
                                             gw_reduce_lr_on_plateau_options options GW_DEFAULT({}))
    GW_CALLS(gw_reduce_lr_on_plateau_with);
#define gw_reduce_lr_on_plateau(...)                                                               \
    GW_FORM_2(gw_reduce_lr_on_plateau, gw_reduce_lr_on_plateau_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_reduce_lr_on_plateau) gw_reduce_lr_on_plateau_with;
GW_API void gw_plateau_step(gw_scope *s, gw_scheduler *scheduler, double metric);

// Where a scheduler stands; the rates are in its optimizer's map. Loading is checked as above.
GW_API gw_map *gw_scheduler_state_dict(gw_scope *s, gw_scheduler *scheduler);
GW_API void gw_scheduler_load_state_dict(gw_scope *s, gw_scheduler *scheduler, gw_map *state);

#ifdef __cplusplus
}
#endif
#include <gradwire/detail/optim.h>
#endif
