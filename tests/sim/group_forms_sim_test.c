// The forms of collectives in the simulator: which options each takes, the results of the asynchronous ones.
#include "collective/plan/plan.h"
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <math.h>
#include <string.h>

static cluster_options workers(int count) {
    return (cluster_options){ .world_size = count };
}

static void expect(gw_scope *s, gw_status status, const char *text) {
    const gw_error *e = gw_scope_error(s);
    if (!strstr(e->text, text)) fail_msg("\"%s\" instead of \"%s\"", e->text, text);
    assert_int_equal(e->status, status);
    gw_scope_clear(s);
}

// ---- Options ------------------------------------------------------------------------------------

enum { MEMBERS = 2, FACTOR = 1, SIZES = 2, INTO = 4, OPTIONS_END = 8 };

// The arguments of each call of the table below: two rows, and the same as a list.
typedef struct given {
    gw_scope *s;
    gw_group *g;
    gw_tensor *x;
    gw_tensor *rows;  // sparse
    gw_list *list;    // at the root; NULL
    gw_collective_options o;
} given;

typedef struct form {
    const char *name;  // as errors contain it
    int takes;
    int rows;  // of the result, and so of |.into|
    void (*call)(given *x);
} form;

// clang-format off
static void all_reduce(given *x) { gw_all_reduce_with(x->s, x->g, x->x, GW_SUM, x->o); }
static void all_reduce_max(given *x) { gw_all_reduce_with(x->s, x->g, x->x, GW_MAX, x->o); }
static void all_reduce_rows(given *x) { gw_all_reduce_with(x->s, x->g, x->rows, GW_AVG, x->o); }
static void all_reduce_async(given *x) { gw_wait(x->s, gw_all_reduce_async_with(x->s, x->g, x->x, GW_AVG, x->o)); }
static void reduce(given *x) { gw_reduce_with(x->s, x->g, x->x, GW_AVG, 1, x->o); }
static void broadcast(given *x) { gw_broadcast_with(x->s, x->g, x->x, 0, x->o); }
static void all_gather(given *x) { gw_all_gather_with(x->s, x->g, x->x, x->o); }
static void all_gather_rows(given *x) { gw_all_gather_with(x->s, x->g, x->rows, x->o); }
static void all_gather_list(given *x) { gw_all_gather_list_with(x->s, x->g, x->x, x->o); }
static void gather_to(given *x) { gw_gather_to_with(x->s, x->g, x->x, 1, x->o); }
static void scatter_from(given *x) { gw_scatter_from_with(x->s, x->g, x->list, 0, x->o); }
static void reduce_scatter(given *x) { gw_reduce_scatter_with(x->s, x->g, x->x, GW_SUM, x->o); }
static void all_to_all(given *x) { gw_all_to_all_with(x->s, x->g, x->x, x->o); }
static void barrier(given *x) { gw_barrier_with(x->s, x->g, x->o); }
static void monitored_barrier(given *x) { gw_monitored_barrier_with(x->s, x->g, x->o); }
static void all_reduce_all(given *x) { gw_all_reduce_coalesced_with(x->s, x->g, &x->x, 1, GW_SUM, x->o); }
static void broadcast_all(given *x) { gw_broadcast_coalesced_with(x->s, x->g, &x->x, 1, 1, x->o); }
static void all_gather_all(given *x) { gw_all_gather_coalesced_with(x->s, x->g, &x->x, 1, x->o); }
static void gather_to_all(given *x) { gw_gather_to_coalesced_with(x->s, x->g, &x->x, 1, 0, x->o); }
static void reduce_scatter_all(given *x) { gw_reduce_scatter_coalesced_with(x->s, x->g, &x->x, 1, GW_SUM, x->o); }
static void all_gather_value(given *x) { gw_all_gather_value_with(x->s, x->g, gw_value_of(3), x->o); }
static void gather_value_to(given *x) { gw_gather_value_to_with(x->s, x->g, gw_value_of(3), 0, x->o); }
static void broadcast_value(given *x) { gw_broadcast_value_with(x->s, x->g, gw_value_of(3), 1, x->o); }
static void scatter_value_from(given *x) { gw_scatter_value_from_with(x->s, x->g, x->list, 0, x->o); }
// clang-format on

static const form forms[] = {
    { "gw_all_reduce: ", FACTOR | INTO, 2, all_reduce },
    { "gw_all_reduce: ", INTO, 2, all_reduce_max },
    { "gw_all_reduce: ", FACTOR, 0, all_reduce_rows },
    { "gw_all_reduce: ", FACTOR, 0, all_reduce_async },
    { "gw_reduce: ", FACTOR | INTO, 2, reduce },
    { "gw_broadcast: ", INTO, 2, broadcast },
    { "gw_all_gather: ", INTO, 4, all_gather },
    { "gw_all_gather: ", 0, 0, all_gather_rows },
    { "gw_all_gather_list: ", 0, 0, all_gather_list },
    { "gw_gather_to: ", INTO, 4, gather_to },
    { "gw_scatter_from: ", INTO, 2, scatter_from },
    { "gw_reduce_scatter: ", FACTOR | SIZES | INTO, 1, reduce_scatter },
    { "gw_all_to_all: ", SIZES | INTO, 2, all_to_all },
    { "gw_barrier: ", 0, 0, barrier },
    { "gw_monitored_barrier: ", 0, 0, monitored_barrier },
    { "gw_all_reduce_coalesced: ", FACTOR, 0, all_reduce_all },
    { "gw_broadcast_coalesced: ", 0, 0, broadcast_all },
    { "gw_all_gather_coalesced: ", 0, 0, all_gather_all },
    { "gw_gather_to_coalesced: ", 0, 0, gather_to_all },
    { "gw_reduce_scatter_coalesced: ", FACTOR, 0, reduce_scatter_all },
    { "gw_all_gather_value: ", 0, 0, all_gather_value },
    { "gw_gather_value_to: ", 0, 0, gather_value_to },
    { "gw_broadcast_value: ", 0, 0, broadcast_value },
    { "gw_scatter_value_from: ", 0, 0, scatter_value_from },
};

enum { FORMS = sizeof forms / sizeof *forms };

static const int64_t halves[MEMBERS] = { 1, 1 };

static void name_option(given *x, const form *f, int option) {
    x->o = GW_OPTIONS(gw_collective_options);
    if (option == FACTOR) x->o.factor = 2;
    if (option == SIZES) x->o.sizes = halves;
    if (option == INTO) x->o.into = gw_zeros(x->s, GW_F32, f->rows ? f->rows : 2);
}

static void name_each_option(gw_scope *s, int rank, void *context) {
    (void)context;
    given x = { .s = s, .g = gw_group_world(s), .x = gw_ones(s, GW_F32, 2) };
    x.rows = gw_rows(s, gw_zeros(s, GW_I64, 1), gw_ones(s, GW_F32, 1, 2), 4);
    x.list = rank ? NULL : gw_list_open(s);
    for (int i = 0; x.list && i < MEMBERS; i++) gw_list_add(s, x.list, x.x);
    static const char *const names[] = {
        [FACTOR] = ".factor", [SIZES] = ".sizes", [INTO] = ".into"
    };
    for (int i = 0; i < FORMS; i++) {
        for (int option = 1; option < OPTIONS_END; option *= 2) {
            name_option(&x, &forms[i], option);
            forms[i].call(&x);
            bool takes = forms[i].takes & option;
            if (takes && !gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
            if (takes) continue;
            testing_note("%s%s", forms[i].name, names[option]);
            expect(s, GW_INVALID, names[option]);
            forms[i].call(&x);
            expect(s, GW_INVALID, forms[i].name);
            gw_barrier(s, x.g);  // nothing was sent
            if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
        }
        name_option(&x, &forms[i], 0);
        forms[i].call(&x);
        if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
        x.o.timeout_ms = -2;
        forms[i].call(&x);
        expect(s, GW_INVALID, "the timeout is -2 ms, but must not be negative");
    }
    gw_message one = { .peer = 1 - rank, .send = x.x };
    gw_batch(s, x.g, &one, 1, .tag = 3);
    expect(s, GW_INVALID,
           "gw_batch: .tag can be used with gw_send and gw_recv only; each message of a batch has "
           "a .tag of its own");
}

static void options_that_an_operation_has_no_use_for_are_refused(void **state) {
    (void)state;
    cluster_run(1, workers(MEMBERS), name_each_option, NULL);
}

// ---- Factors ------------------------------------------------------------------------------------

static void multiply(gw_scope *s, int rank, void *context) {
    (void)context, (void)rank;
    gw_group *g = gw_group_world(s);
    gw_tensor *x = gw_full(s, GW_F32, 1, 2), *whole = gw_full(s, GW_I64, 3, 2);
    gw_all_reduce(s, g, whole, GW_SUM, .factor = 0.5);
    expect(s, GW_INVALID, "gw_all_reduce: .factor is 0.5, but must be a whole number for i64");
    gw_all_reduce_async(s, g, gw_to_dtype(s, whole, GW_U8), GW_SUM, .factor = -1.5);
    expect(s, GW_INVALID, ".factor is -1.5, but must be a whole number for u8");
    gw_reduce_scatter(s, g, whole, GW_SUM, .factor = 1e300);
    expect(s, GW_INVALID,
           "gw_reduce_scatter: .factor is 1.0000000000000001e+300, but must be a whole number for");
    gw_all_reduce_coalesced(s, g, &whole, 1, GW_SUM, .factor = 0.5);
    expect(s, GW_INVALID,
           "gw_all_reduce_coalesced: .factor is 0.5, but must be a whole number for i64");
    gw_all_reduce(s, g, x, GW_SUM, .factor = -(double)NAN);
    expect(s, GW_INVALID, "gw_all_reduce: .factor is not a number");
    gw_reduce(s, g, x, GW_AVG, 0, .factor = -(double)INFINITY);
    expect(s, GW_INVALID, "gw_reduce: .factor is infinite");
    gw_all_reduce(s, g, x, GW_PRODUCT, .factor = 2);
    expect(s, GW_INVALID,
           "gw_all_reduce: .factor can be used with GW_SUM and GW_AVG, not with product");
    gw_tensor *sum = gw_all_reduce(s, g, whole, GW_SUM, .factor = -2);
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
    assert_string_equal(gw_to_text(s, sum), "tensor([-12, -12])");
}

static void factors_are_finite_and_whole_for_integers(void **state) {
    (void)state;
    cluster_run(1, workers(MEMBERS), multiply, NULL);
}

// ---- Mismatches ---------------------------------------------------------------------------------

static void differ_in_sizes(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s);
    static const int64_t sizes[2][3] = { { 1, 2, 1 }, { 2, 0, 2 } };
    gw_reduce_scatter(s, g, gw_ones(s, GW_F32, 4), GW_SUM, .sizes = sizes[rank == 1]);
    const char *text = gw_scope_error(s)->text;
    if (!strstr(text, "reduce_scatter sum f32 4, sizes 1+2+1 (") ||
        !strstr(text, "w1 does reduce_scatter sum f32 4, sizes 2+0+2 ("))
        fail_msg("%s", text);
    gw_scope_clear(s);
    enum { COUNT = 80 };
    gw_tensor *xs[COUNT];  // all of one shape but the last two
    for (int i = 0; i < COUNT; i++) xs[i] = gw_ones(s, GW_F32, 10, 10);
    xs[COUNT - 1] = gw_ones(s, GW_F32, rank == 1 ? 3 : 4);
    xs[COUNT - 2] = gw_ones(s, GW_F32, rank == 1 ? 4 : 3);
    gw_all_reduce_coalesced(s, g, xs, COUNT, GW_SUM);
    text = gw_scope_error(s)->text;
    if (!strstr(text, "w1 does all_reduce sum f32 7807, tensors 10x10, 10x10, ") ||
        !strstr(text, ", ..., 3: 80 tensors"))
        fail_msg("%s", text);
    gw_scope_clear(s);
    gw_barrier(s, g);
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
}

static void mismatch_errors_show_the_sizes_that_differ(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++)
        cluster_run(seed, workers(3), differ_in_sizes, NULL);
}

// ---- Gradients of scattered tensors -------------------------------------------------------------

enum { ROOT = 1, SCATTERED = 3 };

static gw_tensor *leaf_of(gw_scope *s, int item) {
    gw_tensor *x = gw_full(s, GW_F64, 0.3 * item + 0.1, item + 1, 2);
    return gw_requires_grad(s, x);
}

// The loss of member |rank|.
static gw_tensor *loss_of(gw_scope *s, int rank, gw_tensor *item) {
    return gw_mul(s, gw_sum(s, gw_sin(s, item)), rank + 1);
}

static gw_list *list_of(gw_scope *s, gw_tensor *const *xs) {
    gw_list *list = gw_list_open(s);
    for (int i = 0; i < SCATTERED; i++) gw_list_add(s, list, xs[i]);
    return list;
}

// The sum of all losses with |xs| at the root.
static double total(gw_scope *root, gw_group *g, gw_tensor *const *xs) {
    gw_scope *s = gw_scope_open(root);
    gw_no_grad(s);
    int rank = gw_group_rank(g);
    gw_tensor *mine = gw_scatter_from(s, g, rank == ROOT ? list_of(s, xs) : NULL, ROOT);
    double sum = gw_item(s, gw_all_reduce(s, g, loss_of(s, rank, mine), GW_SUM));
    gw_scope_close_up(s);
    return sum;
}

// By central differences, one number after the other.
static void check_gradient(gw_scope *s, gw_group *g, gw_tensor **xs, int which, gw_tensor *d) {
    const double step = 1e-6;
    for (int64_t i = 0; i < (which + 1) * 2; i++) {
        double sums[2];
        for (int sign = 0; sign < 2; sign++) {
            gw_tensor *moved[SCATTERED];
            for (int k = 0; k < SCATTERED; k++) moved[k] = gw_clone(s, gw_detach(s, xs[k]));
            double *at = gw_data_for_write(s, moved[which]);
            at[i] += sign ? step : -step;
            sums[sign] = total(s, g, moved);
        }
        if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
        double expected = (sums[1] - sums[0]) / (2 * step);
        if (gw_group_rank(g) != ROOT) continue;
        double got = ((const double *)gw_data(d))[i];
        if (fabs(got - expected) > 1e-7) fail_msg("%d: %g instead of %g", which, got, expected);
    }
}

static void differentiate_scattered(gw_scope *root, int rank, void *context) {
    (void)context;
    gw_scope *s = gw_scope_open(root);
    gw_group *g = gw_group_world(root);
    gw_tensor *xs[SCATTERED];
    for (int i = 0; i < SCATTERED; i++) xs[i] = leaf_of(s, i);
    gw_tensor *mine = gw_scatter_from(s, g, rank == ROOT ? list_of(s, xs) : NULL, ROOT);
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
    assert_int_equal(gw_size(mine, 0), rank + 1);
    gw_backward(s, loss_of(s, rank, mine));
    for (int i = 0; i < SCATTERED; i++) {
        gw_tensor *d = rank == ROOT ? gw_grad(s, xs[i]) : NULL;
        if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
        check_gradient(s, g, xs, i, d);
    }
    gw_error failed = gw_scope_close(s);
    if (failed.status) fail_msg("%s", failed.text);
}

static void gradients_of_scattered_tensors_return_to_the_root(void **state) {
    (void)state;
    static const plan_kind kinds[] = { PLAN_FLAT, PLAN_TREE, PLAN_CHAIN, PLAN_AUTO };
    for (int i = 0; i < 4; i++) {
        plan_prefer(OPERATION_SCATTER, kinds[i]);
        for (uint64_t seed = 1; seed <= 5; seed++)
            cluster_run(seed, workers(SCATTERED), differentiate_scattered, NULL);
    }
}

// One tensor for all members. Member 0 does not use its item, and member 2 is in a scope without gradients.
static void use_some(gw_scope *root, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(root);
    gw_scope *s = gw_scope_open(root);
    gw_tensor *x = gw_requires_grad(s, gw_ones(s, GW_F32, 2)), *plain = gw_ones(s, GW_F32, 2);
    gw_tensor *xs[] = { x, x, x }, *others[] = { plain, x, x };
    if (rank == 2) gw_no_grad(s);
    gw_tensor *mine = gw_scatter_from(s, g, rank == ROOT ? list_of(s, xs) : NULL, ROOT);
    gw_tensor *again = gw_scatter_from(s, g, rank == ROOT ? list_of(s, others) : NULL, ROOT);
    if (rank == ROOT) {
        gw_backward(s, gw_sum(s, gw_add(s, mine, again)));
        if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
        assert_string_equal(gw_to_text(s, gw_grad(s, x)), "tensor([2., 2.])");
    }
    gw_scope_close_up(s);
    s = gw_scope_open(root);
    x = gw_requires_grad(s, gw_ones(s, GW_F32, 2));
    xs[0] = xs[1] = xs[2] = x;
    mine = gw_scatter_from(s, g, rank == ROOT ? list_of(s, xs) : NULL, ROOT);
    gw_backward(s, gw_sum(s, mine));
    if (rank == ROOT) assert_string_equal(gw_to_text(s, gw_grad(s, x)), "tensor([3., 3.])");
    gw_scope_close_up(s);
    gw_barrier(root, g);
    if (!gw_ok(root)) fail_msg("%s", gw_scope_error(root)->text);
}

static void a_member_that_does_not_use_its_item_contributes_zeros(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        cluster_outcome x = cluster_run(seed, workers(SCATTERED), use_some, NULL);
        assert_true(x.took_ns < 10 * SIM_SECOND);
    }
}

// The backward of items without a gradient needs no other member.
static void scatter_plain(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s);
    gw_tensor *plain = gw_ones(s, GW_F32, 2), *w = gw_requires_grad(s, gw_ones(s, GW_F32, 2));
    gw_tensor *xs[] = { plain, plain, plain };
    gw_tensor *mine = gw_scatter_from(s, g, rank == ROOT ? list_of(s, xs) : NULL, ROOT);
    if (rank != ROOT) return;
    gw_backward(s, gw_sum(s, gw_mul(s, mine, w)));
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
    assert_string_equal(gw_to_text(s, gw_grad(s, w)), "tensor([1., 1.])");
}

static void items_without_a_gradient_need_no_backward(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        cluster_outcome x = cluster_run(seed, workers(SCATTERED), scatter_plain, NULL);
        assert_true(x.took_ns < 30 * SIM_SECOND);
    }
}

static void refuse_scattered(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s);
    gw_tensor *x = gw_requires_grad(s, gw_ones(s, GW_F32, 2)), *into = gw_zeros(s, GW_F32, 2);
    gw_tensor *xs[] = { x, x, x };
    gw_list *list = rank == ROOT ? list_of(s, xs) : NULL;
    if (rank == ROOT) {
        gw_scatter_from_async(s, g, list, ROOT);
        expect(s, GW_INVALID,
               "gw_scatter_from_async: the tensor needs a gradient, which an asynchronous call "
               "does not record: gw_detach it");
        gw_scatter_from(s, g, list, ROOT, .into = into);
        expect(s, GW_INVALID,
               "gw_scatter_from: .into cannot be used if the input needs a gradient");
    } else {
        gw_scatter_from(s, g, NULL, ROOT);
        expect(s, GW_INVALID,
               "gw_scatter_from_async: the tensor needs a gradient, which an asynchronous call "
               "does not record: gw_detach it");
        gw_scatter_from(s, g, NULL, ROOT);
        expect(s, GW_INVALID,
               "gw_scatter_from: .into cannot be used if the input needs a gradient");
    }
    gw_barrier(s, g);
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
    // A member whose call has failed fails the root's pass.
    gw_tensor *mine = rank == 0 ? gw_scatter_from(s, g, NULL, ROOT, .into = into)
                                : gw_scatter_from(s, g, list, ROOT);
    if (rank == 0)
        expect(s, GW_INVALID,
               "gw_scatter_from: .into cannot be used if the input needs a gradient");
    if (rank) gw_backward(s, gw_sum(s, mine));
    if (rank == ROOT)
        expect(s, GW_REMOTE, "a backward pass of w0 has failed before it reached this collective");
    gw_scope_clear(s);
    gw_all_gather_list(s, g, x);
    expect(s, GW_INVALID,
           "gw_all_gather_list: the tensor needs a gradient, which this collective does not "
           "support: gw_detach it");
    gw_barrier(s, g);
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
    // An asynchronous form does not accept an item that needs a gradient.
    if (rank == 2)
        gw_wait(s, gw_scatter_from_async(s, g, NULL, ROOT));
    else
        gw_scatter_from(s, g, list, ROOT);
    if (rank == 2) expect(s, GW_INVALID, "gw_scatter_from_async: a tensor needs a gradient");
    gw_scope_clear(s);  // a member that has its item already may have no error
}

static void gradients_that_cannot_return_are_refused(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++)
        cluster_run(seed, workers(SCATTERED), refuse_scattered, NULL);
}

// ---- Asynchronous forms -------------------------------------------------------------------------

static void expect_same(gw_scope *s, gw_value x, gw_value y) {
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
    gw_list *a = gw_list_of(s, x), *b = gw_list_of(s, y);
    assert_int_equal(gw_list_count(a), gw_list_count(b));
    for (int i = 0; i < gw_list_count(a); i++) {
        const char *text = gw_to_text(s, gw_tensor_of(s, gw_list_get(s, b, i)));
        assert_string_equal(gw_to_text(s, gw_tensor_of(s, gw_list_get(s, a, i))), text);
    }
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
}

static void start_coalesced(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s);
    int n = gw_group_size(g);
    gw_tensor *xs[] = { gw_full(s, GW_F32, rank + 1, 2 * n, 3), gw_full(s, GW_I64, rank, n),
                        gw_full(s, GW_F32, 10 * rank, n), gw_full(s, GW_F64, 0.5, n, 1) };
    gw_tensor *of_one_dtype[] = { xs[0], xs[2] };
    gw_future *fs[] = { gw_all_reduce_coalesced_async(s, g, of_one_dtype, 2, GW_SUM),
                        gw_broadcast_coalesced_async(s, g, xs, 4, n - 1),
                        gw_all_gather_coalesced_async(s, g, xs, 4),
                        gw_gather_to_coalesced_async(s, g, xs, 4, 0),
                        gw_reduce_scatter_coalesced_async(s, g, of_one_dtype, 2, GW_MAX),
                        gw_all_reduce_coalesced_async(s, g, NULL, 0, GW_SUM) };
    gw_list *waited[] = { gw_all_reduce_coalesced(s, g, of_one_dtype, 2, GW_SUM),
                          gw_broadcast_coalesced(s, g, xs, 4, n - 1),
                          gw_all_gather_coalesced(s, g, xs, 4),
                          gw_gather_to_coalesced(s, g, xs, 4, 0),
                          gw_reduce_scatter_coalesced(s, g, of_one_dtype, 2, GW_MAX),
                          gw_list_open(s) };
    for (int i = 0; i < 6; i++) expect_same(s, gw_wait(s, fs[i]), gw_value_of(waited[i]));
    gw_tensor *leaf = gw_requires_grad(s, gw_ones(s, GW_F32, 2));
    gw_all_reduce_coalesced_async(s, g, ((gw_tensor *[]){ xs[1], leaf }), 2, GW_SUM);
    expect(s, GW_INVALID,
           "gw_all_reduce_coalesced_async: the tensor needs a gradient, which an asynchronous call "
           "does not record: gw_detach it");
    gw_all_reduce_coalesced_async(s, g, xs, 4, GW_SUM);
    expect(s, GW_UNSUPPORTED,
           "gw_all_reduce_coalesced_async: the tensors have several dtypes: call it once for each "
           "dtype");
    gw_future *f =
        gw_all_reduce_coalesced_async(s, g, of_one_dtype, 2, rank == 1 ? GW_MIN : GW_SUM);
    gw_wait(s, f);
    if (n > 1) expect(s, GW_MISMATCH, "all_reduce min");
    gw_barrier(s, g);
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
}

static void coalesced_forms_start_together(void **state) {
    (void)state;
    for (int n = 1; n <= 3; n++)
        for (uint64_t seed = 1; seed <= 10; seed++)
            cluster_run(seed, workers(n), start_coalesced, NULL);
}

// A call contributes its input as it is at the call; later changes of the input have no effect.
static void start_values(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s);
    int n = gw_group_size(g);
    gw_tensor *x = gw_full(s, GW_F32, rank, 30000), *other = gw_full(s, GW_F32, -1, 30000);
    gw_list *mine = gw_list_open(s), *items = gw_list_open(s), *tensors = gw_list_open(s);
    gw_map *map = gw_map_open(s);
    gw_list_add(s, mine, x);
    gw_map_put(s, map, "x", x);
    gw_list_add(s, mine, map);
    for (int i = 0; i < n; i++) gw_list_add(s, items, 7 * i);
    for (int i = 0; i < n; i++) gw_list_add(s, tensors, x);
    gw_future *all = gw_all_gather_value_async(s, g, mine);
    gw_future *there = gw_gather_value_to_async(s, g, x, n - 1);
    gw_future *from = gw_broadcast_value_async(s, g, rank == 0 ? "hello" : "no", 0);
    gw_future *part = gw_scatter_value_from_async(s, g, rank == 0 ? items : NULL, 0);
    gw_future *row = gw_scatter_from_async(s, g, rank == 0 ? tensors : NULL, 0);
    gw_future *end = gw_monitored_barrier_async(s, g);
    gw_copy_(s, x, other);
    gw_list_add(s, mine, 5);
    gw_map_put(s, map, "y", 5);
    gw_wait(s, end);
    gw_list *received = gw_list_of(s, gw_wait(s, all)), *last = gw_list_of(s, gw_wait(s, there));
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
    assert_int_equal(gw_list_count(received), n);
    assert_int_equal(gw_list_count(last), rank == n - 1 ? n : 0);
    for (int i = 0; i < n; i++) {
        gw_list *theirs = gw_list_of(s, gw_list_get(s, received, i));
        assert_int_equal(gw_list_count(theirs), 2);
        gw_tensor *first = gw_tensor_of(s, gw_list_get(s, theirs, 0));
        assert_int_equal((int)gw_item(s, gw_min(s, first)), i);
        gw_map *second = gw_map_of(s, gw_list_get(s, theirs, 1));
        assert_int_equal(gw_map_count(second), 1);
        assert_int_equal((int)gw_item(s, gw_min(s, gw_tensor_of(s, gw_map_get(s, second, "x")))),
                         i);
        if (rank == n - 1)
            assert_int_equal((int)gw_item(s, gw_min(s, gw_tensor_of(s, gw_list_get(s, last, i)))),
                             i);
    }
    assert_string_equal(gw_string_of(s, gw_wait(s, from)), "hello");
    assert_int_equal(gw_int_of(s, gw_wait(s, part)), 7 * rank);
    assert_int_equal((int)gw_item(s, gw_max(s, gw_tensor_of(s, gw_wait(s, row)))), 0);
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
}

static void values_start_together_as_they_are(void **state) {
    (void)state;
    for (int n = 1; n <= 3; n++)
        for (uint64_t seed = 1; seed <= 10; seed++)
            cluster_run(seed, workers(n), start_values, NULL);
}

static void receive_any(gw_scope *s, int rank, void *context) {
    (void)context;
    int ranks[] = { 3, 1, 0 };  // a member's rank is not that in the job
    gw_group *all = gw_group_world(s), *g = rank == 2 ? NULL : gw_group_of(s, all, ranks, 3);
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
    if (!g) return;
    int me = gw_group_rank(g);
    if (me == 0) {
        gw_future *fs[] = { gw_irecv_any(s, g, .tag = 4), gw_irecv_any(s, g, .tag = 4) };
        bool seen[3] = { false };
        for (int i = 0; i < 2; i++) {
            gw_list *both = gw_list_of(s, gw_wait(s, fs[i]));
            int from = (int)gw_int_of(s, gw_list_get(s, both, 0));
            if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
            assert_true(from > 0 && from < 3 && !seen[from]);
            seen[from] = true;
            assert_int_equal(gw_item_int(s, gw_tensor_of(s, gw_list_get(s, both, 1))), 100 + from);
        }
        gw_drop(s, gw_irecv_any(s, g));
    } else {
        gw_send(s, g, gw_full(s, GW_I64, 100 + me, 1), 0, .tag = 4);
    }
    gw_barrier(s, g);
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
}

static void receives_from_any_member_return_futures(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) cluster_run(seed, workers(4), receive_any, NULL);
}

// Inline functions may call all asynchronous forms, and no form that waits.
static gw_group *the_group;

GW_FUNCTION(group_forms_start, GW_INLINE, "int") {
    int which = (int)gw_arg_int(s, a, 0);
    gw_tensor *x = gw_ones(s, GW_F32, 2);
    gw_group *g = the_group;
    switch (which) {
    case 0: return gw_value_of(gw_all_reduce_coalesced_async(s, g, &x, 1, GW_SUM));
    case 1: return gw_value_of(gw_all_gather_value_async(s, g, 3));
    case 2: return gw_value_of(gw_monitored_barrier_async(s, g));
    case 3: return gw_value_of(gw_irecv_any(s, g));
    case 4: gw_monitored_barrier(s, g); break;
    case 5: gw_all_reduce_coalesced(s, g, &x, 1, GW_SUM); break;
    case 6: gw_group_split(s, g, 0, 0); break;
    case 7: gw_group_agree(s, g, 1); break;
    case 8: gw_group_reform(s, g); break;
    default: gw_group_join(s, "absent"); break;
    }
    return gw_none();
}

static void call_inline(gw_scope *s, int rank, void *context) {
    (void)context, (void)rank;
    gw_group *g = the_group = gw_group_world(s);
    for (int which = 0; which < 10; which++) {
        if (which == 3) gw_isend(s, g, gw_ones(s, GW_F32, 2), 0);
        gw_value v = gw_rpc_sync(s, "w0", "group_forms_start", which);
        if (which < 4 && !gw_ok(s)) fail_msg("%d: %s", which, gw_scope_error(s)->text);
        if (which == 0) {
            gw_tensor *x = gw_tensor_of(s, gw_list_get(s, gw_list_of(s, v), 0));
            assert_int_equal((int)gw_item(s, gw_max(s, x)), 1);
        }
        if (which < 4) continue;
        if (!strstr(gw_scope_error(s)->text, "a wait in"))
            fail_msg("%d: %s", which, gw_scope_error(s)->text);
        gw_scope_clear(s);
    }
}

static void inline_functions_start_what_they_may_not_wait_for(void **state) {
    (void)state;
    cluster_run(1, workers(1), call_inline, NULL);
}

// ---- The order of receives from one member and from any -----------------------------------------

static double number_of(gw_scope *s, gw_value v) {
    return gw_item(s, v.kind == GW_LIST ? gw_tensor_of(s, gw_list_get(s, gw_list_of(s, v), 1))
                                        : gw_tensor_of(s, v));
}

// Bit i of |kinds|: receive i is from any member. Messages of a second tag are in between.
static void exchange_in_order(gw_scope *root, int kinds, bool sends_first) {
    enum { COUNT = 4 };
    gw_worker self = gw_rpc_self(root);
    gw_scope *s = gw_scope_open(root);
    gw_group *g = gw_group_open(s, &self, 1);
    gw_future *sent[2 * COUNT], *received[2 * COUNT];
    for (int turn = 0; turn < 2; turn++)
        for (int i = 0; i < 2 * COUNT; i++) {
            if (sends_first == !turn)
                sent[i] = gw_isend(s, g, gw_full(s, GW_F32, (double)i), 0, .tag = i % 2);
            else if (kinds >> (i / 2) & 1)
                received[i] = gw_irecv_any(s, g, .tag = i % 2);
            else
                received[i] = gw_irecv(s, g, 0, .tag = i % 2);
        }
    for (int i = 0; i < 2 * COUNT; i++)
        assert_float_equal(number_of(s, gw_wait(s, received[i])), i, 0);
    gw_wait_all(s, sent, 2 * COUNT);
    assert_string_equal(gw_scope_close(s).text, "");
}

static void exchange_all(gw_scope *root, int rank, void *context) {
    (void)rank, (void)context;
    for (int kinds = 0; kinds < 16; kinds++) {
        exchange_in_order(root, kinds, false);
        exchange_in_order(root, kinds, true);
    }
}

static void messages_go_to_receives_in_their_order(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 1 }, exchange_all, NULL);
}

GW_TESTS(group_forms_sim, messages_go_to_receives_in_their_order,
         options_that_an_operation_has_no_use_for_are_refused,
         factors_are_finite_and_whole_for_integers, mismatch_errors_show_the_sizes_that_differ,
         gradients_of_scattered_tensors_return_to_the_root,
         a_member_that_does_not_use_its_item_contributes_zeros,
         items_without_a_gradient_need_no_backward, gradients_that_cannot_return_are_refused,
         coalesced_forms_start_together, values_start_together_as_they_are,
         receives_from_any_member_return_futures,
         inline_functions_start_what_they_may_not_wait_for);
