// Buffers that travel with gradients.
#include "parallel/ddp/ddp.h"

#include "testing/cluster.h"
#include "testing/testing.h"
#include <gradwire.h>

#include <math.h>
#include <string.h>

enum { SIZE = 3 };

typedef struct model {
    gw_module *m;
    gw_tensor *w, *mean, *odd, *wide, *count;
} model;

static gw_tensor *forward(gw_scope *s, gw_module *m, gw_tensor *x) {
    return gw_mul(s, x, ((model *)gw_module_state(m))->w);
}

static void open_model(gw_scope *s, model *m) {
    m->m = gw_module_open(s, "model", forward, m);
    m->w = gw_requires_grad(s, gw_full(s, GW_F32, 1, SIZE));
    m->mean = gw_full(s, GW_F32, 0, SIZE);
    m->wide = gw_full(s, GW_F64, 0, 1);
    m->count = gw_full(s, GW_I64, 0, 1);
    m->odd = gw_full(s, GW_U8, 0, 5);
    gw_module_register_parameter(s, m->m, "w", m->w);
    gw_module_register_buffer(s, m->m, "mean", m->mean);
    gw_module_register_buffer(s, m->m, "wide", m->wide);
    gw_module_register_buffer(s, m->m, "count", m->count);
    gw_module_register_buffer(s, m->m, "odd", m->odd);
}

// Numbers whose bits a float would not keep.
static const double fine = 1.0 / 3, close_to = -0.1f;
static const int64_t large = INT64_C(-1234567890123456789);

static void write_buffers(gw_scope *s, model *m, int rank) {
    gw_no_grad(s);
    gw_copy_(s, m->mean, gw_full(s, GW_F32, rank ? rank : close_to, SIZE));
    gw_copy_(s, m->wide, gw_full(s, GW_F64, fine + rank, 1));
    gw_copy_(s, m->count, gw_full(s, GW_I64, large + rank, 1));
    gw_copy_(s, m->odd, gw_full(s, GW_U8, 200 + rank, 5));
    gw_enable_grad(s);
}

static double last_of(gw_scope *s, gw_tensor *x) {
    int64_t n = gw_numel(x);
    return gw_item(s, gw_slice(s, x, 0, n - 1, n, 1));
}

static void walk(gw_scope *s, model *m, int rank) {
    write_buffers(s, m, rank);
    gw_tensor *y = gw_module_call(s, m->m, gw_full(s, GW_F32, 0.1 + rank / 7.0, SIZE));
    gw_backward(s, gw_sum(s, y));
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
}

typedef struct way {
    gw_buffers buffers;
    bool is_shared_out;  // one member keeps the gradient
    bool is_flat;        // or each a range of it
} way;

// Gradients have the same bits with and without buffers that travel with them.
static void travel(gw_scope *root, int rank, void *context) {
    const way *how = context;
    bool averages = how->buffers == GW_BUFFERS_AVERAGE;
    int n = gw_rpc_world_size(root);
    model with, without;
    open_model(root, &with);
    open_model(root, &without);
    gw_ddp *ddp = gw_ddp_open(root, with.m, .buffers = how->buffers);
    gw_ddp_open(root, without.m, .buffers = GW_BUFFERS_LEFT);
    if (how->is_shared_out)
        gw_optimizer_shard(root, gw_sgd(root, gw_parameters(root, with.m)), .gradients = GW_SHARDED,
                           .flat = how->is_flat);
    for (int step = 0; step < 3; step++) {
        gw_scope *s = gw_scope_open(root);
        walk(s, &with, rank);
        walk(s, &without, rank);
        bool keeps = !how->is_shared_out || (rank == 0 && !how->is_flat);
        assert_true((gw_grad_find(s, with.w) != NULL) == keeps);
        if (keeps) assert_true(gw_equal(s, gw_grad(s, with.w), gw_grad(s, without.w)));
        double mean = (n * (n - 1) / 2.0 + close_to) / n, wide = fine + (n - 1) / 2.0;
        assert_true(fabs(last_of(s, with.mean) - (averages ? mean : close_to)) <
                    averages * 1e-6 + 1e-30);
        assert_true(fabs(last_of(s, with.wide) - (averages ? wide : fine)) <
                    averages * 1e-6 + 1e-30);
        assert_true(gw_item_int(s, with.count) == large && last_of(s, with.odd) == 200);
        assert_true(gw_item_int(s, without.count) == large + rank);
        gw_ddp_check(s, ddp);
        if (rank)
            walk(s, &with, rank);
        else
            gw_ddp_skip(s, ddp);
        gw_ddp_check(s, ddp);
        if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
        gw_scope_close_up(s);
    }
}

static void they_travel_with_gradients(void **state) {
    (void)state;
    for (int n = 2; n <= 4; n++)
        for (int i = 0; i < 6; i++) {
            way how = { i & 1 ? GW_BUFFERS_AVERAGE : GW_BUFFERS_WITH_GRADIENTS, i > 1, i > 3 };
            cluster_run((uint64_t)n, (cluster_options){ .world_size = n }, travel, &how);
        }
}

static uint64_t messages_of_a_pass(gw_scope *root, int rank, gw_buffers how) {
    model m;
    open_model(root, &m);
    gw_ddp_open(root, m.m, .buffers = how);
    uint64_t before = gw_rpc_get_stats(root).messages_sent;
    gw_scope *s = gw_scope_open(root);
    for (int i = 0; i < 4; i++) walk(s, &m, rank);
    gw_scope_close_up(s);
    return gw_rpc_get_stats(root).messages_sent - before;
}

static void count_messages(gw_scope *root, int rank, void *context) {
    (void)context;
    uint64_t left = messages_of_a_pass(root, rank, GW_BUFFERS_LEFT);
    assert_true(left && left == messages_of_a_pass(root, rank, GW_BUFFERS_WITH_GRADIENTS));
    assert_true(left < messages_of_a_pass(root, rank, GW_BUFFERS_BROADCAST));
}

static void buffers_need_no_extra_message(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 2 }, count_messages, NULL);
}

// Buffers of a member that has closed a join do not count.
static void travel_uneven(gw_scope *root, int rank, void *context) {
    const gw_buffers *how = context;
    int n = gw_rpc_world_size(root);
    model m;
    open_model(root, &m);
    gw_ddp *ddp = gw_ddp_open(root, m.m, .buffers = *how);
    gw_joinable part = { .ddp = ddp };
    gw_join *join = gw_join_open(root, &part, 1);
    for (int step = 0; step < 2 + (n - 1 - rank); step++) {  // rank 0 has most
        gw_scope *s = gw_scope_open(root);
        walk(s, &m, rank);
        int active = gw_join_get_iteration(join).active, last = active - 1;
        double mean = 0;
        for (int i = 0; i < active; i++) mean += (i ? i : close_to) / active;
        double want = *how == GW_BUFFERS_AVERAGE ? mean : last ? last : close_to;
        assert_true(fabs(last_of(s, m.mean) - want) < 1e-6);
        assert_true(gw_item_int(s, m.count) == large + last);
        gw_scope_close_up(s);
    }
    gw_join_close(root, join);
    gw_ddp_check(root, ddp);
    if (!gw_ok(root)) fail_msg("%s", gw_scope_error(root)->text);
}

static void in_a_join_buffers_are_those_of_members_with_inputs(void **state) {
    (void)state;
    gw_buffers how = GW_BUFFERS_WITH_GRADIENTS;
    cluster_run(1, (cluster_options){ .world_size = 3 }, travel_uneven, &how);
    how = GW_BUFFERS_AVERAGE;
    cluster_run(1, (cluster_options){ .world_size = 3 }, travel_uneven, &how);
}

static void expect_error(gw_scope *s, gw_status status, const char *text) {
    if (gw_scope_error(s)->status != status || !strstr(gw_scope_error(s)->text, text))
        fail_msg("%s: %s", gw_status_name(gw_scope_error(s)->status), gw_scope_error(s)->text);
    gw_scope_clear(s);
}

static void be_refused(gw_scope *root, int rank, void *context) {
    (void)rank, (void)context;
    model m;
    open_model(root, &m);
    gw_ddp *ddp = gw_ddp_open(root, m.m, .buffers = GW_BUFFERS_AVERAGE);
    gw_ddp_set_hook(root, ddp, gw_hook_f16, NULL);
    expect_error(root, GW_INVALID,
                 "gw_ddp_set_hook: a hook cannot be set, because buffers are sent with gradients "
                 "(.buffers)");
    gw_module *halves = gw_module_open(root, "halves", forward, NULL);
    gw_module_register_parameter(root, halves, "w",
                                 gw_requires_grad(root, gw_full(root, GW_F16, 1, 2)));
    gw_module_register_buffer(root, halves, "b", gw_full(root, GW_F32, 1, 2));
    gw_ddp_open(root, halves, .buffers = GW_BUFFERS_WITH_GRADIENTS);
    expect_error(root, GW_INVALID,
                 "gw_ddp_open: .buffers sends buffers with gradients of f32 or f64, but no "
                 "parameter of the model has f32 or f64");
}

static void buffers_without_float_gradients_are_refused(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 2 }, be_refused, NULL);
}

GW_TESTS(parallel_buffers, they_travel_with_gradients, buffers_need_no_extra_message,
         in_a_join_buffers_are_those_of_members_with_inputs,
         buffers_without_float_gradients_are_refused);
