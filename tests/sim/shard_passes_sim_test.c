// Passes with sharded gradients, in the simulator: several of one scope, with hooks, of tables, and begun by other
// workers.
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <string.h>

enum { LEAVES = 5 };
static const int64_t sizes[LEAVES] = { 3, 8, 1, 5, 2 };

typedef struct leaves {
    gw_tensor *x[LEAVES];
    gw_module *m;
    gw_optimizer *opt;
    gw_group *counting;
    gw_scope *scope;  // of the pass
} leaves;

static gw_tensor *same(gw_scope *s, gw_module *m, gw_tensor *x) {
    (void)s, (void)m;
    return x;
}

static void open_leaves(gw_scope *s, leaves *l) {
    l->m = gw_module_open(s, "leaves", same, l);
    for (int i = 0; i < LEAVES; i++) {
        l->x[i] = gw_requires_grad(s, gw_full(s, GW_F32, i + 1, sizes[i]));
        gw_module_register_parameter(s, l->m, gw_format(s, "x%d", i), l->x[i]);
    }
    l->opt = gw_sgd(s, gw_parameters(s, l->m), .lr = 0.5);
    l->counting = gw_group_world(s);
}

static gw_tensor *weigh(gw_scope *s, const leaves *l, int from, double by) {
    gw_tensor *sum = gw_sum(s, gw_mul(s, l->x[from], by));
    for (int i = from + 1; i < LEAVES; i++)
        sum = gw_add(s, sum, gw_sum(s, gw_mul(s, l->x[i], by * (i + 1))));
    return sum;
}

static void expect_ok(gw_scope *s, const char *name) {
    if (!gw_ok(s)) fail_msg("%s: %s", name, gw_scope_error(s)->text);
}

static void expect_error(gw_scope *s, gw_status status, const char *text) {
    if (gw_scope_error(s)->status != status || !strstr(gw_scope_error(s)->text, text))
        fail_msg("%s: %s", gw_status_name(gw_scope_error(s)->status), gw_scope_error(s)->text);
    gw_scope_clear(s);
}

// ---- Several passes of one scope ----------------------------------------------------------------

typedef struct way {
    bool is_static, checks_finite, copies, is_flat, overlaps;
} way;

// Each gradient is with one member, and is |own| or a mean of small numbers there, so that only the right bits are
// possible.
static void expect_kept_once(gw_scope *s, const leaves *l, int from, double mean) {
    for (int i = 0; i < LEAVES; i++) {
        gw_tensor *g = gw_grad_find(s, l->x[i]);
        expect_ok(s, "a pass");
        double want = mean * (i > from ? i + 1 : 1);
        if (g && gw_item(s, gw_max(s, g)) != want)
            fail_msg("x%d: %g, not %g", i, gw_item(s, gw_max(s, g)), want);
        int64_t has = g != NULL;
        gw_tensor *all = gw_all_reduce(s, l->counting, gw_from(s, &has, 1), GW_SUM);
        assert_int_equal(gw_item_int(s, all), i >= from);
        if (g) continue;
        gw_grad(s, l->x[i]);
        bool is_kept = strstr(gw_scope_error(s)->text, "is sharded: another member has it");
        assert_true(is_kept || i < from);
        expect_error(s, GW_NOT_FOUND, "of this tensor");
    }
}

// In ranges of one length, which are the gradients of views: each number is with one member.
static void expect_ranges(gw_scope *s, const leaves *l) {
    int64_t own = 0, all = 0, n = gw_rpc_world_size(s);
    for (int i = 0; i < LEAVES; i++) all += sizes[i];
    for (int i = 0; i < gw_grads_count(s); i++) own += gw_numel(gw_grads_get(s, i).grad);
    assert_true(own <= (all + n - 1) / n);
    gw_tensor *sum = gw_all_reduce(s, l->counting, gw_from(s, &own, 1), GW_SUM);
    assert_int_equal(gw_item_int(s, sum), all);
    for (int i = 0; i < LEAVES && n == 4; i++) {
        if (gw_grad_find(s, l->x[i])) continue;
        gw_grad(s, l->x[i]);
        assert_true(strstr(gw_scope_error(s)->text, "is sharded: another member has it") ||
                    strstr(gw_scope_error(s)->text, "is sharded: this member has a range of it"));
        expect_error(s, GW_NOT_FOUND, "of this tensor");
    }
}

static void expect_kept(gw_scope *s, const leaves *l, double mean, bool is_flat) {
    if (is_flat)
        expect_ranges(s, l);
    else
        expect_kept_once(s, l, 0, mean);
}

static void expect_weights(gw_scope *root, const leaves *l, double moved) {
    gw_scope *s = gw_scope_open(root);
    gw_no_grad(s);
    for (int i = 0; i < LEAVES; i++) {
        double want = i + 1 - 0.5 * moved * (i ? i + 1 : 1);
        double low = gw_item(s, gw_min(s, l->x[i])), high = gw_item(s, gw_max(s, l->x[i]));
        if (low != want || high != want) fail_msg("x%d: %g to %g, not %g", i, low, high, want);
    }
    gw_scope_close_up(s);
}

static gw_tensor *walk_inside(gw_scope *s, gw_tensor *grad, void *context) {
    const leaves *l = context;
    (void)s;
    gw_backward(l->scope, weigh(l->scope, l, 0, 4));
    return grad;
}

// Passes that are not synchronised, one that is, with another inside a hook, and more of them.
static void accumulate(gw_scope *root, int rank, void *context) {
    const way *how = context;
    int n = gw_rpc_world_size(root);
    leaves l;
    open_leaves(root, &l);
    gw_ddp *ddp = gw_ddp_open(root, l.m, .first_bucket_bytes = 8, .bucket_bytes = 16,
                              .static_graph = how->is_static, .check_finite = how->checks_finite,
                              .copy_gradients = how->copies);
    gw_optimizer_shard(root, l.opt, .gradients = GW_SHARDED, .flat = how->is_flat,
                       .overlap = how->overlaps);
    double ranks = n * (n - 1) / 2.0 / n, moved = 0;
    for (int step = 0; step < 4; step++) {
        gw_scope *s = gw_scope_open(root);
        bool has_inside = step >= 2 && !how->is_static;
        gw_ddp_no_sync(s);
        for (int i = 0; i < 2; i++) gw_backward(s, weigh(s, &l, 0, rank + i));
        gw_ddp_sync(s);
        gw_tensor *loss = weigh(s, &l, 0, rank * 2 + step);
        l.scope = s;
        if (has_inside) gw_register_hook(s, loss, walk_inside, &l);
        gw_backward(s, loss);
        double mean = 4 * ranks + 1 + step + (has_inside ? 4 : 0);
        expect_kept(s, &l, mean, how->is_flat);
        if (step % 2) {
            gw_backward(s, weigh(s, &l, 0, rank + 1));
            mean += ranks + 1;
            expect_kept(s, &l, mean, how->is_flat);
            if (!how->is_static) gw_ddp_skip(s, ddp);
            expect_kept(s, &l, mean, how->is_flat);
        }
        gw_optimizer_step(s, l.opt);
        gw_ddp_check(s, ddp);
        expect_ok(s, "the step");
        expect_weights(s, &l, moved += mean);
        gw_scope_close_up(s);
    }
}

static void gradients_of_a_scope_add_up(void **state) {
    (void)state;
    for (int n = 1; n <= 4; n *= 2)
        for (int i = 0; i < 32; i++) {
            way how = { .is_static = i & 1,
                        .checks_finite = i & 2,
                        .copies = i & 4,
                        .is_flat = i & 8,
                        .overlaps = i & 16 };
            cluster_run((uint64_t)(n + i), (cluster_options){ .world_size = n }, accumulate, &how);
        }
}

// Of leaves that no member has used there is no gradient anywhere; of those that one has, one mean.
static void leave_unused(gw_scope *root, int rank, void *context) {
    (void)context;
    leaves l;
    open_leaves(root, &l);
    gw_ddp_open(root, l.m, .first_bucket_bytes = 8, .bucket_bytes = 16);
    gw_optimizer_shard(root, l.opt, .gradients = GW_SHARDED);
    for (int step = 0; step < 4; step++) {
        gw_scope *s = gw_scope_open(root);
        int from = step % LEAVES;
        gw_backward(s, weigh(s, &l, rank ? LEAVES - 1 : from, 8));
        gw_tensor *last = gw_grad_find(s, l.x[LEAVES - 1]);
        for (int i = 0; i < LEAVES; i++) {
            int64_t has = gw_grad_find(s, l.x[i]) != NULL;
            gw_tensor *all = gw_all_reduce(s, l.counting, gw_from(s, &has, 1), GW_SUM);
            assert_int_equal(gw_item_int(s, all), i >= from);
        }
        double first = from == LEAVES - 1 ? 8 : 8 * LEAVES;
        if (last) assert_true(gw_item(s, gw_max(s, last)) == (first + 3 * 8) / 4);
        gw_optimizer_step(s, l.opt);
        expect_ok(s, "the step");
        gw_scope_close_up(s);
    }
}

static void unused_leaves_have_no_gradient(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++)
        cluster_run(seed, (cluster_options){ .world_size = 4 }, leave_unused, NULL);
}

// The gradients of one member are not finite: all get the name of the parameter.
static void contribute_nan(gw_scope *root, int rank, void *context) {
    (void)context;
    leaves l;
    open_leaves(root, &l);
    gw_ddp_open(root, l.m, .check_finite = true);
    gw_optimizer_shard(root, l.opt, .gradients = GW_SHARDED);
    gw_scope *s = gw_scope_open(root);
    gw_backward(s, weigh(s, &l, 0, rank == 1 ? 3e38 : 1));
    expect_error(s, GW_INVALID, "\"x1\"[0] is infinite");
    gw_scope_close_up(s);
    s = gw_scope_open(root);
    gw_backward(s, weigh(s, &l, 0, 2));
    expect_kept_once(s, &l, 0, 2);
    gw_scope_close_up(s);
}

static void numbers_that_are_not_finite_are_named(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++)
        cluster_run(seed, (cluster_options){ .world_size = 3 }, contribute_nan, NULL);
}

// An optimizer that was re-formed without its models has other parts than their gradients.
static void reform_alone(gw_scope *root, int rank, void *context) {
    const bool flat = context != NULL;
    gw_worker others[] = { gw_rpc_worker(root, 2), gw_rpc_worker(root, 0), gw_rpc_worker(root, 1) };
    leaves l;
    open_leaves(root, &l);
    gw_ddp *ddp = gw_ddp_open(root, l.m);
    gw_optimizer_shard(root, l.opt, .gradients = GW_SHARDED, .flat = flat);
    gw_group *g = gw_group_open(root, others, 3);
    gw_optimizer_reform(root, l.opt, g);
    gw_scope *s = gw_scope_open(root);
    gw_backward(s, weigh(s, &l, 0, rank + 1));
    gw_optimizer_step(s, l.opt);
    expect_error(s, GW_WRONG_STATE, "gradients are still sharded as before gw_optimizer_reform");
    gw_scope_close_up(s);
    gw_ddp_reform(root, ddp, l.opt, g);
    s = gw_scope_open(root);
    gw_backward(s, weigh(s, &l, 0, rank + 1));
    gw_optimizer_step(s, l.opt);
    expect_ok(s, "behind both");
    expect_weights(s, &l, 2);
    gw_scope_close_up(s);
}

static void gradients_follow_resharded_state(void **state) {
    (void)state;
    int flat;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        cluster_run(seed, (cluster_options){ .world_size = 3 }, reform_alone, NULL);
        cluster_run(seed, (cluster_options){ .world_size = 3 }, reform_alone, &flat);
    }
}

// ---- Tables -------------------------------------------------------------------------------------

enum { ROWS = 4096, WIDTH = 16, USED = 64 };

// The bytes that a member sends in a pass over a table that rank 0 keeps.
static int64_t bytes_of_pass(gw_scope *root, int rank, bool is_shared_out) {
    gw_module *m = gw_nn_embedding(root, ROWS, WIDTH, .sparse = true);
    gw_ddp_open(root, m);
    gw_optimizer *opt = gw_adagrad(root, gw_parameters(root, m));
    if (is_shared_out) gw_optimizer_shard(root, opt, .gradients = GW_SHARDED);
    gw_scope *s = gw_scope_open(root);
    int64_t rows[USED];
    for (int i = 0; i < USED; i++) rows[i] = rank * 7 + i;
    gw_tensor *loss = gw_sum(s, gw_module_call(s, m, gw_from(s, rows, USED)));
    gw_barrier(s, gw_group_world(s, .name = "before"));
    int64_t before = (int64_t)gw_rpc_get_stats(s).bytes_sent;
    gw_backward(s, loss);
    gw_tensor *g = gw_grad_find(s, gw_module_parameter_at(s, m, 0));
    expect_ok(s, "a pass");
    assert_true((g != NULL) == (rank == 0 || !is_shared_out));
    // a pass may return before its last message to others has left
    gw_barrier(s, gw_group_world(s, .name = "behind"));
    int64_t bytes = (int64_t)gw_rpc_get_stats(s).bytes_sent - before;
    gw_scope_close_up(s);
    return bytes;
}

static void send_rows(gw_scope *root, int rank, void *context) {
    (void)context;
    const int64_t rows = USED * (WIDTH * 4 + 8);
    int64_t whole = bytes_of_pass(root, rank, false), own = bytes_of_pass(root, rank, true);
    assert_true(whole > 2 * rows);
    if (own > (rank ? rows + rows / 2 : rows / 2))
        fail_msg("w%d sends %lld bytes for %lld of rows", rank, (long long)own, (long long)rows);
}

static void rows_are_sent_only_to_the_owner_of_the_table(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 3 }, send_rows, NULL);
}

// ---- Hooks --------------------------------------------------------------------------------------

// Returns the mean of twice the numbers, of the whole bucket: a hook without support for sections.
static gw_future *double_all(gw_scope *s, gw_bucket *b, void *context) {
    (void)context;
    gw_tensor *x = gw_mul(s, gw_bucket_tensor(s, b), 2);
    return gw_all_reduce_async(s, gw_bucket_group(b), x, GW_AVG);
}

static gw_value double_it(gw_scope *s, gw_value v, void *context) {
    (void)context;
    return gw_value_of_tensor(gw_mul(s, gw_tensor_of(s, v), 2));
}

// The same for the result of the library's hook. The gradients of a bucket are views, in the order of its tensor.
static gw_future *double_each(gw_scope *s, gw_bucket *b, void *context) {
    gw_tensor *parts[LEAVES];
    int count = gw_bucket_parameter_count(b);
    for (int i = 0; i < count; i++) {
        gw_tensor *g = gw_bucket_gradient(s, b, i);
        int64_t numel = gw_numel(g);
        assert_true(gw_item(s, gw_max(s, g)) == gw_item(s, gw_min(s, g)));
        parts[i] = gw_reshape_with(s, g, (gw_shape){ 1, &numel });
    }
    gw_tensor *all = gw_cat(s, parts, count, 0);
    if (gw_ok(s)) assert_true(gw_equal(s, all, gw_bucket_tensor(s, b)));
    return gw_then(s, gw_hook_all_reduce(s, b, context), double_it, NULL);
}

typedef struct hook {
    gw_comm_hook *run;
    void *context;
    int64_t bytes;  // of buckets
    bool is_second, is_flat;
} hook;

static const gw_hook_around around_all = { double_all, NULL };

static void step_with(gw_scope *root, leaves *l, int rank, int step) {
    gw_scope *s = gw_scope_open(root);
    gw_backward(s, weigh(s, l, 0, 0.1 + rank / 7.0 + step));
    gw_optimizer_step(s, l->opt);
    expect_ok(s, "a step with a hook");
    gw_scope_close_up(s);
}

static void compare_hooks(gw_scope *root, int rank, void *context) {
    const hook *h = context;
    leaves plain, shared;
    open_leaves(root, &plain);
    open_leaves(root, &shared);
    for (int i = 0; i < 2; i++) {
        leaves *l = i ? &shared : &plain;
        gw_ddp *ddp =
            gw_ddp_open(root, l->m, .first_bucket_bytes = h->bytes, .bucket_bytes = h->bytes);
        for (int k = 0; k < 2; k++)
            if (k == h->is_second)
                gw_ddp_set_hook(root, ddp, h->run, h->context);
            else if (i)
                gw_optimizer_shard(root, l->opt, .gradients = GW_SHARDED, .flat = h->is_flat);
    }
    for (int step = 0; step < 3; step++) {
        step_with(root, &plain, rank, step);
        step_with(root, &shared, rank, step);
        for (int i = 0; i < LEAVES; i++)
            if (!gw_equal(root, plain.x[i], shared.x[i])) fail_msg("step %d, x%d", step, i);
    }
    expect_ok(root, "hooks");
}

static void hooks_give_the_results_of_unsharded_passes(void **state) {
    (void)state;
    static const hook hooks[] = { { .run = gw_hook_all_reduce },
                                  { .run = gw_hook_f16 },
                                  { .run = gw_hook_bf16 },
                                  { .run = gw_hook_quantize_tensor },
                                  { .run = gw_hook_f16_around, .context = (void *)&around_all },
                                  { .run = double_each },
                                  { .run = double_all } };
    for (int n = 1; n <= 3; n++)
        for (size_t i = 0; i < sizeof hooks / sizeof *hooks * 8; i++) {
            hook h = hooks[i / 8];
            h.bytes = i & 1 ? 16 : 1 << 20;
            h.is_second = i & 2;
            h.is_flat = i & 4;
            cluster_run(i + 1, (cluster_options){ .world_size = n }, compare_hooks, &h);
        }
}

// Half-precision numbers are sent to their owners only.
static int64_t bytes_with(gw_scope *root, gw_comm_hook *run, bool is_shared_out) {
    gw_module *m = gw_nn_linear(root, 256, 256);
    gw_ddp *ddp = gw_ddp_open(root, m, .first_bucket_bytes = 1 << 20);
    if (run) gw_ddp_set_hook(root, ddp, run, NULL);
    gw_optimizer *opt = gw_sgd(root, gw_parameters(root, m));
    if (is_shared_out) gw_optimizer_shard(root, opt, .gradients = GW_SHARDED);
    gw_scope *s = gw_scope_open(root);
    gw_tensor *loss = gw_sum(s, gw_module_call(s, m, gw_ones(s, GW_F32, 1, 256)));
    gw_barrier(s, gw_group_world(s, .name = "before"));
    int64_t before = (int64_t)gw_rpc_get_stats(s).bytes_sent;
    gw_backward(s, loss);
    gw_barrier(s, gw_group_world(s, .name = "behind"));
    int64_t bytes = (int64_t)gw_rpc_get_stats(s).bytes_sent - before;
    expect_ok(s, "a pass");
    gw_scope_close_up(s);
    return bytes;
}

static void send_halves(gw_scope *root, int rank, void *context) {
    (void)context;
    int64_t whole = bytes_with(root, gw_hook_f16, false), own = bytes_with(root, gw_hook_f16, true);
    if (own > (rank ? whole * 4 / 5 : whole / 10))
        fail_msg("%lld bytes, and %lld where all get all", (long long)own, (long long)whole);
}

static void halves_are_sent_only_to_owners(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 3 }, send_halves, NULL);
}

static void refuse_hook(gw_scope *root, gw_comm_hook *run, void *context, const char *text) {
    leaves l;
    open_leaves(root, &l);
    gw_ddp *ddp = gw_ddp_open(root, l.m);
    gw_optimizer_shard(root, l.opt, .gradients = GW_SHARDED);
    gw_ddp_set_hook(root, ddp, run, context);
    expect_error(root, GW_INVALID, text);
    open_leaves(root, &l);
    ddp = gw_ddp_open(root, l.m);
    gw_ddp_set_hook(root, ddp, run, context);
    gw_optimizer_shard(root, l.opt, .gradients = GW_SHARDED);
    expect_error(root, GW_INVALID, text);
    gw_scope *s = gw_scope_open(root);  // it continues, with the whole state everywhere
    gw_backward(s, weigh(s, &l, 0, 1));
    gw_optimizer_step(s, l.opt);
    expect_ok(s, "a step");
    gw_scope_close_up(s);
}

static void refuse_hooks(gw_scope *root, int rank, void *context) {
    (void)rank, (void)context;
    gw_power_sgd *low = gw_power_sgd_open(root, .start = 2), *square = gw_power_sgd_open(root);
    gw_hook_around around = { gw_hook_power_sgd, gw_power_sgd_open(root) };
    gw_local_sgd seldom = { .start = 2 };
    refuse_hook(root, gw_hook_power_sgd, low,
                "PowerSGD keeps the differences of all gradients on each member");
    refuse_hook(root, gw_hook_batched_power_sgd, square,
                "PowerSGD keeps the differences of all gradients on each member");
    refuse_hook(root, gw_hook_bf16_around, &around,
                "PowerSGD keeps the differences of all gradients on each member");
    refuse_hook(root, gw_hook_local_sgd, &seldom,
                "with local SGD each member has gradients of its own");
}

static void hooks_that_need_whole_gradients_are_refused(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 2 }, refuse_hooks, NULL);
}

// ---- Stages -------------------------------------------------------------------------------------
// Trainers w0 and w1 pass through a stage with replicas on w2 and w3, which shard its gradients.
// shared out between these.

enum { TRAINERS = 2, SIZE = 4, STAGE_LEAVES = 2 };

static bool stage_is_flat;  // with parameters of other sizes, so that one is cut

typedef struct shared_stage {
    gw_scope *own;
    gw_tensor *w[STAGE_LEAVES];
    gw_module *m;
    gw_optimizer *opt;
} shared_stage;

GW_CLASS(shared_stage, open_shared_stage);

static gw_tensor *forward_stage(gw_scope *s, gw_module *m, gw_tensor *x) {
    const shared_stage *st = gw_module_state(m);
    return gw_add(s, gw_mul(s, x, st->w[0]), st->w[1]);
}

static void open_shared_stage(gw_scope *own, shared_stage *self, const gw_args *a) {
    (void)a;
    self->own = own;
    self->m = gw_module_open(own, "stage", forward_stage, self);
    for (int i = 0; i < STAGE_LEAVES; i++) {
        self->w[i] = gw_requires_grad(own, gw_full(own, GW_F32, 3, stage_is_flat && i ? 1 : SIZE));
        gw_module_register_parameter(own, self->m, gw_format(own, "w%d", i), self->w[i]);
    }
}

// On the pool, as the step: they wait for the other replica.
GW_METHOD(shared_stage, share, GW_POOL, "") {
    (void)a;
    gw_scope *own = self->own;
    gw_group *g = cluster_open_group(own, 2, 2, "stage", 0);
    gw_ddp_open(own, self->m, .group = g, .first_bucket_bytes = 1);
    self->opt = gw_sgd(own, gw_parameters(own, self->m), .lr = 0.5);
    gw_optimizer_shard(own, self->opt, .group = g, .gradients = GW_SHARDED, .flat = stage_is_flat);
    if (!gw_ok(own)) gw_fail(s, GW_INVALID, "%s", gw_scope_error(own)->text);
    return gw_none();
}

GW_METHOD(shared_stage, forward, GW_INLINE, "tensor") {
    return gw_value_of(gw_module_call(s, self->m, gw_arg_tensor(s, a, 0)));
}

// Of parameter |i|; -1: there is none here.
GW_METHOD(shared_stage, grad, GW_INLINE, "int") {
    gw_tensor *g = gw_grad_find(s, self->w[gw_arg_int(s, a, 0)]);
    return gw_value_of(g ? gw_item(s, gw_max(s, g)) : -1.0);
}

GW_METHOD(shared_stage, step, GW_POOL, "") {
    (void)a;
    gw_optimizer_step(s, self->opt);
    return gw_none();
}

GW_METHOD(shared_stage, weight, GW_INLINE, "int") {
    gw_scope *t = gw_scope_open(s);
    gw_no_grad(t);
    double w = gw_item(t, gw_max(t, self->w[gw_arg_int(s, a, 0)]));
    gw_scope_close_up(t);
    return gw_value_of(w);
}

static void enter_barrier(gw_scope *root, int count) {
    int all;
    const gw_worker *workers = gw_rpc_workers(root, &all);
    gw_rpc_barrier(root, workers, count < all ? count : all);
}

static void walk_through(gw_scope *s, gw_rref *r, double x) {
    gw_tensor *y = gw_tensor_of(s, gw_rpc_sync(s, r, "forward", gw_full(s, GW_F32, x, SIZE)));
    gw_backward(s, gw_sum(s, y));
}

// The stage of trainer 0 keeps parameter 0, that of trainer 1 parameter 1.
static void expect_of_stage(gw_scope *s, gw_rref *r, int rank, double first, double second) {
    double got[] = { gw_float_of(s, gw_rpc_sync(s, r, "grad", 0)),
                     gw_float_of(s, gw_rpc_sync(s, r, "grad", 1)) };
    expect_ok(s, "a pass through a stage");
    if (stage_is_flat)
        assert_true(got[0] == -1 && (got[1] == -1 || (rank && got[1] == second)));
    else if (got[rank] != (rank ? second : first) || got[!rank] != -1)
        fail_msg("w%d: %g and %g, not %g and %g", rank, got[0], got[1], first, second);
}

static void train_stage(gw_scope *root, int rank) {
    gw_rref *r = gw_remote(root, TRAINERS + rank, "shared_stage");
    gw_rpc_sync(root, r, "share");
    enter_barrier(root, TRAINERS);
    double weights[STAGE_LEAVES] = { 3, 3 };
    for (int step = 0; step < 4; step++) {
        gw_scope *s = gw_scope_open(root);
        // Means of the gradients of both trainers; a weight of one number gets the sum of all.
        double first = step + 1.5, one = stage_is_flat ? SIZE : 1, second = one;
        if (step % 2) {
            gw_ddp_no_sync(s);
            walk_through(s, r, 2 * rank + 4);
            gw_ddp_sync(s);
            first += 5, second += one;
        }
        walk_through(s, r, rank + step + 1);
        expect_of_stage(s, r, rank, first, second);
        if (step > 1) {
            walk_through(s, r, 2 * rank + 6);
            first += 7, second += one;
            expect_of_stage(s, r, rank, first, second);
        }
        gw_rpc_sync(s, r, "step");
        expect_ok(s, "a step");
        enter_barrier(root, TRAINERS);
        weights[0] -= first / 2, weights[1] -= second / 2;
        for (int i = 0; i < STAGE_LEAVES; i++) {
            double w = gw_float_of(s, gw_rpc_sync(s, r, "weight", i));
            if (w != weights[i]) fail_msg("step %d, w%d: %g, not %g", step, i, w, weights[i]);
        }
        gw_scope_close_up(s);
    }
}

static void train_stages(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank < TRAINERS) train_stage(root, rank);
    enter_barrier(root, 2 * TRAINERS);
}

static void train_by_seed(uint64_t seed, void *context) {
    stage_is_flat = context != NULL;
    cluster_run(seed,
                (cluster_options){
                    .world_size = 2 * TRAINERS, .threads = 1, .network = sim_varied(seed, 0) },
                train_stages, NULL);
}

static void hooks_of_passes_of_other_initiators_are_refused(void **state) {
    (void)state;
    testing_for_seeds(20, train_by_seed, NULL);
    testing_for_seeds(20, train_by_seed, &stage_is_flat);
}

GW_TESTS(shard_passes_sim, gradients_of_a_scope_add_up, unused_leaves_have_no_gradient,
         gradients_follow_resharded_state, numbers_that_are_not_finite_are_named,
         rows_are_sent_only_to_the_owner_of_the_table, hooks_give_the_results_of_unsharded_passes,
         halves_are_sent_only_to_owners, hooks_that_need_whole_gradients_are_refused,
         hooks_of_passes_of_other_initiators_are_refused);
