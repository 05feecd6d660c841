// DistributedDataParallel: one model, a replica of it on each member of a group.
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
// Each member makes backward passes over its own batch; the gradient that a pass leaves for a parameter is the mean over
// all members. Gradients are reduced in buckets, those of the last layers first, while the pass continues. So are those
// of passes across workers: a part of a pass that another worker began ends when its means have arrived, and holds no
// thread meanwhile.
//
// A parameter that a member's pass does not use contributes zeros. A parameter that no member uses has no gradient on
// any member (NOT_FOUND). Members pair their passes by count: each makes as many, in one order. A pass with .inputs, or
// one that uses no parameter of the model, is not counted; a member without a batch calls gw_ddp_skip. A warning
// reports, once, a scope that closes with means that no step, gw_clip_grad_norm, gw_grad or the like has used: most
// often the step is in another scope.
//
// A pass that fails on one member fails on all, with the error of that member, and is counted. So does a pass whose
// scope fails before it: with an error before the model is called, as of a batch that cannot be read, the member calls
// the model (or gw_ddp_skip) and gw_backward in the failed scope, as in any other step. gw_module_call of the model, or
// of a module that the model is a part of, in training and with gradients on, then reports the error by gw_backward, or
// when the scope closes. With .shards a scope that has failed ends the step: it is reported once. A member that leaves
// out the call of the model, too, is behind the others by a pass (gw_ddp_reform).
//
// Errors, of all of them: INVALID for arguments; the errors of collectives (gradwire/collective.h).
// Ownership: a gw_ddp belongs to the scope that it was opened in, and holds a count on the model. Closing it ends
// nothing on other members.
// Threads: as the model. Passes of several scopes are reduced one after the other.
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
/// A part of the gradients of a pass, reduced by one collective; the argument of a gw_comm_hook.
typedef struct gw_bucket gw_bucket;

/// How buffers are handled, such as the statistics of a batch norm.
typedef enum gw_buffers {
    GW_BUFFERS_BROADCAST,       ///< rank 0 sends its own before each forward in training
    GW_BUFFERS_LEFT,            ///< each member has its own
    GW_BUFFERS_WITH_GRADIENTS,  ///< rank 0 sends its own with each pass, in one of its buckets
    GW_BUFFERS_AVERAGE          ///< as before, but floating ones become the mean over all members
} gw_buffers;

/// Options of gw_ddp_open.
typedef struct GW_BY_NAME gw_ddp_options {
    gw_group *group GW_DEFAULT(NULL);           ///< NULL: all workers of the job
    int64_t bucket_bytes GW_DEFAULT(25 << 20);  ///< bytes; the size of a bucket
    int64_t first_bucket_bytes
        GW_DEFAULT(1 << 20);  ///< bytes; of the first bucket of each dtype, which starts early
    /// To be sent with gradients they need a parameter of f32 or f64, and no hook: else INVALID.
    gw_buffers buffers GW_DEFAULT(GW_BUFFERS_BROADCAST);
    /// Each pass uses the same parameters on this member as its first one, and skips the exchange about them. Another
    /// one fails on all members: "fc3.weight" was unused in the first pass and is used now. Also lets buckets of a pass
    /// that runs hooks of tensors (gw_register_hook) start before all of it has run, unless the first pass had another
    /// one inside it.
    bool static_graph GW_DEFAULT(false);
    bool copy_gradients
        GW_DEFAULT(false);  ///< each has memory of its own, not a part of its bucket's
    /// A NaN or an infinity in a contribution fails the pass on all members, with the member, the parameter and the
    /// place.
    bool check_finite GW_DEFAULT(false);
    /// Cut each batch into so many shards, a power of two that the number of members divides. Each member makes
    /// |shards| / members passes a step, one for each of its shards in order, and the last of them gives the mean over
    /// all shards, including the gradients that its scope has from passes that are not synchronised. The weights are
    /// the same, bit for bit, with 1, 2, 4, ... members. A scope that has had a step adds the mean of the next one, and
    /// only that: WRONG_STATE for passes there that are not synchronised. 0: no shards.
    int shards GW_DEFAULT(0);
    int64_t check_every GW_DEFAULT(0);  ///< passes between comparisons as by gw_ddp_check; 0: none
    /// Names of parameters and buffers of the model that are ignored.
    const char *const *ignore GW_DEFAULT(NULL);
    int ignore_count GW_DEFAULT(0);
    /// Set on a member that has joined |group| by gw_group_join: skips the initial broadcast. gw_ddp_reform follows,
    /// which copies the values of the other members.
    bool joining GW_DEFAULT(false);
    const char *origin
        GW_DEFAULT(NULL);  ///< "train.c:12", for errors of passes; set by the short form of C
} gw_ddp_options;

/// Replicates |model|: copies the parameters and buffers of rank 0 to all members, and averages gradients of later
/// passes. All members call it.
///
/// model: with parameters that need a gradient: each once, in the order of gw_parameters.
/// Blocks: until all members have called it.
/// Returns: the handle of the other functions of this header; a program may ignore it.
/// Errors: MISMATCH, naming both sides, if the models differ in names, shapes or dtypes, or members in options other
/// than .check_finite, .copy_gradients and .ignore; TIMEOUT, naming the members that did not arrive; INVALID for a
/// model without such parameters, an option out of range, or an unknown name in .ignore; DUPLICATE if a parameter is in
/// another gw_ddp; INVALID for .joining in a group that was not re-formed. A failure on one member fails on all; the next
/// opening works.
/// Source: torch.nn.parallel.DistributedDataParallel; Li et al. 2020.
GW_API gw_ddp *gw_ddp_open(gw_scope *s, gw_module *model, gw_ddp_options options GW_DEFAULT({}))
    GW_CALLS(gw_ddp_open_with);
#define gw_ddp_open(...) GW_FORM_AT_2(gw_ddp_open, gw_ddp_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_ddp_open) gw_ddp_open_with;

// ---- Accumulating -------------------------------------------------------------------------------

/// Turns synchronisation off: passes begun in |s|, and in scopes opened inside it later, leave gradients of this member
/// alone. The scope given to gw_backward decides, for all workers that the pass visits. The next synchronised pass of
/// the scope takes the mean of these gradients and its own: accumulating costs one exchange.
/// Errors: none.
/// Source: torch.nn.parallel.DistributedDataParallel.no_sync.
GW_API void gw_ddp_no_sync(gw_scope *s);

/// Turns synchronisation on in |s|, and in scopes opened inside it later.
/// Errors: none.
GW_API void gw_ddp_sync(gw_scope *s);

/// Replaces a pass: this member contributes the gradients that |s| has, or zeros, and gets the means. Without a call of
/// the model in |s| before it, it replaces one such call, too. Runs also in a scope that has failed: then the pass fails
/// on all members.
/// Errors: as gw_backward of a replicated model; INVALID if |ddp| is NULL, and the other members wait.
GW_API void gw_ddp_skip(gw_scope *s, gw_ddp *ddp);

// ---- Comparing ----------------------------------------------------------------------------------

/// Compares the parameters and buffers of all members, bit by bit. All members call it.
/// Errors: MISMATCH, naming the first parameter or buffer that differs, and the member; INVALID if |ddp| is NULL, and the
/// other members wait.
GW_API void gw_ddp_check(gw_scope *s, gw_ddp *ddp);

/// Copies the parameters and buffers of rank 0 to all members. All members call it.
/// Errors: of collectives; INVALID if |ddp| is NULL, and the other members wait.
GW_API void gw_ddp_broadcast(gw_scope *s, gw_ddp *ddp);

// ---- After a loss -------------------------------------------------------------------------------

/// Continues in |group|, the next generation of the group that |ddp| was opened in. All its members call it, a joining
/// one with a gw_ddp that was opened with .joining.
///
/// All members get the parameters, the buffers and the state of |opt| of the lowest rank of those that are furthest
/// ahead, in its steps, or in passes. A sharded optimizer continues as by gw_optimizer_reform; without it gradients are
/// whole again on all. The state of a hook is copied, too (gw_ddp_set_hook_state). The count of passes begins again,
/// but not that of hooks. If members may be in different calls when a loss is reported, they call gw_group_agree first,
/// so that all re-form at the same step.
///
/// A step during which a member is lost may have succeeded on some members and failed on others. After this call all
/// have taken it, or none: so programs count steps by gw_optimizer_steps, which is the same on all members, or without
/// an optimizer by gw_ddp_stats.completed.
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
/// and on a joining member, before its first step:
///
///     gw_group *g = gw_group_join(root, "trainers");
///     gw_ddp *ddp = gw_ddp_open(root, model, .group = g, .joining = true);
///     gw_ddp_reform(root, ddp, opt, g);
///
/// |group| may also be the group of |ddp|, if no member has left: that repairs replicas of which one has left out a
/// pass. Members pair passes by count, so that a member that is behind stays behind: passes then fail with TIMEOUT and
/// "w1 is at pass 6, 2 behind", and without a deadline they pair different steps. All members call gw_group_agree, then
/// gw_ddp_reform. By default `gradwire run` ends all workers with the first one that fails.
///
/// opt: NULL: none, on all members.
/// Errors: of collectives; MISMATCH, naming both sides, for different models or hooks, or an optimizer on some members
/// only; INVALID if |group| is NULL, and the other members wait.
GW_API void gw_ddp_reform(gw_scope *s, gw_ddp *ddp, gw_optimizer *opt, gw_group *group);

// ---- Hooks --------------------------------------------------------------------------------------

/// Replaces the gradients of a bucket. It is called on every member for each bucket, in the same order, and does not
/// block; nothing has been divided before. It starts collectives of gw_bucket_group before it returns, as many on each
/// member. |s| owns what it makes, and is not the scope of the pass. |b| is valid until the hook returns.
/// gradwire/comm_hook.h has more of the library's.
///
/// Returns: a future of a tensor in the shape of gw_bucket_tensor.
typedef gw_future *gw_comm_hook(gw_scope *s, gw_bucket *b, void *context);

/// Sets the hook of |ddp|, once, before the first pass, on all members; on a joining one before gw_ddp_reform.
///
/// context: lives as long as |ddp|.
/// Errors: WRONG_STATE after the first pass. The first pass and gw_ddp_reform are MISMATCH, naming both sides, if
/// members have different hooks, or different options of one of the library's.
/// Source: torch.nn.parallel.DistributedDataParallel.register_comm_hook.
GW_API void gw_ddp_set_hook(gw_scope *s, gw_ddp *ddp, gw_comm_hook *hook, void *context);

/// Gives the state of a hook, on the member that is furthest ahead.
/// Returns: the state.
typedef gw_map *gw_hook_save(gw_scope *s, void *context);
/// Takes the state of a hook, on all members; |is_behind| on those that were behind, or join.
typedef void gw_hook_load(gw_scope *s, void *context, gw_map *state, bool is_behind);

/// Sets how gw_ddp_reform copies the state of a program's hook, on all members; the hooks of the library have theirs.
/// Errors: WRONG_STATE without a hook.
GW_API void gw_ddp_set_hook_state(gw_scope *s, gw_ddp *ddp, gw_hook_save *save, gw_hook_load *load);

/// Returns the number of |b| in its pass, from 0.
GW_API int gw_bucket_index(const gw_bucket *b);
/// Returns the number of buckets of the pass.
GW_API int gw_bucket_count(const gw_bucket *b);
/// Returns whether |b| is the last bucket of the pass.
GW_API bool gw_bucket_is_last(const gw_bucket *b);
/// Returns the group of the members.
GW_API gw_group *gw_bucket_group(const gw_bucket *b);
/// Returns the gradients of |b|, flat, as a view.
GW_API gw_tensor *gw_bucket_tensor(gw_scope *s, const gw_bucket *b);
/// Returns the number of parameters of |b|.
GW_API int gw_bucket_parameter_count(const gw_bucket *b);
/// Returns parameter |index| of |b|.
/// Errors: INVALID when out of range.
GW_API gw_tensor *gw_bucket_parameter(gw_scope *s, const gw_bucket *b, int index);
/// Returns the gradient of parameter |index| of |b|, a view of gw_bucket_tensor.
/// Errors: INVALID when out of range.
GW_API gw_tensor *gw_bucket_gradient(gw_scope *s, const gw_bucket *b, int index);

/// Averages the gradients: a gw_comm_hook, and the default without one.
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
    int64_t passes;   ///< synchronised ones, this member's parts among them
    int64_t reduced;  ///< of these, those whose means have arrived
    int64_t
        completed;  ///< with those of earlier generations of the group: after gw_ddp_reform the same on all members
    bool rebuilt;    ///< the buckets follow the order in which gradients were ready
    bool is_static;  ///< each pass so far has used the same parameters on this member
    bool has_hook;
    const char *backend;  ///< of the group: "session", "mpi"
    gw_status error;      ///< of the last pass that failed; GW_OK: none has
    int unused;           ///< parameters that no member has used in the last pass
    int64_t
        timed_pass;  ///< the last one that was timed: of the first 10, then every 100th; 0: none
    /// Microseconds of that pass: from the first forward after the pass before it to its begin; from there to the last
    /// gradient; from the start of the first bucket to the last mean; and how much of that was after the last gradient.
    /// The rest of it was concurrent with the pass.
    double forward_us, backward_us, communication_us, waited_us;
} gw_ddp_stats;

/// Returns the counts of |ddp| on this member.
GW_API gw_ddp_stats gw_ddp_get_stats(const gw_ddp *ddp);

#ifdef __cplusplus
}
#endif
#include <gradwire/detail/ddp.h>
#endif
