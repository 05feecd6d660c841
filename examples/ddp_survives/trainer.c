// A trainer: one of the replicas. It learns as in ddp_digits; what a loss needs is in regroup.
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

// The batch follows from how many steps were taken: a newcomer needs to be told nothing else.
static digits next_batch(gw_scope *s, const trainer *t) {
    int64_t step = gw_optimizer_steps(t->opt), at = step % steps_of_epoch(t) * BATCH;
    gw_sampler_set_epoch(s, t->order, step / steps_of_epoch(t));
    gw_tensor *chosen = gw_slice(s, gw_sampler_indices(s, t->order), 0, at, at + BATCH, 1);
    return (digits){ gw_index_select(s, t->data.train.images, 0, chosen),
                     gw_index_select(s, t->data.train.labels, 0, chosen), BATCH };
}

// False if a member was lost: the step, which some may have taken, is then taken again or taken
// over.
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

// ---- Going on -----------------------------------------------------------------------------------

enum { WELL = 1, NONE_PENDING = 2 };  // what members agree on

static bool is_over(const trainer *t) {
    return gw_optimizer_steps(t->opt) == t->o->epochs * steps_of_epoch(t);
}

// Whether all are at the end of an epoch after which those that are lacking are waited for.
static bool waits(const trainer *t) {
    int64_t epoch = gw_optimizer_steps(t->opt) / steps_of_epoch(t);
    return gw_group_size(t->group) < t->o->world_size &&
           (epoch % t->o->patience == 0 || is_over(t));
}

// False if a member of |g| was lost meanwhile.
static bool go_on_in(gw_scope *root, trainer *t, gw_group *g) {
    t->group = g;
    gw_ddp_reform(root, t->ddp, t->opt, g);
    if (gw_scope_error(root)->status != GW_DISCONNECTED) return true;
    gw_scope_clear(root);
    return false;
}

// Called at the end of an epoch (|is_well|) and after a loss. A loss is seen here while another
// member is still well, so both ask first what all have seen: only then do they do the same.
// Returns whether there is a new group.
static bool regroup(gw_scope *root, trainer *t, bool is_well) {
    for (bool is_new = false; gw_ok(root); is_new = true) {
        uint64_t none = gw_group_pending(t->group) ? 0 : NONE_PENDING;
        gw_agreement all = gw_group_agree(root, t->group, is_well ? WELL | none : 0);
        if (!gw_ok(root)) break;
        bool all_well = (all.flags & WELL) && !all.missing_count, waiting = all_well && waits(t);
        if (all_well && !waiting && (all.flags & NONE_PENDING)) return is_new;
        int min = waiting ? (int)t->o->world_size : 1;
        if (go_on_in(root, t, gw_group_reform(root, t->group, .min = min, .grow = true)))
            return true;
        is_well = false;
    }
    return false;
}

// The first one founds the group that all others knock for. Each opens its replica alone, so that no loss ends that;
// gw_ddp_reform gives all of them what the one has that is furthest.
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
    if (gw_ok(root) && !go_on_in(root, t, t->group)) regroup(root, t, false);
}

static void learn(gw_scope *root, trainer *t, gw_rref *board) {
    for (bool is_end = false; !is_end && gw_ok(root);) {
        bool is_well = is_over(t) || take_step(root, t);
        if (is_well && gw_optimizer_steps(t->opt) % steps_of_epoch(t)) continue;
        // Before it can be lost to all: the curve has each epoch, whoever is killed.
        if (is_well) report(root, t, board);
        is_end = !regroup(root, t, is_well) && is_over(t);
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
    // Answered when all have finished: none leaves while another still needs it.
    if (gw_ok(root))
        gw_rpc_sync_with(root, gw_to(board), "finish",
                         GW_ARGS(o->number, (int64_t)weights_hash(root, t.model)),
                         GW_OPTIONS(gw_call_options, .timeout_ms = GW_NO_TIMEOUT));
    gw_rpc_leave(root);
    return gw_exit_code(gw_scope_close(root));
}
