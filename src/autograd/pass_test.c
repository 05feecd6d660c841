// Passes whose parts are delivered from outside, as in a distributed pass, and random graphs.
#include "testing/testing.h"

#include "autograd/pass.h"
#include "base/random.h"
#include <gradwire/ops.h>

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static gw_tensor *leaf(gw_scope *s, float value) {
    return gw_requires_grad(s, gw_from(s, &value, 1));
}

static gw_tensor *number(gw_scope *s, float value) {
    return gw_from(s, &value, 1);
}

// ---- Parts from outside -------------------------------------------------------------------------
// Two edges are expected, as if two tensors had been sent to other workers; their gradients arrive in
// either order.
static uint32_t bits_of_pass(bool second_first) {
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = leaf(s, 0.1f), *shared = gw_mul(s, x, 3.0);
    gw_tensor *a = gw_mul(s, shared, 1e8), *b = gw_add(s, shared, x);
    pass p;
    pass_open(&p, s, GW_OPTIONS(gw_backward_options));
    part to_a = pass_expect(&p, edge_to(a)), to_b = pass_expect(&p, edge_to(b));
    part again = pass_expect(&p, edge_to(b));  // sent twice
    assert_true(pass_plan(&p));
    assert_true(pass_run(&p));  // nothing is ready yet
    assert_true(pass_deliver(&p, second_first ? again : to_a, number(s, second_first ? 7 : 1)));
    assert_true(pass_run(&p));
    assert_true(pass_deliver(&p, to_b, number(s, 0.3f)));
    assert_true(pass_deliver(&p, second_first ? to_a : again, number(s, second_first ? 1 : 7)));
    assert_true(pass_run(&p));
    assert_true(pass_commit(&p));
    pass_close(&p);
    uint32_t bits;
    memcpy(&bits, gw_data(gw_grad(s, x)), sizeof bits);
    assert_float_equal(gw_item(s, gw_grad(s, x)), 3e8, 100);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
    return bits;
}

static void parts_from_outside_may_arrive_in_any_order(void **state) {
    (void)state;
    assert_int_equal(bits_of_pass(false), bits_of_pass(true));
}

static void a_part_may_arrive_without_gradient(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = leaf(s, 2), *y = leaf(s, 3), *a = gw_mul(s, x, x), *b = gw_mul(s, x, y);
    pass p;
    pass_open(&p, s, GW_OPTIONS(gw_backward_options));
    part to_a = pass_expect(&p, edge_to(a)), to_b = pass_expect(&p, edge_to(b));
    assert_true(pass_plan(&p) && pass_deliver(&p, to_b, NULL));
    assert_true(pass_deliver(&p, to_a, number(s, 1)) && pass_run(&p) && pass_commit(&p));
    pass_close(&p);
    assert_float_equal(gw_item(s, gw_grad(s, x)), 4, 0);
    assert_null(gw_grad_find(s, y));  // rather than zeros
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void a_pass_that_is_not_committed_leaves_nothing(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = leaf(s, 2), *a = gw_mul(s, x, x);
    pass p;
    pass_open(&p, s, GW_OPTIONS(gw_backward_options, .retain_graph = true));
    part to_a = pass_expect(&p, edge_to(a));
    assert_true(pass_plan(&p) && pass_deliver(&p, to_a, number(s, 1)) && pass_run(&p));
    pass_close(&p);
    assert_int_equal(gw_grads_count(s), 0);
    gw_backward(s, a);
    assert_float_equal(gw_item(s, gw_grad(s, x)), 4, 0);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

// ---- Two passes over one graph ------------------------------------------------------------------
typedef struct walker {
    gw_tensor *x, *loss;
    double grad;
} walker;

static void *walk_often(void *arg) {
    walker *w = arg;
    for (int i = testing_scaled(200); i > 0; i--) {
        gw_scope *s = gw_scope_open(NULL);
        gw_backward(s, w->loss, .retain_graph = true);
        w->grad = gw_item(s, gw_grad(s, w->x));
        gw_exit_code(gw_scope_close(s));
    }
    return NULL;
}

static void passes_that_retain_the_graph_may_run_at_once(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = leaf(s, 0.5f), *y = x;
    for (int i = 0; i < 20; i++) y = gw_tanh(s, gw_mul(s, y, x));
    walker w[3];
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) {
        w[i] = (walker){ x, y, 0 };
        pthread_create(&threads[i], NULL, walk_often, &w[i]);
    }
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    gw_backward(s, y);
    for (int i = 0; i < 3; i++) assert_float_equal(w[i].grad, gw_item(s, gw_grad(s, x)), 0);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

// ---- Random graphs ------------------------------------------------------------------------------
enum { LEAVES = 4, NODES = 60 };

typedef struct random_graph {
    uint64_t seed;
    double leaves[LEAVES];
} random_graph;

static uint32_t draw(uint64_t seed, int i, uint32_t below) {
    uint32_t out[4];
    philox(seed, (uint64_t)i, out);
    return out[0] % below;
}

// The value of the graph, whose shape the seed decides; |leaves| gets the tensors of its leaves.
static gw_tensor *build(gw_scope *s, const random_graph *g, gw_tensor *leaves[LEAVES]) {
    gw_tensor *all[LEAVES + NODES];
    int count = 0;
    for (; count < LEAVES; count++) {
        all[count] = leaves[count] = gw_from(s, &g->leaves[count], 1);
        gw_requires_grad(s, leaves[count]);
    }
    for (int i = 0; i < NODES; i++, count++) {
        gw_tensor *a = all[draw(g->seed, 3 * i, (uint32_t)count)];
        gw_tensor *b = all[draw(g->seed, 3 * i + 1, (uint32_t)count)];
        switch (draw(g->seed, 3 * i + 2, 5)) {
        case 0: all[count] = gw_add(s, a, b); break;
        case 1: all[count] = gw_mul(s, gw_tanh(s, a), b); break;
        case 2: all[count] = gw_sub(s, a, gw_mul(s, b, 0.5)); break;
        case 3: all[count] = gw_sum(s, gw_stack(s, (gw_tensor *const[]){ a, b, a }, 3, 0)); break;
        default: all[count] = gw_where(s, gw_gt(s, a, 0.0), gw_sigmoid(s, b), a); break;
        }
        all[count] = gw_tanh(s, gw_reshape(s, all[count], 1));
    }
    gw_tensor *sum = all[count - 1];
    for (int i = count - 5; i < count - 1; i++) sum = gw_add(s, sum, all[i]);
    return sum;
}

static double value_of(const random_graph *g) {
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *leaves[LEAVES];
    gw_no_grad(s);
    double value = gw_item(s, build(s, g, leaves));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
    return value;
}

static double slope_of(random_graph g, int i) {
    const double step = 1e-6;
    double x = g.leaves[i];
    g.leaves[i] = x + step;
    double above = value_of(&g);
    g.leaves[i] = x - step;
    return (above - value_of(&g)) / (2 * step);
}

static void check_random_graph(uint64_t seed, void *context) {
    (void)context;
    random_graph g = { .seed = seed };
    for (int i = 0; i < LEAVES; i++) g.leaves[i] = draw(seed, 1000 + i, 1000) / 500.0 - 1.0007;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *leaves[LEAVES];
    gw_tensor *loss = build(s, &g, leaves);
    gw_scope *one = gw_scope_open(s);
    gw_backward(one, loss, .inputs = &leaves[seed % LEAVES], .input_count = 1,
                .retain_graph = true);
    assert_true(gw_ok(one));
    gw_backward(s, loss);
    for (int i = 0; i < LEAVES; i++) {
        gw_tensor *d = gw_grad_find(s, leaves[i]);
        assert_true(fabs((d ? gw_item(s, d) : 0) - slope_of(g, i)) < 1e-6);
        gw_tensor *alone = gw_grad_find(one, leaves[i]);
        assert_true((alone != NULL) == (d != NULL && (uint64_t)i == seed % LEAVES));
        if (alone) assert_true(fabs(gw_item(one, alone) - gw_item(s, d)) < 1e-12);
    }
    gw_scope_close_up(one);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void gradients_of_random_graphs_agree_with_differences(void **state) {
    (void)state;
    testing_for_seeds(100, check_random_graph, NULL);
}

GW_TESTS(autograd_pass, parts_from_outside_may_arrive_in_any_order,
         a_part_may_arrive_without_gradient, a_pass_that_is_not_committed_leaves_nothing,
         passes_that_retain_the_graph_may_run_at_once,
         gradients_of_random_graphs_agree_with_differences);
