// A trainer: one of the replicas. It trains as in ddp_digits; the code for losses is in regroup.
#include "trainer.h"

#include "../common/digits.h"
#include "../common/weights.h"

#include <gradwire.h>

#include <string.h>

enum { WIDTH = 128, BATCH = 32 };

typedef struct trainer {
    const options *o;
    digits_split data;
    gw_sampler *order;
    gw_module *model;
    gw_optimizer *opt;
    gw_ddp *ddp;
    gw_group *group;
} trainer;

// ---- Learning -----------------------------------------------------------------------------------

static int64_t steps_of_epoch(const trainer *t) {
    return t->data.train.count / BATCH;
}

// The batch follows from the number of steps: a joining member needs no other state.
static digits next_batch(gw_scope *s, const trainer *t) {
    int64_t step = gw_optimizer_steps(t->opt), at = step % steps_of_epoch(t) * BATCH;
    gw_sampler_set_epoch(s, t->order, step / steps_of_epoch(t));
    gw_tensor *chosen = gw_slice(s, gw_sampler_indices(s, t->order), 0, at, at + BATCH, 1);
    return (digits){ gw_index_select(s, t->data.train.images, 0, chosen),
                     gw_index_select(s, t->data.train.labels, 0, chosen), BATCH };
}

// Returns false if a member was lost. Some members may have taken the step: the members then repeat it or copy its
// result.
static bool take_step(gw_scope *root, const trainer *t) {
    gw_scope *s = gw_scope_open(root);
    digits share =
        digits_share(s, next_batch(s, t), gw_group_rank(t->group), gw_group_size(t->group));
    gw_backward(s, digits_loss(s, t->model, share));
    gw_optimizer_step(s, t->opt);
    gw_error e = gw_scope_close(s);
    if (e.status != GW_DISCONNECTED) gw_scope_fail(root, &e);
    return !e.status;
}

static void report(gw_scope *root, const trainer *t, gw_rref *board) {
    gw_scope *s = gw_scope_open(root);
    gw_rpc_sync(s, board, "report", t->o->number, gw_optimizer_steps(t->opt) / steps_of_epoch(t),
                gw_group_size(t->group), digits_accuracy(s, t->model, t->data.test));
    gw_scope_close_up(s);
}

// ---- Continuing after a loss --------------------------------------------------------------------

enum { INTACT = 1, NONE_PENDING = 2 };  // flags of an agreement

static bool is_over(const trainer *t) {
    return gw_optimizer_steps(t->opt) == t->o->epochs * steps_of_epoch(t);
}

// Whether all members are at the end of an epoch after which they wait for the missing members.
static bool waits_for_members(const trainer *t) {
    int64_t epoch = gw_optimizer_steps(t->opt) / steps_of_epoch(t);
    return gw_group_size(t->group) < t->o->world_size &&
           (epoch % t->o->patience == 0 || is_over(t));
}

// Returns false if a member of |g| was lost meanwhile.
static bool continue_in(gw_scope *root, trainer *t, gw_group *g) {
    t->group = g;
    gw_ddp_reform(root, t->ddp, t->opt, g);
    if (gw_scope_error(root)->status != GW_DISCONNECTED) return true;
    gw_scope_clear(root);
    return false;
}

// Called at the end of an epoch (|is_intact|) and after a loss. One member may have detected a loss before another has,
// so all first agree on the state of all and then take the same branch. Returns whether there is a new group.
static bool regroup(gw_scope *root, trainer *t, bool is_intact) {
    for (bool is_new = false; gw_ok(root); is_new = true) {
        uint64_t none = gw_group_pending(t->group) ? 0 : NONE_PENDING;
        gw_agreement all = gw_group_agree(root, t->group, is_intact ? INTACT | none : 0);
        if (!gw_ok(root)) break;
        bool all_intact = (all.flags & INTACT) && !all.missing_count,
             waiting = all_intact && waits_for_members(t);
        if (all_intact && !waiting && (all.flags & NONE_PENDING)) return is_new;
        int min = waiting ? (int)t->o->world_size : 1;
        if (continue_in(root, t, gw_group_reform(root, t->group, .min = min, .grow = true)))
            return true;
        is_intact = false;
    }
    return false;
}

// The first trainer founds the group that all others request to join. Each opens its replica in a group of its own, so
// that no loss interrupts that; gw_ddp_reform copies the state of the most advanced member to all.
static void enter(gw_scope *root, trainer *t, gw_rref *board) {
    gw_worker self = gw_rpc_self(root);
    const char *name = t->o->number == 1 ? "trainers" : NULL;
    gw_group *alone = gw_group_open(root, &self, 1, .name = name);
    t->ddp = gw_ddp_open(root, t->model, .group = alone, .joining = true);
    if (t->o->number == 1) {
        int min = (int)t->o->world_size;
        t->group = gw_group_reform(root, alone, .min = min, .grow = true);
    } else {
        t->group = gw_group_join(root, "trainers");
    }
    if (gw_ok(root)) report(root, t, board);
    if (gw_ok(root) && !continue_in(root, t, t->group)) regroup(root, t, false);
}

static void learn(gw_scope *root, trainer *t, gw_rref *board) {
    for (bool is_end = false; !is_end && gw_ok(root);) {
        bool is_intact = is_over(t) || take_step(root, t);
        if (is_intact && gw_optimizer_steps(t->opt) % steps_of_epoch(t)) continue;
        // Reports before a loss can end the epoch: the curve has each epoch, whichever member is killed.
        if (is_intact) report(root, t, board);
        is_end = !regroup(root, t, is_intact) && is_over(t);
    }
}

int trainer_run(const options *o) {
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root, .name = gw_format(root, "worker%d", (int)o->number), .job = GW_JOB_JOIN,
                .init_method = o->join);
    gw_rref *board = gw_named(root, "board", "board");
    trainer t = { .o = o, .data = digits_load(root, NULL), .model = digits_model(root, WIDTH) };
    t.order = gw_random_sampler(root, digits_dataset(root, t.data.train), 1);  // one for all
    t.opt = gw_sgd(root, gw_parameters(root, t.model), .lr = 0.05, .momentum = 0.9);
    if (gw_ok(root)) enter(root, &t, board);
    if (gw_ok(root)) learn(root, &t, board);
    // Returns when all have finished: no trainer leaves while another one needs it.
    if (gw_ok(root))
        gw_rpc_sync_with(root, gw_to(board), "finish",
                         GW_ARGS(o->number, (int64_t)weights_hash(root, t.model)),
                         GW_OPTIONS(gw_call_options, .timeout_ms = GW_NO_TIMEOUT));
    gw_rpc_leave(root);
    return gw_exit_code(gw_scope_close(root));
}
