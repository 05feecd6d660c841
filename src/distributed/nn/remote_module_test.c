#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire/autograd.h>
#include <gradwire/checkpoint.h>
#include <gradwire/dist.h>
#include <gradwire/membership.h>
#include <gradwire/module_remote.h>

#include <string.h>

// ---- Classes ------------------------------------------------------------------------------------
// Two layers that share their weight, and a buffer.
static gw_module *remote_twins_open(gw_scope *own, const gw_args *a) {
    gw_module *one = gw_nn_linear(own, gw_arg_int(own, a, 0), gw_arg_int(own, a, 0));
    gw_module *m = gw_nn_sequential(own, one, gw_nn_dropout(own, 0.5));
    gw_module_register_parameter(own, m, "tied", gw_module_parameter_get(own, one, "weight"));
    gw_module_register_buffer(own, m, "count", gw_full(own, GW_I64, 3));
    return m;
}
GW_MODULE(remote_twins, remote_twins_open, "int");

GW_METHOD(remote_twins, is_training, GW_POOL, "") {
    return gw_value_of(gw_module_is_training(self->module));
}

static gw_module *remote_nothing_open(gw_scope *own, const gw_args *a) {
    (void)own, (void)a;
    return NULL;
}
GW_MODULE(remote_nothing, remote_nothing_open);

typedef struct remote_thing {
    int n;
} remote_thing;
GW_CLASS(remote_thing, remote_thing_open);
static void remote_thing_open(gw_scope *own, remote_thing *self, const gw_args *a) {
    (void)own, (void)self, (void)a;
}

// Calls a module that the caller has made.
GW_FUNCTION(remote_use, GW_POOL, "rref, tensor") {
    gw_module *m = gw_module_from_rref(s, gw_arg_rref(s, a, 0));
    return gw_value_of(gw_module_call(s, m, gw_arg_tensor(s, a, 1)));
}

// ---- Comparing ----------------------------------------------------------------------------------
static void assert_ok(gw_scope *s) {
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
}

static void assert_failed(gw_scope *s, gw_status status, const char *words) {
    const gw_error *e = gw_scope_error(s);
    if (e->status != status || !strstr(e->text, words)) fail_msg("%s", e->text);
    gw_scope_clear(s);
}

static void assert_same(gw_scope *s, gw_tensor *a, gw_tensor *b) {
    a = gw_contiguous(s, gw_detach(s, a));
    b = gw_contiguous(s, gw_detach(s, b));
    assert_ok(s);
    assert_int_equal(gw_numel(a), gw_numel(b));
    assert_memory_equal(gw_data(a), gw_data(b),
                        (size_t)gw_numel(a) * gw_dtype_size(gw_dtype_of(a)));
}

static void assert_same_state(gw_scope *s, gw_map *a, gw_map *b) {
    assert_ok(s);
    assert_int_equal(gw_map_count(a), gw_map_count(b));
    for (int i = 0; i < gw_map_count(a); i++) {
        const char *name = gw_map_key(s, a, i);
        assert_same(s, gw_tensor_of(s, gw_map_get(s, a, name)),
                    gw_tensor_of(s, gw_map_get(s, b, name)));
    }
}

static void run(int world_size, cluster_main *main) {
    cluster_outcome o = cluster_run(1, (cluster_options){ .world_size = world_size }, main, NULL);
    for (int rank = 0; rank < world_size; rank++) assert_int_equal(o.owned[rank], 0);
}

// ---- Forward ------------------------------------------------------------------------------------
// The module is on another worker, or on this one.
static void call_everywhere(gw_scope *root, int rank, void *context) {
    (void)context;
    for (int owner = 0; owner < 2 && rank == 0; owner++) {
        gw_scope *s = gw_scope_open(root);
        gw_module *here = gw_nn_linear(s, 4, 3);
        gw_module *there = gw_module_remote(s, owner, "gw.nn.linear", 4, 3);
        gw_module_load_state_dict(s, there, gw_module_state_dict(s, here));
        gw_tensor *x = gw_randn(s, GW_F32, 5, 4);
        assert_same(s, gw_module_call(s, here, x), gw_module_call(s, there, x));
        gw_future *f = gw_module_call_async(s, there, x), *g = gw_module_call_async(s, here, x);
        assert_same(s, gw_tensor_of(s, gw_wait(s, f)), gw_tensor_of(s, gw_wait(s, g)));
        assert_string_equal(gw_module_name(there), "gw.nn.linear");
        gw_scope_close_up(s);
    }
}

static void it_computes_like_a_local_one(void **state) {
    (void)state;
    run(2, call_everywhere);
}

// A forward that is too large for the loop runs on the pool, with the same numbers.
static void call_large(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_module *here = gw_nn_linear(s, 600, 600),
              *there = gw_module_remote(s, 1, "gw.nn.linear", 600, 600);
    gw_module_load_state_dict(s, there, gw_module_state_dict(s, here));
    gw_tensor *x = gw_randn(s, GW_F32, 3, 600);
    assert_same(s, gw_module_call(s, here, x), gw_module_call(s, there, x));
}

static void large_ones_run_on_the_pool(void **state) {
    (void)state;
    run(2, call_large);
}

// ---- Parameters ---------------------------------------------------------------------------------
static void list_parameters(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_module *there = gw_module_remote(s, 1, "remote_twins", 3), *here = gw_nn_linear(s, 2, 2);
    gw_list *all = gw_parameters(s, here, there, there);
    assert_ok(s);
    assert_int_equal(gw_list_count(all), 4);
    assert_int_equal(gw_list_get(s, all, 1).kind, GW_TENSOR);
    assert_int_equal(gw_list_get(s, all, 2).kind, GW_RREF);
    gw_map *named = gw_module_named_parameters(s, there), *state = gw_module_state_dict(s, there);
    assert_int_equal(gw_map_count(named), 3);
    assert_int_equal(gw_map_count(state), 4);
    assert_ptr_equal(gw_map_get(s, named, "tied").as.rref,
                     gw_map_get(s, named, "0.weight").as.rref);
    assert_same(s, gw_to_here(s, gw_rref_of(s, gw_map_get(s, named, "0.bias"))),
                gw_tensor_of(s, gw_map_get(s, state, "0.bias")));
    assert_int_equal(gw_item_int(s, gw_tensor_of(s, gw_map_get(s, state, "count"))), 3);
    assert_int_equal(gw_module_parameter_count(there), 0);
    assert_null(gw_module_parameter_find(there, "0.bias"));
}

static void its_parameters_are_references(void **state) {
    (void)state;
    run(2, list_parameters);
}

// ---- Training and evaluation --------------------------------------------------------------------
static void switch_it(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_module *there = gw_module_remote(s, 1, "remote_twins", 3), *m = gw_nn_sequential(s, there);
    gw_rref *r = gw_module_rref(s, there);
    gw_module_eval(s, m);
    assert_false(gw_bool_of(s, gw_rpc_sync(s, r, "is_training")));
    gw_module_train(s, m);
    assert_true(gw_bool_of(s, gw_rpc_sync(s, r, "is_training")));
    assert_ok(s);
}

static void it_is_switched_to_evaluation_with_local_modules(void **state) {
    (void)state;
    run(2, switch_it);
}

// ---- State --------------------------------------------------------------------------------------
static gw_module *mixed(gw_scope *s) {
    return gw_nn_sequential(s, gw_nn_linear(s, 3, 3), gw_module_remote(s, 1, "remote_twins", 3),
                            gw_nn_sequential(s, gw_module_remote(s, 2, "gw.nn.linear", 3, 2)));
}

static void load_parts(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_module *a = mixed(s), *b = mixed(s);
    gw_map *state = gw_module_state_dict(s, a), *before = gw_module_state_dict(s, b);
    assert_int_equal(gw_map_count(state), 2 + 4 + 2);
    assert_string_equal(gw_map_key(s, state, 7), "2.0.bias");
    gw_map_put(s, state, "2.0.bias", gw_zeros(s, GW_F32, 3));
    gw_map *copy = gw_map_open(s);
    for (int i = 0; i < gw_map_count(before); i++) {
        const char *name = gw_map_key(s, before, i);
        gw_map_put(s, copy, name, gw_clone(s, gw_tensor_of(s, gw_map_get(s, before, name))));
    }
    gw_module_load_state_dict(s, b, state);
    assert_failed(s, GW_INVALID, "\"2.0.bias\" is f32 3, not f32 2; nothing has changed");
    assert_same_state(s, gw_module_state_dict(s, b), copy);
    gw_map_put(s, state, "2.0.bias", gw_ones(s, GW_F32, 2));
    gw_module_load_state_dict(s, b, state);
    assert_same_state(s, gw_module_state_dict(s, b), state);
    gw_map *part = gw_map_open(s);
    gw_map_put(s, part, "2.0.bias", gw_zeros(s, GW_F32, 2));
    gw_module_load_state_dict(s, b, part, .strict = false);
    assert_same(s, gw_tensor_of(s, gw_map_get(s, gw_module_state_dict(s, b), "2.0.bias")),
                gw_zeros(s, GW_F32, 2));
    gw_module_load_state_dict(s, b, part);
    assert_failed(s, GW_INVALID, "lacks \"0.weight\", \"0.bias\", \"1.tied\" and 4 more");
}

static void its_state_is_saved_and_loaded_like_that_of_local_modules(void **state) {
    (void)state;
    run(3, load_parts);
}

// ---- Sharing ------------------------------------------------------------------------------------
static void share(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_module *m = gw_module_remote(s, 1, "gw.nn.linear", 4, 2);
    gw_module *same = gw_module_from_rref(s, gw_module_rref(s, m));
    gw_tensor *x = gw_randn(s, GW_F32, 3, 4), *y = gw_module_call(s, m, x);
    assert_same(s, y, gw_module_call(s, same, x));
    for (int user = 0; user < 3; user++)
        assert_same(s, y,
                    gw_tensor_of(s, gw_rpc_sync(s, user, "remote_use", gw_module_rref(s, m), x)));
    assert_ok(s);
}

static void several_workers_use_one(void **state) {
    (void)state;
    run(3, share);
}

// ---- Hooks --------------------------------------------------------------------------------------
static gw_tensor *negate_input(gw_scope *s, gw_module *m, gw_tensor *x, void *context) {
    (void)m;
    ++*(int *)context;
    return gw_neg(s, x);
}

static gw_tensor *add_input(gw_scope *s, gw_module *m, gw_tensor *x, gw_tensor *y, void *context) {
    (void)m;
    ++*(int *)context;
    return gw_add(s, x, y);
}

static gw_tensor *refuse(gw_scope *s, gw_module *m, gw_tensor *x, gw_tensor *y, void *context) {
    (void)m, (void)x, (void)context;
    gw_fail(s, GW_UNSUPPORTED, "no such output");
    return y;
}

static void hook(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_module *m = gw_module_remote(s, 1, "gw.nn.relu");
    int before = 0, after = 0;
    gw_module_register_forward_pre_hook(s, m, negate_input, &before);
    gw_module_register_forward_hook(s, m, add_input, &after);
    gw_tensor *x = gw_full(s, GW_F32, -3.0);
    assert_float_equal(gw_item(s, gw_module_call(s, m, x)), 6, 0);
    gw_future *f = gw_module_call_async(s, m, x);
    assert_float_equal(gw_item(s, gw_tensor_of(s, gw_wait(s, f))), 6, 0);
    assert_int_equal(before, 2);
    assert_int_equal(after, 2);
    gw_module_register_forward_hook(s, m, refuse, NULL);
    gw_wait(s, gw_module_call_async(s, m, x));
    assert_failed(s, GW_UNSUPPORTED, "no such output");
    gw_module *lost = gw_module_remote(s, 1, "gw.nn.linear", 2, 2);
    gw_module_register_forward_hook(s, lost, add_input, &after);
    gw_wait(s, gw_module_call_async(s, lost, x));
    assert_failed(s, GW_INVALID, "w1: gw.nn.linear.forward: ");
    assert_int_equal(after, 3);
}

static void hooks_run_here(void **state) {
    (void)state;
    run(2, hook);
}

// ---- Layers -------------------------------------------------------------------------------------
static void make_layers(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_map *options = gw_map_open(s);
    gw_map_put(s, options, "bias", (bool)false);
    gw_map_put(s, options, "dtype", "f64");
    gw_module *m = gw_module_remote(s, 1, "gw.nn.linear", 4, 3, options);
    gw_map *state = gw_module_state_dict(s, m);
    assert_ok(s);
    assert_int_equal(gw_map_count(state), 1);
    assert_int_equal(gw_dtype_of(gw_tensor_of(s, gw_map_get(s, state, "weight"))), GW_F64);
    gw_list *linear = gw_list_open(s), *relu = gw_list_open(s);
    gw_list_add(s, linear, "linear");
    gw_list_add(s, linear, 4);
    gw_list_add(s, linear, 2);
    gw_list_add(s, relu, "relu");
    m = gw_module_remote(s, 1, "gw.nn.sequential", linear, relu);
    gw_tensor *y = gw_module_call(s, m, gw_randn(s, GW_F32, 5, 4));
    assert_true(gw_item(s, gw_min(s, y)) >= 0);
    assert_int_equal(gw_size(y, 1), 2);
    assert_string_equal(gw_map_key(s, gw_module_state_dict(s, m), 0), "0.weight");
    gw_map_put(s, options, "no_bias", (bool)true);
    gw_module_call(s, gw_module_remote(s, 1, "gw.nn.linear", 4, 3, options), y);
    assert_failed(s, GW_INVALID, "w1: gw.nn.linear: has no option \"no_bias\"");
    gw_map *misspelt = gw_map_open(s);
    gw_map_put(s, misspelt, "bais", (bool)true);
    gw_module_call(s, gw_module_remote(s, 1, "gw.nn.linear", 4, 3, misspelt), y);
    assert_failed(s, GW_INVALID, "has no option \"bais\"; did you mean \"bias\"?");
    gw_module_call(s, gw_module_remote(s, 1, "gw.nn.linear", 4, 3, 5), y);
    assert_failed(s, GW_INVALID, "takes 2 arguments and a map of options");
    gw_module_call(s, gw_module_remote(s, 1, "gw.nn.dropout", 0.5, 3), y);
    assert_failed(s, GW_INVALID, "takes 1 arguments, not 2");
}

// {"kernel": [3, 2], "stride": 2, ...}
static gw_map *windows(gw_scope *s) {
    gw_map *out = gw_map_open(s);
    gw_list *kernel = gw_list_open(s);
    gw_list_add(s, kernel, 3);
    gw_list_add(s, kernel, 2);
    gw_map_put(s, out, "kernel", kernel);
    gw_map_put(s, out, "stride", 2);
    return out;
}

static void compare_layers(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_map *o = windows(s), *feedforward = gw_map_open(s);
    gw_map_put(s, feedforward, "feedforward", 8);
    gw_tensor *image = gw_randn(s, GW_F32, 2, 4, 7, 6), *line = gw_randn(s, GW_F32, 5, 2, 4);
    gw_nn_conv_options conv =
        GW_OPTIONS(gw_nn_conv_options, .kernel = { 3, 2 }, .stride = { 2, 2 });
    gw_pool_options pool = GW_OPTIONS(gw_pool_options, .kernel = { 3, 2 }, .stride = { 2, 2 });
    // The values are drawn before: the order in which an initializer draws is unspecified.
    gw_module *embedding = gw_nn_embedding(s, 9, 3);
    gw_module *lstm = gw_nn_lstm(s, 4, 3);
    gw_module *gru = gw_nn_gru(s, 4, 3);
    gw_module *attention = gw_nn_multihead_attention(s, 4, 2);
    const struct {
        gw_module *here, *there;
        gw_tensor *x;
    } all[] = {
        { gw_nn_conv2d_with(s, 4, 3, conv), gw_module_remote(s, 1, "gw.nn.conv2d", 4, 3, o),
          image },
        { gw_nn_max_pool2d_with(s, pool), gw_module_remote(s, 1, "gw.nn.max_pool2d", o), image },
        { gw_nn_adaptive_avg_pool2d(s, 2, 3),
          gw_module_remote(s, 1, "gw.nn.adaptive_avg_pool2d", 2, 3), image },
        { gw_nn_batch_norm2d(s, 4), gw_module_remote(s, 1, "gw.nn.batch_norm2d", 4), image },
        { embedding, gw_module_remote(s, 1, "gw.nn.embedding", 9, 3),
          gw_from(s, ((int64_t[]){ 8, 0, 3, 3 }), 2, 2) },
        { lstm, gw_module_remote(s, 1, "gw.nn.lstm", 4, 3), line },
        { gru, gw_module_remote(s, 1, "gw.nn.gru", 4, 3), line },
        { gw_nn_layer_norm(s, 4), gw_module_remote(s, 1, "gw.nn.layer_norm", 4), line },
        { gw_nn_flatten(s), gw_module_remote(s, 1, "gw.nn.flatten"), image },
        { attention, gw_module_remote(s, 1, "gw.nn.multihead_attention", 4, 2), line },
        { gw_nn_transformer_encoder_layer(s, 4, 2, .feedforward = 8),
          gw_module_remote(s, 1, "gw.nn.transformer_encoder_layer", 4, 2, feedforward), line },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        gw_module_load_state_dict(s, all[i].there, gw_module_state_dict(s, all[i].here));
        gw_module_eval(s, all[i].here);
        gw_module_eval(s, all[i].there);
        assert_same(s, gw_module_call(s, all[i].here, all[i].x),
                    gw_module_call(s, all[i].there, all[i].x));
    }
    gw_map_put(s, o, "stride", gw_list_open(s));
    gw_module_call(s, gw_module_remote(s, 1, "gw.nn.max_pool2d", o), image);
    assert_failed(s, GW_INVALID, "\"stride\" has 0 numbers, but must have 1 or 2");
}

static void layers_compute_like_local_ones(void **state) {
    (void)state;
    run(2, compare_layers);
}

static void layers_are_made_by_their_names(void **state) {
    (void)state;
    run(2, make_layers);
}

// ---- Errors -------------------------------------------------------------------------------------
static void go_wrong(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_scope *s = gw_scope_open(root);
    gw_tensor *x = gw_ones(s, GW_F32, 2);
    gw_module_call(s, gw_module_remote(s, 1, "no_such_class"), x);
    assert_failed(s, GW_NOT_FOUND, "w1 has no function or class no_such_class");
    gw_module_call(s, gw_module_remote(s, 1, "gw.nn.no_such_layer"), x);
    assert_failed(s, GW_NOT_FOUND, "w1 has no function or class gw.nn.no_such_layer");
    gw_module_call(s, gw_module_remote(s, 1, "remote_nothing"), x);
    assert_failed(s, GW_INVALID,
                  "w1: remote_nothing: the function that makes the module has returned none "
                  "instead of a module");
    gw_module_call(s, gw_module_remote(s, 1, "remote_thing"), x);
    assert_failed(s, GW_NOT_FOUND, "w1 has no method remote_thing.forward");
    gw_module_call(s, gw_module_remote(s, 1, "remote_twins", "three"), x);
    assert_failed(s, GW_INVALID, "w1: remote_twins: argument 0 is string, not int");
    gw_module *m = gw_module_remote(s, 1, "gw.nn.linear", 3, 3);
    gw_module_call(s, m, x);
    assert_failed(s, GW_INVALID, "w1: gw.nn.linear.forward: gw.linear: ");
    gw_module_register_module(s, m, "part", gw_nn_relu(s));
    assert_failed(s, GW_INVALID,
                  "gw.nn.linear: the module is on another worker, and so are its parts");
    gw_module_parameter_get(s, m, "weight");
    assert_failed(s, GW_INVALID, "the parameters of gw.nn.linear are on another worker");
    gw_module_rref(s, gw_nn_relu(s));
    assert_failed(s, GW_INVALID, "the module relu is on this worker");
    gw_module_call(s, gw_module_from_rref(s, gw_rref_open(s, 5)), x);
    assert_int_equal(gw_scope_error(s)->status, GW_INVALID);
    gw_module *poison = gw_module_from_rref(s, gw_rref_open(s, 5));
    gw_module_call(s, poison, x);
    gw_scope_clear(s);
    gw_scope_close_up(s);
}

static void errors_name_the_worker_and_the_class(void **state) {
    (void)state;
    run(2, go_wrong);
}

static void outlive(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_module *m = gw_module_remote(s, 1, "gw.nn.relu");
    gw_watch *w = gw_watch_open(s);
    for (gw_member_event e = { 0 };
         gw_ok(s) && e.kind != GW_MEMBER_LEFT && e.kind != GW_MEMBER_DIED;)
        e = gw_watch_next(s, w);
    gw_module_call(s, m, gw_ones(s, GW_F32));
    gw_status status = gw_scope_error(s)->status;
    assert_true(status == GW_REF_LOST || status == GW_DISCONNECTED);
    assert_non_null(strstr(gw_scope_error(s)->text, "w1"));
    gw_scope_clear(s);
}

static void a_lost_owner_is_named(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 2, .leaves = { [1] = true } }, outlive, NULL);
}

// ---- Gradients ----------------------------------------------------------------------------------
// One step of plain gradient descent, of the parameters here and of those on the other worker.
static void descend(gw_scope *s, gw_module *m, bool is_far) {
    gw_map *named = gw_module_named_parameters(s, m), *state = gw_module_state_dict(s, m),
           *next = gw_map_open(s);
    for (int i = 0; i < gw_map_count(named); i++) {
        const char *name = gw_map_key(s, named, i);
        gw_value v = gw_map_get(s, named, name);
        gw_tensor *grad =
            is_far ? gw_rref_grad(s, gw_rref_of(s, v)) : gw_grad(s, gw_tensor_of(s, v));
        gw_tensor *x = gw_tensor_of(s, gw_map_get(s, state, name));
        gw_map_put(s, next, name, gw_sub(s, x, gw_mul(s, grad, 0.1)));
    }
    gw_module_load_state_dict(s, m, next);
    assert_ok(s);
}

static void train_both(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_module *here = gw_nn_linear(root, 4, 3),
              *there = gw_module_remote(root, 1, "gw.nn.linear", 4, 3);
    gw_module_load_state_dict(root, there, gw_module_state_dict(root, here));
    gw_tensor *x = gw_randn(root, GW_F32, 8, 4), *y = gw_randn(root, GW_F32, 8, 3);
    for (int step = 0; step < 5; step++) {
        gw_scope *s = gw_scope_open(root), *t = gw_scope_open(root);
        gw_tensor *a = gw_mse(s, gw_module_call(s, here, x), y);
        gw_tensor *b = gw_mse(t, gw_module_call(t, there, x), y);
        assert_ok(t);
        assert_same(root, a, b);
        gw_backward(s, a);
        gw_backward(t, b);
        descend(s, here, false);
        descend(t, there, true);
        gw_scope_close_up(s);
        gw_scope_close_up(t);
    }
    assert_same_state(root, gw_module_state_dict(root, here), gw_module_state_dict(root, there));
}

static void it_is_trained_from_here_to_the_same_bits(void **state) {
    (void)state;
    run(2, train_both);
}

// No worker waits for a gradient that cannot arrive.
static void call_no_module(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_scope *failed = gw_scope_open(root), *s = gw_scope_open(root);
    gw_fail(failed, GW_INVALID, "something else");
    gw_module *m = gw_module_remote(failed, 1, "gw.nn.linear", 4, 3);
    gw_tensor *x = gw_ones(s, GW_F32, 2, 4);
    gw_wait(s, gw_module_call_async(s, m, x));
    assert_int_equal(gw_scope_error(s)->status, GW_INVALID);
    gw_scope_clear(s);
    gw_wait(s, gw_module_call_async(s, NULL, x));
    assert_string_equal(gw_scope_error(s)->text, "gw_module_call_async: no module");
    gw_scope_clear(s);
    gw_module_rref(s, NULL);
    assert_string_equal(gw_scope_error(s)->text, "gw_module_rref: no module");
    gw_scope_clear(s);
    gw_module_remote(s, 1, (const char *)NULL);
    assert_string_equal(gw_scope_close(s).text, "the class of the module is NULL");
    assert_int_equal(gw_scope_close(failed).status, GW_INVALID);
}

static void calls_of_no_module_fail_at_once(void **state) {
    (void)state;
    run(2, call_no_module);
}

GW_TESTS(distributed_remote_module, calls_of_no_module_fail_at_once, it_computes_like_a_local_one,
         large_ones_run_on_the_pool, its_parameters_are_references,
         it_is_switched_to_evaluation_with_local_modules,
         its_state_is_saved_and_loaded_like_that_of_local_modules, several_workers_use_one,
         hooks_run_here, layers_are_made_by_their_names, layers_compute_like_local_ones,
         errors_name_the_worker_and_the_class, a_lost_owner_is_named,
         it_is_trained_from_here_to_the_same_bits);
