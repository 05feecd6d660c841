// One pass over the gradients of a DistributedDataParallel.
#include "autograd/grads.h"
#include "base/mem.h"
#include "collective/run/run.h"
#include "parallel/ddp/ddp.h"
#include "tensor/rows.h"
#include <gradwire/autograd.h>
#include <gradwire/ops.h>

#include <assert.h>
#include <stdio.h>
#include <string.h>

// ---- Opening and ending -------------------------------------------------------------------------

// There are as many buckets as leaves at most.
static bool take_arrays(ddp_pass *r, int leaf_count) {
    size_t leaves = (size_t)leaf_count;
    r->gradients = mem_calloc(2 * leaves * sizeof *r->gradients);
    r->futures = mem_calloc(leaves * sizeof *r->futures);
    r->missing = mem_calloc(2 * leaves * sizeof *r->missing + leaves);
    if (!r->gradients || !r->futures || !r->missing) return false;
    r->results = r->gradients + leaves;
    r->order = r->missing + leaves;
    r->is_ready = (bool *)(r->order + leaves);
    return true;
}

static void end_sequence(const ddp_pass *r) {
    if (!r->number || agent_is_closed(r->ddp->agent)) return;
    env_enter(r->ddp->agent->env);
    final_end_on_loop(r->group, (uint64_t)r->number);
    env_leave(r->ddp->agent->env);
}

static void free_reduction(ddp_pass *r) {
    gw_ddp *d = r->ddp;
    for (int i = 0; r->gradients && i < 2 * d->gate.leaf_count; i++)
        handle_release(r->gradients[i]);
    for (int b = 0; r->futures && b < d->gate.leaf_count; b++) handle_release(r->futures[b]);
    handle_release(r->buffers);
    mem_free(r->gradients);
    mem_free(r->futures);
    mem_free(r->missing);
    layout_release(r->layout);
    layout_release(r->ordered);
    if (r->scope) {
        scope_close_unread(r->scope);
    }
    end_sequence(r);
    handle_release(r->group);
    mem_free(r);
    handle_release(d);
}

ddp_pass *ddp_pass_open(gw_scope *s, gw_ddp *d, int64_t deadline_ns, const gw_error *error) {
    ddp_pass *r = mem_calloc(sizeof *r);
    if (r) {
        atomic_init(&r->count, 1);
        r->ddp = handle_retain(d);
        r->group = handle_retain(d->group);
        r->scope = agent_scope_open(d->agent, 0, 0, deadline_ns);
        gw_no_grad(r->scope);
        r->divisor = d->join.divisor ? d->join.divisor : d->stats.world_size;
        r->buffer_root = d->join.buffer_root;
        r->is_shadow = d->join.shadows;
        if (error) {
            r->error = *error;
            r->state = DDP_PASS_FAILED;
        }
        if (take_arrays(r, d->gate.leaf_count)) return r;
        free_reduction(r);
    }
    scope_fail(s, GW_NO_MEMORY, "no memory for gradients of DistributedDataParallel");
    return NULL;
}

bool ddp_pass_is_awaited(gw_scope *s, gw_ddp *d) {
    env_enter(d->agent->env);
    bool awaited = !d->join.join || d->join.awaits_pass;
    d->join.awaits_pass = false;
    env_leave(d->agent->env);
    if (!awaited)
        scope_fail(s, GW_WRONG_STATE,
                   "a synchronised pass in a join needs an iteration that has begun in a "
                   "synchronised scope (gw_join_notify)");
    return awaited;
}

void ddp_pass_release(ddp_pass *r) {
    if (atomic_fetch_sub_explicit(&r->count, 1, memory_order_acq_rel) == 1) free_reduction(r);
}

// ---- States -------------------------------------------------------------------------------------

typedef struct rule {
    ddp_pass_state from;
    ddp_pass_event event;
    ddp_pass_state to;
    const char *why;
} rule;

// clang-format off
static const rule rules[] = {
    { DDP_PASS_COLLECTING, DDP_PASS_LAUNCHED, DDP_PASS_REDUCING, "all gradients of this member are on their way" },
    { DDP_PASS_COLLECTING, DDP_PASS_BROKE,    DDP_PASS_FAILED,   "its next bucket is entered as failed, unless an abort has ended that bucket; no more buckets are launched" },
    { DDP_PASS_REDUCING,   DDP_PASS_REDUCED,  DDP_PASS_DONE,     "the means have arrived" },
    { DDP_PASS_REDUCING,   DDP_PASS_BROKE,    DDP_PASS_FAILED,   "its collectives end for all members" },
    { DDP_PASS_DONE,       DDP_PASS_BROKE,    DDP_PASS_DONE,     "the others have their means already" },
    { DDP_PASS_FAILED,     DDP_PASS_BROKE,    DDP_PASS_FAILED,   "the first error counts" },
};
// clang-format on

void ddp_pass_apply_on_loop(ddp_pass *r, ddp_pass_event event) {
    const rule *found = NULL;
    for (size_t i = 0; i < sizeof rules / sizeof *rules && !found; i++)
        if (rules[i].from == r->state && rules[i].event == event) found = &rules[i];
    assert(found);
    r->state = found->to;
}

// Calls |done| once, at the end.
static void notify_done(ddp_pass *r) {
    env *e = r->ddp->agent->env;
    env_enter(e);
    bool over = r->state >= DDP_PASS_DONE;
    void (*done)(ddp_pass *) = over ? r->done : NULL;
    if (over) r->done = NULL;
    env_leave(e);
    if (done) done(r);
}

// Those of a hook may stand for collectives of other keys, which are cancelled.
static void cancel(gw_ddp *d, gw_future **futures, int count) {
    gw_scope *s = agent_scope_open(d->agent, 0, 0, ENV_NEVER);
    for (int i = 0; i < count; i++) {
        gw_cancel(s, futures[i]);
        handle_release(futures[i]);
    }
    scope_close_unread(s);
}

static bool is_aborted_on_loop(const ddp_pass *r) {
    return final_find_abort_on_loop(r->group, GROUP_KEY_FINAL + (uint64_t)r->number);
}

// With the line that opened the replicas. An abort about members that differ names the line of each; those about
// deadlines, and of lost members, do not name the pass that they end.
static void set_error(ddp_pass *r, const gw_error *error) {
    const char *origin = r->ddp->origin;
    r->error = *error;
    size_t size = strlen(r->error.text);
    bool names_origin = error->status == GW_MISMATCH && group_has_reported(r->group, error);
    if (!names_origin) snprintf(r->error.text + size, sizeof r->error.text - size, " (%s)", origin);
}

void ddp_pass_fail(ddp_pass *r, const gw_error *error) {
    gw_ddp *d = r->ddp;
    gw_future **under_way = NULL;
    int count = 0, bucket_count = d->gate.leaf_count;
    env_enter(d->agent->env);
    bool cancels =
        r->state == DDP_PASS_REDUCING && !is_aborted_on_loop(r) && !r->has_entered_failed;
    if (r->state < DDP_PASS_DONE) finalize_failed_on_loop(r, error);
    if (!r->error.status && r->state != DDP_PASS_DONE) set_error(r, error);
    ddp_pass_apply_on_loop(r, DDP_PASS_BROKE);
    if (d->finalizing == r) d->finalizing = NULL;
    d->stats.error = error->status;
    if (cancels && d->hook) under_way = mem_alloc((size_t)bucket_count * sizeof *under_way);
    for (int b = 0; under_way && b < bucket_count; b++)
        if (r->futures[b]) under_way[count++] = handle_retain(r->futures[b]);
    env_leave(d->agent->env);
    if (cancels) ddp_pass_report(r, error);
    if (count) cancel(d, under_way, count);
    mem_free(under_way);
    notify_done(r);
    launch_ready(d);
}

// ---- Gradients ----------------------------------------------------------------------------------

void ddp_pass_contribute(gw_scope *s, ddp_pass *r, int i, gw_tensor *gradient) {
    if (gradient && !r->ddp->is_rows[i]) gradient = gw_to_dense(s, gradient);
    if (!gw_ok(s) || !static_check_gradient(s, r, i, gradient)) return;
    r->gradients[i] = handle_retain(gradient);
}

void ddp_pass_leaf_is_ready(ddp_pass *r, int leaf) {
    env *e = r->ddp->agent->env;
    env_enter(e);
    r->order[r->order_count++] = leaf;
    r->is_ready[leaf] = true;
    int *missing = r->layout ? &r->missing[r->layout->bucket_of[leaf]] : NULL;
    bool is_due = !missing || (*missing > 0 && --*missing == 0);
    if (ddp_is_timed(r->number)) r->collected_ns = env_now_ns(e);
    env_leave(e);
    if (is_due) launch_ready(r->ddp);
}

void ddp_pass_begin(ddp_pass *r) {
    gw_ddp *d = r->ddp;
    env_enter(d->agent->env);
    list_append(&d->passes, &r->link);
    atomic_fetch_add_explicit(&r->count, 1, memory_order_relaxed);
    r->number = ++d->stats.passes;
    r->step = d->step;
    if (ddp_is_timed(r->number)) r->begun_ns = r->collected_ns = env_now_ns(d->agent->env);
    r->forward_ns = d->forward_ns ? r->begun_ns - d->forward_ns : 0;
    d->forward_ns = 0;
    env_leave(d->agent->env);
    launch_ready(d);
}

// ---- Results ------------------------------------------------------------------------------------

void ddp_note_means(gw_ddp *d, gw_scope *of) {
    grads_expect_reader(of, &d->gate);
    if (d->sharing || d->shards) gate_note_answer(&d->gate, of);
}

static void count_on_loop(ddp_pass *r) {
    gw_ddp_stats *s = &r->ddp->stats;
    finalize_done_on_loop(r);
    s->reduced++;
    s->unused = 0;
    for (int i = 0; i < r->ddp->gate.leaf_count; i++)
        s->unused += ddp_keeps(r->ddp, i) && !r->results[i];
    if (!ddp_is_timed(r->number)) return;
    int64_t now_ns = env_now_ns(r->ddp->agent->env), last_ns = r->collected_ns;
    s->timed_pass = r->number;
    s->forward_us = (double)r->forward_ns / 1000;
    s->backward_us = (double)(last_ns - r->begun_ns) / 1000;
    s->communication_us = (double)(now_ns - r->launched_ns) / 1000;
    // A pass of one bucket is launched when the last gradient has arrived.
    int64_t waited_from_ns = last_ns > r->launched_ns ? last_ns : r->launched_ns;
    s->waited_us = (double)(now_ns - waited_from_ns) / 1000;
}

static void unpack(gw_scope *s, ddp_pass *r, int b, gw_value v) {
    if (r->layout->buckets[b].is_rows) {
        bucket_unpack_rows(s, r, b, v);
    } else if (r->ddp->hook && r->has_flags) {
        gw_list *both = gw_list_of(s, v);
        gw_tensor *flags = gw_tensor_of(s, gw_list_get(s, both, 1));
        bucket_unpack(s, r, b, gw_tensor_of(s, gw_list_get(s, both, 0)), flags);
    } else {
        bucket_unpack(s, r, b, gw_tensor_of(s, v), NULL);
    }
}

static void notify_taker(gw_scope *s, const ddp_pass *r, int b) {
    const gw_ddp *d = r->ddp;
    const layout_bucket *at = &r->layout->buckets[b];
    for (int i = 0; d->taker && i < at->count; i++) {
        int leaf = at->leaves[i];
        if (r->results[leaf]) d->mean_arrived(d->taker, s, d->gate.leaves[leaf], r->results[leaf]);
    }
}

void ddp_pass_take(gw_scope *s, ddp_pass *r, int b, gw_future *f) {
    gw_ddp *d = r->ddp;
    gw_value v = f ? gw_future_value(s, f) : gw_none();
    bool is_exchange = b == r->layout->bucket_count, all_had_received = false;
    if (gw_ok(s) && f && !is_exchange) unpack(s, r, b, v);
    if (gw_ok(s) && !is_exchange) notify_taker(s, r, b);
    layout *ordered = NULL;
    if (is_exchange) all_had_received = finalize_read(s, r, v, &ordered);
    gw_error error = *scope_error(s);
    gw_scope_clear(s);
    env_enter(d->agent->env);
    r->reduced++;
    gw_future *done_with = is_exchange ? NULL : r->futures[b];
    if (!is_exchange) r->futures[b] = NULL;
    if (is_exchange) {
        r->all_had_received = all_had_received;
        r->ordered = ordered;
    }
    bool failed = error.status || r->state == DDP_PASS_FAILED;
    bool all = r->reduced == r->layout->bucket_count + r->exchanges;
    if (!failed && all && r->state == DDP_PASS_REDUCING) {
        ddp_pass_apply_on_loop(r, DDP_PASS_REDUCED);
        count_on_loop(r);
    }
    bool is_finalized = d->finalizing == r && r->state >= DDP_PASS_DONE;
    if (is_finalized) d->finalizing = NULL;
    env_leave(d->agent->env);
    handle_release(done_with);
    if (error.status)
        ddp_pass_fail(r, &error);
    else
        notify_done(r);
    if (is_finalized) launch_ready(d);
}
