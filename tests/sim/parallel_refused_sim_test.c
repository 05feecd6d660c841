// Functions that contain a collective, refused by one member, in the simulator: in a scope that has failed, or with an
// argument that is wrong. All members get an error in that step, and pair the same steps from then on.
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <stdlib.h>
#include <string.h>

enum { MEMBERS = 3, FEATURES = 4 };

typedef enum refusal { NOTHING, FAILED_SCOPE, BAD_ARGUMENT, REFUSALS } refusal;

typedef struct fixture {
    gw_group *g;
    gw_module *model, *other, *norm;
    gw_ddp *ddp;
    gw_optimizer *opt;    // of |model|; sharded
    gw_optimizer *plain;  // of |other|
    gw_optimizer *local;  // of |other|; with an averager
    gw_scaler *scaler;
    gw_averager averager, again;
    gw_tensor *x;
    int rank;
} fixture;

// ---- Calls ---------------------------------------------------------------------------------------
// |how| is NOTHING on members that do not refuse, and in the calls that succeed.

typedef void call(gw_scope *s, fixture *f, refusal how);

static void pass(gw_scope *s, fixture *f, gw_module *m) {
    gw_backward(s, gw_sum(s, gw_module_call(s, m, f->x)));
}

static void ddp_check(gw_scope *s, fixture *f, refusal how) {
    (void)how;
    gw_ddp_check(s, f->ddp);
}

static void ddp_broadcast(gw_scope *s, fixture *f, refusal how) {
    (void)how;
    gw_ddp_broadcast(s, f->ddp);
}

static void ddp_skip(gw_scope *s, fixture *f, refusal how) {
    (void)how;
    gw_ddp_skip(s, f->ddp);
}

static void ddp_pass(gw_scope *s, fixture *f, refusal how) {
    gw_tensor *y = gw_sum(s, gw_module_call(s, f->model, f->x));
    gw_backward(s, how == BAD_ARGUMENT ? NULL : y);
}

static void ddp_open(gw_scope *s, fixture *f, refusal how) {
    gw_ddp_open(s, f->other, .group = f->g, .bucket_bytes = how == BAD_ARGUMENT ? -1 : 1000);
}

static void ddp_open_null(gw_scope *s, fixture *f, refusal how) {
    gw_ddp_open(s, how == BAD_ARGUMENT ? NULL : f->other);
}

static void ddp_open_joining(gw_scope *s, fixture *f, refusal how) {
    gw_ddp_open(s, f->other, .group = f->g, .joining = how == BAD_ARGUMENT);
}

static void ddp_reform(gw_scope *s, fixture *f, refusal how) {
    gw_ddp_reform(s, f->ddp, how == BAD_ARGUMENT ? NULL : f->opt, f->g);
}

static void ddp_reform_null(gw_scope *s, fixture *f, refusal how) {
    gw_ddp_reform(s, how == BAD_ARGUMENT ? NULL : f->ddp, f->opt, f->g);
}

static void shard(gw_scope *s, fixture *f, refusal how) {
    gw_optimizer_shard(s, f->plain, .group = f->g,
                       .gradients = (gw_shard_gradients)(how == BAD_ARGUMENT ? 9 : GW_WHOLE));
}

static void shard_null(gw_scope *s, fixture *f, refusal how) {
    gw_optimizer_shard(s, how == BAD_ARGUMENT ? NULL : f->plain);
}

static void consolidate(gw_scope *s, fixture *f, refusal how) {
    gw_optimizer_consolidate(s, f->opt, how == BAD_ARGUMENT ? 9 : 0);
}

static void state_dict(gw_scope *s, fixture *f, refusal how) {
    (void)how;
    gw_optimizer_state_dict(s, f->opt);
}

static void optimizer_reform(gw_scope *s, fixture *f, refusal how) {
    gw_optimizer_reform(s, how == BAD_ARGUMENT ? NULL : f->opt, f->g);
    if (gw_ok(s)) gw_ddp_reform(s, f->ddp, f->opt, f->g);  // which gradients follow
}

static void optimizer_step(gw_scope *s, fixture *f, refusal how) {
    gw_scope *t = gw_scope_open(s);
    pass(s, f, f->model);
    gw_optimizer_step(how == BAD_ARGUMENT ? t : s, f->opt);
    gw_scope_close_up(t);
}

static void scaler_unscale(gw_scope *s, fixture *f, refusal how) {
    pass(s, f, f->model);
    gw_scaler_unscale(s, how == BAD_ARGUMENT ? NULL : f->scaler, f->opt);
    if (gw_ok(s)) gw_scaler_update(s, f->scaler);
}

static void scaler_step(gw_scope *s, fixture *f, refusal how) {
    pass(s, f, f->model);
    gw_scaler_step(s, how == BAD_ARGUMENT ? NULL : f->scaler, f->opt);
    if (gw_ok(s)) gw_scaler_update(s, f->scaler);
}

// Another stage on one member: it has unscaled already.
static void scaler_stage(gw_scope *s, fixture *f, refusal how) {
    pass(s, f, f->model);
    gw_scaler_unscale(s, f->scaler, f->opt);
    gw_scaler *fresh = gw_scaler_open(s);
    gw_scaler_unscale(s, how == BAD_ARGUMENT ? f->scaler : fresh, f->opt);
    gw_scope *t = gw_scope_open(NULL);
    gw_scaler_update(t, f->scaler);
    gw_error ignored = gw_scope_close(t);
    (void)ignored;
}

static void clip(gw_scope *s, fixture *f, refusal how) {
    pass(s, f, f->model);
    gw_clip_grad_norm(s, gw_parameters(s, f->model), how == BAD_ARGUMENT ? -1 : 1);
}

static void clip_empty(gw_scope *s, fixture *f, refusal how) {
    pass(s, f, f->model);
    gw_clip_grad_norm(s, how == BAD_ARGUMENT ? gw_list_open(s) : gw_parameters(s, f->model), 1);
}

static void average(gw_scope *s, fixture *f, refusal how) {
    gw_list *params = gw_parameters(s, f->other);
    gw_average_parameters(s, f->g, how == BAD_ARGUMENT ? NULL : params);
}

static void average_empty(gw_scope *s, fixture *f, refusal how) {
    gw_list *params = gw_parameters(s, f->other);
    gw_average_parameters(s, f->g, how == BAD_ARGUMENT ? gw_list_open(s) : params);
}

static void averager(gw_scope *s, fixture *f, refusal how) {
    gw_list *params = gw_parameters(s, f->other);
    gw_averager_step(s, &f->averager, how == BAD_ARGUMENT ? NULL : params);
}

static void averager_after(gw_scope *s, fixture *f, refusal how) {
    gw_scope *t = gw_scope_open(s);
    pass(s, f, f->other);
    gw_optimizer_step(how == BAD_ARGUMENT ? t : s, f->local);
    gw_scope_close_up(t);
}

static void averager_scaled(gw_scope *s, fixture *f, refusal how) {
    pass(s, f, f->other);
    gw_scaler_step(s, how == BAD_ARGUMENT ? NULL : f->scaler, f->local);
    if (gw_ok(s)) gw_scaler_update(s, f->scaler);
}

static void batch_norm(gw_scope *s, fixture *f, refusal how) {
    gw_tensor *wrong = gw_zeros(s, GW_F32, 3);
    gw_module_call(s, f->norm, how == BAD_ARGUMENT ? wrong : f->x);
}

static void batch_norm_features(gw_scope *s, fixture *f, refusal how) {
    gw_tensor *wrong = gw_zeros(s, GW_F32, 3, FEATURES + 1);
    gw_module_call(s, f->norm, how == BAD_ARGUMENT ? wrong : f->x);
}

static void batch_norm_pass(gw_scope *s, fixture *f, refusal how) {
    gw_tensor *y = gw_sum(s, gw_module_call(s, f->norm, f->x));
    if (how == BAD_ARGUMENT) gw_fail(s, GW_INVALID, "behind the forward");
    gw_backward(s, y);
    gw_all_reduce(s, f->g, gw_ones(s, GW_F32, 1), GW_SUM);
}

static void batch_norm_convert(gw_scope *s, fixture *f, refusal how) {
    gw_sync_batch_norm_convert(s, how == BAD_ARGUMENT ? NULL : f->norm, f->g);
}

static void batch_norm_convert_other(gw_scope *s, fixture *f, refusal how) {
    gw_sync_batch_norm_convert(s, how == BAD_ARGUMENT ? f->other : f->norm, NULL);
}

static void join(gw_scope *s, fixture *f, refusal how) {
    gw_joinable parts[] = { { .ddp = f->ddp }, { .ddp = how == BAD_ARGUMENT ? f->ddp : NULL } };
    gw_join *j = gw_join_open(s, parts, how == BAD_ARGUMENT ? 2 : 1);
    if (gw_ok(s)) gw_join_close(s, j);
}

static void join_notify(gw_scope *s, fixture *f, refusal how) {
    gw_joinable parts[] = { { .group = f->g } };
    gw_scope *t = gw_scope_open(s);
    gw_scope_clear(t);
    gw_join *j = gw_join_open(t, parts, 1);
    if (how == FAILED_SCOPE) gw_fail(t, GW_INVALID, "no batch");
    gw_join_notify(t, j);
    gw_join_close(t, j);
    gw_scope_close_up(t);
}

typedef struct row {
    const char *name;
    call *call;
    bool once;        // it succeeds once only
    bool only_scope;  // no argument can be wrong, but for the handle that names the group
    bool has_root;    // members that exchange nothing with the one that refuses may succeed
} row;

static const row rows[] = {
    { .name = "gw_ddp_check", .call = ddp_check, .only_scope = true },
    { .name = "gw_ddp_broadcast", .call = ddp_broadcast, .only_scope = true, .has_root = true },
    { .name = "gw_ddp_skip", .call = ddp_skip, .only_scope = true },
    { .name = "gw_backward", .call = ddp_pass },
    { .name = "gw_ddp_open", .call = ddp_open, .once = true },
    { .name = "gw_ddp_open", .call = ddp_open_null, .once = true },
    { .name = "gw_ddp_open", .call = ddp_open_joining, .once = true },
    { .name = "gw_ddp_reform", .call = ddp_reform },
    { .name = "gw_ddp_reform", .call = ddp_reform_null },
    { .name = "gw_optimizer_shard", .call = shard, .once = true },
    { .name = "gw_optimizer_shard", .call = shard_null, .once = true },
    { .name = "gw_optimizer_consolidate", .call = consolidate, .has_root = true },
    { .name = "gw_optimizer_state_dict", .call = state_dict, .only_scope = true },
    { .name = "gw_optimizer_reform", .call = optimizer_reform },
    { .name = "gw_optimizer_step", .call = optimizer_step },
    { .name = "gw_scaler_unscale", .call = scaler_unscale },
    { .name = "gw_scaler_step", .call = scaler_step },
    { .name = "gw_scaler_unscale", .call = scaler_stage },
    { .name = "gw_clip_grad_norm", .call = clip },
    { .name = "gw_clip_grad_norm", .call = clip_empty },
    { .name = "gw_average_parameters", .call = average },
    { .name = "gw_average_parameters", .call = average_empty },
    { .name = "gw_averager_step", .call = averager },
    { .name = "gw_optimizer_step", .call = averager_after },
    { .name = "gw_scaler_step", .call = averager_scaled },
    { .name = "gw_module_call", .call = batch_norm },
    { .name = "gw_module_call", .call = batch_norm_features },
    { .name = "gw_backward", .call = batch_norm_pass },
    { .name = "gw_sync_batch_norm_convert", .call = batch_norm_convert },
    { .name = "gw_sync_batch_norm_convert", .call = batch_norm_convert_other },
    { .name = "gw_join_open", .call = join },
    { .name = "gw_join_notify", .call = join_notify, .only_scope = true },
};

enum { ROWS = sizeof rows / sizeof rows[0] };

// ---- Refusals ------------------------------------------------------------------------------------

static void open_fixture(gw_scope *s, fixture *f, int rank) {
    *f = (fixture){ .averager = { .levels = { { .period = 1 } } },
                    .again = { .levels = { { .period = 1 } } },
                    .rank = rank };
    gw_seed(s, 1);
    f->g = gw_group_world(s);
    f->model = gw_nn_linear(s, FEATURES, 2);
    f->other = gw_nn_linear(s, FEATURES, 2);
    f->norm =
        gw_nn_sequential(s, gw_nn_linear(s, FEATURES, FEATURES), gw_nn_batch_norm1d(s, FEATURES));
    f->ddp = gw_ddp_open(s, f->model);
    f->opt = gw_adam(s, gw_parameters(s, f->model));
    gw_optimizer_shard(s, f->opt, .gradients = GW_SHARDED);
    f->plain = gw_adam(s, gw_parameters(s, f->other));
    f->local = gw_sgd(s, gw_parameters(s, f->other), .lr = 0.1);
    gw_optimizer_average(s, f->local, &f->again);
    gw_sync_batch_norm_convert(s, f->norm, NULL);
    f->scaler = gw_scaler_open(s);
    f->x = gw_full(s, GW_F32, 1 + rank, 3, FEATURES);
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
}

static gw_error call_row(gw_scope *root, fixture *f, const row *r, refusal how) {
    gw_scope *s = gw_scope_open(root);
    if (how == FAILED_SCOPE) gw_fail(s, GW_INVALID, "no batch");
    r->call(s, f, how);
    return gw_scope_close(s);
}

static void add(gw_scope *root, const fixture *f, int step) {
    gw_scope *s = gw_scope_open(root);
    double got =
        gw_item(s, gw_all_reduce(s, f->g, gw_full(s, GW_F32, 10 * step + f->rank), GW_SUM));
    gw_error e = gw_scope_close(s);
    if (e.status || got != MEMBERS * 10 * step + 3)
        fail_msg("w%d step %d: %g, %s", f->rank, step, got, e.text);
}

// The replicas and the sharded optimizer continue.
static void train(gw_scope *root, fixture *f, const row *r) {
    gw_scope *s = gw_scope_open(root);
    gw_backward(s, gw_sum(s, gw_module_call(s, f->model, f->x)));
    gw_clip_grad_norm(s, gw_parameters(s, f->model), 1);
    gw_optimizer_step(s, f->opt);
    gw_ddp_check(s, f->ddp);
    gw_module_call(s, f->norm, f->x);
    gw_average_parameters(s, f->g, gw_parameters(s, f->other));
    gw_error e = gw_scope_close(s);
    if (e.status) fail_msg("w%d: a step behind %s: %s", f->rank, r->name, e.text);
}

static void refuse_each(gw_scope *root, int rank, void *context) {
    uint64_t seed = *(uint64_t *)context;
    const row *r = &rows[seed % ROWS];
    fixture f;
    int step = 0;
    open_fixture(root, &f, rank);
    for (int how = FAILED_SCOPE; how < REFUSALS; how++) {
        if (how == BAD_ARGUMENT && r->only_scope) continue;
        int who = (int)((seed / ROWS + (uint64_t)how) % MEMBERS);
        gw_error e = call_row(root, &f, r, rank == who ? (refusal)how : NOTHING);
        bool may_succeed = r->has_root && rank != who && e.status == GW_OK;
        if (!may_succeed && e.status != GW_INVALID && e.status != GW_MISMATCH &&
            e.status != GW_WRONG_STATE && e.status != GW_DUPLICATE)
            fail_msg("w%d: %s, refusal %d by w%d: %s %s", rank, r->name, how, who,
                     gw_status_name(e.status), e.text);
        add(root, &f, ++step);
        train(root, &f, r);
        if (r->once && how != BAD_ARGUMENT) continue;
        e = call_row(root, &f, r, NOTHING);
        if (e.status) fail_msg("w%d: %s behind refusal %d: %s", rank, r->name, how, e.text);
        add(root, &f, ++step);
        train(root, &f, r);
    }
}

static void refuse_with_seed(uint64_t seed, void *context) {
    (void)context;
    cluster_run(seed, (cluster_options){ .world_size = MEMBERS, .network = sim_varied(seed, 0) },
                refuse_each, &seed);
}

static void all_get_a_refusal_in_that_step(void **state) {
    (void)state;
    testing_for_seeds(3 * ROWS, refuse_with_seed, NULL);
}

GW_TESTS(parallel_refused_sim, all_get_a_refusal_in_that_step);
