// Coalesced collectives to which members give different lists of tensors, in the simulator: no member gets a result,
// and all pair the same calls from then on.
#include "collective/api/requests.h"
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <string.h>

enum { MEMBERS = 3, STEPS = 4, TENSORS_MAX = 4, LARGE = 400, PIECE_BYTES = 128 };

typedef enum form {
    ALL_REDUCE,
    BROADCAST,
    ALL_GATHER,
    GATHER_TO,
    REDUCE_SCATTER,
    LIST_FORMS,
    LARGE_SUM = LIST_FORMS,
    FORMS
} form;

// Of two lists members take one each: they have different counts of dtypes, none, or the same dtypes in other places.
static const gw_dtype lists[][TENSORS_MAX + 1] = {
    { GW_F32, GW_I64, -1 }, { GW_F32, -1 },         { -1 },
    { GW_I64, -1 },         { GW_I64, GW_F32, -1 }, { GW_F32, GW_F64, GW_I32, GW_I64, -1 },
};

enum { LISTS = sizeof lists / sizeof lists[0] };

typedef struct difference {
    uint64_t seed;
    int who, of_who, of_others;  // lists
    form form, who_form;
    bool waits, with_gradients;
} difference;

static form form_of(const difference *d, int rank) {
    return rank == d->who ? d->who_form : d->form;
}

static int fill(gw_scope *s, const difference *d, int rank, gw_tensor **out) {
    const gw_dtype *list = lists[rank == d->who ? d->of_who : d->of_others];
    int count = 0;
    for (; (int)list[count] >= 0; count++) {
        out[count] = gw_full(s, list[count], rank, MEMBERS);
        bool is_float = list[count] == GW_F32 || list[count] == GW_F64;
        if (d->with_gradients && is_float) out[count] = gw_requires_grad(s, out[count]);
    }
    return count;
}

static void call(gw_scope *s, const difference *d, gw_group *g, gw_tensor *const *xs, int n) {
    switch (form_of(d, gw_group_rank(g)) * 2 + d->waits) {
    case 2 * LARGE_SUM:
    case 2 * LARGE_SUM + 1: gw_all_reduce(s, g, gw_ones(s, GW_F32, LARGE), GW_SUM); break;
    case 2 * ALL_REDUCE: gw_wait(s, gw_all_reduce_coalesced_async(s, g, xs, n, GW_SUM)); break;
    case 2 * BROADCAST: gw_wait(s, gw_broadcast_coalesced_async(s, g, xs, n, 1)); break;
    case 2 * ALL_GATHER: gw_wait(s, gw_all_gather_coalesced_async(s, g, xs, n)); break;
    case 2 * GATHER_TO: gw_wait(s, gw_gather_to_coalesced_async(s, g, xs, n, 1)); break;
    case 2 * REDUCE_SCATTER:
        gw_wait(s, gw_reduce_scatter_coalesced_async(s, g, xs, n, GW_SUM));
        break;
    case 2 * ALL_REDUCE + 1: gw_all_reduce_coalesced(s, g, xs, n, GW_SUM); break;
    case 2 * BROADCAST + 1: gw_broadcast_coalesced(s, g, xs, n, 1); break;
    case 2 * ALL_GATHER + 1: gw_all_gather_coalesced(s, g, xs, n); break;
    case 2 * GATHER_TO + 1: gw_gather_to_coalesced(s, g, xs, n, 1); break;
    default: gw_reduce_scatter_coalesced(s, g, xs, n, GW_SUM); break;
    }
}

// A member that exchanges no values with the one that differs has the error by its next call.
static bool may_succeed(const difference *d, int rank) {
    form f = form_of(d, rank);
    bool has_root = f == BROADCAST || f == GATHER_TO;
    return has_root && (d->form != d->who_form || (rank != 1 && rank != d->who));
}

// Calls that do not wait reduce tensors of one dtype only.
static bool is_refused(const difference *d, int rank) {
    form f = form_of(d, rank);
    const gw_dtype *list = lists[rank == d->who ? d->of_who : d->of_others];
    bool has_several = (int)list[0] >= 0 && (int)list[1] >= 0;
    return !d->waits && has_several && (f == ALL_REDUCE || f == REDUCE_SCATTER);
}

static bool is_any_refused(const difference *d) {
    return is_refused(d, 0) || is_refused(d, 1) || is_refused(d, 2);
}

static bool is_error_of(const difference *d, gw_status status) {
    return status == GW_MISMATCH || (is_any_refused(d) && status == GW_UNSUPPORTED);
}

static bool any_may_succeed(const difference *d) {
    return may_succeed(d, 0) || may_succeed(d, 1) || may_succeed(d, 2);
}

static void differ(gw_scope *root, int rank, void *context) {
    const difference *d = context;
    gw_group *g = gw_group_world(root, .timeout_ms = 60000);
    gw_scope *s = gw_scope_open(root);
    gw_tensor *xs[TENSORS_MAX];
    call(s, d, g, xs, fill(s, d, rank, xs));
    gw_error e = gw_scope_close(s);
    if (!is_error_of(d, e.status) && !(e.status == GW_OK && may_succeed(d, rank)))
        fail_msg("w%d: %s %s", rank, gw_status_name(e.status), e.text);
    bool has_error = e.status;
    for (int step = 1; step <= STEPS; step++) {
        s = gw_scope_open(root);
        double got = gw_item(s, gw_all_reduce(s, g, gw_full(s, GW_F32, step), GW_SUM));
        e = gw_scope_close(s);
        if (e.status ? step > 2 || !any_may_succeed(d) : got != MEMBERS * step)
            fail_msg("w%d step %d: %g, %s", rank, step, got, e.text);
        has_error |= e.status;
    }
    // A refusal is the error of those who exchange values with its member.
    if (!has_error && !is_any_refused(d)) fail_msg("w%d has no error", rank);
}

static void differ_with_seed(uint64_t seed, void *context) {
    (void)context;
    form f = (form)(seed / MEMBERS % LIST_FORMS);
    difference d = { .seed = seed,
                     .who = (int)(seed % MEMBERS),
                     .form = f,
                     .who_form = f,
                     .waits = seed / MEMBERS / LIST_FORMS % 3,
                     .with_gradients = seed / MEMBERS / LIST_FORMS % 3 == 2 };
    for (d.of_who = 0; d.of_who < LISTS; d.of_who++)
        for (d.of_others = 0; d.of_others < LISTS; d.of_others++) {
            if (d.of_who == d.of_others) continue;
            testing_note("w%d has list %d, the others %d; function %d, waits %d, gradients %d",
                         d.who, d.of_who, d.of_others, (int)d.form, d.waits, d.with_gradients);
            cluster_run(seed,
                        (cluster_options){ .world_size = MEMBERS, .network = sim_varied(seed, 0) },
                        differ, &d);
        }
}

// One member calls another function, with the same or another list; a large sum has none.
static void call_others_with_seed(uint64_t seed, void *context) {
    (void)context;
    difference d = { .seed = seed, .who = (int)(seed % MEMBERS), .waits = seed / MEMBERS % 2 };
    d.of_who = (int)(seed % LISTS);
    d.of_others = (int)(seed / LISTS % LISTS);
    for (d.form = 0; d.form < FORMS; d.form++)
        for (d.who_form = 0; d.who_form < FORMS; d.who_form++) {
            if (d.form == d.who_form) continue;
            testing_note("w%d does %d of list %d, the others %d of list %d; waits %d", d.who,
                         (int)d.who_form, d.of_who, (int)d.form, d.of_others, d.waits);
            cluster_run(seed,
                        (cluster_options){ .world_size = MEMBERS, .network = sim_varied(seed, 0) },
                        differ, &d);
        }
}

static void functions_that_differ_are_a_mismatch(void **state) {
    (void)state;
    large_sum_set_piece(PIECE_BYTES);
    testing_for_seeds(2 * MEMBERS * LISTS * LISTS, call_others_with_seed, NULL);
}

static void lists_that_differ_are_a_mismatch(void **state) {
    (void)state;
    testing_for_seeds(3 * MEMBERS * LIST_FORMS, differ_with_seed, NULL);
}

// ---- Texts --------------------------------------------------------------------------------------

static void show_lists(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s);
    gw_tensor *xs[] = { gw_ones(s, GW_F32, 2, 3), gw_ones(s, GW_I64, 4) };
    static const char *const texts[] = { "w0 does all_reduce sum f32 6, tensors f32 2x3, i64 4 (",
                                         "w1 does all_reduce sum f32 6, tensors 2x3 (",
                                         "w2 does all_reduce sum f32 0, no tensors (" };
    gw_all_reduce_coalesced(s, g, xs, 2 - rank, GW_SUM);
    const gw_error *e = gw_scope_error(s);
    if (!strstr(e->text, texts[rank])) fail_msg("%s", e->text);
    gw_scope_clear(s);
}

static void the_error_lists_all_tensors(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = MEMBERS }, show_lists, NULL);
}

// ---- Without tensors ----------------------------------------------------------------------------

static void give_none(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s);
    for (int op = 0; op < GW_REDUCE_OP_COUNT; op++) {
        gw_list *sums = gw_all_reduce_coalesced(s, g, NULL, 0, (gw_reduce_op)op);
        assert_int_equal(gw_list_count(sums), 0);
        sums = gw_reduce_scatter_coalesced(s, g, NULL, 0, (gw_reduce_op)op);
        assert_int_equal(gw_list_count(sums), 0);
    }
    gw_future *fs[] = { gw_broadcast_coalesced_async(s, g, NULL, 0, 2),
                        gw_gather_to_coalesced_async(s, g, NULL, 0, 0),
                        gw_all_gather_coalesced_async(s, g, NULL, 0) };
    for (int i = 0; i < 3; i++)
        assert_int_equal(gw_list_count(gw_list_of(s, gw_wait(s, fs[i]))), 0);
    if (!gw_ok(s)) fail_msg("w%d: %s", rank, gw_scope_error(s)->text);
}

static void lists_without_tensors_give_empty_lists(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++)
        cluster_run(seed, (cluster_options){ .world_size = MEMBERS }, give_none, NULL);
}

GW_TESTS(group_lists_sim, lists_that_differ_are_a_mismatch, functions_that_differ_are_a_mismatch,
         the_error_lists_all_tensors, lists_without_tensors_give_empty_lists);
