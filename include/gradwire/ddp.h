// DistributedDataParallel: one model, a replica of it on each member of a group.
//
//     gw_module *model = gw_nn_linear(root, 64, 10);
//     gw_ddp_open(root, model);                                   // one line; the rest stays as it was
//     gw_optimizer *opt = gw_sgd(root, gw_parameters(root, model), .lr = 0.1);
//     for (int step = 0; step < steps && gw_ok(root); step++) {
//         gw_scope *s = gw_scope_open(root);
//         gw_backward(s, gw_cross_entropy(s, gw_module_call(s, model, images), labels));  // its own ones
//         gw_optimizer_step(s, opt);                              // the same bits on every member
//         gw_scope_close_up(s);
//     }
//
// Each member walks backward over its own batch, and what a pass leaves for a parameter is the mean
// over all members. Gradients travel in buckets, the last layers' first, while the pass goes on with
// the rest. That is so for passes across workers, too: a part of a pass that another worker began is
// done when its means are there, and takes no thread meanwhile.
//
// What a pass does not reach counts as zeros; a parameter that no member has reached has no gradient
// on any (NOT_FOUND). Nothing is to be said about that beforehand. Members pair their passes by their
// count of them: each runs as many, in one order. A pass with |inputs|, and one that reaches no
// parameter of the model, is none; a member with nothing to walk says gw_ddp_skip. One that fails,
// or whose scope fails after the model was called in it, fails the others' pass with its error. A scope
// that is closed with means that no step, gw_clip_grad_norm, gw_grad or the like has used is a mistake,
// most often a step in another scope: a warning says so, once.
//
// Ownership: it belongs to the scope it was opened in, and keeps the model. Closing it ends nothing
// on other members.
// Threads: as the model. Passes of several scopes are reduced one after the other.
#ifndef GRADWIRE_DDP_H
#define GRADWIRE_DDP_H

#include <gradwire/collective.h>
#include <gradwire/nn.h>
#include <gradwire/optim.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gw_ddp gw_ddp;
typedef struct gw_bucket gw_bucket;

// What becomes of buffers, such as the statistics of BatchNorm.
typedef enum gw_buffers {
    GW_BUFFERS_BROADCAST,       // those of rank 0 go to all before each forward in training
    GW_BUFFERS_LEFT,            // each member has its own
    GW_BUFFERS_WITH_GRADIENTS,  // those of rank 0 go to all with each pass, in one of its buckets
    GW_BUFFERS_AVERAGE          // so does the mean of floating ones; of others, rank 0's
} gw_buffers;

// gw_ddp_open(s, model, .group = g, ...): all members call it. Its parameters are those of |model|
// that want a gradient, each once, in the order of gw_parameters. Those and all buffers take the
// values of rank 0, and the model is asked for buffers before each gw_module_call.
// MISMATCH with both sides if the models differ in names, shapes or dtypes, or members in options,
// but |check_finite|, |copy_gradients| and |ignore|; TIMEOUT with those that have not come: who opens alone
// is told so, and the next opening is well. What fails here on one member fails on all. INVALID for a model
// without such parameters, and for options out of range; DUPLICATE if one of them is in another one.
// Source: Li et al. 2020.
typedef struct GW_BY_NAME gw_ddp_options {
    gw_group *group GW_DEFAULT(NULL);                // NULL: all workers that are there
    int64_t bucket_bytes GW_DEFAULT(25 << 20);       // a bucket is full with so many
    int64_t first_bucket_bytes GW_DEFAULT(1 << 20);  // the first of each dtype, to begin early
    // To travel with gradients they need a parameter of f32 or f64, and no hook: else INVALID.
    gw_buffers buffers GW_DEFAULT(GW_BUFFERS_BROADCAST);
    // Each pass reaches the same parameters on this member as its first one: nothing need be said of that
    // any more. One that does not fails on all: "fc3.weight" was unused in the first pass and is used now.
    // Without it, buckets of a pass that runs hooks of tensors (gw_register_hook) set out when all of it has
    // run, as hooks may begin passes; with it only if the first pass had one inside it.
    bool static_graph GW_DEFAULT(false);
    bool
        copy_gradients GW_DEFAULT(false);  // each has memory of its own, not a part of its bucket's
    // Fail on all members if one brings a NaN or an infinity, with its name, the parameter and place.
    bool check_finite GW_DEFAULT(false);
    // Cut each batch into so many, a power of two that the number of members divides; each member
    // makes |shards| / members passes a step, one for each of its shards in order, and the last of
    // them gives the mean over all shards; with it counts what its scope has from passes that are not
    // synchronised. The same weights, bit for bit, with 1, 2, 4, ... members. A scope that has had a step
    // adds the mean of the next one, and only that: WRONG_STATE for passes there that are not synchronised.
    int shards GW_DEFAULT(0);
    int64_t check_every GW_DEFAULT(0);  // passes between comparisons as by gw_ddp_check; 0: never
    // Names of parameters and buffers of the model to leave alone: INVALID if it has none of a name.
    const char *const *ignore GW_DEFAULT(NULL);
    int ignore_count GW_DEFAULT(0);
    // Set on a member that joins an existing group (gw_group_join): skips the first broadcast. gw_ddp_reform is
    // called next and gives it parameters and buffers of the others.
    bool joining GW_DEFAULT(false);
    // "train.c:12", which the short form of C says: errors of passes name it.
    const char *origin GW_DEFAULT(NULL);
} gw_ddp_options;

GW_API gw_ddp *gw_ddp_open(gw_scope *s, gw_module *model, gw_ddp_options options GW_DEFAULT({}))
    GW_CALLS(gw_ddp_open_with);
#define gw_ddp_open(...) GW_FORM_AT_2(gw_ddp_open, gw_ddp_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_ddp_open) gw_ddp_open_with;

// ---- Accumulating -------------------------------------------------------------------------------

// From here on, passes begun in |s| and in scopes opened inside it later leave gradients of this
// worker alone; or they are synchronised again. The scope given to gw_backward decides, for all
// workers that the pass visits. The next synchronised pass of the scope takes the mean of what is
// there and its own: accumulating costs one exchange.
GW_API void gw_ddp_no_sync(gw_scope *s);
GW_API void gw_ddp_sync(gw_scope *s);

// Instead of a pass: this member brings what |s| has so far, or zeros, and gets the means.
GW_API void gw_ddp_skip(gw_scope *s, gw_ddp *ddp);

// ---- Comparing ----------------------------------------------------------------------------------
// Called by all members.

// MISMATCH with the first parameter or buffer whose bits differ, and on whom.
GW_API void gw_ddp_check(gw_scope *s, gw_ddp *ddp);

// Gives all members rank 0's parameters and buffers again.
GW_API void gw_ddp_broadcast(gw_scope *s, gw_ddp *ddp);

// ---- After a loss -------------------------------------------------------------------------------

// Goes on in |g|, the next generation of the group that |ddp| was opened in, on all its members; that of
// a newcomer was opened with |joining|. All take parameters, buffers and the state of
// |opt| (NULL: none) from the lowest of those that are furthest ahead in its steps, or in passes; one that
// is sharded goes on as by gw_optimizer_reform, and without it gradients come whole to all again. Where
// members may be in different calls when they hear of the loss, they call gw_group_agree first, so
// that all re-form at one place. What a hook remembers goes along (gw_ddp_set_hook_state). The count
// of passes begins anew, but that of hooks.
//
// Of a step amid which a member is lost some members may have heard as done, and some as failed. Behind the
// call all have taken it, or none: so what counts steps is gw_optimizer_steps, the same on all members
// then, and no variable of the loop; without an optimizer it is gw_ddp_stats.completed.
//
//     gw_group *g = gw_group_world(root, .name = "trainers");
//     gw_ddp *ddp = gw_ddp_open(root, model, .group = g);
//     while (gw_ok(root) && gw_optimizer_steps(opt) < steps) {
//         gw_scope *s = gw_scope_open(root);
//         gw_backward(s, gw_cross_entropy(s, gw_module_call(s, model, images), labels));
//         gw_optimizer_step(s, opt);
//         gw_scope_close_up(s);
//         if (gw_scope_error(root)->status != GW_DISCONNECTED) continue;
//         gw_scope_clear(root);
//         g = gw_group_reform(root, g, .grow = true);  // and admits workers that are joining
//         gw_ddp_reform(root, ddp, opt, g);
//     }
//
// and on a joining member, before its first step:
//
//     gw_group *g = gw_group_join(root, "trainers");
//     gw_ddp *ddp = gw_ddp_open(root, model, .group = g, .joining = true);
//     gw_ddp_reform(root, ddp, opt, g);
//
// |g| may be the group as it is, too, that nobody has left: that repairs replicas of which one has left out a
// pass. Members pair passes by their counts, so that one which is behind stays behind: passes then fail with
// TIMEOUT and "w1 is at pass 6, 2 behind", and without a deadline in between they pair different steps.
// All members meet (gw_group_agree) and call gw_ddp_reform(s, ddp, opt, g).
//
// `gradwire run` ends all workers with the first one that fails, unless it is given --on-failure=keep.
GW_API void gw_ddp_reform(gw_scope *s, gw_ddp *ddp, gw_optimizer *opt, gw_group *g);

// ---- Hooks --------------------------------------------------------------------------------------

// Gives the numbers that take the place of those of a bucket, in the shape of gw_bucket_tensor: a
// future of them. It is called on every member for each bucket, in the same order, and may not wait;
// nothing has been divided before. It calls collectives of gw_bucket_group before it returns, as many
// on each member. |s| owns what it makes, and is not the pass's; |b|
// is there until the hook returns. gradwire/comm_hook.h has more of the library's.
typedef gw_future *gw_comm_hook(gw_scope *s, gw_bucket *b, void *context);

// Once, before the first pass, on all members, on a newcomer before gw_ddp_reform: else WRONG_STATE. |context|
// lives as long as |ddp|. The first pass is MISMATCH with both sides if members have different hooks, or options
// of one of the library's; so is gw_ddp_reform.
GW_API void gw_ddp_set_hook(gw_scope *s, gw_ddp *ddp, gw_comm_hook *hook, void *context);

// What a hook remembers from pass to pass, for gw_ddp_reform: |save| gives it on the member that is
// furthest ahead, and |load| gets that on all, |is_behind| on those that were not as far, or are new.
// On all members; those of this library have theirs. WRONG_STATE without a hook.
typedef gw_map *gw_hook_save(gw_scope *s, void *context);
typedef void gw_hook_load(gw_scope *s, void *context, gw_map *state, bool is_behind);
GW_API void gw_ddp_set_hook_state(gw_scope *s, gw_ddp *ddp, gw_hook_save *save, gw_hook_load *load);

GW_API int gw_bucket_index(const gw_bucket *b);
GW_API int gw_bucket_count(const gw_bucket *b);  // of the pass
GW_API bool gw_bucket_is_last(const gw_bucket *b);
GW_API gw_group *gw_bucket_group(const gw_bucket *b);
GW_API gw_tensor *gw_bucket_tensor(gw_scope *s, const gw_bucket *b);  // its gradients, flat
GW_API int gw_bucket_parameter_count(const gw_bucket *b);
GW_API gw_tensor *gw_bucket_parameter(gw_scope *s, const gw_bucket *b, int index);
GW_API gw_tensor *gw_bucket_gradient(gw_scope *s, const gw_bucket *b, int index);  // a view

// The mean as it is; the mean of numbers rounded to f16 or bf16, in half the bytes.
GW_API gw_future *gw_hook_all_reduce(gw_scope *s, gw_bucket *b, void *context);
GW_API gw_future *gw_hook_f16(gw_scope *s, gw_bucket *b, void *context);
GW_API gw_future *gw_hook_bf16(gw_scope *s, gw_bucket *b, void *context);
// Nothing is exchanged: for measuring what the exchange costs. Replicas drift apart.
GW_API gw_future *gw_hook_none(gw_scope *s, gw_bucket *b, void *context);

// ---- Counting -----------------------------------------------------------------------------------

typedef struct gw_ddp_stats {
    int world_size, rank;  // in the group
    int parameters, buckets;
    int64_t parameter_bytes;
    char dtypes[40];  // of parameters: "f32, bf16"
    int64_t passes;   // synchronised ones, this worker's parts among them
    int64_t reduced;  // of these, those whose means have come
    // The same with those of earlier generations of the group: behind gw_ddp_reform the same on all members.
    int64_t completed;
    bool rebuilt;    // the buckets follow the order in which gradients were ready
    bool is_static;  // each pass so far has reached the same parameters on this member
    bool has_hook;
    const char *backend;  // that carries its collectives: "session", "mpi"
    gw_status error;      // of the last pass that failed; GW_OK: none has
    int unused;           // parameters that no member has reached in the last pass
    // Microseconds, of the last one of |passes| that was timed, which are the first 10 and then each
    // 100th: from the first forward behind the pass before it to its begin; from there to the last
    // gradient; from the first bucket that set out to the last mean; and how much of that was behind the
    // last gradient. What is left of it was beside the pass.
    int64_t timed_pass;  // which one; 0: none
    double forward_us, backward_us, communication_us, waited_us;
} gw_ddp_stats;

GW_API gw_ddp_stats gw_ddp_get_stats(const gw_ddp *ddp);

#ifdef __cplusplus
}
#endif
#include <gradwire/detail/ddp.h>
#endif
