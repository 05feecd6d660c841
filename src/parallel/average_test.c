// Averages of weights: at which steps they are taken, in which groups, and behind the steps of an optimizer.
#include "testing/cluster.h"
#include "testing/given_gradients.h"
#include "testing/testing.h"
#include <gradwire.h>

#include <string.h>

enum { MEMBERS = 4, STEPS = 12 };

static void run(cluster_main *main, void *context) {
    for (uint64_t seed = 1; seed <= (uint64_t)testing_scaled(3); seed++)
        cluster_run(seed,
                    (cluster_options){ .world_size = MEMBERS, .network = sim_varied(seed, 0) },
                    main, context);
}

static void expect_error(gw_scope *s, gw_status status, const char *text) {
    if (gw_scope_error(s)->status != status || !strstr(gw_scope_error(s)->text, text))
        fail_msg("%s: %s", gw_status_name(gw_scope_error(s)->status), gw_scope_error(s)->text);
    gw_scope_clear(s);
}

static double first_of(gw_scope *s, gw_tensor *x) {
    return gw_item(s, gw_slice(s, x, 0, 0, 1, 1));
}

// At each step w moves by the member's rank: after an average all of those near have the mean.
typedef struct walker {
    gw_tensor *w;
    gw_list *params;
} walker;

static walker begin(gw_scope *s, int rank) {
    walker x = { gw_requires_grad(s, gw_full(s, GW_F32, rank, 1)), gw_list_open(s) };
    gw_list_add(s, x.params, x.w);
    return x;
}

// The group size of the average at a step: blocks of so many members, as with PyTorch's averagers.
static int size_due(const gw_averager *a, int step, const int *sizes) {
    if (step < a->warmup) return 1;
    if (!a->levels[1].period) return (step - a->warmup) % a->levels[0].period ? 1 : sizes[0];
    for (int i = 2; i-- > 0;)
        if (step % a->levels[i].period == 0) return sizes[i];
    return 1;
}

typedef struct schedule {
    int64_t warmup, periods[2];
    int sizes[2];
} schedule;

static void follow(gw_scope *root, int rank, void *context) {
    const schedule *p = context;
    gw_group *world = gw_group_world(root);
    gw_averager a = { .warmup = p->warmup };
    for (int i = 0; i < 2; i++)
        a.levels[i] =
            (gw_averager_level){ p->periods[i],
                                 p->periods[i] ? gw_group_blocks(root, world, p->sizes[i]) : NULL };
    walker x = begin(root, rank);
    double expected[MEMBERS] = { 0, 1, 2, 3 };
    for (int step = 0; step < STEPS; step++) {
        gw_no_grad(root);
        gw_add_(root, x.w, rank * 4.0);
        int size = size_due(&a, step, p->sizes);
        assert_int_equal(gw_averager_step(root, &a, x.params), size > 1);
        for (int i = 0; i < MEMBERS; i++) expected[i] += i * 4.0;
        for (int i = 0; i < MEMBERS; i += size) {
            double sum = 0;
            for (int k = i; k < i + size; k++) sum += expected[k];
            for (int k = i; k < i + size; k++) expected[k] = sum / size;
        }
        if (first_of(root, x.w) != expected[rank])
            fail_msg("step %d: %g, not %g", step, first_of(root, x.w), expected[rank]);
    }
    assert_true(gw_ok(root) && a.step == STEPS);
}

static void it_averages_at_the_steps_of_pytorchs_averagers(void **state) {
    (void)state;
    run(follow, &(schedule){ 0, { 4 }, { MEMBERS } });
    run(follow, &(schedule){ 3, { 2 }, { MEMBERS } });
    run(follow, &(schedule){ 3, { 2, 4 }, { 2, MEMBERS } });
    run(follow, &(schedule){ 0, { 3, 6 }, { 2, MEMBERS } });
}

// ---- Behind the steps of an optimizer -----------------------------------------------------------

// SGD that moves w by its rank, one step.
static void take_step(gw_scope *root, gw_optimizer *opt, const walker *x, int rank) {
    gw_scope *s = gw_scope_open(root);
    gw_backward(s, gw_sum(s, gw_mul(s, x->w, -4.0 * rank)));
    gw_optimizer_step(s, opt);
    gw_scope_close_up(s);
}

// Stops after |cut| steps. An optimizer of its own continues with the map of state.
static void reload(gw_scope *root, int rank, void *context) {
    int cut = *(int *)context;
    walker x = begin(root, rank);
    gw_averager a = { .levels = { { .period = 4 } }, .warmup = 2 }, b = a;
    gw_optimizer *opt = gw_sgd(root, x.params, .lr = 1, .momentum = 0);
    gw_optimizer_average(root, opt, &a);
    double mean = 1.5, own = rank;
    for (int step = 0; step < STEPS; step++) {
        if (step == cut) {
            gw_map *map = gw_optimizer_state_dict(root, opt);
            assert_true(gw_int_of(root, gw_map_get(root, map, "averager.step")) == cut);
            opt = gw_sgd(root, x.params, .lr = 1, .momentum = 0);
            gw_optimizer_average(root, opt, &b);
            gw_optimizer_load_state_dict(root, opt, map);
            assert_true(b.step == cut);
        }
        take_step(root, opt, &x, rank);
        mean += 6;
        own = step >= 2 && (step - 2) % 4 == 0 ? mean : own + 4 * rank;
        if (!gw_ok(root) || first_of(root, x.w) != own)
            fail_msg("step %d: %g, not %g: %s", step, first_of(root, x.w), own,
                     gw_scope_error(root)->text);
    }
}

static void a_reloaded_optimizer_averages_at_the_same_steps(void **state) {
    (void)state;
    for (int cut = 1; cut < STEPS; cut += 3) run(reload, &cut);
}

static void refuse(gw_scope *root, int rank, void *context) {
    (void)context;
    walker x = begin(root, rank);
    gw_optimizer *opt = gw_sgd(root, x.params, .lr = 1);
    gw_averager none = { 0 }, a = { .levels = { { .period = 2 } } }, before = a;
    before.warmup = -1;
    gw_optimizer_average(root, opt, &none);
    expect_error(root, GW_INVALID, "a positive period");
    gw_optimizer_average(root, opt, NULL);
    expect_error(root, GW_INVALID, "a positive period");
    gw_optimizer_average(root, opt, &before);
    expect_error(root, GW_INVALID, "no negative warmup");
    gw_optimizer_average(root, opt, &a);
    gw_optimizer_average(root, opt, &a);
    expect_error(root, GW_WRONG_STATE, "has an averager");
    gw_map *map = gw_optimizer_state_dict(root, opt);
    gw_map_put(root, map, "averager.step", -3);
    gw_optimizer_load_state_dict(root, opt, map);
    expect_error(root, GW_INVALID, "averager.step");
    // Of an optimizer without one the map has a name too many.
    gw_map_put(root, map, "averager.step", 3);
    gw_optimizer_load_state_dict(root, gw_sgd(root, x.params, .lr = 1), map);
    expect_error(root, GW_INVALID, "averager.step");
}

static void invalid_arguments_are_errors(void **state) {
    (void)state;
    run(refuse, NULL);
}

// The failure of a member is reported at the next average.
static void fail_before_it_is_due(gw_scope *root, int rank, void *context) {
    (void)context;
    walker x = begin(root, rank);
    gw_averager a = { .levels = { { .period = 2 } } };
    gw_optimizer *opt = gw_sgd(root, x.params, .lr = 1);
    gw_optimizer_average(root, opt, &a);
    take_step(root, opt, &x, rank);
    take_step(root, opt, &x, rank);
    gw_scope *s = gw_scope_open(root);
    gw_backward(s, gw_sum(s, x.w));
    if (rank == 2) gw_fail(s, GW_INVALID, "no more input");
    gw_optimizer_step(s, opt);
    expect_error(s, GW_INVALID, "no more input");
    gw_scope_close_up(s);
    take_step(root, opt, &x, rank);
    take_step(root, opt, &x, rank);
    gw_list *all = gw_all_gather_list(root, gw_group_world(root), gw_detach(root, x.w));
    if (!gw_ok(root)) fail_msg("%s", gw_scope_error(root)->text);
    for (int i = 0; i < MEMBERS; i++)
        assert_true(gw_equal(root, x.w, gw_tensor_of(root, gw_list_get(root, all, i))));
    assert_true(gw_ok(root) && a.step == 5);
}

static void the_failure_of_a_member_is_reported_at_the_next_average(void **state) {
    (void)state;
    run(fail_before_it_is_due, NULL);
}

GW_TESTS(parallel_average, it_averages_at_the_steps_of_pytorchs_averagers,
         a_reloaded_optimizer_averages_at_the_same_steps, invalid_arguments_are_errors,
         the_failure_of_a_member_is_reported_at_the_next_average);
