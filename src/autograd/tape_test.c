#include "testing/testing.h"

#include "autograd/node.h"
#include "base/mem.h"
#include <gradwire/autograd.h>
#include <gradwire/ops.h>

#include <string.h>

static gw_tensor *leaf(gw_scope *s, int64_t size) {
    return gw_requires_grad(s, gw_ones(s, GW_F32, size));
}

// How often the bytes of |x| are pinned by saved tensors.
static uint32_t pins_of(const gw_tensor *x) {
    return atomic_load(&x->storage->block->pins);
}

static void a_node_has_an_edge_for_each_tensor(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = leaf(s, 2), *c = gw_ones(s, GW_F32, 2), *y = gw_mul(s, x, x);
    gw_tensor *z = gw_cat(s, (gw_tensor *const[]){ c, y, x }, 3, 0);
    const node *n = z->node;
    assert_int_equal(n->edge_count, 3);
    assert_int_equal(n->edges[0].kind, EDGE_NONE);
    assert_int_equal(n->edges[1].kind, EDGE_NODE);
    assert_ptr_equal(n->edges[1].to.node, y->node);
    assert_int_equal(n->edges[2].kind, EDGE_LEAF);
    assert_ptr_equal(n->edges[2].to.leaf, x);
    assert_string_equal(n->class->name(n), "cat");
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void only_values_that_a_derivative_reads_are_saved(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = leaf(s, 2), *c = gw_ones(s, GW_F32, 2), *other = gw_ones(s, GW_F32, 2);
    gw_add(s, x, c);
    assert_int_equal(pins_of(x), 0);
    assert_int_equal(pins_of(c), 0);
    gw_mul(s, x, other);
    assert_int_equal(pins_of(x), 1);
    assert_int_equal(pins_of(other), 1);
    gw_tensor *e = gw_exp(s, x);
    assert_int_equal(pins_of(x), 1);
    assert_int_equal(pins_of(e), 1);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void a_pass_releases_saved_values_as_it_runs(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = leaf(s, 1), *c = gw_ones(s, GW_F32, 1), *y = gw_mul(s, x, c);
    gw_backward(s, y, .retain_graph = true);
    assert_int_equal(pins_of(c), 1);
    gw_backward(s, y);
    assert_int_equal(pins_of(c), 0);
    assert_true(y->node->spent);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void a_dropped_result_releases_its_graph(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = leaf(s, 1), *c = gw_ones(s, GW_F32, 1);
    gw_tensor *y = gw_mul(s, gw_mul(s, x, c), c);
    assert_int_equal(pins_of(c), 2);
    gw_drop(s, y);
    assert_int_equal(pins_of(c), 1);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

// The node keeps the arguments of the derivative after the caller has freed them.
static void arguments_are_copied(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = leaf(s, 6), *y;
    {
        int64_t sizes[] = { 2, 3 }, dims[] = { 1, 0 };
        y = gw_reshape_with(s, x, (gw_shape){ 2, sizes });
        y = gw_permute_with(s, y, (gw_shape){ 2, dims });
        memset(sizes, 0xff, sizeof sizes);
        memset(dims, 0xff, sizeof dims);
    }
    gw_backward(s, gw_sum(s, y));
    assert_true(gw_equal(s, gw_grad(s, x), gw_ones(s, GW_F32, 6)));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

// From the wire a shape is a list, and a list may be added to afterwards.
static void lists_are_copied(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = leaf(s, 6);
    gw_list *sizes = gw_list_open(s);
    gw_list_add(s, sizes, 2);
    gw_list_add(s, sizes, 3);
    gw_value args[] = { gw_value_of(x), gw_value_of(sizes) };
    gw_tensor *y = op_run(s, op_find("reshape"), args, 2, NULL);
    gw_list_add(s, sizes, 4);
    gw_backward(s, gw_sum(s, y));
    assert_int_equal(gw_numel(gw_grad(s, x)), 6);

    gw_list *parts = gw_list_open(s);
    gw_list_add(s, parts, x);
    gw_list_add(s, parts, gw_mul(s, x, 2.0));
    gw_value cat_args[] = { gw_value_of(parts), gw_value_of(0) };
    y = op_run(s, op_find("cat"), cat_args, 2, NULL);
    gw_list_add(s, parts, x);
    gw_scope *t = gw_scope_open(s);
    gw_backward(t, gw_sum(t, y));
    assert_float_equal(gw_item(t, gw_mean(t, gw_grad(t, x))), 3, 0);
    gw_scope_close_up(t);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void many_tensors_make_one_node(void **state) {
    (void)state;
    enum { MANY = 1000 };
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = leaf(s, 1), *parts[MANY];
    for (int i = 0; i < MANY; i++) parts[i] = gw_mul(s, x, i);
    gw_tensor *y = gw_stack(s, parts, MANY, 0);
    assert_int_equal(y->node->edge_count, MANY);
    gw_backward(s, gw_sum(s, y));
    assert_float_equal(gw_item(s, gw_grad(s, x)), MANY * (MANY - 1) / 2, 0);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static int fail_all(size_t size) {
    (void)size;
    return 1;
}

static void without_memory_nothing_is_recorded(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = leaf(s, 1), *y = gw_ones(s, GW_F32, 1);
    op_call c = { .scope = s,
                  .op = op_find("mul"),
                  .args = (const gw_value[]){ gw_value_of(x), gw_value_of(x) },
                  .arg_count = 2,
                  .outputs = &y,
                  .output_count = 1 };
    mem_fail_hook = fail_all;
    autograd_tape.record(&c);
    mem_fail_hook = NULL;
    assert_null(y->node);
    assert_int_equal(pins_of(x), 0);
    assert_int_equal(gw_scope_close(s).status, GW_NO_MEMORY);
}

GW_TESTS(autograd_tape, a_node_has_an_edge_for_each_tensor,
         only_values_that_a_derivative_reads_are_saved, a_pass_releases_saved_values_as_it_runs,
         a_dropped_result_releases_its_graph, arguments_are_copied, lists_are_copied,
         many_tensors_make_one_node, without_memory_nothing_is_recorded);
