// Shared by the files of this room: DistributedDataParallel.
//
// Ownership: a gw_ddp is a handle, the gate of its parameters; passes that are under way retain it.
// Threads: the first group of fields never changes; the second changes with the loop lock held.
#ifndef PARALLEL_DDP_DDP_H
#define PARALLEL_DDP_DDP_H

#include "agent/bodies/context.h"
#include "autograd/gate.h"
#include "nn/module.h"
#include <gradwire/ddp.h>

// Numbers of a leaf whose mean one member keeps.
typedef struct kept_part {
    int leaf, owner;
    int64_t first, count;
} kept_part;

// A bucket of a layout: gradients that travel together.
typedef struct layout_bucket {
    int *leaves;  // in the layout's memory, as the next; the parts of one are behind each other
    int count;
    kept_part *parts;  // those of one owner are together
    int part_count;
    gw_dtype dtype;
    bool is_rows;  // one leaf, whose gradient is sparse by rows
    int64_t numel;
} layout_bucket;

// Which leaves are in which bucket. Counted; immutable.
typedef struct layout {
    _Atomic uint32_t count;
    int bucket_count;
    layout_bucket *buckets;
    int rider;       // the last bucket of f32 or f64 that is not of rows; -1
    uint64_t hash;   // of which leaf is where
    int *bucket_of;  // by leaf
    int *leaves;     // of all buckets
    kept_part *parts;
} layout;

// Buckets of the leaves of |d| in |order|; NULL: from the last one to the first. NULL without memory.
layout *layout_open(const gw_ddp *d, const int *order);
layout *layout_retain(layout *l);
void layout_release(layout *l);

// Which member keeps which means, its owner. If leaves are cut into ranges, the owners of a leaf's ranges are in the
// order of ranks, and each member has the leaves of one dtype in the same order. So the parts of a leaf are adjacent in
// a bucket.
typedef struct sharing {
    kept_part *parts;  // by owner, then by leaves
    int count;
    const int *here;    // by leaf: which part is this member's; -1: none
    const int *owners;  // by leaf: of its first number
    uint64_t group;     // of the optimizer that steps by them
} sharing;

typedef struct shard_sums shard_sums;

// The leaves of the first pass.
typedef struct ddp_first {
    bool is_known, is_final;
    bool *reached;  // here
    bool *used;     // by some member, in the last pass that exchanged flags
} ddp_first;

// What the first passes agree on, REPL-2: the order in which buckets are filled, and with static_graph the leaves that
// are used. Nothing of it is in use before it is final.
typedef struct ddp_agreed {
    bool is_final;
    bool is_known;    // a pass that exchanged it has succeeded here
    layout *ordered;  // by rank 0's order; NULL: as it was
    int *order;       // of rank 0, which sends the same one in each of them
    bool has_order;
} ddp_agreed;

// The iteration of a join that is under way.
typedef struct ddp_in_join {
    struct gw_join *join;  // NULL: it is in none; without a count
    // Begins an iteration of |join|. False with |s| failed.
    bool (*begin)(gw_scope *s, struct gw_join *join, bool synchronised);
    bool is_first;  // its forwards begin iterations
    bool awaits_forward, awaits_pass;
    bool is_whole;    // all members are active
    bool shadows;     // this member contributes nothing
    int buffer_root;  // the member whose buffers are used
    int divisor;      // of sums; 0: the number of members
} ddp_in_join;

// Whether members want something between two steps: one number that travels with the gradients of a pass.
typedef struct ddp_wishes {
    bool travel;        // of all members, from before the first pass
    _Atomic bool own;   // of this member
    _Atomic bool some;  // of some member, in a pass that has succeeded here
} ddp_wishes;

// The step of the program that passes belong to, for programs that number their steps (gradwire/elastic.h).
typedef struct ddp_step {
    bool is_known;
    int64_t number;
    int64_t passes_before;  // passes of this member before the step
} ddp_step;

// On the thread that has received it, without the loop lock. Neither fails |s|.
typedef void mean_taker(gw_handle *taker, gw_scope *s, gw_tensor *leaf, gw_tensor *mean);

struct gw_ddp {
    gate gate;  // begins with the handle
    agent *agent;
    gw_scope *own;  // holds the model, the group, and all with the same lifetime
    gw_group *group;
    gw_module *model;
    int model_hook;
    gw_ddp_options options;
    const char *origin;  // where the program opened it: errors of its collectives name it
    const char **names;  // of leaves
    bool *is_rows;       // of leaves
    const struct sharing *sharing;  // of means; NULL: all members keep all
    gw_tensor **buffers;
    const char **buffer_names;
    int buffer_count;

    // Called with each mean that is kept here, as its bucket arrives; NULL: none. One count.
    mean_taker *mean_arrived;
    gw_handle *taker;

    gw_comm_hook *hook;  // NULL: the mean
    void *hook_context;
    const char *hook_text;         // which one, and its options: the same on all members
    const char *hook_keeps_whole;  // why gradients cannot be shared out with it; NULL: they can
    gw_hook_save *save_hook;       // given by the program; NULL: not given
    gw_hook_load *load_hook;
    // of the furthest member, before the group was re-formed
    int64_t earlier_passes;   // that hooks count
    int64_t earlier_reduced;  // whose means had arrived
    layout *layout;           // of the first passes
    ddp_agreed agreed;
    list_node passes;  // of ddp_pass, by |link|: those that have not launched all their buckets
    const struct ddp_pass
        *finalizing;  // under way, before its order is final: later ones wait for it
    bool launching;   // a thread launches buckets
    gw_ddp_stats stats;
    ddp_in_join join;
    ddp_first first;
    int64_t forward_ns;  // of the first forward behind the last pass; 0
    ddp_wishes wishes;
    ddp_step step;
    shard_sums *shards;    // with options.shards; of the thread that runs the pass, as the next
    int missing_of_shard;  // gradients that have not arrived
};

static inline gw_ddp *ddp_of(gate *g) {
    return (gw_ddp *)(void *)g;
}

// Whether times are taken of that pass.
static inline bool ddp_is_timed(int64_t pass) {
    return pass <= 10 || pass % 100 == 0;
}

// Of its collectives. The short forms in C would name a line of the library.
static inline gw_collective_options ddp_options_of(const gw_ddp *d) {
    return GW_OPTIONS(gw_collective_options, .origin = d->origin);
}

static inline bool ddp_keeps(const gw_ddp *d, int leaf) {
    return !d->sharing || d->sharing->here[leaf] >= 0;
}

// The one whose parameter |x| is, and which leaf of it; NULL without.
gw_ddp *ddp_of_parameter(const gw_tensor *x, int *out_leaf);
// From here on each of |parts|, which are all numbers of all leaves, stays with one member alone; before
// the first pass, on all members. A range that is kept here is the gradient of that of |views|, which is
// by leaf. |group| is the optimizer's. False with |s| failed.
bool ddp_share_means(gw_scope *s, gw_ddp *d, const kept_part *parts, int count,
                     gw_tensor *const *views, uint64_t group);
// From here on |taker|, which is retained, gets each mean; before the first pass. False with |s| failed.
bool ddp_set_taker(gw_scope *s, gw_ddp *d, gw_handle *taker, mean_taker *mean_arrived);
// Whether gradients may be shared out, with a hook that |keeps_whole| if that is not NULL. False with |s| failed.
bool ddp_may_share(gw_scope *s, const char *keeps_whole);
void ddp_note_hook(gw_ddp *d);  // for error texts about d->group, if members differ in it
// What a member without input does in an iteration of a join, as the others do their forward and backward passes.
void ddp_shadow(gw_scope *s, gw_ddp *d, bool synchronised);
// The scope |of| has means of a step. If one member keeps each, or they are of a step's shards, no member could
// contribute them again as its own part of the next mean.
void ddp_note_means(gw_ddp *d, gw_scope *of);
// What members must have alike, a text for each: the options that may not differ, and with |with_hook| the hook.
gw_list *ddp_describe(gw_scope *s, const gw_ddp *d, bool with_hook);
// Whether there is one: else |s| has failed.
bool ddp_is_usable(gw_scope *s, const char *what, const gw_ddp *d);

// ---- Replicas (replicas.c) ----------------------------------------------------------------------

// Finds parameters and buffers of d->model. False with |s| failed.
bool replicas_collect(gw_scope *s, gw_ddp *d);
// A description of the model's parameters and buffers, for the other members; whether all descriptions are equal.
gw_list *replicas_describe(gw_scope *s, const gw_ddp *d);
bool replicas_compare_models(gw_scope *s, const gw_ddp *d, const gw_list *descriptions);
// The values of tensors |first| to |end| on |root|, of parameters with buffers behind them: NULL at |root|
// itself, with |s| failed, and of a group of one. Put in place by replicas_put.
gw_tensor **replicas_receive(gw_scope *s, gw_ddp *d, int first, int end, int root);
void replicas_put(gw_scope *s, gw_ddp *d, int first, int end, gw_tensor **numbers);
// Gives all members the numbers of |root|: all of them, or none if it fails.
void replicas_broadcast(gw_scope *s, gw_ddp *d, bool parameters, bool buffers, int root);
void replicas_compare_numbers(gw_scope *s, gw_ddp *d);
void replicas_sum(gate *g, gw_scope *s, double *numbers, int count);  // of gate_class

// ---- Passes (ddp_pass.c, launch.c) ---------------------------------------------------------

// One pass over the gradients of one gw_ddp on this worker: COLLECTING gradients, then REDUCING them. |done| is called
// once, at its end.
typedef enum ddp_pass_state {
    DDP_PASS_COLLECTING,  // awaits gradients
    DDP_PASS_REDUCING,    // awaits the results of its buckets
    DDP_PASS_DONE,        // all results have arrived
    DDP_PASS_FAILED
} ddp_pass_state;

typedef enum ddp_pass_event {
    DDP_PASS_LAUNCHED,  // the last bucket has set out
    DDP_PASS_REDUCED,   // the last result has arrived
    DDP_PASS_BROKE,     // a bucket failed, or the pass
} ddp_pass_event;

typedef struct ddp_pass {
    _Atomic uint32_t count;
    gw_ddp *ddp;      // one count
    gw_group *group;  // one count; of its collectives, a sequence of |number|
    gw_scope *scope;  // of these: of the thread that launches
    int divisor;      // of sums
    int buffer_root;
    bool is_shadow;

    gw_tensor **gradients;  // by leaf, counted: contributed by this member
    gw_tensor **results;    // by leaf, counted; NULL: no member has contributed one
    gw_tensor *buffers;     // counted: the sum of those that travel with gradients; NULL

    // with the loop lock
    int64_t number;  // of this worker's passes of the model
    ddp_step step;   // when it began
    list_node link;
    ddp_pass_state state;
    bool *is_ready;  // by leaf: its contribution is complete
    layout *layout;  // NULL until it launches
    bool has_flags;  // then: its buckets contain a flag for each leaf that has a gradient
    int *missing;    // by bucket: leaves that are not ready; -1: it was launched
    bool has_set_out, has_entered_failed;
    int launched, reduced;
    gw_future **futures;  // by bucket, counted, from launch to result
    gw_error error;
    void (*done)(struct ddp_pass *r);  // without the loop lock; NULL once it was called
    void *context;
    int *order, order_count;  // leaves, as their gradients arrived
    bool finalizes;           // it is one of those that agree
    bool exchanges;           // by a collective behind the last bucket
    bool had_received;        // this member did, before it
    bool all_had_received;    // so have all members
    layout *ordered;          // received; one count
    int64_t forward_ns, begun_ns, collected_ns, launched_ns;  // of one that is timed
} ddp_pass;

extern const gate_class ddp_gate_class;

// A synchronised pass begins. False with |s| failed if a join has no use for it now.
bool ddp_pass_is_awaited(gw_scope *s, gw_ddp *d);
// With one count. NULL with |s| failed. With |error|, if that is not NULL, the pass has failed: all its buckets are
// entered as failed.
ddp_pass *ddp_pass_open(gw_scope *s, gw_ddp *d, int64_t deadline_ns, const gw_error *error);
void ddp_pass_release(ddp_pass *r);
// Leaf |i| contributes |gradient|, which is retained; NULL: none.
void ddp_pass_contribute(gw_scope *s, ddp_pass *r, int i, gw_tensor *gradient);
void ddp_pass_leaf_is_ready(ddp_pass *r, int leaf);  // its contribution is complete
void ddp_pass_begin(ddp_pass *r);
void ddp_pass_fail(ddp_pass *r, const gw_error *error);
// The others get |error| as this member's, once, unless an abort has ended the pass already.
void ddp_pass_report(ddp_pass *r, const gw_error *error);
void ddp_pass_apply_on_loop(ddp_pass *r, ddp_pass_event event);
// Launches all buckets of |d| that are ready, in order. The collectives of a pass are a sequence of the group (GRP-21),
// so that an abort ends those of one pass, on all members, and of no other.
void launch_ready(gw_ddp *d);
// The numbers of bucket |b| have arrived, or |s| has failed.
void ddp_pass_take(gw_scope *s, ddp_pass *r, int b, gw_future *f);

// ---- Buckets (bucket.c) -------------------------------------------------------------------------

struct gw_bucket {
    gw_ddp *ddp;
    const char *origin;
    const layout *layout;
    int index;
    int64_t pass;     // its number, behind |earlier_passes|
    gw_tensor *flat;  // with the flags behind them
};

// The contributions of the leaves of |b|, in one tensor: their numbers, and behind these a flag for each leaf that is
// set if it contributes any. If one member keeps each mean, these are grouped by owner.
gw_tensor *bucket_pack(gw_scope *s, const ddp_pass *r, int b);
// The text of the error if members differ in the mark of a pass's sequence (REPL-2).
const char *bucket_origin(gw_scope *s, const ddp_pass *r);
// A future of their mean; if means are shared out, of the part that this member keeps.
gw_future *bucket_start_mean(gw_scope *s, const ddp_pass *r, int b, gw_tensor *packed);
// The same of |x|, which is like the tensor of |b|, for hooks.
gw_future *bucket_start_part(gw_scope *s, const gw_bucket *b, gw_tensor *x);
void bucket_forget(ddp_pass *r, int b);  // the contributions of its leaves, which are on their way
// The parts of |mean|, into r->results. |flags|: those of a bucket with a hook; NULL: behind |mean|.
void bucket_unpack(gw_scope *s, ddp_pass *r, int b, gw_tensor *mean, gw_tensor *flags);
void bucket_keep(gw_scope *s, ddp_pass *r, int b);  // of a group of one
// Futures of the inputs of the mean of rows, where it is kept: the indices of all members behind counts, and their
// values.
gw_future *bucket_start_rows(gw_scope *s, const ddp_pass *r, int b);
void bucket_unpack_rows(gw_scope *s, ddp_pass *r, int b, gw_value all);
bool bucket_check_finite(gw_scope *s, const ddp_pass *r, int b);

// ---- Buffers that travel with gradients (buffers.c) --------------------------------------------

bool buffers_ride(const gw_ddp *d);
int64_t buffers_count(const gw_ddp *d);  // numbers of a bucket
gw_tensor *buffers_pack(gw_scope *s, const ddp_pass *r, gw_dtype dtype);
void buffers_put(gw_scope *s, ddp_pass *r);  // writes r->buffers to the buffers of the model

// ---- Wishes that travel with gradients (wishes.c) ----------------------------------------------

// From here on passes carry wishes; on all members, before the first pass.
void wishes_open(gw_ddp *d);
// Whether passes can carry them: no hook replaces the gradients, and there is a bucket for them.
bool wishes_are_carried(const gw_ddp *d);
void wishes_set_own(gw_ddp *d, bool wants);
// Whether a member has wanted something in a pass since wishes_forget. Behind a pass it is the same on all members on
// which that has succeeded.
bool wishes_of_some(const gw_ddp *d);
void wishes_forget(gw_ddp *d);
int64_t wishes_count(const ddp_pass *r, int b);  // numbers of a bucket, behind its buffers: 1 or 0
gw_tensor *wishes_pack(gw_scope *s, const ddp_pass *r, gw_dtype dtype);
void wishes_unpack(gw_scope *s, ddp_pass *r,
                   gw_tensor *sum);  // the number, a sum or mean over all members

// ---- Steps (steps.c) ---------------------------------------------------------------------------

// From here on passes belong to step |number|; on all members.
void steps_begin(gw_ddp *d, int64_t number);
int64_t steps_passes(const gw_ddp *d);  // of the step, on this member
// Fails the next pass of this member, and with it a pass that another member has begun instead of ending the step.
void steps_close(gw_ddp *d, const gw_error *error);
// Fails all passes of all members that have not succeeded: this member makes none any more.
void steps_end(gw_ddp *d, const gw_error *error);
// Differs between passes of different steps, and between passes of one step; 0 without steps.
uint64_t steps_mark(const ddp_pass *r);
// The part of an error text that names the pass; NULL without steps.
const char *steps_text(gw_scope *s, const ddp_pass *r);

// ---- What the first passes agree on (finalize.c) --------------------------------------------------

bool finalize_open(gw_ddp *d);  // false without memory
layout *
finalize_layout_on_loop(const gw_ddp *d);  // of the pass that launches next; without a count
// |r| launches next: whether it is one of those that agree.
void finalize_begin_on_loop(ddp_pass *r);
// What this member sends in |r|, and the reader of what members have sent: true if all had received before it.
// |*out_ordered|: by the order of rank 0; NULL: no memory for it, or none was sent.
gw_future *finalize_start(gw_scope *s, const ddp_pass *r);
bool finalize_read(gw_scope *s, const ddp_pass *r, gw_value contributed, layout **out_ordered);
// |r| has succeeded.
void finalize_done_on_loop(ddp_pass *r);
void finalize_failed_on_loop(ddp_pass *r, const gw_error *error);  // or has failed
void finalize_reset_on_loop(gw_ddp *d);

// ---- The first pass (static_graph.c) ------------------------------------------------------------

bool static_open(gw_ddp *d);  // false without memory
// A pass begins that reaches these leaves here. False with |s| failed if it may not.
bool static_follow(gw_scope *s, gw_ddp *d, const bool *reached);
bool static_check_gradient(gw_scope *s, const ddp_pass *r, int i, const gw_tensor *gradient);
void static_learn_on_loop(const ddp_pass *r);  // its means have arrived
void static_finalize_on_loop(gw_ddp *d);       // later passes do not exchange used leaves
void static_forget_on_loop(gw_ddp *d);         // a pass has failed

// ---- Shards (batch_shards.c) --------------------------------------------------------------------------

// Each member makes several passes a step; all but the last one only add (ddp_options.shards).

shard_sums *shards_open(const gw_ddp *d);  // NULL without memory
void shards_free(shard_sums *sums);
int shards_per_member(const gw_ddp *d);  // 1 without them
bool shards_is_last(const gw_ddp *d);    // the pass that begins now is the last of its step
// The sum of |gradient| of leaf |i| (NULL: none) and of the kept gradients of earlier passes of the step,
// in the order of a tree; kept for the next one, unless this is the last. One count; NULL: none.
gw_tensor *shards_add(gw_scope *s, gw_ddp *d, int i, gw_tensor *gradient);
void shards_count_pass(gw_ddp *d);
void shards_reset(gw_ddp *d);  // the step has failed

#endif
