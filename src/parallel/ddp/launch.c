// Launches buckets: those of one pass in their order, those of several passes pass by pass, on whichever thread is
// first. A collective that is called meanwhile without a key, also by a hook, belongs to the sequence of the pass;
// nothing is entered there behind an abort.
#include "base/mem.h"
#include "base/mutation.h"
#include "collective/run/run.h"
#include "future/future.h"
#include "parallel/ddp/ddp.h"

#include <string.h>

// What the launching thread needs of one bucket, or of the exchange behind the last one.
typedef struct launch {
    ddp_pass *pass;  // one count
    int bucket;
} launch;

// The layout of a pass is chosen when it is the next to launch: what members agree on is final by then.
static void choose_layout_on_loop(ddp_pass *r) {
    gw_ddp *d = r->ddp;
    r->layout = layout_retain(finalize_layout_on_loop(d));
    bool has_failed = r->state == DDP_PASS_FAILED;
    for (int i = 0; i < d->gate.leaf_count && !has_failed; i++)
        r->missing[r->layout->bucket_of[i]] += !r->is_ready[i];
    r->has_flags = !d->first.is_final;
    finalize_begin_on_loop(r);
    if (has_failed)
        finalize_failed_on_loop(r, &r->error);
    else if (r->finalizes)
        d->finalizing = r;
}

static int first_due(const ddp_pass *r) {
    int b = r->launched, last = r->layout->bucket_count;
    if (b < last && r->missing[b] && has_mutation(MUTATION_BUCKET_OUT_OF_ORDER))
        for (b = 0; b < last && r->missing[b]; b++) {
        }
    return b;
}

// The next bucket to launch: of the oldest pass, once its gradients have arrived. A pass that has failed here enters
// one more as failed.
static bool find_next_on_loop(gw_ddp *d, launch *out) {
    if (list_is_empty(&d->passes)) return false;
    ddp_pass *r = list_entry(d->passes.next, ddp_pass, link);
    bool failed = r->state == DDP_PASS_FAILED;
    if (!r->layout && d->finalizing && !failed) return false;
    if (!r->layout) choose_layout_on_loop(r);
    int last = r->layout->bucket_count, b = failed ? last : first_due(r);
    if (!failed && (b < last ? r->missing[b] != 0 : r->launched < last)) return false;
    if (b < last) r->missing[b] = -1;
    if (!r->launched && ddp_is_timed(r->number)) r->launched_ns = env_now_ns(d->agent->env);
    *out = (launch){ r, b };
    atomic_fetch_add_explicit(&r->count, 1, memory_order_relaxed);
    r->launched++;
    if (!failed && r->launched < last + r->exchanges) return true;
    list_remove(&r->link);
    r->has_set_out = true;
    if (!failed) ddp_pass_apply_on_loop(r, DDP_PASS_LAUNCHED);
    return true;
}

// What members must have alike in a pass and shapes need not show: the position of each leaf, the hook, and the step.
static uint64_t mark_of(const ddp_pass *r) {
    uint64_t hash = hash_u64(r->layout->hash + r->has_flags + 2 * (uint64_t)r->exchanges);
    hash = hash_u64(hash + (uint64_t)r->divisor) + steps_mark(r);
    const char *hook = r->ddp->hook_text;
    return (hash_u64(hash + hash_bytes(hook, strlen(hook))) & ~(uint64_t)3) | 4;
}

static gw_future *start_flags(gw_scope *s, const ddp_pass *r, int b) {
    const layout_bucket *at = &r->layout->buckets[b];
    int64_t count = at->part_count;
    uint8_t *used = gw_alloc(s, (size_t)count);
    for (int i = 0; used && i < count; i++) used[i] = r->gradients[at->parts[i].leaf] != NULL;
    gw_tensor *flags = used ? gw_from_with(s, GW_U8, used, (gw_shape){ 1, &count }) : NULL;
    return gw_all_reduce_async_with(
        s, r->ddp->group, flags, GW_BOR,
        GW_OPTIONS(gw_collective_options, .origin = bucket_origin(s, r)));
}

// The hook may run on a thread that has received a message: nothing would be received while it waits.
static gw_future *call_hook(gw_scope *s, gw_bucket *b) {
    bool may_wait = s->may_wait;
    s->may_wait = false;
    gw_future *f = b->ddp->hook(s, b, b->ddp->hook_context);
    s->may_wait = may_wait;
    return f;
}

static gw_future *start_dense(gw_scope *s, ddp_pass *r, int index) {
    gw_ddp *d = r->ddp;
    gw_bucket b = { .ddp = d, .origin = bucket_origin(s, r), .layout = r->layout, .index = index };
    b.pass = d->earlier_passes + r->number;
    b.flat = bucket_pack(s, r, index);
    if (!gw_ok(s)) return NULL;
    if (!d->hook) return bucket_start_mean(s, r, index, b.flat);
    gw_future *both[] = { call_hook(s, &b), NULL };
    if (gw_ok(s) && r->has_flags) both[1] = start_flags(s, r, index);
    if (gw_ok(s) && !both[0])
        scope_fail(s, GW_INVALID, "the hook of a DistributedDataParallel returned no future");
    return r->has_flags ? gw_collect_all(s, both, 2) : both[0];
}

// Of a group of one, the gradients are their mean.
static bool is_alone(const ddp_pass *r) {
    return r->ddp->stats.world_size == 1 && !r->ddp->hook;
}

static gw_future *start(gw_scope *s, ddp_pass *r, int b) {
    if (b == r->layout->bucket_count) return finalize_start(s, r);
    if (gw_ok(s) && r->ddp->options.check_finite) bucket_check_finite(s, r, b);
    if (!gw_ok(s)) return NULL;  // this error is reported to the others once
    gw_future *f =
        r->layout->buckets[b].is_rows ? bucket_start_rows(s, r, b) : start_dense(s, r, b);
    bucket_forget(r, b);
    return f;
}

// Takes the count of |context|.
static void take(gw_scope *s, gw_future *f, void *context) {
    launch *at = context;
    ddp_pass *r = at->pass;
    ddp_pass_take(s, r, at->bucket, f);
    mem_give(at, sizeof *at);
    ddp_pass_release(r);
}

static void keep_future(ddp_pass *r, int b, gw_future *f) {
    env *e = r->ddp->agent->env;
    env_enter(e);
    if (b < r->layout->bucket_count) r->futures[b] = handle_retain(f);
    env_leave(e);
}

// Ends a bucket that awaits nothing. |error| of status GW_OK: its results have arrived.
static void end_with(launch at, const gw_error *error) {
    gw_scope *t = agent_scope_open(at.pass->ddp->agent, 0, 0, ENV_NEVER);
    if (error->status) scope_fail_with(t, error);
    ddp_pass_take(t, at.pass, at.bucket, NULL);
    scope_close_unread(t);
    ddp_pass_release(at.pass);
}

static void keep_own(launch at) {
    ddp_pass *r = at.pass;
    gw_scope *s = r->scope;
    if (gw_ok(s) && r->ddp->options.check_finite) bucket_check_finite(s, r, at.bucket);
    if (gw_ok(s)) bucket_keep(s, r, at.bucket);
    end_with(at, scope_error(s));
    scope_release_from(s, 0);
}

void ddp_pass_report(ddp_pass *r, const gw_error *error) {
    env *e = r->ddp->agent->env;
    env_enter(e);
    bool reports = !r->has_entered_failed && !is_alone(r);
    r->has_entered_failed = true;
    env_leave(e);
    if (!reports) return;
    gw_scope *s = agent_scope_open(r->ddp->agent, 0, 0, ENV_NEVER);
    scope_fail_with(s, error);
    run_enter_failed(s, s, r->group, GROUP_KEY_FINAL + (uint64_t)r->number);
    scope_close_unread(s);
}

static void enter_failed(launch at) {
    ddp_pass *r = at.pass;
    env_enter(r->ddp->agent->env);
    gw_error error = r->error;
    env_leave(r->ddp->agent->env);
    ddp_pass_report(r, &error);
    ddp_pass_release(r);
}

static bool has_failed(const ddp_pass *r) {
    env_enter(r->ddp->agent->env);
    bool failed = r->state == DDP_PASS_FAILED;
    env_leave(r->ddp->agent->env);
    return failed;
}

static void set_out(launch at) {
    ddp_pass *r = at.pass;
    gw_scope *s = r->scope;
    if (has_failed(r)) {
        enter_failed(at);
        return;
    }
    if (is_alone(r)) {
        keep_own(at);
        return;
    }
    launch *context = mem_take(sizeof *context);
    if (!context) scope_fail(s, GW_NO_MEMORY, "no memory for a bucket");
    gw_future *f = start(s, r, at.bucket);
    if (!gw_ok(s)) ddp_pass_report(r, scope_error(s));
    if (gw_ok(s)) {
        *context = at;
        keep_future(r, at.bucket, f);
        gw_on_done(s, f, take, context);
    }
    if (!gw_ok(s)) {
        if (context) mem_give(context, sizeof *context);
        end_with(at, scope_error(s));
    }
    scope_release_from(s, 0);
}

void launch_ready(gw_ddp *d) {
    env *e = d->agent->env;
    launch at;
    handle_retain(d);
    env_enter(e);
    bool launches = !d->launching;
    if (launches) d->launching = true;
    while (launches && find_next_on_loop(d, &at)) {
        ddp_pass *r = at.pass;
        bool last = r->has_set_out;
        final_begin_on_loop(r->group, (uint64_t)r->number, mark_of(r));
        env_leave(e);
        set_out(at);
        env_enter(e);
        final_begin_on_loop(r->group, 0, 0);
        if (last) {
            env_leave(e);
            ddp_pass_release(r);  // that of the list
            env_enter(e);
        }
    }
    if (launches) d->launching = false;
    env_leave(e);
    handle_release(d);
}
