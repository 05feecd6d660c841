// Nodes that answer later, in passes that stay in one process.
#include "autograd/late.h"

#include "autograd/pass.h"
#include "base/mem.h"
#include "testing/cluster.h"
#include "testing/testing.h"
#include <gradwire.h>

#include <string.h>

enum { NODES = 3, SEEDS = 20 };

// A node that doubles its gradient when late_test_answer is called with its number.
typedef struct double_node {
    node base;
    edge edge;
    int number;
} double_node;

static struct scene {
    late *answers[NODES];
    gw_tensor *gradients[NODES];
    bool started[NODES];
    uint32_t order[NODES];
    int ended;
} now;

static const char *name(const node *n) {
    (void)n;
    return "double";
}

static void start(node *n, node_run *r, late *answer) {
    int i = ((double_node *)n)->number;
    now.answers[i] = answer;
    now.gradients[i] = handle_retain(r->d_outputs[0]);
    now.started[i] = true;
}

static bool forget(node *n) {
    (void)n;
    return true;
}

static void destroy(node *n) {
    mem_give(n, sizeof(double_node));
}

static const node_class double_class = {
    .name = name, .start = start, .forget = forget, .destroy = destroy
};

static gw_tensor *double_later(gw_scope *s, gw_tensor *x, int number) {
    double_node *n = mem_take(sizeof *n);
    memset(n, 0, sizeof *n);
    n->base = (node){ .class = &double_class, .output_count = 1, .edge_count = 1 };
    atomic_init(&n->base.count, 1);
    n->edge = edge_retain(edge_to(x));
    n->base.edges = &n->edge;
    n->number = number;
    gw_no_grad(s);
    gw_tensor *y = gw_mul(s, x, 2);
    gw_enable_grad(s);
    node_make(&n->base, 0, y);
    node_release(&n->base);
    return y;
}

static void reset(void) {
    memset(&now, 0, sizeof now);
}

// Answers node |number| with twice its gradient; with no gradient if it got none; or fails it.
GW_FUNCTION(late_test_answer, GW_INLINE, "int, bool") {
    int64_t i = gw_arg_int(s, a, 0);
    if (!now.started[i]) return gw_value_of(false);
    now.started[i] = false;
    if (gw_arg_bool(s, a, 1)) {
        late_fail(now.answers[i], &(gw_error){ .status = GW_DISCONNECTED, .text = "w7 is gone" });
    } else {
        gw_tensor *g = now.gradients[i] ? gw_mul(s, now.gradients[i], 2) : NULL;
        late_answer(now.answers[i], &g);
    }
    handle_release(now.gradients[i]);
    return gw_value_of(true);
}

static void answer(gw_scope *s, int i, bool fails) {
    while (gw_ok(s) && !gw_bool_of(s, gw_rpc_sync(s, "w0", "late_test_answer", i, fails))) {
    }
}

static gw_tensor *number(gw_scope *s, double value) {
    return gw_requires_grad(s, gw_full(s, GW_F32, value, 1));
}

// ---- Orders -------------------------------------------------------------------------------------

// Three late parts of one gradient, of which sums in different orders have different bits.
static void walk_in_order(gw_scope *root, int rank, void *context) {
    float *sum = context;
    if (rank) {
        for (int i = 0; i < NODES; i++) answer(root, (int)now.order[i], false);
        return;
    }
    gw_tensor *x = number(root, 1), *parts[NODES];
    static const double factors[NODES] = { 1, 3e7, -3e7 };
    for (int i = 0; i < NODES; i++) parts[i] = gw_mul(root, double_later(root, x, i), factors[i]);
    gw_tensor *loss = gw_add(root, gw_add(root, parts[0], parts[1]), parts[2]);
    gw_backward(root, gw_sum(root, loss));
    *sum = (float)gw_item(root, gw_grad(root, x));
    gw_backward(root, gw_sum(root, loss));
    assert_int_equal(gw_scope_error(root)->status, GW_WRONG_STATE);
    gw_scope_clear(root);
}

static void the_order_of_answers_changes_no_bits(void **state) {
    (void)state;
    static const uint32_t orders[][NODES] = { { 0, 1, 2 }, { 2, 1, 0 }, { 1, 2, 0 } };
    float sums[3];
    for (int i = 0; i < 3; i++) {
        reset();
        memcpy(now.order, orders[i], sizeof orders[i]);
        cluster_run(1, (cluster_options){ .world_size = 2 }, walk_in_order, &sums[i]);
        assert_true(sums[i] == sums[0]);
    }
}

// ---- Work meanwhile ---------------------------------------------------------------------

static gw_tensor *see(gw_scope *s, gw_tensor *grad, void *context) {
    (void)s;
    assert_true(now.started[0]);  // not answered before: the answer waits for this
    *(bool *)context = true;
    return grad;
}

GW_FUNCTION(late_test_seen, GW_INLINE, "") {
    (void)a, (void)s;
    return gw_value_of(now.ended > 0);
}

static gw_tensor *count_end(gw_scope *s, gw_tensor *grad, void *context) {
    (void)s, (void)context;
    now.ended++;
    return grad;
}

// The late node is reached first; the rest of the graph runs before it has answered.
static void run_concurrently(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank) {
        while (gw_ok(root) && !gw_bool_of(root, gw_rpc_sync(root, "w0", "late_test_seen"))) {
        }
        answer(root, 0, false);
        return;
    }
    gw_tensor *x = number(root, 1), *y = number(root, 2);
    bool seen = false;
    gw_register_hook(root, y, see, &seen);
    gw_register_hook(root, y, count_end, NULL);
    gw_tensor *loss = gw_sum(root, gw_add(root, gw_mul(root, y, 3), double_later(root, x, 0)));
    gw_backward(root, loss);
    assert_true(seen && gw_item(root, gw_grad(root, x)) == 2 &&
                gw_item(root, gw_grad(root, y)) == 3);
}

static void ready_nodes_run_before_the_late_answer(void **state) {
    (void)state;
    reset();
    cluster_run(1, (cluster_options){ .world_size = 2 }, run_concurrently, NULL);
}

// ---- Failures -----------------------------------------------------------------------------------

static void walk_failing(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank) {
        answer(root, 0, true);
        return;
    }
    gw_tensor *x = number(root, 1), *loss = gw_sum(root, double_later(root, x, 0));
    gw_backward(root, loss);
    assert_int_equal(gw_scope_error(root)->status, GW_DISCONNECTED);
    assert_non_null(strstr(gw_scope_error(root)->text, "backward: gw.double: w7 is gone"));
    gw_scope_clear(root);
    assert_null(gw_grad_find(root, x));
}

static void one_that_fails_fails_the_pass(void **state) {
    (void)state;
    reset();
    cluster_run(1, (cluster_options){ .world_size = 2 }, walk_failing, NULL);
}

// A pass that has ended by its deadline does not exist any more when the answer arrives.
static void walk_too_long(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank) return;
    gw_tensor *x = number(root, 1), *loss = gw_sum(root, double_later(root, x, 0));
    gw_scope *s = gw_scope_open(root);
    gw_scope_set_timeout(s, 500);
    gw_backward(s, loss);
    assert_int_equal(gw_scope_error(s)->status, GW_TIMEOUT);
    gw_scope_clear(s);
    gw_scope_close_up(s);
    answer(root, 0, false);
    assert_null(gw_grad_find(root, x));
}

static void an_answer_behind_the_deadline_is_dropped(void **state) {
    (void)state;
    reset();
    cluster_run(1, (cluster_options){ .world_size = 2 }, walk_too_long, NULL);
}

static void a_worker_without_peers_does_not_wait(void **state) {
    (void)state;
    reset();
    gw_scope *s = gw_scope_open(NULL);
    gw_backward(s, gw_sum(s, double_later(s, number(s, 1), 0)));
    assert_int_equal(gw_scope_close(s).status, GW_WRONG_STATE);
}

GW_TESTS(autograd_late, the_order_of_answers_changes_no_bits,
         ready_nodes_run_before_the_late_answer, one_that_fails_fails_the_pass,
         an_answer_behind_the_deadline_is_dropped, a_worker_without_peers_does_not_wait);
