// Additions to data parallelism: sharded optimizers, a module computed by several threads, batch norm over the batches
// of all members, and averages of weights.
//
//     gw_optimizer *opt = gw_adam(root, gw_parameters(root, model), .lr = 1e-3);
//     gw_optimizer_shard(root, opt);                                   // each member keeps a part of the moments
//
//     gw_averager average = { .levels = { { .period = 4 } } };         // local SGD: every fourth step
//     gw_averager_step(s, &average, gw_parameters(s, model));
//
// All members of a group must call these functions in the same order, like collectives. If a call is refused on one
// member, or one member makes the call in a scope that has failed, the call fails on all members. There is one
// exception: a member may pass NULL, or a handle that could not be opened, as the optimizer, averager or group. The
// library then does not know the group of this member, and the other members wait until their deadline.
//
// Errors, of all functions: INVALID for arguments; the errors of collectives (gradwire/collective.h).
// Ownership: a sharded optimizer holds a count on its group.
// Threads: the same as for collectives.
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
    GW_WHOLE,   ///< all gradients
    GW_SHARDED  ///< the gradients of the parameters assigned to this member
} gw_shard_gradients;

/// Options of gw_optimizer_shard.
typedef struct GW_BY_NAME gw_shard_options {
    gw_group *group GW_DEFAULT(NULL);  ///< NULL: all workers of the job
    /// Divides all elements of a dtype into equal ranges, one for each member; a range may begin inside a parameter.
    /// For models with few, large parameters. Gradients that are sparse by rows are then INVALID.
    bool flat GW_DEFAULT(false);
    /// A member computes the new values of its parameters during the backward pass, as soon as a bucket with their
    /// gradients arrives. The step then only sends the new values. If a gradient, a rate or a weight changes between
    /// pass and step, for example by clipping or unscaling, the step computes the new values again. The results are the
    /// same as without .overlap. Only for models that gw_ddp_open has opened. The option must be set before the first
    /// pass of these models. Parameter groups must be added while no pass is under way.
    bool overlap GW_DEFAULT(false);
    /// GW_SHARDED is ZeRO-2: after a backward pass only the member to which a parameter is assigned has the mean of its
    /// gradient. On the other members gw_grad fails with NOT_FOUND for this parameter, even if earlier passes in the
    /// scope left a gradient. Buckets are sent by reduce_scatter; gradients that are sparse by rows are sent to the
    /// assigned member.
    ///
    /// The parameters must be those of models that gw_ddp_open has opened for the same members, without the hooks of
    /// PowerSGD and local SGD; else gw_optimizer_shard fails with INVALID. It fails with WRONG_STATE after the first
    /// pass of these models.
    ///
    /// The gradients of synchronised passes in one scope are added. After a synchronised pass, a pass in the same scope
    /// that is not synchronised fails with WRONG_STATE.
    ///
    /// gw_clip_grad_norm becomes a collective and computes the norm over all members. The last bits of the norm may
    /// differ from those of the norm without sharding.
    ///
    /// With .flat, gw_grad fails with NOT_FOUND also for a parameter of which this member has a range. gw_grads_get
    /// returns the gradient of the range, as the gradient of a view.
    gw_shard_gradients gradients GW_DEFAULT(GW_WHOLE);
} gw_shard_options;

/// Shards the state of |opt|. Each parameter is assigned to one member of the group. This member keeps the state of the
/// parameter and computes its new values, which all members get. In each parameter group the largest parameter is
/// assigned first. Each parameter is assigned to the member that has the fewest elements so far. If a parameter group
/// is added later, the next step assigns its parameters.
///
///     gw_ddp_open(root, model);
///     gw_optimizer *opt = gw_adam(root, gw_parameters(root, model));
///     gw_optimizer_shard(root, opt, .gradients = GW_SHARDED);          // ZeRO-2
///
/// All members must call gw_optimizer_step with the same gradients, such as those of gw_ddp_open. The resulting weights
/// equal, bit for bit, those of |opt| without sharding. A step that fails on one member fails on all members and
/// changes nothing. If a member is lost while new values are sent, the step succeeds on the members that have received
/// all new values, and the next step of these members fails. On the other members the step fails with DISCONNECTED and
/// changes nothing. gw_optimizer_reform continues from this state.
///
/// gw_optimizer_state_dict, gw_scaler_unscale and gw_scaler_step become collectives. gw_optimizer_state_dict returns
/// the whole state. An optimizer that is not sharded, or is sharded in another way, can load this state.
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
/// Returns: on member |to| a map like that of gw_optimizer_state_dict; on the other members an empty map.
/// Errors: INVALID, on all members, if |to| is no rank of the group; INVALID if |opt| is NULL or not sharded.
/// Source: torch.distributed.optim.ZeroRedundancyOptimizer.consolidate_state_dict.
GW_API gw_map *gw_optimizer_consolidate(gw_scope *s, gw_optimizer *opt, int to);

/// Options of gw_optimizer_reform.
typedef struct GW_BY_NAME gw_optimizer_reform_options {
    /// A map of gw_optimizer_state_dict or gw_optimizer_consolidate. One member or several may give a map; the map of
    /// the lowest rank is used. An empty map, which most members get from gw_optimizer_consolidate, is ignored. NULL:
    /// no map.
    gw_map *saved GW_DEFAULT(NULL);
} gw_optimizer_reform_options;

/// The result of gw_optimizer_reform: numbers of parameter elements, the same on all members. The state of an element
/// was sent by another member (|moved|), was read from .saved (|restored|), or was initialised (|lost|).
typedef struct gw_optimizer_reformed {
    int64_t moved, restored, lost;
} gw_optimizer_reformed;

/// Continues a sharded optimizer in |group|: the next generation of the group in which |opt| was sharded, or any other
/// group. All members of |group| must call gw_optimizer_reform. A joining member first shards its optimizer, with the
/// same options, in a group whose only member is itself. gw_ddp_reform calls gw_optimizer_reform for its optimizer.
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
/// One member sends its parameters, rates and counts to all members. The sender is the member with the lowest rank
/// among the members that have made the most steps. If a member has begun the last of these steps and has not completed
/// it, gw_optimizer_reform completes the step on that member. Afterwards gw_optimizer_steps is the same on all members,
/// but a step counter of the program may differ between members.
///
/// The parameters are assigned to members again by the same rule, and their state is sent to the members that now have
/// them. State that no member has is read from .saved. State that .saved does not have is initialised as before the
/// first step, and the log reports the initialisation. A range of a parameter keeps its count of steps. If gradients
/// were sharded, they are sharded again after gw_ddp_reform with |opt|.
///
/// Returns: the counts.
/// Errors: MISMATCH if optimizers differ; INVALID if |opt| is not sharded or .saved does not fit; INVALID if |group| is
/// NULL (the other members then wait). A call that fails may have changed the parameters of members that had made fewer
/// steps, and nothing else. After a failure, call gw_optimizer_reform again in the next generation.
GW_API gw_optimizer_reformed gw_optimizer_reform(gw_scope *s, gw_optimizer *opt, gw_group *group,
                                                 gw_optimizer_reform_options options GW_DEFAULT({}))
    GW_CALLS(gw_optimizer_reform_with);
#define gw_optimizer_reform(...)                                                                   \
    GW_FORM_3(gw_optimizer_reform, gw_optimizer_reform_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_optimizer_reform) gw_optimizer_reform_with;

/// Returns the bytes of state that this member keeps.
GW_API int64_t gw_optimizer_state_bytes(const gw_optimizer *opt);

// ---- One module over several threads ------------------------------------------------------------

/// Makes a module that computes |module| on several threads. The module splits dimension 0 of its input into |threads|
/// slices (as gw_chunk), computes |module| of each slice on a thread of the worker's pool, and joins the results in
/// order. A backward pass also computes the slices concurrently, and adds the gradients of a parameter in the order of
/// the slices. The parameters of the new module are those of |module|, with "module." before their names. The first
/// slice uses the buffers of |module|, such as the statistics of a batch norm; the other slices use copies of the
/// buffers.
///
///     gw_module *fast = gw_data_parallel(root, model, 4);
///     gw_backward(s, gw_cross_entropy(s, gw_module_call(s, fast, images), labels));
///
/// The new module is faster than |module| if the CPU has |threads| cores, and the computation of a slice takes long.
/// The forward of |module| runs on several threads at once. A forward of the program must use gw_module_child to get a
/// part that has buffers: gw_module_child gives each slice its own buffers.
///
/// threads: 1 to 256.
/// Returns: the module.
/// Errors: WRONG_STATE in a scope without an agent; WOULD_BLOCK in inline functions. If a slice fails, the call of the
/// module fails with the error of the slice and its number.
/// Source: torch.nn.DataParallel.
GW_API gw_module *gw_data_parallel(gw_scope *s, gw_module *module, int threads);

// ---- Batch norm over all members ----------------------------------------------------------------

/// Changes each batch norm in |model|. In training, the batch norm then uses mean and variance over the batches of all
/// members of |group|. The batches of the members may have different sizes, and some may be empty. All members must run
/// the model, and its backward pass, the same number of times. The gradients of weight and bias are not summed over the
/// members; gw_ddp_open does so. The collectives of these batch norms run in a separate group.
///
/// group: NULL: all workers of the job.
/// Blocks: until all members have called gw_sync_batch_norm_convert.
/// Errors: MISMATCH if the members' models have different numbers of batch norms. A forward pass fails with INVALID if
/// all members together have only one value of a feature. If a forward pass fails on one member, or one member runs it
/// in a scope that has failed, it fails on all members.
/// Source: torch.nn.SyncBatchNorm.convert_sync_batchnorm, in place.
GW_API void gw_sync_batch_norm_convert(gw_scope *s, gw_module *model, gw_group *group);

// ---- Averages -----------------------------------------------------------------------------------

/// Replaces the tensors in |params|, in place, by their mean over all members.
///
/// Errors: INVALID on all members if one member has an empty list.
/// Source: torch.distributed.algorithms.model_averaging.utils.average_parameters.
GW_API void gw_average_parameters(gw_scope *s, gw_group *group, gw_list *params);

/// The most levels of a gw_averager.
enum { GW_AVERAGER_LEVELS_MAX = 8 };

/// One level of a gw_averager: how often weights are averaged in which group.
typedef struct gw_averager_level {
    int64_t period;   ///< steps; 0: no such level
    gw_group *group;  ///< NULL: all workers of the job
} gw_averager_level;

/// States when weights are averaged, and in which group. Steps are counted from 0. From step |warmup| on, an average is
/// due at each step whose number is a multiple of a level's period. If the number is a multiple of several periods, the
/// level with the largest period determines the group. An averager with one level is PyTorch's PeriodicModelAverager
/// (local SGD, Lin et al. 2018). An averager with several levels is HierarchicalModelAverager.
typedef struct gw_averager {
    gw_averager_level levels[GW_AVERAGER_LEVELS_MAX];
    int64_t warmup;  ///< the first step at which weights may be averaged
    int64_t step;    ///< counted by gw_averager_step; save it with a checkpoint
} gw_averager;

/// Averages |params| if an average is due. The program calls gw_averager_step after each step of the optimizer. A call
/// in a scope that has failed also counts the step. If an average is due in this step, the other members get the error
/// of the scope.
///
/// Returns: whether |params| were averaged.
/// Errors: INVALID on all members if an average is due and one member has an empty list; INVALID if |averager| is NULL
/// (the other members then wait).
GW_API bool gw_averager_step(gw_scope *s, gw_averager *averager, gw_list *params);

/// Makes gw_optimizer_step call gw_averager_step with the parameters of |opt|. The state map of |opt| then has the
/// count of |averager| as "averager.step". If a loaded map does not have "averager.step", the count becomes 0. A step
/// in a scope that has failed is also counted. If an average is due in this step, the other members get the error of
/// the scope.
///
/// averager: the caller keeps |averager| valid as long as |opt| lives. For each level without a group, the function
/// opens a group in |s|.
/// Errors: INVALID for parameters of other workers, or an averager without periods; WRONG_STATE if |opt| has an
/// averager already.
/// Source: torch.distributed.optim.PostLocalSGDOptimizer.
GW_API void gw_optimizer_average(gw_scope *s, gw_optimizer *opt, gw_averager *averager);

#ifdef __cplusplus
}
#endif
#include <gradwire/detail/parallel.h>
#endif
