// Additions to data parallelism: sharded optimizers, a module computed by several threads, batch norm over the batches
// of all members, and averages of weights.
//
//     gw_optimizer *opt = gw_adam(root, gw_parameters(root, model), .lr = 1e-3);
//     gw_optimizer_shard(root, opt);                                   // each member keeps a part of the moments
//
//     gw_averager average = { .levels = { { .period = 4 } } };         // local SGD: every fourth step
//     gw_averager_step(s, &average, gw_parameters(s, model));
//
// All members of a group call these functions in the same order, like collectives. A call that is refused on one
// member, or is made there in a scope that has failed, fails on all members. But if the optimizer, averager or group
// that a member gives is NULL or could not be opened, its group is unknown, and the other members wait until their
// deadline.
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

/// Which gradients each member has after a backward pass with a sharded optimizer.
typedef enum gw_shard_gradients {
    GW_WHOLE,   ///< all of them
    GW_SHARDED  ///< those of the parameters assigned to it
} gw_shard_gradients;

/// Options of gw_optimizer_shard.
typedef struct GW_BY_NAME gw_shard_options {
    gw_group *group GW_DEFAULT(NULL);  ///< NULL: all workers of the job
    /// Assigns to each member an equal range of all elements of a dtype, which may begin inside a parameter: for models
    /// with few, large parameters. Gradients that are sparse by rows are then INVALID.
    bool flat GW_DEFAULT(false);
    /// While the backward pass continues, a member computes the new values of its parameters as soon as a bucket with
    /// their gradients arrives; the step sends them. If a gradient, a rate or a weight changes in between (by clipping
    /// or unscaling, for example), the step computes those values again: results are equal. For models that gw_ddp_open
    /// has opened; set before their first pass; parameter groups are added while no pass is under way.
    bool overlap GW_DEFAULT(false);
    /// GW_SHARDED is ZeRO-2: after a backward pass only the member that a parameter is assigned to has the mean of its
    /// gradient; on all others it is NOT_FOUND, also that of earlier passes in the scope. Buckets are sent by
    /// reduce_scatter, and gradients that are sparse by rows to the assigned member. gw_clip_grad_norm then is a
    /// collective, with the norm over all members. The parameters must be those of models that gw_ddp_open has opened
    /// for the same members: else INVALID, as with the hooks of PowerSGD and local SGD; WRONG_STATE after their first
    /// pass. Synchronised passes in one scope add up; after one of them, passes there that are not synchronised are
    /// WRONG_STATE. With .flat gw_grad is NOT_FOUND for a parameter of which this member has a range, too: gw_grads_get
    /// has the gradient of the range, as that of a view, and the last bits of the norm may differ from those without
    /// sharding.
    gw_shard_gradients gradients GW_DEFAULT(GW_WHOLE);
} gw_shard_options;

/// Shards the state of |opt|: each parameter is assigned to one member of the group, which keeps its state and computes
/// its steps; all members get the new values. In each parameter group the largest parameter is assigned first, always
/// to the member with the fewest elements so far; parameters of a group that is added later are assigned by the next
/// step.
///
///     gw_ddp_open(root, model);
///     gw_optimizer *opt = gw_adam(root, gw_parameters(root, model));
///     gw_optimizer_shard(root, opt, .gradients = GW_SHARDED);          // ZeRO-2
///
/// All members call gw_optimizer_step together, with the same gradients, such as those of gw_ddp_open; the weights are
/// those that |opt| computes unsharded, bit for bit. A step that fails on one member fails on all, and changes nothing.
/// If a member is lost while new values are sent, the step has succeeded on members that have received all of them, and
/// their next step fails; on the others it fails with DISCONNECTED and has changed nothing. gw_optimizer_reform
/// continues from there. gw_optimizer_state_dict, gw_scaler_unscale and gw_scaler_step become collectives; the first
/// returns the whole state, which can be loaded into an optimizer that is not sharded, or is sharded in another way.
/// Errors: INVALID if |opt| has parameters of other workers; WRONG_STATE if |opt| has made a step, or is sharded
/// already; MISMATCH if the members' parameters or options differ.
/// Source: torch.distributed.optim.ZeroRedundancyOptimizer; ZeRO-1: Rajbhandari et al. 2020.
GW_API void gw_optimizer_shard(gw_scope *s, gw_optimizer *opt,
                               gw_shard_options options GW_DEFAULT({}))
    GW_CALLS(gw_optimizer_shard_with);
#define gw_optimizer_shard(...) GW_FORM_2(gw_optimizer_shard, gw_shard_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_optimizer_shard) gw_optimizer_shard_with;

/// Gathers the whole state of a sharded optimizer on the member of rank |to|.
///
/// Returns: on that member a map as of gw_optimizer_state_dict; on the others an empty map.
/// Errors: INVALID if |to| is no rank of the group, on all members; INVALID if |opt| is NULL or not sharded.
/// Source: torch.distributed.optim.ZeroRedundancyOptimizer.consolidate_state_dict.
GW_API gw_map *gw_optimizer_consolidate(gw_scope *s, gw_optimizer *opt, int to);

/// Options of gw_optimizer_reform.
typedef struct GW_BY_NAME gw_optimizer_reform_options {
    /// A map of gw_optimizer_state_dict or gw_optimizer_consolidate, given by one member or several; that of the lowest
    /// rank is used. An empty map, which most members get from gw_optimizer_consolidate, is ignored.
    gw_map *saved GW_DEFAULT(NULL);
} gw_optimizer_reform_options;

/// What gw_optimizer_reform did: the numbers of parameter elements whose state was sent by another member, was read
/// from .saved, or was initialised; the same on all members.
typedef struct gw_optimizer_reformed {
    int64_t moved, restored, lost;
} gw_optimizer_reformed;

/// Continues in |group|, the next generation of the group in which |opt| was sharded, or another one. All members of
/// |group| call it; a joining member gives an optimizer that it has sharded with the same options in a group of itself
/// alone. gw_ddp_reform calls it for its optimizer.
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
/// Among the members that have made most steps, the one of lowest rank sends its parameters, rates and counts to all; a
/// member that was in the middle of that last step completes it. Afterwards gw_optimizer_steps is the same on all
/// members; a counter of the program may not be. Parameters are assigned to members again by the same rule, and their
/// state is sent to the members that now have them. State that no member has is read from .saved, or else initialised
/// as before the first step, which the log reports. A range of a parameter keeps its count of steps. If gradients were
/// sharded, they are sharded again after gw_ddp_reform with |opt|.
///
/// Returns: the counts.
/// Errors: MISMATCH if optimizers differ; INVALID if |opt| is not sharded or .saved does not fit; INVALID if |group| is
/// NULL, and the other members wait. A call that fails has changed only the parameters of members that were behind;
/// call it again in the next generation.
GW_API gw_optimizer_reformed gw_optimizer_reform(gw_scope *s, gw_optimizer *opt, gw_group *group,
                                                 gw_optimizer_reform_options options GW_DEFAULT({}))
    GW_CALLS(gw_optimizer_reform_with);
#define gw_optimizer_reform(...)                                                                   \
    GW_FORM_3(gw_optimizer_reform, gw_optimizer_reform_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_optimizer_reform) gw_optimizer_reform_with;

/// Returns the bytes of state that this member keeps.
GW_API int64_t gw_optimizer_state_bytes(const gw_optimizer *opt);

// ---- One module over several threads ------------------------------------------------------------

/// Makes a module that splits dimension 0 of its input into |threads| slices (as gw_chunk), computes |module| of them
/// on threads of the worker's pool, and joins the rows in order. A backward pass walks the slices concurrently, too;
/// gradients of a parameter are added in the order of slices. Its parameters are those of |module|, with "module."
/// before their names. The first slice uses the buffers of |module|, such as the statistics of a batch norm; the other
/// slices use copies.
///
///     gw_module *fast = gw_data_parallel(root, model, 4);
///     gw_backward(s, gw_cross_entropy(s, gw_module_call(s, fast, images), labels));
///
/// This is faster if a slice takes long to compute and the CPU has that many cores. The forward of |module| runs on
/// several threads at once; if it is of the program, it gets parts that have buffers by gw_module_child, which gives
/// each slice its own.
///
/// threads: 1 to 256.
/// Returns: the module.
/// Errors: WRONG_STATE in a scope without an agent; WOULD_BLOCK in inline functions. A call fails with the error of the
/// slice that failed, and its number.
/// Source: torch.nn.DataParallel.
GW_API gw_module *gw_data_parallel(gw_scope *s, gw_module *module, int threads);

// ---- Batch norm over all members ----------------------------------------------------------------

/// Changes each batch norm in |model|: in training it uses mean and variance over the batches of all members of
/// |group|; batches may differ in size, and may be empty on some members. All members call the model, and its backward,
/// equally often. Each member keeps its own gradients of weight and bias, as gw_ddp_open expects. The collectives of
/// these batch norms run in a group of their own.
///
/// group: NULL: all workers of the job.
/// Blocks: until all members have called it.
/// Errors: MISMATCH if the members' models have different numbers of batch norms. A forward pass is INVALID if all
/// members together have only one value of a feature; if it fails on one member, or is called there in a scope that has
/// failed, it fails on all.
/// Source: torch.nn.SyncBatchNorm.convert_sync_batchnorm, in place.
GW_API void gw_sync_batch_norm_convert(gw_scope *s, gw_module *model, gw_group *group);

// ---- Averages -----------------------------------------------------------------------------------

/// Replaces the tensors in |params|, in place, by their mean over all members.
///
/// Errors: INVALID on all members if one has an empty list.
/// Source: torch.distributed.algorithms.model_averaging.utils.average_parameters.
GW_API void gw_average_parameters(gw_scope *s, gw_group *group, gw_list *params);

/// The most levels of a gw_averager.
enum { GW_AVERAGER_LEVELS_MAX = 8 };

/// One level of a gw_averager: how often weights are averaged in which group.
typedef struct gw_averager_level {
    int64_t period;   ///< steps; 0: no such level
    gw_group *group;  ///< NULL: all workers of the job
} gw_averager_level;

/// When weights are averaged, and in which group: at each step from |warmup| on (steps count from 0), in the group of
/// the level with the largest period that divides the step. One level is PyTorch's PeriodicModelAverager (local SGD,
/// Lin et al. 2018), several are HierarchicalModelAverager.
typedef struct gw_averager {
    gw_averager_level levels[GW_AVERAGER_LEVELS_MAX];
    int64_t warmup;  ///< steps
    int64_t step;    ///< counted by gw_averager_step; to be saved with a checkpoint
} gw_averager;

/// Averages |params| if |averager| is due, after each step of the optimizer. A step in a scope that has failed is
/// counted; if an average is due, the other members get the error.
///
/// Returns: whether it has averaged.
/// Errors: INVALID on all members if an average is due and one has an empty list; INVALID if |averager| is NULL, and
/// the other members wait.
GW_API bool gw_averager_step(gw_scope *s, gw_averager *averager, gw_list *params);

/// Makes gw_optimizer_step call gw_averager_step with the parameters of |opt|. The state map of |opt| then has the
/// count of |averager| as "averager.step"; loading a map without it sets the count to 0. A step in a scope that has
/// failed is counted; if an average is due, the other members get the error.
///
/// averager: lives as long as |opt|; for levels without a group one is opened in |s|.
/// Errors: INVALID for parameters of other workers, or an averager without periods; WRONG_STATE if |opt| has an
/// averager already.
/// Source: torch.distributed.optim.PostLocalSGDOptimizer.
GW_API void gw_optimizer_average(gw_scope *s, gw_optimizer *opt, gw_averager *averager);

#ifdef __cplusplus
}
#endif
#include <gradwire/detail/parallel.h>
#endif
