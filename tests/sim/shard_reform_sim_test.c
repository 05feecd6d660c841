// Sharded optimizers that continue in another group, in the simulator: members are lost in the middle of a step, or of
// re-forming itself, leave, and join.
#include "base/random.h"
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARAMETERS = 5, MEMBERS = 4, STEPS = 9, SEEDS = 60 };

// ---- Weights ------------------------------------------------------------------------------------

typedef struct learner {
    gw_tensor *weights[PARAMETERS];
    gw_optimizer *opt;
} learner;

static const int64_t sizes[PARAMETERS] = { 7, 100, 3, 1, 40 };

static learner open_learner(gw_scope *s, double value) {
    learner l;
    gw_list *list = gw_list_open(s);
    for (int i = 0; i < PARAMETERS; i++) {
        gw_dtype dtype = i == 2 ? GW_F64 : GW_F32;
        l.weights[i] = gw_requires_grad(s, gw_full(s, dtype, value * (i + 1), sizes[i]));
        gw_list_add(s, list, l.weights[i]);
    }
    l.opt = gw_adam(s, list, .lr = 0.01);
    return l;
}

// The same gradients in each step, wherever they are made; one parameter has none at times.
static gw_error take_step(gw_scope *outer, const learner *l) {
    gw_scope *s = gw_scope_open(outer);
    int step = (int)gw_optimizer_steps(l->opt);
    for (int i = 0; i < PARAMETERS; i++)
        if (i != 3 || step % 2)
            gw_set_grad(
                s, l->weights[i],
                gw_full(s, gw_dtype_of(l->weights[i]), 0.3 * i - 0.1 * step - 0.05, sizes[i]));
    gw_optimizer_step(s, l->opt);
    return gw_scope_close(s);
}

static void expect_same_weights(gw_scope *s, const learner *a, const learner *b) {
    for (int i = 0; i < PARAMETERS; i++)
        if (!gw_equal(s, a->weights[i], b->weights[i])) fail_msg("weights %d differ", i);
}

// Numbers of parameters whose state in |a| is not that in |b|.
static int64_t count_different(gw_scope *s, gw_map *a, gw_map *b) {
    int64_t count = 0;
    for (int i = 0; i < PARAMETERS; i++) {
        const char *key = gw_format(s, "%d.exp_avg", i);
        gw_value x = gw_map_find(a, key), y = gw_map_find(b, key);
        if (y.kind == GW_NONE) continue;
        if (x.kind == GW_NONE) {
            count += sizes[i];
            continue;
        }
        gw_tensor *p = gw_to_dtype(s, x.as.tensor, GW_F64);
        gw_tensor *q = gw_to_dtype(s, y.as.tensor, GW_F64);
        const double *u = gw_data(p), *v = gw_data(q);
        for (int64_t k = 0; u && v && k < sizes[i]; k++) count += u[k] != v[k];
    }
    return count;
}

// ---- Losses -------------------------------------------------------------------------------------

enum { GENERATIONS = 4 };

static struct scene {
    uint64_t seed;
    sim *sim;
    bool flat, saves;
    int victims[2];
    int64_t lost[GENERATIONS];  // as the remaining members report
    int64_t bytes[MEMBERS];     // of state, behind the last step
    bool has_left[MEMBERS];     // with all steps taken, which others may not have recorded
    int finished;
} now;

static struct counts { int completed, lost, restored, finished; } counts;

static bool is_dead(int rank) {
    return sim_is_crashed(now.sim, rank);
}

static void die(sim *s, void *context) {
    sim_crash(s, *(int *)context);
}

static int64_t random_below(uint64_t number, int64_t end) {
    uint32_t random[4];
    philox(now.seed, number, random);
    return random[0] % end;
}

// The first victim dies in its fourth step, the second one as it begins to continue.
static void plan_death(int which, int rank) {
    int64_t soon_ns = random_below((uint64_t)which, which ? 3000000 : 400000);
    if (rank == now.victims[which])
        assert_true(sim_at(now.sim, sim_now_ns(now.sim) + soon_ns, die, &now.victims[which]));
}

static int64_t bytes_of_lost(void) {
    int64_t bytes = 0;
    for (int i = 0; i < MEMBERS; i++) bytes += is_dead(i) || now.has_left[i] ? now.bytes[i] : 0;
    return bytes;
}

// A member that detects a loss continues with the remaining members, until all of them do.
static gw_group *continue_without(gw_scope *s, int rank, const learner *l, gw_group *g,
                                  gw_map *saved) {
    do {
        gw_scope_clear(s);
        g = gw_group_reform(s, g);
        gw_optimizer_reformed r = gw_optimizer_reform(s, l->opt, g, .saved = saved);
        if (gw_ok(s) && !is_dead(rank)) {
            int64_t *lost = &now.lost[gw_group_generation(g)];
            assert_true(!*lost || *lost == r.lost);
            assert_true(r.lost * 2 * (int64_t)sizeof(float) <= bytes_of_lost());
            *lost = r.lost;
            counts.lost += r.lost > 0;
            counts.restored += r.restored > 0;
            int64_t bytes = gw_optimizer_state_bytes(l->opt);  // it holds what it had before, too
            if (bytes > now.bytes[rank]) now.bytes[rank] = bytes;
            assert_true(!saved || !r.lost);
        }
    } while (!gw_ok(s) && !is_dead(rank) && gw_scope_error(s)->status == GW_DISCONNECTED);
    return g;
}

// The state is that of as many steps of |plain|, except the state that was lost with members; from here on |plain| has
// that state, too.
static bool compare(gw_scope *s, int rank, const learner *l, const learner *plain) {
    while (gw_optimizer_steps(plain->opt) < gw_optimizer_steps(l->opt))
        assert_int_equal(take_step(s, plain).status, GW_OK);
    gw_map *state = gw_optimizer_state_dict(s, l->opt);
    if (!gw_ok(s) || is_dead(rank)) return false;  // one more is lost
    int64_t lost = 0;
    for (int i = 0; i < GENERATIONS; i++) lost += now.lost[i];
    expect_same_weights(s, l, plain);
    int64_t different = count_different(s, state, gw_optimizer_state_dict(s, plain->opt));
    if (!now.saves && different > lost)
        fail_msg("state of %d numbers differs, and %d are lost", (int)different, (int)lost);
    gw_optimizer_load_state_dict(s, plain->opt, state);
    return true;
}

static void train(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = cluster_open_group(s, 0, MEMBERS, "trainers", 0);
    learner l = open_learner(s, 0.1), plain = open_learner(s, 0.1);
    gw_optimizer_shard(s, l.opt, .group = g, .flat = now.flat);
    gw_map *saved = NULL;
    assert_true(gw_ok(s));
    while (gw_optimizer_steps(l.opt) < STEPS && !is_dead(rank)) {
        int64_t before = gw_optimizer_steps(l.opt);
        if (before == 3) plan_death(0, rank);
        gw_error e = take_step(s, &l);
        gw_map *state = !e.status && now.saves ? gw_optimizer_state_dict(s, l.opt) : NULL;
        if (gw_ok(s) && state) saved = state;
        if (is_dead(rank)) break;
        now.bytes[rank] = gw_optimizer_state_bytes(l.opt);
        if (!e.status && gw_ok(s)) continue;
        if (e.status) assert_int_equal(e.status, GW_DISCONNECTED);
        if (now.seed % 3 == 0 && e.status)  // tries again first
            assert_int_equal(take_step(s, &l).status, GW_DISCONNECTED);
        plan_death(1, rank);
        do g = continue_without(s, rank, &l, g, saved);
        while (!is_dead(rank) && gw_ok(s) && !compare(s, rank, &l, &plain));
        if (is_dead(rank)) break;
        if (!gw_ok(s)) fail_msg("w%d: %s", rank, gw_scope_error(s)->text);
        counts.completed += e.status && gw_optimizer_steps(l.opt) == before + 1;
    }
    if (is_dead(rank)) {
        gw_scope_clear(s);
        return;
    }
    now.has_left[rank] = true;
    while (gw_optimizer_steps(plain.opt) < STEPS) take_step(s, &plain);
    expect_same_weights(s, &l, &plain);
    assert_true(gw_ok(s));
    now.finished++;
}

static void direct(sim *s, void *context) {
    (void)context;
    now.sim = s;
}

static void lose_by_seed(uint64_t seed, void *context) {
    now = (struct scene){ .seed = seed, .flat = seed % 2, .saves = context != NULL };
    now.victims[0] = (int)random_below(2, MEMBERS);
    now.victims[1] = seed % 4 < 2 ? (now.victims[0] + 1) % MEMBERS : -1;
    cluster_run(seed,
                (cluster_options){ .world_size = MEMBERS,
                                   .fails = true,
                                   .direct = direct,
                                   .network = sim_varied(seed, 0) },
                train, NULL);
    counts.finished += now.finished;
}

// A run of few seeds need not reach every case.
static bool walks_all(void) {
    return !getenv("SEED") && testing_scaled(SEEDS) == SEEDS;
}

static void after_any_loss_the_others_continue_from_one_step(void **state) {
    (void)state;
    int saves;
    counts = (struct counts){ 0 };
    testing_for_seeds(SEEDS, lose_by_seed, NULL);
    if (walks_all()) assert_true(counts.completed && counts.lost && !counts.restored);
    testing_for_seeds(SEEDS, lose_by_seed, &saves);
    if (walks_all()) assert_true(counts.restored && counts.finished > 2 * SEEDS * 2);
    printf("%d finished, %d had to complete a step, %d times state was lost, %d times restored\n",
           counts.finished, counts.completed, counts.lost, counts.restored);
}

// ---- Leaving and joining ------------------------------------------------------------------------

// Two of four members leave after consolidating the state, and join again: the results are as without that.
static void leave_and_join(gw_scope *s, int rank, void *context) {
    const bool flat = context != NULL, leaves = rank >= MEMBERS / 2;
    gw_group *all = cluster_open_group(s, 0, MEMBERS, "all", 0);
    learner l = open_learner(s, 0.1), plain = open_learner(s, 0.1);
    gw_optimizer_shard(s, l.opt, .group = all, .flat = flat);
    for (int i = 0; i < 3; i++) take_step(s, &l);
    int64_t whole = gw_optimizer_state_bytes(plain.opt);
    gw_map *state = gw_optimizer_consolidate(s, l.opt, 1);
    gw_group *half = gw_group_split(s, all, leaves, rank);
    if (leaves) {
        l = open_learner(s, 7);
        gw_optimizer_shard(s, l.opt, .group = cluster_open_group(s, rank, 1, "alone", 0),
                           .flat = flat);
    } else {
        // On all members but one gw_optimizer_consolidate gives an empty map.
        gw_optimizer_reformed r = gw_optimizer_reform(s, l.opt, half, .saved = state);
        assert_true(gw_ok(s) && r.restored > 0 && r.lost == 0);
        for (int i = 0; i < 3; i++) take_step(s, &l);
    }
    gw_optimizer_reformed r = gw_optimizer_reform(s, l.opt, all);
    if (!gw_ok(s)) fail_msg("w%d: %s", rank, gw_scope_error(s)->text);
    assert_true(r.moved > 0 && r.restored == 0 && r.lost == 0);
    assert_int_equal(gw_optimizer_steps(l.opt), 6);
    take_step(s, &l);
    while (gw_optimizer_steps(plain.opt) < 7) take_step(s, &plain);
    expect_same_weights(s, &l, &plain);
    state = gw_optimizer_state_dict(s, l.opt);
    assert_int_equal(count_different(s, state, gw_optimizer_state_dict(s, plain.opt)), 0);
    assert_true(gw_ok(s) && whole == 0);
    whole = gw_optimizer_state_bytes(plain.opt);
    assert_true(gw_optimizer_state_bytes(l.opt) < whole);
}

static void members_leave_and_join_without_an_effect_on_results(void **state) {
    (void)state;
    int flat;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        cluster_run(seed, (cluster_options){ .world_size = MEMBERS }, leave_and_join, NULL);
        cluster_run(seed, (cluster_options){ .world_size = MEMBERS }, leave_and_join, &flat);
    }
}

// The last worker joins the others, and may be lost before they have stepped with it: then they still have the state
// that they sent it.
static void admit_one(gw_scope *s, int rank, void *context) {
    (void)context;
    const bool is_new = rank == MEMBERS - 1;
    learner l = open_learner(s, is_new ? 9 : 0.1), plain = open_learner(s, 0.1);
    gw_group *g = is_new ? cluster_open_group(s, rank, 1, "alone", 0)
                         : cluster_open_group(s, 0, MEMBERS - 1, "trainers", 0);
    gw_optimizer_shard(s, l.opt, .group = g, .flat = now.flat);
    for (int i = 0; i < 4 && !is_new; i++) assert_int_equal(take_step(s, &l).status, GW_OK);
    g = is_new ? gw_group_join(s, "trainers") : gw_group_reform(s, g, .min = MEMBERS);
    plan_death(1, rank);
    gw_optimizer_reformed r = gw_optimizer_reform(s, l.opt, g);
    now.bytes[rank] = gw_optimizer_state_bytes(l.opt);
    if (is_dead(rank)) return;
    if (gw_ok(s)) assert_true(r.lost == 0 && r.moved > 0);
    bool has_stepped = false;
    while (gw_optimizer_steps(l.opt) < STEPS && !is_dead(rank)) {
        gw_error e = gw_ok(s) ? take_step(s, &l) : *gw_scope_error(s);
        has_stepped |= !e.status;
        now.bytes[rank] = gw_optimizer_state_bytes(l.opt);
        if (is_dead(rank) || !e.status) continue;
        if (e.status != GW_DISCONNECTED) fail_msg("w%d: %s", rank, e.text);
        int64_t before = gw_optimizer_steps(l.opt);
        g = continue_without(s, rank, &l, g, NULL);
        has_stepped |= gw_optimizer_steps(l.opt) > before;
        if (is_dead(rank)) break;
        if (!gw_ok(s)) fail_msg("w%d: %s", rank, gw_scope_error(s)->text);
        if (!has_stepped) assert_int_equal(now.lost[gw_group_generation(g)], 0);
        if (!has_stepped) counts.completed++;
        assert_true(compare(s, rank, &l, &plain));
    }
    if (is_dead(rank)) return;
    now.has_left[rank] = true;
    while (gw_optimizer_steps(plain.opt) < STEPS) take_step(s, &plain);
    expect_same_weights(s, &l, &plain);
    if (!gw_ok(s)) fail_msg("w%d: %s", rank, gw_scope_error(s)->text);
    now.finished++;
}

static void admit_by_seed(uint64_t seed, void *context) {
    (void)context;
    now = (struct scene){ .seed = seed, .flat = seed % 2, .victims = { -1, -1 } };
    if (seed % 3) now.victims[1] = MEMBERS - 1;
    cluster_run(seed,
                (cluster_options){ .world_size = MEMBERS,
                                   .fails = true,
                                   .direct = direct,
                                   .network = sim_varied(seed, 0) },
                admit_one, NULL);
    counts.finished += now.finished;
}

static void a_member_lost_before_a_step_loses_no_state(void **state) {
    (void)state;
    counts = (struct counts){ 0 };
    testing_for_seeds(SEEDS, admit_by_seed, NULL);
    if (walks_all()) assert_true(counts.completed && counts.finished >= 3 * SEEDS);
}

// ---- Refusals -----------------------------------------------------------------------------------

static void expect_error(gw_scope *s, gw_status status, const char *text) {
    if (gw_scope_error(s)->status != status || !strstr(gw_scope_error(s)->text, text))
        fail_msg("%s: %s", gw_status_name(gw_scope_error(s)->status), gw_scope_error(s)->text);
    gw_scope_clear(s);
}

static void refuse(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s);
    learner whole = open_learner(s, 1), ranges = open_learner(s, 1), plain = open_learner(s, 1);
    gw_optimizer_shard(s, whole.opt, .group = g);
    gw_optimizer_shard(s, ranges.opt, .group = g, .flat = true);
    gw_optimizer_reform(s, plain.opt, g);
    expect_error(s, GW_INVALID, "is not sharded");
    gw_optimizer_reform(s, whole.opt, NULL);
    expect_error(s, GW_INVALID, "the group is NULL");
    gw_optimizer_reform(s, rank ? whole.opt : ranges.opt, g);
    expect_error(s, GW_MISMATCH, "gw_optimizer_reform: parameters are assigned");
    gw_map *other = gw_map_open(s);
    gw_map_put(s, other, "rule", "sgd");
    gw_optimizer_reform(s, whole.opt, g, .saved = rank ? other : NULL);
    expect_error(s, GW_INVALID, "\"rule\" is sgd, not adam");
    // None of that has changed anything.
    take_step(s, &whole);
    take_step(s, &ranges);
    take_step(s, &plain);
    expect_same_weights(s, &whole, &plain);
    expect_same_weights(s, &ranges, &plain);
    assert_true(gw_ok(s));
}

static void a_state_that_does_not_fit_is_refused_by_all(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++)
        cluster_run(seed, (cluster_options){ .world_size = 3 }, refuse, NULL);
}

// ---- With replicas ------------------------------------------------------------------------------

enum { REPLICA_STEPS = 20 };

static struct variant { bool flat, overlaps, is_shared_out; } kind;

// All members have the same batch, so that the mean over any of them equals that of one.
static gw_error walk(gw_scope *outer, gw_module *m, gw_optimizer *opt) {
    gw_scope *s = gw_scope_open(outer);
    gw_tensor *y = gw_module_call(s, m, gw_full(s, GW_F32, (double)gw_optimizer_steps(opt), 2, 4));
    gw_backward(s, gw_mean(s, gw_mul(s, y, y)));
    gw_optimizer_step(s, opt);
    return gw_scope_close(s);
}

static gw_module *open_model(gw_scope *root, double value) {
    gw_module *m = gw_nn_sequential(root, gw_nn_linear(root, 4, 6), gw_nn_linear(root, 6, 3));
    gw_scope *s = gw_scope_open(root);
    gw_no_grad(s);
    for (int i = 0; i < gw_module_parameter_count(m); i++)
        gw_fill_(s, gw_module_parameter_at(s, m, i), value * (i + 1));
    gw_scope_close_up(s);
    return m;
}

// A rule without state, so that lost state is not missed: the results are as without the lost member.
static void train_replicas(gw_scope *s, int rank, void *context) {
    (void)context;
    const bool is_new = rank == MEMBERS - 1;
    gw_group *g = is_new ? cluster_open_group(s, rank, 1, "alone", 0)
                         : cluster_open_group(s, 0, MEMBERS - 1, "trainers", 0);
    gw_module *m = open_model(s, is_new ? 9 : 0.1), *alone = open_model(s, 0.1);
    gw_ddp *ddp = gw_ddp_open(s, m, .group = g, .first_bucket_bytes = 1, .bucket_bytes = 64);
    gw_optimizer *opt = gw_sgd(s, gw_parameters(s, m), .lr = 0.01);
    gw_optimizer *plain = gw_sgd(s, gw_parameters(s, alone), .lr = 0.01);
    gw_optimizer_shard(s, opt, .group = g, .flat = kind.flat, .overlap = kind.overlaps,
                       .gradients = kind.is_shared_out ? GW_SHARDED : GW_WHOLE);
    if (is_new) {
        g = gw_group_join(s, "trainers");
        if (now.seed % 8 >= 4) gw_optimizer_reform(s, opt, g);
        gw_ddp_reform(s, ddp, opt, g);
    }
    while (gw_ok(s) && gw_optimizer_steps(opt) < REPLICA_STEPS && !is_dead(rank)) {
        if (gw_optimizer_steps(opt) == 3) plan_death(0, rank);
        gw_error e = walk(s, m, opt);
        if (is_dead(rank) || !e.status) continue;
        if (e.status != GW_DISCONNECTED) fail_msg("w%d: %s", rank, e.text);
        do {
            gw_scope_clear(s);
            g = gw_group_reform(s, g, .min = MEMBERS - 1);
            if (now.seed % 8 >= 4) gw_optimizer_reform(s, opt, g);
            gw_ddp_reform(s, ddp, opt, g);
        } while (!gw_ok(s) && !is_dead(rank) && gw_scope_error(s)->status == GW_DISCONNECTED);
    }
    if (is_dead(rank)) return;
    if (!gw_ok(s)) fail_msg("w%d: %s", rank, gw_scope_error(s)->text);
    gw_ddp_check(s, ddp);
    while (gw_optimizer_steps(plain) < REPLICA_STEPS)
        assert_int_equal(walk(s, alone, plain).status, GW_OK);
    for (int i = 0; i < gw_module_parameter_count(m); i++)
        if (!gw_allclose(s, gw_module_parameter_at(s, m, i), gw_module_parameter_at(s, alone, i)))
            fail_msg("w%d: parameter %d is not what it would have been", rank, i);
    if (!gw_ok(s)) fail_msg("w%d: %s", rank, gw_scope_error(s)->text);
    now.finished++;
}

static void train_replicas_by_seed(uint64_t seed, void *context) {
    (void)context;
    now = (struct scene){ .seed = seed, .victims = { (int)(seed % (MEMBERS - 1)), -1 } };
    kind = (struct variant){ .flat = seed % 4 == 0 || seed % 3 == 0,
                             .overlaps = seed % 4 == 1 || seed % 4 == 2,
                             .is_shared_out = seed % 4 >= 2 };
    cluster_run(seed,
                (cluster_options){ .world_size = MEMBERS,
                                   .fails = true,
                                   .direct = direct,
                                   .network = sim_varied(seed, 0) },
                train_replicas, NULL);
    assert_int_equal(now.finished, MEMBERS - 1);
}

static void replicas_with_sharded_state_and_gradients_continue(void **state) {
    (void)state;
    testing_for_seeds(SEEDS, train_replicas_by_seed, NULL);
}

GW_TESTS(shard_reform_sim, after_any_loss_the_others_continue_from_one_step,
         members_leave_and_join_without_an_effect_on_results,
         a_member_lost_before_a_step_loses_no_state,
         replicas_with_sharded_state_and_gradients_continue,
         a_state_that_does_not_fit_is_refused_by_all);
