// Steps without gradients: in a scope in which no backward pass was made, for each function that uses gradients, and
// wherever the parameters and their state are.
#include "testing/cluster.h"
#include "testing/testing.h"

#include "base/log.h"
#include <gradwire.h>

#include <string.h>

enum { SIZE = 4, WORKERS = 2 };

GW_FUNCTION(learning_weight, GW_INLINE) {
    (void)a;
    return gw_value_of(gw_requires_grad(s, gw_ones(s, GW_F32, SIZE)));
}

GW_FUNCTION(learning_times, GW_INLINE, "rref, tensor") {
    gw_tensor *w = gw_tensor_of(s, gw_rref_local_value(s, gw_arg_rref(s, a, 0)));
    return gw_value_of(gw_mul(s, w, gw_arg_tensor(s, a, 1)));
}

// ---- Where parameters and state are -------------------------------------------------------------
typedef struct setup {
    gw_tensor *here;
    gw_rref *there;  // or NULL
    gw_list *params;
    gw_optimizer *opt;
    gw_scaler *scaler, *off;
} setup;

typedef enum place { HERE, SHARDED, THERE, BOTH, PLACES } place;

static setup open_setup(gw_scope *s, place p) {
    setup u = { .params = gw_list_open(s),
                .scaler = gw_scaler_open(s),
                .off = gw_scaler_open(s, .enabled = false) };
    if (p != THERE) {
        u.here = gw_requires_grad(s, gw_ones(s, GW_F32, SIZE));
        gw_list_add(s, u.params, u.here);
    }
    if (p == THERE || p == BOTH) {
        u.there = gw_remote(s, 1, "learning_weight");
        gw_list_add(s, u.params, u.there);
    }
    u.opt = gw_sgd(s, u.params, .lr = 0.5);
    if (p == SHARDED) gw_optimizer_shard(s, u.opt);
    return u;
}

static void backward(gw_scope *s, const setup *u) {
    gw_tensor *x = gw_ones(s, GW_F32, SIZE);
    if (u->here) x = gw_mul(s, x, u->here);
    if (u->there) x = gw_tensor_of(s, gw_rpc_sync(s, 1, "learning_times", u->there, x));
    gw_backward(s, gw_sum(s, x));
}

// ---- Functions that use gradients ---------------------------------------------------------------
typedef struct user {
    const char *name;
    void (*use)(gw_scope *s, setup *u);
} user;

static void step(gw_scope *s, setup *u) {
    gw_optimizer_step(s, u->opt);
}
static void scaler_step(gw_scope *s, setup *u) {
    gw_scaler_step(s, u->scaler, u->opt);
    if (gw_ok(s)) gw_scaler_update(s, u->scaler);
}
static void scaler_off_step(gw_scope *s, setup *u) {
    gw_scaler_step(s, u->off, u->opt);
}
static void unscale(gw_scope *s, setup *u) {
    gw_scaler_unscale(s, u->scaler, u->opt);
    if (gw_ok(s)) gw_scaler_update(s, u->scaler);
}
static void clip(gw_scope *s, setup *u) {
    gw_clip_grad_norm(s, u->params, 1.0);
}

static const user users[] = {
    { "gw_optimizer_step", step },
    { "gw_scaler_step", scaler_step },
    { "gw_optimizer_step", scaler_off_step },
    { "gw_scaler_unscale", unscale },
    { "gw_clip_grad_norm", clip },
};

// ---- The rule -----------------------------------------------------------------------------------
static void expect_refusal(gw_scope *root, setup *u, const user *by, const char *where) {
    gw_scope *s = gw_scope_open(root);
    by->use(s, u);
    gw_error e = gw_scope_close(s);
    if (e.status != GW_WRONG_STATE || !strstr(e.text, by->name) ||
        !strstr(e.text, "no backward pass was made in this scope") || !strstr(e.text, where))
        fail_msg("%s: %s", gw_status_name(e.status), e.text);
}

static void expect_use(gw_scope *s, setup *u, const user *by) {
    by->use(s, u);
    if (!gw_ok(s)) fail_msg("%s: %s", by->name, gw_scope_error(s)->text);
}

static void use_everywhere(gw_scope *root, place p, const user *by) {
    setup u = open_setup(root, p);
    bool has_gradients = u.here != NULL;  // the owner has gradients of remote parameters
    expect_refusal(root, &u, by, "so it has no gradients");
    gw_scope *s = gw_scope_open(root);
    gw_scope_label(s, "step 12");
    backward(s, &u);
    expect_refusal(root, &u, by,
                   has_gradients ? "scope \"step 12\" has gradients of these parameters" : "");
    expect_refusal(s, &u, by, has_gradients ? "scope \"step 12\" has gradients" : "");
    assert_int_equal(gw_optimizer_steps(u.opt), 0);
    expect_use(s, &u, by);
    gw_scope_close_up(s);
    expect_refusal(root, &u, by, has_gradients ? "were in scope \"step 12\", which is closed" : "");
    assert_true(gw_ok(root));
}

static void use_all(gw_scope *root, int rank, void *context) {
    const user *by = context;
    for (int p = 0; p < PLACES; p++)
        if (rank == 0 || p == SHARDED) use_everywhere(root, p, by);
}

static void functions_that_use_gradients_need_a_pass_in_their_scope(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof users / sizeof *users; i++)
        cluster_run(i + 1, (cluster_options){ .world_size = WORKERS }, use_all, (void *)&users[i]);
}

// Others wait for the step of a member whose gradients are in another scope: they get an error.
static void step_in_another_scope_on_one(gw_scope *root, int rank, void *context) {
    (void)context;
    setup u = open_setup(root, SHARDED);
    gw_scope *s = gw_scope_open(root), *t = gw_scope_open(root);
    backward(s, &u);
    gw_optimizer_step(rank ? t : s, u.opt);
    const gw_error *e = gw_scope_error(rank ? t : s);
    if (!strstr(e->text, "no backward pass was made")) fail_msg("%s", e->text);
    assert_int_equal(gw_optimizer_steps(u.opt), 0);
    gw_error ignored = gw_scope_close(s);
    ignored = gw_scope_close(t);
    (void)ignored;
}

static void a_member_that_steps_in_another_scope_fails_the_step_of_all(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = WORKERS }, step_in_another_scope_on_one, NULL);
}

// ---- In calls -----------------------------------------------------------------------------------
static setup setup_of_weight(gw_scope *s, gw_rref *weight) {
    setup u = { .here = gw_tensor_of(s, gw_rref_local_value(s, weight)),
                .params = gw_list_open(s),
                .scaler = gw_scaler_open(s),
                .off = gw_scaler_open(s, .enabled = false) };
    gw_list_add(s, u.params, u.here);
    u.opt = gw_sgd(s, u.params, .lr = 0.5);
    return u;
}

// Uses gradients of a local weight, in the scope of the call.
GW_FUNCTION(learning_use, GW_POOL, "rref, int") {
    setup u = setup_of_weight(s, gw_arg_rref(s, a, 0));
    users[gw_arg_int(s, a, 1)].use(s, &u);
    return gw_none();
}

// Calls it through a body, whose scope counts as that of its caller.
GW_FUNCTION(learning_use_through, GW_POOL, "rref, int") {
    gw_rpc_sync(s, 1, "learning_use", gw_arg_rref(s, a, 0), gw_arg_int(s, a, 1));
    return gw_none();
}

static void expect_refused_call(gw_scope *root, const char *function, gw_rref *w, int user) {
    gw_scope *s = gw_scope_open(root);
    gw_rpc_sync(s, 1, function, w, user);
    gw_error e = gw_scope_close(s);
    if (e.status != GW_WRONG_STATE || !strstr(e.text, users[user].name) ||
        !strstr(e.text, "no backward pass was made in this scope"))
        fail_msg("%s: %s", gw_status_name(e.status), e.text);
}

static void use_in_calls(gw_scope *root, int rank, void *context) {
    static const char *const functions[] = { "learning_use", "learning_use_through" };
    (void)context;
    if (rank) return;
    for (int i = 0; i < (int)(sizeof users / sizeof *users); i++) {
        for (int f = 0; f < 2; f++) {
            setup u = { .there = gw_remote(root, 1, "learning_weight") };
            gw_scope *pass = gw_scope_open(root), *other = gw_scope_open(root);
            expect_refused_call(root, functions[f], u.there, i);
            backward(pass, &u);
            expect_refused_call(root, functions[f], u.there, i);
            gw_rpc_sync(pass, 1, functions[f], u.there, i);
            if (!gw_ok(pass)) fail_msg("%s", gw_scope_error(pass)->text);
            // A pass that does not use the weight is a pass, too.
            gw_backward(other, gw_sum(other, gw_requires_grad(other, gw_ones(other, GW_F32, 2))));
            gw_rpc_sync(other, 1, functions[f], u.there, i);
            if (!gw_ok(other)) fail_msg("%s", gw_scope_error(other)->text);
            gw_scope_close_up(other);
            gw_scope_close_up(pass);
        }
    }
    assert_true(gw_ok(root));
}

static void a_body_uses_gradients_of_its_callers_scope_alone(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = WORKERS }, use_in_calls, NULL);
}

// ---- Valid uses ---------------------------------------------------------------------------------
static void use_validly(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank) return;
    for (size_t i = 0; i < sizeof users / sizeof *users; i++) {
        setup u = open_setup(root, HERE);
        gw_scope *s = gw_scope_open(root);
        // A pass that does not use the parameters: they stay, as in PyTorch.
        gw_backward(s, gw_sum(s, gw_requires_grad(s, gw_ones(s, GW_F32, 2))));
        expect_use(s, &u, &users[i]);
        gw_scope_close_up(s);
        s = gw_scope_open(root);
        gw_set_grad(s, u.here, gw_ones(s, GW_F32, SIZE));
        expect_use(s, &u, &users[i]);
        gw_scope_close_up(s);
    }
    assert_true(gw_ok(root));
}

static void a_pass_that_reaches_no_parameter_is_a_pass(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 1 }, use_validly, NULL);
}

// ---- Gradients in another scope -----------------------------------------------------------------
// The scope has a pass of its own, which does not use the parameters; the pass that does is in another scope.
static void pass_over_another_leaf(gw_scope *s) {
    gw_backward(s, gw_sum(s, gw_requires_grad(s, gw_ones(s, GW_F32, 2))));
}

static void expect_missed(gw_scope *s, const char *function, const char *where) {
    const gw_error *e = gw_scope_error(s);
    if (e->status != GW_WRONG_STATE || !strstr(e->text, function) ||
        !strstr(e->text, "left no gradient of these parameters") || !strstr(e->text, where))
        fail_msg("%s: %s", gw_status_name(e->status), e->text);
    gw_error read = gw_scope_close(s);
    (void)read;
}

static void use_with_another_pass(gw_scope *root, place p, const user *by, bool is_inside,
                                  bool is_closed) {
    setup u = open_setup(root, p);
    gw_scope *s = gw_scope_open(root);
    pass_over_another_leaf(s);
    gw_scope *t = gw_scope_open(is_inside ? s : root);
    gw_scope_label(t, "step 12");
    backward(t, &u);
    if (is_closed) gw_scope_close_up(t);
    by->use(s, &u);
    expect_missed(s, by->name,
                  is_closed ? "were in scope \"step 12\", which is closed"
                            : "scope \"step 12\" has gradients");
    if (!is_closed && !is_inside) gw_scope_close_up(t);
    assert_int_equal(gw_optimizer_steps(u.opt), 0);
}

static void use_all_with_another_pass(gw_scope *root, int rank, void *context) {
    for (int p = HERE; p <= SHARDED; p++)
        for (int i = 0; i < 4; i++)
            if (rank == 0 || p == SHARDED) use_with_another_pass(root, p, context, i & 1, i & 2);
    assert_true(gw_ok(root));
}

static void gradients_left_in_another_scope_are_missed(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof users / sizeof *users; i++)
        cluster_run(1, (cluster_options){ .world_size = WORKERS }, use_all_with_another_pass,
                    (void *)&users[i]);
}

// A model that is not used in each step, or whose gradients a step has used.
static void use_none_without_missing_any(gw_scope *root, int rank, void *context) {
    (void)context;
    for (int p = HERE; p <= SHARDED; p++) {
        if (rank && p == HERE) continue;
        setup u = open_setup(root, p);
        gw_scope *s = gw_scope_open(root);
        backward(s, &u);  // whose gradients are not used
        gw_scope_close_up(s);
        s = gw_scope_open(root);
        pass_over_another_leaf(s);
        expect_use(s, &u, &users[0]);
        gw_scope *t = gw_scope_open(s);
        backward(t, &u);
        expect_use(t, &u, &users[0]);
        expect_use(s, &u, &users[0]);
        gw_scope_close_up(t);
        expect_use(s, &u, &users[0]);
        gw_scope_close_up(s);
        assert_int_equal(gw_optimizer_steps(u.opt), 4);
    }
    assert_true(gw_ok(root));
}

static void a_step_without_gradients_is_one_where_none_are_missed(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = WORKERS }, use_none_without_missing_any, NULL);
}

// Makes a pass over a weight in a scope of its own, and uses the gradients of its caller's scope.
GW_FUNCTION(learning_use_with_another_pass, GW_POOL, "rref, int") {
    setup u = setup_of_weight(s, gw_arg_rref(s, a, 0));
    gw_scope *t = gw_scope_open(s);
    gw_scope_label(t, "step 12");
    backward(t, &u);
    gw_scope_close_up(t);
    users[gw_arg_int(s, a, 1)].use(s, &u);
    return gw_none();
}

static void use_with_another_pass_in_calls(gw_scope *root, int rank, void *context) {
    (void)context;
    for (int i = 0; i < (int)(sizeof users / sizeof *users) && !rank; i++) {
        gw_rref *w = gw_remote(root, 1, "learning_weight");
        gw_scope *s = gw_scope_open(root);
        pass_over_another_leaf(s);
        gw_rpc_sync(s, 1, "learning_use_with_another_pass", w, i);
        expect_missed(s, users[i].name, "were in scope \"step 12\", which is closed");
    }
    assert_true(gw_ok(root));
}

static void a_body_misses_what_its_own_passes_left(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = WORKERS }, use_with_another_pass_in_calls,
                NULL);
}

// ---- Unused means -------------------------------------------------------------------------------
static int warnings;

static void count_warnings(const char *line) {
    warnings += strstr(line, "mean gradients of DistributedDataParallel were never used") != NULL;
}

typedef struct replica {
    gw_module *model;
    gw_ddp *ddp;
    gw_optimizer *opt;
} replica;

static replica open_replica(gw_scope *s) {
    replica r = { .model = gw_nn_linear(s, 3, 2) };
    r.ddp = gw_ddp_open(s, r.model);
    r.opt = gw_sgd(s, gw_parameters(s, r.model), .lr = 0.1);
    return r;
}

static void pass_over(gw_scope *s, const replica *r) {
    gw_backward(s, gw_sum(s, gw_module_call(s, r->model, gw_ones(s, GW_F32, 4, 3))));
}

static void leave_means(gw_scope *root, int rank, void *context) {
    const bool is_read = context != NULL;
    replica r = open_replica(root);
    for (int pass = 0; pass < 3; pass++) {
        gw_scope *s = gw_scope_open(root), *t = gw_scope_open(root);
        pass_over(s, &r);
        if (is_read && pass == 0) gw_optimizer_step(s, r.opt);
        if (is_read && pass == 1) gw_clip_grad_norm(s, gw_parameters(s, r.model), 1);
        if (is_read && pass == 2) gw_grad(s, gw_module_parameter_get(s, r.model, "bias"));
        gw_optimizer_step(t, r.opt);
        gw_error e = gw_scope_close(t);
        assert_int_equal(e.status, GW_WRONG_STATE);
        gw_scope_close_up(s);
    }
    assert_true(gw_ok(root));
    (void)rank;
}

// The same with replicas: all members miss their mean.
static void miss_means(gw_scope *root, int rank, void *context) {
    (void)rank, (void)context;
    replica r = open_replica(root);
    gw_scope *s = gw_scope_open(root);
    pass_over_another_leaf(s);
    gw_scope *t = gw_scope_open(s);
    pass_over(t, &r);
    gw_scope_close_up(t);
    gw_optimizer_step(s, r.opt);
    expect_missed(s, "gw_optimizer_step", "which is closed");
}

static void means_left_in_another_scope_are_missed(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = WORKERS }, miss_means, NULL);
}

static int warnings_of(void *context) {
    warnings = 0;
    log_hook = count_warnings;
    cluster_run(1, (cluster_options){ .world_size = WORKERS }, leave_means, context);
    log_hook = NULL;
    return warnings;
}

static void unused_means_are_reported_once(void **state) {
    (void)state;
    assert_int_equal(warnings_of(NULL), WORKERS);
    assert_int_equal(warnings_of(&warnings), 0);
}

GW_TESTS(learning_sim, functions_that_use_gradients_need_a_pass_in_their_scope,
         a_member_that_steps_in_another_scope_fails_the_step_of_all,
         a_body_uses_gradients_of_its_callers_scope_alone,
         a_pass_that_reaches_no_parameter_is_a_pass, gradients_left_in_another_scope_are_missed,
         a_step_without_gradients_is_one_where_none_are_missed,
         a_body_misses_what_its_own_passes_left, means_left_in_another_scope_are_missed,
         unused_means_are_reported_once);
