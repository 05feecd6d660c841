// Gates of leaves, in passes that stay in one process.
#include "autograd/gate.h"

#include "autograd/hook.h"
#include "base/mem.h"
#include "testing/cluster.h"
#include "testing/testing.h"
#include <gradwire.h>

#include <string.h>

enum { LEAVES = 3 };

// Answers each gradient ten times the sum of the scope's and the pass's; of leaf 2, which no pass
// here reaches, 7.
typedef struct test_gate {
    gate base;
    gw_tensor *leaves[LEAVES];
    gw_scope *own;
    int begun, gradients, ended, failed, abandoned;
    bool adds;  // the last pass
    bool reached[LEAVES], refuses, fails;
    gw_tensor *answers[LEAVES];
    int missing;
    gw_error error;
} test_gate;

static void answer(gate_pass *g) {
    test_gate *t = (test_gate *)g->gate;
    if (t->fails) {
        late_fail(g->answer, &(gw_error){ .status = GW_MISMATCH, .text = "replicas differ" });
        return;
    }
    t->answers[2] = gw_full(t->own, GW_F32, 7, 1);
    late_answer(g->answer, t->answers);
}

static void begin(gate_pass *g, gw_scope *s) {
    test_gate *t = (test_gate *)g->gate;
    if (t->refuses) {
        scope_fail(s, GW_MISMATCH, "a parameter was added");
        return;
    }
    t->begun++;
    t->adds = g->adds;
    t->missing = 0;
    for (int i = 0; i < LEAVES; i++) {
        t->reached[i] = g->reached[i];
        t->answers[i] = NULL;
        t->missing += g->reached[i];
    }
}

static void gradient(gate_pass *g, gw_scope *s, int i, gw_tensor *x) {
    test_gate *t = (test_gate *)g->gate;
    t->gradients++;
    gw_tensor *earlier = gate_earlier(g, i);
    if (earlier) x = gw_add(s, x, earlier);
    t->answers[i] = x ? gw_mul(t->own, x, 10) : NULL;
    if (--t->missing == 0) answer(g);
}

static void end(gate_pass *g, const gw_error *error) {
    test_gate *t = (test_gate *)g->gate;
    t->ended++;
    t->failed += error != NULL;
    if (error) t->error = *error;
    if (error && t->missing) late_release(g->answer);
}

static void abandoned(gate *g, const gw_error *error) {
    ((test_gate *)g)->abandoned++;
    ((test_gate *)g)->error = *error;
}

static const gate_class class = {
    .begin = begin, .gradient = gradient, .end = end, .abandoned = abandoned
};

static void never(gw_handle *h) {
    (void)h;
}
static const handle_class handle_class_of_test = { .name = "gate", .destroy = never };

static void open_gate(gw_scope *s, test_gate *t) {
    memset(t, 0, sizeof *t);
    handle_init(&t->base.handle, &handle_class_of_test);
    t->base.class = &class;
    t->base.leaves = t->leaves;
    t->base.leaf_count = LEAVES;
    t->own = s;
    for (int i = 0; i < LEAVES; i++)
        t->leaves[i] = gw_requires_grad(s, gw_full(s, GW_F32, i + 1, 1));
    assert_true(gate_set(s, &t->base));
}

static gw_tensor *loss_of(gw_scope *s, test_gate *t) {
    return gw_sum(s, gw_mul(s, t->leaves[0], t->leaves[1]));
}

static double grad_of(gw_scope *s, gw_tensor *x) {
    return gw_item(s, gw_grad(s, x));
}

static void run_main(gw_scope *root, int rank, void *context) {
    (void)rank;
    (*(void (**)(gw_scope *))context)(root);
}

static void play(void (*main)(gw_scope *root)) {
    cluster_run(1, (cluster_options){ .world_size = 1 }, run_main, &main);
}

// ---- Its calls and answers -----------------------------------------------------------

static void walk(gw_scope *root) {
    test_gate t;
    open_gate(root, &t);
    gw_tensor *free_leaf = gw_requires_grad(root, gw_full(root, GW_F32, 5, 1));
    gw_scope *s = gw_scope_open(root);
    gw_backward(s, gw_mul(s, loss_of(s, &t), gw_sum(s, free_leaf)));
    assert_true(t.begun == 1 && t.gradients == 2 && t.ended == 1 && !t.failed);
    assert_true(t.reached[0] && t.reached[1] && !t.reached[2]);
    assert_true(grad_of(s, t.leaves[0]) == 100 && grad_of(s, t.leaves[1]) == 50);
    assert_true(grad_of(s, t.leaves[2]) == 7 && grad_of(s, free_leaf) == 2);
    gw_scope_close_up(s);
    gate_unset(&t.base);
    gw_backward(root, loss_of(root, &t));
    assert_true(t.begun == 1 && grad_of(root, t.leaves[0]) == 2);
}

static void it_gets_gradients_and_gives_those_that_stay(void **state) {
    (void)state;
    play(walk);
}

// A pass that is not synchronised adds to the gradients of the next answer.
static void accumulate(gw_scope *root) {
    test_gate t;
    open_gate(root, &t);
    gw_scope *s = gw_scope_open(root);
    s->not_synchronised = true;
    gw_backward(s, loss_of(s, &t));
    assert_true(t.begun == 0 && grad_of(s, t.leaves[0]) == 2);
    assert_null(gw_grad_find(s, t.leaves[2]));
    s->not_synchronised = false;
    gw_backward(s, loss_of(s, &t));
    assert_true(grad_of(s, t.leaves[0]) == 40 && grad_of(s, t.leaves[1]) == 20);
    gw_tensor *only = t.leaves[0];
    gw_backward(s, loss_of(s, &t), .inputs = &only, .input_count = 1);
    assert_true(t.begun == 1 && grad_of(s, t.leaves[0]) == 42);
    gw_scope_close_up(s);
    gate_unset(&t.base);
}

// Answers that are kept apart: later answers are added to them, and no pass adds that is not the gate's.
static void keep_apart(gw_scope *root) {
    test_gate t;
    open_gate(root, &t);
    gw_tensor *only = t.leaves[1];
    gw_scope *s = gw_scope_open(root), *other = gw_scope_open(root);
    gw_backward(s, loss_of(s, &t));
    gate_note_answer(&t.base, s);
    assert_true(gate_has_answered(&t.base, s) && !gate_has_answered(&t.base, other));
    gw_backward(s, loss_of(s, &t));
    assert_true(t.begun == 2 && t.adds && grad_of(s, t.leaves[2]) == 14);
    s->not_synchronised = true;
    gw_backward(s, loss_of(s, &t));
    assert_int_equal(gw_scope_error(s)->status, GW_WRONG_STATE);
    gw_scope_clear(s);
    s->not_synchronised = false;
    gw_backward(s, loss_of(s, &t), .inputs = &only, .input_count = 1);
    assert_int_equal(gw_scope_error(s)->status, GW_WRONG_STATE);
    gw_scope_clear(s);
    other->not_synchronised = true;
    gw_backward(other, loss_of(other, &t));
    assert_true(gw_ok(other) && t.begun == 2 && grad_of(other, t.leaves[0]) == 2);
    env_enter(s->env);
    gate_forget_answers_on_loop(&t.base);
    env_leave(s->env);
    assert_false(gate_has_answered(&t.base, s));
    gw_scope_close_up(other);
    gw_scope_close_up(s);
    gate_unset(&t.base);
}

static void answers_may_be_kept_apart(void **state) {
    (void)state;
    play(keep_apart);
}

static void gradients_of_unsynchronised_passes_are_added_first(void **state) {
    (void)state;
    play(accumulate);
}

static gw_tensor *walk_inside(gw_scope *s, gw_tensor *grad, void *context) {
    test_gate *t = context;
    gw_enable_grad(s);
    gw_backward(s, loss_of(s, t));
    gw_no_grad(s);
    return grad;
}

static void nest(gw_scope *root) {
    test_gate t;
    open_gate(root, &t);
    gw_scope *s = gw_scope_open(root);
    gw_tensor *loss = loss_of(s, &t);
    gw_register_hook(s, loss, walk_inside, &t);
    gw_backward(s, loss);
    assert_true(t.begun == 1 && t.ended == 1 && grad_of(s, t.leaves[0]) == 20);
    gw_scope_close_up(s);
    gate_unset(&t.base);
}

static void a_pass_inside_another_is_not_its(void **state) {
    (void)state;
    play(nest);
}

// ---- Failures -----------------------------------------------------------------------------------

static gw_tensor *fail_here(gw_scope *s, gw_tensor *grad, void *context) {
    (void)grad, (void)context;
    gw_fail(s, GW_INVALID, "no such gradient");
    return NULL;
}

static void expect(gw_scope *s, gw_status status, const char *text) {
    assert_int_equal(gw_scope_error(s)->status, status);
    if (!strstr(gw_scope_error(s)->text, text)) fail_msg("%s", gw_scope_error(s)->text);
    gw_scope_clear(s);
}

static void break_it(gw_scope *root) {
    test_gate t;
    open_gate(root, &t);
    gw_scope *s = gw_scope_open(root);
    t.refuses = true;
    gw_backward(s, loss_of(s, &t));
    expect(s, GW_MISMATCH, "a parameter was added");
    assert_true(t.begun == 0 && t.ended == 0);

    t.refuses = false;
    t.fails = true;
    gw_backward(s, loss_of(s, &t));
    expect(s, GW_MISMATCH, "backward: replicas differ");
    assert_true(t.begun == 1 && t.ended == 1 && t.failed == 1);

    t.fails = false;
    int hook = gw_register_hook(s, t.leaves[1], fail_here, NULL);
    assert_int_equal(hook, 1);
    gw_backward(s, loss_of(s, &t));
    expect(s, GW_INVALID, "no such gradient");
    assert_true(t.begun == 2 && t.ended == 2 && t.failed == 2);
    assert_non_null(strstr(t.error.text, "no such gradient"));
    assert_int_equal(gw_grads_count(s), 0);
    gw_remove_hook(s, t.leaves[1], hook);

    test_gate second = t;
    assert_false(gate_set(s, &second.base));
    expect(s, GW_DUPLICATE, "already has a gate");
    gw_backward(s, loss_of(s, &t));
    assert_true(grad_of(s, t.leaves[0]) == 20);
    gw_scope_close_up(s);
    gate_unset(&t.base);
}

static void failures_reach_the_gate_and_its_pass(void **state) {
    (void)state;
    play(break_it);
}

static void fail_before(gw_scope *root) {
    test_gate t;
    open_gate(root, &t);
    gw_scope *s = gw_scope_open(root), *in = gw_scope_open(s);
    gate_note(in, &t.base);
    gw_scope_close_up(in);
    assert_int_equal(t.abandoned, 0);
    gw_fail(s, GW_INVALID, "index 12 out of range");
    gw_backward(s, loss_of(s, &t));
    assert_int_equal(t.abandoned, 1);
    assert_non_null(strstr(t.error.text, "index 12"));
    gw_scope_clear(s);
    gw_scope_close_up(s);
    assert_int_equal(t.abandoned, 1);

    s = gw_scope_open(root);
    gate_note(s, &t.base);
    gw_fail(s, GW_INVALID, "index 13 out of range");
    gw_error ignored = gw_scope_close(s);
    (void)ignored;
    assert_int_equal(t.abandoned, 2);

    s = gw_scope_open(root);
    gate_note(s, &t.base);
    gw_backward(s, loss_of(s, &t));
    gw_fail(s, GW_INVALID, "afterwards");
    ignored = gw_scope_close(s);
    assert_int_equal(t.abandoned, 2);
    gate_unset(&t.base);
}

static void a_scope_that_fails_before_its_pass_is_reported_to_the_gate(void **state) {
    (void)state;
    play(fail_before);
}

GW_TESTS(autograd_gate, it_gets_gradients_and_gives_those_that_stay,
         gradients_of_unsynchronised_passes_are_added_first, answers_may_be_kept_apart,
         a_pass_inside_another_is_not_its, failures_reach_the_gate_and_its_pass,
         a_scope_that_fails_before_its_pass_is_reported_to_the_gate);
