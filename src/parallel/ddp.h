// DistributedDataParallel between the files of this room.
//
// Ownership: a gw_ddp is a handle, the gate of its parameters; passes that are under way retain it.
// Threads: the first group of fields never changes; the second changes with the loop lock held.
#ifndef PARALLEL_DDP_H
#define PARALLEL_DDP_H

#include "agent/context.h"
#include "autograd/gate.h"
#include "nn/module.h"
#include <gradwire/ddp.h>

// Numbers of a leaf whose mean one member keeps.
typedef struct kept_part {
    int leaf, keeper;
    int64_t first, count;
} kept_part;

// A bucket of a layout: gradients that travel together.
typedef struct layout_bucket {
    int *leaves;  // in the layout's memory, as the next; the parts of one are behind each other
    int count;
    kept_part *parts;  // those of one keeper are together
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

// Who keeps which means. If leaves are cut into ranges, those of a leaf are of members in the order of
// ranks, and leaves of one dtype come in one order in what each member has: so in a bucket the parts of a
// leaf are behind each other.
typedef struct sharing {
    kept_part *parts;  // by keeper, then by leaves
    int count;
    const int *here;     // by leaf: which part is this member's; -1: none
    const int *keepers;  // by leaf: of its first number
    uint64_t group;      // of the optimizer that steps by them
} sharing;

typedef struct shard_sums shard_sums;

// What the first pass was like, by leaf.
typedef struct ddp_first {
    bool is_known, tells_used;
    bool *reached;  // here
    bool *used;     // by some member, in the last pass that was to tell
} ddp_first;

// What the first passes agree on, REPL-2: in which order buckets are filled, and with static_graph who is
// used. Nothing of it is in use before the passes are settled.
typedef struct ddp_agreed {
    bool is_settled;
    bool is_known;    // a pass that told it has succeeded here
    layout *ordered;  // by rank 0's order; NULL: as it was
    int *order;       // of rank 0, which tells the same again in each of them
    bool has_order;
} ddp_agreed;

// What a join has said of the iteration that is under way.
typedef struct ddp_in_join {
    struct gw_join *join;  // NULL: it is in none; without a count
    bool is_first;         // its forwards begin iterations
    bool awaits_forward, awaits_pass;
    bool is_whole;    // all members are active
    bool shadows;     // this member brings nothing
    int buffer_root;  // of whom buffers are
    int divisor;      // of sums; 0: the number of members
} ddp_in_join;

// On the thread that has received it, without the loop lock. Neither fails |s|.
typedef void mean_taker(gw_handle *taker, gw_scope *s, gw_tensor *leaf, gw_tensor *mean);

struct gw_ddp {
    gate gate;  // begins with the handle
    agent *agent;
    gw_scope *own;  // holds the model, the group, and what lives as long
    gw_group *group;
    gw_module *model;
    int model_hook;
    gw_ddp_options options;
    const char *origin;             // where the program opened it: its collectives are told by that
    const char **names;             // of leaves
    bool *is_rows;                  // of leaves
    const struct sharing *sharing;  // of means; NULL: all members keep all
    gw_tensor **buffers;
    const char **buffer_names;
    int buffer_count;

    // Told of each mean that is kept here, as its bucket comes; NULL: nobody is. One count.
    mean_taker *mean_came;
    gw_handle *taker;

    gw_comm_hook *hook;  // NULL: the mean
    void *hook_context;
    const char *hook_text;    // which one, and its options: the same on all members
    gw_hook_save *save_hook;  // as the program says; NULL: it does not
    gw_hook_load *load_hook;
    // of the furthest member, before the group was re-formed
    int64_t earlier_passes;   // that hooks count
    int64_t earlier_reduced;  // whose means had come
    layout *layout;           // of the first passes
    ddp_agreed agreed;
    list_node passes;  // of ddp_pass, by |link|: those that have not launched all their buckets
    const struct ddp_pass *settling;  // that is not settled, and under way: later ones wait for it
    bool launching;                   // a thread launches buckets
    gw_ddp_stats stats;
    ddp_in_join join;
    ddp_first first;
    int64_t forward_ns;    // of the first forward behind the last pass; 0
    shard_sums *shards;    // with options.shards; of the thread that runs the pass, as the next
    int missing_of_shard;  // gradients that have not come
};

static inline gw_ddp *ddp_of(gate *g) {
    return (gw_ddp *)(void *)g;
}

// Whether times are taken of that pass.
static inline bool ddp_is_timed(int64_t pass) {
    return pass <= 10 || pass % 100 == 0;
}

// Of its collectives. The short forms of C would say the library's line.
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
// From here on |taker|, which is retained, is told of means; before the first pass. False with |s|
// failed.
bool ddp_set_taker(gw_scope *s, gw_ddp *d, gw_handle *taker, mean_taker *mean_came);
// The scope |of| has means, of a step. If one member keeps each, or they are of a step's shards, no
// member has what would give them once more as its own part of the next mean.
void ddp_note_means(gw_ddp *d, gw_scope *of);
// What members have to have alike, a text for each: options that are not a member's own, and with
// |with_hook| what is said of it.
gw_list *ddp_describe(gw_scope *s, const gw_ddp *d, bool with_hook);
// Whether there is one: else |s| has failed.
bool ddp_is_usable(gw_scope *s, const char *what, const gw_ddp *d);

// ---- Replicas (replicas.c) ----------------------------------------------------------------------

// Finds parameters and buffers of d->model. False with |s| failed.
bool replicas_collect(gw_scope *s, gw_ddp *d);
// What each member tells the others of the model's parameters and buffers; whether they have told the same.
gw_list *replicas_describe(gw_scope *s, const gw_ddp *d);
bool replicas_compare_models(gw_scope *s, const gw_ddp *d, const gw_list *told);
// What |root| has of tensors |first| to |end|, of parameters with buffers behind them: NULL at |root|
// itself, with |s| failed, and of a group of one. Put in place by replicas_put.
gw_tensor **replicas_receive(gw_scope *s, gw_ddp *d, int first, int end, int root);
void replicas_put(gw_scope *s, gw_ddp *d, int first, int end, gw_tensor **numbers);
// Gives all members the numbers of |root|: all of them, or none if it fails.
void replicas_broadcast(gw_scope *s, gw_ddp *d, bool parameters, bool buffers, int root);
void replicas_compare_numbers(gw_scope *s, gw_ddp *d);
void replicas_sum(gate *g, gw_scope *s, double *numbers, int count);  // of gate_class

// ---- Passes (ddp_pass.c, launch.c) ---------------------------------------------------------

// One pass over the gradients of one gw_ddp on this worker: COLLECTING gradients, then REDUCING
// them. |done| is told once of its end.
typedef enum ddp_pass_state {
    DDP_PASS_COLLECTING,  // awaits gradients
    DDP_PASS_REDUCING,    // awaits the results of its buckets
    DDP_PASS_DONE,        // all results are there
    DDP_PASS_FAILED
} ddp_pass_state;

typedef enum ddp_pass_event {
    DDP_PASS_LAUNCHED,  // the last bucket has set out
    DDP_PASS_REDUCED,   // the last result has come
    DDP_PASS_BROKE,     // a bucket failed, or the pass
} ddp_pass_event;

typedef struct ddp_pass {
    _Atomic uint32_t count;
    gw_ddp *ddp;      // one count
    gw_group *group;  // one count; of its collectives, a series of |number|
    gw_scope *scope;  // of these: of the thread that launches
    int divisor;      // of sums
    int buffer_root;
    bool is_shadow;

    gw_tensor **gradients;  // by leaf, counted: what this member brings
    gw_tensor **results;    // by leaf, counted; NULL: no member has brought one
    gw_tensor *buffers;     // counted: the sum of those that travel with gradients; NULL

    // with the loop lock
    int64_t number;  // of this worker's passes of the model
    list_node link;
    ddp_pass_state state;
    bool *is_ready;  // by leaf: what it brings is known
    layout *layout;  // NULL until it launches
    bool has_flags;  // then: its buckets say which leaves have gradients
    int *missing;    // by bucket: leaves that are not ready; -1: it was launched
    bool has_set_out, has_entered_failed;
    int launched, reduced;
    gw_future **futures;  // by bucket, counted, from launch to result
    gw_error error;
    void (*done)(struct ddp_pass *r);  // without the loop lock; NULL once it was called
    void *context;
    int *order, order_count;  // leaves, as their gradients came
    bool settles;             // it is one of those that agree
    bool tells;               // by a collective behind the last bucket
    bool knew;                // this member did, before it
    bool all_knew;            // as they have told
    layout *ordered;          // told; one count
    int64_t forward_ns, begun_ns, collected_ns, launched_ns;  // of one that is timed
} ddp_pass;

extern const gate_class ddp_gate_class;

// A synchronised pass begins. False with |s| failed if a join has no use for it now.
bool ddp_pass_is_awaited(gw_scope *s, gw_ddp *d);
// With one count. NULL with |s| failed. It is told of |error|, if that is not NULL: then all its
// buckets are entered as failed.
ddp_pass *ddp_pass_open(gw_scope *s, gw_ddp *d, int64_t deadline_ns, const gw_error *error);
void ddp_pass_release(ddp_pass *r);
// Leaf |i| brings |gradient|, which is retained; NULL: none.
void ddp_pass_bring(gw_scope *s, ddp_pass *r, int i, gw_tensor *gradient);
void ddp_pass_leaf_is_ready(ddp_pass *r, int leaf);  // what it brings has been brought
void ddp_pass_begin(ddp_pass *r);
void ddp_pass_fail(ddp_pass *r, const gw_error *error);
// The others get |error| as this member's, once, unless a verdict has ended the pass already.
void ddp_pass_tell(ddp_pass *r, const gw_error *error);
void ddp_pass_apply_on_loop(ddp_pass *r, ddp_pass_event event);
// Launches all buckets of |d| that are ready, in order. The collectives of a pass are a series of the
// group (GRP-21), so that a verdict ends those of one pass, on all members, and of no other.
void launch_ready(gw_ddp *d);
// The numbers of bucket |b| have come, or |s| has failed.
void ddp_pass_take(gw_scope *s, ddp_pass *r, int b, gw_future *f);

// ---- Buckets (bucket.c) -------------------------------------------------------------------------

struct gw_bucket {
    gw_ddp *ddp;
    const layout *layout;
    int index;
    int64_t pass;     // its number, behind |earlier_passes|
    gw_tensor *flat;  // with the flags behind them
};

// What leaves |b| of |r| bring, in one tensor: their numbers, and behind these a flag for each leaf
// that says whether it brings any. If one member keeps each mean, that for one after the other.
gw_tensor *bucket_pack(gw_scope *s, const ddp_pass *r, int b);
// A future of their mean, here of what this member keeps of it.
gw_future *bucket_start_mean(gw_scope *s, const ddp_pass *r, int b, gw_tensor *packed);
// The same of |x|, which is like the tensor of |b|, for hooks.
gw_future *bucket_start_part(gw_scope *s, const gw_bucket *b, gw_tensor *x);
void bucket_forget(ddp_pass *r, int b);  // what its leaves have brought, which is on its way
// The parts of |mean|, into r->results. |flags|: those of a bucket with a hook; NULL: behind |mean|.
void bucket_unpack(gw_scope *s, ddp_pass *r, int b, gw_tensor *mean, gw_tensor *flags);
void bucket_keep(gw_scope *s, ddp_pass *r, int b);  // of a group of one
// Futures of what the mean of rows is made of, where it is kept: their indices behind counts, and their
// values, of all members.
gw_future *bucket_start_rows(gw_scope *s, const ddp_pass *r, int b);
void bucket_unpack_rows(gw_scope *s, ddp_pass *r, int b, gw_value all);
bool bucket_check_finite(gw_scope *s, const ddp_pass *r, int b);

// ---- Hooks, and what they remember ---------------------------------------------------------------

typedef struct hook_state {
    gw_hook_save *save;  // NULL: nothing
    gw_hook_load *load;
    void *context;
} hook_state;

// hooks.c: "gw_hook_quantize_channel .channel = 512". Of a hook of the program's there is no more to say than
// that it is one. It is |s|'s.
const char *hook_describe(gw_scope *s, gw_comm_hook *hook, const void *context);
void hook_note(gw_ddp *d);  // for sentences about d->group, if members differ in it
// Whether gradients can be shared out with it. False with |s| failed.
bool hook_may_share(gw_scope *s, gw_comm_hook *hook, const void *context);

// Of a hook of this library (comm_hook.c).
hook_state hook_state_of(gw_comm_hook *hook, void *context);
// Whether |context| is |d|'s from here on: not if it remembers for another one.
bool hook_claim(gw_comm_hook *hook, void *context, const gw_ddp *d);
// Why gradients cannot be shared out with it; NULL: they can.
const char *hook_keeps_whole(gw_comm_hook *hook, const void *context);

// ---- Buffers that travel with gradients (buffers.c) --------------------------------------------

bool buffers_ride(const gw_ddp *d);
int64_t buffers_count(const gw_ddp *d);  // numbers of a bucket
gw_tensor *buffers_pack(gw_scope *s, const ddp_pass *r, gw_dtype dtype);
void buffers_put(gw_scope *s, ddp_pass *r);  // those of r->buffers, in their place

// ---- What the first passes agree on (settle.c) --------------------------------------------------

bool settle_open(gw_ddp *d);                     // false without memory
layout *settle_layout_on_loop(const gw_ddp *d);  // of the pass that launches next; without a count
// |r| launches next: whether it is one of those that agree.
void settle_begin_on_loop(ddp_pass *r);
// What this member tells in |r|, and what members have told: whether all knew before it. |*out_ordered|: by
// the order that rank 0 has told; NULL: there is no memory for it, or none was told.
gw_future *settle_start(gw_scope *s, const ddp_pass *r);
bool settle_read(gw_scope *s, const ddp_pass *r, gw_value told, layout **out_ordered);
// |r| has succeeded.
void settle_done_on_loop(ddp_pass *r);
void settle_failed_on_loop(ddp_pass *r, const gw_error *error);  // or has failed
void settle_reset_on_loop(gw_ddp *d);

// ---- The first pass (static_graph.c) ------------------------------------------------------------

bool static_open(gw_ddp *d);  // false without memory
// A pass begins that reaches these leaves here. False with |s| failed if it may not.
bool static_follow(gw_scope *s, gw_ddp *d, const bool *reached);
bool static_check_gradient(gw_scope *s, const ddp_pass *r, int i, const gw_tensor *gradient);
void static_learn_on_loop(const ddp_pass *r);  // its means are there
void static_settle_on_loop(gw_ddp *d);         // later passes say nothing of what has been learnt
void static_forget_on_loop(gw_ddp *d);         // a pass has failed

// ---- Shards (batch_shards.c) --------------------------------------------------------------------------

// Each member makes several passes a step; all but the last one only add (ddp_options.shards).

shard_sums *shards_open(const gw_ddp *d);  // NULL without memory
void shards_free(shard_sums *sums);
int shards_per_member(const gw_ddp *d);  // 1 without them
bool shards_is_last(const gw_ddp *d);    // the pass that begins now is the last of its step
// The sum of |gradient| of leaf |i| (NULL: none) and of what earlier passes of the step have kept,
// in the order of a tree; kept for the next one, unless this is the last. One count; NULL: none.
gw_tensor *shards_add(gw_scope *s, gw_ddp *d, int i, gw_tensor *gradient);
void shards_count_pass(gw_ddp *d);
void shards_reset(gw_ddp *d);  // the step has failed

#endif
