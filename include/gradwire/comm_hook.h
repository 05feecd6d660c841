// Communication hooks: functions that replace the exchange of gradients between replicas.
//
//     gw_ddp *ddp = gw_ddp_open(root, model);
//     gw_power_sgd *low = gw_power_sgd_open(root, .rank = 2, .start = 500);
//     gw_hook_around halves = { gw_hook_power_sgd, low };              // or gw_hook_power_sgd and low themselves
//     gw_ddp_set_hook(root, ddp, gw_hook_f16_around, &halves);         // on all members, before the first pass
//
// The result of a hook is the same on all members, bit for bit, even if the hook approximates gradients, so that
// replicas stay equal. gw_hook_local_sgd is the exception, for which weights are averaged. If gradients are sharded
// (gradwire/parallel.h), gw_hook_all_reduce and the hooks of f16 and bf16 send gradients only to the members that they
// are assigned to; other hooks exchange whole buckets, and each member keeps its part. The hooks are those of
// torch.distributed.algorithms.ddp_comm_hooks.
//
// Ownership: contexts live as long as the gw_ddp that they are set for.
// Threads: a context belongs to one gw_ddp; passes of its model read and write it.
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

/// Rounds the elements of buckets of f32 and f64 to f16, calls the hook in the context, and converts its result back.
/// Returns: a future of the result.
/// Errors: of the hook.
/// Source: fp16_compress_wrapper.
GW_API gw_future *gw_hook_f16_around(gw_scope *s, gw_bucket *b, void *around);
/// Rounds the elements of buckets of f32 and f64 to bf16, calls the hook in the context, and converts its result back.
/// Returns: a future of the result.
/// Errors: of the hook.
/// Source: bf16_compress_wrapper.
GW_API gw_future *gw_hook_bf16_around(gw_scope *s, gw_bucket *b, void *around);

// ---- PowerSGD -----------------------------------------------------------------------------------
// PowerSGD sends matrices of low rank instead of gradients (Vogels et al. 2019). Let M be a parameter's gradient as a
// matrix of its first size by the product of the others. Members sum M Q to P, orthogonalise P, average M^T P to Q, and
// use P Q^T instead of M. So rank times (rows + columns) elements are sent for M. Parameters for which this is not
// smaller by .min_rate, such as biases, are sent unchanged. A member keeps the difference of its M and P Q^T, and adds
// it to M in the next pass, which takes as much memory as the gradients. After the first pass buckets change, and the
// differences are dropped.

/// The context of gw_hook_power_sgd or gw_hook_batched_power_sgd, opened by gw_power_sgd_open.
typedef struct gw_power_sgd gw_power_sgd;

/// Options of gw_power_sgd_open.
typedef struct GW_BY_NAME gw_power_sgd_options {
    int rank GW_DEFAULT(1);          ///< at least 1
    int64_t start GW_DEFAULT(1000);  ///< the first passes, which average exactly; at least 2
    double min_rate
        GW_DEFAULT(2);  ///< else sent unchanged: (rows + columns) rank min_rate < rows columns
    bool feedback GW_DEFAULT(true);    ///< adds the difference to M in the next pass
    bool warm_start GW_DEFAULT(true);  ///< begins with the last Q, else with random numbers
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
/// Sends each bucket as one square matrix, padded with zeros, of low rank: a gw_comm_hook. Faster, and coarser.
/// Returns: a future of the result.
/// Errors: of collectives.
/// Source: batched_powerSGD_hook.
GW_API gw_future *gw_hook_batched_power_sgd(gw_scope *s, gw_bucket *b, void *power_sgd);

/// Counts of PowerSGD in passes from .start on: the elements that a member would have sent without it, and has sent.
typedef struct gw_power_sgd_stats {
    int64_t passes;  ///< all passes, also those before .start
    int64_t numel_before, numel_after;
} gw_power_sgd_stats;

/// Returns the counts of |p|.
GW_API gw_power_sgd_stats gw_power_sgd_get_stats(const gw_power_sgd *p);

/// Lists the state of this member: the count of passes, the differences and Q.
/// Returns: a map.
/// Errors: NO_MEMORY.
GW_API gw_map *gw_power_sgd_state_dict(gw_scope *s, gw_power_sgd *p);
/// Copies such a map, from the same model, options and buckets, into |p| before the first pass, which drops what does
/// not fit.
/// Errors: INVALID for another map.
GW_API void gw_power_sgd_load_state_dict(gw_scope *s, gw_power_sgd *p, gw_map *state);

// ---- Eight bits ---------------------------------------------------------------------------------
// Each member sends its elements as bytes, scaled between the smallest and the largest element of a bucket, or of each
// |channel| elements of it, to all others, and adds those of all members in the order of ranks. Its message is a
// quarter as large as with f32. A NaN or an infinity makes all elements NaN that are scaled with it.

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
    int64_t start;  ///< passes
    int64_t done;   ///< passes that an earlier job has made
    gw_group
        *near;  ///< members of the replicas' group, this one among them; NULL: nothing is exchanged
} gw_local_sgd;

/// Averages over all members in the first |start| passes, and then only over |near|, or not at all: a gw_comm_hook. A
/// gw_averager (gradwire/parallel.h) whose |warmup| is |start| averages the weights from then on.
/// Returns: a future of the mean.
/// Errors: of collectives.
/// Source: post_localSGD_hook; Lin et al. 2018.
GW_API gw_future *gw_hook_local_sgd(gw_scope *s, gw_bucket *b, void *local_sgd);

#ifdef __cplusplus
}
#endif
#include <gradwire/detail/comm_hook.h>
#endif
