// Joins in simulated jobs: members have inputs for different numbers of iterations, and the results of each are those
// of one process with the remaining inputs.
#include "base/random.h"
#include "base/scope.h"
#include "testing/cluster.h"
#include "testing/testing.h"
#include <gradwire.h>

#include <stdio.h>
#include <string.h>

enum { MEMBERS_MAX = 4, LEAVES = 4, SIZE = 3, INPUTS_MAX = 6, SEEDS = 60 };

static struct scene {
    uint64_t seed;
    int members;
    int inputs[MEMBERS_MAX];  // of each member
    int most;
    gw_error errors[MEMBERS_MAX];
} now;

static uint32_t draw(uint64_t key, uint64_t i, uint32_t below) {
    uint32_t out[4];
    philox(now.seed * 1000003 + key, i, out);
    return out[0] % below;
}

static void draw_scene(uint64_t seed) {
    memset(&now, 0, sizeof now);
    now.seed = seed;
    now.members = 2 + (int)draw(1, 0, MEMBERS_MAX - 1);
    for (int i = 0; i < now.members; i++) {
        now.inputs[i] = (int)draw(1, 1 + (uint64_t)i, INPUTS_MAX + 1);
        if (now.inputs[i] > now.most) now.most = now.inputs[i];
    }
}

static int active_in(int step) {
    int active = 0;
    for (int i = 0; i < now.members; i++) active += now.inputs[i] > step;
    return active;
}

// The highest rank that has inputs for the last iteration.
static int last_rank(void) {
    int last = now.members - 1;
    while (now.inputs[last] < now.most) last--;
    return last;
}

static void expect_error(gw_scope *s, gw_status status, const char *text) {
    if (gw_scope_error(s)->status != status || !strstr(gw_scope_error(s)->text, text))
        fail_msg("%s: %s", gw_status_name(gw_scope_error(s)->status), gw_scope_error(s)->text);
    gw_scope_clear(s);
}

static void expect_ok(gw_scope *s) {
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
}

static void run_one(uint64_t seed, void *context) {
    draw_scene(seed);
    cluster_run(seed,
                (cluster_options){ .world_size = now.members, .network = sim_varied(seed, 300) },
                *(cluster_main **)context, NULL);
}

static void run_seeds(int seeds, cluster_main *main) {
    testing_for_seeds(seeds, run_one, &main);
}

// ---- Replicas -----------------------------------------------------------------------------------

typedef struct model {
    gw_tensor *x[LEAVES], *buffer;
    gw_module *m;
} model;

static gw_tensor *same(gw_scope *s, gw_module *m, gw_tensor *x) {
    (void)s, (void)m;
    return x;
}

static void open_model(gw_scope *s, model *m) {
    m->m = gw_module_open(s, "model", same, m);
    for (int i = 0; i < LEAVES; i++) {
        m->x[i] = gw_requires_grad(s, gw_full(s, GW_F32, i + 1, SIZE));
        gw_module_register_parameter(s, m->m, gw_format(s, "x%d", i), m->x[i]);
    }
    m->buffer = gw_full(s, GW_F32, -1, 1);
    gw_module_register_buffer(s, m->m, "buffer", m->buffer);
}

// Every third iteration only accumulates, on all members; no member uses leaf 3, some use leaf 2.
static bool is_synchronised(int step) {
    return draw(2, 0, 3) || step % 3 != 1;
}

static double use_of(int rank, int step, int i) {
    uint32_t by = draw(100 + (uint64_t)rank, (uint64_t)(step * LEAVES + i), 8);
    return i == 3 || (i == 2 && by % 2) ? 0 : 12 * (by + 1);
}

// The input of |rank| in |step|, with its accumulated inputs of before.
static double contribution_of(int rank, int step, int i) {
    if (now.inputs[rank] <= step) return 0;
    bool adds = step && !is_synchronised(step - 1);
    return use_of(rank, step, i) + (adds ? use_of(rank, step - 1, i) : 0);
}

static bool divides_by_active(void) {
    return draw(2, 1, 2);
}

static double mean_of(int step, int i) {
    double sum = 0;
    for (int rank = 0; rank < now.members; rank++) sum += contribution_of(rank, step, i);
    return sum / (divides_by_active() ? active_in(step) : now.members);
}

static void walk(gw_scope *s, model *m, int rank, int step) {
    gw_tensor *x = gw_module_call(s, m->m, gw_zeros(s, GW_F32, SIZE)), *sum = x;
    for (int i = 0; i < LEAVES; i++)
        if (use_of(rank, step, i) > 0)
            sum = gw_add(s, sum, gw_mul(s, m->x[i], use_of(rank, step, i)));
    gw_backward(s, gw_sum(s, sum));
}

static double first_of(gw_scope *s, gw_tensor *x) {
    return gw_item(s, gw_slice(s, x, 0, 0, 1, 1));
}

static bool is_close(double a, double b) {
    double d = a > b ? a - b : b - a;
    return d <= 1e-5 * (1 + (b > 0 ? b : -b));
}

static void check_means(gw_scope *s, const model *m, int step) {
    expect_ok(s);
    for (int i = 0; i < LEAVES; i++) {
        gw_tensor *g = gw_grad_find(s, m->x[i]);
        double got = g ? first_of(s, g) : 0, want = mean_of(step, i);
        if (!is_close(got, want)) fail_msg("step %d, leaf %d: %g, not %g", step, i, got, want);
    }
}

static void move(gw_scope *s, model *m) {
    gw_no_grad(s);
    for (int i = 0; i < LEAVES; i++) {
        gw_tensor *g = gw_grad_find(s, m->x[i]);
        if (g) gw_copy_(s, m->x[i], gw_sub(s, m->x[i], g));
    }
    gw_enable_grad(s);
}

// The buffer holds the iteration of its member before the forward: of the highest active one.
static void note_step(gw_scope *s, model *m, int rank, int step) {
    gw_no_grad(s);
    gw_copy_(s, m->buffer, gw_full(s, GW_F32, 100 * rank + step, 1));
    gw_enable_grad(s);
}

static int highest_active(int step) {
    int last = now.members - 1;
    while (now.inputs[last] <= step) last--;
    return last;
}

static void iterate(gw_scope *outer, model *m, int rank) {
    gw_scope *s = NULL;
    for (int step = 0; step < now.inputs[rank]; step++) {
        if (!s) s = gw_scope_open(outer);
        bool synchronised = is_synchronised(step);
        note_step(s, m, rank, step);
        if (synchronised)
            gw_ddp_sync(s);
        else
            gw_ddp_no_sync(s);
        walk(s, m, rank, step);
        expect_ok(s);
        int from = synchronised ? highest_active(step) : rank;
        assert_true(gw_item(s, m->buffer) == 100 * from + step);
        if (!synchronised) continue;
        check_means(s, m, step);
        move(s, m);
        gw_scope_close_up(s);
        s = NULL;
    }
    if (s) gw_scope_close_up(s);
}

static void check_weights(gw_scope *s, const model *m) {
    expect_ok(s);
    for (int i = 0; i < LEAVES; i++) {
        double want = i + 1;
        for (int step = 0; step < now.most; step++)
            if (is_synchronised(step)) want -= mean_of(step, i);
        double got = first_of(s, m->x[i]);
        if (!is_close(got, want)) fail_msg("leaf %d: %g, not %g", i, got, want);
    }
}

// Accumulated gradients of unsynchronised steps at the end of some member's inputs are lost there.
static void train(gw_scope *root, int rank, void *context) {
    (void)context;
    model m;
    int64_t small = draw(2, 2, 2) ? 1 : 1 << 20;
    open_model(root, &m);
    gw_ddp *ddp = gw_ddp_open(root, m.m, .first_bucket_bytes = small, .bucket_bytes = small);
    if (draw(2, 3, 3) == 0) gw_ddp_set_hook(root, ddp, gw_hook_all_reduce, NULL);
    gw_joinable part = { .ddp = ddp };
    gw_join *join = gw_join_open(root, &part, 1, .active_divisor = divides_by_active());
    iterate(root, &m, rank);
    gw_join_close(root, join);
    check_weights(root, &m);
    gw_ddp_check(root, ddp);
    expect_ok(root);
    gw_join_iteration at = gw_join_get_iteration(join);
    assert_int_equal(at.number, now.most);
    assert_int_equal(at.last, last_rank());
    gw_scope *s = gw_scope_open(root);  // without a join all members step again
    gw_backward(s, gw_sum(s, gw_mul(s, gw_module_call(s, m.m, m.x[0]), rank)));
    assert_true(first_of(s, gw_grad(s, m.x[0])) == (now.members - 1) / 2.0);
    gw_scope_close_up(s);
}

static void means_are_over_the_remaining_inputs(void **state) {
    (void)state;
    run_seeds(SEEDS, train);
}

// ---- Optimizers ---------------------------------------------------------------------------------

typedef struct nets {
    gw_module *replica, *whole;
    gw_optimizer *opt, *reference;
} nets;

static gw_tensor *batch_of(gw_scope *s, int rank, int step) {
    float x[2 * SIZE];
    for (int i = 0; i < 2 * SIZE; i++)
        x[i] = (float)draw(200 + (uint64_t)rank, (uint64_t)(step * 50 + i), 9) - 4;
    return gw_from(s, x, 2, SIZE);
}

static gw_tensor *loss_of(gw_scope *s, gw_module *m, gw_tensor *x) {
    gw_tensor *y = gw_module_call(s, m, x);
    return gw_sum(s, gw_mul(s, y, y));
}

// Steps as one process, with the sum over the members that have inputs.
static void step_alone(gw_scope *outer, nets *n, int step) {
    gw_scope *s = gw_scope_open(outer);
    for (int rank = 0; rank < now.members; rank++)
        if (now.inputs[rank] > step)
            gw_backward(s, gw_div(s, loss_of(s, n->whole, batch_of(s, rank, step)), now.members));
    gw_optimizer_step(s, n->reference);
    gw_scope_close_up(s);
}

static void expect_same_weights(gw_scope *s, gw_module *a, gw_module *b) {
    for (int i = 0; i < gw_module_parameter_count(a); i++) {
        gw_tensor *x = gw_module_parameter_at(s, a, i), *y = gw_module_parameter_at(s, b, i);
        expect_ok(s);
        double d = gw_item(s, gw_max(s, gw_abs(s, gw_sub(s, gw_detach(s, x), gw_detach(s, y)))));
        if (!(d < 1e-5)) fail_msg("parameter %d differs by %g", i, d);
    }
}

// A member that has closed keeps its part of the optimizer's state as if it had continued.
static void step_shards(gw_scope *root, int rank, void *context) {
    (void)context;
    int kind = (int)draw(3, 0, 5);  // plain, ZeRO-1, in ranges, ZeRO-2, in ranges
    nets n = { .replica = gw_nn_linear(root, SIZE, 2) };
    n.whole = gw_nn_linear(root, SIZE, 2);
    gw_ddp *ddp = gw_ddp_open(root, n.replica);
    gw_scope *t = gw_scope_open(root);
    gw_module_load_state_dict(t, n.whole, gw_module_state_dict(t, n.replica));
    gw_scope_close_up(t);
    n.opt = gw_adam(root, gw_parameters(root, n.replica), .lr = 0.05);
    n.reference = gw_adam(root, gw_parameters(root, n.whole), .lr = 0.05);
    gw_shard_gradients gradients = kind >= 3 ? GW_SHARDED : GW_WHOLE;
    bool flat = kind == 2 || kind == 4;
    if (kind) gw_optimizer_shard(root, n.opt, .flat = flat, .gradients = gradients);
    gw_joinable parts[] = { { .ddp = ddp }, { .optimizer = n.opt } };
    gw_join *join = gw_join_open(root, parts, 2);
    for (int step = 0; step < now.inputs[rank]; step++) {
        gw_scope *s = gw_scope_open(root);
        gw_backward(s, loss_of(s, n.replica, batch_of(s, rank, step)));
        gw_optimizer_step(s, n.opt);
        gw_scope_close_up(s);
    }
    gw_join_close(root, join);
    expect_ok(root);
    for (int step = 0; step < now.most; step++) step_alone(root, &n, step);
    expect_same_weights(root, n.replica, n.whole);
    gw_ddp_check(root, ddp);
    expect_ok(root);
}

static void a_closed_member_steps_its_part_of_the_optimizer(void **state) {
    (void)state;
    run_seeds(SEEDS, step_shards);
}

// ---- Functions ----------------------------------------------------------------------------------
// As in torch.testing's Join tests: each iteration adds one for each active member.

typedef struct counter {
    gw_group *group;
    int rank;
    double total;
    int shadowed, finished;
    bool fails;
} counter;

static double add_up(gw_scope *s, gw_group *g, double own) {
    return gw_item(s, gw_all_reduce(s, g, gw_full(s, GW_F64, own, 1), GW_SUM));
}

static void shadow_counter(gw_scope *s, const gw_join_iteration *at, void *context) {
    counter *c = context;
    c->shadowed++;
    if (c->fails) gw_fail(s, GW_INVALID, "no shadow today");
    double all = add_up(s, c->group, 0);
    if (gw_ok(s)) assert_true(all == at->active);
}

static void finish_counter(gw_scope *s, const gw_join_iteration *at, void *context) {
    counter *c = context;
    c->finished++;
    gw_tensor *total = gw_full(s, GW_F64, c->total, 1);
    c->total = gw_item(s, gw_broadcast(s, c->group, total, at->last));
}

static gw_joinable joinable_of(counter *c) {
    return (gw_joinable){
        .shadow = shadow_counter, .finish = finish_counter, .context = c, .group = c->group
    };
}

static double total_of(int by) {
    double total = 0;
    for (int step = 0; step < now.most; step++) total += by * active_in(step);
    return total;
}

static void count_up(gw_scope *root, int rank, void *context) {
    (void)context;
    counter a = { .group = gw_group_world(root), .rank = rank };
    counter b = { .group = gw_group_world(root), .rank = rank };
    gw_joinable parts[] = { joinable_of(&a), joinable_of(&b) };
    gw_join *join = gw_join_open(root, parts, 2);
    for (int step = 0; step < now.inputs[rank]; step++) {
        gw_scope *s = gw_scope_open(root);
        gw_join_notify(s, join);
        assert_int_equal(gw_join_get_iteration(join).active, active_in(step));
        a.total += add_up(s, a.group, 1);
        b.total += add_up(s, b.group, 1);
        gw_scope_close_up(s);
    }
    gw_join_close(root, join);
    expect_ok(root);
    assert_true(a.total == total_of(1) && b.total == total_of(1));
    assert_int_equal(a.shadowed, now.most - now.inputs[rank]);
    assert_true(a.finished == 1 && b.finished == 1);
    assert_true(add_up(root, a.group, rank) == now.members * (now.members - 1) / 2.0);
}

static void functions_are_shadows_in_order(void **state) {
    (void)state;
    run_seeds(SEEDS, count_up);
}

static void count_even(gw_scope *root, int rank, void *context) {
    (void)context;
    counter c = { .group = gw_group_world(root), .rank = rank };
    gw_joinable part = joinable_of(&c);
    gw_join *join = gw_join_open(root, &part, 1, .off = true);
    for (int step = 0; step < 3; step++) {
        gw_join_notify(root, join);
        c.total += add_up(root, c.group, 1);
    }
    gw_join_close(root, join);
    expect_ok(root);
    assert_true(c.total == 3 * now.members && !c.shadowed && !c.finished);
}

static void a_disabled_join_does_nothing(void **state) {
    (void)state;
    run_seeds(5, count_even);
}

// ---- Collectives of other members ---------------------------------------------------------------

static int64_t whole_of(gw_scope *s, gw_group *g, gw_dtype dtype, int64_t own, gw_reduce_op op) {
    gw_tensor *x = gw_full(s, dtype, own, 2);
    return gw_item_int(s, gw_slice(s, gw_all_reduce(s, g, x, op), 0, 1, 2, 1));
}

static void expect_whole(gw_scope *s, gw_group *g, int step) {
    int rank = gw_group_rank(g), active = active_in(step), least = -1, most = highest_active(step);
    static const gw_dtype dtypes[] = { GW_F32, GW_F16, GW_I64, GW_I16, GW_U8 };
    gw_dtype dtype = dtypes[step % 5];
    for (int i = now.members; i-- > 0;)
        if (now.inputs[i] > step) least = i;
    assert_int_equal(whole_of(s, g, dtype, 1, GW_SUM), active);
    assert_int_equal(whole_of(s, g, dtype, 2, GW_PRODUCT), 1 << active);
    assert_int_equal(whole_of(s, g, dtype, rank + 1, GW_MIN), least + 1);
    assert_int_equal(whole_of(s, g, dtype == GW_U8 ? GW_I8 : dtype, rank - 9, GW_MAX), most - 9);
    if (dtype >= GW_I64) assert_int_equal(whole_of(s, g, dtype, 6 + (rank & 1), GW_BAND) & 6, 6);
    gw_tensor *rows = gw_all_gather(s, g, gw_full(s, GW_F32, rank, 2, 3));
    assert_true(gw_size(rows, 0) == 2 * active && gw_size(rows, 1) == 3);
    gw_list *all = gw_all_gather_value(s, g, gw_value_of(rank), .key = 7);
    for (int i = 0; i < now.members; i++)
        assert_true((gw_list_get(s, all, i).kind == GW_NONE) == (now.inputs[i] <= step));
    int64_t own = rank % 2;
    gw_tensor *sparse = gw_rows(s, gw_from(s, &own, 1), gw_full(s, GW_F32, 2, 1, SIZE), 2);
    gw_tensor *sum = gw_to_dense(s, gw_all_reduce(s, g, sparse, GW_SUM));
    assert_true(gw_item(s, gw_sum(s, sum)) == 2 * SIZE * active);
    gw_tensor *given = gw_broadcast(s, g, rank == most ? gw_full(s, GW_F32, 5, 1) : NULL, most);
    assert_true(gw_item(s, given) == 5);
    gw_barrier(s, g);
    gw_tensor *needs = gw_requires_grad(s, gw_full(s, GW_F32, 2, 1));
    gw_backward(s, gw_mul(s, gw_all_reduce(s, g, needs, GW_SUM), rank + 1));
    assert_true(gw_item(s, gw_grad(s, needs)) > rank);
    expect_ok(s);
}

static void gather_metrics(gw_scope *root, int rank, void *context) {
    (void)context;
    model m;
    open_model(root, &m);
    gw_group *g = gw_group_world(root);
    gw_joinable part = { .ddp = gw_ddp_open(root, m.m) };
    gw_join *join = gw_join_open(root, &part, 1);
    for (int step = 0; step < now.inputs[rank]; step++) {
        gw_scope *s = gw_scope_open(root);
        walk(s, &m, rank, step);
        expect_whole(s, g, step);
        gw_scope_close_up(s);
    }
    gw_join_close(root, join);
    expect_ok(root);
    assert_true(add_up(root, g, 1) == now.members);
}

static void collectives_without_a_joinable_get_empty_shadows(void **state) {
    (void)state;
    run_seeds(40, gather_metrics);
}

// Statistics over all members' batches are those of the members with a batch.
static void normalize(gw_scope *root, int rank, void *context) {
    (void)context;
    gw_module *norm = gw_nn_batch_norm1d(root, SIZE, .momentum = 1);
    gw_sync_batch_norm_convert(root, norm, NULL);
    gw_ddp *ddp = gw_ddp_open(root, norm);
    gw_joinable part = { .ddp = ddp };
    gw_join *join = gw_join_open(root, &part, 1);
    for (int step = 0; step < now.inputs[rank]; step++) {
        gw_scope *s = gw_scope_open(root);
        gw_tensor *y = gw_module_call(s, norm, gw_full(s, GW_F32, 6 * rank, 2, SIZE));
        double sum = 0;
        for (int i = 0; i < now.members; i++) sum += now.inputs[i] > step ? 6 * i : 0;
        double mean = first_of(s, gw_module_buffer_get(s, norm, "running_mean"));
        expect_ok(s);
        if (!is_close(mean, sum / active_in(step))) fail_msg("%g", mean);
        gw_backward(s, gw_sum(s, gw_mul(s, y, y)));
        gw_scope_close_up(s);
    }
    gw_join_close(root, join);
    gw_ddp_check(root, ddp);
    expect_ok(root);
}

static void batch_norm_is_over_the_remaining_batches(void **state) {
    (void)state;
    run_seeds(30, normalize);
}

static void root_that_has_closed(gw_scope *root, int rank, void *context) {
    (void)context;
    counter c = { .group = gw_group_world(root) };
    gw_group *g = gw_group_world(root);
    gw_joinable part = joinable_of(&c);
    gw_join *join = gw_join_open(root, &part, 1);
    if (rank) {
        gw_join_notify(root, join);
        assert_true(add_up(root, c.group, 1) == now.members - 1);
        gw_broadcast(root, g, NULL, 0);
        expect_error(root, GW_INVALID,
                     "w0: this member has no more input, and cannot contribute to broadcast");
        gw_barrier(root, g);
    }
    gw_join_close(root, join);
    expect_ok(root);
    gw_barrier(root, g);
    expect_ok(root);
}

static void a_collective_that_needs_a_closed_root_fails(void **state) {
    (void)state;
    run_seeds(20, root_that_has_closed);
}

// ---- Ends ---------------------------------------------------------------------------------------

static void end_at_the_first(gw_scope *root, int rank, void *context) {
    (void)context;
    model m;
    open_model(root, &m);
    gw_joinable part = { .ddp = gw_ddp_open(root, m.m) };
    gw_join *join = gw_join_open(root, &part, 1, .fail_early = true);
    int first = 0, least = now.inputs[0];
    for (int i = 1; i < now.members; i++)
        if (now.inputs[i] < least) least = now.inputs[first = i];
    gw_scope *s = gw_scope_open(root);
    for (int step = 0; step < now.inputs[rank] && gw_ok(s); step++) {
        gw_scope *t = gw_scope_open(s);
        walk(t, &m, rank, step);
        gw_scope_close_up(t);
        assert_true(gw_ok(s) == (step < least));
    }
    gw_join_close(s, join);
    if (least == now.most)
        expect_ok(s);
    else
        expect_error(s, GW_CANCELLED, gw_format(root, "w%d has no more input", first));
    gw_scope_close_up(s);
}

static void the_first_member_without_input_may_end_the_join_for_all(void **state) {
    (void)state;
    run_seeds(SEEDS, end_at_the_first);
}

// Member 1 fails once, and then continues or gives up.
static void fail_once(gw_scope *root, int rank, void *context) {
    (void)context;
    bool continues = draw(4, 0, 2);
    gw_module *m = gw_nn_linear(root, SIZE, 2);
    gw_ddp *ddp = gw_ddp_open(root, m);
    gw_optimizer *opt = gw_adam(root, gw_parameters(root, m));
    gw_optimizer_shard(root, opt);
    gw_joinable parts[] = { { .ddp = ddp }, { .optimizer = opt } };
    gw_scope *s = gw_scope_open(root);
    gw_join *join = gw_join_open(s, parts, 2);
    int inputs = rank == 0 ? 1 : 4 + rank;
    for (int step = 0; step < inputs && gw_ok(s); step++) {
        gw_scope *t = gw_scope_open(s);
        gw_tensor *loss = loss_of(t, m, batch_of(t, rank, step));
        if (rank == 1 && step == 2) gw_fail(t, GW_INVALID, "a bad image");
        gw_backward(t, loss);
        gw_optimizer_step(t, opt);
        if (gw_ok(t) == (step == 2)) fail_msg("step %d: %s", step, gw_scope_error(t)->text);
        if (continues) gw_scope_clear(t);
        gw_scope_close_up(t);
    }
    gw_join_close(s, join);
    if (continues)
        expect_ok(s);
    else
        expect_error(s, GW_INVALID, "a bad image");
    gw_ddp_check(s, ddp);
    expect_ok(s);
    gw_scope_close_up(s);
}

static void an_iteration_that_fails_ends_the_join_if_its_member_gives_up(void **state) {
    (void)state;
    run_seeds(SEEDS, fail_once);
}

// The others get the error in the collective that the shadow was for, and the join is over.
static void fail_in_a_shadow(gw_scope *root, int rank, void *context) {
    (void)context;
    counter c = { .group = gw_group_world(root), .fails = true };
    gw_joinable part = joinable_of(&c);
    gw_join *join = gw_join_open(root, &part, 1);
    if (rank) {
        gw_join_notify(root, join);
        add_up(root, c.group, 1);
        expect_error(root, GW_INVALID, "w0: no shadow today");
        gw_join_notify(root, join);
    } else {
        gw_join_close(root, join);
    }
    expect_error(root, GW_INVALID, "no shadow today");
    gw_join_close(root, join);
    expect_ok(root);
}

static void forget_it(gw_scope *root, int rank, void *context) {
    (void)context;
    counter c = { .group = gw_group_world(root) };
    gw_joinable part = joinable_of(&c);
    gw_scope *s = gw_scope_open(root);
    gw_join *join = gw_join_open(s, &part, 1);
    if (rank) {
        gw_join_notify(s, join);
        expect_error(s, GW_WRONG_STATE,
                     "w0: the scope of the join was closed before gw_join_close");
    }
    gw_scope_close_up(s);
}

static void a_member_that_fails_outside_an_iteration_ends_the_join(void **state) {
    (void)state;
    run_seeds(20, forget_it);
    run_seeds(20, fail_in_a_shadow);
}

// ---- Losses -------------------------------------------------------------------------------------

enum { DYING = 2, LOSS_MEMBERS = 3 };

static void crash(sim *s, void *arg) {
    (void)arg;
    sim_crash(s, DYING);
}

static void direct_crash(sim *s, void *context) {
    (void)context;
    assert_true(sim_at_decision(s, 300 + now.seed * 41 % 1500, crash, NULL));
}

// The straggler dies: the others have closed, and shadow it.
static void lose_straggler(gw_scope *root, int rank, void *context) {
    (void)context;
    gw_scope *s = gw_scope_open(root);
    gw_module *m = gw_nn_linear(s, SIZE, 2);
    gw_ddp *ddp = gw_ddp_open(s, m);
    gw_optimizer *opt = gw_adam(s, gw_parameters(s, m));
    gw_optimizer_shard(s, opt);
    gw_joinable parts[] = { { .ddp = ddp }, { .optimizer = opt } };
    gw_join *join = gw_join_open(s, parts, 2);
    for (int step = 0; step < (rank == DYING ? 1000 : rank) && gw_ok(s); step++) {
        gw_scope *t = gw_scope_open(s);
        gw_backward(t, loss_of(t, m, batch_of(t, rank, step)));
        gw_optimizer_step(t, opt);
        gw_scope_close_up(t);
    }
    gw_join_close(s, join);
    now.errors[rank] = gw_scope_close(s);
}

static void lose_by_seed(uint64_t seed, void *context) {
    (void)context;
    memset(&now, 0, sizeof now);
    now.seed = seed;
    now.members = LOSS_MEMBERS;
    cluster_outcome o = cluster_run(seed,
                                    (cluster_options){ .world_size = LOSS_MEMBERS,
                                                       .fails = true,
                                                       .direct = direct_crash,
                                                       .network = sim_varied(seed, 0) },
                                    lose_straggler, NULL);
    if (!o.crashed[DYING]) return;
    for (int i = 0; i < LOSS_MEMBERS - 1 && !o.errors[i].status; i++)
        if (now.errors[i].status != GW_DISCONNECTED || !strstr(now.errors[i].text, "w2"))
            fail_msg("w%d: %s: %s", i, gw_status_name(now.errors[i].status), now.errors[i].text);
}

static void a_straggler_that_dies_is_named_by_all(void **state) {
    (void)state;
    testing_for_seeds(30, lose_by_seed, NULL);
}

// ---- Refusals -----------------------------------------------------------------------------------

static void be_refused(gw_scope *root, int rank, void *context) {
    (void)context;
    model m;
    open_model(root, &m);
    gw_ddp *ddp = gw_ddp_open(root, m.m);
    gw_worker self = gw_rpc_self(root);
    gw_group *alone = gw_group_open(root, &self, 1, .name = gw_format(root, "w%d alone", rank));
    counter c = { .group = alone };
    gw_joinable mixed[] = { { .ddp = ddp }, joinable_of(&c) }, none = { 0 }, part = { .ddp = ddp };
    gw_join_open(root, mixed, 2);
    expect_error(root, GW_INVALID, "joinable 1 has a group with other members");
    gw_join_open(root, &none, 1);
    expect_error(root, GW_INVALID, "joinable 0 must have exactly one of");
    gw_join_open(root, NULL, 0);
    expect_error(root, GW_INVALID, "0 joinables were given, but the array is NULL");
    gw_join *join = gw_join_open(root, &part, 1);
    gw_join_open(root, &part, 1);
    expect_error(root, GW_WRONG_STATE, "joinable 0 is in another join");
    gw_join_notify(root, join);
    expect_error(root, GW_INVALID, "begin when its model is called");
    gw_scope *s = gw_scope_open(root);
    gw_backward(s, gw_sum(s, m.x[0]));  // without a forward
    expect_error(s, GW_WRONG_STATE, "needs an iteration that has begun");
    gw_scope_close_up(s);
    s = gw_scope_open(root);
    if (rank) gw_ddp_no_sync(s);
    gw_module_call(s, m.m, m.x[0]);
    expect_error(s, GW_INVALID,
                 "an iteration of a join must be synchronised on all members with input or on "
                 "none, but is on 1 of");
    gw_scope_close_up(s);
    gw_join_close(root, join);
    gw_join_close(root, NULL);
    expect_error(root, GW_INVALID, "the join is NULL");
}

static void bad_use_is_refused(void **state) {
    (void)state;
    run_seeds(10, be_refused);
}

static int warned;

static void count_warnings(void *context, gw_log_level level, const char *line) {
    (void)context, (void)level;
    warned += strstr(line, "w0 has had no input for 1000 iterations") != NULL;
}

static void lag(gw_scope *root, int rank, void *context) {
    (void)context;
    counter c = { .group = gw_group_world(root) };
    gw_joinable part = joinable_of(&c);
    gw_join *join = gw_join_open(root, &part, 1);
    for (int step = 0; rank && step < 1010; step++) {
        gw_scope *s = gw_scope_open(root);
        gw_join_notify(s, join);
        add_up(s, c.group, 1);
        gw_scope_close_up(s);
    }
    gw_join_close(root, join);
    expect_ok(root);
}

static void a_thousand_missed_iterations_log_a_line(void **state) {
    (void)state;
    warned = 0;
    gw_log_set_sink(count_warnings, NULL);
    cluster_run(1, (cluster_options){ .world_size = 2 }, lag, NULL);
    gw_log_set_sink(NULL, NULL);
    assert_int_equal(warned, 1);
}

GW_TESTS(join_sim, means_are_over_the_remaining_inputs,
         a_closed_member_steps_its_part_of_the_optimizer, functions_are_shadows_in_order,
         a_disabled_join_does_nothing, collectives_without_a_joinable_get_empty_shadows,
         batch_norm_is_over_the_remaining_batches, a_collective_that_needs_a_closed_root_fails,
         the_first_member_without_input_may_end_the_join_for_all,
         an_iteration_that_fails_ends_the_join_if_its_member_gives_up,
         a_member_that_fails_outside_an_iteration_ends_the_join,
         a_straggler_that_dies_is_named_by_all, bad_use_is_refused,
         a_thousand_missed_iterations_log_a_line);
