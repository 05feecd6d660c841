// Communication hooks: functions that replace the exchange of gradients between replicas.
//
//     gw_ddp *ddp = gw_ddp_open(root, model);
//     gw_power_sgd *low = gw_power_sgd_open(root, .rank = 2, .start = 500);
//     gw_hook_around halves = { gw_hook_power_sgd, low };              // or gw_hook_power_sgd and low themselves
//     gw_ddp_set_hook(root, ddp, gw_hook_f16_around, &halves);         // on all members, before the first pass
//
// The result of a hook is the same on all members, bit for bit, even if the hook approximates gradients, so that
// replicas stay equal. gw_hook_local_sgd is the exception: its results differ, and the weights are averaged instead. If
// gradients are sharded (gradwire/parallel.h), gw_hook_all_reduce and the hooks of f16 and bf16 send a gradient only to
// the member to which its parameter is assigned. With other hooks, members exchange whole buckets, and each member
// keeps its part. The hooks are those of torch.distributed.algorithms.ddp_comm_hooks.
//
// Ownership: the program keeps a context valid as long as the gw_ddp lives for which the context is set.
// Threads: a context belongs to one gw_ddp; passes of the model of that gw_ddp read and write the context.
#ifndef GRADWIRE_COMM_HOOK_H
#define GRADWIRE_COMM_HOOK_H

#include <gradwire/ddp.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- Halves around a hook -----------------------------------------------------------------------

/// The context of gw_hook_f16_around and gw_hook_bf16_around: another hook and its context.
typedef struct gw_hook_around {
    gw_comm_hook *hook;
    void *context;
} gw_hook_around;

/// Rounds the elements of a bucket of f32 or f64 to f16, calls the hook in the context, and converts the result back.
/// Returns: a future of the result.
/// Errors: of the hook.
/// Source: fp16_compress_wrapper.
GW_API gw_future *gw_hook_f16_around(gw_scope *s, gw_bucket *b, void *around);
/// Rounds the elements of a bucket of f32 or f64 to bf16, calls the hook in the context, and converts the result back.
/// Returns: a future of the result.
/// Errors: of the hook.
/// Source: bf16_compress_wrapper.
GW_API gw_future *gw_hook_bf16_around(gw_scope *s, gw_bucket *b, void *around);

// ---- PowerSGD -----------------------------------------------------------------------------------
// PowerSGD sends matrices of low rank instead of gradients (Vogels et al. 2019). Let M be the gradient of a parameter,
// as a matrix: the first size is the number of rows, the product of the other sizes the number of columns. Members sum
// M Q to P, orthogonalise P, average M^T P to Q, and use P Q^T instead of M. So rank times (rows + columns) elements
// are sent for M. If this number times .min_rate is not below the number of elements of M, as for biases, M is sent
// unchanged. A member keeps the difference between its M and P Q^T, and adds the difference to M in the next pass; the
// differences take as much memory as the gradients. After the first pass buckets change, and the differences are
// dropped.

/// The context of gw_hook_power_sgd or gw_hook_batched_power_sgd, opened by gw_power_sgd_open.
typedef struct gw_power_sgd gw_power_sgd;

/// Options of gw_power_sgd_open.
typedef struct GW_BY_NAME gw_power_sgd_options {
    int rank GW_DEFAULT(1);  ///< at least 1
    /// The number of first passes, which average exactly; at least 2.
    int64_t start GW_DEFAULT(1000);
    double min_rate
        GW_DEFAULT(2);  ///< sent unchanged unless (rows + columns) rank min_rate < rows columns
    bool feedback GW_DEFAULT(true);    ///< adds the difference to M in the next pass
    bool warm_start GW_DEFAULT(true);  ///< begins with the last Q; false: with random numbers
    double epsilon GW_DEFAULT(0);  ///< added to the norms of columns; a column of norm 0 stays 0
    uint64_t seed GW_DEFAULT(0);   ///< for the first Q; the same on all members
} gw_power_sgd_options;

/// Makes the context of gw_hook_power_sgd and gw_hook_batched_power_sgd.
/// Returns: the context.
/// Errors: INVALID for options out of range.
GW_API gw_power_sgd *gw_power_sgd_open(gw_scope *s, gw_power_sgd_options options GW_DEFAULT({}))
    GW_CALLS(gw_power_sgd_open_with);
#define gw_power_sgd_open(...) GW_FORM_1(gw_power_sgd_open, gw_power_sgd_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_power_sgd_open) gw_power_sgd_open_with;

/// Sends each parameter's gradient as matrices of low rank: a gw_comm_hook.
/// Returns: a future of the result.
/// Errors: of collectives.
/// Source: powerSGD_hook.
GW_API gw_future *gw_hook_power_sgd(gw_scope *s, gw_bucket *b, void *power_sgd);
/// Sends each bucket as one square matrix of low rank, padded with zeros: a gw_comm_hook. Faster, and less exact, than
/// gw_hook_power_sgd.
/// Returns: a future of the result.
/// Errors: of collectives.
/// Source: batched_powerSGD_hook.
GW_API gw_future *gw_hook_batched_power_sgd(gw_scope *s, gw_bucket *b, void *power_sgd);

/// Counts of PowerSGD in passes from .start on: the elements that a member would have sent without PowerSGD, and the
/// elements that it has sent.
typedef struct gw_power_sgd_stats {
    int64_t passes;  ///< all passes, including those before .start
    int64_t numel_before, numel_after;
} gw_power_sgd_stats;

/// Returns the counts of |p|.
GW_API gw_power_sgd_stats gw_power_sgd_get_stats(const gw_power_sgd *p);

/// Lists the state of this member: the count of passes, the differences and Q.
/// Returns: a map.
/// Errors: NO_MEMORY.
GW_API gw_map *gw_power_sgd_state_dict(gw_scope *s, gw_power_sgd *p);
/// Copies a map of gw_power_sgd_state_dict into |p|. Call it before the first pass, with a map from the same model,
/// options and buckets; the first pass drops what does not fit.
/// Errors: INVALID for another map.
GW_API void gw_power_sgd_load_state_dict(gw_scope *s, gw_power_sgd *p, gw_map *state);

// ---- Eight bits ---------------------------------------------------------------------------------
// Each member sends its elements to all other members as bytes, scaled between the smallest and the largest element of
// a bucket, or of each |channel| elements of a bucket. Each member then adds the elements of all members in the order
// of ranks. The message is a quarter as large as with f32. If one element is NaN or infinite, all elements that are
// scaled together with it become NaN.

/// Options of gw_hook_quantize_channel.
typedef struct GW_BY_NAME gw_quantize_options {
    int64_t channel GW_DEFAULT(512);  ///< elements that are scaled together
} gw_quantize_options;

/// Sends a bucket as bytes that are scaled for the whole bucket: a gw_comm_hook.
/// Returns: a future of the mean.
/// Errors: of collectives.
/// Source: quantization_pertensor_hook.
GW_API gw_future *gw_hook_quantize_tensor(gw_scope *s, gw_bucket *b, void *unused);
/// Sends a bucket as bytes that are scaled for each |channel| elements: a gw_comm_hook.
///
/// options: a gw_quantize_options, or NULL.
/// Returns: a future of the mean.
/// Errors: of collectives.
/// Source: quantization_perchannel_hook.
GW_API gw_future *gw_hook_quantize_channel(gw_scope *s, gw_bucket *b, void *options);

// ---- Local SGD ----------------------------------------------------------------------------------

/// The context of gw_hook_local_sgd.
typedef struct gw_local_sgd {
    int64_t start;  ///< the number of first passes that average over all members
    int64_t done;   ///< passes that an earlier job has made
    /// Some members of the replicas' group, including this one; NULL: nothing is exchanged.
    gw_group *near;
} gw_local_sgd;

/// A gw_comm_hook that averages over all members in the first |start| passes. In later passes it averages only over
/// |near|, or exchanges nothing if |near| is NULL. From then on the program must average the weights by a gw_averager
/// (gradwire/parallel.h) whose |warmup| is |start|.
/// Returns: a future of the mean.
/// Errors: of collectives.
/// Source: post_localSGD_hook; Lin et al. 2018.
GW_API gw_future *gw_hook_local_sgd(gw_scope *s, gw_bucket *b, void *local_sgd);

#ifdef __cplusplus
}
#endif
#include <gradwire/detail/comm_hook.h>
#endif
