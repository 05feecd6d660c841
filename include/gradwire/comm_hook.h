// Communication hooks: functions that replace the exchange of gradients between replicas.
//
//     gw_ddp *ddp = gw_ddp_open(root, model);
//     gw_power_sgd *low = gw_power_sgd_open(root, .rank = 2, .start = 500);
//     gw_hook_around halves = { gw_hook_power_sgd, low };              // gradients in f16, sent by PowerSGD
//     gw_ddp_set_hook(root, ddp, gw_hook_f16_around, &halves);         // on all members, before the first pass
//
// Some hooks approximate gradients. The result of a hook is bitwise equal on all members, so that replicas stay equal.
// The only exception is gw_hook_local_sgd: its results differ between members, and the program averages the weights
// instead.
//
// With sharded gradients (gradwire/parallel.h), gw_hook_all_reduce and the hooks for f16 and bf16 send a gradient only
// to the member to which the parameter is assigned. With other hooks, members exchange whole buckets, and each member
// keeps its part. The hooks are those of torch.distributed.algorithms.ddp_comm_hooks.
//
// Ownership: the program keeps the context of a hook valid as long as the gw_ddp of the hook lives.
// Threads: a context belongs to one gw_ddp. The passes of its model read and write the context.
#ifndef GRADWIRE_COMM_HOOK_H
#define GRADWIRE_COMM_HOOK_H

#include <gradwire/ddp.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- Two-byte floats around a hook --------------------------------------------------------------

/// The context of gw_hook_f16_around and gw_hook_bf16_around: another hook and its context.
typedef struct gw_hook_around {
    gw_comm_hook *hook;
    void *context;
} gw_hook_around;

/// Rounds the elements of a bucket of f32 or f64 to f16, calls the hook of |around|, and converts the result back.
/// Returns: a future of the result.
/// Errors: of the hook.
/// Source: fp16_compress_wrapper.
GW_API gw_future *gw_hook_f16_around(gw_scope *s, gw_bucket *b, void *around);
/// Rounds the elements of a bucket of f32 or f64 to bf16, calls the hook of |around|, and converts the result back.
/// Returns: a future of the result.
/// Errors: of the hook.
/// Source: bf16_compress_wrapper.
GW_API gw_future *gw_hook_bf16_around(gw_scope *s, gw_bucket *b, void *around);

// ---- PowerSGD -----------------------------------------------------------------------------------
// PowerSGD sends matrices of low rank instead of gradients (Vogels et al. 2019). Let M be the gradient of a parameter
// as a matrix. The first size of the parameter is the number of rows of M; the product of the other sizes is the number
// of columns. A pass has these steps:
// 1. P is the sum of M Q over all members.
// 2. Each member orthogonalises P.
// 3. Q is the mean of M^T P over all members.
// 4. P Q^T replaces M.
//
// So a member sends rank times (rows + columns) elements for M. M is sent unchanged if this number times .min_rate is
// at least the number of elements of M. This is the case for biases. Each member adds the difference between its M and
// P Q^T to M in the next pass. The differences take as much memory as the gradients. After the first pass the buckets
// change; then the differences are dropped.

/// The context of gw_hook_power_sgd or gw_hook_batched_power_sgd, opened by gw_power_sgd_open.
typedef struct gw_power_sgd gw_power_sgd;

/// Options of gw_power_sgd_open.
typedef struct GW_BY_NAME gw_power_sgd_options {
    int rank GW_DEFAULT(1);  ///< at least 1
    /// The number of first passes, which average exactly; at least 2.
    int64_t start GW_DEFAULT(1000);
    /// M is sent unchanged unless (rows + columns) rank |min_rate| < rows columns.
    double min_rate GW_DEFAULT(2);
    bool feedback GW_DEFAULT(true);    ///< adds the difference to M in the next pass
    bool warm_start GW_DEFAULT(true);  ///< a pass begins with the last Q; false: with a random Q
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
/// Sends each bucket as one square matrix of low rank, padded with zeros: a gw_comm_hook. It is faster and less exact
/// than gw_hook_power_sgd.
/// Returns: a future of the result.
/// Errors: of collectives.
/// Source: batched_powerSGD_hook.
GW_API gw_future *gw_hook_batched_power_sgd(gw_scope *s, gw_bucket *b, void *power_sgd);

/// Counts of PowerSGD. |numel_before| is the number of elements that a member would have sent without PowerSGD.
/// |numel_after| is the number of elements that it has sent. Both numbers leave out the first .start passes.
typedef struct gw_power_sgd_stats {
    int64_t passes;  ///< all passes, including the first .start passes
    int64_t numel_before, numel_after;
} gw_power_sgd_stats;

/// Returns the counts of |p|.
GW_API gw_power_sgd_stats gw_power_sgd_get_stats(const gw_power_sgd *p);

/// Lists the state of |p| on this member: the count of passes, the differences and Q.
/// Returns: a map.
/// Errors: NO_MEMORY.
GW_API gw_map *gw_power_sgd_state_dict(gw_scope *s, gw_power_sgd *p);
/// Copies a map of gw_power_sgd_state_dict into |p|. Call gw_power_sgd_load_state_dict before the first pass. The map
/// must be from the same model, options and buckets; the first pass drops parts of the state that do not match.
/// Errors: INVALID for another map.
GW_API void gw_power_sgd_load_state_dict(gw_scope *s, gw_power_sgd *p, gw_map *state);

// ---- Eight bits ---------------------------------------------------------------------------------
// Each member converts its elements to bytes and sends the bytes to all other members. A byte is the position of an
// element between the smallest and the largest element of the bucket, or of |channel| successive elements of the
// bucket. Each member then adds the elements of all members in the order of ranks. The bytes take a quarter of the size
// of f32. If one element is NaN or infinite, all elements that are scaled together with this element become NaN.

/// Options of gw_hook_quantize_channel.
typedef struct GW_BY_NAME gw_quantize_options {
    int64_t channel GW_DEFAULT(512);  ///< the number of elements that are scaled together
} gw_quantize_options;

/// Sends a bucket as bytes, with one scale for the whole bucket: a gw_comm_hook.
/// Returns: a future of the mean.
/// Errors: of collectives.
/// Source: quantization_pertensor_hook.
GW_API gw_future *gw_hook_quantize_tensor(gw_scope *s, gw_bucket *b, void *unused);
/// Sends a bucket as bytes, with one scale for each |channel| elements: a gw_comm_hook.
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
    int64_t done;   ///< the number of passes that an earlier job has made
    /// A group of some members, including this member; NULL: no gradients are exchanged.
    gw_group *near;
} gw_local_sgd;

/// Averages gradients over all members in the first |start| passes: a gw_comm_hook. Later passes average only over
/// |near|, or exchange nothing if |near| is NULL. The program must average the weights in these passes, by a
/// gw_averager (gradwire/parallel.h) whose |warmup| is |start|.
/// Returns: a future of the mean.
/// Errors: of collectives.
/// Source: post_localSGD_hook; Lin et al. 2018.
GW_API gw_future *gw_hook_local_sgd(gw_scope *s, gw_bucket *b, void *local_sgd);

#ifdef __cplusplus
}
#endif
#include <gradwire/detail/comm_hook.h>
#endif
