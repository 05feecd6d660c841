// DistributedDataParallel: training of one model that has a replica on each member of a group.
//
//     gw_module *model = gw_nn_linear(root, 64, 10);
//     gw_ddp_open(root, model);                                   // one line; the rest does not change
//     gw_optimizer *opt = gw_sgd(root, gw_parameters(root, model), .lr = 0.1);
//     for (int step = 0; step < steps && gw_ok(root); step++) {
//         gw_scope *s = gw_scope_open(root);
//         gw_backward(s, gw_cross_entropy(s, gw_module_call(s, model, images), labels));  // a batch of this member
//         gw_optimizer_step(s, opt);                              // the same bits on every member
//         gw_scope_close_up(s);
//     }
//
// Each member makes backward passes over its own batch. After a pass, the gradient of a parameter is the mean of the
// gradients of all members. Gradients are reduced in buckets while the pass continues; the buckets of the last layers
// are reduced first. This also holds for passes across workers. If another worker began the pass, the part of the pass
// on this member ends when the means have arrived; until then it occupies no thread.
//
// If a member's pass does not use a parameter, the member contributes zeros for this parameter. If no member uses a
// parameter, it has no gradient on any member (NOT_FOUND).
//
// The n-th passes of all members are reduced together. So all members must make the same number of passes, in the same
// order. A pass with .inputs, or a pass that uses no parameter of the model, is not counted. A member without a batch
// calls gw_ddp_skip instead of making a pass.
//
// A program uses the means in a scope by gw_optimizer_step, gw_clip_grad_norm, gw_grad or similar functions. If a scope
// closes without a use of its means, the log warns once. The usual cause is a step that was made in another scope.
//
// If a pass fails on one member, it fails on all members with the error of that member. A failed pass is counted. A
// pass also fails on all members if the scope of one member has failed before the pass. For example, a member cannot
// read a batch, and its scope fails before it calls the model. This member must nevertheless call the model (or
// gw_ddp_skip) and gw_backward in the failed scope, as in any other step. It must call the model, or a module that
// contains the model, in training mode and with gradients on. Then the other members get the error when this member
// calls gw_backward, or when its scope closes. With .shards the failed scope ends the whole step; the other members get
// the error once. If the member does not call the model, it is one pass behind the other members afterwards;
// gw_ddp_reform repairs this.
//
// Errors, of all functions: INVALID for invalid arguments; the errors of collectives (gradwire/collective.h).
// Ownership: a gw_ddp belongs to the scope that it was opened in, and holds a count on the model. Closing a gw_ddp does
// not affect the other members.
// Threads: as for the model (gradwire/nn.h). Passes of several scopes are reduced one after the other.
#ifndef GRADWIRE_DDP_H
#define GRADWIRE_DDP_H

#include <gradwire/collective.h>
#include <gradwire/nn.h>
#include <gradwire/optim.h>

#ifdef __cplusplus
extern "C" {
#endif

/// A model that is replicated on the members of a group, opened by gw_ddp_open.
typedef struct gw_ddp gw_ddp;
/// Some of the gradients of a pass, which one collective reduces together; passed to a gw_comm_hook.
typedef struct gw_bucket gw_bucket;

/// How the buffers of the model, such as the statistics of a batch norm, are kept equal on all members.
typedef enum gw_buffers {
    GW_BUFFERS_BROADCAST,       ///< rank 0 sends its buffers before each forward in training mode
    GW_BUFFERS_LEFT,            ///< each member keeps its own buffers; no buffers are sent
    GW_BUFFERS_WITH_GRADIENTS,  ///< rank 0 sends its buffers in a bucket of each backward pass
    /// As GW_BUFFERS_WITH_GRADIENTS, but each buffer of a floating dtype becomes the mean over all members.
    GW_BUFFERS_AVERAGE
} gw_buffers;

/// Options of gw_ddp_open.
typedef struct GW_BY_NAME gw_ddp_options {
    gw_group *group GW_DEFAULT(NULL);           ///< NULL: all workers of the job
    int64_t bucket_bytes GW_DEFAULT(25 << 20);  ///< the size of a bucket in bytes
    /// The size of the first bucket of each dtype in bytes. A small bucket starts early.
    int64_t first_bucket_bytes GW_DEFAULT(1 << 20);
    /// GW_BUFFERS_WITH_GRADIENTS and GW_BUFFERS_AVERAGE need a parameter of f32 or f64, and allow no hook: otherwise
    /// gw_ddp_open or gw_ddp_set_hook fails with INVALID.
    gw_buffers buffers GW_DEFAULT(GW_BUFFERS_BROADCAST);
    /// Set by a program that uses the same parameters in each pass of this member. Then members do not exchange which
    /// parameters are used. A pass that uses other parameters than the first pass fails on all members, and the error
    /// names such a parameter. If tensors have hooks (gw_register_hook), buckets normally start after all hooks of the
    /// pass have run. With .static_graph buckets start earlier, unless a hook made a backward pass during the first
    /// pass.
    bool static_graph GW_DEFAULT(false);
    bool copy_gradients
        GW_DEFAULT(false);  ///< each gradient has its own memory; false: it is a view of its bucket
    /// If a gradient of a member has an element that is NaN or infinite, the pass fails on all members. The error names
    /// the member, the parameter and the element.
    bool check_finite GW_DEFAULT(false);
    /// The number of parts (shards) into which the program divides each batch: a power of two, and a multiple of the
    /// number of members. In each step, each member makes |shards| / members passes, one for each of its shards, in
    /// order. The last of these passes gives the mean over all shards. The mean includes the gradients of
    /// unsynchronised passes in the same scope. The weights are bitwise equal for 1, 2, 4, ... members. If a program
    /// makes two steps in one scope, the mean of the second step is added to the mean of the first step. After a scope
    /// has a mean, an unsynchronised pass in this scope fails with WRONG_STATE. 0: no shards.
    int shards GW_DEFAULT(0);
    /// The replicas are compared after every |check_every| passes, as by gw_ddp_check. 0: they are never compared.
    int64_t check_every GW_DEFAULT(0);
    /// The names of parameters and buffers of the model that are neither copied nor averaged.
    const char *const *ignore GW_DEFAULT(NULL);
    int ignore_count GW_DEFAULT(0);
    /// Set by a member that has joined |group| by gw_group_join. Then gw_ddp_open does not copy the parameters and
    /// buffers of rank 0. The member calls gw_ddp_reform next, which copies the values of the other members.
    bool joining GW_DEFAULT(false);
    const char *origin
        GW_DEFAULT(NULL);  ///< "train.c:12", for errors of passes; set by the short form of C
} gw_ddp_options;

/// Replicates |model|: copies the parameters and buffers of rank 0 to all members, and makes later passes average
/// gradients. All members must call gw_ddp_open.
///
/// model: the gradients of its parameters are averaged, except of parameters that need no gradient.
/// Blocks: until all members have called gw_ddp_open.
/// Returns: the handle for the other functions of this header; a program may ignore the handle.
/// Errors: MISMATCH, naming both sides, if the models of members differ in names, shapes or dtypes, or if options of
/// members differ (except .check_finite, .copy_gradients and .ignore); TIMEOUT, naming the members that did not arrive;
/// INVALID for a model in which no parameter needs a gradient, for an option out of range, for an unknown name in
/// .ignore, and for .joining in a group that was not re-formed; DUPLICATE if a parameter belongs to another gw_ddp. If
/// the call fails on one member, it fails on all members. Then all members may call gw_ddp_open again.
/// Source: torch.nn.parallel.DistributedDataParallel; Li et al. 2020.
GW_API gw_ddp *gw_ddp_open(gw_scope *s, gw_module *model, gw_ddp_options options GW_DEFAULT({}))
    GW_CALLS(gw_ddp_open_with);
#define gw_ddp_open(...) GW_FORM_AT_2(gw_ddp_open, gw_ddp_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_ddp_open) gw_ddp_open_with;

// ---- Accumulating -------------------------------------------------------------------------------

/// Turns synchronisation off in |s|, and in scopes that are opened inside |s| later. Passes in these scopes do not
/// exchange gradients: each member keeps its own. The scope that is given to gw_backward decides this for all workers
/// that the pass visits. The next synchronised pass in the same scope averages the sum of the accumulated gradients and
/// its own gradients. So gradient accumulation needs only one exchange.
/// Errors: none.
/// Source: torch.nn.parallel.DistributedDataParallel.no_sync.
GW_API void gw_ddp_no_sync(gw_scope *s);

/// Turns synchronisation on in |s|, and in scopes that are opened inside |s| later, after gw_ddp_no_sync.
/// Errors: none.
GW_API void gw_ddp_sync(gw_scope *s);

/// Replaces a pass of this member, for a member without a batch. This member contributes the gradients in |s|, or zeros
/// if |s| has no gradients, and gets the means. If the program has not called the model in |s|, gw_ddp_skip also
/// replaces one call of the model. gw_ddp_skip also runs in a scope that has failed; then the pass fails on all
/// members.
/// Errors: as gw_backward of a replicated model; INVALID if |ddp| is NULL (then the other members wait for this
/// member).
GW_API void gw_ddp_skip(gw_scope *s, gw_ddp *ddp);

// ---- Comparing ----------------------------------------------------------------------------------

/// Compares the parameters and buffers of all members, bit by bit. All members must call gw_ddp_check.
/// Errors: MISMATCH if replicas differ, naming the first parameter or buffer that differs, and the member; INVALID if
/// |ddp| is NULL (then the other members wait for this member).
GW_API void gw_ddp_check(gw_scope *s, gw_ddp *ddp);

/// Copies the parameters and buffers of rank 0 to all members. All members must call gw_ddp_broadcast.
/// Errors: those of collectives; INVALID if |ddp| is NULL (then the other members wait for this member).
GW_API void gw_ddp_broadcast(gw_scope *s, gw_ddp *ddp);

// ---- After a loss -------------------------------------------------------------------------------

/// Continues training in |group|, the next generation of the group of |ddp|. All members of |group| must call
/// gw_ddp_reform. A joining member passes a gw_ddp that was opened with .joining.
///
/// One member sends its parameters, its buffers, the state of |opt| and the state of the hook (gw_ddp_set_hook_state)
/// to all members. This is the member that has made the most steps of |opt|; if |opt| is NULL, the most passes. If
/// several members have made the same number, it is the member with the lowest rank. A sharded |opt| continues as by
/// gw_optimizer_reform. If gradients were sharded and |opt| is NULL, every member gets whole gradients from now on.
/// Passes are counted from 0 again, but hooks keep their counts. Members may be in different calls when the loss of a
/// member is reported. Then all members must first call gw_group_agree, so that they re-form at the same step.
///
/// If a member is lost during a step, the step may succeed on some members and fail on other members. After
/// gw_ddp_reform, all members have taken the step, or no member has taken it. So a program counts steps by
/// gw_optimizer_steps, which is the same on all members. Without an optimizer it counts by gw_ddp_stats.completed.
///
///     gw_group *g = gw_group_world(root, .name = "trainers");
///     gw_ddp *ddp = gw_ddp_open(root, model, .group = g);
///     while (gw_ok(root) && gw_optimizer_steps(opt) < steps) {
///         gw_scope *s = gw_scope_open(root);
///         gw_backward(s, gw_cross_entropy(s, gw_module_call(s, model, images), labels));
///         gw_optimizer_step(s, opt);
///         gw_scope_close_up(s);
///         if (gw_scope_error(root)->status != GW_DISCONNECTED) continue;
///         gw_scope_clear(root);
///         g = gw_group_reform(root, g, .grow = true);  // also admits pending joiners
///         gw_ddp_reform(root, ddp, opt, g);
///     }
///
/// A joining member calls, before its first step:
///
///     gw_group *g = gw_group_join(root, "trainers");
///     gw_ddp *ddp = gw_ddp_open(root, model, .group = g, .joining = true);
///     gw_ddp_reform(root, ddp, opt, g);
///
/// If no member has left, |group| may also be the present group of |ddp|. Then the call repairs replicas after a member
/// has left out a pass. The n-th passes of all members are reduced together, so this member stays behind. Later passes
/// fail with TIMEOUT and a text such as "w1 is at pass 6, 2 behind". Without a deadline, gradients of different steps
/// are averaged. To repair the replicas, all members call gw_group_agree, then gw_ddp_reform.
///
/// By default `gradwire run` ends all workers when the first worker fails; `--on-failure=keep` and `--max-restarts`
/// prevent this.
///
/// opt: the optimizer of the model; or NULL on all members.
/// Errors: those of collectives; MISMATCH, naming both sides, if members have different models or hooks, or if only
/// some members give an optimizer; INVALID if |group| is NULL (then the other members wait for this member).
GW_API void gw_ddp_reform(gw_scope *s, gw_ddp *ddp, gw_optimizer *opt, gw_group *group);

// ---- Hooks --------------------------------------------------------------------------------------

/// A communication hook: it computes the values that replace the gradients of a bucket. The library calls the hook on
/// every member, once for each bucket, in the same order. |b| has the gradients of this member, not divided by the
/// number of members. The hook must not block. It starts collectives of gw_bucket_group before it returns, and starts
/// the same collectives on each member. |s| owns the handles that the hook makes; |s| is not the scope of the pass. |b|
/// is valid until the hook returns. gradwire/comm_hook.h has more hooks.
///
/// Returns: a future of a tensor in the shape of gw_bucket_tensor.
typedef gw_future *gw_comm_hook(gw_scope *s, gw_bucket *b, void *context);

/// Sets the hook of |ddp|. All members must call gw_ddp_set_hook once, before the first pass. A joining member calls it
/// before gw_ddp_reform.
///
/// context: passed to the hook; valid as long as |ddp| lives.
/// Errors: WRONG_STATE after the first pass. The first pass and gw_ddp_reform fail with MISMATCH, naming both sides, if
/// members have different hooks, or different options of a hook of the library.
/// Source: torch.nn.parallel.DistributedDataParallel.register_comm_hook.
GW_API void gw_ddp_set_hook(gw_scope *s, gw_ddp *ddp, gw_comm_hook *hook, void *context);

/// A function of the program that returns the state of a hook. gw_ddp_reform calls it on the member that sends its
/// state to the other members.
/// Returns: the state.
typedef gw_map *gw_hook_save(gw_scope *s, void *context);
/// A function of the program that sets the state of a hook. gw_ddp_reform calls it on all members. |is_behind| is true
/// on joining members, and on members that have made fewer steps or passes than the sender of |state|.
typedef void gw_hook_load(gw_scope *s, void *context, gw_map *state, bool is_behind);

/// Sets the functions by which gw_ddp_reform copies the state of a hook. All members must call gw_ddp_set_hook_state.
/// Hooks of the library do not need it.
/// Errors: WRONG_STATE without a hook.
GW_API void gw_ddp_set_hook_state(gw_scope *s, gw_ddp *ddp, gw_hook_save *save, gw_hook_load *load);

/// Returns the index of |b| among the buckets of its pass, from 0.
GW_API int gw_bucket_index(const gw_bucket *b);
/// Returns the number of buckets of the pass.
GW_API int gw_bucket_count(const gw_bucket *b);
/// Returns whether |b| is the last bucket of the pass.
GW_API bool gw_bucket_is_last(const gw_bucket *b);
/// Returns the group of the members.
GW_API gw_group *gw_bucket_group(const gw_bucket *b);
/// Returns the gradients of |b| as a view with one dimension.
GW_API gw_tensor *gw_bucket_tensor(gw_scope *s, const gw_bucket *b);
/// Returns the number of parameters of |b|.
GW_API int gw_bucket_parameter_count(const gw_bucket *b);
/// Returns parameter |index| of |b|.
/// Errors: INVALID when out of range.
GW_API gw_tensor *gw_bucket_parameter(gw_scope *s, const gw_bucket *b, int index);
/// Returns the gradient of parameter |index| of |b|, a view of gw_bucket_tensor.
/// Errors: INVALID when out of range.
GW_API gw_tensor *gw_bucket_gradient(gw_scope *s, const gw_bucket *b, int index);

/// Averages the gradients: a gw_comm_hook. A gw_ddp without a hook uses gw_hook_all_reduce.
/// Returns: a future of the mean.
GW_API gw_future *gw_hook_all_reduce(gw_scope *s, gw_bucket *b, void *context);
/// Rounds the gradients to f16 and averages them; this halves the bytes of f32: a gw_comm_hook.
/// Returns: a future of the mean.
/// Source: torch.distributed.algorithms.ddp_comm_hooks.default_hooks.fp16_compress_hook.
GW_API gw_future *gw_hook_f16(gw_scope *s, gw_bucket *b, void *context);
/// Rounds the gradients to bf16 and averages them; this halves the bytes of f32: a gw_comm_hook.
/// Returns: a future of the mean.
/// Source: torch.distributed.algorithms.ddp_comm_hooks.default_hooks.bf16_compress_hook.
GW_API gw_future *gw_hook_bf16(gw_scope *s, gw_bucket *b, void *context);
/// Exchanges nothing: a gw_comm_hook for measurements of the cost of the exchange. Replicas diverge.
/// Returns: a future of the gradients of this member.
GW_API gw_future *gw_hook_none(gw_scope *s, gw_bucket *b, void *context);

// ---- Counting -----------------------------------------------------------------------------------

/// Counts of a gw_ddp on this member.
typedef struct gw_ddp_stats {
    int world_size, rank;  ///< in the group
    int parameters, buckets;
    int64_t parameter_bytes;
    char dtypes[40];  ///< of parameters: "f32, bf16"
    /// Synchronised passes of this member. Passes that other workers began are counted, too.
    int64_t passes;
    int64_t reduced;  ///< the number of passes that have received all their means
    /// |reduced|, plus the number of passes that were reduced in earlier generations of the group. After gw_ddp_reform
    /// this sum is the same on all members.
    int64_t completed;
    bool rebuilt;    ///< the buckets follow the order in which gradients were ready
    bool is_static;  ///< each pass so far has used the same parameters on this member
    bool has_hook;
    const char *backend;  ///< of the group: "session", "mpi"
    gw_status error;      ///< the status of the last pass that failed; GW_OK: no pass has failed
    int unused;           ///< the number of parameters that no member has used in the last pass
    /// The number of the last pass whose times were measured; 0: no pass yet. The first 10 passes are measured, then
    /// every 100th pass.
    int64_t timed_pass;
    /// Times of |timed_pass| in microseconds. |forward_us|: from the first forward after the previous pass to the
    /// beginning of the pass. |backward_us|: from the beginning of the pass to its last gradient. |communication_us|:
    /// from the start of the first bucket to the last mean. |waited_us|: the part of |communication_us| after the last
    /// gradient; the rest is concurrent with the pass.
    double forward_us, backward_us, communication_us, waited_us;
} gw_ddp_stats;

/// Returns the counts of |ddp| on this member.
GW_API gw_ddp_stats gw_ddp_get_stats(const gw_ddp *ddp);

#ifdef __cplusplus
}
#endif
#include <gradwire/detail/ddp.h>
#endif
