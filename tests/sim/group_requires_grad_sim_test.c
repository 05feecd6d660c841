// Collectives in which the inputs of some members need a gradient and those of others do not, in the simulator: a
// mismatch on all members instead of a pass that waits for a member without a backward.
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <string.h>
enum { MEMBERS = 3 };

typedef gw_tensor *form(gw_scope *s, gw_group *g, gw_tensor *x);

// clang-format off
static gw_tensor *sum(gw_scope *s, gw_group *g, gw_tensor *x) { return gw_all_reduce(s, g, x, GW_SUM); }
static gw_tensor *mean(gw_scope *s, gw_group *g, gw_tensor *x) { return gw_all_reduce(s, g, x, GW_AVG, .key = 5); }
static gw_tensor *reduce(gw_scope *s, gw_group *g, gw_tensor *x) { return gw_reduce(s, g, x, GW_SUM, 1); }
static gw_tensor *broadcast(gw_scope *s, gw_group *g, gw_tensor *x) { return gw_broadcast(s, g, x, 1); }
static gw_tensor *all_gather(gw_scope *s, gw_group *g, gw_tensor *x) { return gw_all_gather(s, g, x); }
static gw_tensor *gather_to(gw_scope *s, gw_group *g, gw_tensor *x) { return gw_gather_to(s, g, x, 2); }
static gw_tensor *reduce_scatter(gw_scope *s, gw_group *g, gw_tensor *x) { return gw_reduce_scatter(s, g, x, GW_SUM); }
static gw_tensor *all_to_all(gw_scope *s, gw_group *g, gw_tensor *x) { return gw_all_to_all(s, g, x); }
// clang-format on

static gw_tensor *only(gw_scope *s, const gw_list *list) {
    return gw_tensor_of(s, gw_list_get(s, list, 0));
}

static gw_tensor *sum_all(gw_scope *s, gw_group *g, gw_tensor *x) {
    return only(s, gw_all_reduce_coalesced(s, g, &x, 1, GW_SUM));
}

static gw_tensor *broadcast_all(gw_scope *s, gw_group *g, gw_tensor *x) {
    return only(s, gw_broadcast_coalesced(s, g, &x, 1, 1));
}

static const struct {
    const char *name;  // as errors contain it
    form *call;
    uint64_t key;
} forms[] = {
    { "all_reduce sum f32", sum, 0 },
    { "all_reduce avg f32", mean, 5 },
    { "reduce sum f32", reduce, 0 },
    { "broadcast f32", broadcast, 0 },
    { "all_gather f32", all_gather, 0 },
    { "gather f32", gather_to, 0 },
    { "reduce_scatter sum f32", reduce_scatter, 0 },
    { "all_to_all f32", all_to_all, 0 },
    { "all_reduce sum f32", sum_all, 0 },
    { "broadcast f32", broadcast_all, 0 },
};

enum { FORMS = sizeof forms / sizeof *forms };

static gw_tensor *input_of(gw_scope *s, bool needs, int64_t rows) {
    gw_tensor *x = gw_ones(s, GW_F32, rows, 2);
    return needs ? gw_requires_grad(s, x) : x;
}

static void expect_ok(gw_scope *s) {
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
}

static void expect_sum(gw_scope *s, gw_group *g) {
    gw_tensor *all = gw_all_reduce(s, g, gw_full(s, GW_F32, gw_group_rank(g) + 1, 1), GW_SUM);
    expect_ok(s);
    assert_int_equal((int)gw_item(s, all), MEMBERS * (MEMBERS + 1) / 2);
}

typedef struct mixture {
    int form, needing;  // bits of the members whose input needs a gradient
    int64_t rows;
} mixture;

// Whether |s| has failed with the mismatch of |m|.
static bool has_mismatch(gw_scope *s, const mixture *m) {
    if (gw_ok(s)) return false;
    const gw_error *e = gw_scope_error(s);
    const char *gradient = strstr(e->text, ", which needs a gradient (");
    bool is_named = e->status == GW_MISMATCH && strstr(e->text, forms[m->form].name) && gradient;
    is_named = is_named && strstr(e->text, "; w");
    if (!is_named || strstr(gradient + 1, ", which needs a gradient (")) fail_msg("%s", e->text);
    gw_scope_clear(s);
    return true;
}

// The call of a member that only sends may succeed: then its pass or one of its next calls fails.
static void mix(gw_scope *root, int rank, void *context) {
    const mixture *m = context;
    gw_group *g = gw_group_world(root);
    gw_scope *s = gw_scope_open(root);
    bool needs = m->needing >> rank & 1, all = m->needing == (1 << MEMBERS) - 1;
    gw_tensor *out = forms[m->form].call(s, g, input_of(s, needs, m->rows));
    if (all || !m->needing) {
        expect_ok(s);
        if (needs) gw_backward(s, gw_sum(s, out));
        expect_ok(s);
    } else {
        bool reported = has_mismatch(s, m);
        if (!reported && needs) {
            gw_backward(s, gw_sum(s, out));
            reported = has_mismatch(s, m);
        }
        gw_barrier(s, g, .key = forms[m->form].key);
        reported = has_mismatch(s, m) || reported;
        if (!reported) fail_msg("w%d has no error", rank);
    }
    gw_scope_close_up(s);
    gw_barrier(root, g, .key = forms[m->form].key);
    expect_sum(root, g);
}

static void mix_with_seed(uint64_t seed, void *context) {
    (void)context;
    bool is_large = seed / FORMS / (1 << MEMBERS) % 2;  // too large for a network that is very slow
    mixture m = { .form = (int)(seed % FORMS),
                  .needing = (int)(seed / FORMS % (1 << MEMBERS)),
                  .rows = is_large ? 9000 : MEMBERS };
    cluster_options o = { .world_size = MEMBERS };
    if (!is_large) o.network = sim_varied(seed, 0);
    cluster_outcome x = cluster_run(seed, o, mix, &m);
    assert_true(x.took_ns < 60 * SIM_SECOND);
}

static void members_that_differ_in_requires_grad_get_a_mismatch_and_continue(void **state) {
    (void)state;
    testing_for_seeds(2 * FORMS << MEMBERS, mix_with_seed, NULL);
}

// The error contains each call as the member made it.
static void differ_in_one(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s);
    gw_all_reduce_with(s, g, input_of(s, rank == 1, 5), GW_SUM,
                       GW_OPTIONS(gw_collective_options, .origin = "a.c:3"));
    const gw_error *e = gw_scope_error(s);
    assert_int_equal(e->status, GW_MISMATCH);
    assert_string_equal(e->text,
                        "group \"world\": collective 1: w0, w2 do all_reduce sum f32 5x2 (a.c:3); "
                        "w1 does all_reduce sum f32 5x2, which needs a gradient (a.c:3)");
    gw_scope_clear(s);
    expect_sum(s, g);
}

static void the_error_names_the_members_that_need_a_gradient(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++)
        cluster_run(seed, (cluster_options){ .world_size = MEMBERS }, differ_in_one, NULL);
}

static gw_tensor *rows_of(gw_scope *s, bool needs) {
    return gw_rows(s, gw_zeros(s, GW_I64, 1), input_of(s, needs, 1), 4);
}

// Members are not compared if the collective has no backward on any of them.
static void call_without_backward(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s);
    gw_tensor *x = input_of(s, rank == 0, MEMBERS);
    gw_scope *plain = gw_scope_open(s);
    gw_no_grad(plain);
    gw_all_reduce(plain, g, x, GW_SUM);
    gw_broadcast(plain, g, rank == 0 ? x : NULL, 0);
    gw_all_gather(plain, g, x);
    gw_wait(plain, gw_all_reduce_async(plain, g, x, GW_AVG));
    gw_scope_close_up(plain);
    gw_all_gather_value(s, g, gw_value_of(x));
    gw_broadcast_value(s, g, gw_value_of(x), 0);
    gw_all_gather(s, g, rows_of(s, false));
    gw_wait(s, gw_all_reduce_async(s, g, gw_detach(s, x), GW_SUM));
    gw_all_reduce(s, g, gw_ones(s, GW_I64, 2), GW_SUM);
    expect_ok(s);
    gw_all_reduce(s, g, x, GW_MAX);
    if (rank == 0) {
        assert_int_equal(gw_scope_error(s)->status, GW_UNSUPPORTED);
        gw_scope_clear(s);
    }
    expect_sum(s, g);
}

static void collectives_without_backward_are_not_compared(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++)
        cluster_run(seed, (cluster_options){ .world_size = MEMBERS }, call_without_backward, NULL);
}

// The input of an asynchronous form, or in a scope without gradients, counts as one that needs none.
static void mix_with_others(gw_scope *s, int rank, void *context) {
    bool evaluates = *(bool *)context;
    gw_group *g = gw_group_world(s);
    gw_scope *t = gw_scope_open(s);
    if (evaluates && rank == 0) gw_no_grad(t);
    gw_tensor *x = input_of(t, rank || evaluates, 2);
    if (evaluates || rank)
        gw_all_reduce(t, g, x, GW_SUM);
    else
        gw_wait(t, gw_all_reduce_async(t, g, x, GW_SUM));
    const mixture sums = { .form = 0 };
    assert_true(has_mismatch(t, &sums));
    gw_scope_close_up(t);
    expect_sum(s, g);
}

static void no_pass_waits_for_no_grad_scopes_or_asynchronous_forms(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        bool evaluates = seed % 2;
        cluster_run(seed, (cluster_options){ .world_size = MEMBERS }, mix_with_others, &evaluates);
    }
}

// Member 0 has sent its part, and is in its pass when the calls of the others time out.
static void differentiate_what_has_failed(gw_scope *root, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(root);
    gw_scope *s = gw_scope_open(root);
    if (rank == 2) cluster_pause_ms(s, 5000);
    gw_tensor *out = gw_reduce(s, g, input_of(s, true, 2), GW_SUM, 1, .timeout_ms = 1000);
    assert_true(rank == 0 ? gw_ok(s) : !gw_ok(s));
    if (rank == 0) gw_backward(s, gw_sum(s, out));
    const gw_error *e = gw_scope_error(s);
    if (e->status != GW_TIMEOUT || !strstr(e->text, "group \"world\": collective 1: "))
        fail_msg("%s", e->text);
    gw_scope_clear(s);
    gw_scope_close_up(s);
    expect_sum(root, g);  // each member has got the error once
}

static void a_pass_fails_with_the_collective_that_it_differentiates(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        cluster_outcome x = cluster_run(seed, (cluster_options){ .world_size = MEMBERS },
                                        differentiate_what_has_failed, NULL);
        assert_true(x.took_ns < 20 * SIM_SECOND);
    }
}

GW_TESTS(group_requires_grad_sim, members_that_differ_in_requires_grad_get_a_mismatch_and_continue,
         the_error_names_the_members_that_need_a_gradient,
         collectives_without_backward_are_not_compared,
         no_pass_waits_for_no_grad_scopes_or_asynchronous_forms,
         a_pass_fails_with_the_collective_that_it_differentiates);
