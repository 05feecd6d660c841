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
// Each member makes backward passes over its own batch; the gradient that a pass leaves for a parameter is the mean
// over all members. Gradients are reduced in buckets while the pass continues; the buckets of the last layers are
// reduced first. The same holds for passes across workers: if another worker began the pass, the part of the pass on
// this member ends when the means have arrived. Until then this part occupies no thread.
//
// A parameter that a member's pass does not use contributes zeros. A parameter that no member uses has no gradient on
// any member (NOT_FOUND). The n-th passes of all members are reduced together; so all members must make the same number
// of passes, in the same order. A pass with .inputs, or one that uses no parameter of the model, is not counted. A
// member without a batch calls gw_ddp_skip instead of making a pass. If a scope closes and no gw_optimizer_step,
// gw_clip_grad_norm, gw_grad or the like has used the means in this scope, the log warns once: most often the step was
// made in another scope.
//
// A pass that fails on one member fails on all members, with the error of that member; it is counted. A pass also fails
// on all members if the scope of one member has failed before the pass. So if a member's scope fails before the member
// calls the model, for example because a batch cannot be read, the member must still call the model (or gw_ddp_skip)
// and gw_backward in the failed scope, as in any other step. If a member in a failed scope calls the model, or a module
// that contains the model, in training and with gradients on, the other members get the error when that member calls
// gw_backward, or when its scope closes. With .shards a scope that has failed ends the whole step: the other members
// get the error once. A member that does not even call the model is one pass behind the others afterwards
// (gw_ddp_reform).
//
// Errors, of all functions: INVALID for arguments; the errors of collectives (gradwire/collective.h).
// Ownership: a gw_ddp belongs to the scope that it was opened in, and holds a count on the model. Closing a gw_ddp does
// not affect the other members.
// Threads: the same as for the model. Passes of several scopes are reduced one after the other.
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
/// Some of the gradients of a pass, which one collective reduces; the argument of a gw_comm_hook.
typedef struct gw_bucket gw_bucket;

/// How the buffers of the model, such as the statistics of a batch norm, are kept equal on all members.
typedef enum gw_buffers {
    GW_BUFFERS_BROADCAST,       ///< rank 0 sends its buffers before each forward in training
    GW_BUFFERS_LEFT,            ///< each member keeps its own buffers; none are sent
    GW_BUFFERS_WITH_GRADIENTS,  ///< rank 0 sends its buffers in a bucket of each backward pass
    /// As GW_BUFFERS_WITH_GRADIENTS, but floating buffers become the mean over all members.
    GW_BUFFERS_AVERAGE
} gw_buffers;

/// Options of gw_ddp_open.
typedef struct GW_BY_NAME gw_ddp_options {
    gw_group *group GW_DEFAULT(NULL);           ///< NULL: all workers of the job
    int64_t bucket_bytes GW_DEFAULT(25 << 20);  ///< the size of a bucket in bytes
    int64_t first_bucket_bytes GW_DEFAULT(
        1 << 20);  ///< bytes; the size of the first bucket of each dtype: a small one starts early
    /// GW_BUFFERS_WITH_GRADIENTS and GW_BUFFERS_AVERAGE are INVALID unless a parameter has f32 or f64 and no
    /// gw_comm_hook is set.
    gw_buffers buffers GW_DEFAULT(GW_BUFFERS_BROADCAST);
    /// Promises that each pass of this member uses the same parameters as the first pass of this member, so that
    /// members do not exchange which parameters are used. A pass that uses other parameters fails on all members:
    /// "fc3.weight" was unused in the first pass and is used now. If tensors have hooks (gw_register_hook), buckets
    /// start before the pass has run all hooks, unless a hook made a pass of its own during the first pass.
    bool static_graph GW_DEFAULT(false);
    bool copy_gradients
        GW_DEFAULT(false);  ///< each gradient has separate memory, not a part of its bucket
    /// If the gradients of a member have a NaN or an infinity, the pass fails on all members; the error names the
    /// member, the parameter and the element.
    bool check_finite GW_DEFAULT(false);
    /// The number of shards that the program cuts each batch into: a power of two, and a multiple of the number of
    /// members. In each step, each member makes |shards| / members passes, one for each of its shards in order. The
    /// last of these passes gives the mean over all shards; the mean includes gradients that the scope has from passes
    /// that are not synchronised. The weights are the same, bit for bit, with 1, 2, 4, ... members. If a program
    /// makes two steps in one scope, the mean of the second step is added to that of the first. Once a scope has a mean,
    /// an unsynchronised pass in that scope fails with WRONG_STATE. 0: no shards.
    int shards GW_DEFAULT(0);
    /// After every |check_every| passes, replicas are compared as by gw_ddp_check. 0: never.
    int64_t check_every GW_DEFAULT(0);
    /// Names of parameters and buffers of the model that are neither copied nor averaged.
    const char *const *ignore GW_DEFAULT(NULL);
    int ignore_count GW_DEFAULT(0);
    /// Set by a member that has joined |group| by gw_group_join. gw_ddp_open then skips the initial broadcast; the
    /// member calls gw_ddp_reform next, which copies the values of the other members.
    bool joining GW_DEFAULT(false);
    const char *origin
        GW_DEFAULT(NULL);  ///< "train.c:12", for errors of passes; set by the short form of C
} gw_ddp_options;

/// Replicates |model|: copies the parameters and buffers of rank 0 to all members, and makes later passes average
/// gradients. All members must call gw_ddp_open.
///
/// model: the parameters to average are those that need a gradient, each once, in the order of gw_parameters.
/// Blocks: until all members have called gw_ddp_open.
/// Returns: the handle for the other functions of this header; a program may ignore the handle.
/// Errors: MISMATCH, naming both sides, if members have models with different names, shapes or dtypes, or differ in an
/// option other than .check_finite, .copy_gradients and .ignore; TIMEOUT, naming the members that did not arrive;
/// INVALID for a model in which no parameter needs a gradient, an option out of range, or an unknown name in .ignore;
/// DUPLICATE if a parameter belongs to another gw_ddp; INVALID for .joining in a group that was not re-formed. If the
/// call fails on one member, it fails on all members; all members may call it again.
/// Source: torch.nn.parallel.DistributedDataParallel; Li et al. 2020.
GW_API gw_ddp *gw_ddp_open(gw_scope *s, gw_module *model, gw_ddp_options options GW_DEFAULT({}))
    GW_CALLS(gw_ddp_open_with);
#define gw_ddp_open(...) GW_FORM_AT_2(gw_ddp_open, gw_ddp_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_ddp_open) gw_ddp_open_with;

// ---- Accumulating -------------------------------------------------------------------------------

/// Turns synchronisation off: passes in |s|, and in scopes opened inside |s| later, leave each member with its own
/// gradients; members do not exchange these gradients. The scope given to gw_backward decides whether gradients are
/// exchanged, on all workers that the pass visits. The next synchronised pass in the same scope averages the sum of
/// these gradients and its own gradients, so that accumulation costs one exchange.
/// Errors: none.
/// Source: torch.nn.parallel.DistributedDataParallel.no_sync.
GW_API void gw_ddp_no_sync(gw_scope *s);

/// Turns synchronisation on again in |s|, and in scopes opened inside |s| later.
/// Errors: none.
GW_API void gw_ddp_sync(gw_scope *s);

/// Takes part, without a batch, in a pass of the other members: this member contributes the gradients that |s| has, or
/// zeros if |s| has none, and gets the means. If |s| has not called the model before, gw_ddp_skip also replaces one
/// call of the model. gw_ddp_skip also runs in a scope that has failed; the pass then fails on all members.
/// Errors: as gw_backward of a replicated model; INVALID if |ddp| is NULL (the other members then wait).
GW_API void gw_ddp_skip(gw_scope *s, gw_ddp *ddp);

// ---- Comparing ----------------------------------------------------------------------------------

/// Compares the parameters and buffers of all members, bit by bit. All members must call gw_ddp_check.
/// Errors: MISMATCH, naming the first parameter or buffer that differs, and the member; INVALID if |ddp| is NULL (the
/// other members then wait).
GW_API void gw_ddp_check(gw_scope *s, gw_ddp *ddp);

/// Copies the parameters and buffers of rank 0 to all members. All members must call gw_ddp_broadcast.
/// Errors: of collectives; INVALID if |ddp| is NULL (the other members then wait).
GW_API void gw_ddp_broadcast(gw_scope *s, gw_ddp *ddp);

// ---- After a loss -------------------------------------------------------------------------------

/// Continues training in |group|, the next generation of the group that |ddp| was opened in. All members of |group|
/// must call gw_ddp_reform; a joining member passes a gw_ddp that it opened with .joining.
///
/// The members that have made the most steps of |opt| (without |opt|: the most passes) are ahead. The member with the
/// lowest rank among these sends its parameters, its buffers and the state of |opt| to all members. If |opt| is
/// sharded, it continues as by gw_optimizer_reform; without |opt| every member has whole gradients again. The state of
/// a hook is copied, too (gw_ddp_set_hook_state). Passes are counted from 0 again, but hooks keep their counts. If
/// members may be in different calls when the loss of a member is reported, all members must call gw_group_agree first,
/// so that they re-form at the same step.
///
/// A step during which a member is lost may have succeeded on some members and failed on others. After gw_ddp_reform
/// either all members have taken that step or no member has. So programs count steps by gw_optimizer_steps, which is
/// the same on all members, or without an optimizer by gw_ddp_stats.completed.
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
///         g = gw_group_reform(root, g, .grow = true);  // and admits pending joiners
///         gw_ddp_reform(root, ddp, opt, g);
///     }
///
/// A joining member calls, before its first step:
///
///     gw_group *g = gw_group_join(root, "trainers");
///     gw_ddp *ddp = gw_ddp_open(root, model, .group = g, .joining = true);
///     gw_ddp_reform(root, ddp, opt, g);
///
/// If no member has left, |group| may also be the present group of |ddp|: the call then repairs replicas after one
/// member has left out a pass. The n-th passes of all members are reduced together, so a member that is behind stays
/// behind. Passes then fail with TIMEOUT and "w1 is at pass 6, 2 behind". Without a deadline, gradients of different
/// steps are averaged. To repair the replicas, all members call gw_group_agree, then gw_ddp_reform. By default
/// `gradwire run` ends all workers when the first worker fails.
///
/// opt: the optimizer of the model; or NULL on all members.
/// Errors: of collectives; MISMATCH, naming both sides, if members have different models or hooks, or only some members
/// give an optimizer; INVALID if |group| is NULL (the other members then wait).
GW_API void gw_ddp_reform(gw_scope *s, gw_ddp *ddp, gw_optimizer *opt, gw_group *group);

// ---- Hooks --------------------------------------------------------------------------------------

/// A communication hook: computes the replacement of the gradients of a bucket. The library calls the hook on every
/// member for each bucket, in the same order. The gradients are not yet divided by the number of members. The hook does
/// not block. Before it returns, the hook starts collectives of gw_bucket_group, the same number on each member. |s|
/// owns the handles that the hook makes, and is not the scope of the pass. |b| is valid until the hook returns.
/// gradwire/comm_hook.h has more hooks.
///
/// Returns: a future of a tensor in the shape of gw_bucket_tensor.
typedef gw_future *gw_comm_hook(gw_scope *s, gw_bucket *b, void *context);

/// Sets the hook of |ddp|. All members must call gw_ddp_set_hook once, before the first pass; a joining member calls it
/// before gw_ddp_reform.
///
/// context: passed to the hook; the caller keeps it valid as long as |ddp| lives.
/// Errors: WRONG_STATE after the first pass. The first pass and gw_ddp_reform fail with MISMATCH, naming both sides, if
/// members have different hooks, or different options of a hook of the library.
/// Source: torch.nn.parallel.DistributedDataParallel.register_comm_hook.
GW_API void gw_ddp_set_hook(gw_scope *s, gw_ddp *ddp, gw_comm_hook *hook, void *context);

/// A function of the program that returns the state of a hook; gw_ddp_reform calls it on the member whose state all
/// other members get.
/// Returns: the state.
typedef gw_map *gw_hook_save(gw_scope *s, void *context);
/// A function of the program that sets the state of a hook; gw_ddp_reform calls it on all members. |is_behind| is true
/// on members that were behind the sender of |state|, and on joining members.
typedef void gw_hook_load(gw_scope *s, void *context, gw_map *state, bool is_behind);

/// Sets the functions with which gw_ddp_reform copies the state of a hook of the program; all members must set them.
/// Hooks of the library need no such functions.
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

/// Averages the gradients: a gw_comm_hook, and the default if none is set.
/// Returns: a future of the mean.
GW_API gw_future *gw_hook_all_reduce(gw_scope *s, gw_bucket *b, void *context);
/// Averages the gradients rounded to f16, with half the bytes: a gw_comm_hook.
/// Returns: a future of the mean.
/// Source: torch.distributed.algorithms.ddp_comm_hooks.default_hooks.fp16_compress_hook.
GW_API gw_future *gw_hook_f16(gw_scope *s, gw_bucket *b, void *context);
/// Averages the gradients rounded to bf16, with half the bytes: a gw_comm_hook.
/// Returns: a future of the mean.
/// Source: torch.distributed.algorithms.ddp_comm_hooks.default_hooks.bf16_compress_hook.
GW_API gw_future *gw_hook_bf16(gw_scope *s, gw_bucket *b, void *context);
/// Exchanges nothing: a gw_comm_hook for measuring what the exchange costs. Replicas diverge.
/// Returns: a future of the gradients of this member.
GW_API gw_future *gw_hook_none(gw_scope *s, gw_bucket *b, void *context);

// ---- Counting -----------------------------------------------------------------------------------

/// Counts of a gw_ddp on this member.
typedef struct gw_ddp_stats {
    int world_size, rank;  ///< in the group
    int parameters, buckets;
    int64_t parameter_bytes;
    char dtypes[40];  ///< of parameters: "f32, bf16"
    /// Synchronised passes, including the parts on this member of passes that other workers began.
    int64_t passes;
    int64_t reduced;  ///< how many of |passes| have received all their means
    /// |reduced|, plus the passes that were reduced in earlier generations; after gw_ddp_reform the same on all
    /// members.
    int64_t completed;
    bool rebuilt;    ///< the buckets follow the order in which gradients were ready
    bool is_static;  ///< each pass so far has used the same parameters on this member
    bool has_hook;
    const char *backend;  ///< of the group: "session", "mpi"
    gw_status error;      ///< the status of the last pass that failed; GW_OK: no pass has failed
    int unused;           ///< parameters that no member has used in the last pass
    /// The last pass that was timed (the first 10 passes and then every 100th pass are timed); 0: none.
    int64_t timed_pass;
    /// Microseconds of |timed_pass|. forward_us: from the first forward after the previous pass to the beginning of the
    /// pass; backward_us: from the beginning of the pass to its last gradient; communication_us: from the start of the
    /// first bucket to the last mean; waited_us: the part of communication_us after the last gradient, the only part
    /// not concurrent with the pass.
    double forward_us, backward_us, communication_us, waited_us;
} gw_ddp_stats;

/// Returns the counts of |ddp| on this member.
GW_API gw_ddp_stats gw_ddp_get_stats(const gw_ddp *ddp);

#ifdef __cplusplus
}
#endif
#include <gradwire/detail/ddp.h>
#endif
