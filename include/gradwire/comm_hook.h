// Communication hooks: functions that replace the exchange of gradients between replicas.
//
//     gw_ddp *ddp = gw_ddp_open(root, model);
//     gw_power_sgd *low = gw_power_sgd_open(root, .rank = 2, .start = 500);
//     gw_hook_around halves = { gw_hook_power_sgd, low };              // or gw_hook_power_sgd and low themselves
//     gw_ddp_set_hook(root, ddp, gw_hook_f16_around, &halves);         // on all members, before the first pass
//
// The result of a hook is the same on all members, bit for bit, however much it leaves out: replicas stay equal.
// gw_hook_local_sgd is the exception, and averages of weights compensate for it. Where gradients are sharded
// (gradwire/parallel.h), gw_hook_all_reduce and those of f16 and bf16 send to the owners alone, and give this member's
// part; other hooks give whole buckets, of which it keeps its part. The hooks are those of
// torch.distributed.algorithms.ddp_comm_hooks.
//
// Ownership: contexts live as long as the gw_ddp that they are set for.
// Threads: a context belongs to one gw_ddp; it is read and written while this model's passes run.
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

/// Calls a hook with the bucket's elements rounded to f16, in buckets of f32 and f64, and widens its result.
/// Returns: a future of the result.
/// Errors: of the hook.
/// Source: fp16_compress_wrapper.
GW_API gw_future *gw_hook_f16_around(gw_scope *s, gw_bucket *b, void *around);
/// Calls a hook with the bucket's elements rounded to bf16, in buckets of f32 and f64, and widens its result.
/// Returns: a future of the result.
/// Errors: of the hook.
/// Source: bf16_compress_wrapper.
GW_API gw_future *gw_hook_bf16_around(gw_scope *s, gw_bucket *b, void *around);

// ---- PowerSGD -----------------------------------------------------------------------------------
// Matrices of low rank instead of gradients (Vogels et al. 2019). With M a parameter's gradient, its first size by the
// rest: P is the sum of M Q, Q the mean of transposed M by the orthogonalised P, and all members take P by transposed Q
// for M. A bucket is then sent as rank times its rows and columns. Parameters that do not become smaller by .min_rate,
// such as biases, are sent unchanged.
//
// A member keeps the difference of its M and P Q of each bucket, and adds it to the next one: as much memory as
// gradients. After the first pass buckets change; the differences are dropped then.

/// The context of gw_hook_power_sgd or gw_hook_batched_power_sgd, opened by gw_power_sgd_open.
typedef struct gw_power_sgd gw_power_sgd;

/// Options of gw_power_sgd_open.
typedef struct GW_BY_NAME gw_power_sgd_options {
    int rank GW_DEFAULT(1);          ///< at least 1
    int64_t start GW_DEFAULT(1000);  ///< passes before that take the mean; at least 2
    double min_rate GW_DEFAULT(2);   ///< (rows + columns) rank min_rate < rows columns, or as it is
    bool feedback GW_DEFAULT(true);  ///< adds the part that was left out to the next pass
    bool warm_start GW_DEFAULT(true);  ///< begins with the last Q, else with normal numbers
    double epsilon GW_DEFAULT(0);      ///< added to the norms of columns; one of norm 0 stays 0
    uint64_t seed GW_DEFAULT(0);       ///< of the numbers to begin with, the same on all members
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

/// Counts of PowerSGD: elements that a member would have sent, and has sent, in passes from .start on.
typedef struct gw_power_sgd_stats {
    int64_t passes;  ///< all, those before .start among them
    int64_t numel_before, numel_after;
} gw_power_sgd_stats;

/// Returns the counts of |p|.
GW_API gw_power_sgd_stats gw_power_sgd_get_stats(const gw_power_sgd *p);

/// Lists the state of this member: passes, differences and Q.
/// Returns: a map.
/// Errors: NO_MEMORY.
GW_API gw_map *gw_power_sgd_state_dict(gw_scope *s, gw_power_sgd *p);
/// Copies such a map into |p|, for the same model, options and buckets, before the first pass; what does not fit is
/// dropped then.
/// Errors: INVALID for another map.
GW_API void gw_power_sgd_load_state_dict(gw_scope *s, gw_power_sgd *p, gw_map *state);

// ---- Eight bits ---------------------------------------------------------------------------------
// Each member's elements as bytes between its least and its largest, for a bucket or for each |channel| elements of it;
// all members gather all, and add them in the order of ranks. A quarter of the bytes of each member, which are sent to
// all others. A NaN or an infinity makes NaN of all elements that share its bounds.

/// Options of gw_hook_quantize_channel.
typedef struct GW_BY_NAME gw_quantize_options {
    int64_t channel GW_DEFAULT(512);  ///< elements that have bounds of their own
} gw_quantize_options;

/// Sends a bucket as bytes, with one pair of bounds: a gw_comm_hook.
/// Returns: a future of the mean.
/// Errors: of collectives.
/// Source: quantization_pertensor_hook.
GW_API gw_future *gw_hook_quantize_tensor(gw_scope *s, gw_bucket *b, void *unused);
/// Sends a bucket as bytes, with bounds for each channel: a gw_comm_hook.
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

/// Averages over all members up to |start| passes, and then over |near|, or not at all: a gw_comm_hook. A gw_averager of
/// the same |warmup| (gradwire/parallel.h) keeps the replicas together.
/// Returns: a future of the mean.
/// Errors: of collectives.
/// Source: post_localSGD_hook; Lin et al. 2018.
GW_API gw_future *gw_hook_local_sgd(gw_scope *s, gw_bucket *b, void *local_sgd);

#ifdef __cplusplus
}
#endif
#include <gradwire/detail/comm_hook.h>
#endif
