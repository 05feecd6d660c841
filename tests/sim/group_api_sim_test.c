// Collectives into given tensors, of sparse tensors, coalesced ones, and batches of messages, in the simulator.
#include "collective/group/groups_state.h"
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

static void expect_numbers(gw_scope *s, gw_tensor *x, const char *text) {
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
    assert_string_equal(gw_to_text(s, x), text);
}

static gw_tensor *item(gw_scope *s, gw_list *list, int i) {
    return gw_tensor_of(s, gw_list_get(s, list, i));
}

// ---- Given tensors ------------------------------------------------------------------------------

static void fill_given(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s);
    gw_tensor *x = gw_full(s, GW_F32, rank + 1, 2);
    assert_ptr_equal(gw_all_reduce(s, g, x, GW_SUM, .into = x), x);
    expect_numbers(s, x, "tensor([6., 6.])");
    gw_tensor *table = gw_zeros(s, GW_F32, 3, 2);
    gw_tensor *column = gw_select(s, table, 1, 1);
    gw_all_gather(s, g, gw_full(s, GW_F32, rank, 1), .into = column);
    expect_numbers(s, table, "tensor([[0., 0.],\n        [0., 1.],\n        [0., 2.]])");
    gw_tensor *row = gw_zeros(s, GW_F32, 1);
    gw_reduce_scatter(s, g, gw_full(s, GW_F32, rank, 3), GW_MAX, .into = row);
    expect_numbers(s, row, "tensor([2.])");
    gw_broadcast(s, g, rank == 1 ? gw_full(s, GW_F32, 7, 1) : NULL, 1, .into = row);
    expect_numbers(s, row, "tensor([7.])");
    gw_tensor *sum = gw_full(s, GW_F32, -1, 1);
    gw_tensor *got = gw_reduce(s, g, row, GW_SUM, 2, .into = sum);
    expect_numbers(s, sum, rank == 2 ? "tensor([21.])" : "tensor([-1.])");
    assert_int_equal(gw_numel(got), rank == 2);
    gw_list *each = gw_list_open(s);
    for (int i = 0; i < 3; i++) gw_list_add(s, each, gw_full(s, GW_F32, i, 1));
    gw_scatter_from(s, g, rank ? NULL : each, 0, .into = row);
    assert_int_equal((int)gw_item(s, row), rank);
    gw_tensor *swapped = gw_zeros(s, GW_I64, 3);
    gw_all_to_all(s, g, gw_full(s, GW_I64, rank, 3), .into = swapped);
    expect_numbers(s, swapped, "tensor([0, 1, 2])");
}

static void results_go_into_given_tensors(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) cluster_run(seed, workers(3), fill_given, NULL);
}

static void fail_given(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s);
    gw_tensor *x = gw_full(s, GW_F32, rank, 2);
    gw_all_reduce(s, g, x, rank ? GW_MAX : GW_SUM, .into = x);
    expect(s, GW_MISMATCH, "all_reduce max f32 2");
    assert_int_equal((int)gw_item(s, gw_max(s, x)), rank);
    if (rank == 0) gw_matmul(s, x, gw_ones(s, GW_F32, 3, 3));
    gw_all_reduce(s, g, x, GW_SUM, .into = x);
    expect(s, GW_INVALID, "gw.matmul");
    assert_int_equal((int)gw_item(s, gw_max(s, x)), rank);
    gw_all_reduce(s, g, x, GW_SUM, .into = x);
    expect_numbers(s, x, "tensor([3., 3.])");
}

static void a_failed_collective_changes_no_given_tensor(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) cluster_run(seed, workers(3), fail_given, NULL);
}

static void refuse_given(gw_scope *s, int rank, void *context) {
    (void)context, (void)rank;
    gw_group *g = gw_group_world(s);
    gw_tensor *x = gw_ones(s, GW_F32, 2), *leaf = gw_requires_grad(s, gw_ones(s, GW_F32, 2));
    gw_all_reduce(s, g, x, GW_SUM, .into = gw_ones(s, GW_F32, 3));
    expect(s, GW_INVALID, "gw_all_reduce: the result of f32 2 does not fit into f32 3");
    gw_all_reduce(s, g, x, GW_SUM, .into = gw_ones(s, GW_F64, 2));
    expect(s, GW_INVALID, "gw_all_reduce: the result of f32 2 does not fit into f64 2");
    gw_all_reduce(s, g, x, GW_SUM, .into = leaf);
    expect(s, GW_INVALID,
           "gw_all_reduce: the tensor .into needs a gradient: call gw_no_grad first, which allows "
           "the write");
    gw_all_reduce(s, g, leaf, GW_SUM, .into = x);
    expect(
        s, GW_INVALID,
        "gw_all_reduce: .into cannot be used if the input needs a gradient: gw_detach the input");
    gw_all_reduce_async(s, g, x, GW_SUM, .into = x);
    expect(s, GW_INVALID,
           ".into can be used only with a blocking function that returns one tensor");
    gw_all_gather_list(s, g, x, .into = x);
    expect(s, GW_INVALID,
           ".into can be used only with a blocking function that returns one tensor");
    gw_all_reduce(s, g, x, GW_SUM, .into = gw_expand(s, gw_ones(s, GW_F32, 1), 2));
    expect(s, GW_INVALID, "gw_all_reduce: elements of the tensor .into share memory");
    gw_tensor *sparse = gw_rows(s, gw_zeros(s, GW_I64, 1), gw_ones(s, GW_F32, 1, 2), 4);
    gw_all_reduce(s, g, x, GW_SUM, .into = sparse);
    expect(s, GW_INVALID, "gw_all_reduce: .into is sparse by rows");
    gw_all_gather(s, g, x, .into = gw_ones(s, GW_F32, 2, 2));
    expect(s, GW_INVALID, "gw_all_gather: the result of f32 2 does not fit into f32 2x2");
    expect_numbers(s, gw_all_reduce(s, g, x, GW_SUM), "tensor([2., 2.])");  // nothing was sent
    gw_all_gather(
        s, g, x,
        .into = gw_ones(s, GW_F32, 5));  // the size of the result is not known before the call
    expect(s, GW_INVALID, "gw_all_gather: the result is f32 4, but the tensor .into is f32 5");
}

enum { AT_ONCE = 20 };

// How many of 20 calls request the activity of the late member, and their statuses.
static void wait_at_once(gw_scope *s, int rank, void *context) {
    int64_t timeout_ms = *(const int64_t *)context;
    bool is_late = timeout_ms < 25000;
    gw_group *g = gw_group_world(s);
    gw_future *all[AT_ONCE];
    gw_barrier(s, g);
    if (rank == 1) cluster_pause_ms(s, 25000);
    for (int i = 0; i < AT_ONCE; i++)
        all[i] = gw_all_reduce_async(s, g, gw_ones(s, GW_F32, 1), GW_SUM,
                                     .timeout_ms = rank ? 60000 : timeout_ms);
    for (int i = 0; i < AT_ONCE; i++) {
        gw_scope *t = gw_scope_open(s);
        gw_wait(t, all[i]);
        if (rank == 0) assert_int_equal(gw_scope_error(t)->status, is_late ? GW_TIMEOUT : GW_OK);
        gw_scope_clear(t);
        gw_scope_close_up(t);
    }
    gw_scope_clear(s);
    if (rank == 0) assert_int_equal(groups_of(s->agent)->last_inquiry, is_late ? 1 : 2);
}

static void one_inquiry_serves_all_waiting_calls(void **state) {
    (void)state;
    for (int64_t timeout_ms = 5000; timeout_ms <= 60000; timeout_ms += 55000)
        cluster_run(1, workers(2), wait_at_once, &timeout_ms);
}

// Of each kind of call, also in a scope that has failed: the others wait for none of them.
static void refuse_keys(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s);
    gw_tensor *x = gw_ones(s, GW_F32, 2), *xs[] = { x };
    const uint64_t key = (uint64_t)1 << 62, once = UINT64_MAX;
    gw_all_reduce(s, g, x, GW_SUM, .key = key);
    expect(s, GW_INVALID,
           "gw_all_reduce: the key is 4611686018427387904, but keys must be below 2^62 - 1");
    gw_all_reduce_async(s, g, x, GW_SUM, .key = once);
    expect(s, GW_INVALID,
           "gw_all_reduce: the key is 18446744073709551615, but keys must be below 2^62 - 1");
    gw_broadcast(s, g, x, 0, .key = key);
    expect(s, GW_INVALID, "gw_broadcast: the key is ");
    gw_all_gather(s, g, x, .key = key);
    expect(s, GW_INVALID, "gw_all_gather: the key is ");
    gw_all_to_all(s, g, x, .key = key);
    expect(s, GW_INVALID, "gw_all_to_all: the key is ");
    gw_all_reduce_coalesced(s, g, xs, 1, GW_SUM, .key = key);
    expect(s, GW_INVALID, "gw_all_reduce_coalesced: the key is ");
    gw_all_gather_value(s, g, rank, .key = key);
    expect(s, GW_INVALID, "gw_all_gather_value: the key is ");
    gw_barrier(s, g, .key = key);
    expect(s, GW_INVALID, "gw_barrier: the key is ");
    gw_scope *t = gw_scope_open(s);
    gw_fail(t, GW_CANCELLED, "this scope has failed");
    gw_barrier(t, g, .key = key);
    expect(t, GW_CANCELLED, "this scope has failed");
    gw_scope_close_up(t);
    gw_barrier(s, g, .key = key - 1);
    expect(s, GW_INVALID, "gw_barrier: the key is ");
    x = gw_all_reduce(s, g, x, GW_SUM, .key = key - 2);
    expect_numbers(s, x, "tensor([2., 2.])");
}

static void keys_of_the_librarys_own_are_refused(void **state) {
    (void)state;
    cluster_run(1, workers(2), refuse_keys, NULL);
}

static void results_that_do_not_fit_are_refused_before_sending(void **state) {
    (void)state;
    cluster_run(1, workers(2), refuse_given, NULL);
}

// ---- Sparse tensors -----------------------------------------------------------------------------

enum { TABLE = 9, WIDTH = 3, NAMED = 5 };

// Some rows twice, others of no member.
static gw_tensor *sparse_of(gw_scope *s, int rank, gw_dtype dtype) {
    int64_t at[NAMED];
    float x[NAMED * WIDTH];
    for (int i = 0; i < NAMED; i++) at[i] = (i * 5 + rank * 3) % (TABLE - 2);
    for (int i = 0; i < NAMED * WIDTH; i++)
        x[i] = ldexpf((float)((i * 37 + rank * 101) % 255 - 127), (i + 3 * rank) % 11 - 8);
    gw_tensor *values = gw_to_dtype(s, gw_from(s, x, NAMED, WIDTH), dtype);
    return gw_coalesce(s, gw_rows(s, gw_from(s, at, NAMED), values, TABLE));
}

static void add_sparse(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s);
    static const gw_dtype dtypes[] = { GW_F32, GW_F64, GW_F16, GW_BF16 };
    for (int d = 0; d < 4; d++) {
        gw_tensor *x = sparse_of(s, rank, dtypes[d]);
        gw_tensor *mean = gw_all_reduce(s, g, x, GW_AVG, .factor = 0.3);
        gw_tensor *dense = gw_all_reduce(s, g, gw_to_dense(s, x), GW_AVG, .factor = 0.3);
        if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
        assert_int_equal(gw_layout_of(mean), GW_ROWS);
        assert_int_equal(gw_dtype_of(mean), dtypes[d]);
        assert_memory_equal(gw_data(gw_to_dense(s, mean)), gw_data(dense),
                            TABLE * WIDTH * gw_dtype_size(dtypes[d]));
    }
    gw_tensor *rows =
        gw_rows(s, gw_full(s, GW_I64, rank, 1), gw_full(s, GW_F32, rank + 1, 1, 1), rank + 2);
    gw_tensor *all = gw_all_gather(s, g, rows);
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
    int64_t total = 0;
    for (int i = 0; i < gw_group_size(g); i++) total += i + 2;
    assert_int_equal(gw_size(all, 0), total);
    const float *numbers = gw_data(gw_to_dense(s, all));
    int64_t at = 0;
    for (int i = 0; i < gw_group_size(g); i++, at += i + 1)
        assert_int_equal((int)numbers[at + i], i + 1);
    gw_future *f = gw_all_reduce_async(s, g, rows = sparse_of(s, rank, GW_F32), GW_SUM);
    assert_int_equal(gw_layout_of(gw_tensor_of(s, gw_wait(s, f))), GW_ROWS);
}

static void sparse_tensors_add_up_to_the_bits_of_dense_ones(void **state) {
    (void)state;
    for (int n = 1; n <= 6; n++)
        for (uint64_t seed = 1; seed <= 3; seed++) cluster_run(seed, workers(n), add_sparse, NULL);
}

static void differ_sparse(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s);
    gw_tensor *x = sparse_of(s, rank, GW_F32);
    gw_all_reduce(s, g, rank == 1 ? gw_to_dense(s, x) : x, GW_SUM);
    expect(s, GW_MISMATCH, "w1 does all_reduce sum f32 9x3 (");
    gw_all_reduce(s, g, x, rank == 1 ? GW_AVG : GW_SUM);
    expect(s, GW_MISMATCH, "w1 does all_reduce avg sparse by rows f32 9x3 (");
    gw_all_reduce(s, g, x, GW_MAX);
    expect(
        s, GW_INVALID,
        "gw_all_reduce: tensors that are sparse by rows can be combined by GW_SUM and GW_AVG only");
    gw_all_reduce(s, g, x, GW_SUM, .into = gw_ones(s, GW_F32, 9, 3));
    expect(s, GW_INVALID,
           "gw_all_reduce: .into cannot be used for a tensor that is sparse by rows");
    gw_reduce(s, g, x, GW_SUM, 0);
    expect(s, GW_INVALID,
           "gw_reduce: the tensor is sparse by rows, which this collective does not support");
    gw_barrier(s, g);
    assert_true(gw_ok(s));
}

static void sparse_and_dense_do_not_mix(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) cluster_run(seed, workers(3), differ_sparse, NULL);
}

// ---- Coalesced calls ----------------------------------------------------------------------------

static void exchange_coalesced(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s);
    float r = (float)rank;
    gw_tensor *xs[] = { gw_from(s, ((float[]){ r, 1, r, 2, r, 3 }), 3, 2),
                        gw_full(s, GW_I64, rank, 3),
                        gw_from(s, ((float[]){ 10 * r, 20 * r, 30 * r }), 3) };
    gw_list *all = gw_all_gather_coalesced(s, g, xs, 3);
    gw_list *sums = gw_reduce_scatter_coalesced(s, g, xs, 3, GW_SUM);
    gw_list *there = gw_gather_to_coalesced(s, g, xs, 3, 1);
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
    for (int i = 0; i < 3; i++) {
        expect_numbers(s, item(s, all, i), gw_to_text(s, gw_all_gather(s, g, xs[i])));
        expect_numbers(s, item(s, sums, i), gw_to_text(s, gw_reduce_scatter(s, g, xs[i], GW_SUM)));
        if (rank == 1) expect_numbers(s, item(s, there, i), gw_to_text(s, item(s, all, i)));
        if (rank != 1) assert_int_equal(gw_numel(item(s, there, i)), 0);
    }
    assert_int_equal(gw_list_count(gw_all_gather_coalesced(s, g, NULL, 0)), 0);
    assert_true(gw_ok(s));
}

static void coalesced_calls_return_what_single_calls_return(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++)
        cluster_run(seed, workers(3), exchange_coalesced, NULL);
}

static void differ_in_shapes(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s);
    gw_tensor *xs[] = { gw_ones(s, GW_F32, 2, 3), gw_ones(s, GW_F32, rank ? 4 : 3),
                        gw_ones(s, GW_F32, rank ? 3 : 4) };  // as many numbers in all
    gw_all_reduce_coalesced(s, g, xs, 3, GW_SUM);
    expect(s, GW_MISMATCH,
           rank ? "w1 does all_reduce sum f32 13, tensors 2x3, 4, 3 ("
                : "w0 does all_reduce sum f32 13, tensors 2x3, 3, 4 (");
    gw_reduce_scatter_coalesced(s, g, ((gw_tensor *[]){ xs[0], gw_ones(s, GW_F32, 3) }), 2, GW_SUM);
    expect(s, GW_INVALID,
           "gw_reduce_scatter_coalesced: 3 rows cannot be divided equally among 2 members");
    gw_all_gather_coalesced(s, g, xs, 2, .into = xs[0]);
    expect(s, GW_INVALID, "gw_all_gather_coalesced: .into cannot be used for several tensors");
    gw_all_gather_coalesced(s, g, NULL, 2);
    expect(s, GW_INVALID, "gw_all_gather_coalesced: 2 tensors were given, but the list is NULL");
}

static void coalesced_calls_of_other_shapes_are_a_mismatch(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++)
        cluster_run(seed, workers(2), differ_in_shapes, NULL);
}

static void differentiate_coalesced(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s);
    gw_tensor *x = gw_requires_grad(s, gw_ones(s, GW_F32, 2, 2));
    gw_tensor *y = gw_requires_grad(s, gw_ones(s, GW_F32, 3));
    gw_list *all = gw_all_gather_coalesced(s, g, ((gw_tensor *[]){ x, y }), 2);
    gw_tensor *loss = gw_add(s, gw_sum(s, item(s, all, 0)), gw_sum(s, item(s, all, 1)));
    gw_backward(s, gw_mul(s, loss, rank + 1));
    expect_numbers(s, gw_grad(s, y), "tensor([3., 3., 3.])");
    assert_int_equal((int)gw_item(s, gw_max(s, gw_grad(s, x))), 3);
}

static void gradients_flow_back_through_coalesced_calls(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++)
        cluster_run(seed, workers(2), differentiate_coalesced, NULL);
}

// ---- Batches of messages ------------------------------------------------------------------------

static void pass_on(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s);
    int n = gw_group_size(g), next = (rank + 1) % n, before = (rank + n - 1) % n;
    gw_message ring[] = { { .peer = before, .tag = 2 },
                          { .peer = next, .send = gw_full(s, GW_F32, rank, 2), .tag = 2 },
                          { .peer = before },
                          { .peer = next, .send = gw_full(s, GW_I64, rank, 1) } };
    gw_list *received = gw_batch(s, g, ring, 4);
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
    assert_int_equal(gw_list_count(received), 4);
    assert_int_equal((int)gw_item(s, gw_max(s, item(s, received, 0))), before);
    assert_int_equal(gw_item_int(s, item(s, received, 2)), before);
    assert_int_equal(gw_list_get(s, received, 1).kind, GW_NONE);
    assert_int_equal(gw_list_count(gw_batch(s, g, NULL, 0)), 0);
    gw_message wrong[] = { ring[1], { .peer = n } };
    gw_batch(s, g, wrong, 2);
    expect(s, GW_INVALID, "gw_batch: rank 3 is out of range for group \"world\" of 3 members");
    gw_barrier(s, g);
    gw_recv(s, g, before, .tag = 2);  // the first one was refused, too
    expect(s, GW_INVALID, "gw_batch: rank 3 is out of range for group");
    gw_barrier(s, g);
    gw_batch(s, g, ring, 1, .timeout_ms = 100);
    expect(s, GW_TIMEOUT, "");
    gw_barrier(s, g);
    assert_true(gw_ok(s));
}

static void a_batch_of_messages_completes_in_any_order(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) cluster_run(seed, workers(3), pass_on, NULL);
}

GW_TESTS(group_api_sim, results_go_into_given_tensors, a_failed_collective_changes_no_given_tensor,
         results_that_do_not_fit_are_refused_before_sending, keys_of_the_librarys_own_are_refused,
         one_inquiry_serves_all_waiting_calls, sparse_tensors_add_up_to_the_bits_of_dense_ones,
         sparse_and_dense_do_not_mix, coalesced_calls_return_what_single_calls_return,
         coalesced_calls_of_other_shapes_are_a_mismatch,
         gradients_flow_back_through_coalesced_calls, a_batch_of_messages_completes_in_any_order);
