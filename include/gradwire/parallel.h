// Around data parallelism: optimizers whose state is shared out, and averages of weights.
//
//     gw_optimizer *opt = gw_adam(root, gw_parameters(root, model), .lr = 1e-3);
//     gw_optimizer_shard(root, opt);                                   // each member keeps a part of the moments
//
//     gw_averager average = { .levels = { { .period = 4 } } };         // local SGD: every fourth step
//     gw_averager_step(s, &average, gw_parameters(s, model));
//
// All members of a group call these alike, as collectives.
//
// Ownership: a sharded optimizer keeps its group. Threads: as collectives.
#ifndef GRADWIRE_PARALLEL_H
#define GRADWIRE_PARALLEL_H

#include <gradwire/collective.h>
#include <gradwire/nn.h>
#include <gradwire/optim.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- Sharded optimizers -------------------------------------------------------------------------
// gw_optimizer_shard(s, opt, .group = g): from here on each member of the group keeps the state of its
// part of the parameters, and computes their steps; new values go to all, and are put in place when
// they have all come: ZeRO-1 (Rajbhandari et al. 2020), torch.distributed.optim.
// ZeroRedundancyOptimizer. Parameters are shared out whole, group by group of |opt|, the largest first
// to the member with the fewest numbers so far; those of a group that is added later by the next step.
//
//     gw_ddp_open(root, model);
//     gw_optimizer *opt = gw_adam(root, gw_parameters(root, model));
//     gw_optimizer_shard(root, opt, .gradients = GW_SHARDED);          // ZeRO-2
//
// Members step together, with the same gradients, such as gw_ddp_open gives; the weights are those of
// the plain optimizer, bit for bit. A step that fails on one fails on all, and changes nothing.
//
// If a member is lost while values come, those that had all of them have stepped, and hear of the loss
// from their next step; the others have changed nothing and fail with DISCONNECTED. gw_optimizer_reform
// goes on from there.
//
// gw_optimizer_state_dict is a collective then, of the whole state, which fits an optimizer that is not
// sharded, or sharded otherwise. gw_scaler_unscale and gw_scaler_step are collectives, too: all members
// skip a step, or none.
//
// INVALID if it has parameters of other workers; WRONG_STATE if it has stepped, or is sharded already;
// MISMATCH if the members' parameters or options differ.
typedef enum gw_shard_gradients {
    GW_WHOLE,   // each member has all of them
    GW_SHARDED  // each has those of its part
} gw_shard_gradients;

typedef struct GW_BY_NAME gw_shard_options {
    gw_group *group GW_DEFAULT(NULL);  // NULL: all workers that are there
    // Of all numbers of a dtype, behind each other, each member has an equal range instead, which may
    // begin inside a parameter: for few large ones. Gradients that are sparse by rows are INVALID then.
    bool flat GW_DEFAULT(false);
    // A member computes the new values of its parameters as the buckets with their gradients come,
    // while the rest of the backward pass goes on, and the step sends them. What has changed by then (a
    // gradient that is clipped or unscaled, a rate, a weight) is computed in the step, so that
    // nothing else is different. For models that gw_ddp_open has opened, before their first pass, as
    // below; groups are added while no pass is under way.
    bool overlap GW_DEFAULT(false);
    // With GW_SHARDED, which is ZeRO-2, a backward pass leaves the mean of a gradient with the member
    // that has the state alone, and NOT_FOUND on all others, of earlier passes in that scope too; its
    // buckets travel as reduce_scatter, and rows of tables to their owner. gw_clip_grad_norm is a
    // collective then, of the norm over all members. The parameters are those of models that gw_ddp_open
    // has opened among the same members: else INVALID, as with the hooks of PowerSGD, which remembers all
    // gradients everywhere, and local SGD; WRONG_STATE behind their first pass. Synchronised passes of one
    // scope add up; behind one of them, others are WRONG_STATE there. With |flat|, a parameter of which
    // this member has a range is NOT_FOUND, too: gw_grads_get has the range's gradient, as that of a view,
    // and the norm that clips may differ from the plain one's in its last bits.
    gw_shard_gradients gradients GW_DEFAULT(GW_WHOLE);
} gw_shard_options;

GW_API void gw_optimizer_shard(gw_scope *s, gw_optimizer *opt,
                               gw_shard_options options GW_DEFAULT({}))
    GW_CALLS(gw_optimizer_shard_with);
#define gw_optimizer_shard(...) GW_FORM_2(gw_optimizer_shard, gw_shard_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_optimizer_shard) gw_optimizer_shard_with;

// As gw_optimizer_state_dict of a sharded optimizer, on the member of rank |to| alone; elsewhere an
// empty map. ZeroRedundancyOptimizer.consolidate_state_dict. INVALID if it is not sharded.
GW_API gw_map *gw_optimizer_consolidate(gw_scope *s, gw_optimizer *opt, int to);

// gw_optimizer_reform(s, opt, g, .saved = ...): goes on in |g|, the next generation of the group in which
// |opt| was sharded, or any other; all members of |g| call it, and newcomers with an optimizer of
// their own, sharded alike in a group of themselves alone. gw_ddp_reform does so with the optimizer that
// it is given.
//
//     gw_group *g = gw_group_world(root);
//     gw_ddp *ddp = gw_ddp_open(root, model, .group = g);
//     gw_optimizer_shard(root, opt, .group = g);
//     gw_map *saved = NULL;
//     while (gw_ok(root) && gw_optimizer_steps(opt) < steps) {
//         gw_scope *s = gw_scope_open(root);
//         gw_backward(s, gw_cross_entropy(s, gw_module_call(s, model, images), labels));
//         gw_optimizer_step(s, opt);
//         gw_scope_close_up(s);
//         if (gw_ok(root) && gw_optimizer_steps(opt) % 100 == 0)
//             saved = gw_optimizer_consolidate(root, opt, 0);
//         if (gw_scope_error(root)->status != GW_DISCONNECTED) continue;
//         gw_scope_clear(root);
//         g = gw_group_reform(root, g);
//         gw_optimizer_reform(root, opt, g, .saved = saved);          // who steps what, and the state
//         gw_ddp_reform(root, ddp, opt, g);                           // the model
//     }
//
// gw_optimizer_steps is the same on all members behind that, which a variable of the loop need not be.
// All take parameters, rates and counts of the lowest of those that have taken most steps; a member that
// was in the middle of the last of these completes it. Parameters are shared out anew by the same rule,
// and state goes to its new owners. What nobody is left to tell is taken from |saved|, else it begins anew,
// as before the first step, and a line says so. A range of a parameter keeps its count of steps; only its
// numbers begin anew. If none of those that are gone had state that the others lack, all goes on as if
// nothing had happened.
//
// A call that fails has changed nothing but parameters of members that are behind, and is repeated in
// the next generation. MISMATCH if optimizers differ, INVALID if it is not sharded or |saved| does not
// fit. Gradients that were shared out are so again behind gw_ddp_reform with |opt|.
typedef struct GW_BY_NAME gw_optimizer_reform_options {
    // A map of gw_optimizer_state_dict or gw_optimizer_consolidate, which one member or several have; that
    // of the lowest rank counts. An empty one, as most members get from gw_optimizer_consolidate, is none.
    gw_map *saved GW_DEFAULT(NULL);
} gw_optimizer_reform_options;

// How many numbers of parameters have state that has come from another member, from |saved|, or begins
// anew: the same on all.
typedef struct gw_optimizer_reformed {
    int64_t moved, restored, lost;
} gw_optimizer_reformed;

GW_API gw_optimizer_reformed gw_optimizer_reform(gw_scope *s, gw_optimizer *opt, gw_group *g,
                                                 gw_optimizer_reform_options options GW_DEFAULT({}))
    GW_CALLS(gw_optimizer_reform_with);
#define gw_optimizer_reform(...)                                                                   \
    GW_FORM_3(gw_optimizer_reform, gw_optimizer_reform_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_optimizer_reform) gw_optimizer_reform_with;

// The bytes of state that this member keeps.
GW_API int64_t gw_optimizer_state_bytes(const gw_optimizer *opt);

// ---- One module over several threads ------------------------------------------------------------
// A module that cuts dimension 0 of its input into |threads| slices (as torch.chunk), has |module|
// compute them at once on threads of the worker's pool, and gives their rows in order; a backward pass
// goes through the slices at once, too, and gradients of a parameter are added in the order of slices:
// torch.nn.DataParallel. Parameters are those of |module|, under "module.". Buffers, such as the
// statistics of a batch norm, become those that the first slice leaves; the other slices have copies.
//
//     gw_module *fast = gw_data_parallel(root, model, 4);
//     gw_backward(s, gw_cross_entropy(s, gw_module_call(s, fast, images), labels));
//
// It pays where a slice computes long, and the CPU has that many cores for it. What |module| does must
// be fit for several threads; a module of the program's own with buffers in its parts finds these by
// gw_module_child, so that each slice gets its own. What fails in a slice fails the call, with the
// number of the slice. INVALID unless 1 to 256 threads; WRONG_STATE in a scope without an agent;
// WOULD_BLOCK where nothing may wait.
GW_API gw_module *gw_data_parallel(gw_scope *s, gw_module *module, int threads);

// ---- Batch norm over all members ----------------------------------------------------------------
// From here on each batch norm in |model| takes mean and variance, while it trains, over the batches
// of all members of |g| (NULL: all workers that are there), which may be of different sizes, and
// empty on some: torch.nn.SyncBatchNorm.convert_sync_batchnorm, but of the modules as they are. Every
// member calls such a model as often, and so its backward. Gradients of weight and bias stay this
// member's, as gw_ddp_open wants them. INVALID in a forward pass over one value of a feature in all.
GW_API void gw_sync_batch_norm_convert(gw_scope *s, gw_module *model, gw_group *g);

// ---- Averages -----------------------------------------------------------------------------------
// Gives the tensors in |params|, in place, the mean of what they are on all members:
// torch.distributed.algorithms.model_averaging.utils.average_parameters.
GW_API void gw_average_parameters(gw_scope *s, gw_group *g, gw_list *params);

// When weights are averaged, and among whom. One level is PyTorch's PeriodicModelAverager (local SGD,
// Lin et al. 2018): from step |warmup| on, counted from 0, every |period| steps. Several are
// HierarchicalModelAverager, near members often, all of them seldom: from step |warmup| on, by the level
// with the largest period that divides the step.
enum { GW_AVERAGER_LEVELS_MAX = 8 };

typedef struct gw_averager_level {
    int64_t period;   // 0: there is no such level
    gw_group *group;  // NULL: all workers that are there
} gw_averager_level;

typedef struct gw_averager {
    gw_averager_level levels[GW_AVERAGER_LEVELS_MAX];
    int64_t warmup;
    int64_t step;  // counted by gw_averager_step; to be saved with a checkpoint
} gw_averager;

// Behind each step of the optimizer. Whether it has averaged.
GW_API bool gw_averager_step(gw_scope *s, gw_averager *averager, gw_list *params);

// From here on gw_optimizer_step does that with the optimizer's parameters, and its state map has
// |averager|'s count, as "averager.step"; loading a map without one sets it to 0:
// PostLocalSGDOptimizer. |averager| lives as long as |opt|; levels without a group get one, in |s|. A step
// in a scope that has failed counts, and is told to the others where an average is due. INVALID for
// parameters of other workers, or an averager without periods; WRONG_STATE if it has one.
GW_API void gw_optimizer_average(gw_scope *s, gw_optimizer *opt, gw_averager *averager);

#ifdef __cplusplus
}
#endif
#include <gradwire/detail/parallel.h>
#endif
