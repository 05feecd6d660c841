// Communication hooks: what replicas exchange instead of their gradients as they are.
//
//     gw_ddp *ddp = gw_ddp_open(root, model);
//     gw_power_sgd *low = gw_power_sgd_open(root, .rank = 2, .start = 500);
//     gw_hook_around halves = { gw_hook_power_sgd, low };              // or gw_hook_power_sgd and low themselves
//     gw_ddp_set_hook(root, ddp, gw_hook_f16_around, &halves);         // on all members, before the first pass
//
// What a hook gives is the same on all members, bit for bit, however much it leaves out: replicas stay
// equal. gw_hook_local_sgd is the exception, and has averages of weights to make up for it. Where gradients
// are shared out (gradwire/parallel.h), gw_hook_all_reduce and halves travel to their owners alone, and give
// this member's part; other hooks give whole buckets, of which it keeps its part.
// torch.distributed.algorithms.ddp_comm_hooks.
//
// Ownership: contexts live as long as the gw_ddp they are set for.
// Threads: a context is of one gw_ddp; it is read and written while this model's passes run.
#ifndef GRADWIRE_COMM_HOOK_H
#define GRADWIRE_COMM_HOOK_H

#include <gradwire/ddp.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- Halves around a hook -----------------------------------------------------------------------
// The hook gets the bucket's numbers rounded to f16 or bf16, in buckets of f32 and f64, and what it
// gives is widened again: fp16_compress_wrapper, bf16_compress_wrapper.
typedef struct gw_hook_around {
    gw_comm_hook *hook;
    void *context;
} gw_hook_around;

GW_API gw_future *gw_hook_f16_around(gw_scope *s, gw_bucket *b, void *around);
GW_API gw_future *gw_hook_bf16_around(gw_scope *s, gw_bucket *b, void *around);

// ---- PowerSGD -----------------------------------------------------------------------------------
// Matrices of low rank instead of gradients (Vogels et al. 2019): with M a parameter's gradient, its
// first size by the rest, P = sum of M Q, Q = mean of transposed M by the orthogonalised P, and all take
// P by transposed Q for M. A bucket then travels as rank times its rows and columns. What does not
// become smaller by |min_rate|, such as biases, travels as it is.
//
// Of each bucket a member keeps what its M had and P Q did not, and adds it to the next one: as much
// memory as gradients. After the first pass buckets change; what was kept of them is forgotten then.
typedef struct gw_power_sgd gw_power_sgd;

typedef struct GW_BY_NAME gw_power_sgd_options {
    int rank GW_DEFAULT(1);            // at least 1
    int64_t start GW_DEFAULT(1000);    // passes before that take the mean; at least 2
    double min_rate GW_DEFAULT(2);     // (rows + columns) rank min_rate < rows columns, or as it is
    bool feedback GW_DEFAULT(true);    // adds what was left out
    bool warm_start GW_DEFAULT(true);  // begins with the last Q, else with normal numbers
    double epsilon GW_DEFAULT(0);      // added to the norms of columns; one of norm 0 stays 0
    uint64_t seed GW_DEFAULT(0);       // of the numbers to begin with, the same on all members
} gw_power_sgd_options;

// gw_power_sgd_open(s, .rank = 2, ...): the context of the two hooks. INVALID for options out of range.
GW_API gw_power_sgd *gw_power_sgd_open(gw_scope *s, gw_power_sgd_options options GW_DEFAULT({}))
    GW_CALLS(gw_power_sgd_open_with);
#define gw_power_sgd_open(...) GW_FORM_1(gw_power_sgd_open, gw_power_sgd_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_power_sgd_open) gw_power_sgd_open_with;

// powerSGD_hook. batched_powerSGD_hook: a bucket is one square matrix, with zeros behind it; faster, and
// coarser.
GW_API gw_future *gw_hook_power_sgd(gw_scope *s, gw_bucket *b, void *power_sgd);
GW_API gw_future *gw_hook_batched_power_sgd(gw_scope *s, gw_bucket *b, void *power_sgd);

// Of passes from |start| on, as members have counted: numbers that a member would have sent, and has.
typedef struct gw_power_sgd_stats {
    int64_t passes;  // all, those before |start| among them
    int64_t numel_before, numel_after;
} gw_power_sgd_stats;

GW_API gw_power_sgd_stats gw_power_sgd_get_stats(const gw_power_sgd *p);

// What a program that goes on later needs: passes, errors and Q of this member. Loading is for the
// same model, options and buckets, before the first pass; what does not fit is forgotten then. INVALID
// for another map.
GW_API gw_map *gw_power_sgd_state_dict(gw_scope *s, gw_power_sgd *p);
GW_API void gw_power_sgd_load_state_dict(gw_scope *s, gw_power_sgd *p, gw_map *state);

// ---- Eight bits ---------------------------------------------------------------------------------
// Each member's numbers as bytes between its least and its largest, for a bucket or for each
// |channel| numbers of it; all gather all, and add them in the order of ranks:
// quantization_pertensor_hook, quantization_perchannel_hook. A quarter of the bytes of each member,
// which go to all others. A NaN or an infinity makes NaN of all that shares its bounds.
typedef struct GW_BY_NAME gw_quantize_options {
    int64_t channel GW_DEFAULT(512);  // numbers that have bounds of their own
} gw_quantize_options;

GW_API gw_future *gw_hook_quantize_tensor(gw_scope *s, gw_bucket *b, void *unused);
// |options|: a gw_quantize_options, or NULL.
GW_API gw_future *gw_hook_quantize_channel(gw_scope *s, gw_bucket *b, void *options);

// ---- Local SGD ----------------------------------------------------------------------------------
// Means over all members up to |start| passes, and from then on over |near|, or none at all; a
// gw_averager of the same |warmup| (gradwire/parallel.h) keeps the replicas together. post_localSGD_hook (Lin
// et al. 2018).
typedef struct gw_local_sgd {
    int64_t start;  // passes
    int64_t done;   // passes that an earlier job has made
    gw_group
        *near;  // members of the replicas' group, this one among them; NULL: nothing is exchanged
} gw_local_sgd;

GW_API gw_future *gw_hook_local_sgd(gw_scope *s, gw_bucket *b, void *local_sgd);

#ifdef __cplusplus
}
#endif
#include <gradwire/detail/comm_hook.h>
#endif
