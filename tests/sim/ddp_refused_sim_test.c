// Passes of replicas that one member cannot make, since its scope fails before the model is called, or with that call, in
// the simulator: all members get the error in that step, and pair the same steps from then on.
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <string.h>

enum { MEMBERS = 3, STEPS = 6, FEATURES = 4 };

// ---- How the step of one member fails ------------------------------------------------------------

typedef enum refusal {
    SCOPE,         // has failed before the model is called
    SCOPE_INSIDE,  // around the scope of the step
    SKIPPED,       // gw_ddp_skip in a scope that has failed
    NO_INPUT,      // the model is called with NULL
    NO_VALUES,     // with values, of which there are none
    HOOK,          // a hook of the program, which runs before the others, fails
    LATER,         // between two forwards
    FORGOTTEN,     // no backward follows
    REFUSALS
} refusal;

// ---- What is trained -----------------------------------------------------------------------------

typedef enum kind {
    PLAIN,
    BUFFERS,    // that are broadcast before each forward
    CHECKED,    // and compared
    INSIDE,     // a part of a larger model
    FORWARDS,   // two for each pass, in scopes of their own
    STATES,     // the optimizer is sharded
    GRADIENTS,  // and its gradients
    SHARDS,     // two passes for each step
    KINDS
} kind;

typedef struct scene {
    uint64_t seed;
    refusal how;
    kind what;
    int who, step;
} scene;

typedef struct trainer {
    const scene *scene;
    gw_module *model, *whole;  // |model| is replicated, and a part of |whole|
    gw_ddp *ddp;
    gw_optimizer *opt;
    gw_tensor *weight;
    bool fails;  // the hook
} trainer;

static gw_tensor *fail_if_due(gw_scope *s, gw_module *m, gw_tensor *x, void *context) {
    const trainer *t = context;
    (void)m, (void)x;
    if (t->fails) gw_fail(s, GW_INVALID, "a hook has failed");
    return NULL;
}

static gw_tensor *apply(gw_scope *s, gw_module *m, gw_tensor *x) {
    const trainer *t = gw_module_state(m);
    return gw_mul(s, x, t->weight);
}

static void open_trainer(gw_scope *s, trainer *t) {
    kind what = t->scene->what;
    t->weight = gw_requires_grad(s, gw_zeros(s, GW_F32, 1, FEATURES));
    t->model = gw_module_open(s, "model", apply, t);
    gw_module_register_parameter(s, t->model, "weight", t->weight);
    if (what == BUFFERS || what == CHECKED)
        gw_module_register_buffer(s, t->model, "count", gw_zeros(s, GW_F32, 3));
    t->whole = what == INSIDE ? gw_nn_sequential(s, gw_nn_relu(s), t->model) : t->model;
    gw_module_register_forward_pre_hook(s, t->whole, fail_if_due, t);
    t->ddp =
        gw_ddp_open(s, t->model, .check_every = what == CHECKED, .shards = what == SHARDS ? 4 : 0);
    t->opt = gw_sgd(s, gw_parameters(s, t->model), .lr = 1);
    if (what == STATES) gw_optimizer_shard(s, t->opt);
    if (what == GRADIENTS) gw_optimizer_shard(s, t->opt, .gradients = GW_SHARDED);
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
}

// ---- Steps ---------------------------------------------------------------------------------------

static gw_tensor *forward(gw_scope *s, trainer *t, double x, bool is_due) {
    refusal how = t->scene->how;
    gw_tensor *in = gw_full(s, GW_F32, x, 1, FEATURES);
    t->fails = is_due && how == HOOK;
    if (is_due && how == NO_VALUES)
        return gw_tensor_of(s, gw_module_call_value_with(s, t->whole, (gw_values){ 0, NULL }));
    return gw_module_call(s, t->whole, is_due && how == NO_INPUT ? NULL : in);
}

// In a scope of its own, as a function of the program would.
static gw_tensor *forward_inside(gw_scope *s, trainer *t, double x, bool is_due) {
    gw_scope *inner = gw_scope_open(s);
    gw_tensor *y = gw_keep(s, forward(inner, t, x, is_due));
    gw_scope_close_up(inner);
    return y;
}

// The mean over the members is |x|.
static void pass(gw_scope *s, trainer *t, double x, bool is_due) {
    refusal how = t->scene->how;
    if (t->scene->what == FORWARDS) {
        gw_tensor *y = forward_inside(s, t, x / 2, is_due && how != LATER);
        if (is_due && how == LATER) gw_fail(s, GW_INVALID, "between two forwards");
        y = gw_add(s, y, forward_inside(s, t, x / 2, false));
        if (!is_due || how != FORGOTTEN) gw_backward(s, gw_sum(s, y));
        return;
    }
    gw_tensor *y = forward(s, t, x, is_due);
    if (is_due && how == LATER) gw_fail(s, GW_INVALID, "behind the forward");
    if (!is_due || how != FORGOTTEN) gw_backward(s, gw_sum(s, y));
}

static void step(gw_scope *root, trainer *t, int rank, int number) {
    const scene *now = t->scene;
    bool is_due = rank == now->who && number == now->step;
    double x = number * (1 + rank - (gw_ddp_get_stats(t->ddp).world_size - 1) / 2.0);
    gw_scope *around = gw_scope_open(root), *s = NULL;
    if (is_due && now->how == SCOPE_INSIDE) gw_fail(around, GW_INVALID, "around the step");
    s = gw_scope_open(around);
    if (is_due && (now->how == SCOPE || now->how == SKIPPED || now->how == FORGOTTEN))
        gw_fail(s, GW_INVALID, "no batch");
    if (is_due && now->how == SKIPPED) {
        for (int i = 0; i < (now->what == SHARDS ? 2 : 1); i++) gw_ddp_skip(s, t->ddp);
    } else {
        pass(s, t, x, is_due);
        if (now->what == SHARDS) pass(s, t, x, false);
    }
    gw_optimizer_step(s, t->opt);
    gw_error e = gw_scope_close(s);
    gw_scope_clear(around);
    gw_scope_close_up(around);
    if (number == now->step && e.status != GW_INVALID)
        fail_msg("w%d step %d: %s %s", rank, number, gw_status_name(e.status), e.text);
    if (number != now->step && e.status) fail_msg("w%d step %d: %s", rank, number, e.text);
}

static void train(gw_scope *root, int rank, void *context) {
    trainer t = { .scene = context };
    gw_scope_set_timeout(root, 600000);
    open_trainer(root, &t);
    double wish = 0;
    for (int number = 1; number <= STEPS; number++) {
        step(root, &t, rank, number);
        if (number != t.scene->step) wish -= number;
        double got = gw_item(root, gw_select(root, gw_reshape(root, t.weight, -1), 0, 0));
        if (got != wish) fail_msg("w%d step %d: %g, not %g", rank, number, got, wish);
    }
}

static void train_by_seed(uint64_t seed, void *context) {
    (void)context;
    scene now = { .seed = seed,
                  .how = (refusal)(seed % REFUSALS),
                  .what = (kind)(seed / REFUSALS % KINDS),
                  .who = (int)(seed % MEMBERS),
                  .step = 2 + (int)(seed / 5 % 3) };
    int members = now.what == SHARDS ? 2 : MEMBERS;
    now.who %= members;
    cluster_run(seed, (cluster_options){ .world_size = members, .network = sim_varied(seed, 0) },
                train, &now);
}

static void all_get_the_failure_in_that_step(void **state) {
    (void)state;
    testing_for_seeds(3 * REFUSALS * KINDS, train_by_seed, NULL);
}

GW_TESTS(ddp_refused_sim, all_get_the_failure_in_that_step);
