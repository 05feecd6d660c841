// Around data parallelism: sharded optimizers, one module over several threads, batch norm over all members, averages of
// weights.
//
//     gw_optimizer *opt = gw_adam(root, gw_parameters(root, model), .lr = 1e-3);
//     gw_optimizer_shard(root, opt);                                   // each member keeps a part of the moments
//
//     gw_averager average = { .levels = { { .period = 4 } } };         // local SGD: every fourth step
//     gw_averager_step(s, &average, gw_parameters(s, model));
//
// All members of a group call these alike, as collectives. A call that one member refuses, or makes in a scope that has
// failed, fails on all members; but not one whose handle (an optimizer, an averager, a group) is NULL or could not be
// opened, so that the group is unknown: then the other members wait until their deadline.
//
// Errors, of all of them: INVALID for arguments; the errors of collectives (gradwire/collective.h).
// Ownership: a sharded optimizer holds a count on its group.
// Threads: as collectives.
#ifndef GRADWIRE_PARALLEL_H
#define GRADWIRE_PARALLEL_H

#include <gradwire/collective.h>
#include <gradwire/nn.h>
#include <gradwire/optim.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- Sharded optimizers -------------------------------------------------------------------------

/// Which gradients a member of a sharded optimizer has.
typedef enum gw_shard_gradients {
    GW_WHOLE,   ///< all of them
    GW_SHARDED  ///< those of its part
} gw_shard_gradients;

/// Options of gw_optimizer_shard.
typedef struct GW_BY_NAME gw_shard_options {
    gw_group *group GW_DEFAULT(NULL);  ///< NULL: all workers of the job
    /// Each member has an equal range of all elements of a dtype, which may begin inside a parameter: for few large
    /// ones. Gradients that are sparse by rows are INVALID then.
    bool flat GW_DEFAULT(false);
    /// A member computes the new values of its parameters as the buckets with their gradients arrive, while the
    /// backward pass continues, and the step sends them. The step computes again the values whose inputs have changed by
    /// then (a gradient that is clipped or unscaled, a rate, a weight): results are equal. For models that gw_ddp_open
    /// has opened, before their first pass; parameter groups are added while no pass is under way.
    bool overlap GW_DEFAULT(false);
    /// GW_SHARDED is ZeRO-2: a backward pass leaves the mean of a gradient on its owner alone, and NOT_FOUND on all
    /// others, also of earlier passes in that scope; buckets are sent by reduce_scatter, and rows of tables to their
    /// owner. gw_clip_grad_norm is a collective then, of the norm over all members. The parameters are those of models
    /// that gw_ddp_open has opened among the same members: else INVALID, as with the hooks of PowerSGD and local SGD;
    /// WRONG_STATE after their first pass. Synchronised passes of one scope add up; after one of them, others are
    /// WRONG_STATE there. With .flat a parameter of which this member has a range is NOT_FOUND, too: gw_grads_get has
    /// the range's gradient, as that of a view, and the norm may differ from the plain one's in its last bits.
    gw_shard_gradients gradients GW_DEFAULT(GW_WHOLE);
} gw_shard_options;

/// Shards the state of |opt|: each member of the group keeps that of its part of the parameters, and computes their
/// steps; all members get the new values. Parameters are assigned whole, one parameter group after the other, the
/// largest first to the member with the fewest elements so far; those of a group that is added later by the next step.
///
///     gw_ddp_open(root, model);
///     gw_optimizer *opt = gw_adam(root, gw_parameters(root, model));
///     gw_optimizer_shard(root, opt, .gradients = GW_SHARDED);          // ZeRO-2
///
/// Members step together, with the same gradients, such as those of gw_ddp_open; the weights are those of the plain
/// optimizer, bit for bit. A step that fails on one member fails on all, and changes nothing. If a member is lost while
/// values are sent, members that had all of them have stepped, and their next step fails; the others have changed
/// nothing and fail with DISCONNECTED. gw_optimizer_reform continues from there.
///
/// gw_optimizer_state_dict is a collective then, of the whole state, which fits an optimizer that is not sharded, or is
/// sharded otherwise. gw_scaler_unscale and gw_scaler_step are collectives, too.
/// Errors: INVALID if |opt| has parameters of other workers; WRONG_STATE if it has stepped, or is sharded; MISMATCH if
/// the members' parameters or options differ.
/// Source: torch.distributed.optim.ZeroRedundancyOptimizer; ZeRO-1: Rajbhandari et al. 2020.
GW_API void gw_optimizer_shard(gw_scope *s, gw_optimizer *opt,
                               gw_shard_options options GW_DEFAULT({}))
    GW_CALLS(gw_optimizer_shard_with);
#define gw_optimizer_shard(...) GW_FORM_2(gw_optimizer_shard, gw_shard_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_optimizer_shard) gw_optimizer_shard_with;

/// Gathers the whole state of a sharded optimizer on the member of rank |to|.
///
/// Returns: there a map as of gw_optimizer_state_dict; elsewhere an empty map.
/// Errors: INVALID if |to| is no rank of the group, on all members; INVALID if |opt| is NULL or not sharded.
/// Source: torch.distributed.optim.ZeroRedundancyOptimizer.consolidate_state_dict.
GW_API gw_map *gw_optimizer_consolidate(gw_scope *s, gw_optimizer *opt, int to);

/// Options of gw_optimizer_reform.
typedef struct GW_BY_NAME gw_optimizer_reform_options {
    /// A map of gw_optimizer_state_dict or gw_optimizer_consolidate, on one member or several; that of the lowest rank
    /// is used. An empty one, as most members get from gw_optimizer_consolidate, is none.
    gw_map *saved GW_DEFAULT(NULL);
} gw_optimizer_reform_options;

/// What gw_optimizer_reform did: the number of elements of parameters whose state was sent by another member, was read
/// from .saved, or was initialised; the same on all members.
typedef struct gw_optimizer_reformed {
    int64_t moved, restored, lost;
} gw_optimizer_reformed;

/// Continues in |group|, the next generation of the group in which |opt| was sharded, or another one. All members of
/// |group| call it, joining ones with an optimizer that is sharded alike in a group of themselves alone. gw_ddp_reform
/// calls it for its optimizer.
///
///     gw_group *g = gw_group_world(root);
///     gw_ddp *ddp = gw_ddp_open(root, model, .group = g);
///     gw_optimizer_shard(root, opt, .group = g);
///     gw_map *saved = NULL;
///     while (gw_ok(root) && gw_optimizer_steps(opt) < steps) {
///         gw_scope *s = gw_scope_open(root);
///         gw_backward(s, gw_cross_entropy(s, gw_module_call(s, model, images), labels));
///         gw_optimizer_step(s, opt);
///         gw_scope_close_up(s);
///         if (gw_ok(root) && gw_optimizer_steps(opt) % 100 == 0)
///             saved = gw_optimizer_consolidate(root, opt, 0);
///         if (gw_scope_error(root)->status != GW_DISCONNECTED) continue;
///         gw_scope_clear(root);
///         g = gw_group_reform(root, g);
///         gw_optimizer_reform(root, opt, g, .saved = saved);          // the shards and their state
///         gw_ddp_reform(root, ddp, opt, g);                           // the model
///     }
///
/// All members take parameters, rates and counts of the lowest rank of those that have taken most steps; a member that
/// was in the middle of the last of these completes it. gw_optimizer_steps is the same on all members afterwards, which
/// a variable of the loop need not be. Parameters are assigned again by the same rule, and their state is sent to the
/// new owners. State that no member has is read from .saved, else initialised, as before the first step, and a line in
/// the log reports this. A range of a parameter keeps its count of steps. Gradients that were sharded are so again
/// after gw_ddp_reform with |opt|.
///
/// Returns: the counts.
/// Errors: MISMATCH if optimizers differ; INVALID if |opt| is not sharded or .saved does not fit; INVALID if |group| is
/// NULL, and the other members wait. A call that fails has changed nothing but parameters of members that are behind, and is repeated in the next generation.
GW_API gw_optimizer_reformed gw_optimizer_reform(gw_scope *s, gw_optimizer *opt, gw_group *group,
                                                 gw_optimizer_reform_options options GW_DEFAULT({}))
    GW_CALLS(gw_optimizer_reform_with);
#define gw_optimizer_reform(...)                                                                   \
    GW_FORM_3(gw_optimizer_reform, gw_optimizer_reform_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_optimizer_reform) gw_optimizer_reform_with;

/// Returns the bytes of state that this member keeps.
GW_API int64_t gw_optimizer_state_bytes(const gw_optimizer *opt);

// ---- One module over several threads ------------------------------------------------------------

/// Makes a module that splits dimension 0 of its input into |threads| slices (as gw_chunk), computes |module| of them on
/// threads of the worker's pool, and joins the rows in order. A backward pass walks the slices concurrently, too;
/// gradients of a parameter are added in the order of slices. Parameters are those of |module|, under "module.".
/// Buffers, such as the statistics of a batch norm, are those of the first slice; the other slices have copies.
///
///     gw_module *fast = gw_data_parallel(root, model, 4);
///     gw_backward(s, gw_cross_entropy(s, gw_module_call(s, fast, images), labels));
///
/// It pays where a slice computes long, and the CPU has that many cores. The forward of |module| runs on several
/// threads; a module of the program finds parts with buffers by gw_module_child, so that each slice gets its own.
///
/// threads: 1 to 256.
/// Returns: the module.
/// Errors: WRONG_STATE in a scope without an agent; WOULD_BLOCK in inline functions. A call fails with the error of a
/// slice and its number.
/// Source: torch.nn.DataParallel.
GW_API gw_module *gw_data_parallel(gw_scope *s, gw_module *module, int threads);

// ---- Batch norm over all members ----------------------------------------------------------------

/// Changes each batch norm in |model|: in training it takes mean and variance over the batches of all members of
/// |group|, which may be of different sizes, and empty on some. Every member calls such a model, and its backward, as
/// often. Gradients of weight and bias stay this member's, as gw_ddp_open expects. Its sums are in a group of its own.
///
/// group: NULL: all workers of the job.
/// Blocks: until all members have called it.
/// Errors: MISMATCH if the members' models have different numbers of batch norms. Of a forward pass INVALID over one value
/// of a feature on all members together; a forward that fails on one member, or is called in a scope that has failed,
/// fails on all.
/// Source: torch.nn.SyncBatchNorm.convert_sync_batchnorm, in place.
GW_API void gw_sync_batch_norm_convert(gw_scope *s, gw_module *model, gw_group *group);

// ---- Averages -----------------------------------------------------------------------------------

/// Replaces the tensors in |params|, in place, by their mean over all members.
///
/// Errors: INVALID for an empty list, on all members.
/// Source: torch.distributed.algorithms.model_averaging.utils.average_parameters.
GW_API void gw_average_parameters(gw_scope *s, gw_group *group, gw_list *params);

/// The most levels of a gw_averager.
enum { GW_AVERAGER_LEVELS_MAX = 8 };

/// How often weights are averaged in one group.
typedef struct gw_averager_level {
    int64_t period;   ///< steps; 0: no such level
    gw_group *group;  ///< NULL: all workers of the job
} gw_averager_level;

/// When weights are averaged, and in which group: from step |warmup| on, counted from 0, by the level with the largest
/// period that divides the step. One level is PyTorch's PeriodicModelAverager (local SGD, Lin et al. 2018), several are
/// HierarchicalModelAverager.
typedef struct gw_averager {
    gw_averager_level levels[GW_AVERAGER_LEVELS_MAX];
    int64_t warmup;  ///< steps
    int64_t step;    ///< counted by gw_averager_step; to be saved with a checkpoint
} gw_averager;

/// Averages |params| if |averager| is due, after each step of the optimizer. A step in a scope that has failed is counted,
/// and reported to the other members where an average is due.
///
/// Returns: whether it has averaged.
/// Errors: INVALID for an empty list, on all members, where an average is due; INVALID if |averager| is NULL, and the
/// other members wait.
GW_API bool gw_averager_step(gw_scope *s, gw_averager *averager, gw_list *params);

/// Lets gw_optimizer_step call gw_averager_step with the optimizer's parameters. Its state map has |averager|'s count, as
/// "averager.step"; loading a map without one sets it to 0. A step in a scope that has failed is counted, and reported to
/// the other members where an average is due.
///
/// averager: lives as long as |opt|; levels without a group get one, in |s|.
/// Errors: INVALID for parameters of other workers, or an averager without periods; WRONG_STATE if |opt| has one.
/// Source: torch.distributed.optim.PostLocalSGDOptimizer.
GW_API void gw_optimizer_average(gw_scope *s, gw_optimizer *opt, gw_averager *averager);

#ifdef __cplusplus
}
#endif
#include <gradwire/detail/parallel.h>
#endif
