// Which member has which part of a sharded optimizer, shared out as by PyTorch and by ranges.
#include "parallel/ddp/ddp.h"
#include "parallel/shard/shard.h"

#include "tensor/tensor.h"
#include "testing/cluster.h"
#include "testing/testing.h"
#include <gradwire.h>

enum { PARAMETERS = 6 };

static gw_list *make(gw_scope *s, gw_dtype dtype, const int64_t *sizes, int count) {
    gw_list *list = gw_list_open(s);
    for (int i = 0; i < count; i++)
        gw_list_add(s, list, gw_requires_grad(s, gw_ones(s, dtype, sizes[i])));
    return list;
}

static void expect_owners(const gw_optimizer *o, const int *owners, int count) {
    const shard *x = shard_of(o);
    assert_int_equal(x->piece_count, count);
    for (int i = 0; i < count; i++) {
        assert_int_equal(x->pieces[i].owner, owners[i]);
        assert_true(x->pieces[i].parameter == i && x->pieces[i].first == 0);
        assert_int_equal(o->parameters[i].elsewhere, owners[i] != gw_group_rank(x->group));
    }
}

// torch: test_zero_redundancy_optimizer.test_sharding and test_add_param_group
static void share_out_whole(gw_scope *root, int rank, void *context) {
    (void)rank, (void)context;
    const int64_t sizes[PARAMETERS] = { 9, 7, 5, 3, 3, 20 }, more[] = { 3, 9, 7 };
    gw_optimizer *o = gw_sgd(root, make(root, GW_F32, sizes, PARAMETERS), .lr = 0.1);
    gw_optimizer_shard(root, o);
    // 20 | 9 | 7; then 5 to the least loaded, of rank 2; 3 to rank 1 (9), 3 to rank 1 or 2 (12)
    expect_owners(o, (int[]){ 1, 2, 2, 1, 1, 0 }, PARAMETERS);
    assert_true(shard_of(o)->loads[0] == 20 && shard_of(o)->loads[1] == 15 &&
                shard_of(o)->loads[2] == 12);
    // A group that is added is shared out on top of what they have: 9 to rank 2, 7 to rank 1, 3 to rank 0.
    gw_optimizer_add_parameter_group(root, o, make(root, GW_F32, more, 3), .lr = 0.5);
    gw_backward(root, gw_requires_grad(root, gw_ones(root, GW_F32)));  // of something else
    gw_optimizer_step(root, o);
    assert_true(gw_ok(root));
    expect_owners(o, (int[]){ 1, 2, 2, 1, 1, 0, 0, 2, 1 }, PARAMETERS + 3);
    assert_int_equal(gw_optimizer_steps(o), 1);
}

static void parameters_go_to_the_least_loaded_largest_first(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 3 }, share_out_whole, NULL);
}

static void share_out_ranges(gw_scope *root, int rank, void *context) {
    (void)context;
    const int64_t sizes[] = { 4, 1, 5 }, wide[] = { 2 };
    gw_optimizer *o = gw_adam(root, make(root, GW_F32, sizes, 3), .lr = 0.1);
    gw_optimizer_add_parameter_group(root, o, make(root, GW_F64, wide, 1), .lr = 0.5);
    gw_optimizer_shard(root, o, .flat = true);
    // 10 numbers of f32: 4, 4 and 2 of them; 2 of f64: one, one and none.
    const piece expected[] = { { 0, 0, 0, 4 }, { 1, 1, 0, 1 }, { 2, 1, 0, 3 },
                               { 2, 2, 3, 2 }, { 3, 0, 0, 1 }, { 3, 1, 1, 1 } };
    const shard *x = shard_of(o);
    assert_int_equal(x->piece_count, 6);
    assert_memory_equal(x->pieces, expected, sizeof expected);
    const int own[] = { 2, 3, 1 };
    assert_int_equal(x->own->parameter_count, own[rank]);
}

static void ranges_are_of_one_length(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 3 }, share_out_ranges, NULL);
}

// ---- Early ----------------------------------------------------------------------------------------

// torch: test_zero_redundancy_optimizer.test_ddp_zero_overlap; from the first pass on
typedef struct early_way {
    bool is_shared_out, is_flat;
} early_way;

static void expect_early(const gw_optimizer *o, bool is_flat) {
    const gw_optimizer *own = is_flat ? shard_of(o)->own : o;
    for (int i = 0; i < own->parameter_count; i++)
        assert_true(own->parameters[i].is_early != own->parameters[i].elsewhere);
}

static void step_early(gw_scope *root, int rank, void *context) {
    const early_way *way = context;
    gw_module *m = gw_nn_sequential(root, gw_nn_linear(root, 4, 6), gw_nn_linear(root, 6, 2));
    gw_ddp_open(root, m, .first_bucket_bytes = 1, .bucket_bytes = 1);
    gw_optimizer *o = gw_adam(root, gw_parameters(root, m));
    gw_optimizer_shard(root, o, .overlap = true, .flat = way->is_flat,
                       .gradients = way->is_shared_out ? GW_SHARDED : GW_WHOLE);
    for (int step = 0; step < 3; step++) {
        gw_scope *s = gw_scope_open(root);
        gw_backward(s, gw_sum(s, gw_module_call(s, m, gw_ones(s, GW_F32, 3, 4))));
        expect_early(o, way->is_flat);
        gw_optimizer_step(s, o);
        for (int i = 0; i < o->parameter_count; i++) assert_false(o->parameters[i].is_early);
        gw_scope_close_up(s);
    }
    assert_true(gw_ok(root));
    assert_int_equal(gw_optimizer_steps(o), 3);
    (void)rank;
}

static void owners_step_as_gradients_arrive(void **state) {
    (void)state;
    for (int n = 1; n <= 3; n++)
        for (int i = 0; i < 4; i++) {
            early_way way = { .is_shared_out = i & 1, .is_flat = i & 2 };
            cluster_run(1, (cluster_options){ .world_size = n }, step_early, &way);
        }
}

// ---- Memory -------------------------------------------------------------------------------------

enum { DEPTH = 8, WIDTH = 32 };

typedef struct held {
    bool is_flat;
    gw_comm_hook *hook;
} held;

static const int64_t layer_bytes = (WIDTH + 1) * WIDTH * (int64_t)sizeof(float);

// When a bucket is launched, gradients are held of it and of those in no launched bucket, and the means of those
// before it that are kept here.
static gw_future *watch(gw_scope *s, gw_bucket *b, void *context) {
    const gw_ddp *d = b->ddp;
    int64_t bytes = 0, n = d->stats.world_size;
    const ddp_pass *r = list_entry(d->passes.next, ddp_pass, link);
    for (int i = 0; i < d->gate.leaf_count && !gw_bucket_is_last(b); i++) {
        if (r->gradients[i]) bytes += r->gradients[i]->numel * (int64_t)sizeof(float);
        if (r->results[i]) bytes += r->results[i]->numel * (int64_t)sizeof(float);
    }
    if (bytes > DEPTH * layer_bytes / n + 2 * layer_bytes) fail_msg("%lld bytes", (long long)bytes);
    return gw_hook_all_reduce(s, b, context);
}

// The bytes of all blocks that gradients of |s| are in.
static int64_t bytes_of_gradients(gw_scope *s) {
    int64_t bytes = 0;
    for (int i = 0; i < gw_grads_count(s); i++) {
        const block *b = gw_grads_get(s, i).grad->storage->block;
        bool is_new = true;
        for (int k = 0; k < i; k++) is_new = is_new && gw_grads_get(s, k).grad->storage->block != b;
        if (is_new) bytes += (int64_t)b->size;
    }
    return bytes;
}

// Of buckets of one layer each, behind which are flags.
static void hold(gw_scope *root, int rank, void *context) {
    const held *h = context;
    const int64_t layer = layer_bytes, n = gw_rpc_world_size(root);
    (void)rank;
    gw_module *layers[DEPTH];
    for (int i = 0; i < DEPTH; i++) layers[i] = gw_nn_linear(root, WIDTH, WIDTH);
    gw_module *m = gw_nn_sequential_with(root, layers, DEPTH);
    gw_ddp *ddp = gw_ddp_open(root, m, .first_bucket_bytes = layer, .bucket_bytes = layer);
    if (h->hook) gw_ddp_set_hook(root, ddp, h->hook, NULL);
    gw_optimizer *o = gw_sgd(root, gw_parameters(root, m));
    gw_optimizer_shard(root, o, .gradients = GW_SHARDED, .flat = h->is_flat);
    for (int step = 0; step < 2; step++) {
        gw_scope *s = gw_scope_open(root);
        gw_backward(s, gw_sum(s, gw_module_call(s, m, gw_ones(s, GW_F32, 1, WIDTH))));
        int64_t all = DEPTH * layer, most = all / n + (h->is_flat ? 0 : layer);
        int64_t bytes = bytes_of_gradients(s), slack = DEPTH * 256;
        if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
        if (bytes > most + slack) fail_msg("%lld of %lld bytes", (long long)bytes, (long long)all);
        gw_scope_close_up(s);
    }
}

static void each_member_holds_its_part_of_the_gradients(void **state) {
    (void)state;
    static gw_comm_hook *const hooks[] = { NULL, gw_hook_bf16, gw_hook_none, watch };
    for (int n = 2; n <= 4; n++)
        for (int i = 0; i < 8; i++) {
            held h = { .is_flat = i & 1, .hook = hooks[i / 2] };
            cluster_run(1, (cluster_options){ .world_size = n }, hold, &h);
        }
}

GW_TESTS(shard, each_member_holds_its_part_of_the_gradients, owners_step_as_gradients_arrive,
         parameters_go_to_the_least_loaded_largest_first, ranges_are_of_one_length);
